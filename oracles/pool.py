"""The oracles in use: installed on first use, checked against known answers, started, and started again when dead."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import Unavailable
from harness.paths import KERNELS, ORACLES
from oracles import install, known, pins
from oracles.install import Environment
from oracles.memo import Memo, key_of
from oracles.pins import Pin, Remembered, pins_for
from oracles.pip import Progress
from oracles.worker_process import Answer, Expected, ProviderError, Unsupported, Worker

__all__ = ["Answer", "Oracle", "Pool", "ProviderError", "Unsupported", "Worker", "open_oracle", "pins_for"]

START_SECONDS = 60.0
CALL_SECONDS = 120.0
# The slowest op of an oracle that is asked for whole tensors (an importance-weighted 1-bit quantizer) still does this.
SLOWEST_BYTES_PER_SECOND = 1 << 20

# A worker's environment holds these of the user's variables and nothing else, besides what pin.yaml adds.
KEPT_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"),
    # Some machines need another kernel of OpenBLAS than the one that it would choose.
    *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"),
)
# One thread: the order of a sum, and so its bits, must not depend on the machine.
SINGLE_THREADED = dict.fromkeys(
    (
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
        *("VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS"),
    ),
    "1",
)


NOTHING = Remembered()


class Oracle:
    """One pinned provider, ready to be asked. `pin` is what evidence records about it.

    With a memo, an op that the pin declares may be answered from it; `Memo.answered` then names this oracle.
    """

    def __init__(
        self,
        name: str,
        worker: Worker,
        pin: Mapping[str, Any],
        failures: Sequence[known.Failure],
        checked: frozenset[str],
        memo: Memo | None = None,
        remembered: Remembered = NOTHING,
    ) -> None:
        self.name = name
        self.pin = dict(pin)
        self.version = str(worker.hello.get("version"))
        self.failures = {(failure.op, failure.encoding): failure for failure in failures}
        self._worker = worker
        self._checked = checked
        self._memo = memo
        self._remembered = remembered

    @property
    def worker(self) -> Worker:
        return self._worker

    @property
    def ops(self) -> dict[str, tuple[str, ...]]:
        """op -> encodings that the provider says it has, failed ones included."""
        return {op: tuple(encodings) for op, encodings in self._worker.hello.get("ops", {}).items()}

    @property
    def details(self) -> dict[str, Any]:
        """What the provider tells about itself beyond its identity: block sizes, partners of its dot products."""
        return dict(self._worker.hello.get("details", {}))

    def supports(self, op: str, encoding: str) -> bool:
        """True when the provider has the op for the encoding and its known answers hold."""
        return encoding in self.ops.get(op, ()) and (op, encoding) not in self.failures

    def why_not(self, op: str, encoding: str) -> str | None:
        """Why `supports` is False, for a person; None when it is True."""
        if failure := self.failures.get((op, encoding)):
            return f"{self.name}: {failure}"
        if encoding not in self.ops.get(op, ()):
            return f"{self.name} {self.version} has no {op} for {encoding}"
        return None

    def has_known_answers(self, op: str, encoding: str) -> bool:
        """True when this op and encoding were really checked; without known answers they are offered unchecked."""
        return f"{op} {encoding}" in self._checked

    def call(
        self,
        op: str,
        params: Mapping[str, Any] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        timeout: float | None = None,
        expect: Expected | None = None,
        into: Mapping[str, np.ndarray] | None = None,
    ) -> Answer:
        """As `Worker.call`, or from the memo unless `into` is given; without a timeout one is chosen from the bytes that go and come.

        Raises Unavailable for an op and encoding that failed their known answers, and what `Worker.call` raises.
        """
        if failure := self.failures.get((op, str((params or {}).get("encoding")))):
            raise Unavailable(f"oracle {self.name}: {failure}")
        if timeout is None:
            moved = sum(array.nbytes for array in (arrays or {}).values())
            moved += sum(wire_bytes(spec) for spec in (expect or {}).values())
            timeout = CALL_SECONDS + moved / SLOWEST_BYTES_PER_SECOND
        key = None if into is not None else self._key(op, params or {}, arrays or {})
        if self._memo is None or key is None:
            return self._worker.call(op, params, arrays, timeout=timeout, expect=expect, into=into)
        if (found := self._memo.get(key, self.name, expect)) is not None:
            return found
        answer = self._worker.call(op, params, arrays, timeout=timeout, expect=expect)
        self._memo.put(key, answer)
        return answer

    def _key(self, op: str, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str | None:
        """The key of a request in the memo; None where nothing is remembered."""
        any_cpu = op in self._remembered.any_cpu
        if self._memo is None or not (any_cpu or op in self._remembered.same_cpu):
            return None
        return key_of(self.pin, op, params, arrays, any_cpu=any_cpu)

    def dequantize(
        self,
        encoding: str,
        data: np.ndarray,
        shape: Sequence[int],
        *,
        out: np.ndarray | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Decode `data` uint8 [n_bytes] to `values` float32 [shape]; into `out` when one is given."""
        return self.call(
            "dequantize",
            {"encoding": encoding, "shape": [int(size) for size in shape]},
            {"data": data},
            timeout=timeout,
            expect={"values": ("float32", tuple(shape))},
            into=None if out is None else {"values": out},
        )

    def describe(self, path: str | Path) -> dict[str, Any]:
        """The provider's own reading of a checkpoint file (docs/protocol.md: describe)."""
        return self.call("describe", {"path": str(Path(path).absolute())}, expect={}).result

    def close(self) -> None:
        self._worker.close()


