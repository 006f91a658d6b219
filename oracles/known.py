"""Known answers: a few blocks whose values were derived by hand. An oracle gives them before its first use.

They lie beside the units (`kernels/<dialect>/<name>/known.yaml`), a list of

    {name, data: hex, shape, values: [float32 as 0x bits or decimal], ops: [dequantize] (the default), [quantize] or both}

An engine's build can be wrong for one encoding alone, so what fails is not offered and everything else is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from harness.errors import BadInput
from harness.paths import KERNELS
from oracles.worker_process import ProviderError, Worker

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

TIMEOUT_SECONDS = 30.0
FIELDS = {"name", "data", "shape", "values", "ops"}
OPS = ("dequantize", "quantize")


@dataclass(frozen=True)
class KnownAnswer:
    """One hand-derived case: `data` uint8 [n_bytes] is `values` float32 [shape] in `encoding`."""

    encoding: str
    op: str
    name: str
    data: bytes
    shape: tuple[int, ...]
    values: np.ndarray


@dataclass(frozen=True)
class Failure:
    """What an oracle gave where a known answer says otherwise."""

    op: str
    encoding: str
    case: str
    got: str
    wanted: str

    def __str__(self) -> str:
        return (
            f"{self.op} of {self.encoding} fails its known answer {self.case!r}: "
            f"got {self.got}, wanted {self.wanted}"
        )


def load_known(folder: Path = KERNELS) -> tuple[KnownAnswer, ...]:
    """Every known answer below `folder`. Raises BadInput naming the file and the field of a broken one."""
    answers = []
    for path in sorted(folder.glob("*/*/known.yaml")):
        encoding = f"{path.parent.parent.name}.{path.parent.name}"
        entries = yaml.load(path.read_text("utf-8"), Loader=_LOADER)  # noqa: S506  both loaders are safe
        if not isinstance(entries, list):
            raise BadInput(file=path, field="(whole file)", got=type(entries).__name__, wanted="a list")
        answers += [answer for entry in entries for answer in _parse(path, encoding, entry)]
    return tuple(answers)


def digest(answers: Iterable[KnownAnswer]) -> str:
    """A sha256 over what the answers say (not over their comments)."""
    text = "\n".join(
        f"{a.encoding} {a.op} {a.name} {a.data.hex()} {a.shape} {a.values.tobytes().hex()}" for a in answers
    )
    return hashlib.sha256(text.encode()).hexdigest()


def check(worker: Worker, answers: Iterable[KnownAnswer]) -> tuple[Failure, ...]:
    """Ask a worker for every known answer that it offers; the first failure of each op and encoding."""
    failures: dict[tuple[str, str], Failure] = {}
    offered = worker.hello.get("ops", {})
    for answer in answers:
        at = (answer.op, answer.encoding)
        if at not in failures and answer.encoding in offered.get(answer.op, ()):
            difference = _difference(worker, answer)
            if difference is not None:
                failures[at] = Failure(*at, answer.name, *difference)
    return tuple(failures.values())


def _difference(worker: Worker, answer: KnownAnswer) -> tuple[str, str] | None:
    """(got, wanted) at the first element that differs, or None."""
    data = np.frombuffer(answer.data, np.uint8)
    try:
        if answer.op == "dequantize":
            got = worker.call(
                "dequantize",
                {"encoding": answer.encoding, "shape": list(answer.shape)},
                {"data": data},
                timeout=TIMEOUT_SECONDS,
                expect={"values": ("float32", answer.shape)},
            ).arrays["values"]
            return _first_float(got.reshape(-1), answer.values)
        got = worker.call(
            "quantize",
            {"encoding": answer.encoding},
            {"values": answer.values.reshape(answer.shape)},
            timeout=TIMEOUT_SECONDS,
            expect={"data": ("uint8", data.shape)},
        ).arrays["data"]
    except ProviderError as error:
        return f"{error.verdict}: {error.message}", "an answer"
    wrong = np.flatnonzero(got != data)
    return (f"byte {wrong[0]} = 0x{got[wrong[0]]:02x}", f"0x{data[wrong[0]]:02x}") if wrong.size else None


def _first_float(got: np.ndarray, wanted: np.ndarray) -> tuple[str, str] | None:
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
    wrong = np.flatnonzero(~same)
    if not wrong.size:
        return None
    return f"element {wrong[0]} = {_shown(got[wrong[0]])}", _shown(wanted[wrong[0]])


def _shown(value: np.float32) -> str:
    return f"{float(value)!r} (0x{int(value.view(np.uint32)):08x})"


def _parse(path: Path, encoding: str, entry: object) -> list[KnownAnswer]:
    def refuse(field: str, got: object, wanted: str) -> BadInput:
        return BadInput(file=path, field=field, got=got, wanted=wanted)

    if not isinstance(entry, dict):
        raise refuse("(entry)", entry, "a mapping")
    if unknown := set(entry) - FIELDS:
        raise refuse(
            str(sorted(unknown)[0]), entry[sorted(unknown)[0]], f"one of {', '.join(sorted(FIELDS))}"
        )
    ops = entry.get("ops", ["dequantize"])
    if not isinstance(ops, list) or not ops or not set(ops) <= set(OPS):
        raise refuse("ops", ops, f"a list of {' and '.join(OPS)}")
    name, shape = entry.get("name"), entry.get("shape")
    if not isinstance(name, str):
        raise refuse("name", name, "a name")
    if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in shape):
        raise refuse("shape", shape, "a list of sizes")
    try:
        data = bytes.fromhex(str(entry.get("data")))
    except ValueError as error:
        raise refuse("data", entry.get("data"), f"hex digits ({error})") from None
    try:
        values = np.array([_value(value) for value in entry.get("values", ())], np.float32)
    except (ValueError, TypeError) as error:
        raise refuse("values", error, "float32 values as 0x bits or decimals") from None
    if values.size != np.prod(shape):
        raise refuse("values", f"{values.size} values", f"{int(np.prod(shape))}, as the shape says")
    return [KnownAnswer(encoding, op, name, data, tuple(shape), values) for op in ops]


def _value(text: object) -> np.float32:
    """A float32 from a decimal or, as a quoted string, from its bits (`"0x3f800000"`)."""
    if isinstance(text, str):
        return np.uint32(int(text, 16)).view(np.float32)
    if (
        isinstance(text, bool)
        or not isinstance(text, int | float)
        or (isinstance(text, int) and abs(text) > 1 << 24)
    ):
        raise ValueError(f"{text!r} (bits are written in quotes)")
    return np.float32(text)
