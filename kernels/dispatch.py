"""Which of our kernels runs an op: chosen by what units and kernels state, and explained.

A unit's `ops` says which backends have a decode for it; the table below says what each kernel takes. Nothing here
imports torch, Triton or a kernel, so that a choice can be asked for on any machine, for any device.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from harness.errors import UsageProblem
from kernels.common.triton.plan import ACTIVATIONS, MATVEC_MAX_M, MAX_ROWS, MIN_CAPABILITY
from kernels.units import Unit, unit


@dataclasses.dataclass(frozen=True)
class Request:
    """One op to be run.

    `device` is "cpu" or "cuda"; `capability` that of the GPU, 90 for sm_90; `interpreter` whether Triton interprets in
    this process. For `matmul`: `activation` is the dtype of x [m, k], `m` how many rows it has, `k` their length.
    `backend` asks for kernels of one family alone: "cpu", "triton" or "cuda".
    """

    encoding: str
    op: str
    device: str = "cpu"
    capability: int | None = None
    interpreter: bool = False
    activation: str | None = None
    m: int | None = None
    k: int | None = None
    backend: str | None = None


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What a kernel takes. `devices`: "cpu" means plain CPU tensors, "interpreter" those of Triton's interpreter.

    `float_m_max` limits the rows of 16-bit activations, `m_max` all rows. `by_name` is why a kernel runs only when its
    backend is asked for.
    """

    name: str
    family: str
    op: str
    devices: tuple[str, ...]
    activations: tuple[str, ...] = ()
    min_capability: int = 0
    half_m_min: int = 0
    half_m_max: int | None = None
    m_max: int | None = None
    by_name: str = ""


_TRITON: Final = ("interpreter", "cuda")

KERNELS: Final = (
    Kernel("triton.expand", "triton", "dequantize", _TRITON, min_capability=MIN_CAPABILITY),
    Kernel("triton.expand", "triton", "get_rows", _TRITON, min_capability=MIN_CAPABILITY),
    Kernel(
        "triton.matvec",
        "triton",
        "matmul",
        _TRITON,
        ACTIVATIONS,
        min_capability=MIN_CAPABILITY,
        half_m_max=MATVEC_MAX_M,
        m_max=MAX_ROWS,
    ),
    Kernel(
        "triton.matmul",
        "triton",
        "matmul",
        _TRITON,
        ("float16", "bfloat16"),
        min_capability=MIN_CAPABILITY,
        half_m_min=MATVEC_MAX_M + 1,
        m_max=MAX_ROWS,
    ),
    Kernel("cuda.dequantize", "cuda", "dequantize", ("cuda",), min_capability=80),
    Kernel(
        "cuda.matvec",
        "cuda",
        "matmul",
        ("cuda",),
        ACTIVATIONS,
        min_capability=80,
        by_name="it quantizes the activations to 8 bits",
    ),
    Kernel("numpy.dequantize", "cpu", "dequantize", ("cpu",)),
    Kernel(
        "numpy.matmul",
        "cpu",
        "matmul",
        ("cpu",),
        ("float32",),
        by_name="it quantizes the activations as the engine does",
    ),
    *(
        Kernel(f"numpy.{op}", "cpu", op, ("cpu",))
        for op in ("get_rows", "set_rows", "cpy", "out_prod", "quantize")
    ),
)
"""In order of preference."""


@dataclasses.dataclass(frozen=True)
class Considered:
    """A kernel that was looked at. `refused` says why it is not the one; it is empty for the one that is chosen."""

    kernel: str
    backend: str
    refused: str


def explain(request: Request) -> tuple[Considered, ...]:
    """Every kernel of the op, in order of preference, with the reason why it was refused; at most one was not.

    Raises UsageProblem for an unknown encoding.
    """
    found = unit(request.encoding)
    considered: list[Considered] = []
    chosen = ""
    for kernel in KERNELS:
        if kernel.op != request.op:
            continue
        refused = _refusal(kernel, request, found) or (f"{chosen} is preferred" if chosen else "")
        considered.append(Considered(kernel.name, _backend(kernel, request), refused))
        if not refused:
            chosen = kernel.name
    return tuple(considered)


def choose(request: Request) -> Considered:
    """The kernel that runs the request. Raises UsageProblem with the reason for each that does not."""
    considered = explain(request)
    for candidate in considered:
        if not candidate.refused:
            return candidate
    reasons = "; ".join(f"{candidate.kernel}: {candidate.refused}" for candidate in considered)
    raise UsageProblem(
        f"{request.op} {request.encoding} on {request.device}: no kernel: {reasons or 'none offers the op'}"
    )


def _backend(kernel: Kernel, request: Request) -> str:
    if kernel.family == "cpu":
        return "cpu"
    if kernel.family == "triton" and request.interpreter:
        return "triton@interpreter"
    return f"{kernel.family}@sm_{request.capability}" if request.capability else kernel.family


def _refusal(kernel: Kernel, request: Request, found: Unit) -> str:
    """Why `kernel` cannot run the request; empty when it can."""
    if request.backend is not None and kernel.family != request.backend:
        return f"backend {request.backend} was asked for"
    if kernel.by_name and request.backend is None:
        return f"{kernel.by_name}: only when backend {kernel.family} is asked for"
    if kernel.family not in found.ops.get(kernel.op, ()):
        return f"{found.encoding} has no {kernel.op} on {kernel.family}"
    return _device_refusal(kernel, request) or _size_refusal(kernel, request, found)


def _device_refusal(kernel: Kernel, request: Request) -> str:
    if kernel.family == "triton" and request.interpreter and request.device != "cpu":
        return "TRITON_INTERPRET is set: it takes CPU tensors alone"
    where = "interpreter" if request.device == "cpu" and request.interpreter else request.device
    if where not in kernel.devices and not (where == "interpreter" and "cpu" in kernel.devices):
        if kernel.family == "triton" and request.device == "cpu":
            return "on a CPU it runs under Triton's interpreter alone: set TRITON_INTERPRET=1"
        return f"it does not run on {request.device}"
    if request.device == "cuda":
        if request.capability is None:
            return "the capability of the device is not known"
        if request.capability < kernel.min_capability:
            return f"it needs sm_{kernel.min_capability} or later, the device is sm_{request.capability}"
    return ""


def _size_refusal(kernel: Kernel, request: Request, found: Unit) -> str:
    if kernel.op != "matmul":
        return ""
    if request.activation is None or request.m is None:
        return "activation and m are not given"
    if request.activation not in kernel.activations:
        return f"it takes {', '.join(kernel.activations)} activations, not {request.activation}"
    if request.k is not None and request.k % found.block_elems:
        return f"k = {request.k} is not a multiple of the block of {found.block_elems} weights"
    half = request.activation != "float32"
    if half and request.m < kernel.half_m_min:
        return f"it takes at least {kernel.half_m_min} rows of 16-bit activations, not {request.m}"
    if half and kernel.half_m_max is not None and request.m > kernel.half_m_max:
        return f"it takes at most {kernel.half_m_max} rows of 16-bit activations, not {request.m}"
    if kernel.m_max is not None and request.m > kernel.m_max:
        return f"it takes at most {kernel.m_max} rows, not {request.m}"
    return ""
