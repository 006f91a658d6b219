"""What makes a suite lie about itself fails its collection, with file and line, and exit code 1."""

from __future__ import annotations

import datetime

import pytest

from harness.plugin.tests.conftest import Suite

CASE = "\n@pytest.mark.cases(ONE)\ndef test_it(case, verdict):\n    give(case, verdict)\n"

RAW = {
    "a mark": "@pytest.mark.skip\ndef test_it(): assert 1\n",
    "a mark with a reason": "@pytest.mark.skip(reason='x')\ndef test_it(): assert 1\n",
    "a condition": "@pytest.mark.skipif(True, reason='x')\ndef test_it(): assert 1\n",
    "an xfail": "@pytest.mark.xfail\ndef test_it(): assert 0\n",
    "a module's mark": "pytestmark = pytest.mark.skip\ndef test_it(): assert 1\n",
    "a parameter's mark": (
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.skip)])\ndef test_it(x): assert 1\n"
    ),
    "a call": "def test_it():\n    pytest.skip('x')\n",
    "a call in a branch that is not taken": "def test_it():\n    if 0:\n        pytest.skip('x')\n",
    "another name": "import pytest as pt\ndef test_it():\n    pt.skip('x')\n",
    "an imported name": "from pytest import skip as s\ndef test_it():\n    s('x')\n",
    "an alias": "leave = pytest.skip\ndef test_it():\n    leave('x')\n",
    "getattr": "def test_it():\n    getattr(pytest, 'skip')('x')\n",
    "importorskip": "def test_it():\n    pytest.importorskip('numpy')\n",
    "a whole module": "pytest.skip('x', allow_module_level=True)\n",
    "unittest": "import unittest\n@unittest.skip('x')\nclass TestIt(unittest.TestCase):\n    def test_it(self): pass\n",
    "unittest's method": (
        "import unittest\nclass TestIt(unittest.TestCase):\n    def test_it(self): self.skipTest('x')\n"
    ),
    "an exception": "import unittest\ndef test_it():\n    raise unittest.SkipTest('x')\n",
    "a mark added later": "def test_it(request):\n    request.node.add_marker('skip')\n",
}


@pytest.mark.parametrize("body", RAW.values(), ids=RAW)
def test_a_raw_skip_hides_a_test(body: str, suite: Suite) -> None:
    ran = suite(body + "\ndef test_that_passes(): assert 1\n")
    assert ran.status == 1, ran.out
    assert "raw-skip" in ran.out
    assert "test_toy.py:" in ran.out
    assert "1 passed" not in ran.out


def test_a_raw_skip_in_the_conftest_hides_tests(suite: Suite, pytester: pytest.Pytester) -> None:
    with (pytester.path / "conftest.py").open("a") as out:
        out.write("import pytest\ndef pytest_runtest_setup(item):\n    pytest.skip('x')\n")
    ran = suite("def test_it(): assert 1\n")
    assert (ran.status, "conftest.py:4: raw-skip: pytest.skip" in ran.out) == (1, True), ran.out


def test_a_raw_skip_out_of_a_library_hides_a_test(suite: Suite, pytester: pytest.Pytester) -> None:
    (pytester.path / "library.py").write_text("import pytest\ndef use():\n    pytest.skip('no such thing')\n")
    ran = suite("import library\ndef test_it():\n    library.use()\n")
    assert (ran.status, "raw skip: no such thing" in ran.out) == (1, True), ran.out


