"""Exceptions to the audit: each says what it excuses and why, and is a finding itself when it excuses nothing.

In a test file, on the line of the finding or the one above it: `# audit: allow(hidden-continue) the encoding has no …`.
For a family, an entry of `harness/audit/allowed.yaml`.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from harness.audit.codes import ALLOWED_BY_COMMENT, ALLOWED_BY_LIST, CODES
from harness.audit.families import FamilyFinding
from harness.audit.project import Module, Project
from harness.plugin.expectations import reason_problems
from harness.plugin.findings import Finding
from harness.rows.strict_yaml import read_mapping, validated

CODE = "bad-allow"
LIST = Path("harness") / "audit" / "allowed.yaml"
_COMMENT = re.compile(r"#\s*audit:\s*(?P<rest>.*)$")
_ALLOW = re.compile(r"allow\((?P<code>[^)]*)\)\s*(?P<reason>.*)$")


@dataclass(frozen=True)
class Comment:
    """One `# audit: allow(code) reason`."""

    file: str
    line: int
    code: str
    reason: str

    def excuses(self, finding: Finding) -> bool:
        return (finding.file, finding.code) == (self.file, self.code) and finding.line - self.line in (0, 1)


class Entry(BaseModel):
    """One entry of the list. `subject` is the axis or the kind of bound."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    family: str
    subject: str
    owner: str
    reason: str


class _List(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    allowed: tuple[Entry, ...] = ()


def without_excused(
    findings: Iterable[Finding],
    of_families: Iterable[FamilyFinding],
    modules: Iterable[Module],
    project: Project,
) -> Iterator[Finding]:
    """The findings that nothing excuses, and those about the excuses. Raises BadInput for a list that cannot be read."""
    comments = [comment for module in modules for comment in comments_of(module)]
    used: set[Comment] = set()
    for finding in findings:
        fitting = [comment for comment in comments if comment.excuses(finding) and not _wrong(comment)]
        used.update(fitting)
        if not fitting:
            yield finding
    for comment in comments:
        if words := _wrong(comment):
            yield Finding(CODE, comment.file, comment.line, words)
        elif comment not in used:
            yield Finding(
                CODE, comment.file, comment.line, f"allow({comment.code}) excuses nothing: take it away"
            )
    yield from _of_families(of_families, project)


def comments_of(module: Module) -> list[Comment]:
    """The comments to the audit in a file. One that cannot be read has no code."""
    text = module.path.read_text(encoding="utf-8")
    if "audit:" not in text:
        return []
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := _COMMENT.match(token.string)):
            allow = _ALLOW.match(match["rest"])
            code, reason = (allow["code"].strip(), allow["reason"].strip()) if allow else ("", "")
            found.append(Comment(module.file, token.start[0], code, reason))
    return found


def _wrong(comment: Comment) -> str:
    if not comment.code:
        return "a comment to the audit reads `# audit: allow(CODE) reason`"
    if comment.code not in ALLOWED_BY_COMMENT:
        known = "no comment excuses it" if comment.code in CODES else "there is no such finding"
        return f"allow({comment.code}): {known}; wanted one of {', '.join(ALLOWED_BY_COMMENT)}"
    return "; ".join(reason_problems(comment.reason))


def _of_families(findings: Iterable[FamilyFinding], project: Project) -> Iterator[Finding]:
    path = project.root / LIST
    entries = validated(_List, read_mapping(path), file=path).allowed if path.is_file() else ()
    used: set[Entry] = set()
    for finding in findings:
        key = finding.code, finding.family.name, finding.subject
        fitting = [entry for entry in entries if (entry.code, entry.family, entry.subject) == key]
        used.update(fitting)
        if not any(_complete(entry) for entry in fitting):
            yield finding.placed(project)
    for entry in entries:
        name = f"{entry.code} of {entry.family}, {entry.subject}"
        if not _complete(entry):
            words = (
                "; ".join(reason_problems(entry.reason))
                or "no comment or list excuses it, or it has no owner"
            )
        elif entry not in used:
            words = "it excuses nothing: take it away"
        else:
            continue
        yield Finding(CODE, LIST.as_posix(), _line_of(path, entry), f"{name}: {words}")


def _complete(entry: Entry) -> bool:
    return entry.code in ALLOWED_BY_LIST and bool(entry.owner.strip()) and not reason_problems(entry.reason)


def _line_of(path: Path, entry: Entry) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if entry.family in line), 1)
