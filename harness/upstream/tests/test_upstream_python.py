"""The tests of a Python file: no parameter, loop or bound is read wrongly or missed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.upstream.found import FoundFile
from harness.upstream.python_tests import python_file
from harness.upstream.tree import Tree

PATH = "tests/test_a.py"


def read(text: str, others: dict[str, str] | None = None, methods: str = "class") -> FoundFile:
    files = {name: textwrap.dedent(body).encode() for name, body in {PATH: text, **(others or {})}.items()}
    return python_file(PATH, Tree(Path("tree"), "", files), {}, lambda name, text: True, methods)


def axes(text: str, others: dict[str, str] | None = None) -> dict[tuple[str, ...], object]:
    test = read(text, others).tests[0]
    return {axis.names: axis.rows for axis in test.axes or () if not axis.loop}


def checks(text: str) -> list[tuple[str, str, str]]:
    return [(check.kind, check.bound, check.via) for check in read(text).tests[0].checks or ()]


def test_a_product_over_names_of_the_module_is_told():
    found = axes("""
        import itertools, pytest, torch
        M = [1, 7]
        M.extend([83])
        @pytest.mark.parametrize("m,dtype", itertools.product(M, [torch.half]))
        @pytest.mark.parametrize(["bias"], [(True,), (False,)])
        def test_a(m, dtype, bias): ...
    """)
    assert found[("m", "dtype")] == (("1", '"half"'), ("7", '"half"'), ("83", '"half"'))
    assert found[("bias",)] == (("[true]",), ("[false]",))


def test_a_constant_of_another_module_is_followed():
    source = """
        import pytest
        from engine.sizes import GROUPS
        from .near import MORE
        @pytest.mark.parametrize("g", GROUPS)
        @pytest.mark.parametrize("h", MORE)
        def test_a(g, h): ...
    """
    others = {"engine/sizes.py": "BASE = [32]\nGROUPS = [-1] + BASE\n", "tests/near.py": "MORE = (2,)\n"}
    assert axes(source, others) == {("g",): (("-1",), ("32",)), ("h",): (("2",),)}


def test_modules_that_import_each_other_end():
    others = {"a/x.py": "from a.y import B\nA = B\n", "a/y.py": "from a.x import A\nB = A\n"}
    source = "import pytest\nfrom a.x import A\n@pytest.mark.parametrize('v', A)\ndef test_a(v): ...\n"
    assert axes(source, others) == {("v",): None}


def test_values_that_depend_on_the_machine_are_not_guessed():
    source = """
        import pytest
        if platform.is_rocm():
            KINDS = [True, False]
        else:
            KINDS = [False]
        @pytest.mark.parametrize("kind", KINDS)
        def test_a(kind): ...
    """
    test = read(source).tests[0]
    assert [(axis.rows, axis.count) for axis in test.axes or ()] == [(None, None)]
    assert test.cases is None


def test_parameters_of_a_class_a_mark_with_a_name_and_a_fixture_count():
    source = """
        import pytest
        sizes = pytest.mark.parametrize("size", [1, 2])
        @pytest.fixture(params=["int4", "fp8"])
        def kind(request): ...
        @pytest.mark.parametrize("bits", [4, 8, 16])
        class TestAll:
            @sizes
            def test_a(self, size, bits, kind): ...
    """
    test = read(source).tests[0]
    assert (test.name, test.cases) == ("TestAll::test_a", 12)


def test_loops_over_values_are_told_and_loops_over_results_are_not():
    source = """
        from itertools import product
        class T:
            def test_a(self):
                tests = product([128, 64], [2, 4])
                for group, bits in tests:
                    for row in compute(group):
                        for mode in ["a", "b"]:
                            pass
    """
    found = read(source, methods="plain").tests[0]
    assert found.name == "test_a"
    assert [(axis.names, axis.count, axis.loop) for axis in found.axes or ()] == [
        (("group", "bits"), 4, True),
        (("mode",), 2, True),
    ]
    assert [part.names for part in (found.axes or ())[0].factors()] == [("group",), ("bits",)]


def test_bounds_are_numbers_where_they_are_constants_and_say_where_they_come_from():
    source = """
        import torch
        RTOL = 2e-2
        def close(a, b, atol=1e-3):
            torch.testing.assert_close(a, b, rtol=RTOL, atol=atol)
        def test_a(dtype):
            tol = 1e-3 if dtype == "half" else 5e-2
            close(1, 2, atol=tol)
            assert torch.allclose(1, 2, 0.5)
            assert (a - b).max() < 4e-2
    """
    assert checks(source) == [
        ("allclose", "rtol=0.5", ""),
        ("predicate", "(a - b).max() < 0.04", ""),
        ("assert_close", "rtol=0.02, atol=atol", "close"),
    ]
    last = (read(source).tests[0].checks or ())[-1]
    assert last.where == (("atol", ("0.001", "tol")),)


def test_a_bound_in_a_table_is_not_taken_for_a_precondition():
    source = """
        import torch
        TOLERANCES = {torch.float16: 5e-2, torch.bfloat16: 1e-2}
        def close(error, dtype):
            assert error.shape
            tol = TOLERANCES[dtype]
            assert error < tol
        def test_a(dtype):
            close(1, dtype)
    """
    check = (read(source).tests[0].checks or ())[0]
    assert (check.kind, check.bound, check.via) == ("predicate", "error < tol", "close")
    assert check.where == (("tol", ('TOLERANCES[dtype] of {"bfloat16": 0.01, "float16": 0.05}',)),)
    assert len(read(source).tests[0].checks or ()) == 1


def test_what_unittest_and_pytest_call_by_other_names_is_one_check():
    source = """
        import pytest
        class T:
            def test_a(self):
                self.assertLess(err, 1e-3)
                self.assertTrue(mx.allclose(a, b, atol=1e-4))
                self.assertTrue(mx.array_equal(a, b))
                self.assertEqual(a.shape, b.shape)
                with self.assertRaises(ValueError):
                    run()
                with pytest.raises(TypeError, match="bits"):
                    run()
                assert torch.equal(a, b)
                opcheck(op, args)
    """
    assert sorted(checks(source)) == [
        ("allclose", "atol=0.0001", ""),
        ("bit_exact", "", ""),
        ("bit_exact", "", ""),
        ("opcheck", "", ""),
        ("predicate", "err < 0.001", ""),
        ("raises", "TypeError: bits", ""),
        ("raises", "ValueError", ""),
        ("structural", "", ""),
    ]


def test_helpers_that_call_each_other_end():
    source = "def a(): b()\ndef b():\n    a()\n    opcheck(1)\ndef test_a(): a()\n"
    assert checks(source) == [("opcheck", "", "b")]


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ("def test_a():  # why\n    check( 1,\n        2,\n    )\n", True),
        ("def test_a():\n    check(1, 3)\n", False),
    ],
)
def test_a_digest_follows_the_code_and_not_its_form(changed: str, same: bool):
    helper = "def check(a, b): assert a < b\n"
    before, after = read(helper + "def test_a():\n    check(1, 2)\n"), read(helper + changed)
    assert (before.tests[0].digest == after.tests[0].digest) is same


def test_a_digest_follows_what_the_test_refers_to():
    test = "def test_a():\n    check(1)\n"
    before = read("LIMIT = 1\ndef check(a): assert a < LIMIT\n" + test)
    after = read("LIMIT = 2\ndef check(a): assert a < LIMIT\n" + test)
    assert before.tests[0].digest != after.tests[0].digest


def test_always_skipped_is_seen_and_a_condition_is_not_always():
    source = """
        import pytest
        @pytest.mark.skip(reason="unstable")
        def test_a(): ...
        @pytest.mark.skipif(old, reason="old")
        def test_b(): ...
    """
    assert [test.always_skipped for test in read(source).tests] == [True, False]


@pytest.mark.parametrize("text", ["def test_a(:\n", "x = '\0'\n", "(" * 5000])
def test_what_is_no_python_is_bad_input(text: str):
    with pytest.raises(BadInput, match="Python"):
        read(text)
