"""Values that stand in source: computed where they can be, never guessed, and never at the cost of the machine."""

from __future__ import annotations

import ast
import time

import pytest

from harness.upstream.evaluate import Evaluator
from harness.upstream.values import Unknown, canonical

NAMES = {"SIZES": [1, 2], "DTYPES": ("half",), "N": 3}


def lookup(name: str) -> object:
    if name in NAMES:
        return NAMES[name]
    raise Unknown(name)


def value(text: str) -> str:
    return canonical(Evaluator(lookup).value(ast.parse(text, mode="eval").body))


KNOWN = {
    "[1, (2, 3)]": "[1, [2, 3]]",
    "[torch.float16, np.int8, scalar_types.uint4b8]": '["float16", "int8", "uint4b8"]',
    "list(itertools.product(SIZES, [False]))": "[[1, false], [2, false]]",
    "[(m, 2 * m) for m in SIZES if m > 1]": "[[2, 4]]",
    "[*SIZES, *range(5, 7)]": "[1, 2, 5, 6]",
    "SIZES + [N] * 2": "[1, 2, 3, 3]",
    "2**10 - 1": "1023",
    "1 / 4": "0.25",
    "SIZES[-1]": "2",
    "{'a': 1}.items()": '[["a", 1]]',
    "'x' if N > 2 else 'y'": '"x"',
    "f'cuda:{N}'": '"cuda:3"',
    "[GroupShape(1, 128)]": '["GroupShape(1, 128)"]',
    "[unheard_of, 1]": '["unheard_of", 1]',
    "sorted(set([2, 1, 2]))": "[1, 2]",
    "zip(SIZES, 'ab')": '[[1, "a"], [2, "b"]]',
    "pytest.param('m', marks=pytest.mark.skip(reason='gone'))": (
        '{"marks": ["pytest.mark.skip(reason=\'gone\')"], "param": "m"}'
    ),
    "1.0": "1",
    "1e-3": "0.001",
    "not_a_list() if N else 1": '"not_a_list()"',
}


@pytest.mark.parametrize("text", KNOWN)
def test_what_stands_in_source_is_told(text: str):
    assert value(text) == KNOWN[text]


@pytest.mark.parametrize(
    "text",
    [
        "unheard_of",
        "SIZES[9]",
        "1 // 0",
        "[x for x in unheard_of]",
        "range(torch.cuda.device_count())",
        "'%9d' % 1",
    ],
)
def test_what_cannot_be_told_is_not_guessed(text: str):
    with pytest.raises(Unknown):
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9",
        "[0] * 10 ** 12",
        "'a' * 10 ** 10",
        "1 << 10 ** 9",
        "list(range(10 ** 15))",
        "list(itertools.product(range(9999), repeat=9))",
        "list(itertools.permutations(range(60)))",
        "[[*range(100000)] for _ in range(100000)]",
        "[1 for a in range(99999) for b in range(99999) if a < 0]",
        "f'{1:99999999999}'",
    ],
)
def test_hostile_source_costs_neither_time_nor_memory(text: str):
    start = time.monotonic()
    with pytest.raises(Unknown):
        value(text)
    assert time.monotonic() - start < 10


def test_a_deep_nest_stays_text_and_is_no_crash():
    assert value("[" + "(" * 150 + "1" + ",)" * 150 + "]").count("(") > 50


def test_nothing_of_the_source_is_called(tmp_path):
    target = tmp_path / "written"
    assert value(f"[open({str(target)!r}, 'w'), __import__('os')]").count("(") == 2
    assert not target.exists()


def test_true_is_not_one_and_a_number_not_its_text():
    assert len({canonical(each) for each in (True, 1, "1", "True")}) == 4
