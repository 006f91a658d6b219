"""The hint beside a verdict names the fault that was planted, and stays silent when none of the known ones fits."""

from __future__ import annotations

import numpy as np
import pytest

from harness.comparison.diagnose import diagnose

ROW, BLOCK = 2, 1
SPAN = slice(32, 64)


def wanted() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((4, 128)).astype(np.float32)


def halves_swapped(block):
    return np.roll(block, 16)


def planted(change) -> tuple[np.ndarray, np.ndarray]:
    oracle = wanted()
    subject = oracle.copy()
    subject[ROW, SPAN] = change(oracle[ROW, SPAN])
    return subject, oracle


def with_nan(block):
    block = block.copy()
    block[4] = np.nan
    return block


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (halves_swapped, "nibbles are swapped"),
        (lambda b: b.reshape(2, 16).T.ravel(), "interleaved"),
        (lambda b: b.reshape(16, 2).T.ravel(), "split halves"),
        (lambda b: b.reshape(16, 2)[:, ::-1].ravel(), "other order"),
        (lambda b: b * np.float32(1.01), "factor of 1.01"),
        (lambda b: -b, "sign"),
        (lambda b: b * 0, "zero"),
        (lambda b: b + np.float32(0.5), "off by +0.5"),
        (lambda b: np.full(32, 0xFFFFFFFF, np.uint32).view(np.float32), "never written: 32 of 32"),
        (with_nan, "lane 4"),
        (lambda b: b.astype(np.float16).astype(np.float32), "rounded to float16"),
        (lambda b: (b.view(np.uint32) & 0xFFFF0000).view(np.float32), "bfloat16 by truncation"),
    ],
)
def test_the_planted_fault_is_named(change, words):
    assert words in diagnose(*planted(change), 32, ROW, BLOCK)


def test_the_values_of_the_next_block_are_recognised():
    oracle = wanted()
    subject = oracle.copy()
    subject[ROW, SPAN] = oracle[ROW, 64:96]
    assert "block 2" in diagnose(subject, oracle, 32, ROW, BLOCK)


def test_signed_codes_read_as_unsigned_are_recognised():
    codes = np.random.default_rng(8).integers(-128, 128, (1, 64)).astype(np.int8)
    oracle = codes.astype(np.float32) * np.float32(0.03125)
    subject = codes.view(np.uint8).astype(np.float32) * np.float32(0.03125)
    assert "read as unsigned" in diagnose(subject, oracle, 32, 0, 1)


def test_the_scale_of_the_previous_block_is_recognised():
    rng = np.random.default_rng(2)
    codes, scales = (
        rng.integers(-8, 8, (4, 32)).astype(np.float32),
        np.array([0.5, 0.125, 2.0, 0.75], np.float32),
    )
    oracle = (codes * scales[:, None]).reshape(1, 128)
    subject = (codes * np.roll(scales, 1)[:, None]).reshape(1, 128)
    assert "scale of block 1" in diagnose(subject, oracle, 32, 0, 2, scales)


def test_noise_gets_no_invented_explanation():
    noise = np.random.default_rng(1).standard_normal(32).astype(np.float32)
    assert diagnose(*planted(lambda b: b + noise), 32, ROW, BLOCK) is None
