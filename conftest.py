"""The whole suite runs under the harness's own plugin: cases, verdicts, evidence, skips (docs/verdicts.md)."""

pytest_plugins = ["harness.plugin", "pytester"]
