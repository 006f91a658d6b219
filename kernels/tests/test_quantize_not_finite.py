"""The encodings with a table, and values for which no row has a finite error: the engine ends the process there.

Which values those are was measured with the pinned engine, one process each; only the cheapest is repeated here.
"""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import UsageProblem
from kernels.quantizer import NEEDS_IMPORTANCE, quantize
from kernels.tests.quantize_rows import COLUMNS, importances, kinds, not_finite
from oracles.pool import Pool, ProviderError

_ROWS = not_finite()
_WITH_NAN = np.isnan(_ROWS).any(axis=1)
VALUES = {
    "NaN": _ROWS[_WITH_NAN],
    "infinity": _ROWS[~_WITH_NAN],
    "1e18": kinds()["near float32's square root"],
    "1e30": kinds()["huge"],
}

ENGINE_ENDS = {
    "ggml.iq1_m": {"infinity"},
    "ggml.iq1_s": {"infinity"},
    "ggml.iq2_s": {"NaN", "infinity", "1e18", "1e30"},
    "ggml.iq2_xs": {"NaN", "infinity", "1e18", "1e30"},
    "ggml.iq2_xxs": {"1e18"},
    "ggml.iq3_s": {"NaN", "infinity", "1e18", "1e30"},
    "ggml.iq3_xxs": {"NaN", "infinity", "1e18", "1e30"},
}
"""With an importance matrix. Without one the same, save that IQ3_XXS takes infinities.

Where it goes on, sums that overflow leave no candidate: such blocks are stored as zeros, here as there.
"""


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("encoding", ENGINE_ENDS)
def test_values_without_a_finite_error_are_encoded(encoding: str, values: str) -> None:
    with_importance_only = encoding in NEEDS_IMPORTANCE or encoding == "ggml.iq3_xxs"
    for weights in (importances()["about even"], *(() if with_importance_only else (None,))):
        if values in ENGINE_ENDS[encoding]:
            with pytest.raises(UsageProblem, match=rf"quantize {encoding}: values: got numbers for which"):
                quantize(encoding, VALUES[values], weights)
        else:
            assert quantize(encoding, VALUES[values], weights).size


def test_infinities_without_importance_are_refused_where_the_engine_takes_them() -> None:
    assert quantize("ggml.iq3_xxs", VALUES["infinity"]).any()


def test_the_engine_lives_on_where_we_refuse() -> None:
    arrays = {"values": np.full((1, COLUMNS), 1e30, np.float32) * np.arange(1, COLUMNS + 1, dtype=np.float32)}
    with Pool() as pool, pytest.raises(ProviderError, match="died"):
        pool.get("llama_cpp.ops").call("quantize", {"encoding": "ggml.iq3_xxs"}, arrays)
    with pytest.raises(UsageProblem, match="got numbers for which"):
        quantize("ggml.iq3_xxs", arrays["values"])
