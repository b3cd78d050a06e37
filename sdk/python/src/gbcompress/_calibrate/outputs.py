"""Whether a model's outputs are scores of classes or values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import torch

from .._errors import usage

#: Predictions that are looked at, and the fewest that tell anything.
_PREDICTIONS, _FEWEST = 256, 24
#: Scores of classes: the softmax is at least this decided on average, and the mean of a prediction's scores
#: varies by at most this part of what independent numbers would. The gradient of the cross-entropy adds up
#: to 0 over the classes, so that training moves scores against each other and not all of them together.
_DECIDED, _TOGETHER = 0.5, 0.6


def outputs_of(result: Any) -> list[torch.Tensor]:
    """All tensors of real numbers in a model's result: a tensor, tuples, dicts, ModelOutput, dataclasses and namespaces,
    nested ones too."""
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, Mapping):
        return [tensor for value in result.values() for tensor in outputs_of(value)]
    if isinstance(result, tuple | list):
        return [tensor for value in result for tensor in outputs_of(value)]
    if is_dataclass(result) and not isinstance(result, type):
        return [tensor for field in fields(result) for tensor in outputs_of(getattr(result, field.name, None))]
    # Other objects are not looked into: caches of keys and values are no outputs.
    return outputs_of(vars(result)) if isinstance(result, SimpleNamespace) else []


def logits_of(result: Any, scores: bool) -> torch.Tensor | None:
    """Scores of classes, [..., classes]: ``outputs.logits``, or the only tensor where ``scores``."""
    logits = getattr(result, "logits", None)
    if isinstance(logits, torch.Tensor) and logits.ndim >= 2:
        return logits
    tensors = outputs_of(result) if scores else []
    return tensors[0] if len(tensors) == 1 and tensors[0].ndim >= 2 else None


def beginning(result: Any) -> Any:
    """What are_scores() reads of a result, in memory of its own."""
    tensors = outputs_of(result)
    if len(tensors) != 1 or tensors[0].ndim not in (2, 3):
        return result
    return tensors[0].detach().flatten(0, -2)[:_PREDICTIONS].clone()


def are_scores(results: Sequence[Any]) -> bool:
    """Whether outputs that have no name look like scores of classes, by their values."""
    rows: list[torch.Tensor] = []
    for result in results:
        tensors = outputs_of(result)
        if len(tensors) != 1 or tensors[0].ndim not in (2, 3) or tensors[0].shape[-1] < 2:
            return False
        rows.append(tensors[0].detach().float().flatten(0, -2)[:_PREDICTIONS].cpu())
    values = torch.cat(rows)[:_PREDICTIONS] if rows else torch.empty(0, 2)
    if len(values) < _FEWEST or not bool(torch.isfinite(values).all()):
        return False
    decided = float(values.softmax(1).amax(1).mean())
    apart = float(values.var(0).mean())
    together = float(values.mean(1).var()) * values.shape[1]
    several = len(set(values.argmax(1).tolist())) > 1
    return several and decided >= _DECIDED and together <= _TOGETHER * apart


def checked_outputs(outputs: object) -> bool | None:
    """Whether they are scores; None: their values tell. Raises UsageError."""
    if outputs not in (None, "scores", "values"):
        raise usage(f'outputs must be "scores", "values" or None, got {outputs!r}')
    return None if outputs is None else outputs == "scores"
