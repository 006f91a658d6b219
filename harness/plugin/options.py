"""The options that cases add to pytest's command line. A word that fits nothing known is a usage error, never a green run."""

from __future__ import annotations

import difflib
import fnmatch
import re
import sys
from collections.abc import Iterable
from typing import NoReturn

import pytest

from harness.errors import HarnessError
from harness.evidence.required import load_required
from harness.rows.load import load_rows
from harness.rows.model import Dimension
from harness.verdicts import EXIT_BAD_INPUT

MARKERS = {
    "quant_gguf": "cases of GGUF rows",
    "quant_vllm": "cases of rows that vLLM judges",
    "quant_mlx": "cases of MLX rows",
    "quant_kv": "cases of KV-cache rows",
    "gpu": "needs a GPU; runs under the GPU lock, skipped with a reason where there is none",
    "e2e": "a whole model",
    "perf": "a timed series",
    "cases(family, ...)": "run the test once for each case of these families, as the argument `case`",
    "skip_case(row, kind, reason, owner, expires, when, cases)": "skip, as docs/skips.md says",
    "xfail_case(row, phase, raises, reason, owner, expires, when, cases, verdict)": "fails, as docs/skips.md says",
}
_MARKER_WORD = re.compile(r"[A-Za-z_][\w]*")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cases", "cases and evidence")
    group.addoption(
        "--rows", action="append", default=[], metavar="GLOB", help="only cases of these coverage rows"
    )
    group.addoption("--cases", action="append", default=[], metavar="GLOB", help="only cases with these IDs")
    group.addoption(
        "--backends", action="append", default=[], metavar="GLOB", help="only cases on these backends"
    )
    group.addoption(
        "--dimension", action="append", default=[], metavar="NAME", help="only cases of this dimension"
    )
    group.addoption(
        "--repeat", type=int, default=1, metavar="N", help="run each case N times and compare bit for bit"
    )
    group.addoption(
        "--shuffle", type=int, default=None, metavar="SEED", help="run in random order; 0 draws a seed"
    )
    group.addoption("--evidence", metavar="DIR", help="where runs are kept (default: results/runs)")
    group.addoption("--no-evidence", action="store_true", help="keep no evidence of this run")
    group.addoption(
        "--resume", metavar="RUN", help="go on with this run: what it has evidence of is left out"
    )
    group.addoption(
        "--update-required", action="store_true", help="write cases/required anew from what is collected"
    )
    _exit_two_on_unknown_options(parser)


def _exit_two_on_unknown_options(parser: pytest.Parser) -> None:
    """pytest ends with 4 when an option is unknown, before any hook could change it."""

    def error(message: str) -> NoReturn:
        sys.stderr.write(f"{parser.optparser.format_usage()}pytest: error: {message}\n")
        raise SystemExit(EXIT_BAD_INPUT)

    parser.optparser.error = error  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for marker, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")
    try:
        _check(config)
    except HarnessError as problem:
        raise pytest.UsageError(str(problem)) from None


def _check(config: pytest.Config) -> None:
    """Refuse what can match nothing, whatever is collected: each word is held against the list it is from."""
    rows = load_rows()
    for pattern in config.option.rows:
        _some("--rows", pattern, "row", rows)
    for pattern in config.option.dimension:
        _some("--dimension", pattern, "dimension", list(Dimension))
    for pattern in config.option.backends:
        _some("--backends", pattern, "backend", _backends())
    required = load_required(config.rootpath).by_case if config.option.cases else {}
    for pattern in config.option.cases if required else ():
        _some("--cases", pattern, "case", required)
    if config.option.repeat < 1:
        raise pytest.UsageError(f"--repeat {config.option.repeat}: wanted at least 1")
    if config.option.resume and config.option.no_evidence:
        raise pytest.UsageError("--resume goes on writing evidence; it does not fit --no-evidence")
    if config.option.update_required and not config.option.collectonly:
        raise pytest.UsageError("--update-required goes with --collect-only")
    _check_markers(config)
    for argument in config.args:
        path = (config.invocation_params.dir / argument.split("::")[0]).absolute()
        if not path.exists() and not config.option.pyargs:
            raise pytest.UsageError(f"file or directory not found: {argument}")


def _some(option: str, pattern: str, what: str, known: Iterable[str]) -> None:
    names = list(known)
    if any(fnmatch.fnmatchcase(name, pattern) for name in names):
        return
    near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise pytest.UsageError(f"{option} {pattern}: no {what} fits it{hint}")


def _backends() -> set[str]:
    return {
        backend
        for row in load_rows().values()
        for dimension in row.dimensions.values()
        for backend in dimension.backends
    }


def _check_markers(config: pytest.Config) -> None:
    expression = re.sub(r"\([^)]*=[^)]*\)", "", config.option.markexpr or "")
    known = {re.split(r"[:(]", line)[0].strip() for line in config.getini("markers")}
    for word in _MARKER_WORD.findall(expression):
        if word not in {"and", "or", "not", "True", "False"}:
            _some("-m", word, "marker", known)
