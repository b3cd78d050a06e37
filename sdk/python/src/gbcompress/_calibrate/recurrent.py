"""Inputs and hidden states that the matrices of a recurrent layer or cell see together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

#: Both weights, and the rows [steps, in + hidden] that they see.
Joint = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _given_states(args: Any, kwargs: Any) -> Any:
    """The second argument of a recurrent module; None where the caller gave none."""
    return args[1] if len(args) > 1 else kwargs.get("hx")


def cell_inputs(module: torch.nn.RNNCellBase, inputs: torch.Tensor, args: Any, kwargs: Any) -> Iterator[Joint]:
    """Of an LSTMCell, a GRUCell or an RNNCell."""
    states = _given_states(args, kwargs)
    hidden = states[0] if isinstance(states, tuple | list) else states
    width = module.weight_hh.shape[1]
    rows = inputs.reshape(-1, inputs.shape[-1])
    if rows.shape[1] != module.weight_ih.shape[1]:
        return  # the module itself refuses them
    hidden = rows.new_zeros(len(rows), width) if hidden is None else hidden.detach().reshape(-1, width)
    yield module.weight_ih, module.weight_hh, torch.cat([rows, hidden.to(rows)], -1)


def joint_inputs(module: torch.nn.RNNBase, inputs: torch.Tensor, args: Any, kwargs: Any) -> Iterator[Joint]:
    """Of each layer and direction. Layers are run once more, one by one, because torch shows the last one's
    outputs alone."""
    if inputs.ndim not in (2, 3):
        return
    states = [s.detach() for s in _tuple_of(_given_states(args, kwargs))]
    if inputs.ndim == 2:
        inputs = inputs.unsqueeze(0 if module.batch_first else 1)
        states = [state.unsqueeze(1) for state in states]
    steps = inputs.transpose(0, 1) if module.batch_first else inputs  # [time, batch, in]
    directions = 2 if module.bidirectional else 1
    width = module.proj_size or module.hidden_size
    for layer in range(module.num_layers):
        first = _first_states(module, layer, steps, states)
        outputs = _run_layer(module, layer, steps, first)
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            own = outputs[..., direction * width : (direction + 1) * width]
            start = first[0][direction].unsqueeze(0)
            before = torch.cat([own[1:], start] if direction else [start, own[:-1]])
            rows = torch.cat([steps.to(before), before], -1)
            yield (
                getattr(module, "weight_ih" + suffix),
                getattr(module, "weight_hh" + suffix),
                rows.reshape(-1, rows.shape[-1]),
            )
        steps = outputs


def _tuple_of(states: Any) -> tuple[torch.Tensor, ...]:
    if states is None:
        return ()
    return tuple(states) if isinstance(states, tuple | list) else (states,)


def _first_states(
    module: torch.nn.RNNBase, layer: int, steps: torch.Tensor, states: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Hidden states, and cell states of an LSTM, before the first step of a layer, [directions, batch, width]."""
    directions = 2 if module.bidirectional else 1
    kind = getattr(module, f"weight_hh_l{layer}")
    if states:
        return [s[layer * directions : (layer + 1) * directions].to(kind).contiguous() for s in states]
    widths = [module.proj_size or module.hidden_size]
    if module.mode == "LSTM":
        widths.append(module.hidden_size)
    return [kind.new_zeros(directions, steps.shape[1], width) for width in widths]


def _run_layer(
    module: torch.nn.RNNBase, layer: int, steps: torch.Tensor, first: list[torch.Tensor]
) -> torch.Tensor:
    """Outputs [time, batch, directions * width] of one layer."""
    suffixes = [f"_l{layer}" + ("_reverse" if d else "") for d in range(2 if module.bidirectional else 1)]
    kinds = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if module.bias else [])
    if module.proj_size:
        kinds.append("weight_hr")
    weights = [getattr(module, kind + suffix) for suffix in suffixes for kind in kinds]
    rest = (weights, module.bias, 1, 0.0, False, module.bidirectional, False)
    steps = steps.to(weights[0].dtype)
    if module.mode == "LSTM":
        return torch.lstm(steps, tuple(first), *rest)[0]
    run = {"GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}[module.mode]
    outputs: torch.Tensor = run(steps, first[0], *rest)[0]
    return outputs
