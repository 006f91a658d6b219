"""The JSON Schemas that are published under docs/schemas/: `python -m harness.report.schemas` writes them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.audit.model import Audit
from harness.evidence.record import Evidence
from harness.matrix.model import Matrix
from harness.paths import REPOSITORY
from harness.report.bench_model import BenchReport
from harness.report.compare_model import CompareReport
from harness.upstream.model import Diff, Status

FOLDER = REPOSITORY / "docs" / "schemas"


def schemas() -> dict[str, dict[str, Any]]:
    """File name -> schema of the contract behind it."""
    return {
        "bench.schema.json": BenchReport.model_json_schema(mode="serialization"),
        "audit.schema.json": Audit.model_json_schema(mode="serialization"),
        "compare.schema.json": CompareReport.model_json_schema(mode="serialization"),
        "evidence.schema.json": Evidence.model_json_schema(mode="serialization"),
        "matrix.schema.json": Matrix.model_json_schema(mode="serialization"),
        "upstream.schema.json": Status.model_json_schema(mode="serialization"),
        "upstream-diff.schema.json": Diff.model_json_schema(mode="serialization"),
    }


def text_of(schema: dict[str, Any]) -> str:
    """A schema as the file holds it."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def write(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (folder / name).write_text(text_of(schema), encoding="utf-8")


if __name__ == "__main__":
    write()
