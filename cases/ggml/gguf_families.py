"""Families ported from llama.cpp's test-gguf: handcrafted files, round trips, and copies of key-value pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cases.ggml.container import holdable
from cases.ggml.family import rows_of
from cases.ggml.gguf_kinds import KINDS
from harness.containers.tests import gguf_bytes
from harness.evidence.case import Ancestor, Family
from harness.rows.model import Dimension

CONTAINER = "QUANT-GGUF-CONTAINER"
SEEDS = ("0", "1", "2")
BOUND = "the same fields"

FIXED = frozenset(
    kind
    for kind in KINDS
    if (kind.startswith("HEADER_") and not kind.startswith("HEADER_ONE_TENSOR_"))
    or kind in ("DATA_MEM_SIZE_OVERFLOW", "DATA_MORE_BYTES", "DATA_PADDING_NOT_0")
)
"""Kinds whose files have nothing random: one seed is enough."""

WAYS: Mapping[str, Mapping[str, object]] = {
    "metadata": {"through": "file", "data": False},
    "file": {"through": "file", "data": True},
    "prefix": {"through": "offset", "offset": 7, "data": True},
    "buffer": {"through": "buffer", "data": True},
    "callback": {"through": "callback", "data": True},
}
"""How the engine is handed a file -> the parameters of its `gguf_open`."""
PREFIX = b"\xab" * 7
"""What stands before the file in the way `prefix`: no multiple of any alignment."""

_FILES = (
    *(Path(__file__).with_name(f"gguf_{name}") for name in ("contents.py", "files.py", "kinds.py")),
    *(Path(__file__).with_name(f"gguf_{name}") for name in ("families.py", "outcomes.py", "outcomes.yaml")),
    *(Path(__file__).with_name(name) for name in ("gguf_readings.py", "container.py", "test_gguf_files.py")),
    Path(gguf_bytes.__file__),
)


def _container(_encoding: str | None) -> tuple[str, ...]:
    return (CONTAINER,)


def _container_and_held(_encoding: str | None) -> tuple[str, ...]:
    """A round trip carries tensors of every type."""
    held = (owner for name in holdable() for owner in rows_of(name))
    return (CONTAINER, *dict.fromkeys(held))


def _ancestor(test: str, bound: str) -> tuple[Ancestor, ...]:
    return (Ancestor(engine="llama.cpp", file="tests/test-gguf.cpp", test=test, bound=bound),)


HANDCRAFTED = Family(
    name="ggml.gguf.handcrafted",
    op="recognize",
    dimension=Dimension.RECOGNIZE,
    backends=("cpu",),
    encodings=(),
    axes={"kind": tuple(KINDS), "seed": SEEDS},
    rows=_container,
    bound=BOUND,
    files=_FILES,
    upstream=_ancestor(
        "test_handcrafted_file", "accepted or refused; what is accepted equals what was written"
    ),
    refuse=lambda chosen: (
        "the file has nothing random" if chosen["kind"] in FIXED and chosen["seed"] != SEEDS[0] else None
    ),
)
ROUNDTRIP = Family(
    name="ggml.gguf.roundtrip",
    op="recognize",
    dimension=Dimension.RECOGNIZE,
    backends=("cpu",),
    encodings=(),
    axes={"writer": ("ours", "engine"), "way": tuple(WAYS), "seed": SEEDS},
    rows=_container_and_held,
    bound=BOUND,
    files=_FILES,
    upstream=_ancestor("test_roundtrip", "the same pairs, tensors and data"),
)
SET_KV = Family(
    name="ggml.gguf.set_kv",
    op="recognize",
    dimension=Dimension.RECOGNIZE,
    backends=("cpu",),
    encodings=(),
    axes={"into": ("empty", "filled", "filled_and_back"), "seed": SEEDS},
    rows=_container,
    bound=BOUND,
    files=_FILES,
    upstream=_ancestor("test_gguf_set_kv", "the same pairs, also after a second copy"),
)
