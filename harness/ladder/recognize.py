"""The rung *recognize*: our reading of the container against each oracle's, over the union of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.containers.checkpoint import Checkpoint
from harness.ladder.judge import Judge
from harness.text import printable
from harness.verdicts import Side, Verdict
from oracles.worker_process import ProviderError, Unsupported

TIMEOUT_SECONDS = 120.0
FIELDS = ("type_id", "shape", "offset", "nbytes", "part")


@dataclass(frozen=True)
class FieldDifference:
    """One field that two readers of the same file see differently. `name` is a tensor, or a field of the header."""

    name: str
    field: str
    ours: str
    theirs: str
    oracle: str

    def __str__(self) -> str:
        return f"{printable(self.name)}.{self.field}: ours {self.ours}, {self.oracle} {self.theirs}"


@dataclass
class Recognized:
    """`checked` counts tensors, in each oracle that could read the container."""

    verdict: Verdict = Verdict.PASS
    side: Side = Side.SUBJECT
    checked: int = 0
    readers: list[str] = field(default_factory=list)
    differences: list[FieldDifference] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def recognize(checkpoint: Checkpoint, judges: Sequence[Judge]) -> Recognized:
    """Compare names, types, shapes, offsets and sizes of all tensors, and the set of metadata keys.

    A checkpoint in several files is described part by part. NOT_RUN when no oracle reads the container.
    """
    found = Recognized()
    ours = _our_reading(checkpoint)
    for judge in judges:
        if "describe" not in judge.ops:
            continue
        theirs: dict[str, dict[str, Any]] = {}
        keys: set[str] = set()
        try:
            for index, part in enumerate(checkpoint.parts):
                answer = judge.call("describe", {"path": str(part.path.absolute())}, timeout=TIMEOUT_SECONDS)
                found.seconds[judge.name] = found.seconds.get(judge.name, 0.0) + answer.seconds
                start = answer.result["data_offset"]
                for tensor in answer.result["tensors"]:
                    theirs[tensor["name"]] = {
                        "type_id": tensor["type_id"],
                        "shape": _without_leading_ones(tensor["shape"]),
                        "offset": start + tensor["offset"],
                        "nbytes": tensor["nbytes"],
                        "part": index,
                    }
                if index == 0:
                    keys = {entry["key"] for entry in answer.result["keys"]}
        except Unsupported as error:
            found.messages.append(error.message)
            continue
        except ProviderError as error:
            if checkpoint.byte_order == "big":
                found.messages.append(f"{judge.name} does not read a big-endian file: {error.message}")
                continue
            found.verdict, found.side = error.verdict, Side.ORACLE
            found.messages.append(error.message)
            continue
        found.readers.append(judge.name)
        found.differences += _differences(ours, theirs, judge.name)
        found.differences += [
            FieldDifference(
                "metadata", key, _present(key in checkpoint.metadata), _present(key in keys), judge.name
            )
            for key in sorted(set(checkpoint.metadata) ^ keys)
        ]
    found.checked = len(ours) if found.readers else 0
    if not ours and found.verdict is Verdict.PASS:
        found.verdict, found.side = Verdict.NOT_RUN, Side.SUBJECT
        found.messages.append("the checkpoint holds no tensor: there is nothing to compare")
    elif found.differences:
        found.verdict, found.side = Verdict.FAIL_VALUE, Side.SUBJECT
    elif not found.readers and found.verdict is Verdict.PASS:
        found.verdict, found.side = Verdict.NOT_RUN, Side.ORACLE
        found.messages.append(f"no oracle reads the container {checkpoint.container}")
    return found


def _our_reading(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    return {
        tensor.name: {
            "type_id": tensor.type_id,
            "shape": _without_leading_ones(tensor.shape),
            "offset": tensor.offset,
            "nbytes": tensor.nbytes,
            "part": tensor.part,
        }
        for tensor in checkpoint.tensors
    }


def _without_leading_ones(shape: Sequence[int]) -> list[int]:
    """Engines forget how many leading dimensions of size 1 a file declared: they are no difference."""
    kept = list(shape) or [1]
    while len(kept) > 1 and kept[0] == 1:
        kept.pop(0)
    return kept


def _differences(
    ours: dict[str, dict[str, Any]], theirs: dict[str, dict[str, Any]], oracle: str
) -> list[FieldDifference]:
    found = []
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        if name not in ours or name not in theirs:
            found.append(
                FieldDifference(name, "tensor", _present(name in ours), _present(name in theirs), oracle)
            )
            continue
        found += [
            FieldDifference(name, key, str(ours[name][key]), str(theirs[name][key]), oracle)
            for key in FIELDS
            if ours[name][key] != theirs[name][key]
        ]
    return found


def _present(there: bool) -> str:
    return "present" if there else "absent"
