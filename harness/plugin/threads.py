"""One thread of linear algebra in each worker of xdist: numpy's own threads in every worker fight over the same cores."""

from __future__ import annotations

import os

import pytest

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def pytest_configure(config: pytest.Config) -> None:
    """Workers inherit the environment when they start, which is before they load numpy. What the user set stays."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        for name in THREADS:
            os.environ.setdefault(name, "1")
