"""The pytest plugin: cases become items, verdicts become evidence, skips are data. `docs/verdicts.md` explains it.

A `conftest.py` loads it with `pytest_plugins = ["harness.plugin"]`.
"""

pytest_plugins = (
    "harness.plugin.options",
    "harness.plugin.findings",
    "harness.plugin.families",
    "harness.plugin.selection",
    "harness.plugin.nightly",
    "harness.plugin.memo",
    "harness.plugin.threads",
    "harness.lock.fixtures",
    "harness.plugin.devices",
    "harness.plugin.verdict",
    "harness.plugin.outcome",
    "harness.plugin.recorder",
    "harness.plugin.promises",
    "harness.plugin.exits",
)
