"""What a user's ``evaluate`` returns, and which drops of it say something."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._arguments import kind_of, real
from ._errors import usage

if TYPE_CHECKING:
    import torch


def checked_drop(max_drop: object) -> float:
    """At least 0. Raises UsageError."""
    value = real(max_drop, "max_drop")
    if value < 0:
        raise usage(f"max_drop must be at least 0, got {max_drop}")
    return value


def quality_of(model: torch.nn.Module, evaluate: Callable[[], float]) -> float:
    """What ``evaluate`` returns, without gradients. Modules stay in the mode, training or evaluation,
    they were in. Raises UsageError for anything but a number."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    with torch.no_grad():
        value = evaluate()
    for module, training in modes:
        module.training = training
    try:
        return float(value)
    except (TypeError, ValueError):
        raise usage(f"evaluate must return a number, got {kind_of(value)}") from None


def checked_quality(given: float) -> float:
    """The quality of the model as given. Raises UsageError where it is not finite."""
    if not math.isfinite(given):
        raise usage(f"evaluate must return a finite number, got {given} for the model as given")
    return given


def checked_reference(given: float, max_drop: float, instead: str) -> float:
    """The quality of the model as given.

    Args:
        instead: the targets to give where no drop can be measured: "rate_weight or max_bytes".

    Raises:
        UsageError: it is not finite, or every model is within the drop.
    """
    if checked_quality(given) == 0:
        raise usage(
            "evaluate returned 0 for the model as given: no drop of it can be measured; train the "
            f"model first, or give {instead}"
        )
    if 0 < given <= max_drop:
        raise usage(
            f"max_drop={max_drop:g} is in units of evaluate, which returned {given:g} for the "
            f"model as given: every model is within it; give a smaller one, such as max_drop={given / 100:.2g}"
        )
    return given
