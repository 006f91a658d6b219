"""Rows that the tests of the quantizers share: one kind of values each, many of which once broke some quantizer."""

from __future__ import annotations

import numpy as np

ROWS, COLUMNS = 16, 512

BEYOND_A_TABLE = ("near float32's square root", "huge")
"""Kinds on which the engine ends the process for the encodings with a table of rows: their squares overflow."""


def kinds(seed: int = 11) -> dict[str, np.ndarray]:
    """Name -> float32 [ROWS, COLUMNS]."""
    rng, shape = np.random.default_rng(seed), (ROWS, COLUMNS)

    def gauss(scale: float = 1) -> np.ndarray:
        return rng.standard_normal(shape) * scale

    def thinned(zero: float) -> np.ndarray:
        return np.where(rng.random(shape) < 0.9, zero, gauss())

    outlier = gauss(0.01)
    outlier[np.arange(ROWS), rng.integers(0, COLUMNS, ROWS)] = 50
    scales = np.exp(4 * rng.standard_normal((ROWS, COLUMNS // 32))).repeat(32, axis=1)
    made = {
        "gaussian": gauss(),
        "heavy-tailed": rng.standard_t(2, shape),
        "a millionth": gauss(1e-6),
        "squares underflow": gauss(1e-20),
        "subnormal": gauss(1e-38),
        "least subnormals": gauss(1e-44),
        "ten thousand": gauss(1e4),
        "about float16's largest": rng.uniform(-6.6e4, 6.6e4, shape),
        "a million": gauss(1e6),
        "near float32's square root": gauss(1e18),
        "huge": gauss(1e30),
        "zero": np.zeros(shape),
        "minus zero": np.full(shape, -0.0),
        "zeros of both signs": np.where(rng.random(shape) < 0.5, 0.0, -0.0),
        "integers": rng.integers(-7, 8, shape),
        "bytes": rng.integers(-128, 128, shape),
        "a constant each": gauss()[:, :1].repeat(COLUMNS, axis=1),
        "2100": np.full(shape, 2100),
        "one outlier": outlier,
        "all negative": -np.abs(gauss()),
        "all positive": np.abs(gauss()),
        "mostly zero": thinned(0.0),
        "mostly minus zero": thinned(-0.0),
        "quarters": rng.integers(-64, 65, shape) / 4,
        "halves": (rng.integers(-15, 16, shape) + 0.5) / 32,
        "powers of two": np.ldexp(rng.choice([-1.0, 1.0], shape), rng.integers(-20, 20, shape)),
        "a scale a block": gauss() * scales,
        "plus and minus one": rng.choice([-1.0, 1.0], shape),
        "close together": 1 + rng.random(shape) * 1e-3,
    }
    return {name: values.astype(np.float32) for name, values in made.items()}


def importances(seed: int = 12) -> dict[str, np.ndarray]:
    """Name -> float32 [COLUMNS]: about even, spread over many magnitudes, and with columns that do not count."""
    rng = np.random.default_rng(seed)
    made = {
        "about even": rng.uniform(0.5, 1.5, COLUMNS),
        "spread": 100 * rng.standard_normal(COLUMNS) ** 4,
        "zeros among them": np.where(rng.random(COLUMNS) < 0.3, 0, rng.random(COLUMNS)),
    }
    return {name: values.astype(np.float32) for name, values in made.items()}


def not_finite(seed: int = 13) -> np.ndarray:
    """float32 [96, COLUMNS]: Gaussian rows with one, some or only NaNs of several kinds and infinities."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((96, COLUMNS)).astype(np.float32)
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7F800123, 0x7F800000, 0xFF800000], np.uint32)
    chosen = bits.view(np.float32)[np.arange(96) % 5]
    share = np.repeat([1 / COLUMNS, 0.1, 1.0], 32)[:, None]
    hit = rng.random(values.shape) < share
    hit[np.arange(32), rng.integers(0, COLUMNS, 32)] = True
    values.view(np.uint32)[hit] = np.broadcast_to(chosen.view(np.uint32)[:, None], hit.shape)[hit]
    return values
