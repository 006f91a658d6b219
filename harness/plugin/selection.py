"""Which of the collected items run, and in which order."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.bench.families import timed_families
from harness.evidence.case import Case
from harness.evidence.required import FOLDER, differences, load_required, write_required
from harness.plugin.evidence import hash_of
from harness.plugin.families import COLLECTED, UPDATE, case_of
from harness.plugin.findings import Finding, report_finding

DONE = pytest.StashKey[dict[str, str]]()
"""Cases that the resumed run has a verdict of, each with the code hash of then."""
WHOLE = pytest.StashKey[bool]()
"""Whether everything below `testpaths` is collected, so that a family of the list that no test runs is a finding."""


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.stash[WHOLE] = config.workerinput["harness_whole"]
        config.option.shuffle = config.workerinput["harness_shuffle"]
        return
    config.stash[WHOLE] = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if config.option.shuffle == 0:
        config.option.shuffle = random.SystemRandom().randrange(1, 1 << 32)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist's controller tells each worker what only the controller knows."""
    node.workerinput["harness_whole"] = node.config.stash[WHOLE]
    node.workerinput["harness_shuffle"] = node.config.option.shuffle


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.stash[WHOLE]:
        _missing_families(config)
    done = config.stash[DONE]
    filters = _filters(config)
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        case = case_of(item)
        wanted = not filters if case is None else all(fits(case) for fits in filters)
        finished = case is not None and case.id in done and done[case.id] == hash_of(case)
        (kept if wanted and not finished else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    if config.option.shuffle is not None:
        random.Random(config.option.shuffle).shuffle(items)


def _filters(config: pytest.Config) -> list[Callable[[Case], bool]]:
    """One predicate an option that was given; a plain test fits none of them."""
    option = config.option
    named: list[tuple[list[str], Callable[[Case], tuple[str, ...]]]] = [
        (option.rows, lambda case: case.rows),
        (option.cases, lambda case: (case.id,)),
        (option.backends, lambda case: (case.backend,)),
        (option.dimension, lambda case: (case.dimension,)),
    ]
    return [
        lambda case, patterns=patterns, names=names: any(  # type: ignore[misc]
            fnmatch.fnmatchcase(name, pattern) for name in names(case) for pattern in patterns
        )
        for patterns, names in named
        if patterns
    ]


def _missing_families(config: pytest.Config) -> None:
    if config.option.update_required:
        return
    for name in _unowned(config):
        file = str(FOLDER / f"{name}.txt")
        words = f"no test and no perf recipe runs the family {name}; {UPDATE}"
        report_finding(None, config, Finding("missing-family", file, 1, words))
    for family in timed_families(config.rootpath).values():
        file = str(FOLDER / f"{family.name}.txt")
        for line in differences(family.cases(), config.rootpath):
            report_finding(None, config, Finding("required", file, 1, f"{line}; {UPDATE}"))


def _unowned(config: pytest.Config) -> list[str]:
    owned = {*config.stash[COLLECTED], *timed_families(config.rootpath)}
    return sorted(name for name in load_required(config.rootpath).families if name not in owned)


def pytest_collection_finish(session: pytest.Session) -> None:
    """`--update-required`: the lists of the families that were collected; with everything collected, no others."""
    config = session.config
    if not config.option.update_required:
        return
    families = [*config.stash[COLLECTED].values()]
    if config.stash[WHOLE]:
        families += timed_families(config.rootpath).values()
    changed = list(write_required([case for family in families for case in family.cases()], config.rootpath))
    if config.stash[WHOLE]:
        stale = [config.rootpath / FOLDER / f"{name}.txt" for name in _unowned(config)]
        for path in stale:
            path.unlink()
        changed += stale
    for path in changed:
        print(f"changed: {path.relative_to(config.rootpath)}")
