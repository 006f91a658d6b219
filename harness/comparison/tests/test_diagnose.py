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
    ],
)
def test_the_planted_fault_is_named(change, words):
    assert words in diagnose(*planted(change), 32, ROW, BLOCK)


def test_the_values_of_the_next_block_are_recognised():
    oracle = wanted()
    subject = oracle.copy()
    subject[ROW, SPAN] = oracle[ROW, 64:96]
    assert "block 2" in diagnose(subject, oracle, 32, ROW, BLOCK)


def test_noise_gets_no_invented_explanation():
    noise = np.random.default_rng(1).standard_normal(32).astype(np.float32)
    assert diagnose(*planted(lambda b: b + noise), 32, ROW, BLOCK) is None
