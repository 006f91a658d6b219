"""Checkpoints that llama.cpp's own quantizer writes from a demo, kept in the cache: `demo:SOURCE@PRESET[+imatrix]`.

    <cache>/derived/<source>@<preset>-<key>.gguf     key: source, pinned quantizer, file type, importance matrix, overrides
    <cache>/derived/<source>@<preset>-<key>.json     written last: sha256 and bytes

A source that holds quantized tensors is written as float32 first. The files are not committed; `recipes/derived/` records
what they were when they were first written, so that another build's file is seen (`harness/recorded.py`).
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from harness.demo import DERIVED_MARK as MARK
from harness.demo import PREFIX, Demo, load_demo, resolve_checkpoint
from harness.errors import Unavailable, UsageProblem
from harness.paths import RECIPES, cache_root
from harness.text import printable

if TYPE_CHECKING:
    from oracles.pool import Pool

PIN = "llama_cpp.model"
IMATRIX = "+imatrix"
IMATRIX_SEED = 7
ROW_PREFIX = "QUANT-GGUF-PRESET-"
DERIVED = RECIPES / "derived"
WRITE_SECONDS = 3600.0
"""The slowest file (an IQ2 preset of demo:smollm2) takes four minutes."""
FLOATS = frozenset({"ggml.f32", "ggml.f16", "ggml.bf16"})
LOADING = "llama_model_loader:"
SHOWN_LINES = 4


@dataclass(frozen=True)
class Recipe:
    """What the quantizer is asked for. `name` is the one name of this file: aliases and what goes without saying are gone."""

    name: str
    source: str
    preset: str
    row: str
    ftype: int
    imatrix: bool
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def variant(self) -> str:
        """The name without the source: `Q4_K_M`, `IQ3_XXS+imatrix`."""
        return self.name.partition(MARK)[2]

    def params(self) -> dict[str, object]:
        """The request's parameters, as the op `quantize_model` takes them, without the files."""
        return {
            "ftype": self.ftype,
            "imatrix_seed": IMATRIX_SEED if self.imatrix else None,
            "overrides": [list(pair) for pair in self.overrides],
            "allow_requantize": True,
        }


@dataclass(frozen=True)
class Written:
    """A preset's file in the cache."""

    path: Path
    sha256: str
    bytes: int


@functools.cache
def presets() -> Mapping[str, str]:
    """The names that can stand behind `@` -> the row that holds the evidence; three are other names of a preset."""
    from harness.rows.load import load_rows

    rows = [row for row in load_rows().values() if row.id.startswith(ROW_PREFIX)]
    return {row.id.removeprefix(ROW_PREFIX): row.alias_of or row.id for row in rows}


def parse(name: str) -> Recipe:
    """The recipe of `SOURCE@PRESET[+imatrix]`. Raises UsageProblem with the near names."""
    from harness.rows.load import row

    source, _, variant = name.partition(MARK)
    preset, plus, option = variant.partition("+")
    if preset not in presets() or (plus and f"+{option}" != IMATRIX):
        near = difflib.get_close_matches(preset.upper(), presets(), n=3)
        raise UsageProblem(
            f"demo:{printable(name)}: no preset is called {printable(variant)}"
            + (f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(presets())}")
        )
    load_demo(source)
    found = row(presets()[preset])
    assert found.preset is not None
    canonical = found.id.removeprefix(ROW_PREFIX)
    overridden = _overridden().get(canonical, {})
    imatrix = bool(plus) or found.preset.needs_imatrix
    suffix = IMATRIX if plus and not found.preset.needs_imatrix else ""
    return Recipe(
        name=f"{source}{MARK}{canonical}{suffix}",
        source=source,
        preset=canonical,
        row=found.id,
        ftype=int(overridden.get("ftype", found.preset.ftype)),
        imatrix=imatrix,
        overrides=tuple(overridden.get("overrides", {}).items()),
    )


