"""Findings about families: they have no line of their own, so that each is known by its family and what it is about."""

from __future__ import annotations

from dataclasses import dataclass

from harness.audit.collected import CollectedFamily
from harness.audit.project import Project
from harness.plugin.findings import Finding


@dataclass(frozen=True)
class FamilyFinding:
    """`subject` is what of the family it is about: an axis, a kind of bound."""

    code: str
    family: CollectedFamily
    subject: str
    message: str

    def placed(self, project: Project) -> Finding:
        """At the line that names the family; at the top of its first file where none does."""
        for file in self.family.files:
            module = project.module(project.root / file)
            lines = module.path.read_text(encoding="utf-8").splitlines() if module else []
            for number, line in enumerate(lines, start=1):
                if f'"{self.family.name}"' in line or f"'{self.family.name}'" in line:
                    return Finding(self.code, file, number, self.message)
        return Finding(self.code, self.family.files[0] if self.family.files else "", 1, self.message)
