"""Check our Triton kernels on the GPU of this machine, then time them.

    python -m kernels.gpu_check [--encodings q4_k,q6_k] [--part I/N] [--only check|time] [--seconds S] [--json FILE]

Checks run in several processes, which compile what the timing needs; an encoding that failed one is not timed. Run it
under the GPU lock, or the timings mean nothing. Exit 0 when everything ran and was right, 1 when something was wrong,
3 when something did not run: the time was up, or a process died.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]
import triton  # type: ignore[import-not-found,unused-ignore]

from harness.errors import HarnessError
from kernels import triton_provider
from kernels.common.triton.device_check import Check, check_encoding
from kernels.common.triton.device_time import (
    Timing,
    copy_bandwidth,
    make_weights,
    time_dequantize,
    time_matmul,
)
from kernels.units import load_units, unit

DEVICE = "cuda:0"
MS = [1, 2, 3, 4, 7, 8, 16, 33, 128, 512]
SHAPES = [(14336, 4096), (4096, 4096), (28672, 8192)]
"""(n, k): feed-forward and attention of an 8B model, feed-forward of a 70B one."""

TIMED_ACTIVATIONS = ("float16", "bfloat16")
FAILED = "FAIL"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module."""
    chosen = _parse(arguments)
    deadline = time.monotonic() + chosen.seconds
    try:
        encodings = _encodings(chosen.encodings, chosen.part)
        print(
            f"{triton_provider.backend(DEVICE)}, {torch.cuda.get_device_name(0)}, {len(encodings)} encodings"
        )
    except HarnessError as problem:
        print(f"gpu_check: {problem}", file=sys.stderr)
        return problem.exit_code
    report: dict[str, Any] = {
        "schema": 1,
        "environment": _environment(),
        "checks": [],
        "times": [],
        "not_run": [],
    }
    if chosen.only in (None, "check"):
        checks, missing = _check_all(encodings, chosen.jobs, deadline)
        report["checks"] += checks
        report["not_run"] += [f"check {encoding}" for encoding in missing]
    if chosen.only in (None, "time"):
        wrong = {check["encoding"] for check in report["checks"] if check["verdict"].startswith(FAILED)}
        report["environment"]["copy_gbps"] = copy_bandwidth(DEVICE)
        for encoding in encodings:
            if encoding in wrong or time.monotonic() > deadline or f"check {encoding}" in report["not_run"]:
                report["not_run"].append(f"time {encoding}")
                continue
            report["times"] += _time(encoding)
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=1))
    return _conclude(report)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check and time the Triton kernels on a GPU.")
    parser.add_argument("--encodings", default="", help="names such as q4_k, comma-separated; default all")
    parser.add_argument("--part", default="1/1", help="I/N: the I-th of N parts of the encodings")
    parser.add_argument("--only", choices=("check", "time"))
    parser.add_argument(
        "--seconds", type=float, default=520.0, help="start nothing new after so many seconds"
    )
    parser.add_argument("--jobs", type=int, default=max(1, min(14, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


def _encodings(names: str, part: str) -> list[str]:
    index, count = (int(text) for text in part.split("/"))
    wanted = [unit(f"ggml.{name}").encoding for name in names.split(",") if name]
    everything = wanted or [
        found.encoding for found in load_units().values() if (found.path / "triton.py").is_file()
    ]
    return everything[index - 1 :: count]


def _environment() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "processors": properties.multi_processor_count,
        "backend": triton_provider.backend(DEVICE),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _check_all(encodings: list[str], jobs: int, deadline: float) -> tuple[list[Check], list[str]]:
    """The checks of all encodings, several at a time, and the encodings that were not checked to the end.

    Each has a process of its own: after a fault on the device a process can do nothing more with it.
    """
    checks: list[Check] = []
    left = set(encodings)
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(encodings)), maxtasksperchild=1) as pool:
        results = pool.imap_unordered(_check_one, encodings)
        for _ in encodings:
            try:
                encoding, found, problem = results.next(max(1.0, deadline - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("check: the time is up", flush=True)
                break
            if problem:
                print(f"{encoding}: {problem}", flush=True)
                continue
            checks += _shown(found)
            left.discard(encoding)
    return checks, sorted(left)


def _check_one(encoding: str) -> tuple[str, list[Check], str]:
    try:
        return encoding, check_encoding(encoding, SHAPES, MS, DEVICE), ""
    except Exception as problem:  # noqa: BLE001 - whatever a kernel does, the others still run
        return encoding, [], f"{type(problem).__name__}: {str(problem).strip()[:400]}"


def _shown(checks: list[Check]) -> list[Check]:
    """The checks, after a line for each that failed and one for all."""
    for check in checks:
        if check["verdict"] != "PASS":
            print(
                f"{check['encoding']} {check['op']} {check['what']}: {check['verdict']}, worst {check['worst']:.3g}"
            )
    wrong = sum(check["verdict"] != "PASS" for check in checks)
    worst = max(check["worst"] for check in checks)
    print(
        f"{checks[0]['encoding']:14} {len(checks)} checks, {wrong} wrong, worst {worst:.3f} of its bound",
        flush=True,
    )
    return checks


def _time(encoding: str) -> list[Timing]:
    """All timings of one encoding, and a line of the times of the first shape."""
    times: list[Timing] = []
    for shape in SHAPES:
        weights = make_weights(encoding, shape, DEVICE)
        if shape == SHAPES[0]:
            times.append(time_dequantize(weights, "float16"))
        for activation in TIMED_ACTIVATIONS:
            times += [time_matmul(weights, m, activation) for m in MS]
        del weights
    first = [t for t in times if t["op"] == "matmul" and (t["n"], t["k"]) == SHAPES[0]]
    for activation in TIMED_ACTIVATIONS:
        line = " ".join(f"{t['m']}:{t['median_us']:.1f}" for t in first if t["activation"] == activation)
        print(f"{encoding:14} {activation:8} us by m: {line}", flush=True)
    print(
        f"{encoding:14} dequantize to float16 {times[0]['median_us']:.1f} us, {times[0]['gbps']:.0f} GB/s",
        flush=True,
    )
    return times


def _conclude(report: dict[str, Any]) -> int:
    checks, times = report["checks"], report["times"]
    wrong = sum(check["verdict"].startswith(FAILED) for check in checks)
    slowest = max((t["spread"] for t in times), default=math.nan)
    print(f"{len(checks)} checks, {wrong} wrong; {len(times)} timings, largest spread {slowest:.2f}")
    for text in report["not_run"]:
        print(f"not run: {text}")
    if wrong:
        return 1
    return 3 if report["not_run"] or not (checks or times) else 0


if __name__ == "__main__":
    sys.exit(main())
