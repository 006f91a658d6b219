"""Tensors that belong to another tensor's decode: the scales that GGUF files keep beside a quantized weight."""

from __future__ import annotations

from harness.containers.checkpoint import Checkpoint, TensorInfo

WEIGHT = ".weight"
SIDES = (".scale", ".input_scale")
"""In place of `.weight`: what the decoded weight, and its product's activations, are multiplied by. F32; one number, or one an expert."""


def side_tensors(checkpoint: Checkpoint, name: str) -> dict[str, TensorInfo]:
    """The side tensors of the weight `name`, by what stands for `weight` in their names: `scale`, `input_scale`.

    Empty for a tensor that is no weight, or has none. Leaving them out of account scales the weight wrongly. Raises
    UsageProblem when there is no tensor `name`. Source of the names: llama.cpp's converter and its loader.
    """
    checkpoint.tensor(name)
    if not name.endswith(WEIGHT):
        return {}
    stem = name.removesuffix(WEIGHT)
    here = {info.name: info for info in checkpoint.tensors}
    return {
        side.removeprefix("."): here[stem + side]
        for side in SIDES
        if stem + side in here and here[stem + side].type_name == "F32"
    }
