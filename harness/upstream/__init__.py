"""Upstream's tests: what became of each with us, and what another release of an engine adds, removes or changes."""
