"""What a Python test asserts, by kind, with the bounds that stand in it and in the helpers of its file that it calls."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.upstream.evaluate import Evaluator
from harness.upstream.found import FoundCheck
from harness.upstream.source import Function, Module, assigned
from harness.upstream.values import Unknown, canonical

CLOSE = {
    "assert_close": "assert_close",
    "assert_allclose": "allclose",
    "allclose": "allclose",
    "check_logprobs_close": "logprobs_close",
    "check_outputs_equal": "bit_exact",
    "opcheck": "opcheck",
    "equal": "bit_exact",
    "array_equal": "bit_exact",
}
"""The last part of a called name -> the kind of check. `equal` counts inside of an assertion only."""
ALWAYS = frozenset(
    {"assert_close", "assert_allclose", "check_logprobs_close", "check_outputs_equal", "opcheck"}
)
RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
ORDER = {
    "assertLess": "<",
    "assertLessEqual": "<=",
    "assertGreater": ">",
    "assertGreaterEqual": ">=",
}
TOLERANCE = re.compile(r"(tol|thresh|limit|bound|eps|expected)", re.IGNORECASE)
"""Names of variables that a result is compared with as with a bound."""
DEEPEST_HELPER = 4
MOST_SETTINGS = 4
LONGEST_SETTING = 120
"""Texts that one variable of a bound is shown with, and how long each may be."""


def checks_of(test: Function, module: Module, owner: ast.ClassDef | None = None) -> tuple[FoundCheck, ...]:
    """The checks of `test`, then those of the helpers that it reaches, each with the helper's name.

    Helpers are functions of the module and methods of `owner`, four calls deep. Bounds are numbers where they are
    literals or module-level constants, else the text of the expression and what its variables are set to. What a helper
    asserts without a bound is its own precondition and no check of the test.
    """
    methods = {} if owner is None else {node.name: node for node in owner.body if isinstance(node, Function)}
    callers: list[Function] = [test]
    found = list(_direct(test, module, "", callers))
    layer = [test]
    for _ in range(DEEPEST_HELPER):
        following: list[Function] = []
        for function in layer:
            for name in _called(function):
                helper = module.functions.get(name) or methods.get(name)
                if helper is not None and helper not in callers and not name.startswith("test"):
                    callers.append(helper)
                    following.append(helper)
        for helper in following:
            stated = _direct(helper, module, helper.name, callers)
            found.extend(check for check in stated if check.kind != "structural")
        layer = following
    return tuple(found)


def _called(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("self", "cls"):
                yield node.func.attr


def _direct(
    function: Function, module: Module, via: str, callers: Sequence[Function]
) -> Iterator[FoundCheck]:
    for check, bounds in _stated(function, module):
        names = {node.id: None for bound in bounds for node in ast.walk(bound) if isinstance(node, ast.Name)}
        settings = ((name, _settings(name, function, module, callers)) for name in names)
        yield replace(check, via=via, where=tuple((name, texts) for name, texts in settings if texts))


def _settings(name: str, function: Function, module: Module, callers: Sequence[Function]) -> tuple[str, ...]:
    """What a variable of a bound is set to in the function; for a parameter, its default and what callers pass."""
    given: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.stmt):
            given += [value for target, _, value in assigned(node) if target == name]
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = [argument.arg for argument in arguments]
    if name in names:
        given += _default(function, name)
        given += [value for caller in callers for value in _passed(caller, function, name)]
    texts = dict.fromkeys(bound_text(value, module) for value in given)
    return tuple(text for text in texts if text != name and len(text) < LONGEST_SETTING)[:MOST_SETTINGS]


def _default(function: Function, name: str) -> list[ast.expr]:
    positional = [*function.args.posonlyargs, *function.args.args]
    with_default = positional[len(positional) - len(function.args.defaults) :]
    pairs = [
        *zip(with_default, function.args.defaults, strict=True),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ]
    return [value for argument, value in pairs if argument.arg == name and value is not None]


def _passed(caller: Function, function: Function, name: str) -> Iterator[ast.expr]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    for node in ast.walk(caller):
        if isinstance(node, ast.Call) and _last(node) == function.name:
            skipped = 1 if _on_self(node) else 0
            place = names.index(name) - skipped if name in names else None
            if place is not None and 0 <= place < len(node.args):
                yield node.args[place]
            yield from (word.value for word in node.keywords if word.arg == name)


Stated = tuple[FoundCheck, tuple[ast.expr, ...]]
"""A check and the expressions that bound it."""


def _stated(function: Function, module: Module) -> Iterator[Stated]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield _asserted(node.test, module)
        elif isinstance(node, ast.Call):
            name = _last(node)
            if name in RAISES:
                yield FoundCheck("raises", _raises(node)), ()
            elif name in ALWAYS:
                yield _close(node, CLOSE[name], module)
            elif name in ORDER and len(node.args) >= 2:
                left, right = (_text(argument, module) for argument in node.args[:2])
                yield FoundCheck("predicate", f"{left} {ORDER[name]} {right}"), (node.args[1],)
            elif name.startswith("assert") and _on_self(node) and node.args:
                yield _asserted(node.args[0], module)


def _asserted(condition: ast.expr, module: Module) -> Stated:
    """The check that an assertion makes: closeness, equality of bits, a comparison with a number, or any other."""
    for node in ast.walk(condition):
        if isinstance(node, ast.Call) and (name := _last(node)) in CLOSE:
            return _close(node, CLOSE[name], module)
    for node in ast.walk(condition):
        if isinstance(node, ast.Compare) and (limits := _limits(node, module)) is not None:
            return FoundCheck("predicate", _text(condition, module)), limits
    return FoundCheck("structural"), ()


def _close(call: ast.Call, kind: str, module: Module) -> Stated:
    if kind not in ("assert_close", "allclose"):
        return FoundCheck(kind), ()
    given = {word.arg: word.value for word in call.keywords if word.arg in ("rtol", "atol")}
    positional = dict(zip(("rtol", "atol"), call.args[2:4], strict=False)) if kind == "allclose" else {}
    words: dict[str, ast.expr] = {**positional, **given}
    bounds = {name: words[name] for name in ("rtol", "atol") if name in words}
    text = ", ".join(f"{name}={bound_text(bound, module)}" for name, bound in bounds.items())
    return FoundCheck(kind, text), tuple(bounds.values())


def _limits(node: ast.Compare, module: Module) -> tuple[ast.expr, ...] | None:
    """The variables by which a comparison of order bounds: none for a number, None for what is no bound."""
    if not any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops):
        return None
    sides = (node.left, *node.comparators)
    variables = tuple(side for side in sides if isinstance(side, ast.Name) and TOLERANCE.search(side.id))
    if variables or any(_number(side, module) is not None for side in sides):
        return variables
    return None


def bound_text(node: ast.expr, module: Module) -> str:
    """A bound: its number where it is one without running the test, else the expression; an entry with its table."""
    number = _number(node, module)
    if number is not None:
        return number
    text = ast.unparse(node)
    if isinstance(node, ast.Subscript):
        with contextlib.suppress(Unknown):
            table: Any = Evaluator(module.lookup).value(node.value)
            if isinstance(table, (dict, list, tuple)):
                return f"{text} of {canonical(table)}"
    return text


def _number(node: ast.expr, module: Module) -> str | None:
    try:
        value: Any = Evaluator(module.lookup).value(node)
    except Unknown:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return canonical(value)


def _text(node: ast.expr, module: Module) -> str:
    return _number(node, module) or ast.unparse(node)


def _raises(call: ast.Call) -> str:
    exception = ast.unparse(call.args[0]) if call.args else "?"
    words = {word.arg: word.value for word in call.keywords}
    match = words.get("match") or (
        call.args[1] if _last(call) == "assertRaisesRegex" and len(call.args) > 1 else None
    )
    if match is None:
        return exception
    text = str(match.value) if isinstance(match, ast.Constant) else ast.unparse(match)
    return f"{exception}: {text}"


def _last(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _on_self(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "self"
    )
