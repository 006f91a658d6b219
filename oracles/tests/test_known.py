"""Known answers: each fault that people really make changes one of them, and a broken file is named."""

import numpy as np
import pytest

from harness.errors import BadInput
from oracles.known import load_known
from oracles.tests.faulty_decoders import FAULTS, SIZES, decode

ANSWERS = [answer for answer in load_known() if answer.op == "dequantize" and answer.encoding in FAULTS]


def holds(answer, fault=None):
    with np.errstate(all="ignore"):
        got = decode(answer.encoding, answer.data, fault)
    same = (got.view(np.uint32) == answer.values.view(np.uint32)) | (np.isnan(got) & np.isnan(answer.values))
    return bool(same.all())


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: f"{a.encoding}: {a.name}")
def test_a_decoder_without_a_fault_gives_every_known_answer(answer):
    assert holds(answer)


@pytest.mark.parametrize(("encoding", "fault"), [(e, f) for e, faults in FAULTS.items() for f in faults])
def test_a_decoder_with_this_fault_fails_a_known_answer(encoding, fault):
    assert not all(holds(answer, fault) for answer in ANSWERS if answer.encoding == encoding)


def test_the_ten_encodings_have_known_answers_of_whole_blocks():
    assert {answer.encoding for answer in ANSWERS} == set(SIZES)
    for answer in ANSWERS:
        elems, size = SIZES[answer.encoding]
        assert len(answer.data) * elems == answer.values.size * size


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{}", "(whole file)"),
        ("- 1", "(entry)"),
        ("- {name: a, data: '', shape: [0], values: []}", "shape"),
        ("- {name: a, data: zz, shape: [1], values: [1]}", "data"),
        ("- {name: a, data: '00', shape: [2], values: [1]}", "values"),
        ("- {name: a, data: '00', shape: [1], values: [0x3f800000]}", "values"),
        ("- {name: a, data: '00', shape: [1], values: ['1.0']}", "values"),
        ("- {name: a, data: '00', shape: [1], values: [1], bound: 1}", "bound"),
        ("- {name: a, data: '00', shape: [1], values: [1], ops: [matmul]}", "ops"),
        ("- {data: '00', shape: [1], values: [1]}", "name"),
    ],
)
def test_a_broken_file_names_itself_and_its_field(text, field, tmp_path):
    path = tmp_path / "ggml" / "f32" / "known.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        load_known(tmp_path)
    assert (caught.value.file, caught.value.field) == (str(path), field)
