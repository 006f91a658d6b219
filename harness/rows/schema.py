"""The JSON Schema of `harness rows --json`. `python -m harness.rows.schema` writes the published copy anew."""

from __future__ import annotations

from harness.paths import REPOSITORY
from harness.report.strict_json import dumps
from harness.rows.model import RowsDocument

PUBLISHED = REPOSITORY / "docs" / "schemas" / "rows.schema.json"


def text() -> str:
    """The schema of the document as it is written, JSON Schema 2020-12."""
    schema = RowsDocument.model_json_schema(by_alias=True, mode="serialization")
    return dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


if __name__ == "__main__":
    PUBLISHED.write_text(text(), encoding="utf-8")
