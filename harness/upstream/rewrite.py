"""The inventory of an engine, rewritten after another tree for review.

Kept: fates, rows and every word that a person wrote. Taken from the tree: lines, parameters, checks with their bounds,
digests. A new test is unaccounted; what is gone is retired with its fate and the release that lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from harness.upstream.compare import check_changes
from harness.upstream.dump import comment_of, dumped, encodable
from harness.upstream.extract import Extracted
from harness.upstream.found import FoundAxis, FoundCheck, FoundFile, FoundTest
from harness.upstream.known import COUNTED, found_checks, known_files

UNWRITTEN = "not looked at yet"
"""What stands where a person has to write something about a new test."""
MOST_VALUES = 64
"""Rows that an axis is written down with; a longer one keeps its count and its digest."""


def release_of(source: Path) -> str:
    """The release that a tree's name gives, else the name itself."""
    name = source.resolve().name
    found = re.search(r"\d+(?:\.\d+)+(?:[a-z]+\d+)?", name)
    return found[0] if found else name


def rewritten(data: Mapping[str, Any], extracted: Extracted, release: str, *, loops: bool) -> dict[str, Any]:
    """The inventory's YAML document `data` brought up to what `extracted` found; `data` itself is left alone.

    Files that could not be read stay as they are. `loops`: the inventory's axes may be loops under other names.
    """
    from cases.upstream.inventory import Inventory

    document = _revived(deepcopy(dict(data)), extracted)
    known = known_files(Inventory.model_validate(document))
    files: list[dict[str, Any]] = []
    retired: list[dict[str, Any]] = list(document.get("retired", []))
    for file in document["files"]:
        found = extracted.files.get(file["path"])
        if file["path"] in extracted.unreadable:
            files.append(file)
            continue
        tests, gone = _tests(file, known[file["path"]], found, loops=loops)
        if gone:
            retired.append(
                {key: value for key, value in file.items() if key != "tests"}
                | {"gone_in": release, "tests": gone}
            )
        if tests:
            files.append({key: value for key, value in file.items() if key != "tests"} | {"tests": tests})
    new = [path for path in extracted.files if path not in known]
    files += [_new_file(extracted.files[path], extracted.reasons[path]) for path in new]
    document["files"] = files
    document.pop("retired", None)
    if retired:
        document["retired"] = retired
    document["totals"] = _totals(files, retired)
    _source(document, release)
    return document


def _revived(document: dict[str, Any], extracted: Extracted) -> dict[str, Any]:
    """The document with retired tests that the tree has again among the others, with the fate that they had."""
    files = {file["path"]: file for file in document["files"]}
    left = []
    for file in document.get("retired", []):
        found = extracted.files.get(file["path"])
        back = [test for test in file["tests"] if found is not None and found.test(test["name"]) is not None]
        gone = [test for test in file["tests"] if test not in back]
        if back:
            plain = {key: value for key, value in file.items() if key not in ("gone_in", "tests")}
            home = files.setdefault(file["path"], plain | {"tests": []})
            home["tests"] = [*home["tests"], *back]
        if gone:
            left.append(file | {"tests": gone})
    return document | {"files": list(files.values()), "retired": left}


def as_text(document: Mapping[str, Any], before: str) -> str:
    """The document as its file holds it, under the comment that the file had."""
    return dumped(document, comment_of(before))


def cpp_document(engines: Mapping[str, Any], engine: str, extracted: Extracted) -> dict[str, Any]:
    """The file of C++ facts with those of `engine` replaced by what `extracted` found."""
    files = {
        file.path: ({"constants": dict(file.constants)} if file.constants else {})
        | {"tests": {test.name: _cpp_test(test) for test in file.tests}}
        for file in extracted.files.values()
        if file.path.endswith(".cpp")
    }
    return {"engines": dict(engines) | ({engine: files} if files else {})}


def _cpp_test(test: FoundTest) -> dict[str, Any]:
    found: dict[str, Any] = {"line": test.line, "digest": test.digest}
    bounds = [check.bound for check in test.checks or () if check.kind == "predicate"]
    if bounds:
        found["checks"] = bounds
    return found | ({"facts": dict(test.facts)} if test.facts else {})


def _source(document: dict[str, Any], release: str) -> None:
    """The tree among the sources, unless it is there."""
    known = [
        version.strip()
        for source in document["sources"]
        for version in (str(source.get("version") or ""), str(source.get("commit") or ""))
        if source["use"] != "presence"
    ]
    if not any(release == name or (name and name.startswith(release)) for name in known):
        project = document["sources"][0]["project"]
        document["sources"].append({"project": project, "version": release, "use": "updated from this tree"})


