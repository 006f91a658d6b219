"""Timed series: our kernels and the engines on the same bytes, verified first, interleaved, under a lock (docs/bench.md)."""