def test_a_raw_skip_out_of_a_library_hides_a_file(suite: Suite, pytester: pytest.Pytester) -> None:
    (pytester.path / "library.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    ran = suite("import library\ndef test_it(): assert 1\n")
    assert (ran.status, "test_toy.py:1: raw-skip" in ran.out) == (1, True), ran.out


def test_a_raw_xfail_out_of_a_library_hides_a_failure(suite: Suite, pytester: pytest.Pytester) -> None:
    (pytester.path / "library.py").write_text("import pytest\ndef use():\n    pytest.xfail('known')\n")
    ran = suite("import library\ndef test_it():\n    library.use()\n")
    assert (ran.status, "raw xfail: known" in ran.out) == (1, True), ran.out


GOOD = {
    "row": "'QUANT-GGUF-Q4_0'",
    "kind": "'missing_kernel'",
    "reason": "'the split-K kernel does not exist before issue nine'",
    "owner": "'@kernels'",
    "expires": f"'{datetime.date.today() + datetime.timedelta(days=30)}'",
}
BAD_SKIPS = {
    "a typo in the row": (
        {"row": "'QUANT-GGUF-Q4_O'"},
        "no row QUANT-GGUF-Q4_O; did you mean",
    ),
    "no row": ({"row": None}, "no row"),
    "no reason": ({"reason": None}, "no reason"),
    "an empty reason": ({"reason": "'  '"}, "no reason"),
    "TODO": ({"reason": "'TODO look at the split-K kernel here'"}, "vague reason"),
    "a vague reason": ({"reason": "'it does not work on this right now yet'"}, "vague reason"),
    "a short reason": ({"reason": "'split-K kernel missing'"}, "vague reason"),
    "no owner": ({"owner": None}, "owner None"),
    "an owner of blanks": ({"owner": "' '"}, "owner ' '"),
    "an expired date": ({"expires": "'2024-02-29'"}, "expired on 2024-02-29"),
    "no date": ({"expires": None}, "no expiry"),
    "no real date": ({"expires": "'soon'"}, "expires 'soon'"),
    "a date far away": ({"expires": "'2999-01-01'"}, "more than a year ahead"),
    "an unknown kind": ({"kind": "'broken'"}, "kind 'broken'"),
    "an unknown condition": ({"when": "'no_gpus'"}, "condition 'no_gpus'"),
    "a typo in a keyword": ({"expire": "'2030-01-01'"}, "unknown keyword 'expire'"),
}


def written(mark: str, changes: dict[str, str | None], good: dict[str, str] = GOOD) -> str:
    values = {name: value for name, value in {**good, **changes}.items() if value is not None}
    return f"\n@pytest.mark.{mark}({', '.join(f'{name}={value}' for name, value in values.items())})"


@pytest.mark.parametrize(("changes", "words"), BAD_SKIPS.values(), ids=BAD_SKIPS)
@pytest.mark.parametrize("body", [CASE, "\ndef test_it(): assert 1\n"], ids=["a case", "a plain test"])
def test_a_skip_says_less_than_it_must(
    changes: dict[str, str | None], words: str, body: str, suite: Suite
) -> None:
    ran = suite(written("skip_case", changes) + body)
    assert ran.status == 1, ran.out
    assert "test_toy.py:3: bad-skip-case" in ran.out
    assert words in ran.out


@pytest.mark.parametrize(("changes", "words"), BAD_SKIPS.values(), ids=BAD_SKIPS)
def test_a_skip_out_of_a_test_says_less_than_it_must(
    changes: dict[str, str | None], words: str, suite: Suite
) -> None:
    values = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    call = ", ".join(f"{name}={value}" for name, value in values.items())
    ran = suite(f"def test_it(skip_case):\n    if 0:\n        skip_case({call})\n    assert 1\n")
    assert (ran.status, "test_toy.py:4: bad-skip-case" in ran.out, words in ran.out) == (1, True, True), (
        ran.out
    )
    late = suite(f"def test_it(skip_case):\n    skip_case(**dict({call}))\n")
    assert (late.status, words in late.out) == (1, True), late.out


GOOD_XFAIL = {name: value for name, value in GOOD.items() if name != "kind"} | {
    "phase": "'call'",
    "raises": "ValueError",
}
BAD_XFAILS = {
    "no phase": ({"phase": None}, "phase None"),
    "a typo in the phase": ({"phase": "'cal'"}, "phase 'cal'"),
    "no exception": ({"raises": None}, "raises None"),
    "any exception": ({"raises": "Exception"}, "name the type"),
    "no type": ({"raises": "'ValueError'"}, "raises 'ValueError'"),
    "no date": ({"expires": None}, "no expiry"),
    "a failure without its verdict": ({"raises": "CaseFailed"}, "no verdict: CaseFailed"),
    "a verdict that is no failure": ({"raises": "CaseFailed", "verdict": "'NOT_RUN'"}, "no way of failing"),
    "a test that judges nothing": (
        {"raises": "__import__('harness.plugin.verdict').plugin.verdict.NotJudged"},
        "raises NotJudged",
    ),
    "every exception that comes to mind": (
        {"raises": "(ValueError, KeyError, IndexError, OSError)"},
        "4 types",
    ),
    "an unknown verdict": ({"verdict": "'FAIL'"}, "no such verdict"),
    "no reason": ({"reason": None}, "no reason"),
}


@pytest.mark.parametrize(("changes", "words"), BAD_XFAILS.values(), ids=BAD_XFAILS)
def test_an_expected_failure_says_less_than_it_must(
    changes: dict[str, str | None], words: str, suite: Suite
) -> None:
    ran = suite(written("xfail_case", changes, GOOD_XFAIL) + CASE)
    assert ran.status == 1, ran.out
    assert "test_toy.py:3: bad-xfail-case" in ran.out
    assert words in ran.out


def test_a_skip_is_about_a_row_that_no_case_has(suite: Suite) -> None:
    ran = suite(written("skip_case", {"row": "'QUANT-GGUF-Q8_0'"}) + CASE)
    assert (
        ran.status,
        "idle-skip: skip_case: no case of the test belongs to QUANT-GGUF-Q8_0" in ran.out,
    ) == (
        1,
        True,
    )


FAMILIES = {
    "an axis value that no case has": (
        "FAMILY = another(axes={'m': ('1', '2')}, refuse=lambda at: 'no' if at['m'] == '2' else None)",
        "dead-value: family toy.other: no case has m = 2",
    ),
    "a backend that no case has": (
        "FAMILY = another(backends=('cpu', 'triton@sm_90'), refuse=lambda at: at['backend'][3:] or None)",
        "no case has backend = triton@sm_90",
    ),
    "no case at all": ("FAMILY = another(axes={'m': ()})", "family toy.other has no case"),
    "an unknown row": ("FAMILY = another(rows=lambda e: ('QUANT-GGUF-Q4_9',))", "no row QUANT-GGUF-Q4_9"),
    "no row": ("FAMILY = another(rows=lambda e: ())", "it belongs to no row"),
    "a row that claims nothing": (
        "FAMILY = another(rows=lambda e: ('QUANT-GGUF-PRESETS',))",
        "QUANT-GGUF-PRESETS claims nothing itself",
    ),
    "a backend without a cell": (
        "FAMILY = another(backends=('cuda@sm_75',))",
        "QUANT-GGUF-Q4_0 has no cell Materialize on cuda@sm_75",
    ),
    "no family": ("FAMILY = 'ggml.decode'", "bad-family"),
}


@pytest.mark.parametrize("options", [(), ("-k", "nothing"), ("-m", "quant_mlx")], ids=["all", "-k", "-m"])
@pytest.mark.parametrize(("family", "words"), FAMILIES.values(), ids=FAMILIES)
def test_a_family_promises_what_it_cannot_make(
    family: str, words: str, options: tuple[str, ...], suite: Suite
) -> None:
    body = f"{family}\n@pytest.mark.cases(FAMILY)\ndef test_it(case, verdict):\n    give(case, verdict)\n"
    ran = suite(body, *options)
    assert (ran.status, words in ran.out, "test_toy.py:3:" in ran.out) == (1, True, True), ran.out


def test_two_cases_have_one_id(suite: Suite) -> None:
    ran = suite(CASE + "\n@pytest.mark.cases(ONE)\ndef test_again(case, verdict):\n    give(case, verdict)\n")
    assert ran.status == 1
    assert (
        "test_toy.py:7: duplicate-case: case toy.one/ggml.q4_0/a/cpu is already run by test_toy.py::test_it"
        in ran.out
    )


def test_one_of_two_cases_marks_is_ignored(suite: Suite) -> None:
    method = (
        "    @pytest.mark.cases(FAMILY)\n    def test_it(self, case, verdict):\n        give(case, verdict)\n"
    )
    for body in ("@pytest.mark.cases(FAMILY)" + CASE, "@pytest.mark.cases(ONE)\nclass TestIt:\n" + method):
        ran = suite(body)
        assert (ran.status, "bad-family: two cases marks" in ran.out) == (1, True), ran.out


def test_a_case_on_the_cpu_waits_for_hardware(suite: Suite) -> None:
    ran = suite(written("skip_case", {"kind": "'hardware'"}) + CASE)
    assert (ran.status, "bad-skip-case: skip_case: toy.one" in ran.out) == (1, True), ran.out


def listed(suite: Suite, body: str = CASE) -> None:
    ran = suite(body, "--collect-only", "--update-required")
    assert ran.status == 0, ran.out


def test_a_case_is_not_in_the_committed_list(suite: Suite, pytester: pytest.Pytester) -> None:
    (pytester.path / "cases" / "required").mkdir(parents=True)
    ran = suite(CASE)
    assert (ran.status, "the family is in the code and not in the list" in ran.out) == (1, True)
    listed(suite)
    assert suite(CASE).status == 0


def test_a_case_of_the_committed_list_is_gone(suite: Suite) -> None:
    listed(suite, CASE.replace("ONE", "FAMILY"))
    fewer = "FEWER = another('toy.decode', axes={'values': ('a',), 'size': ('small', 'large')})\n"
    ran = suite(fewer + CASE.replace("ONE", "FEWER"))
    assert ran.status == 1
    assert "toy.decode/ggml.q4_0/b/small/cpu: in the list and not in the code" in ran.out


def test_a_family_of_the_committed_list_has_lost_its_test(
    suite: Suite, process: Suite, pytester: pytest.Pytester
) -> None:
    listed(suite, CASE + CASE.replace("ONE", "FAMILY").replace("test_it", "test_more"))
    with (pytester.path / "pytest.ini").open("a") as out:
        out.write("testpaths = test_toy.py\n")
    for ran in (suite(CASE), process(CASE, "-n", "2")):
        assert (ran.status, "cases/required/toy.decode.txt:1: missing-family" in ran.out) == (1, True), (
            ran.out
        )
    assert suite(CASE, "test_toy.py").status == 0, "only a part was asked for"


def test_workers_hide_a_finding(process: Suite) -> None:
    ran = process("def test_it():\n    pytest.skip('x')\ndef test_that_passes(): assert 1\n", "-n", "2")
    assert (ran.status, "test_toy.py:3: raw-skip" in ran.out, "1 passed" in ran.out) == (1, True, False)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_file_that_cannot_be_imported_is_a_finding_and_no_error(workers: str, process: Suite) -> None:
    ran = process("import no_such_module\n", "-n", workers)
    assert (ran.status, "no_such_module" in ran.out) == (2, True)
