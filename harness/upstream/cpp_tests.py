"""The tests of a C++ file, by tree-sitter: functions, doctest cases, structs of cases, enumerations, bound constants."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from harness.errors import Unavailable
from harness.upstream.digest import digest
from harness.upstream.found import FoundCheck, FoundFile, FoundTest

Node = Any
"""A node of tree-sitter, which is installed only where C++ is read."""

BOUND_METHOD = re.compile(r"^max_\w*err$")
"""Methods of a struct of cases that say how far apart a result may be."""
CONSTANT = re.compile(r"^[A-Z][A-Z0-9_]{3,}$")
DOCTEST = frozenset({"TEST_CASE", "TEST_CASE_TEMPLATE"})
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:[eE][+-]?\d+)?")
CASE_MACROS = frozenset({"CHECK", "REQUIRE", "CHECK_LE", "CHECK_LT", "CHECK_EQ"})


def cpp_file(path: str, text: str, wanted: Callable[[str, str], bool]) -> FoundFile:
    """The tests of a C++ file for which `wanted(name, text)` holds; Unavailable where tree-sitter is not installed.

    A test is a function, a doctest case by its title, or a struct of cases (`struct test_x : test_case`). `constants`
    are numbers with a name in capitals and the members of enumerations.
    """
    source = text.encode()
    root = _parser().parse(source).root_node
    nodes = list(_walk(root))
    constructed = Counter(name for node in nodes if (name := _constructed(node)) is not None)
    tests = {}
    for node in nodes:
        for name, body in _named(node):
            if name not in tests and wanted(name, _text(body)):
                tests[name] = _test(name, node, body, constructed)
    return FoundFile(path, tuple(tests.values()), tuple(sorted(_constants(nodes))))


def _test(name: str, node: Node, body: Node, constructed: Counter[str]) -> FoundTest:
    facts = [("constructed", str(constructed[name]))] if constructed[name] else []
    facts += [(method, bound) for method, bound in _bounds(body)]
    return FoundTest(
        name=name,
        line=node.start_point[0] + 1,
        axes=None,
        checks=tuple(_checks(body)),
        digest=digest(_plain(body)),
        facts=tuple(facts),
    )


def _named(node: Node) -> Iterator[tuple[str, Node]]:
    """The name and the body of a test that begins at `node`."""
    if node.type == "struct_specifier":
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            yield _text(name), body
    elif node.type == "function_definition":
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        name = None if declarator is None else declarator.child_by_field_name("declarator")
        if name is not None:
            title = _title(_text(declarator)) if _text(name) in DOCTEST else None
            yield title or _text(name), node
    elif node.type == "expression_statement" and node.next_named_sibling is not None:
        call = node.named_children[0] if node.named_children else None
        if call is not None and call.type == "call_expression" and _callee(call) in DOCTEST:
            title = _title(_text(call))
            if title is not None:
                yield title, node.next_named_sibling


def _title(text: str) -> str | None:
    found = re.search(r'"([^"]*)"', text)
    return found[1] if found else None


def _callee(call: Node) -> str:
    function = call.child_by_field_name("function")
    return "" if function is None else _text(function)


def _constructed(node: Node) -> str | None:
    """The struct that `new test_x(...)` or `make_unique<test_x>(...)` makes."""
    if node.type == "new_expression":
        made = node.child_by_field_name("type")
        return None if made is None else _text(made)
    if node.type == "call_expression":
        found = re.match(r"(?:std::)?make_(?:unique|shared)<(\w+)>$", _callee(node))
        return found[1] if found else None
    return None


def _bounds(body: Node) -> Iterator[tuple[str, str]]:
    """The numbers that the methods for bounds return."""
    for node in _walk(body):
        if node.type == "function_definition":
            declarator = node.child_by_field_name("declarator")
            name = None if declarator is None else declarator.child_by_field_name("declarator")
            block = node.child_by_field_name("body")
            if name is not None and block is not None and BOUND_METHOD.match(_text(name)):
                yield _text(name), ", ".join(NUMBER.findall(_plain(block)))


def _checks(body: Node) -> Iterator[FoundCheck]:
    """Assertions of the test framework that compare with a number."""
    for node in _walk(body):
        if node.type == "call_expression" and _callee(node) in CASE_MACROS:
            arguments = node.child_by_field_name("arguments")
            text = "" if arguments is None else re.sub(r"\s+", " ", _text(arguments))[1:-1].strip()
            if re.search(r"[<>]=?\s*\S*\d", text):
                yield FoundCheck("predicate", text)


def _constants(nodes: list[Node]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if node.type == "init_declarator" and node.child_by_field_name("value") is not None:
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if name is not None and value is not None and CONSTANT.match(_text(name)):
                yield _text(name), _text(value)
        elif node.type == "preproc_def":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None and value is not None and NUMBER.search(_text(value)):
                yield _text(name), _text(value).strip()
        elif node.type == "enum_specifier":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and body is not None:
                members = [
                    each.child_by_field_name("name")
                    for each in body.named_children
                    if each.type == "enumerator"
                ]
                yield f"enum {_text(name)}", ", ".join(_text(each) for each in members if each is not None)


def _walk(node: Node) -> Iterator[Node]:
    """`node` and all below it in the order of the text, without recursion: other people's files nest deeply."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))


def _plain(node: Node) -> str:
    """The text of a node less its comments."""
    data = node.text or b""
    pieces, at = [], node.start_byte
    for inner in _walk(node):
        if inner.type == "comment":
            pieces.append(data[at - node.start_byte : inner.start_byte - node.start_byte])
            at = inner.end_byte
    pieces.append(data[at - node.start_byte :])
    return b"".join(pieces).decode(errors="replace")


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _parser() -> Any:
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        grammar = importlib.import_module("tree_sitter_cpp")
    except ImportError:
        raise Unavailable(
            "C++ tests are read by tree-sitter, which is not installed: pip install 'quant-oracle-harness[drift]'"
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))
