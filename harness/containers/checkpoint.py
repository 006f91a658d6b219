"""A checkpoint as the rest of the harness sees it, whatever container it came in."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from harness.containers.byte_order import swap_fields
from harness.containers.files import MappedFile
from harness.errors import UsageProblem
from harness.text import printable

ByteOrder = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies and how it is stored.

    `name` is always printable as UTF-8: bytes that are not UTF-8 appear as `\\xff` escapes, `raw_name` keeps them.
    `type_id` is the container's number for the type (None where it has none), `type_name` its own word for it.
    `encoding` is None for a type without a decode. `shape` is row-major: the last dimension is contiguous.
    `offset` counts from the start of file number `part`.
    """

    name: str
    raw_name: bytes
    type_id: int | None
    type_name: str
    encoding: str | None
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    part: int = 0

    @property
    def decodable(self) -> bool:
        """Whether the project has a unit (geometry and decode) for this encoding."""
        from kernels.units import load_units

        return self.encoding is not None and self.encoding in load_units()


class MetadataValue(Protocol):
    """One key's value, decoded only when asked for."""

    @property
    def key(self) -> str: ...
    @property
    def type_name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def value(self) -> Any: ...


@dataclass
class Checkpoint:
    """An open checkpoint. Close it, or use it in a `with` statement.

    `tensors` are in file order, over all `parts`. `architecture` is None where the container does not say.
    """

    container: str
    path: Path
    parts: tuple[MappedFile, ...]
    architecture: str | None
    tensors: tuple[TensorInfo, ...]
    metadata: Mapping[str, MetadataValue]
    byte_order: ByteOrder
    version: str
    _by_name: dict[str, TensorInfo] = field(init=False, repr=False)
    _sha256: str | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self._by_name = {info.name: info for info in self.tensors}

    def tensor(self, name: str) -> TensorInfo:
        """Raises UsageProblem, with the nearest names, when there is no such tensor."""
        info = self._by_name.get(name)
        if info is None:
            near = difflib.get_close_matches(name, self._by_name, n=3)
            hint = f"; nearest: {', '.join(map(printable, near))}" if near else ""
            raise UsageProblem(f"{printable(str(self.path))} has no tensor {printable(name)}{hint}")
        return info

    def tensor_bytes(self, name: str) -> npt.NDArray[np.uint8]:
        """The tensor's bytes as they stand in the file: a read-only `uint8 [nbytes]` view, nothing is copied."""
        info = self.tensor(name)
        return self.parts[info.part].data[info.offset : info.offset + info.nbytes]

    def little_endian_bytes(self, name: str) -> npt.NDArray[np.uint8]:
        """`tensor_bytes` in the byte order that every decode here reads, `uint8 [nbytes]`.

        A view for a little-endian file. For a big-endian one a copy, swapped number by number (a type without an
        encoding is an array of plain numbers), or field by field after the geometry of the encoding's unit;
        UsageProblem when there is none.
        """
        data = self.tensor_bytes(name)
        if self.byte_order == "little":
            return data
        info = self.tensor(name)
        if info.encoding is None and data.size:
            item_bytes = data.size // math.prod(info.shape)
            return swap_fields(data, item_bytes, [(0, item_bytes, 1)])
        if info.encoding is None or not info.decodable:
            raise UsageProblem(
                f"{printable(str(self.path))}: tensor {printable(name)} is big-endian {info.type_name}, "
                f"which no unit describes, so its bytes cannot be put in order"
            )
        from kernels.units import unit

        geometry = unit(info.encoding)
        fields = [(item.offset, item.bytes // item.count, item.count) for item in geometry.fields]
        return swap_fields(data, geometry.block_bytes, fields)

    def value(self, key: str, default: Any = None) -> Any:
        """The decoded value of a metadata key, or `default` when the key is absent."""
        entry = self.metadata.get(key)
        return default if entry is None else entry.value()

    def sha256(self) -> str:
        """Hex digest over the files' bytes, one part after the other; for a single file, the file's own digest."""
        if self._sha256 is None:
            digest = hashlib.sha256()
            for part in self.parts:
                part.hash_into(digest)
            self._sha256 = digest.hexdigest()
        return self._sha256

    def release(self, name: str) -> None:
        """Gives back the resident memory of the file that holds a tensor: a large checkpoint need not fit in memory."""
        self.parts[self.tensor(name).part].release()

    def close(self) -> None:
        """Closes the files. Views that were handed out stay valid."""
        for part in self.parts:
            part.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
