"""Which tile is fastest on this GPU: candidates for the tables of `plan`, timed on one shape.

    python -m kernels.common.triton.device_sweep [--encodings q4_k,q6_k,q4_0,iq2_xxs] [--jobs N] [--seconds S] [--json FILE]

A candidate whose product is not within a hundredth of the default's, in norm, is reported as wrong and not timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from kernels import triton_provider
from kernels.common.triton.device_data import random_weights
from kernels.common.triton.device_time import Timing, make_weights, time_matmul
from kernels.common.triton.plan import Loop, Plan, Tile, decoder, plan_matmul
from kernels.units import unit

DEVICE = "cuda:0"
SHAPE = (14336, 4096)
MATVEC_MS = (1, 4, 8)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A loop, a tile and a number of splits (None: by the rule) for one product."""

    encoding: str
    m: int
    activation: str
    loop: Loop
    tile: Tile
    splits: int | None = None


def candidates(encoding: str) -> Iterator[Candidate]:
    """What is worth a look."""
    widths = ((32, 1), (64, 2), (128, 4), (256, 8))
    for m, rows_w, (groups, warps) in itertools.product(MATVEC_MS, (2, 4, 8), widths):
        yield Candidate(encoding, m, "float16", "matvec", Tile(m, rows_w, groups, warps, 1))
    for activation in ("float16", "bfloat16"):
        for rows_w, groups, stages, splits in itertools.product(
            (32, 64, 128), (16, 32), (1, 2, 3), (1, 2, 4)
        ):
            tile = Tile(16, rows_w, groups, 4, stages)
            for m in (16, *MATVEC_MS) if stages == 1 else (16,):
                yield Candidate(encoding, m, activation, "matmul", tile, splits)
        for m, (rows_x, rows_w, warps), stages in itertools.product(
            (128, 512),
            (
                (64, 64, 4),
                (64, 128, 4),
                (64, 128, 8),
                (128, 64, 4),
                (128, 64, 8),
                (128, 128, 8),
                (128, 256, 8),
            ),
            (1, 2),
        ):
            yield Candidate(encoding, m, activation, "matmul", Tile(rows_x, rows_w, 16, warps, stages))


def plan_of(candidate: Candidate) -> Plan:
    """The default plan with the candidate's tile and splits in its place."""
    found = unit(candidate.encoding)
    n, k = SHAPE
    tile = dataclasses.replace(candidate.tile, groups=max(candidate.tile.groups, decoder(found).GROUPS))
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    return plan_matmul(
        found, candidate.m, n, k, candidate.activation, processors, candidate.splits, tile, candidate.loop
    )


def try_candidate(candidate: Candidate) -> str:
    """Compile and run it once on few rows of weights; what is wrong with it, or nothing."""
    found = unit(candidate.encoding)
    n, k = 512, SHAPE[1]
    data = random_weights(found, (n, k), DEVICE, 1)
    x = torch.randn((candidate.m, k), device=DEVICE).to(getattr(torch, candidate.activation))
    try:
        got = triton_provider.matmul(candidate.encoding, x, data, (n, k), plan=plan_of(candidate))
        expected = triton_provider.matmul(candidate.encoding, x, data, (n, k))
        error = float((got - expected).norm() / expected.norm())
    except Exception as problem:  # noqa: BLE001 - a tile that does not fit is a result
        return f"{type(problem).__name__}: {str(problem).strip()[:200]}"
    return "" if error < 0.01 else f"relative error {error:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description="Time candidate tiles.")
    parser.add_argument("--encodings", default="q4_k,q6_k,q4_0,iq2_xxs")
    parser.add_argument("--jobs", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    deadline = time.monotonic() + chosen.seconds
    rows: list[dict[str, Any]] = []
    for encoding in (unit(f"ggml.{name}").encoding for name in chosen.encodings.split(",")):
        todo = list(candidates(encoding))
        with multiprocessing.get_context("spawn").Pool(chosen.jobs) as pool:
            problems = pool.map(try_candidate, todo, chunksize=2)
        weights = make_weights(encoding, SHAPE, DEVICE)
        timings: dict[tuple[int, str], list[Timing]] = {}
        for candidate, problem in zip(todo, problems, strict=True):
            if problem or time.monotonic() > deadline:
                rows.append(
                    {"candidate": dataclasses.asdict(candidate), "problem": problem or "no time left"}
                )
                continue
            timing = time_matmul(weights, candidate.m, candidate.activation, plan_of(candidate))
            rows.append({"candidate": dataclasses.asdict(candidate), "timing": timing})
            timings.setdefault((candidate.m, candidate.activation), []).append(timing)
        for (m, activation), found in timings.items():
            best = sorted(found, key=lambda timing: float(timing["median_us"]))[:4]
            text = "; ".join(f"{t['median_us']:.1f} us {t['tile']} splits {t['splits']}" for t in best)
            print(f"{encoding} m {m} {activation}: {text}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1))
    wrong = [row for row in rows if "relative error" in row.get("problem", "")]
    for row in wrong:
        print(f"wrong: {row}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
