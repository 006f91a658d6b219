"""Decoders that are wrong on purpose, one fault a file: `harness compare` has to name each."""
