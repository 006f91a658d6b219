"""The command line of `harness compare`: what it says, in which form, and how it ends."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from harness.containers.gguf_write import TensorData, write_gguf
from harness.report import schemas
from harness.tests.conftest import run_harness

SMALL = ("--oracle", "llama_cpp")


def test_the_real_file_bit_for_bit(smollm2):
    ran = run_harness(
        "compare", "--checkpoint", "demo:smollm2", "--oracle", "llama_cpp", "--json", "-", "--offline"
    )
    report = ran.report
    assert (ran.status, report["verdict"]) == (0, "PASS")
    assert report["checkpoint"]["encodings"] == {"ggml.q4_1": 210, "ggml.f32": 61, "ggml.q8_0": 1}
    tensors = report["levels"]["tensors"]
    assert (tensors["checked"], tensors["diverged"], tensors["bit_exact"], tensors["elements"]) == (
        272,
        0,
        True,
        134515008,
    )
    assert (report["levels"]["recognize"]["checked"], report["levels"]["recognize"]["verdict"]) == (
        272,
        "PASS",
    )
    assert report["first_divergence"] is None
    assert report["peak_rss"] < 3 * 4 * 49152 * 576 + 300e6
    assert {row["id"] for row in report["rows"]} == {"QUANT-GGUF-F32", "QUANT-GGUF-Q4_1", "QUANT-GGUF-Q8_0"}
    assert sum(kernel["calls"] for kernel in report["kernels_engaged"]) == 272 + 3
    assert report["oracle"]["pin"]["wheel_sha256"].startswith("c54e7d13")
    assert [other["name"] for other in report["oracle"]["second_opinions"]] == ["formats"]
    assert report["timings"]["decode_s"]["reference"] <= report["timings"]["decode_s"]["formats"]


def test_the_published_schema_is_current_and_the_report_keeps_it(small_checkpoint):
    for name, schema in schemas.schemas().items():
        assert (schemas.FOLDER / name).read_text() == schemas.text_of(schema), (
            f"run python -m harness.report.schemas: {name}"
        )
    schema = json.loads((schemas.FOLDER / "compare.schema.json").read_text())
    for more in (
        (),
        ("--level", "recognize"),
        ("--subject", f"{Path(__file__).parent}/wrong_decoders/one_nan.py"),
    ):
        report = run_harness("compare", "--checkpoint", small_checkpoint, *SMALL, "--json", "-", *more).report
        jsonschema.validate(report, schema)


def test_nan_in_a_report_is_a_string(small_checkpoint):
    subject = f"{Path(__file__).parent}/wrong_decoders/one_nan.py:dequantize"
    ran = run_harness(
        "compare",
        "--checkpoint",
        small_checkpoint,
        *SMALL,
        "--subject",
        subject,
        "--tensors",
        "blk*",
        "--json",
        "-",
    )
    report = json.loads(ran.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert report["first_divergence"]["subject"] == "NaN"
    assert report["first_divergence"]["smallest_passing_bound"] == "Infinity"


def test_a_table_for_people_is_plain_and_whole_when_piped(small_checkpoint):
    ran = run_harness("compare", "--checkpoint", small_checkpoint, *SMALL)
    assert ran.status == 0
    assert "\x1b" not in ran.out
    for word in ("ggml.q4_1", "recognize", "llama_cpp.ops", "formats", "PASS", "seed", "peak memory"):
        assert word in ran.out
    assert ran.err == ""


def test_json_goes_to_a_file_and_the_table_to_stdout(small_checkpoint, tmp_path):
    ran = run_harness(
        "compare",
        "--checkpoint",
        small_checkpoint,
        *SMALL,
        "--json",
        tmp_path / "r.json",
        "--html",
        tmp_path / "r.html",
    )
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "PASS"
    assert "verdict" in ran.out
    assert "ggml.q4_1" in (tmp_path / "r.html").read_text()


def test_a_name_from_the_file_cannot_reach_html_or_the_terminal(tmp_path):
    hostile = "<script>alert(1)</script>\x1b[31m[red]x"
    path = tmp_path / "hostile.gguf"
    write_gguf(path, {"general.architecture": "llama"}, [TensorData(hostile, 0, (32,), np.ones(32, "<f4"))])
    subject = f"{Path(__file__).parent}/wrong_decoders/misbehaving.py:raises"
    ran = run_harness(
        "compare", "--checkpoint", path, *SMALL, "--subject", subject, "--html", tmp_path / "r.html"
    )
    assert ran.status == 1
    assert "\x1b" not in ran.out
    assert "[red]" in ran.out
    page = (tmp_path / "r.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_the_seed_is_printed_and_can_be_given(small_checkpoint):
    first = run_harness("compare", "--checkpoint", small_checkpoint, *SMALL, "--json", "-").report
    again = run_harness("compare", "--checkpoint", small_checkpoint, *SMALL, "--json", "-").report
    other = run_harness(
        "compare", "--checkpoint", small_checkpoint, *SMALL, "--json", "-", "--seed", "7"
    ).report
    assert first["seed"] == again["seed"] == int(first["checkpoint"]["sha256"][:8], 16)
    assert other["seed"] == 7


def test_an_oracle_can_play_the_subject(small_checkpoint):
    report = run_harness(
        *(
            "compare",
            "--checkpoint",
            small_checkpoint,
            "--oracle",
            "formats",
            "--subject",
            "llama_cpp",
            "--json",
            "-",
        )
    ).report
    assert (report["verdict"], report["subject"]["name"]) == ("PASS", "llama_cpp.ops")
    assert report["oracle"]["second_opinions"] == []


@pytest.mark.parametrize("subject", ["formats", "llama_cpp", "llama_cpp.ops"])
def test_a_judge_is_not_compared_with_itself(small_checkpoint, subject):
    ran = run_harness("compare", "--checkpoint", small_checkpoint, *SMALL, "--subject", subject)
    assert ran.status == 2
    assert "agree with itself" in ran.err


def test_a_run_with_one_judge_says_so(small_checkpoint):
    ran = run_harness("compare", "--checkpoint", small_checkpoint, "--oracle", "formats")
    assert ran.status == 0
    assert "2nd opinion  none: formats alone decides" in ran.out


def test_every_encoding_passes_on_what_real_files_do_not_hold():
    ran = run_harness("compare", "--checkpoint", "demo:edge-cases", "--oracle", "llama_cpp", "--json", "-")
    assert ran.status == 0, ran.err
    encodings = {
        entry["encoding"]: entry["verdict"] for entry in ran.report["levels"]["tensors"]["by_encoding"]
    }
    assert len(encodings) >= 28
    assert set(encodings.values()) == {"PASS"}


def test_a_clamped_code_that_no_real_file_holds_is_found_by_the_edge_cases(tmp_path):
    subject = tmp_path / "clamped.py"
    subject.write_text(
        "import numpy as np\n"
        "def dequantize(encoding, data, shape):\n"
        "    blocks = data.reshape(-1, 34)\n"
        "    codes = np.maximum(blocks[:, 2:].view(np.int8), -127)\n"
        "    with np.errstate(all='ignore'):\n"
        "        return (blocks[:, :2].view(np.float16).astype(np.float32) * codes).reshape(shape)\n"
    )
    ran = run_harness(
        *(
            "compare",
            "--checkpoint",
            "demo:edge-cases",
            "--oracle",
            "llama_cpp",
            "--subject",
            f"{subject}:dequantize",
        ),
        *("--tensors", "q8_0.every_*", "--json", "-"),
    )
    assert ran.status == 1
    assert ran.report["first_divergence"]["oracle"] == -128.0


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--tensors", "blk.9*"), 3, "matches none"),
        (("--subject", "no.such.module:decode"), 2, "No module named"),
        (("--subject", "missing.py:decode"), 2, "there is no file"),
        (("--subject", "kernels.provider:no_such_function"), 2, "no_such_function"),
        (("--subject", "what?"), 2, "known name"),
        (("--level", "logits"), 3, "no pinned oracle"),
        (("--device", "cuda:0"), 3, "cpu"),
        (("--json", "no/such/folder/r.json"), 2, "folder does not exist"),
        (("--seed", "x"), 2, "not a valid integer"),
        (("--levle", "tensors"), 2, "No such option"),
    ],
)
def test_what_cannot_be_done_is_said_and_is_never_success(small_checkpoint, arguments, status, words):
    ran = run_harness("compare", "--checkpoint", small_checkpoint, *SMALL, *arguments)
    assert ran.status == status
    assert words in ran.err


@pytest.mark.parametrize(
    ("checkpoint", "oracle", "words"),
    [
        ("demo:smolm2", "llama_cpp", "did you mean smollm2"),
        ("no-such-file.gguf", "llama_cpp", "there is no such file"),
        (".", "llama_cpp", "directory"),
        (__file__, "llama_cpp", "magic"),
        ("demo:smollm2", "lama_cpp", "did you mean llama_cpp"),
    ],
)
def test_a_typo_is_bad_usage(checkpoint, oracle, words):
    ran = run_harness("compare", "--checkpoint", checkpoint, "--oracle", oracle)
    assert ran.status == 2
    assert words in ran.err


def test_offline_with_an_empty_cache_says_what_to_do(small_checkpoint, tmp_path):
    ran = run_harness(
        "compare", "--checkpoint", small_checkpoint, *SMALL, "--offline", HARNESS_CACHE=str(tmp_path)
    )
    assert ran.status == 3
    assert "harness oracles install" in ran.err
    ran = run_harness(
        "compare", "--checkpoint", "demo:smollm2", *SMALL, "--offline", HARNESS_CACHE=str(tmp_path)
    )
    assert ran.status == 3
    assert "--offline" in ran.err


class Header:
    """The fixed part of the real file's header, and the places that the mutations touch."""

    VERSION, TENSORS, KEYS = 4, 8, 16


