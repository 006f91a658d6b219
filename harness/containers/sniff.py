"""What a file that is not the container we wanted looks like, from its first bytes."""

from __future__ import annotations

import codecs

from harness.containers.files import MappedFile

_LOOK_AT = 512
_KNOWN_STARTS = (
    (b"FUGG", "the letters GGUF backwards"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint, or a wheel)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"\x93NUMPY", "a numpy array file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"lmgg", "a ggml file from before GGUF; convert the model again"),
    (b"fmgg", "a ggml file from before GGUF; convert the model again"),
    (b"tjgg", "a ggml file from before GGUF; convert the model again"),
    (b"algg", "a ggml adapter from before GGUF; convert it again"),
    (b"version https://git-lfs", "a git-lfs pointer: the file itself was never downloaded (git lfs pull)"),
    (b"<!DOCTYPE", "an HTML page: the download saved an error page"),
    (b"<html", "an HTML page: the download saved an error page"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
)


def is_safetensors(file: MappedFile) -> bool:
    """Whether the file begins like safetensors: a u64 header length that fits the file, then a JSON object."""
    start = file.buffer[:9]
    return len(start) == 9 and start[8:] == b"{" and 2 <= int.from_bytes(start[:8], "little") <= file.size - 8


def describe_start(file: MappedFile) -> str:
    """The first bytes, and what kind of file they belong to when that is known."""
    start = file.buffer[:_LOOK_AT]
    shown = repr(start[:8])
    if is_safetensors(file):
        return f"{shown}, a safetensors file"
    for prefix, meaning in _KNOWN_STARTS:
        if start.startswith(prefix):
            return f"{shown}, {meaning}"
    if not start.strip(b"\0"):
        return f"{shown}, nothing but zero bytes"
    return f"{shown}, a text file" if _is_text(start) else shown


def _is_text(start: bytes) -> bool:
    """UTF-8 without control bytes below the tab; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return min(start) >= 9
