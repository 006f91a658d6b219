"""The table of docs/presets.md: what each preset stores of two models. `python -m cases.ggml.preset_table` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.containers import TensorInfo, open_checkpoint
from harness.containers.gguf_format import DEFAULT_ALIGNMENT, padded
from harness.demo import PREFIX, resolve_checkpoint
from harness.recorded import RecordedFile, expanded, recorded
from kernels.units import encoded_bytes, unit

SOURCES = ("tiny", "smollm2")


def table() -> list[str]:
    """The lines of the table, a preset a line; demo:smollm2 is fetched on first use."""
    tensors = {source: _tensors(source) for source in SOURCES}
    headers = {source: _header(source, tensors[source]) for source in SOURCES}
    variants = dict.fromkeys(name for source in SOURCES for name in recorded(source))
    lines = ["| preset | demo:tiny | MB | demo:smollm2 | MB |", "| --- | --- | --- | --- | --- |"]
    for variant in variants:
        cells = [
            cell
            for source in SOURCES
            for cell in _cells(recorded(source).get(variant), tensors[source], headers[source])
        ]
        lines.append(f"| {' | '.join([variant, *cells])} |")
    return lines


def _tensors(source: str) -> tuple[TensorInfo, ...]:
    with open_checkpoint(resolve_checkpoint(PREFIX + source, offline=False, tell=print)) as checkpoint:
        return checkpoint.tensors


def _cells(entry: RecordedFile | None, tensors: Sequence[TensorInfo], header: int) -> tuple[str, str]:
    if entry is None:
        return "", ""
    if entry.types is None:
        return f"refused: {entry.refused}", ""
    encodings = expanded(entry.types, tensors)
    counts = Counter(
        encodings[tensor.name].removeprefix("ggml.").upper() for tensor in tensors if len(tensor.shape) > 1
    )
    words = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return words, f"{(header + _data(entry, tensors)) / 1e6:.{1 if header > 1e5 else 2}f}"


def _data(entry: RecordedFile, tensors: Sequence[TensorInfo]) -> int:
    """Bytes behind the header of the file."""
    encodings = expanded(entry.types or {}, tensors)
    sizes = (encoded_bytes(unit(encodings[tensor.name]), tensor.shape) for tensor in tensors)
    return sum(padded(size, DEFAULT_ALIGNMENT) for size in sizes)


def _header(source: str, tensors: Sequence[TensorInfo]) -> int:
    """Bytes before the data, which are the same in every file of a source."""
    (header,) = {
        entry.bytes - _data(entry, tensors) for entry in recorded(source).values() if entry.bytes is not None
    }
    return header


if __name__ == "__main__":
    print("\n".join(table()))
