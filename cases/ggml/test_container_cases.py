"""GGUF files that hold each encoding: our reading field by field against llama.cpp's and gguf-py's, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.ggml.container import (
    FAULTS,
    LAYOUTS,
    NAME,
    READ,
    REFUSED,
    UNKNOWN_TYPES,
    can_read,
    our_reading,
    their_reading,
    write_fault,
    write_layout,
)
from cases.ggml.judges import ENGINE
from harness.errors import BadInput
from harness.evidence.case import Case
from harness.plugin.opinions import judge_of
from harness.plugin.verdict import CaseVerdict
from kernels.units import unit
from oracles.pool import Oracle, Pool, ProviderError, Unsupported, pins_for

KERNEL = "harness/containers/gguf.py:open_gguf"


@pytest.mark.cases(READ)
def test_a_file_is_read_otherwise_than_an_engine_reads_it(
    case: Case, verdict: CaseVerdict, oracle_pool: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    write_layout(path, unit(case.encoding or ""), LAYOUTS[case.axis("layout")], case.seed)
    names = [name for name in pins_for(ENGINE, "recognize") if can_read(name, case.encoding or "")]
    readers = [oracle_pool.get(name) for name in names]
    readings = {reader.name: their_reading(reader.describe(path)) for reader in readers}
    verdict.fields(our_reading(path), readings, [judge_of(reader) for reader in readers], kernel=KERNEL)


@pytest.mark.cases(REFUSED)
def test_a_broken_file_is_read(case: Case, verdict: CaseVerdict, oracle_pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    fault = case.axis("fault")
    write_fault(path, unit(case.encoding or ""), fault, case.seed)
    readers = [oracle_pool.get(name) for name in FAULTS[fault] if can_read(name, case.encoding or "")]
    readings = {reader.name: {"refused": _refused_by(reader, path)} for reader in readers}
    with pytest.raises(BadInput) as refusal:
        our_reading(path)
    assert fault == "header_cut_short" or refusal.value.tensor == NAME
    verdict.fields({"refused": True}, readings, [judge_of(reader) for reader in readers], kernel=KERNEL)


@pytest.mark.parametrize(
    ("reader", "encoding"), [(name, each) for name, found in UNKNOWN_TYPES.items() for each in found]
)
def test_an_oracle_that_knows_a_type_is_not_asked(
    reader: str, encoding: str, oracle_pool: Pool, tmp_path: Path
) -> None:
    write_layout(tmp_path / "model.gguf", unit(encoding), LAYOUTS["matrix"], 1)
    with pytest.raises(Unsupported):
        oracle_pool.get(reader).describe(tmp_path / "model.gguf")


def _refused_by(reader: Oracle, path: Path) -> bool:
    try:
        reader.describe(path)
    except ProviderError as error:
        if error.kind != "bad_request":
            raise
        return True
    return False
