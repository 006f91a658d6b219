"""A filter that finds nothing is never green: a word that nothing fits is exit 2, an empty selection exit 3."""

from __future__ import annotations

import pytest

from harness.plugin.tests.conftest import Suite

BODY = """
@pytest.mark.cases(FAMILY)
def test_it(case, verdict):
    give(case, verdict)

def test_plain():
    assert 1
"""

TYPOS = {
    "a row": (("--rows", "QUANT-GGUF-Q4_O"), "no row fits it; did you mean QUANT-GGUF-Q4_"),
    "a pattern of rows": (("--rows", "QUANT-GUF-*"), "--rows QUANT-GUF-*: no row fits it"),
    "a marker": (("-m", "quant_guff"), "no marker fits it; did you mean quant_gguf"),
    "a marker in an expression": (("-m", "quant_gguf and not slo"), "-m slo: no marker fits it"),
    "a backend": (("--backends", "cudas*"), "no backend fits it"),
    "an architecture that is cut short": (("--backends", "cuda@sm_09"), "no backend fits it"),
    "an architecture that there is not": (("--backends", "cuda@sm_900"), "no backend fits it"),
    "a dimension": (("--dimension", "Materialise"), "did you mean Materialize"),
    "an option": (("--row", "x"), "unrecognized arguments: --row"),
    "an option without its value": (("--rows",), "expected one argument"),
    "a number": (("--repeat", "none"), "invalid int value"),
    "no repetition": (("--repeat", "0"), "wanted at least 1"),
    "a file": (("test_toys.py",), "file or directory not found: test_toys.py"),
    "a run": (("--resume", "20200101T000000Z-000000"), "--resume 20200101T000000Z-000000: no run"),
    "a run without evidence": (("--resume", "latest", "--no-evidence"), "does not fit --no-evidence"),
}


@pytest.mark.parametrize(("options", "words"), TYPOS.values(), ids=TYPOS)
def test_a_typo_in_a_filter_is_green(options: tuple[str, ...], words: str, process: Suite) -> None:
    ran = process(BODY, *options)
    assert (ran.status, words in ran.out) == (2, True), ran.out
    assert "Traceback" not in ran.out


@pytest.mark.parametrize("name", ["a row", "a marker", "an option", "a file"])
def test_a_typo_in_a_filter_is_green_with_workers(name: str, process: Suite) -> None:
    options, words = TYPOS[name]
    ran = process(BODY, "-n", "2", *options)
    assert (ran.status, words in ran.out) == (2, True), ran.out


EMPTY = {
    "no case of a row": ("--rows", "QUANT-GGUF-Q8_0"),
    "no case of a marker": ("-m", "quant_mlx"),
    "no case of a backend": ("--backends", "metal@apple"),
    "no case of a dimension": ("--dimension", "Perf"),
    "no case of that name": ("--cases", "ggml.*"),
    "a word that no test has": ("-k", "test_if"),
    "filters that exclude each other": ("--cases", "toy.*", "--rows", "QUANT-GGUF-Q8_0"),
}


@pytest.mark.parametrize("options", EMPTY.values(), ids=EMPTY)
def test_nothing_collected_is_green(options: tuple[str, ...], suite: Suite) -> None:
    ran = suite(BODY, *options)
    assert (ran.status, ran.evidence) == (3, {}), ran.out


def test_nothing_collected_is_green_with_workers(process: Suite) -> None:
    assert process(BODY, "-n", "2", "-m", "quant_mlx").status == 3


def test_an_empty_suite_is_green(suite: Suite) -> None:
    assert suite("").status == 3


def test_a_case_that_is_in_the_list_is_no_typo(process: Suite) -> None:
    assert process(BODY, "--collect-only", "--update-required").status == 0
    assert process(BODY, "--cases", "toy.decode/*/b/*").status == 0
    ran = process(BODY, "--cases", "toy.decoder/*")
    assert (ran.status, "--cases toy.decoder/*: no case fits it" in ran.out) == (2, True)


KEPT = {
    "rows": (("--rows", "QUANT-GGUF-Q4_?"), 4),
    "cases": (("--cases", "toy.decode/*/a/*"), 2),
    "two patterns": (("--cases", "*/a/small/*", "--cases", "*/b/large/*"), 2),
    "backends": (("--backends", "cpu"), 4),
    "dimension": (("--dimension", "Materialize"), 4),
    "marker": (("-m", "quant_gguf"), 4),
    "marker of none": (("-m", "quant_gguf and not gpu"), 4),
}


@pytest.mark.parametrize(("options", "count"), KEPT.values(), ids=KEPT)
def test_a_filter_keeps_other_tests(options: tuple[str, ...], count: int, suite: Suite) -> None:
    ran = suite(BODY, *options)
    assert (ran.status, len(ran.evidence), "test_plain" in ran.out) == (0, count, False), ran.out
    assert f"{count} passed" in ran.out


def test_skips_alone_are_green(suite: Suite) -> None:
    ran = suite(
        "@pytest.mark.skip_case(row=ROW, kind='platform', reason='only a device of sm_100 runs it', owner='me')\n"
        "@pytest.mark.cases(ONE)\ndef test_it(case, verdict):\n    give(case, verdict)\n"
    )
    assert (ran.status, ran.only().verdict) == (3, "SKIP"), ran.out