def with_bytes(at: int, form: str, value: int):
    def change(head: bytearray) -> None:
        struct.pack_into(form, head, at, value)

    return change


def first_info(head: bytearray) -> int:
    """Offset of the first tensor info: the length before the name of the first tensor."""
    return head.index(b"token_embd.weight\x02\x00\x00\x00") - 8


def second_info(head: bytearray) -> int:
    name = first_info(head) + 8
    return name + len(b"token_embd.weight") + 4 + 2 * 8 + 4 + 8


def one_tensor_more(head: bytearray) -> None:
    count = struct.unpack_from("<Q", head, Header.TENSORS)[0]
    struct.pack_into("<Q", head, Header.TENSORS, count + 1)


def odd_offset(head: bytearray) -> None:
    at = first_info(head) + 8 + len(b"token_embd.weight") + 4 + 16 + 4
    struct.pack_into("<Q", head, at, struct.unpack_from("<Q", head, at)[0] + 1)


def type_99(head: bytearray) -> None:
    struct.pack_into("<I", head, first_info(head) + 8 + len(b"token_embd.weight") + 4 + 16, 99)


def duplicate_name(head: bytearray) -> None:
    """Two tensors of blocks 0 and 1 have names of one length: the second gets the first one's."""
    at = head.index(b"blk.1.attn_k.weight")
    head[at : at + len(b"blk.0.attn_k.weight")] = b"blk.0.attn_k.weight"