def wire_bytes(spec: tuple[str, tuple[int, ...]]) -> int:
    dtype, shape = spec
    return int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))


def open_oracle(
    pin: Pin,
    environment: Environment,
    *,
    known_folder: Path = KERNELS,
    trust_marks: bool = True,
    memo: Memo | None = None,
) -> Oracle:
    """Start a pin's worker in its environment and hold it against its known answers. Raises Unavailable.

    With `trust_marks` a check that has already passed in this environment is not repeated.
    """
    answers = known.load_known(known_folder)
    try:
        worker = Worker.start(
            [str(environment.python), "-I", str(pin.worker)],
            name=pin.name,
            timeout=START_SECONDS,
            env=worker_environment(pin),
            cwd=environment.path,
        )
    except ProviderError as error:
        tail = [line for line in error.stderr.splitlines() if line.strip()][-1:]
        raise Unavailable(
            f"oracle {pin.name} does not start: {error.message}{f' ({tail[0]})' if tail else ''}; "
            f"run: harness oracles doctor"
        ) from None
    identity = {
        "pin": pin.name,
        "package": pin.package,
        "version": pin.version,
        "wheel_sha256": environment.wheels.get(pin.package, {}).get("sha256", ""),
        "wheels": environment.wheels,
        "worker_sha256": pin.worker_sha256(),
        "known_answers_sha256": known.digest(answers),
        "environment_key": environment.key,
        "environment": dict(pin.environment),
        "python": worker.hello.get("python"),
        "engine": worker.hello.get("engine", {}),
    }
    try:
        failures = _check_once(worker, answers, environment, identity, trust_marks)
    except BaseException:
        worker.close()
        raise
    checked = frozenset(f"{answer.op} {answer.encoding}" for answer in answers)
    return Oracle(pin.name, worker, identity, failures, checked, memo, pin.memo)


def _check_once(
    worker: Worker,
    answers: Sequence[known.KnownAnswer],
    environment: Environment,
    identity: Mapping[str, Any],
    trust_marks: bool,
) -> tuple[known.Failure, ...]:
    """Check known answers, unless this environment, worker and set of answers have already passed together."""
    passed = json.dumps(identity, sort_keys=True).encode()
    mark = environment.path / "checked" / hashlib.sha256(passed).hexdigest()
    if trust_marks and mark.exists():
        return ()
    failures = known.check(worker, answers)
    if not failures:
        try:
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        except OSError:
            # A cache that cannot be written costs the check again the next time, nothing else.
            pass
    return failures


def worker_environment(pin: Pin, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of a worker process."""
    kept = {name: variables[name] for name in KEPT_VARIABLES if name in variables}
    return {**kept, **SINGLE_THREADED, **pin.environment}


class Pool:
    """The oracles of one run, each opened at its first use and closed with the pool.

    `progress` gets one line at a time while something is installed; with `offline` nothing is. Without a `memo` every
    answer is live.
    """

    def __init__(
        self,
        *,
        offline: bool = False,
        progress: Progress | None = None,
        folder: Path = ORACLES,
        known_folder: Path = KERNELS,
        ensure: Callable[..., Environment] = install.ensure,
        memo: Memo | None = None,
    ) -> None:
        self._offline = offline
        self._progress = progress
        self._folder = folder
        self._known_folder = known_folder
        self._ensure = ensure
        self._memo = memo
        self._open: dict[str, Oracle] = {}

    def get(self, name: str) -> Oracle:
        """The oracle of a pin. Raises UsageProblem for an unknown name, Unavailable when it cannot be had."""
        if name not in self._open:
            pin = pins.pin(name, self._folder)
            environment = self._ensure(pin, offline=self._offline, progress=self._progress)
            self._open[name] = open_oracle(pin, environment, known_folder=self._known_folder, memo=self._memo)
        return self._open[name]

    def close(self) -> None:
        for oracle in self._open.values():
            oracle.close()
        self._open.clear()
        if self._memo is not None:
            self._memo.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
