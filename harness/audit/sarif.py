"""The findings as SARIF 2.1.0, which code hosts show at the lines of a pull request."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.audit.codes import CODES
from harness.audit.model import Audit, AuditFinding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(audit: Audit) -> dict[str, Any]:
    """One run with a rule for every kind of finding. Files are relative to the root of the tree (`%SRCROOT%`)."""
    rules = [{"id": code, "shortDescription": {"text": words}} for code, words in CODES.items()]
    tool = {"name": "harness audit", "version": __version__, "rules": rules}
    results = [_result(finding) for finding in audit.findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": tool}, "results": results}]}


def _result(finding: AuditFinding) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(finding.file), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": max(1, finding.line)},
    }
    # Without the line: a finding stays the same one when something above it grows.
    digest = hashlib.sha256("\0".join((finding.code, finding.file, finding.message)).encode())
    return {
        "ruleId": finding.code,
        "ruleIndex": list(CODES).index(finding.code),
        "level": "error",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"harnessAudit/v1": digest.hexdigest()[:32]},
    }
