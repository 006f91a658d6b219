"""SARIF 2.1.0: what its schema requires of the objects that we write, and what a host needs to show a finding."""

from __future__ import annotations

import jsonschema

from harness.audit.codes import CODES
from harness.audit.sarif import sarif
from harness.audit.tests.conftest import KNOWN_BAD, Audits

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
PLACE = {
    "type": "object",
    "required": ["artifactLocation"],
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri"],
            "properties": {
                "uri": {"type": "string", "pattern": "^[^ \\\\]+$"},
                "uriBaseId": {"type": "string"},
            },
            "additionalProperties": False,
        },
        "region": {
            "type": "object",
            "properties": {"startLine": {"type": "integer", "minimum": 1}},
            "additionalProperties": False,
        },
    },
}
RULE = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "shortDescription": TEXT},
}
RESULT = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "ruleId": {"enum": list(CODES)},
        "ruleIndex": {"type": "integer", "minimum": -1},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "items": {"properties": {"physicalLocation": PLACE}}},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}
LOG = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {"type": "array", "uniqueItems": True, "items": RULE}
                                },
                            }
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
    "additionalProperties": False,
}
"""The parts of the standard's schema that our log uses, with what they require."""


def test_a_log_lacks_what_the_standard_requires(audits: Audits) -> None:
    document = sarif(audits.after)
    jsonschema.validate(document, LOG)
    (run,) = document["runs"]
    assert len(run["results"]) == len(audits.after.findings) > len(KNOWN_BAD)


def test_a_result_points_at_another_rule(audits: Audits) -> None:
    (run,) = sarif(audits.after)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_a_finding_is_a_new_one_when_a_line_above_it_is_added(audits: Audits) -> None:
    moved = audits.after.model_copy(
        update={
            "findings": tuple(
                each.model_copy(update={"line": each.line + 1}) for each in audits.after.findings
            )
        }
    )
    before, after = (sarif(audit)["runs"][0]["results"] for audit in (audits.after, moved))
    prints = [[result["partialFingerprints"] for result in results] for results in (before, after)]
    assert prints[0] == prints[1]
    assert before != after
