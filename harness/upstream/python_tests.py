"""The tests of a Python file, pytest's and unittest's: names, parametrisation, loops, checks. Read, never imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.upstream.checks import checks_of
from harness.upstream.evaluate import Evaluator
from harness.upstream.found import FoundAxis, FoundFile, FoundTest
from harness.upstream.source import Function, Module, assigned, inner_statements
from harness.upstream.tree import Tree
from harness.upstream.values import Opaque, Unknown, bound_names, canonical, has_call

MOST_NESTED = 12


def python_file(
    path: str,
    tree: Tree,
    known: dict[str, Module | None],
    wanted: Callable[[str, str], bool],
    methods: str = "class",
) -> FoundFile:
    """The tests of `path` in `tree` for which `wanted(name, text)` holds. BadInput with file and line when it is not Python.

    A test is a function or a method whose name begins with `test`. A method is named `Class::method`, or with `methods`
    of `plain` by its own name as long as that is the only one of the file. `known` holds the modules that were read
    already and is added to.
    """
    text = tree.text(path)
    assert text is not None
    module = Module(path, text, tree, known)
    tests: dict[str, FoundTest] = {}
    for name, node, owner in _named(module, methods):
        if name not in tests and wanted(name, module.text_of(node)):
            tests[name] = _test(name, node, module, owner)
    return FoundFile(path, tuple(sorted(tests.values(), key=lambda test: (test.line, test.name))))


def _named(module: Module, methods: str) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    plain: set[str] = set()
    for name, node in module.functions.items():
        if name.startswith("test"):
            plain.add(name)
            yield name, node, None
    for owner in module.classes.values():
        for method in owner.body:
            if isinstance(method, Function) and method.name.startswith("test"):
                alone = methods == "plain" and method.name not in plain
                plain.add(method.name)
                yield method.name if alone else f"{owner.name}::{method.name}", method, owner


def _test(name: str, node: Function, module: Module, owner: ast.ClassDef | None) -> FoundTest:
    marks = [*node.decorator_list, *(owner.decorator_list if owner is not None else [])]
    axes = [*_parametrized(marks, module), *_fixtures(node, module), *_loops(node, module)]
    return FoundTest(
        name=name,
        line=node.lineno,
        axes=tuple(axes),
        checks=checks_of(node, module, owner),
        always_skipped=any(_is_skip(mark) for mark in marks),
        digest=module.digest_of(node, *_own_methods(node, owner)),
    )


def _own_methods(node: Function, owner: ast.ClassDef | None) -> list[Function]:
    """The methods of its class that a test calls by `self`, in the order of the class."""
    if owner is None:
        return []
    called = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    return [
        each for each in owner.body if isinstance(each, Function) and each.name in called and each is not node
    ]


def _is_skip(mark: ast.expr) -> bool:
    text = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
    return text in ("pytest.mark.skip", "unittest.skip")


def _parametrized(marks: Sequence[ast.expr], module: Module) -> Iterator[FoundAxis]:
    for mark in marks:
        given = module.node(mark.id) if isinstance(mark, ast.Name) else mark
        if not isinstance(given, ast.Call) or not ast.unparse(given.func).endswith("mark.parametrize"):
            continue
        words = {word.arg: word.value for word in given.keywords}
        names = given.args[0] if given.args else words.get("argnames")
        values = given.args[1] if len(given.args) > 1 else words.get("argvalues")
        if names is None or values is None:
            continue
        yield _axis(_names(names, module), values, module)


def _names(node: ast.expr, module: Module) -> tuple[str, ...]:
    try:
        given: Any = Evaluator(module.lookup).value(node)
    except Unknown:
        return (ast.unparse(node),)
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",") if name.strip())
    if isinstance(given, Opaque):
        return (given.text,)
    return tuple(str(name) for name in given)


def _axis(names: tuple[str, ...], values: ast.expr, module: Module) -> FoundAxis:
    try:
        elements = Evaluator(module.lookup).iterate(values)
        rows = tuple(_row(names, element) for element in elements)
    except Unknown:
        return FoundAxis(names, None, None)
    return FoundAxis(names, rows, len(rows), calls=any(has_call(element) for element in elements))


def _row(names: tuple[str, ...], element: Any) -> tuple[str, ...]:
    if len(names) == 1:
        return (canonical(element),)
    if isinstance(element, dict) and set(element) == {"param", "marks"}:
        return (
            *(canonical(value) for value in element["param"][:-1]),
            canonical(element | {"param": element["param"][-1]}),
        )
    if not isinstance(element, (list, tuple)) or len(element) != len(names):
        raise Unknown("a row of another length")
    return tuple(canonical(value) for value in element)


def _fixtures(node: Function, module: Module) -> Iterator[FoundAxis]:
    """The parametrised fixtures of the file that the test asks for."""
    for argument in node.args.args:
        fixture = module.functions.get(argument.arg)
        for mark in fixture.decorator_list if fixture is not None else ():
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.fixture":
                for word in mark.keywords:
                    if word.arg == "params":
                        yield _axis((argument.arg,), word.value, module)


def _loops(node: Function, module: Module) -> list[FoundAxis]:
    """The loops in the body over values that stand in the source; a loop over what is computed is no axis."""
    local: dict[str, Any] = {}
    found: list[FoundAxis] = []

    def lookup(name: str) -> Any:
        if name in local:
            value = local[name]
            if isinstance(value, Unknown):
                raise value
            return value
        return module.lookup(name)

    def visit(statements: Sequence[ast.stmt], depth: int) -> None:
        for statement in statements:
            if isinstance(statement, ast.For) and depth < MOST_NESTED:
                _loop(statement)
            for name, how, value in assigned(statement):
                local[name] = _value(value, lookup) if how == "set" else Unknown("added to")
            if not isinstance(statement, (Function, ast.ClassDef)):
                visit(list(inner_statements(statement)), depth + 1)

    def _loop(statement: ast.For) -> None:
        names = tuple(name.id for name in ast.walk(statement.target) if isinstance(name, ast.Name))
        try:
            elements = Evaluator(lookup).iterate(statement.iter)
            rows = []
            for element in elements:
                bound = bound_names(statement.target, element)
                rows.append(tuple(canonical(bound[name]) for name in names))
            if names and rows:
                found.append(FoundAxis(names, tuple(rows), len(rows), loop=True))
        except Unknown:
            pass
        for name in names:
            local[name] = Unknown("a variable of the loop")

    for argument in (*node.args.args, *node.args.kwonlyargs):
        local[argument.arg] = Unknown("a parameter")
    visit(node.body, 0)
    return found


def _value(node: ast.expr, lookup: Any) -> Any:
    try:
        return Evaluator(lookup).value(node)
    except Unknown as unknown:
        return unknown
