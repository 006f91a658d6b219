"""A YAML file of ours, read strictly: safe types only, no key twice, every error with its file, line or field."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import BadInput

Model = TypeVar("Model", bound=BaseModel)

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _NoDuplicateKeys(_BASE):  # type: ignore[misc]  # the C loader when PyYAML has it: ten times faster
    """PyYAML keeps the last of two equal keys; here the second one is an error, or a row would lose a line in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice in one mapping", key.start_mark
                )
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_mapping(path: Path) -> dict[str, Any]:
    """The top-level mapping of `path`. `BadInput` (file, line, what stood there) when it is not readable YAML of that shape."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(file=path, field="(file)", got=error, wanted="a readable UTF-8 file") from error
    try:
        # _NoDuplicateKeys is the safe loader with one check more.
        data = yaml.load(text, Loader=_NoDuplicateKeys)  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark is not None else "(file)"
        problem = getattr(error, "problem", None) or error
        raise BadInput(
            file=path, field=line, got=problem, wanted="valid YAML without duplicate keys"
        ) from error
    if not isinstance(data, dict):
        raise BadInput(file=path, field="(top)", got=type(data).__name__, wanted="a mapping")
    return data


def validated(model: type[Model], data: object, *, file: Path, where: str = "") -> Model:
    """`data` as a `model`; `BadInput` with `file`, `where` and the field for the first thing that does not fit."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = problems[0]
    field = ".".join(str(part) for part in first["loc"]) or "(whole)"
    got: object = "nothing" if first["type"] == "missing" else first["input"]
    wanted = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(first["loc"][-1]), model.model_fields, n=1)
        wanted = "no such field" + (f"; did you mean {near[0]}?" if near else "")
    if isinstance(got, dict):
        got = f"a mapping of {', '.join(map(str, got))}"
    hint = f"{len(problems) - 1} more below it" if len(problems) > 1 else None
    raise BadInput(file=file, field=f"{where}{field}", got=got, wanted=wanted, hint=hint)
