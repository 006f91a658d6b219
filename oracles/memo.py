"""What oracles have answered before, kept on disk, so that a second run on the same machine need not ask again.

    <cache>/memo/entries/<key>       sha256 of the rest, then one JSON object: key, result, and small arrays in base64
    <cache>/memo/blobs/<sha256>      the bytes of one larger array, little-endian, row-major; equal ones are kept once

The key is the sha256 of everything that the answer depends on: pin, wheels, worker, op, parameters, the bytes of the
inputs, and the CPU where the arithmetic does not define every bit. Only ops that `pin.yaml` declares under `memo` are
remembered. What does not fit its digest is removed and asked for again; what cannot be written is not remembered.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import mmap
import os
import platform
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from harness.environment import describe
from harness.paths import cache_root
from oracles import wire
from oracles.exchange import Expected
from oracles.worker_process import Answer

SCHEMA = 1
LIMIT_BYTES = 2 << 30
LARGEST_SHARE = 8
"""An answer above this part of the limit would drive out too much else."""
INLINE_BYTES = 16 << 10
WORTH_SECONDS_PER_BYTE = 1e-8
"""A larger answer is kept when its op took at least so long for each of its bytes. Asking costs 1.6 ns a byte beside the op,
reading and checking 0.6 ns, both measured; the decodes of a run, 0.1 to 6 ns a byte, are 18 GB and would drive out the rest."""
ORPHAN_SECONDS = 3600.0
"""A blob without an entry may belong to one that is about to be written."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_CPU_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Usage:
    """What lies in a memo: number of answers, and bytes of everything."""

    answers: int
    bytes: int


class _Damaged(Exception):
    """An entry or a blob is not what was written."""


