"""The tests of a C++ file, where tree-sitter is installed; where it is not, that is said."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from harness.errors import Unavailable
from harness.upstream.cpp_tests import cpp_file
from harness.upstream.found import FoundFile

INSTALLED = importlib.util.find_spec("tree_sitter") is not None
SOURCE = """
constexpr float MAX_ERROR = 0.002f;  // of all
#define MAX_DOT 0.02
enum kind { KIND_BAD_MAGIC, KIND_OK = 4, };
struct test_mul : public test_case {
    double max_nmse_err() override { return fp4 ? 2e-2 : 5e-4; }
};
static void run(int n) { /* none */ use(n); }
int main() {
    cases.emplace_back(new test_mul(1));
    cases.push_back(std::make_unique<test_mul>(2));
}
TEST_CASE("quantize rows") {
    CHECK_LE(max_diff, 127.0 / 4);
    CHECK(a == b);
}
"""


def read(text: str) -> FoundFile:
    return cpp_file("tests/a.cpp", text, lambda name, body: True)


def judged(judge: Callable[[], None]) -> None:
    """Judge where there is a parser; where there is none, what is asked for is refused with what to install."""
    if INSTALLED:
        judge()
    else:
        with pytest.raises(Unavailable, match="tree-sitter"):
            read(SOURCE)


def test_bounds_enumerations_and_constructed_cases_are_told():
    def judge() -> None:
        found = read(SOURCE)
        assert dict(found.constants) == {
            "MAX_ERROR": "0.002f",
            "MAX_DOT": "0.02",
            "enum kind": "KIND_BAD_MAGIC, KIND_OK",
        }
        struct = found.test("test_mul")
        assert struct is not None
        assert dict(struct.facts) == {"constructed": "2", "max_nmse_err": "2e-2, 5e-4"}
        assert {test.name for test in found.tests} >= {"run", "main", "quantize rows"}

    judged(judge)


def test_a_doctest_case_keeps_the_bounds_that_it_asserts():
    def judge() -> None:
        case = read(SOURCE).test("quantize rows")
        assert case is not None
        assert [check.bound for check in case.checks or ()] == []
        case = read('TEST_CASE("q") { CHECK(max_diff <= 127.0 / 4); }').test("q")
        assert case is not None
        assert [check.bound for check in case.checks or ()] == ["max_diff <= 127.0 / 4"]

    judged(judge)


@pytest.mark.parametrize(("text", "same"), [("use( n ); /* now */", True), ("use(n + 1);", False)])
def test_a_digest_follows_the_code_and_not_its_comments(text: str, same: bool):
    def judge() -> None:
        before, after = read(SOURCE).test("run"), read(SOURCE.replace("use(n);", text)).test("run")
        assert before is not None
        assert after is not None
        assert (before.digest == after.digest) is same

    judged(judge)


def test_what_is_no_cpp_is_no_crash():
    def judge() -> None:
        assert read("}}} (((" * 3000).tests == ()

    judged(judge)
