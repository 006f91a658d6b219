"""Differential oracle harness for LLM quantization."""

__version__ = "0.1.0"
