# make compare   the real checkpoint against pinned llama.cpp, bit for bit
# make test      lint, types, tests; make test-all also runs what is too long for every change
PYTHON ?= $(shell for p in python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: compare test test-all lint clean

compare: $(VENV)/.core
	$(BIN)/harness compare --checkpoint demo:smollm2 --oracle llama_cpp

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n $(JOBS) --refresh
	$(BIN)/harness audit --baseline results/audit.json
	$(BIN)/harness results check latest

test-all: $(VENV)/.test lint
	$(BIN)/python -m pytest -n $(JOBS) --refresh --nightly

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or 3.12 is needed; name one with PYTHON=..." >&2; exit 3; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache
