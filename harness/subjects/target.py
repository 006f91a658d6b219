"""What `--subject` names: `module`, `module:function`, `FILE.py`, `FILE.py:function` or `FILE.yaml`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UsageProblem
from harness.text import printable

OPS = ("dequantize", "quantize", "matmul")
"""The functions that a subject may have (DESIGN: a subject in Python)."""


@dataclass(frozen=True)
class Target:
    """A parsed `--subject`. One of `file` and `module` is set; `function` None means the whole module.

    `described`: the file is YAML (`harness.subjects.described`), not Python.
    """

    text: str
    file: Path | None
    module: str | None
    function: str | None
    described: bool = False


def parse_target(text: str) -> Target:
    """Read a `--subject` that names Python code. Raises UsageProblem when it cannot be a file or a module."""
    if text.endswith((".yaml", ".yml")):
        file = Path(text).expanduser().absolute()
        if not file.is_file():
            raise UsageProblem(f"--subject {printable(text)}: there is no file {printable(str(file))}")
        return Target(text, file, None, None, described=True)
    place, colon, function = text.rpartition(":")
    if not colon:
        place, function = text, ""
    if colon and not function.isidentifier():
        raise UsageProblem(
            f"--subject {printable(text)}: {printable(function)!r} is not the name of a function"
        )
    if place.endswith(".py"):
        file = Path(place).expanduser().absolute()
        if not file.is_file():
            raise UsageProblem(f"--subject {printable(text)}: there is no file {printable(str(file))}")
        return Target(text, file, None, function or None)
    if not all(part.isidentifier() for part in place.split(".")):
        raise UsageProblem(
            f"--subject {printable(text)}: wanted module:function, FILE.py:function, FILE.yaml or a known name"
        )
    return Target(text, None, place, function or None)


def load_ops(target: Target) -> dict[str, Callable[..., Any]]:
    """Import the target and return its functions by op.

    A function that is named singly and is called neither `quantize` nor `matmul` is taken as `dequantize`. The folder
    of a file, or the current folder for a module, comes first on `sys.path`, as when Python runs the file.
    Raises AttributeError, TypeError, ImportError and whatever the code raises while it is imported.
    """
    if target.described:
        return _library(target)
    module = _import(target)
    if target.function is not None:
        function = getattr(module, target.function)
        if not callable(function):
            raise TypeError(f"{target.function} is a {type(function).__name__}, not a function")
        op = target.function if target.function in OPS else "dequantize"
        return {op: function}
    found = {op: getattr(module, op) for op in OPS if callable(getattr(module, op, None))}
    if not found:
        raise AttributeError(f"{target.text} has none of {', '.join(OPS)}")
    return found


def _library(target: Target) -> dict[str, Callable[..., Any]]:
    from harness.subjects.described import Library, library_decode, read_description

    assert target.file is not None
    found = read_description(target.file)
    if not isinstance(found, Library):
        raise TypeError(f"{target.text} describes a process, which is no function")
    return {"dequantize": library_decode(found, target.file)}


def _import(target: Target) -> ModuleType:
    if target.file is None:
        assert target.module is not None
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(target.module)
    sys.path.insert(0, str(target.file.parent))
    # A file that is called numpy.py or harness.py must not take the place of the module that is in use.
    name = target.file.stem if target.file.stem not in sys.modules else f"subject_{target.file.stem}"
    spec = importlib.util.spec_from_file_location(name, target.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{target.file} cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
