"""Inputs and hidden states that the matrices of a recurrent layer see together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def joint_inputs(
    module: torch.nn.RNNBase, inputs: torch.Tensor, args: Any, kwargs: Any
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Of each layer and direction: both weights, and the rows [steps, in + hidden] that they see.

    Layers are run once more, one by one, because torch shows the last one's outputs alone. Initial
    hidden states that the caller gave count as zero.
    """
    if getattr(module, "proj_size", 0) > 0 or inputs.ndim not in (2, 3):
        return
    if inputs.ndim == 2:
        inputs = inputs.unsqueeze(0 if module.batch_first else 1)
    steps = inputs.transpose(0, 1) if module.batch_first else inputs  # [time, batch, in]
    directions = 2 if module.bidirectional else 1
    for layer in range(module.num_layers):
        outputs = _run_layer(module, layer, steps)
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            own = outputs[..., direction * module.hidden_size : (direction + 1) * module.hidden_size]
            before = torch.zeros_like(own)
            if direction:
                before[:-1] = own[1:]
            else:
                before[1:] = own[:-1]
            rows = torch.cat([steps, before], -1)
            yield (
                getattr(module, "weight_ih" + suffix),
                getattr(module, "weight_hh" + suffix),
                rows.reshape(-1, rows.shape[-1]),
            )
        steps = outputs


def _run_layer(module: torch.nn.RNNBase, layer: int, steps: torch.Tensor) -> torch.Tensor:
    """Outputs [time, batch, directions * hidden] of one layer."""
    directions = 2 if module.bidirectional else 1
    suffixes = [f"_l{layer}" + ("_reverse" if d else "") for d in range(directions)]
    kinds = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if module.bias else [])
    weights = [getattr(module, kind + suffix) for suffix in suffixes for kind in kinds]
    hidden = steps.new_zeros(directions, steps.shape[1], module.hidden_size)
    rest = (weights, module.bias, 1, 0.0, False, module.bidirectional, False)
    steps = steps.to(weights[0].dtype)
    hidden = hidden.to(weights[0].dtype)
    if module.mode == "LSTM":
        return torch.lstm(steps, (hidden, hidden), *rest)[0]
    run = {"GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}[module.mode]
    outputs: torch.Tensor = run(steps, hidden, *rest)[0]
    return outputs
