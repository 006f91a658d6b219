"""Our CUDA kernels behind the interface that every subject has: backend `cuda@sm_NN`, on torch tensors of one device.

Activations are quantized on the device to 8-bit codes with one float32 scale for 32 values; `matmul` returns those
operands too, because whoever judges the product has to start from the same numbers.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from harness.errors import Unavailable, UsageProblem
from kernels.common.cuda.build import build, cuda_units, type_name
from kernels.units import Unit, encoded_bytes, unit

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Product:
    """`values` float32 `[m, n]` = `codes` (int8 `[m, k]`) x `scales` (float32 `[m, k / 32]`) times the weights."""

    values: torch.Tensor
    codes: torch.Tensor
    scales: torch.Tensor


def backend(device: torch.device) -> str:
    """`cuda@sm_90` for a Hopper device."""
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return f"cuda@sm_{major}{minor}"


def supports(encoding: str) -> bool:
    """Whether the encoding has a CUDA decode."""
    return any(found.encoding == encoding for found in cuda_units())


def dequantize(encoding: str, data: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Decode `data` uint8 `[n_bytes]` on its device to float32 `[shape]`. Refuses by name what does not fit."""
    import torch

    found = _unit(encoding)
    _check_data(found, data, shape)
    out = torch.full(shape, float("nan"), dtype=torch.float32, device=data.device)
    if out.numel():
        with torch.cuda.device(data.device):
            _call(
                f"dequantize_{type_name(found)}",
                data,
                _pointer(data),
                _pointer(out),
                _int64(out.numel() // 32),
            )
    return out


def matmul(encoding: str, x: torch.Tensor, data: torch.Tensor, shape: tuple[int, int]) -> Product:
    """`x` `[m, k]` (float32, float16 or bfloat16; rows may have a stride) times the weights `[n, k]`, transposed.

    Raises UsageProblem naming the argument that does not fit: another device, dtype or shape, columns with a stride,
    weights that are not aligned to their words.
    """
    import torch

    found = _unit(encoding)
    _check_data(found, data, shape)
    n, k = shape
    if x.ndim != 2 or x.shape[1] != k:
        raise _refused(found, "x", f"shape {tuple(x.shape)}", f"[m, {k}]")
    if x.device != data.device:
        raise _refused(found, "x", f"device {x.device}", f"{data.device}, where the weights are")
    kinds = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
    if x.dtype not in kinds:
        raise _refused(found, "x", str(x.dtype), "float32, float16 or bfloat16")
    if x.stride(1) != 1 and k > 1:
        raise _refused(found, "x", f"column stride {x.stride(1)}", "1: a copy is the caller's to make")
    m = x.shape[0]
    codes = torch.full((m, k), -1, dtype=torch.int8, device=x.device)
    scales = torch.full((m, k // 32), float("nan"), dtype=torch.float32, device=x.device)
    out = torch.full((m, n), float("nan"), dtype=torch.float32, device=x.device)
    if m and n and k:
        with torch.cuda.device(x.device):
            stride = x.stride(0) if m > 1 else k
            sizes = (_int64(m), _int64(k // 32))
            made = (_pointer(codes), _pointer(scales))
            _call(
                "quantize_activations",
                x,
                _pointer(x),
                ctypes.c_int(kinds[x.dtype]),
                _int64(stride),
                *made,
                *sizes,
            )
            product = (_int64(m), _int64(n), _int64(k // 32))
            _call(f"matmul_{type_name(found)}", x, _pointer(data), *made, _pointer(out), *product)
    return Product(out, codes, scales)


def _unit(encoding: str) -> Unit:
    found = unit(encoding)
    if not supports(encoding):
        raise UsageProblem(
            f"{encoding} has no CUDA kernel; there are: {', '.join(u.encoding for u in cuda_units())}"
        )
    return found


def _check_data(found: Unit, data: torch.Tensor, shape: tuple[int, ...]) -> None:
    import torch

    wanted = encoded_bytes(found, shape)
    if not data.is_cuda:
        raise _refused(found, "data", f"device {data.device}", "a CUDA device")
    if data.dtype != torch.uint8 or data.ndim != 1 or data.numel() != wanted:
        raise _refused(
            found, "data", f"{data.dtype} {tuple(data.shape)}", f"uint8 [{wanted}] for shape {shape}"
        )
    if not data.is_contiguous():
        raise _refused(found, "data", f"stride {data.stride(0)}", "contiguous bytes")
    alignment = 4 if found.block_bytes % 4 == 0 else 2
    if data.data_ptr() % alignment:
        raise _refused(found, "data", "an odd address", f"an address that is a multiple of {alignment}")


def _refused(found: Unit, argument: str, got: str, wanted: str) -> UsageProblem:
    return UsageProblem(f"cuda {found.encoding}: {argument}: got {got}, wanted {wanted}")


def _pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


@lru_cache(maxsize=4)
def _library(architecture: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(build([architecture]).path))


def _int64(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def _call(name: str, like: torch.Tensor, *arguments: Any) -> None:
    """Call a function of the library on the current stream of `like`'s device. Raises Unavailable when it fails."""
    import torch

    major, minor = torch.cuda.get_device_capability(like.device)
    library = _library(f"{major}{minor}{'a' if major >= 9 else ''}")
    function = getattr(library, f"harness_{name}")
    function.restype = ctypes.c_int
    status = function(*arguments, ctypes.c_void_p(torch.cuda.current_stream(like.device).cuda_stream))
    if status:
        library.harness_error.restype = ctypes.c_char_p
        raise Unavailable(f"CUDA {name} failed: {library.harness_error(status).decode()}")
