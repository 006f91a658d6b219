"""The parts of a format, one table a kind: what belongs to it, where it lies, and which stub stands there at first.

A unit's `bar.yaml` names the same parts, each with a file or with the reason why there is none. A part that is not written
yet holds a line `UNWRITTEN: <format>: <part>`: the stub fails with these words, and `harness audit` finds them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.newformat.request import Kind, Request

MARKER = re.compile(r'UNWRITTEN: (?P<format>[a-z0-9_.]+): (?P<part>[a-z_]+)(: (?P<what>[\w.]+)(?="))?')

CASES, JUDGED = "cases/units/{identifier}.py", "cases/units/test_{identifier}.py"
_UNIT = "kernels/{dialect}/{name}"
GGML_FORMULAS = "cases/ggml/formulas.py"


@dataclass(frozen=True)
class Part:
    """`file` from the tree's root; `function` has to be in it; `template` is None where another part's brings the file,
    or where nothing can stand until the part is there. `meaning` is for people."""

    name: str
    file: str
    template: str | None
    meaning: str
    function: str = ""


_BAR = (
    Part(
        "strategy",
        JUDGED,
        None,
        "the kernel that is meant is the one that is chosen",
        "test_another_kernel_than_the_one_that_is_meant_is_chosen",
    ),
    Part(
        "accuracy",
        JUDGED,
        None,
        "a product stays within its bound of the exact one",
        "test_a_product_is_further_from_the_exact_one_than_its_bound",
    ),
    Part(
        "golden",
        JUDGED,
        None,
        "what was decoded before is decoded to the same bits",
        "test_what_was_decoded_before_is_decoded_to_other_bits",
    ),
    Part(
        "compatibility",
        JUDGED,
        None,
        "what another program wrote is read as it was meant",
        "test_what_another_program_wrote_is_read_otherwise",
    ),
)
_PERF = Part("perf", "recipes/perf/{identifier}.yaml", None, "a recipe times it against a pinned engine")
_TRITON = Part("triton", f"{_UNIT}/triton.py", "triton.py", "the Triton kernel")

ENCODING = (
    Part("unit", f"{_UNIT}/unit.yaml", "unit.yaml", "geometry, formula, ops, rows and the docs line"),
    Part("reference", f"{_UNIT}/reference.py", "reference.py", "the decode in numpy", "decode"),
    Part("known", f"{_UNIT}/known.yaml", "known.yaml", "answers derived by hand"),
    Part("quantize", f"{_UNIT}/quantize.py", "quantize.py", "the quantizer in numpy", "encode"),
    _TRITON,
    Part("cuda", f"{_UNIT}/decode.cuh", "decode.cuh", "the CUDA decode"),
    Part("metal", f"{_UNIT}/decode.metal", "decode.metal", "the Metal decode"),
    Part("formula", CASES, "cases.py", "the decode in float64, which judges ours", "formula"),
    Part("cases", JUDGED, "test_cases.py", "the cases, and the verdicts on them"),
    *_BAR,
    _PERF,
)
METHOD = (
    Part("method", f"{_UNIT}/method.py", "method.py", "config, linear and MoE class, and the three doors"),
    Part("reference", f"{_UNIT}/reference.py", "reference.py", "the product of a layer in numpy", "matmul"),
    _TRITON,
    Part("cuda", f"{_UNIT}/kernel.cuh", "kernel.cuh", "the CUDA kernel"),
    Part("metal", f"{_UNIT}/kernel.metal", "kernel.metal", "the Metal kernel"),
    Part("cases", JUDGED, "test_cases.py", "the cases, and the verdicts on them"),
    *_BAR,
    _PERF,
)
PARTS: Mapping[Kind, tuple[Part, ...]] = {"encoding": ENCODING, "method": METHOD}


def parts_of(request: Request) -> tuple[Part, ...]:
    """The parts of one format, their files filled in. The families of `ggml` follow the units by themselves: there only
    the formula is to be added, where the others are."""
    words = {"dialect": request.dialect, "name": request.name, "identifier": request.identifier}
    found = []
    for part in PARTS[request.kind]:
        file, template, function = part.file.format(**words), part.template, part.function
        if request.dialect == "ggml" and request.kind == "encoding":
            if part.name == "formula":
                file, template, function = GGML_FORMULAS, None, f"_{request.name}"
            elif part.name == "cases":
                template = "test_bar.py"
        found.append(Part(part.name, file, template, part.meaning, function))
    return tuple(found)