def long_string(head: bytearray) -> None:
    at = head.index(b"general.architecture") + len(b"general.architecture") + 4
    struct.pack_into("<Q", head, at, 1 << 40)


@pytest.mark.parametrize(
    ("change", "cut", "field", "got", "wanted"),
    [
        (one_tensor_more, 0, "tensor_count", "273", "272"),
        (lambda head: None, 4096, "tensor", "bytes", "file"),
        (odd_offset, 0, "tensor_infos[0].offset", None, None),
        (type_99, 0, "tensor_infos[0].type", "99", None),
        (with_bytes(Header.VERSION, "<I", 99), 0, "version", "99", "2 or 3"),
        (with_bytes(Header.TENSORS, "<Q", 1 << 63), 0, "tensor_count", str(1 << 63), "at most"),
        (with_bytes(Header.KEYS, "<Q", 1 << 60), 0, "kv_count", str(1 << 60), "at most"),
        (long_string, 0, "kv[0] general.architecture", str(1 << 40), None),
        (duplicate_name, 0, "name", "blk.0.attn_k.weight", None),
        (None, 98362432, "file size", "0 bytes", None),
    ],
    ids=[
        *("one tensor too many", "last 4 KB gone", "odd offset", "type id 99", "version 99", "2^63 tensors"),
        *("2^60 keys", "string beyond the end", "duplicate name", "zero bytes"),
    ],
)
def test_a_damaged_copy_of_the_real_file_is_refused_by_name(
    smollm2, tmp_path, change, cut, field, got, wanted
):
    size = smollm2.stat().st_size
    path = tmp_path / "damaged.gguf"
    with smollm2.open("rb") as source:
        head = bytearray(source.read(4 << 20))
    if change is not None:
        change(head)
    path.write_bytes(head[: size - cut])
    with path.open("r+b") as target:
        target.truncate(size - cut)  # the rest is a hole: only the header decides
    ran = run_harness("compare", "--checkpoint", path, "--oracle", "llama_cpp")
    assert ran.status == 2
    assert ran.out == ""
    for part in (
        str(path),
        f"field {field}" if field != "name" else ".name",
        "offset ",
        "got ",
        "wanted ",
        got or "",
        wanted or "",
    ):
        assert part in ran.err, (part, ran.err)
    assert ran.err.count("\n") == 1
