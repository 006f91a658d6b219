"""What each arm computes is judged before anything is timed: a figure of a wrong result is VOID."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.bench.arms import Arrays, Player, digests
from harness.bench.inputs import Inputs
from harness.bench.recipe import Work
from harness.comparison.accumulate import compare
from harness.comparison.bounds import BIT_EXACT, Bound
from harness.errors import HarnessError
from harness.evidence.record import Judge
from harness.verdicts import Verdict
from kernels.units import unit
from oracles.worker_process import ProviderError


@dataclass(frozen=True)
class Verified:
    """The verdict on one arm's result against the oracle's, over how many elements, before which judges, and why.

    `sha256` is of the arrays that were judged: what is timed has to give them again.
    """

    verdict: Verdict
    elements: int = 0
    message: str = ""
    judges: tuple[Judge, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)


def produced(player: Player) -> Arrays | Verified:
    """An arm's result, or the verdict on not giving one."""
    try:
        return player.produce()
    except ProviderError as error:
        return Verified(error.verdict, message=error.message)
    except (HarnessError, MemoryError) as error:
        return Verified(Verdict.ERROR_RUN, message=str(error) or "no memory")


def verify(work: Work, inputs: Inputs, players: Mapping[str, Player], oracle: str) -> dict[str, Verified]:
    """Arm -> the verdict on its result, decodes and encoded bytes bit for bit, products under their bound.

    The oracle's own result is held against those of the other pinned arms: where one differs nobody knows what is
    right (ORACLE_DISAGREE), and every figure of the work is void.
    """
    results = {name: produced(player) for name, player in players.items()}
    theirs = results.pop(oracle)
    if isinstance(theirs, Verified):
        return dict.fromkeys(players, theirs)
    found = {
        name: ours if isinstance(ours, Verified) else _against(work, inputs, ours, theirs)
        for name, ours in results.items()
    }
    wrong = [name for name, one in found.items() if players[name].judge and one.verdict is not Verdict.PASS]
    own = _against(work, inputs, theirs, theirs)
    if wrong:
        words = f"{wrong[0]} and {oracle} differ: {found[wrong[0]].message}"
        own = Verified(Verdict.ORACLE_DISAGREE, own.elements, words)
        return dict.fromkeys(players, own)
    found[oracle] = own
    judges = tuple({player.judge: None for player in players.values() if player.judge is not None})
    return {name: replace(one, judges=judges) for name, one in found.items()}


def _against(work: Work, inputs: Inputs, ours: Arrays, theirs: Arrays) -> Verified:
    name = next(iter(inputs.gives))
    one, other = _floats(ours[name]), _floats(theirs[name])
    found = compare(one, other, _bound(work, inputs), unit(work.encoding).block_elems)
    return Verified(found.verdict, found.checked, found.reason, sha256=digests(ours))


def _floats(array: npt.NDArray[Any]) -> npt.NDArray[np.floating]:
    """Encoded bytes as numbers, so that one comparator judges all: every byte is one float32 exactly."""
    return array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float32)


def _bound(work: Work, inputs: Inputs) -> Bound:
    if work.op != "vec_dot":
        return BIT_EXACT
    from kernels.cpu_matmul_bound import judge

    judged = judge(work.encoding, inputs.arrays["y"], inputs.arrays["x"].reshape(-1), work.shape)
    limit = np.asarray(judged.against_engine.limit).reshape(-1, 1)
    return Bound(limit, judged.against_engine.derivation)
