"""Known-bad results, tests and oracles: each is red, in its own class."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plugin.tests.conftest import Suite, case
from harness.verdicts import Side, Verdict

MISBEHAVE = Path(__file__).resolve().parents[3] / "oracles" / "tests" / "workers" / "misbehave.py"


RESULTS = {
    "one NaN": ("v[0, 3] = np.nan", "FAIL_NONFINITE", "1 elements differ in being NaN"),
    "an infinity of the wrong sign": ("w[1, 1] = np.inf; v[1, 1] = -np.inf", "FAIL_NONFINITE", "infinity"),
    "last element never written": (
        "v[-1, -1] = np.uint32(-1 % 2**32).view(np.float32)",
        "FAIL_NONFINITE",
        "never",
    ),
    "last row zero": ("v[-1] = 0", "FAIL_VALUE", "the whole block is zero"),
    "a scale 1 % too large": ("v *= np.float32(1.01)", "FAIL_VALUE", "off by a factor of 1.01"),
    "a block of the wrong sign": ("v[0, :32] *= -1", "FAIL_VALUE", "the sign of the whole block is flipped"),
    "swapped nibbles": ("v[0, :32] = np.roll(v[0, :32], 16)", "FAIL_VALUE", "nibbles are swapped"),
    "one element at 1e6": ("v[1, 40] = 1e6", "FAIL_VALUE", "row 1, block 1, lane 8"),
    "negative zero": ("w[0, 0] = 0.0; v[0, 0] = -0.0", "FAIL_VALUE", "got -0.0"),
    "another shape": ("v = v[:1]", "FAIL_SHAPE", "got shape [1, 64]"),
    "another dtype": ("v = v.astype(np.float64)", "FAIL_DTYPE", "got dtype float64"),
    "nothing": ("v = v[:0]; w = w[:0]", "NOT_RUN", "no element"),
}


@pytest.mark.parametrize(("fault", "verdict", "words"), RESULTS.values(), ids=RESULTS)
def test_a_wrong_result_passes(fault: str, verdict: str, words: str, suite: Suite) -> None:
    ran = suite(
        case(
            f"v, w = right(case), right(case)\n{fault}\n"
            "verdict(v, [Opinion(judge_named('engine'), w), Opinion(judge_named('second'), w)],"
            " kernel='toy', block_elems=32)"
        )
    )
    found = ran.only()
    assert (found.verdict, found.side) == (verdict, Side.SUBJECT), ran.out
    assert words in found.message
    assert f"seed {found.seed}" in ran.out
    assert ran.status == (3 if verdict == "NOT_RUN" else 1)


TESTS = {
    "it returns early": ("if case:\n    return\ngive(case, verdict)", "NOT_RUN", "without a verdict"),
    "it asserts nothing": ("right(case)", "NOT_RUN", "asserts nothing"),
    "it asserts something else": ("assert right(case) is not None", "NOT_RUN", "without a verdict"),
    "it swallows the verdict": (
        "try:\n    give(case, verdict, -right(case))\nexcept Exception:\n    pass",
        "FAIL_VALUE",
        "elements differ",
    ),
    "it raises": ("raise IndexError('tile 7')", "ERROR_RUN", "IndexError: tile 7"),
    "it passes and then raises": ("give(case, verdict)\nassert not case", "ERROR_RUN", "AssertionError"),
    "it takes a second verdict": (
        "give(case, verdict)\ngive(case, verdict)",
        "ERROR_RUN",
        "one case, one verdict",
    ),
    "it names no kernel": ("verdict(right(case), opinions(case), kernel='')", "ERROR_RUN", "no evidence"),
    "nobody judges": ("verdict(right(case), [], kernel='toy')", "NOT_RUN", "no oracle has an opinion"),
    "upstream's bound fails": (
        "give(case, verdict, upstream_bound_holds=False)",
        "ORACLE_DISAGREE",
        "upstream's",
    ),
    "no oracle": ("raise Unavailable('not installed')", "NOT_RUN", "not installed"),
}
UNABLE = {"it returns early", "it asserts nothing", "it asserts something else", "nobody judges", "no oracle"}


@pytest.mark.parametrize(
    ("name", "body", "verdict", "words"), [(name, *rest) for name, rest in TESTS.items()]
)
def test_a_test_that_judges_nothing_passes(
    name: str, body: str, verdict: str, words: str, suite: Suite
) -> None:
    ran = suite(case(body))
    found = ran.only()
    assert (found.verdict, words in found.message) == (verdict, True), ran.out
    assert "1 failed" in ran.out or "1 error" in ran.out
    assert ran.status == (3 if name in UNABLE else 1)


def test_two_judges_differ_and_the_subject_agrees_with_one(suite: Suite) -> None:
    ran = suite(
        case(
            "second = Opinion(judge_named('second'), -right(case))\n"
            "verdict(right(case), [*opinions(case, 'engine'), second], kernel='toy')"
        )
    )
    found = ran.only()
    assert (found.verdict, found.side, ran.status) == (Verdict.ORACLE_DISAGREE, Side.ORACLE, 1), ran.out
    assert "second and engine differ" in found.message


def test_a_kernel_writes_past_the_end(suite: Suite) -> None:
    ran = suite(
        case(
            "out = guarded.output(np.float32, (2, 64))\nout[:] = right(case)\n"
            "beyond = np.lib.stride_tricks.as_strided(out, (129,), (4,))\nbeyond[128] = 0.0\n"
            "give(case, verdict, out)",
            "case, verdict, guarded",
        )
    )
    assert (ran.only().verdict, "wrote 1 bytes past the end" in ran.only().message) == ("FAIL_OOB", True), (
        ran.out
    )
    assert ran.status == 1


def test_a_kernel_leaves_the_result_of_before(suite: Suite) -> None:
    ran = suite(
        "cache = {}\n@pytest.mark.cases(FAMILY)\ndef test_it(case, verdict):\n"
        "    give(case, verdict, cache.setdefault(right(case).shape, right(case)))\n"
    )
    verdicts = sorted(entry.verdict for entry in ran.evidence.values())
    assert (ran.status, verdicts) == (1, ["FAIL_VALUE", "FAIL_VALUE", "PASS", "PASS"]), ran.out


def test_a_result_cached_from_the_previous_run_hides_behind_the_repetition(suite: Suite) -> None:
    ran = suite(
        "def test_plain(guarded):\n    assert np.isnan(guarded.output(np.float32, (4,))).all()\n"
        + case(
            "out = guarded.output(np.float32, (2, 64))\n"
            "if not seen:\n    out[:] = right(case)\nseen.append(1)\ngive(case, verdict, out)",
            "case, verdict, guarded",
        ).replace("\n@", "\nseen = []\n@", 1),
        *("--repeat", "2"),
    )
    assert ran.only().verdict == "FAIL_NONDET", ran.out


FLIP = """
runs = []
@pytest.mark.cases(another("toy.one", bound="loose"))
def test_it(case, verdict):
    v = right(case)
    runs.append(1)
    if len(runs) == 3:
        v[1, 5] = np.nextafter(v[1, 5], np.float32(9))
    limit = Bound(1e-3, "loose")
    verdict(v, opinions(case), kernel="toy", bound=limit)
