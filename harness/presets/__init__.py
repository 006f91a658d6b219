"""Which encoding each tensor gets under a preset of llama.cpp's quantizer, from metadata alone. See docs/type-selection.md."""

from harness.presets.model import Model, Tensor, read_model
from harness.presets.select import Refused, Selected, select_types

__all__ = ["Model", "Refused", "Selected", "Tensor", "read_model", "select_types"]
