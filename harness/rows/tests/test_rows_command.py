"""`harness rows`: what it prints, and that nothing in a row can break the page or the table."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from harness.cli.rows import command
from harness.errors import UsageProblem
from harness.rows import render, schema
from harness.rows.load import load_rows


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_the_published_schema_is_that_of_the_code():
    assert schema.PUBLISHED.read_text(encoding="utf-8") == schema.text(), "run python -m harness.rows.schema"


def test_json_on_stdout_is_json_alone_and_fits_the_schema():
    document = json.loads(run("--json", "-").stdout)
    jsonschema.validate(document, json.loads(schema.PUBLISHED.read_text(encoding="utf-8")))
    assert document["counts"]["total"] == len(document["rows"]) == len(load_rows())


def test_the_schema_refuses_a_document_with_a_field_too_many():
    document = json.loads(run("--json", "-").stdout)
    document["rows"][0]["pass"] = "Y"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(schema.PUBLISHED.read_text(encoding="utf-8")))


def test_a_family_is_shown_without_the_others(tmp_path: Path):
    target = tmp_path / "rows.json"
    shown = run("--family", "mlx", "--json", str(target)).stdout
    assert "QUANT-MLX-AFFINE-Q1" in shown
    assert "QUANT-GGUF-Q4_K" not in shown
    assert {row["family"] for row in json.loads(target.read_text())["rows"]} == {"mlx"}


def test_every_row_is_in_the_table_uncut_when_piped():
    shown = run().stdout
    for row in load_rows().values():
        assert f" {row.id} " in shown, row.id
    assert "…" not in shown


def test_an_unknown_family_names_the_families():
    with pytest.raises(UsageProblem, match="kv-cache"):
        CliRunner().invoke(command, ["--family", "nope"], catch_exceptions=False)


def test_two_formats_for_stdout_at_once_are_refused():
    with pytest.raises(UsageProblem, match="stdout"):
        CliRunner().invoke(command, ["--json", "-", "--markdown"], catch_exceptions=False)


def test_a_file_that_cannot_be_written_is_no_traceback(tmp_path: Path):
    with pytest.raises(UsageProblem, match="cannot write"):
        CliRunner().invoke(command, ["--html", str(tmp_path / "no" / "rows.html")], catch_exceptions=False)


def test_text_of_a_row_cannot_become_markup_or_a_second_cell():
    row = next(iter(load_rows().values())).model_copy(update={"item": "<script>x</script> | y"})
    page = render.html([row])
    assert "<script>" not in page
    assert "&lt;script&gt;x&lt;/script&gt; | y" in page
    line = next(line for line in render.markdown([row]).splitlines() if row.id in line)
    assert "<script>" not in line
    assert r"\| y" in line
    assert line.replace(r"\|", "").count("|") == len(render.HEADINGS) + 1


def test_rich_markup_in_a_row_is_text():
    row = next(iter(load_rows().values())).model_copy(update={"item": "[red]x[/red]"})
    (table,) = render.tables([row])
    assert "[red]x[/red]" in str(next(iter(table.columns[1].cells)))


def test_html_and_markdown_hold_every_row(tmp_path: Path):
    target = tmp_path / "rows.html"
    markdown = run("--markdown", "--html", str(target)).stdout
    page = target.read_text(encoding="utf-8")
    for row_id in load_rows():
        assert f"| {row_id} |" in markdown
        assert f"<td>{row_id}</td>" in page
