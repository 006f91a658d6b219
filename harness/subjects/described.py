"""Subjects that are no Python, described by a YAML file: a process that speaks the protocol, or a shared library.

    kind: process                    kind: library
    command: [./provider, --fast]    path: libmine.so
                                     functions:
                                       ggml.q8_0: {symbol: dequantize_row_q8_0}

A library's function has the arguments that `arguments` lists; a ggml-style `void f(const void *data, float *values,
int64_t elements)` is the default and needs no glue. Paths are relative to the file. docs/subjects.md has the table.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, RootModel

from harness.errors import BadInput, UsageProblem
from harness.rows.strict_yaml import read_mapping, validated
from harness.text import printable
from kernels.units import unit
from oracles.serve import Unsupported

SUFFIXES = (".yaml", ".yml")

Argument = Literal["data", "values", "elements", "rows", "columns", "row_bytes", "row_stride", "threads"]
ROW_OF_GGML: tuple[Argument, ...] = ("data", "values", "elements")
_POINTERS = ("data", "values")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Function(_Strict):
    """A C function that decodes. `row_bytes` is the distance of encoded rows, `row_stride` that of decoded ones in elements.

    Integers are int64_t, `threads` is int32_t. `returns` says whether there is a status, which must be 0.
    """

    symbol: str = Field(pattern=r"^[A-Za-z_]\w*$")
    arguments: tuple[Argument, ...] = ROW_OF_GGML
    returns: Literal["nothing", "status"] = "nothing"
    threads: int = Field(default=1, ge=1)


class Library(_Strict):
    """A shared library and the function of each encoding that it decodes."""

    kind: Literal["library"]
    path: str
    functions: dict[str, Function] = Field(min_length=1)


class Process(_Strict):
    """A program that speaks docs/protocol.md on its standard input and output."""

    kind: Literal["process"]
    command: tuple[str, ...] = Field(min_length=1)
    name: str = ""


class _Either(RootModel[Annotated[Library | Process, Field(discriminator="kind")]]):
    pass


def read_description(file: Path) -> Library | Process:
    """The subject that `file` describes. Raises BadInput naming the field, UsageProblem for an unknown encoding."""
    found = validated(_Either, read_mapping(file), file=file).root
    if isinstance(found, Library):
        for encoding, function in found.functions.items():
            unit(encoding)
            missing = [name for name in _POINTERS if name not in function.arguments]
            if missing:
                where = f"functions.{encoding}.arguments"
                raise BadInput(
                    file=file, field=where, got=list(function.arguments), wanted=f"{missing[0]} among them"
                )
    return found


def command_of(found: Process, file: Path) -> list[str]:
    """The command, a program with a slash in its name taken from the folder of the file."""
    program, *rest = found.command
    return [str((file.parent / program).absolute()) if "/" in program else program, *rest]


def library_decode(found: Library, file: Path) -> Callable[..., Any]:
    """`dequantize(encoding, data, shape, out)` over the library's functions.

    Raises UsageProblem when the library does not load or lacks a symbol.
    """
    place = file.parent / found.path
    try:
        library = ctypes.CDLL(str(place))
        functions = {encoding: _bound(library, entry) for encoding, entry in found.functions.items()}
    except (OSError, AttributeError) as error:
        raise UsageProblem(f"{printable(str(file))}: {printable(str(error))}") from None

    def dequantize(
        encoding: str, data: npt.NDArray[np.uint8], shape: tuple[int, ...], out: npt.NDArray[np.float32]
    ) -> None:
        if encoding not in functions:
            raise Unsupported(f"{file.name} names no function for {encoding}")
        entry, columns = found.functions[encoding], shape[-1] if shape else 1
        rows = math.prod(shape[:-1])
        values = {
            "data": data.ctypes.data,
            "values": out.ctypes.data,
            "elements": rows * columns,
            "rows": rows,
            "columns": columns,
            "row_bytes": data.size // max(1, rows),
            "row_stride": columns,
            "threads": entry.threads,
        }
        status = functions[encoding](*(values[name] for name in entry.arguments))
        if entry.returns == "status" and status:
            raise RuntimeError(f"{entry.symbol} returned {status}")

    return dequantize


def _bound(library: ctypes.CDLL, entry: Function) -> Any:
    function = getattr(library, entry.symbol)
    kinds = {**dict.fromkeys(_POINTERS, ctypes.c_void_p), "threads": ctypes.c_int32}
    function.argtypes = [kinds.get(name, ctypes.c_int64) for name in entry.arguments]
    function.restype = ctypes.c_int if entry.returns == "status" else None
    return function