class Memo:
    """Answers of oracles on disk. `answered` are the pins that have answered from it in this process.

    With `refresh` nothing is read: every answer is live, and what is remembered is written anew.
    """

    def __init__(
        self, folder: Path | None = None, *, refresh: bool = False, limit: int = LIMIT_BYTES
    ) -> None:
        self.refresh = refresh
        self.limit = limit
        self.answered: set[str] = set()
        self.hits = 0
        self._folder = folder
        self._written = 0
        self._whole: set[tuple[str, int, int]] = set()

    @property
    def folder(self) -> Path:
        return self._folder or cache_root() / "memo"

    @property
    def _entries(self) -> Path:
        return self.folder / "entries"

    @property
    def _blobs(self) -> Path:
        return self.folder / "blobs"

    def get(self, key: str, pin: str, expect: Expected | None = None) -> Answer | None:
        """The answer that was remembered under `key`, arrays of its own; None when there is none, or another than expected."""
        if self.refresh:
            return None
        path = self._entries / key
        try:
            answer = self._read(path.read_bytes(), key)
        except OSError:
            return None
        except _Damaged:
            _remove(path)
            return None
        if expect is not None and _specs(answer.arrays) != {
            name: (d, tuple(s)) for name, (d, s) in expect.items()
        }:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        self.answered.add(pin)
        self.hits += 1
        return answer

    def _read(self, raw: bytes, key: str) -> Answer:
        digest, _, body = raw.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise _Damaged
        try:
            entry = json.loads(body)
            if (entry["schema"], entry["key"]) != (SCHEMA, key):
                raise _Damaged
            arrays = {
                spec["name"]: self._array(spec, wire_type(spec["dtype"]), tuple(spec["shape"]))
                for spec in entry["arrays"]
            }
            return Answer(dict(entry["result"]), arrays, float(entry["seconds"]))
        except (ValueError, LookupError, TypeError):
            raise _Damaged from None

    def _array(self, spec: Mapping[str, Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        if "data" in spec:
            return np.frombuffer(bytearray(base64.b64decode(spec["data"])), dtype).reshape(shape)
        return np.frombuffer(self._blob(spec["sha256"]), dtype).reshape(shape)

    def _blob(self, sha256: str) -> mmap.mmap:
        """A private mapping of a blob: writing to it changes no file. What was whole, and has not changed, is not read again."""
        if not _SHA256.fullmatch(sha256):
            raise _Damaged
        path = self._blobs / sha256
        try:
            with path.open("rb") as stream:
                state = os.fstat(stream.fileno())
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError):
            _remove(path)
            raise _Damaged from None
        seen = (sha256, state.st_ino, state.st_mtime_ns)
        if seen not in self._whole and hashlib.sha256(data).hexdigest() != sha256:
            _remove(path)
            raise _Damaged
        self._whole.add(seen)
        return data

    def put(self, key: str, answer: Answer) -> None:
        """Remember an answer, unless it is large for the time that its op took, or for the memo."""
        size = sum(array.nbytes for array in answer.arrays.values())
        cheap = size > INLINE_BYTES and answer.seconds < size * WORTH_SECONDS_PER_BYTE
        if cheap or size > self.limit // LARGEST_SHARE:
            return
        try:
            specs = [self._put_array(name, array) for name, array in answer.arrays.items()]
            entry = {
                "schema": SCHEMA,
                "key": key,
                "result": answer.result,
                "seconds": answer.seconds,
                "arrays": specs,
            }
            body = json.dumps(entry, allow_nan=False).encode()
            _write(self._entries / key, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        except (OSError, ValueError, TypeError):
            return
        self._written += size + len(body)
        if self._written > self.limit // LARGEST_SHARE:
            self.trim()

    def _put_array(self, name: str, array: np.ndarray) -> dict[str, Any]:
        plain = np.ascontiguousarray(array, wire_type(array.dtype.name))
        view = plain.reshape(-1).view(np.uint8)
        spec = {"name": name, "dtype": plain.dtype.name, "shape": list(array.shape)}
        if view.nbytes <= INLINE_BYTES:
            return {**spec, "data": base64.b64encode(view.data).decode()}
        sha256 = hashlib.sha256(view.data).hexdigest()
        path = self._blobs / sha256
        if not path.is_file() or path.stat().st_size != view.nbytes:
            _write(path, view.data)
        return {**spec, "sha256": sha256}

    def close(self) -> None:
        """Bring the memo below its limit if this process added to it."""
        if self._written:
            self.trim()

    def usage(self) -> Usage:
        """Answers and bytes; zeros where there is no memo."""
        entries, blobs = _sizes(self._entries), _sizes(self._blobs)
        answers = sum(not path.name.startswith(".") for path in entries)
        return Usage(answers, sum(entries.values()) + sum(blobs.values()))

    def trim(self, limit: int | None = None) -> Usage:
        """Remove the answers that were used longest ago until `limit` bytes are left (default: the memo's own).

        Returns what was removed. Left to the other when another process is doing it.
        """
        self._written = 0
        before = self.usage()
        if not before.bytes or (limit is None and before.bytes <= self.limit):
            return Usage(0, 0)
        try:
            with FileLock(self.folder / ".trim.lock", timeout=0):
                self._trim(self.limit if limit is None else limit)
        except (Timeout, OSError):
            return Usage(0, 0)
        after = self.usage()
        return Usage(before.answers - after.answers, before.bytes - after.bytes)

    def _trim(self, limit: int) -> None:
        entries, blobs = _sizes(self._entries), _sizes(self._blobs)
        used: set[str] = set()
        dropped: set[str] = set()
        left = limit
        for path in sorted(entries, key=_last_used, reverse=True):
            names = _blobs_of(path)
            size = entries[path] + sum(blobs.get(self._blobs / name, 0) for name in names - used)
            if size <= left:
                # A small answer may stay where a large one of the same age does not fit: it often took longer.
                left -= size
                used |= names
            else:
                dropped |= names
                _remove(path)
        young = time.time() - ORPHAN_SECONDS
        for blob in blobs:
            if blob.name not in used and (blob.name in dropped or _last_used(blob) < young):
                _remove(blob)


def key_of(
    identity: Mapping[str, Any],
    op: str,
    params: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    any_cpu: bool,
) -> str | None:
    """The key of one request, 64 hexadecimal digits; None for a request that could not even be sent.

    `identity` is the pin as `oracles.pool.Oracle.pin` has it. With `any_cpu` every bit of the answer is defined by the
    arithmetic; else processor, its flags and the C library are part of the key.
    """
    try:
        request = {
            "schema": SCHEMA,
            "oracle": {name: value for name, value in identity.items() if name != "known_answers_sha256"},
            "op": op,
            "params": dict(params),
            "arrays": [
                [name, array.dtype.name, list(array.shape), _digest(array)]
                for name, array in sorted(arrays.items())
            ],
            "cpu": {} if any_cpu else processor(),
        }
        text = json.dumps(request, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def processor() -> dict[str, Any]:
    """What chooses code, and so bits, where the arithmetic leaves a choice."""
    machine = describe()
    return {
        **{name: machine[name] for name in ("machine", "cpu", "cpu_flags")},
        "libc": platform.libc_ver(),
        "variables": {name: os.environ[name] for name in _CPU_VARIABLES if name in os.environ},
    }


def wire_type(name: str) -> np.dtype[Any]:
    """A dtype of the protocol, little-endian. Raises ValueError for any other."""
    if name not in wire.DTYPES:
        raise ValueError(f"{name} is no dtype of the protocol")
    return np.dtype(name).newbyteorder("<")


def _digest(array: np.ndarray) -> str:
    plain = np.ascontiguousarray(array, wire_type(array.dtype.name))
    return hashlib.sha256(plain.reshape(-1).view(np.uint8).data).hexdigest()


def _specs(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (array.dtype.name, array.shape) for name, array in arrays.items()}


def _write(path: Path, data: bytes | memoryview) -> None:
    """Whole or not at all, whoever else writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).replace(path)
    except BaseException:
        _remove(Path(name))
        raise


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _sizes(folder: Path) -> dict[Path, int]:
    """Bytes of every file of a folder that another process may be changing; unfinished ones too."""
    found: dict[Path, int] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):
                found[Path(file.path)] = file.stat(follow_symlinks=False).st_size
    return found


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _blobs_of(entry: Path) -> set[str]:
    """The blobs of an entry; none when it cannot be read."""
    try:
        arrays = json.loads(entry.read_bytes().partition(b"\n")[2])["arrays"]
        return {spec["sha256"] for spec in arrays if "sha256" in spec}
    except (OSError, ValueError, LookupError, TypeError):
        return set()
