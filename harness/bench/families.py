"""From recipes to required cases: a perf recipe with a `family` is a family of cases that `harness bench` runs, not pytest."""

from __future__ import annotations

from pathlib import Path

from harness.bench.recipe import Recipe, load_recipe
from harness.evidence.case import Case, Family
from harness.paths import REPOSITORY
from harness.rows.model import Dimension
from kernels.units import unit

BOUND = "median at most 1.00 x the oracle's on the same work in one locked series, plus the measured noise"
JUDGING = tuple(
    Path("harness") / "bench" / f"{name}.py"
    for name in ("arms", "figures", "inputs", "judge", "load", "recipe", "run", "series", "verify")
)
"""What makes a figure and a verdict out of a series: a change in it makes evidence stale."""
FOLDER = Path("recipes") / "perf"


def family_of(recipe: Recipe, path: Path, root: Path = REPOSITORY) -> Family | None:
    """The family of cases of a recipe below `root`; None where it keeps no evidence."""
    if recipe.family is None:
        return None
    works = list(recipe.works())
    known = {(work.encoding, work.size) for work in works}
    return Family(
        name=recipe.family,
        op=works[0].op,
        dimension=Dimension.PERF,
        backends=(recipe.backend,),
        encodings=tuple(dict.fromkeys(work.encoding for work in works)),
        axes={"size": tuple(dict.fromkeys(work.size for work in works))},
        rows=lambda encoding: unit(encoding or "").rows,
        bound=BOUND,
        files=(path, *(root / name for name in JUDGING)),
        refuse=lambda chosen: (
            None if (chosen["encoding"], chosen["size"]) in known else "the recipe does not time it"
        ),
    )


def cases_of(recipe: Recipe, path: Path) -> dict[str, Case]:
    """Case ID -> case, for the recipe at `path`; empty where it keeps no evidence."""
    family = family_of(recipe, path.resolve())
    return {case.id: case for case in family.cases()} if family is not None else {}


def timed_families(root: Path = REPOSITORY) -> dict[str, Family]:
    """The families of all recipes of the tree at `root`, by name."""
    found = {}
    for path in sorted((root / FOLDER).glob("*.yaml")):
        family = family_of(load_recipe(path), path, root)
        if family is not None:
            found[family.name] = family
    return found
