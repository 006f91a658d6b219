"""Writes `recipes/derived/SOURCE.yaml` anew from the quantizer that runs: `python -m cases.ggml.record_presets SOURCE [VARIANT…]`.

Without variants, every one that the file names. A variant of the large source that is not quick is recorded from the
quantizer's dry run, without digest and size, unless `--write` is given.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cases.ggml.presets import is_quick
from harness.containers import open_checkpoint
from harness.demo import PREFIX, resolve_checkpoint
from harness.derived import DERIVED, MARK, PIN, parse, written
from harness.errors import UsageProblem
from harness.recorded import collapsed, recorded
from oracles.pool import Pool

HEAD = """\
# What llama.cpp's quantizer (pin llama_cpp.model) writes from demo:{source}, on linux-x86_64: harness/recorded.py says how to
# read it, `python -m cases.ggml.record_presets {source}` writes it anew.
source: {source}
files:
"""


def main(arguments: list[str]) -> None:
    """Record the variants named, keeping the others as they are."""
    write = "--write" in arguments
    source, *variants = [word for word in arguments if word != "--write"]
    lines = {name: _line(entry.model_dump(exclude_none=True)) for name, entry in recorded(source).items()}
    with Pool(progress=_tell) as pool:
        for variant in variants or list(lines):
            print(f"{source}{MARK}{variant}", file=sys.stderr)
            lines[variant] = _line(_record(f"{source}{MARK}{variant}", pool, write))
    body = "".join(f"  {name}: {line}\n" for name, line in lines.items())
    (DERIVED / f"{source}.yaml").write_text(HEAD.format(source=source) + body, encoding="utf-8")


def _record(name: str, pool: Pool, write: bool) -> dict[str, object]:
    recipe = parse(name)
    plain = resolve_checkpoint(f"{PREFIX}{recipe.source}", offline=False, tell=_tell)
    with open_checkpoint(plain) as checkpoint:
        tensors = checkpoint.tensors
    if write or is_quick(name):
        try:
            file = written(recipe, pool, offline=False, tell=_tell)
        except UsageProblem as problem:
            return {"refused": str(problem).partition(";")[0].rpartition("quantize: ")[2]}
        with open_checkpoint(file.path) as checkpoint:
            encodings = {tensor.name: tensor.encoding or "" for tensor in checkpoint.tensors}
        return {"sha256": file.sha256, "bytes": file.bytes, "types": collapsed(encodings, tensors)}
    answer = pool.get(PIN).call(
        "quantize_types", {"source": str(Path(plain)), **recipe.params()}, timeout=60, expect={}
    )
    if answer.result["rc"]:
        return {"refused": answer.result["log"][-1].rpartition("quantize: ")[2]}
    return {"types": collapsed({entry["name"]: entry["to"] for entry in answer.result["tensors"]}, tensors)}


def _line(entry: dict[str, object]) -> str:
    words = []
    for key, value in entry.items():
        if isinstance(value, dict):
            types = ", ".join(
                f'{role}: "{text}"' if "*" in text or " " in text else f"{role}: {text}"
                for role, text in value.items()
            )
            words.append(f"{key}: {{{types}}}")
        else:
            words.append(f'{key}: "{value}"' if key == "refused" else f"{key}: {value}")
    return f"{{{', '.join(words)}}}"


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
