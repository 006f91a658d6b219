"""The CUDA decodes, compiled for the host, against the numpy references: a wrong shift is found without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from cases.generators import suite
from kernels.common.cuda.build import cuda_units, translation_unit, type_name
from kernels.common.cuda.host import compile_for_host, decode_on_host, host_compiler
from kernels.provider import dequantize

LEGACY_AND_K = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"}


def test_the_legacy_and_k_encodings_have_a_cuda_decode():
    assert {unit.name for unit in cuda_units() if unit.dialect == "ggml"} >= LEGACY_AND_K


def test_a_translation_unit_names_the_type_that_its_decode_defines():
    for unit in cuda_units():
        assert f"struct {type_name(unit)} {{" in (unit.path / "decode.cuh").read_text()
        assert (
            f"elems = {unit.block_elems}, bytes = {unit.block_bytes}"
            in (unit.path / "decode.cuh").read_text()
        )
        assert f"kernels/{unit.dialect}/{unit.name}/decode.cuh" in translation_unit(unit)


if host_compiler() is not None:

    @pytest.fixture(scope="module")
    def library(tmp_path_factory):
        return compile_for_host(cuda_units(), tmp_path_factory.mktemp("host"))

    @pytest.mark.parametrize("unit", cuda_units(), ids=lambda unit: unit.encoding)
    def test_the_decode_differs_nowhere_from_the_reference(library, unit):
        compared = 0
        for case in suite(unit, random=4000, seed=11):
            got = decode_on_host(library, unit, case.blocks)
            wanted = dequantize(unit.encoding, case.blocks.reshape(-1), got.shape)
            same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
            assert same.all(), f"{case.name}: {np.argwhere(~same)[:4].tolist()}"
            compared += len(case.blocks)
        assert compared > 4000