@functools.cache
def _overridden() -> dict[str, dict[str, Any]]:
    from harness.rows.strict_yaml import read_mapping

    return read_mapping(DERIVED / "overridden.yaml")


def derive(name: str, *, offline: bool, tell: Callable[[str], None]) -> Written:
    """The file of `SOURCE@PRESET[+imatrix]`, written on first use.

    Raises UsageProblem for an unknown name and when the quantizer refuses, Unavailable when its oracle cannot be had.
    """
    from oracles.pool import Pool

    with Pool(offline=offline, progress=tell) as pool:
        return written(parse(name), pool, offline=offline, tell=tell)


def written(recipe: Recipe, pool: Pool, *, offline: bool, tell: Callable[[str], None]) -> Written:
    """As `derive`, by the quantizer of an open pool; it is opened only if there is something to write."""
    source = resolve_checkpoint(f"{PREFIX}{recipe.source}", offline=offline, tell=tell)
    path = cache_root() / "derived" / f"{recipe.name}-{_key(recipe, source)}.gguf"
    if found := _kept(path):
        return found
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if found := _kept(path):
                return found
            if recipe.variant != "F32" and not _plain(source):
                floats = parse(f"{recipe.source}{MARK}F32")
                source = written(floats, pool, offline=offline, tell=tell).path
            tell(f"writing {PREFIX}{recipe.name} with llama.cpp's quantizer")
            return _write(recipe, source, path, pool)
    except OSError as error:
        raise Unavailable(
            f"{PREFIX}{recipe.name} cannot be written to {printable(str(path.parent))}: {error.strerror or error}"
        ) from None


def _write(recipe: Recipe, source: Path, path: Path, pool: Pool) -> Written:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        part = Path(scratch) / "part.gguf"
        params = {"source": str(source), "target": str(part), **recipe.params()}
        result = pool.get(PIN).call("quantize_model", params, timeout=WRITE_SECONDS, expect={}).result
        if result["rc"]:
            raise refusal(recipe, result["log"])
        part.replace(path)
    found = Written(path, result["sha256"], result["bytes"])
    mark = path.with_suffix(".json.part")
    mark.write_text(json.dumps({"sha256": found.sha256, "bytes": found.bytes}), encoding="ascii")
    mark.replace(path.with_suffix(".json"))
    return found


def refusal(recipe: Recipe, log: list[str]) -> UsageProblem:
    """What the quantizer says when it does not write a file, with what to do."""
    telling = [line.strip("= -") for line in log if line.strip("= -") and not line.startswith(LOADING)]
    said = " / ".join(printable(line) for line in telling[-SHOWN_LINES:])
    hint = f"; there is demo:{recipe.name}{IMATRIX}" if "imatrix" in said and not recipe.imatrix else ""
    return UsageProblem(f"demo:{recipe.name}: llama.cpp's quantizer refuses: {said}{hint}")


def _key(recipe: Recipe, source: Path) -> str:
    """16 hex digits of what the file depends on, as far as it can be known beforehand."""
    from oracles import build
    from oracles.pins import pin

    demo = load_demo(recipe.source)
    digest = demo.sha256 if isinstance(demo, Demo) else _sha256(source)
    quantizer = pin(PIN)
    parts = (
        digest,
        quantizer.version,
        build.recipe_key(quantizer).hex(),
        json.dumps(recipe.params(), sort_keys=True),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _kept(path: Path) -> Written | None:
    """The file, if it is whole: one that was damaged in the cache is written again."""
    try:
        mark = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
        digest = _sha256(path)
        if digest == mark["sha256"]:
            return Written(path, digest, mark["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(path: Path) -> bool:
    """Whether every tensor is a plain float."""
    from harness.containers import open_checkpoint

    with open_checkpoint(path) as checkpoint:
        return all(tensor.encoding in FLOATS for tensor in checkpoint.tensors)
