"""docs/protocol.md: the provider that it prints runs, and so does the way to try it."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from harness.paths import REPOSITORY
from oracles import wire
from oracles.worker_process import Unsupported, Worker

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
DOCUMENT = (REPOSITORY / "docs" / "protocol.md").read_text("utf-8")


@pytest.fixture
def programs(tmp_path):
    """The document's Python programs, written to the files that their first lines name."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", DOCUMENT, re.DOTALL)
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    return {name: tmp_path / name for name, _ in blocks}


def test_the_provider_of_the_document_answers(programs):
    worker = Worker.start([sys.executable, "-I", str(programs["provider.py"])], name="tiny", timeout=20)
    data = np.frombuffer(bytes.fromhex("0038") + bytes(range(224, 256)), np.uint8)
    answer = worker.call(
        "dequantize",
        {"encoding": "ggml.q8_0", "shape": [1, 32]},
        {"data": data},
        timeout=20,
        expect={"values": ("float32", (1, 32))},
    )
    assert answer.arrays["values"].tolist() == [[0.5 * q for q in range(-32, 0)]]
    with pytest.raises(Unsupported):
        worker.call("dequantize", {"encoding": "ggml.q4_0", "shape": [32]}, {"data": data}, timeout=20)
    worker.close()


def test_the_known_answers_hold_for_it_as_the_document_shows(programs):
    command = [sys.executable, str(programs["try_provider.py"]), sys.executable, str(programs["provider.py"])]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False)
    assert run.returncode == 0, run.stderr
    assert f"    {run.stdout.rstrip()}\n" in DOCUMENT


def test_the_known_answers_catch_a_wrong_provider(programs):
    path = programs["provider.py"]
    path.write_text(path.read_text().replace('"<e32b"', '"<e32B"'))
    command = [sys.executable, str(programs["try_provider.py"]), sys.executable, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False)
    assert "dequantize of ggml.q8_0 fails its known answer" in run.stdout
    assert "got element 0 = 16.0" in run.stdout


def test_the_limits_of_the_document_are_those_of_the_code():
    assert f"at most {wire.MAX_HEADER_BYTES >> 20} MiB" in DOCUMENT
    assert (
        f"At most {wire.MAX_ARRAYS} arrays, {wire.MAX_DIMENSIONS} dimensions, {wire.MAX_ARRAY_BYTES >> 30} GiB"
        in DOCUMENT
    )
    listed = " ".join(DOCUMENT.split("The dtypes are `")[1].split("`")[0].split())
    assert listed == " ".join(wire.DTYPES)


def test_every_op_of_every_pin_is_in_the_document():
    from oracles.pins import load_pins

    for pin in load_pins().values():
        for op in pin.ops:
            assert f"| `{op}` |" in DOCUMENT
