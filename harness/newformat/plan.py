"""What `harness new-format` writes: every file of a format, rendered, and the lines that it adds to files that are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template

from harness.errors import UsageProblem
from harness.newformat.bar import FILE
from harness.newformat.parts import GGML_FORMULAS, Part, parts_of
from harness.newformat.request import Request
from harness.newformat.row_lines import with_row

TEMPLATES = Path(__file__).parent / "templates"
_OURS = ("kernels", "cases/units", "harness/rows/data")

NOT_IN_GROUPS = "the shared CUDA loops take blocks of a multiple of 32 weights, and these have {block_elems}"


@dataclass(frozen=True)
class Plan:
    """`new` files, and files that are there with their content as it will be (`changed`), by path from the tree's root."""

    request: Request
    new: dict[str, str]
    changed: dict[str, str]

    @property
    def folder(self) -> str:
        return folder_of(self.request)


def folder_of(request: Request) -> str:
    """The unit's folder, from the tree's root."""
    return f"kernels/{request.dialect}/{request.name}"


def plan(request: Request, tree: Path) -> Plan:
    """What is to be written into the tree. Raises UsageProblem for another tree and for a name or a row that is taken,
    BadInput for row files that cannot be read or added to."""
    missing = [folder for folder in _OURS if not (tree / folder).is_dir()]
    if missing:
        raise UsageProblem(f"{tree} has no folder {missing[0]}: only a tree of this project takes a format")
    values = _values(request)
    new: dict[str, str] = {}
    stands: list[str] = []
    for part in parts_of(request):
        reason = _not_applicable(request, part)
        stands.append(_stand(part, reason))
        if part.template is not None and not reason:
            folder = "encoding" if request.kind == "encoding" else "method"
            new[part.file] = _render(f"{folder}/{part.template}", values)
    values["parts"] = "\n".join(stands)
    new[f"{folder_of(request)}/{FILE}"] = _render("bar.yaml", values)
    taken = [
        path
        for path in (folder_of(request), *(part.file for part in parts_of(request)))
        if path != GGML_FORMULAS and (tree / path).exists()
    ]
    if taken:
        raise UsageProblem(f"{request.format}: {taken[0]} is there already")
    changed = {}
    if any(part.file == GGML_FORMULAS for part in parts_of(request)):
        before = (tree / GGML_FORMULAS).read_text(encoding="utf-8")
        changed[GGML_FORMULAS] = before + _render("ggml_formula.py", values)
    rows = with_row(
        request, tree, row=_render("row.yaml", values | _row_values(request)), head=_render("rows.yaml", {})
    )
    for path, text in rows.items():
        (changed if (tree / path).exists() else new)[path] = text
    return Plan(request, new, changed)


def _values(request: Request) -> dict[str, str]:
    values = {
        "kind": request.kind,
        "format": request.format,
        "dialect": request.dialect,
        "name": request.name,
        "identifier": request.identifier,
        "title": request.name.upper(),
        "row": request.row,
        "block_elems": str(request.block_elems),
        "block_bytes": str(request.block_bytes),
        "alignment": "4" if request.block_bytes % 4 == 0 else "2",
        "zero_bytes": "00" * request.block_bytes,
        "nans": ", ".join(['"0x7fc00000"'] * request.block_elems),
    }
    return values | {"bar_tests": _render("bar_tests.py", values).rstrip("\n")}


def _row_values(request: Request) -> dict[str, str]:
    surface, oracles = {
        "ggml": ("gguf", "llama_cpp.ops, formats"),
        "mlx": ("mlx", "mlx.cpu, formats"),
    }.get(request.dialect, ("vllm", "vllm.cuda, formats"))
    if request.kind == "encoding":
        bits = 8 * request.block_bytes / request.block_elems
        contents = (
            f"encodings: [{request.format}]\n    bits_per_weight: [{bits:.12g}]\n"
            f"    block_elems: [{request.block_elems}]"
        )
    else:
        contents = f'no_encoding: "UNWRITTEN: {request.format}: row: the encodings that it chooses among"'
    return {"surface": surface, "oracles": oracles, "contents": contents}


def _not_applicable(request: Request, part: Part) -> str:
    if part.name == "cuda" and request.block_elems % 32:
        return NOT_IN_GROUPS.format(block_elems=request.block_elems)
    return ""


def _stand(part: Part, reason: str) -> str:
    """The line of `bar.yaml` about a part."""
    if reason:
        return f'  {part.name}: {{not_applicable: "{reason}"}}'
    function = f", function: {part.function}" if part.function else ""
    return f"  {part.name}: {{file: {part.file}{function}}}  # {part.meaning}"


def _render(name: str, values: dict[str, str]) -> str:
    text = (TEMPLATES / f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(values)
