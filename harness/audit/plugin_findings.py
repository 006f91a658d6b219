"""What the plugin itself refuses at collection, under the names of the audit."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from harness.audit.collected import Collected
from harness.audit.expectations import UNMATCHED
from harness.audit.project import FunctionNode, Project
from harness.plugin.findings import Finding

_SAYS_TOO_LITTLE = ("bad-skip-case", "bad-xfail-case")


def find(collected: Collected, project: Project, said: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding of the plugin once. `said` are those of the audit about skips, which tell apart what the plugin
    says in one line; files that pytest was told to leave out are findings too."""
    where = {(finding.file, finding.line) for finding in said}
    raw: set[tuple[str, int]] = set()
    for place in collected.findings:
        code = place.code
        if code in _SAYS_TOO_LITTLE or code == "idle-skip":
            if (place.file, place.line) in where:
                continue
            code = UNMATCHED if code == "idle-skip" else "bad-expectation"
        elif code == "raw-skip":
            if (place.file, place.line) in raw:  # by its name and as a mark
                continue
            raw.add((place.file, place.line))
            if _of_the_whole_file(place.file, place.line, project):
                code = "module-skip"
        yield Finding(code, place.file, place.line, place.message)


def _of_the_whole_file(file: str, line: int, project: Project) -> bool:
    """Whether a line stands outside every function and class, their decorators included."""
    module = project.module(project.root / file)
    for node in module.tree.body if module else ():
        if isinstance(node, FunctionNode | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= line <= (node.end_lineno or first):
                return False
    return True
