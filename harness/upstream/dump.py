"""The inventory as YAML, in the one form that it has in the repository: a diff of two versions shows what changed alone.

A test's lists and its axes, checks and fate stand on a line as long as they fit; words fold; the comment at the top
of the file and a blank line between tests and between files stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

WIDTH = 118
BLOCK_LISTS = frozenset(
    {
        "tests",
        "files",
        "axes",
        "checks",
        "notes",
        "history",
        "sources",
        "retired",
        "sweep",
        "module_skip_when",
    }
)
"""Keys whose lists stand one element a line, as do the modules' conditions."""
FLOW_MAPPINGS = frozenset({"axes", "checks", "sources"})
"""Keys whose elements are mappings on one line."""


class _Flow(dict[str, Any]):
    """A mapping on one line."""


class _FlowList(list[Any]):
    """A list on one line."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _flow(dumper: yaml.SafeDumper, data: _Flow) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True)


def _flow_list(dumper: yaml.SafeDumper, data: _FlowList) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)


def encodable(text: str) -> str:
    """`text` with half a surrogate pair, which YAML cannot hold, as the escape that its source has."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _string(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    return dumper.represent_str(encodable(data))


_Dumper.add_representer(str, _string)
_Dumper.add_representer(_Flow, _flow)
_Dumper.add_representer(_FlowList, _flow_list)


def comment_of(text: str) -> str:
    """The comment at the top of a file, with its line ends."""
    lines = text.splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[:end])


def dumped(data: Mapping[str, Any], comment: str = "") -> str:
    """The whole file: `comment`, then `data` (what the inventory's models read) in canonical form."""
    head = {key: value for key, value in data.items() if key not in ("files", "retired")}
    parts = [comment, _text(_shaped(head))]
    for key in ("files", "retired"):
        if data.get(key):
            parts.append("\n" + _spaced(_text({key: [_file(file) for file in data[key]]})))
    return "".join(parts)


def plain(data: Mapping[str, Any]) -> str:
    """Any mapping in block form, lists of plain values on a line."""
    return _text(_shaped(data))


def _text(data: Mapping[str, Any]) -> str:
    return yaml.dump(
        dict(data), Dumper=_Dumper, sort_keys=False, width=WIDTH, allow_unicode=True, default_flow_style=False
    )


def _spaced(text: str) -> str:
    """A blank line before each file and each test but the first of its list."""
    text = re.sub(r"\n(?=  - path: )", "\n\n", text)
    text = re.sub(r"\n(?=      - name: )", "\n\n", text)
    return re.sub(r"((?:files|retired|    tests):\n)\n", r"\1", text)


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    shaped = _shaped({key: value for key, value in file.items() if key != "tests"})
    return shaped | {"tests": [_shaped(test) for test in file["tests"]]}


def _shaped(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value(key, value) for key, value in data.items()}


def _value(key: str, value: Any) -> Any:
    if key in ("fate", "totals", "presence", "cases_on"):
        return _inner(value)
    if key == "new_in":
        return {release: list(names) for release, names in value.items()}
    if isinstance(value, Mapping):
        return {name: _value(name, item) for name, item in value.items()}
    if isinstance(value, list):
        if key in FLOW_MAPPINGS:
            return [_axis(item) if isinstance(item, Mapping) else item for item in value]
        if key in BLOCK_LISTS:
            return [dict(item) if isinstance(item, Mapping) else item for item in value]
        return _FlowList(_inner(item) for item in value)
    return value


def _axis(item: Mapping[str, Any]) -> dict[str, Any]:
    """An axis or a check on one line; one that is described in words has a line for each field."""
    if "words" in item:
        return {key: _value(key, value) for key, value in item.items()}
    return _Flow({key: _inner(value) for key, value in item.items()})


def _inner(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _Flow({key: _inner(item) for key, item in value.items()})
    if isinstance(value, list):
        return _FlowList(_inner(item) for item in value)
    return value
