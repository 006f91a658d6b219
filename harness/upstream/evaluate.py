"""Values that stand in Python source, computed without running it.

A small interpreter of expressions: literals, names, containers, comprehensions, arithmetic, and the builtins with which
tests build their parameters. Nothing of the source is ever imported or called. What cannot be told is `Unknown`, and what
is a value that only the engine knows (`torch.float16`, a constructor's call) stays its text, `Opaque`.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness.upstream.values import Opaque, Unknown, bound_names

MOST_ELEMENTS = 200_000
"""Elements of one value; a product beyond it is not evaluated."""
MOST_STEPS = 2_000_000
MOST_MADE = 5_000_000
"""Elements of all values on the way to one."""
DEEPEST = 60
LARGEST_POWER = 64
LONGEST_MARK = 160

ENGINE_MODULES = frozenset({"torch", "mx", "np", "numpy", "scalar_types", "gguf", "math"})
"""A member of these is named by its last part: `torch.float16` is `float16`."""


Lookup = Callable[[str], Any]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "list": list,
    "tuple": tuple,
    "sorted": sorted,
    "reversed": lambda values: list(reversed(list(values))),
    "zip": lambda *values: list(zip(*values, strict=False)),
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "set": lambda values=(): sorted(set(values), key=repr),
    "frozenset": lambda values=(): sorted(set(values), key=repr),
    "dict": dict,
    "len": len,
    "min": min,
    "max": max,
    "sum": sum,
    "abs": abs,
    "round": round,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "any": any,
    "all": all,
}
_PRODUCTS = {
    "product": itertools.product,
    "chain": itertools.chain,
    "combinations": itertools.combinations,
    "permutations": itertools.permutations,
}
_METHODS = frozenset({"keys", "values", "items", "copy", "lower", "upper", "split", "index", "count"})
_GENERATORS = frozenset({"range", *_PRODUCTS})


class Evaluator:
    """Evaluates expressions with `lookup` for names; `lookup` raises Unknown for a name that it does not know."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._local: list[dict[str, Any]] = []
        self._steps = 0
        self._made = 0
        self._depth = 0

    def value(self, node: ast.expr) -> Any:
        """The value of `node`, of builtin types and Opaque. Unknown when it cannot be told."""
        self._steps += 1
        self._depth += 1
        try:
            if self._steps > MOST_STEPS or self._depth > DEEPEST:
                raise Unknown("too much to evaluate")
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            if method is None:
                return Opaque(ast.unparse(node))
            found: Any = method(node)
            if isinstance(found, (list, tuple, dict, str)):
                self._made += len(found)
                if self._made > MOST_MADE:
                    raise Unknown("too much to evaluate")
            return found
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            raise Unknown(f"{type(error).__name__}") from None
        finally:
            self._depth -= 1

    def iterate(self, node: ast.expr) -> list[Any]:
        """The elements of `node`. Unknown when it is not a container whose elements can be told."""
        return list(_elements(self.value(node)))

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        for scope in reversed(self._local):
            if node.id in scope:
                return scope[node.id]
        return self._lookup(node.id)

    def _attribute(self, node: ast.Attribute) -> Any:
        parts = ast.unparse(node)
        root = parts.partition(".")[0]
        if root in ENGINE_MODULES:
            return Opaque(node.attr)
        try:
            return self._lookup(parts)
        except Unknown:
            return Opaque(parts)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> list[Any]:
        found: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                found.extend(self.iterate(element.value))
            else:
                found.append(self._known_or_text(element))
        _sized(found)
        return found

    _list = _sequence
    _set = _sequence

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._sequence(node))

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found.update(self.value(value))
            else:
                found[self.value(key)] = self._known_or_text(value)
        return found

    def _known_or_text(self, node: ast.expr) -> Any:
        """An element that cannot be told stays its text: how many there are is known all the same."""
        try:
            return self.value(node)
        except Unknown:
            return Opaque(ast.unparse(node))

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, Opaque) or isinstance(right, Opaque):
            return Opaque(ast.unparse(node))
        if isinstance(node.op, ast.Pow):
            if abs(right) > LARGEST_POWER or abs(left) > 1 << 16:
                raise Unknown("a power that is too large")
            return left**right
        if isinstance(node.op, ast.Mult):
            _guard_product(left, right)
        if isinstance(node.op, ast.LShift) and right > LARGEST_POWER:
            raise Unknown("a shift that is too large")
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            raise Unknown("a format, whose width has no bound")
        return _sized(_BINARY[type(node.op)](left, right))

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if isinstance(operand, Opaque):
            return Opaque(ast.unparse(node))
        return _UNARY[type(node.op)](operand)

    def _boolop(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for operand in node.values:
            value = _known(self.value(operand))
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _compare(self, node: ast.Compare) -> bool:
        left = _known(self.value(node.left))
        for comparison, operand in zip(node.ops, node.comparators, strict=True):
            right = _known(self.value(operand))
            if not _COMPARE[type(comparison)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp) -> Any:
        try:
            chosen = _known(self.value(node.test))
        except Unknown:
            return Opaque(ast.unparse(node))
        return self.value(node.body if chosen else node.orelse)

    def _joinedstr(self, node: ast.JoinedStr) -> Any:
        pieces = []
        for piece in node.values:
            if isinstance(piece, ast.FormattedValue):
                if piece.format_spec is not None:
                    raise Unknown("a format, whose width has no bound")
                pieces.append(str(_known(self.value(piece.value))))
            else:
                pieces.append(str(self.value(piece)))
        return "".join(pieces)

    def _subscript(self, node: ast.Subscript) -> Any:
        container = self.value(node.value)
        if isinstance(container, Opaque):
            return Opaque(ast.unparse(node))
        return container[self.value(node.slice)]

    def _slice(self, node: ast.Slice) -> slice:
        parts = [None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> list[Any]:
        found: list[Any] = []
        for _ in self._loops(node.generators):
            found.append(self.value(node.elt))
            _sized(found)
        return found

    _generatorexp = _listcomp
    _setcomp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> dict[Any, Any]:
        return {self.value(node.key): self.value(node.value) for _ in self._loops(node.generators)}

    def _loops(self, generators: list[ast.comprehension]) -> Iterator[None]:
        if not generators:
            yield
            return
        first, rest = generators[0], generators[1:]
        for element in self.iterate(first.iter):
            self._local.append(bound_names(first.target, element))
            try:
                if all(_known(self.value(condition)) for condition in first.ifs):
                    yield from self._loops(rest)
            finally:
                self._local.pop()

    def _call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name == "pytest.param":
            return self._param(node)
        if name in _FUNCTIONS or last in _GENERATORS:
            return self._builtin(node, last)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            receiver = self.value(node.func.value)
            if isinstance(receiver, (dict, str, list, tuple)):
                arguments = [_known(self.value(argument)) for argument in node.args]
                found = getattr(receiver, node.func.attr)(*arguments)
                return list(found) if node.func.attr in ("keys", "values", "items") else found
        return Opaque(ast.unparse(node))

    def _param(self, node: ast.Call) -> Any:
        """The value of a `pytest.param`; with the marks that it has, cut to a line."""
        values = [self._known_or_text(argument) for argument in node.args]
        value = values[0] if len(values) == 1 else tuple(values)
        marks = next((word.value for word in node.keywords if word.arg == "marks"), None)
        if marks is None:
            return value
        listed = marks.elts if isinstance(marks, (ast.List, ast.Tuple)) else [marks]
        return {"param": value, "marks": [ast.unparse(mark)[:LONGEST_MARK] for mark in listed]}

    def _builtin(self, node: ast.Call, name: str) -> Any:
        arguments: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments.extend(self.iterate(argument.value))
            else:
                arguments.append(self.value(argument))
        keywords = {word.arg: self.value(word.value) for word in node.keywords if word.arg is not None}
        if len(keywords) != len(node.keywords):
            raise Unknown("keywords that are not spelled out")
        if any(isinstance(value, Opaque) for value in (*arguments, *keywords.values())):
            if name in ("int", "float", "str", "bool", "min", "max", "abs", "round"):
                return Opaque(ast.unparse(node))
            raise Unknown("an argument that is not known")
        if name == "range":
            return _sized(range(*arguments)) and list(range(*arguments))
        if name in _PRODUCTS:
            sizes = [len(list(_elements(value))) for value in arguments if not isinstance(value, int)]
            if name == "product" and math.prod(sizes) ** keywords.get("repeat", 1) > MOST_ELEMENTS:
                raise Unknown("a product that is too large")
            if (
                name in ("combinations", "permutations")
                and _ways(name, sizes[0], *arguments[1:]) > MOST_ELEMENTS
            ):
                raise Unknown("too many combinations")
            found = _PRODUCTS[name](*arguments, **keywords)
            return _sized([item if name == "chain" else tuple(item) for item in found])
        return _sized(_FUNCTIONS[name](*arguments, **keywords))


def _known(value: Any) -> Any:
    if isinstance(value, Opaque):
        raise Unknown(value.text)
    return value


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, (Opaque, str, bytes)) or not isinstance(value, Iterable):
        raise Unknown("not a container that can be told")
    return value


def _ways(name: str, elements: int, chosen: int | None = None) -> int:
    taken = elements if chosen is None else chosen
    return math.comb(elements, taken) if name == "combinations" else math.perm(elements, taken)


def _guard_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > 4096:
        raise Unknown("a number that is too large")
    for many, times in ((left, right), (right, left)):
        if (
            isinstance(many, (list, tuple, str))
            and isinstance(times, int)
            and len(many) * times > MOST_ELEMENTS
        ):
            raise Unknown("a repetition that is too large")


def _sized(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict, range, str)) and len(value) > MOST_ELEMENTS:
        raise Unknown("more elements than are looked at")
    return value
