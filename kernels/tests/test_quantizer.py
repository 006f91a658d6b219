"""The interface of our quantizers: what it refuses by name, and what a result must not depend on."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageProblem
from kernels.quantizer import CHUNK_WEIGHTS, NEEDS_IMPORTANCE, offered, quantize, quantize_activation
from kernels.tests.quantize_rows import COLUMNS, importances
from kernels.units import encoded_bytes, load_units, unit

WEIGHTS, ACTIVATIONS = (offered()[op] for op in ("quantize", "quantize_activation"))
EVEN = importances()["about even"]


def some_rows(rows: int, columns: int = COLUMNS) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((rows, columns)).astype(np.float32)


def encoded(encoding: str, values: np.ndarray) -> np.ndarray:
    """By an importance matrix where the encoding can use one."""
    return quantize(encoding, values, EVEN[: values.shape[-1]])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[0.0] * 32], "values: got list, wanted a numpy array"),
        (np.zeros((1, 32)), "values: got float64, wanted float32"),
        (np.float32(1)[...], "values: got no dimension, wanted at least one"),
        (np.zeros((2, 33), np.float32), r"shape \(2, 33\): the last dimension, 33, is not a multiple"),
        (np.zeros((2, 64), np.float32)[:, ::2], "values: got strides .*, wanted contiguous memory"),
        (np.zeros((64, 32), np.float32).T, "values: got strides"),
    ],
)
@pytest.mark.parametrize("op", [quantize, quantize_activation])
def test_values_of_another_kind_are_encoded(op: Any, values: Any, said: str) -> None:
    with pytest.raises(UsageProblem, match=said) as caught:
        op("ggml.q8_0", values)
    assert "ggml.q8_0" in str(caught.value)


@pytest.mark.parametrize(
    ("imatrix", "said"),
    [
        ([1.0] * 32, "imatrix: got list, wanted a numpy array"),
        (np.ones(32), "imatrix: got float64, wanted float32"),
        (np.ones(31, np.float32), r"imatrix: got shape \(31,\), wanted \(32,\), a weight a column"),
        (np.ones((1, 32), np.float32), r"imatrix: got shape \(1, 32\)"),
    ],
)
def test_an_importance_matrix_of_another_kind_is_used(imatrix: Any, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        quantize("ggml.q4_0", np.zeros((1, 32), np.float32), imatrix)


@pytest.mark.parametrize("encoding", sorted(NEEDS_IMPORTANCE))
def test_an_encoding_that_needs_importance_does_without(encoding: str) -> None:
    said = (
        f"quantize {encoding}: imatrix: got none, wanted one: it is quantized with an importance matrix only"
    )
    with pytest.raises(UsageProblem, match=said):
        quantize(encoding, np.zeros((1, 256), np.float32))


def test_an_encoding_without_a_quantizer_is_encoded() -> None:
    with pytest.raises(UsageProblem, match=r"quantize: there is none for ggml\.q8_1"):
        quantize("ggml.q8_1", np.zeros((1, 32), np.float32))
    with pytest.raises(UsageProblem, match=r"quantize_activation: there is none for ggml\.q4_k"):
        quantize_activation("ggml.q4_k", np.zeros((1, 256), np.float32))
    with pytest.raises(UsageProblem, match="unknown encoding"):
        quantize("ggml.q9_k", np.zeros((1, 256), np.float32))


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_a_row_depends_on_the_rows_beside_it(encoding: str) -> None:
    """Sums over one column or over many, in one chunk or in several, run in the same order."""
    rows = 2 * CHUNK_WEIGHTS // COLUMNS + 1
    values = some_rows(rows)
    together = encoded(encoding, values).reshape(rows, -1)
    for row in (0, 1, CHUNK_WEIGHTS // COLUMNS - 1, CHUNK_WEIGHTS // COLUMNS, rows - 1):
        np.testing.assert_array_equal(encoded(encoding, values[row]), together[row])


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_a_single_block_is_summed_in_another_order(encoding: str) -> None:
    found = unit(encoding)
    values = np.repeat(some_rows(1, max(found.block_elems, 32)), 3, axis=0)
    alone, many = encoded(encoding, values[:1]), encoded(encoding, values)
    np.testing.assert_array_equal(np.tile(alone, 3), many)


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_values_are_overwritten(encoding: str) -> None:
    values = some_rows(3)
    kept = values.copy()
    values.flags.writeable = False
    encoded(encoding, values)
    np.testing.assert_array_equal(values, kept)


@pytest.mark.parametrize("encoding", WEIGHTS)
def test_the_bytes_do_not_have_the_shape_of_the_values(encoding: str) -> None:
    found = unit(encoding)
    for shape in ((2, 3, COLUMNS), (COLUMNS,), (0, COLUMNS)):
        data = encoded(encoding, np.zeros(shape, np.float32))
        assert data.dtype == np.uint8
        assert data.shape == (encoded_bytes(found, shape),)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_depend_on_the_rows_beside_them(activation: str) -> None:
    values = some_rows(2 * CHUNK_WEIGHTS // COLUMNS + 1)
    together = quantize_activation(activation, values).reshape(len(values), -1)
    np.testing.assert_array_equal(quantize_activation(activation, values[-1]), together[-1])


@pytest.mark.parametrize("encoding", [*WEIGHTS, *ACTIVATIONS])
def test_a_quantizer_imports_more_than_numpy_and_its_shared_steps(encoding: str) -> None:
    tree = ast.parse((unit(encoding).path / "quantize.py").read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").rpartition(".")[0] or (node.module or ""))
    assert imported <= {"numpy", "kernels.common.numpy"}


def test_a_unit_claims_a_quantizer_that_it_does_not_have() -> None:
    claimed = {name for name, found in load_units().items() if "cpu" in found.ops.get("quantize", ())}
    assert claimed == set(WEIGHTS)
