"""What drift finds: one finding a file and kind, with every line that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

SCHEMA = "harness-drift/1"


class Severity(StrEnum):
    """`error` has to be changed, `warning` has to be looked at, `note` stays as it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """`id` stays the same while the finding does; `evidence` are `path:line`, relative to the tree, in order."""

    id: str
    kind: str
    severity: Severity
    unit: str
    summary: str
    evidence: tuple[str, ...]
    method: str = ""
    allowed: bool = False

    def record(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "class": self.kind,
            "severity": self.severity.value,
            "method": self.method,
            "unit": self.unit,
            "summary": self.summary,
            "evidence": list(self.evidence),
            "allowed": self.allowed,
        }


def document(tree: Path, layout: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """What `harness drift --json` writes."""
    counts = Counter(finding.severity for finding in findings)
    return {
        "schema": SCHEMA,
        "tree": str(tree),
        "layout": layout,
        "counts": {severity.value: counts[severity] for severity in Severity},
        "findings": [finding.record() for finding in findings],
    }


def lines_of(evidence: Iterable[str]) -> str:
    """`path:3,7-9` for the evidence of one file; the path alone where no line is named."""
    path, numbers = "", []
    for place in evidence:
        path, _, line = place.rpartition(":") if ":" in place else (place, "", "")
        if line:
            numbers.append(int(line))
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    words = ",".join("-".join(map(str, run)) for run in runs)
    return f"{path}:{words}" if words else path
