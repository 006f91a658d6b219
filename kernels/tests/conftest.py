"""Which tests of the kernels can be collected here, and the interpreter that the Triton ones run under.

The tests `test_triton_*` need the extra `kernels` (torch and Triton). Triton decides when a kernel is defined whether it
is interpreted, so that this has to be said before any of them is imported.
"""

import importlib.util
import os

_INSTALLED = all(importlib.util.find_spec(name) for name in ("torch", "triton"))

# audit: allow(module-skip) without the extra kernels there is no torch and no triton to import
collect_ignore_glob = [] if _INSTALLED else ["test_triton_*.py"]

if _INSTALLED:
    os.environ["TRITON_INTERPRET"] = "1"
