"""The Python files of a tree as syntax trees, and which function a call in one of them means. Nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.plugin.static import full_name, imported_names, parsed

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FIXTURES = ("pytest.fixture", "_pytest.fixtures.fixture", "pytest_asyncio.fixture")


@dataclass(eq=False)
class Module:
    """One file: `file` relative to the root, `names` from each imported name to its full one."""

    path: Path
    file: str
    tree: ast.Module
    names: dict[str, str]
    functions: dict[str, Function] = field(default_factory=dict)
    methods: dict[str, list[Function]] = field(default_factory=dict)
    """Name -> every method of that name, in whatever class of the file."""
    made: dict[str, ast.expr] = field(default_factory=dict)
    """Name -> the function of a fixture that is made by a call: `place = pytest.fixture(place_of)`."""


@dataclass(eq=False)
class Function:
    """A function at the top of a file, or a method of a class there. `name` is as in a node ID: `TestIt::test_it`."""

    module: Module
    name: str
    node: FunctionNode

    @property
    def parameters(self) -> tuple[str, ...]:
        arguments = self.node.args
        return tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))

    @property
    def fixture(self) -> str | None:
        """The name under which it is a fixture; None when it is none."""
        for decorator in self.node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if full_name(call.func if call else decorator, self.module.names) not in FIXTURES:
                continue
            return (_name_of(call) if call else "") or self.node.name
        return None

    @property
    def autouse(self) -> bool:
        """Whether it is a fixture of every test in its reach."""
        return self.fixture is not None and any(
            each.arg == "autouse" and isinstance(each.value, ast.Constant) and bool(each.value.value)
            for decorator in self.node.decorator_list
            if isinstance(decorator, ast.Call)
            for each in decorator.keywords
        )

    @property
    def is_test(self) -> bool:
        return self.node.name.startswith("test") and self.fixture is None


class Project:
    """The files below `root`, each parsed when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[Path, Module | None] = {}
        self._near: dict[Module, tuple[Module, ...]] = {}
        self._dotted: dict[str, Module | None] = {}
        self._above: dict[Module, list[Module]] = {}

    def module(self, path: Path) -> Module | None:
        """The file at `path`; None when it is not there or does not parse."""
        if path not in self._modules:
            tree = parsed(path) if path.is_file() else None
            self._modules[path] = None if tree is None else self._read(path, tree)
        return self._modules[path]

    def called(self, call: ast.expr, within: Function) -> list[Function]:
        """The functions of the project that an expression names: one, or several methods of one name."""
        module = within.module
        if isinstance(call, ast.Name) and call.id in within.parameters:
            return self.fixtures(call.id, module)
        if (found := self._meant(call, module)) or full_name(call, module.names):
            return found
        if isinstance(call, ast.Attribute):
            if module not in self._near:
                self._near[module] = (module, *self._imported(module), *self._conftests(module))
            return [method for each in self._near[module] for method in each.methods.get(call.attr, ())]
        return []

    def _meant(self, value: ast.expr, module: Module) -> list[Function]:
        """The function that a name means at the top of a file."""
        if isinstance(value, ast.Name) and value.id in module.functions:
            return [module.functions[value.id]]
        name = full_name(value, module.names)
        found = self._named(name) if name else None
        return [found] if found else []

    def fixtures(self, name: str, module: Module) -> list[Function]:
        """The fixture of that name that a test in `module` gets: of the file, else of the nearest `conftest.py`."""
        for each in (module, *self._conftests(module)):
            found = [function for function in functions_of(each) if function.fixture == name]
            if name in each.made:
                found += self._meant(each.made[name], each)
            if found:
                return found
        return []

    def autouse(self, module: Module) -> list[Function]:
        """The fixtures that every test in `module` gets unasked."""
        near = (module, *self._conftests(module))
        return [function for each in near for function in functions_of(each) if function.autouse]

    def conftests(self, path: Path) -> list[Path]:
        """The `conftest.py` files that count for `path`, the nearest first."""
        folders = [folder for folder in path.parents if folder.is_relative_to(self.root)]
        return [folder / "conftest.py" for folder in folders if (folder / "conftest.py").is_file()]

    def _conftests(self, module: Module) -> list[Module]:
        if module not in self._above:
            found = [self.module(path) for path in self.conftests(module.path) if path != module.path]
            self._above[module] = [each for each in found if each is not None]
        return self._above[module]

    def _read(self, path: Path, tree: ast.Module) -> Module:
        file = path.relative_to(self.root).as_posix()
        module = Module(path, file, tree, imported_names(tree))
        for node in tree.body:
            if isinstance(node, FunctionNode):
                module.functions[node.name] = Function(module, node.name, node)
            elif isinstance(node, ast.ClassDef):
                for entry in node.body:
                    if isinstance(entry, FunctionNode):
                        method = Function(module, f"{node.name}::{entry.name}", entry)
                        module.methods.setdefault(entry.name, []).append(method)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value
                if full_name(call.func, module.names) in FIXTURES and call.args:
                    module.made[_name_of(call) or ast.unparse(node.targets[0])] = call.args[0]
        return module

    def _named(self, name: str) -> Function | None:
        """The function with this full name: `cases.ggml.judges.decoders`."""
        parent, _, last = name.rpartition(".")
        module = self._file_of(parent) if parent else None
        return module.functions.get(last) if module else None

    def _file_of(self, dotted: str) -> Module | None:
        if dotted not in self._dotted:
            base = self.root.joinpath(*dotted.split("."))
            file = base.parent / f"{base.name}.py"
            self._dotted[dotted] = self.module(file) or self.module(base / "__init__.py")
        return self._dotted[dotted]

    def _imported(self, module: Module) -> list[Module]:
        """The files that a file imports, or imports something from."""
        named = {part for name in module.names.values() for part in (name, name.rpartition(".")[0]) if part}
        found = [self._file_of(name) for name in sorted(named)]
        return [each for each in found if each is not None]


def tests_of(module: Module) -> list[Function]:
    """The functions of a file that pytest takes for tests."""
    methods = [each for each in functions_of(module) if "::" in each.name and each.name.startswith("Test")]
    return [each for each in (*module.functions.values(), *methods) if each.is_test]


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `node`, without what stands in functions that are only defined there."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, FunctionNode | ast.Lambda):
            yield from own_nodes(child)


def _name_of(call: ast.Call) -> str:
    """The `name=` of a fixture; empty when it has none."""
    named = next((each.value for each in call.keywords if each.arg == "name"), None)
    return str(named.value) if isinstance(named, ast.Constant) else ""


def functions_of(module: Module) -> list[Function]:
    """Every function at the top of a file, and every method of its classes."""
    return [*module.functions.values(), *(each for methods in module.methods.values() for each in methods)]
