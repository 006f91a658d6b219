"""Each public bug, planted: it is seen on the operands of its case, and not on others that are as ordinary as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cases.generators import Blocks, columns, every_code, random_blocks, scale_fields, with_unit_scales
from cases.ggml import adversarial, backend_ops, far
from cases.ggml.public_bugs import (
    DATA,
    DECODES,
    PRODUCTS,
    Operands,
    load_bugs,
    ordinary,
    read_bugs,
    scale_bytes,
)
from cases.ggml.same_bits import first_changed
from harness.comparison.bounds import BIT_EXACT, dot_product_bound
from harness.errors import BadInput
from harness.evidence.case import Family
from harness.paths import REPOSITORY
from harness.plugin.judging import Opinion, judge
from harness.plugin.opinions import own_judge
from harness.verdicts import Verdict
from kernels.provider import dequantize
from kernels.units import Unit, unit

Values = npt.NDArray[np.float32]
BUGS = {bug.name: bug for bug in load_bugs().bugs}
RIGHT = own_judge("right", [Path(__file__)])


def decode(found: Unit, blocks: Blocks) -> Values:
    return dequantize(
        found.encoding, np.ascontiguousarray(blocks).reshape(-1), (len(blocks), found.block_elems)
    )


def unscaled(found: Unit, blocks: Blocks) -> Values:
    """The codes alone: the values under scales of one."""
    return decode(found, with_unit_scales(found, blocks.copy()))


# Wrong decodes: blocks -> values.


def codes_two_bytes_early(found: Unit, blocks: Blocks) -> Values:
    wrong = blocks.copy()
    wrong[:, 4:] = blocks[:, 2:-2]
    return decode(found, wrong)


def in_pairs(found: Unit, blocks: Blocks) -> Values:
    """Both codes of a byte side by side, where the right ones are half a block apart."""
    part = 16 if found.encoding == "ggml.nvfp4" else 32
    halves = decode(found, blocks).reshape(-1, 2, part // 2)
    return halves.transpose(0, 2, 1).reshape(len(blocks), -1)


def shifted_into_the_exponent(found: Unit, blocks: Blocks) -> Values:
    """Half of the float whose exponent is the byte: nothing for 0, infinity for 255."""
    scales = (blocks[:, 0].astype(np.uint32) << 23).view(np.float32) / np.float32(2)
    with np.errstate(over="ignore", invalid="ignore"):
        return unscaled(found, blocks) * 2 * scales[:, None]


def half_as_normal(found: Unit, blocks: Blocks) -> Values:
    codes, right = unscaled(found, blocks), decode(found, blocks)
    half = np.abs(unscaled(found, every_code(found)[1:2])[0, 0])
    return np.where(np.abs(codes) == half, np.float32(1.5) * right, right)


def scale_as_normal(found: Unit, blocks: Blocks) -> Values:
    """(1 + m / 8) 2^-7 for the bytes below 8, which are m / 8 times 2^-6."""
    (field,) = scale_fields(found)
    m = blocks[:, columns(field)].astype(np.float32)
    factor = np.where((m > 0) & (m < 8), (8 + m) / (2 * np.maximum(m, 1)), 1).astype(np.float32)
    return decode(found, blocks) * np.repeat(factor, found.block_elems // field.bytes, axis=1)


# Data on which these are right.


def the_same_everywhere(found: Unit, _rng: np.random.Generator) -> Blocks:
    """Codes of 7 under a minimum of the same bytes."""
    blocks = with_unit_scales(found, np.full((4, found.block_bytes), 0x77, np.uint8))
    blocks[:, 2:4] = 0x77
    return blocks


def without_halves(found: Unit, rng: np.random.Generator) -> Blocks:
    blocks = with_unit_scales(found, random_blocks(found, 64, rng))
    (field,) = scale_fields(found)
    packed = np.delete(np.arange(found.block_bytes), np.arange(found.block_bytes)[columns(field)])
    blocks[:, packed] |= 0x22
    return blocks


WRONG_DECODES: Mapping[str, tuple[Callable[[Unit, Blocks], Values], Callable[..., Blocks]]] = {
    "q4_1_header": (codes_two_bytes_early, the_same_everywhere),
    "nibble_order": (in_pairs, lambda found, _: every_code(found)),
    "e8m0_edges": (shifted_into_the_exponent, scale_bytes((2, 100, 133, 254))),
    "e2m1_half": (half_as_normal, without_halves),
    "ue4m3_subnormal": (scale_as_normal, scale_bytes((8, 56, 126))),
}


def of(op: str) -> list[tuple[str, str]]:
    return [(name, encoding) for name, bug in BUGS.items() if bug.op == op for encoding in bug.encodings]


def verdict_of_decode(name: str, found: Unit, blocks: Blocks) -> Verdict:
    wrong = WRONG_DECODES[name][0](found, blocks).astype(np.float32)
    return judge(wrong, [Opinion(RIGHT, decode(found, blocks))], BIT_EXACT, found.block_elems).verdict


@pytest.mark.parametrize(("name", "encoding"), of("dequantize"))
def test_a_decode_with_the_bug_passes_its_case(name: str, encoding: str) -> None:
    found, rng = unit(encoding), np.random.default_rng(7)
    assert verdict_of_decode(name, found, DECODES[name](found, rng)) in (
        Verdict.FAIL_VALUE,
        Verdict.FAIL_NONFINITE,
    )
    # Otherwise anything would show it, and the case would be no more than a decode.
    assert verdict_of_decode(name, found, WRONG_DECODES[name][1](found, rng)) is Verdict.PASS


def test_a_scale_byte_of_134_that_is_taken_for_signed_passes() -> None:
    found = unit("ggml.mxfp4")
    blocks = DECODES["e8m0_edges"](found, np.random.default_rng(7))
    blocks = blocks[blocks[:, 0] == 134]
    signed = unscaled(found, blocks) * np.float32(2) * np.float32(2.0 ** (134 - 256)) / np.float32(2)
    assert len(blocks) >= 64
    assert judge(signed, [Opinion(RIGHT, decode(found, blocks))], BIT_EXACT).verdict is Verdict.FAIL_VALUE


# Wrong products: x [m, k], weights [n, k] -> values [m, n].


def exact(x: Values, w: Values) -> npt.NDArray[np.float64]:
    return x.astype(np.float64) @ w.astype(np.float64).T


def block_sums_in_half(x: Values, w: Values) -> npt.NDArray[np.float64]:
    beyond = (np.abs(x.reshape(len(x), -1, 32).sum(axis=2)) > 65504).any(axis=1)
    return np.where(beyond[:, None], np.inf, exact(x, w))


def sum_in_half(x: Values, w: Values) -> npt.NDArray[np.float64]:
    right = exact(x, w)
    return np.where(np.abs(right) > 65504, np.inf, right)


def divided_by_zero(x: Values, w: Values) -> npt.NDArray[np.float64]:
    idle = (~x.reshape(len(x), -1, 32).any(axis=2)).any(axis=1)
    return np.where(idle[:, None], np.nan, exact(x, w))


def tile_of_three_and_four(x: Values, w: Values) -> npt.NDArray[np.float64]:
    right = exact(x, w)
    if len(x) in (3, 4):
        right[2:] = right[1]
    return right


def rows_to_the_next_four(x: Values, w: Values) -> npt.NDArray[np.float64]:
    right = exact(x, w)
    right[len(x) // 4 * 4 :] = np.nan
    return right


def scales_by_column(x: Values, w: Values) -> npt.NDArray[np.float64]:
    m, k = x.shape
    scales = np.abs(x.reshape(m, -1, 32)).max(axis=2)
    read = scales.reshape(k // 32, m).T
    return exact((x.reshape(m, -1, 32) * (read / scales)[:, :, None]).reshape(m, k), w)


def scale_of_the_next_block(x: Values, w: Values) -> npt.NDArray[np.float64]:
    blocks = w.reshape(len(w), -1, 64).copy()
    scales = np.abs(blocks).max(axis=2)
    blocks[:, 2:-1] *= (scales[:, 3:] / scales[:, 2:-1])[:, :, None]
    return exact(x, blocks.reshape(w.shape))


def tiles_of_64_rounded_down(x: Values, w: Values) -> npt.NDArray[np.float64]:
    right = exact(x, w)
    right[:, len(w) // 64 * 64 :] = np.nan
    return right


def raw_scale_below_eight(x: Values, w: Values) -> npt.NDArray[np.float64]:
    return exact(x, w) * (127 if len(w) < 8 else 1)


def one_scale(found: Unit, rng: np.random.Generator) -> Operands:
    drawn = ordinary(2, 33, 256)(found, rng)
    return Operands(drawn.x, np.broadcast_to(drawn.blocks[:1], drawn.blocks.shape).copy(), 33)


ORDINARY = ordinary(3, 33, 768)
WRONG_PRODUCTS: Mapping[
    str, tuple[Callable[[Values, Values], npt.NDArray[np.float64]], Callable[..., Operands]]
] = {
    "constant_2100": (block_sums_in_half, ORDINARY),
    "dot_beyond_half": (sum_in_half, ORDINARY),
    "zero_block": (divided_by_zero, ORDINARY),
    "rows_3": (tile_of_three_and_four, ordinary(2, 33, 768)),
    "rows_4": (tile_of_three_and_four, ordinary(5, 33, 768)),
    "rows_5": (rows_to_the_next_four, ordinary(4, 33, 768)),
    "rows_127": (rows_to_the_next_four, ordinary(128, 5, 256)),
    "rows_129": (rows_to_the_next_four, ordinary(128, 5, 256)),
    "scales_of_two_rows": (scales_by_column, ordinary(1, 33, 768)),
    "scale_of_next_tile": (scale_of_the_next_block, one_scale),
    "trailing_columns": (tiles_of_64_rounded_down, ordinary(1, 128, 1024)),
    "few_columns": (raw_scale_below_eight, ordinary(2, 8, 768)),
}


def verdict_of_product(name: str, found: Unit, drawn: Operands) -> Verdict:
    k = drawn.x.shape[1]
    w = dequantize(found.encoding, drawn.blocks.reshape(-1), (drawn.n, k))
    size = np.abs(drawn.x).astype(np.float64) @ np.abs(w).astype(np.float64).T
    opinion = Opinion(RIGHT, exact(drawn.x, w).astype(np.float32))
    wrong = WRONG_PRODUCTS[name][0](drawn.x, w).astype(np.float32)
    return judge(wrong, [opinion], dot_product_bound(k, size, 2.0**-24)).verdict


@pytest.mark.parametrize(("name", "encoding"), [pair for pair in of("matmul") if pair[0] != "same_bits"])
def test_a_product_with_the_bug_passes_its_case(name: str, encoding: str) -> None:
    found, rng = unit(encoding), np.random.default_rng(7)
    assert verdict_of_product(name, found, PRODUCTS[name](found, rng)) in (
        Verdict.FAIL_VALUE,
        Verdict.FAIL_NONFINITE,
    )
    assert verdict_of_product(name, found, WRONG_PRODUCTS[name][1](found, rng)) is Verdict.PASS


def test_a_bit_that_changes_in_the_last_run_is_not_seen() -> None:
    runs = [np.ones((3, 4), np.float32) for _ in range(4)]
    assert first_changed(runs[0], runs[1:]) is None
    runs[3][2, 3] = np.nextafter(np.float32(1), np.float32(2))
    assert first_changed(runs[0], runs[1:]) == 4
    runs[1][0, 0] = -0.0
    assert first_changed(runs[0], runs[1:]) == 2
    assert PRODUCTS["same_bits"](unit("ggml.q8_0"), np.random.default_rng(0)).runs > 2


def test_a_bug_of_the_table_has_no_operands_or_no_fault() -> None:
    decodes = [name for name, bug in BUGS.items() if bug.op == "dequantize"]
    products = [name for name, bug in BUGS.items() if bug.op == "matmul"]
    assert sorted(DECODES) == sorted(WRONG_DECODES) == sorted(decodes)
    assert sorted(PRODUCTS) == sorted([*WRONG_PRODUCTS, "same_bits"]) == sorted(products)


def test_what_is_said_to_be_tested_elsewhere_is_not() -> None:
    modules = (far, adversarial, backend_ops)
    families = {
        family.name
        for module in modules
        for value in vars(module).values()
        for family in (value if isinstance(value, tuple) else (value,))
        if isinstance(family, Family)
    }
    for entry in load_bugs().elsewhere:
        for place in entry.tested_by:
            path, _, test = place.partition("::")
            if test:
                assert f"def {test}(" in (REPOSITORY / path).read_text(encoding="utf-8"), place
            else:
                assert place in families


def test_the_page_leaves_a_bug_out() -> None:
    page = (REPOSITORY / "docs/adversarial.md").read_text(encoding="utf-8")
    table = load_bugs()
    assert [bug.name for bug in table.bugs if f"`{bug.name}`" not in page] == []
    assert [at for entry in (*table.bugs, *table.elsewhere) for at in entry.where if at not in page] == []


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("name: nibble_order", "name: q4_1_header", "every name once"),
        ("op: dequantize", "op: quantize", "dequantize"),
        ("went_wrong:", "went_worng:", "went_wrong"),
    ],
)
def test_a_broken_table_is_read(old: str, new: str, field: str, tmp_path: Path) -> None:
    file = tmp_path / "bugs.yaml"
    file.write_text(DATA.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=field):
        read_bugs(file)