"""


def test_a_bit_flips_from_run_to_run(suite: Suite) -> None:
    assert suite(FLIP, "--repeat", "2").only().verdict == "PASS"
    ran = suite(FLIP, "--repeat", "3")
    assert (ran.status, ran.only().verdict) == (1, "FAIL_NONDET"), ran.out
    assert "run 3 on the same inputs gave other bits" in ran.only().message


ORACLE = f"""
import sys
from oracles.worker_process import Worker

@pytest.fixture(scope="module")
def worker():
    found = Worker.start([sys.executable, {str(MISBEHAVE)!r}], name="engine", timeout=30)
    yield found
    found.close()

@pytest.mark.cases(FAMILY)
def test_it(case, verdict, worker):
    good = case.id.endswith("b/large/cpu")
    params = {{"status": 7}} if OP == "leave" else {{}}
    expect = None if good else {{"values": ("float32", (2, 8))}}
    worker.call("echo" if good else OP, params, timeout=20 if good else 2, expect=expect)
    give(case, verdict)
"""
ORACLES = {
    "crash": ("ERROR_RUN", "SIGSEGV"),
    "leave": ("ERROR_RUN", "7"),
    "hang": ("TIMEOUT", "2 s"),
    "wrong_shape": ("FAIL_SHAPE", "[4, 4]"),
    "wrong_dtype": ("FAIL_DTYPE", "float64"),
    "raise_error": ("ERROR_RUN", "the engine's own words"),
}


@pytest.mark.parametrize(("op", "verdict", "words"), [(op, *rest) for op, rest in ORACLES.items()])
def test_an_oracle_that_fails_costs_more_than_its_case(
    op: str, verdict: str, words: str, suite: Suite
) -> None:
    body = ORACLE.replace("FAMILY", "FEW").replace("import sys\n", f"import sys\nOP = {op!r}\n", 1)
    few = "FEW = another(axes={'values': ('a', 'b'), 'size': ('large',)})\n"
    ran = suite(few + body)
    bad, good = (ran.evidence[f"toy.other/ggml.q4_0/{name}/large/cpu"] for name in "ab")
    assert (bad.verdict, bad.side, good.verdict) == (verdict, Side.ORACLE, "PASS"), ran.out
    assert words in bad.message
    assert ran.status == 3, "an oracle's fault is no difference"


def test_the_judges_own_array_is_judged(suite: Suite) -> None:
    ran = suite(case("found = opinions(case)\nverdict(found[0].values[:], found, kernel='toy')"))
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN"), ran.out
    assert "the subject is the array that engine answered with" in ran.only().message


def test_the_judges_own_fields_are_judged(suite: Suite) -> None:
    ran = suite(
        case("read = {'x': 1}\nverdict.fields(read, {'engine': read}, [judge_named('engine')], kernel='k')")
    )
    assert (ran.status, ran.only().verdict) == (1, "ERROR_RUN"), ran.out
    assert "are those that engine answered with" in ran.only().message


def test_a_subject_writes_into_an_opinion(suite: Suite) -> None:
    ran = suite(case("found = opinions(case)\nfound[0].values[:] = 0"))
    assert (ran.status, ran.only().verdict, "read-only" in ran.only().message) == (1, "ERROR_RUN", True)


def test_another_bound_than_the_declared_one_passes(suite: Suite) -> None:
    loose = "give(case, verdict, right(case) + np.float32(1), bound=Bound(1e9, 'loose'))"
    ran = suite(case(loose) + "def test_plain(): assert 1\n")
    assert (ran.status, ran.only().verdict, "1 error" in ran.out) == (1, "ERROR_RUN", True), ran.out
    assert "another bound (loose)" in ran.only().message


def test_a_lost_lock_leaves_the_verdict_standing(suite: Suite) -> None:
    fixture = "@pytest.fixture\ndef lock():\n    yield\n    raise Unavailable('the GPU lock was lost')\n"
    ran = suite(fixture + case("give(case, verdict)", "case, verdict, lock").lstrip())
    assert (ran.status, ran.only().verdict) == (3, "NOT_RUN"), ran.out
    assert ran.only().message == "the GPU lock was lost"