def _tests(
    file: Mapping[str, Any], known: FoundFile, found: FoundFile | None, *, loops: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tests of a file as they are now, and those that are gone."""
    tests, gone = [], []
    for test in file["tests"]:
        now = found.test(test["name"]) if found is not None else None
        was = known.test(test["name"])
        if now is None or was is None:
            gone.append(test)
        else:
            tests.append(_updated(test, was, now, loops=loops, cpp=file["path"].endswith(".cpp")))
    if found is not None:
        tests += [_new_test(test) for test in found.tests if known.test(test.name) is None]
    return tests, gone


def _updated(
    test: Mapping[str, Any], was: FoundTest, now: FoundTest, *, loops: bool, cpp: bool
) -> dict[str, Any]:
    updated = dict(test)
    updated["line"] = now.line
    if cpp:
        return updated  # what its source says is in the file of C++ facts
    if now.axes is not None and was.axes is not None:
        _update_axes(updated, was.axes, now, loops=loops)
    if now.checks and (was.checks is None or any(check_changes(was.checks, now.checks))):
        _put(updated, "checks", _checks(now.checks, test.get("checks", ())), before="hardware")
    elif now.checks == () and was.checks:
        del updated["checks"]
    if now.always_skipped:
        _put(updated, "always_skipped", True, before="notes")
    elif updated.pop("always_skipped", False):
        pass
    if now.digest is not None:
        _put(updated, "digest", now.digest, before="fate")
    return updated


def _update_axes(updated: dict[str, Any], was: Sequence[FoundAxis], now: FoundTest, *, loops: bool) -> None:
    new = {axis.names: axis for axis in now.axes or ()}
    single = {part.names: part for axis in now.axes or () if axis.loop for part in axis.factors()}
    written = dict(zip((axis.names for axis in was), updated.get("axes", []), strict=True))
    axes, changed, counted = [], False, False
    for axis in was:
        other = new.get(axis.names) or single.get(axis.names)
        if other is None and loops:
            axes.append(written[axis.names])  # a sweep in words, or one that loops are not named after
        elif other is None:
            changed = counted = True
        elif _differs(axis, other):
            axes.append(_axis(other))
            changed = True
            counted |= not other.loop
        else:
            axes.append(written[axis.names])
    known = {axis.names for axis in was}
    for names, axis in new.items():
        if names not in known and not axis.loop:
            axes.append(_axis(axis))
            changed = counted = True
    if changed:
        _put(updated, "axes", axes, before="asserts")
        if not axes:
            del updated["axes"]
        if counted and now.cases is not None:
            updated["cases"] = now.cases


def _differs(was: FoundAxis, now: FoundAxis) -> bool:
    """Whether the values are others; those that a person put in words stay as long as there are as many."""
    if was.rows is None or now.rows is None or (now.calls and was.count == now.count):
        return False
    return sorted(was.rows) != sorted(now.rows)


def _put(mapping: dict[str, Any], key: str, value: Any, *, before: str) -> None:
    """Sets `key`, a new one in front of `before` (or of the fate), so that fields keep their order."""
    if key in mapping:
        mapping[key] = value
        return
    rest = {}
    order = [
        "axes",
        "sweep",
        "asserts",
        "checks",
        "bound",
        "hardware",
        "needs_checkpoint",
        "rows",
        "presence",
    ]
    order += ["always_skipped", "notes", "digest", "fate"]
    later = set(order[order.index(before) :]) | {"fate"}
    for name in [name for name in mapping if name in later]:
        rest[name] = mapping.pop(name)
    mapping[key] = value
    mapping.update(rest)


def _new_file(file: FoundFile, reason: str) -> dict[str, Any]:
    return {
        "path": file.path,
        "summary": f"{UNWRITTEN}: {reason}",
        "hardware": UNWRITTEN,
        "needs_checkpoint": False,
        "rows": [],
        "tests": [_new_test(test) for test in file.tests],
    }


def _new_test(test: FoundTest) -> dict[str, Any]:
    found: dict[str, Any] = {"name": test.name, "line": test.line, "cases": test.cases}
    axes = [_axis(axis) for axis in test.axes or () if not axis.loop]
    if axes:
        found["axes"] = axes
    if test.checks:
        found["checks"] = _checks(test.checks)
    found["rows"] = []
    if test.always_skipped:
        found["always_skipped"] = True
    if test.digest is not None:
        found["digest"] = test.digest
    return found | {"fate": {"state": "unaccounted"}}


def _axis(axis: FoundAxis) -> dict[str, Any]:
    found: dict[str, Any] = {"names": list(axis.names)}
    if axis.rows is None or len(axis.rows) > MOST_VALUES:
        if axis.count:
            found["count"] = axis.count
        return found | {
            "words": ["values that only running the test tells" if axis.rows is None else "too many to list"]
        }
    values = [[yaml.safe_load(encodable(value)) for value in row] for row in axis.rows]
    found["count"] = len(values)
    return found | {"values": values if len(axis.names) > 1 else [row[0] for row in values]}


def _checks(checks: Sequence[FoundCheck], written: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The checks as the file has them; one that was there already stays as it is written."""
    from cases.upstream.inventory import Check

    kept = {next(found_checks((Check.model_validate(each),))): dict(each) for each in written}
    found: list[dict[str, Any]] = []
    counted: dict[tuple[str, str], int] = {}
    for check in checks:
        if check.kind in COUNTED:
            counted[check.kind, check.via] = counted.get((check.kind, check.via), 0) + 1
        elif (shown := kept.get(check) or _check(check)) not in found:
            found.append(shown)
    for (kind, via), number in counted.items():
        found.append({"kind": kind, "count": number} | ({"via": via} if via else {}))
    return found


def _check(check: FoundCheck) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": check.kind}
    if check.kind in ("assert_close", "allclose"):
        for part in filter(None, check.bound.split(", ")):
            name, _, value = part.partition("=")
            if name in ("rtol", "atol"):
                found[name] = _number(value)
    elif check.kind == "raises":
        exception, _, match = check.bound.partition(": ")
        found |= {"exception": exception} | ({"match": match} if match else {})
    elif check.bound:
        found["text"] = check.bound
    if check.via:
        found["via"] = check.via
    if check.where:
        found["where"] = {name: list(texts) for name, texts in check.where}
    return found


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _totals(files: Sequence[Mapping[str, Any]], retired: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    every = [*files, *retired]
    tests = [test for file in every for test in file["tests"]]
    return {
        "files": len({file["path"] for file in every}),
        "tests": len(tests),
        "cases": sum(test["cases"] or 0 for test in tests),
    }
