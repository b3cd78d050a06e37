"""Statistics of batch norms, moved by the difference that quantization makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._collect import Batch, call, evaluating

_Norm = torch.nn.modules.batchnorm._BatchNorm
#: A variance changes by at most this factor.
_MOST = 16.0
#: Mantissa bits of moved statistics in files; other vectors have 7.
NORM_BITS = 9


def has_norms(model: torch.nn.Module) -> bool:
    return any(isinstance(module, _Norm) and module.running_mean is not None for module in model.modules())


def _sums(values: torch.Tensor) -> torch.Tensor:
    """float32 [3, channels]: count, sum and sum of squares of each channel of a norm's input."""
    values = values.detach().float()
    values = values.transpose(0, 1).flatten(1) if values.ndim > 1 else values
    count = torch.full(values.shape[:1], float(values.shape[1]), device=values.device)
    return torch.stack([count, values.sum(1), values.square().sum(1)])


def _moments(sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of each channel."""
    mean = sums[1] / sums[0]
    return mean, (sums[2] / sums[0] - mean.square()).clamp_min(0)


def _run(model: torch.nn.Module, batches: list[Batch], each: Callable[[str, Any, torch.Tensor], None]) -> None:
    """Runs the batches; ``each`` is called in front of every norm, with its path, itself and its input's sums."""

    def hook(name: str) -> Any:
        return lambda module, args: each(name, module, _sums(args[0]))

    handles = [
        module.register_forward_pre_hook(hook(name))
        for name, module in model.named_modules()
        if isinstance(module, _Norm) and module.running_mean is not None
    ]
    try:
        with evaluating(model), torch.no_grad():
            for batch in batches:
                call(model, batch)
    finally:
        for handle in handles:
            handle.remove()


def norm_sums(model: torch.nn.Module, batches: list[Batch]) -> dict[str, list[torch.Tensor]]:
    """Sums of every batch norm's inputs, call by call."""
    result: dict[str, list[torch.Tensor]] = {}
    _run(model, batches, lambda name, module, sums: result.setdefault(name, []).append(sums))
    return result


def norm_statistics(model: torch.nn.Module, batches: list[Batch]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Mean and variance of every batch norm's inputs, by channel."""
    return {name: _moments(torch.stack(each).sum(0)) for name, each in norm_sums(model, batches).items()}


def _correct(module: Any, now: torch.Tensor, before: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    """Sets a norm's running statistics to those given, scaled and moved as its inputs were.

    Args:
        now: sums of its inputs; ``before``: of the original's.
    """
    (mean1, variance1), (mean0, variance0) = _moments(now), _moments(before)
    factor = ((variance1 + module.eps) / (variance0 + module.eps)).clamp(1 / _MOST, _MOST)
    module.running_mean.copy_(mean1 + (mean.float() - mean0) * factor.sqrt())
    module.running_var.copy_(variance.float() * factor)


def corrected_norms(
    model: torch.nn.Module,
    batches: list[Batch],
    before: dict[str, list[torch.Tensor]],
    state: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """New running statistics by name: those of ``state``, scaled and moved as quantization moved the
    norms' inputs. Statistics of the batches themselves are never stored: batches may be of another
    kind than the training data.

    A norm is corrected before it runs, by the sums of the batches so far: what it passes on is
    corrected when the next norm is measured. Otherwise a norm would be corrected for the changes of
    those in front of it a second time.

    Args:
        model: with quantized weights; its norms are changed.
        before: norm_sums() of the original.
    """
    calls: dict[str, int] = {}
    totals: dict[str, torch.Tensor] = {}  # of its inputs now and before, [2, 3, channels]

    def each(name: str, module: Any, sums: torch.Tensor) -> None:
        number = calls[name] = calls.get(name, 0) + 1
        originals = before.get(name, [])
        if number > len(originals):
            return
        both = torch.stack([sums, originals[number - 1]])
        totals[name] = totals[name] + both if name in totals else both
        now, original = totals[name].unbind()
        path = f"{name}." if name else ""
        _correct(module, now, original, state[f"{path}running_mean"], state[f"{path}running_var"])

    _run(model, batches, each)
    modules = dict(model.named_modules())
    moved: dict[str, torch.Tensor] = {}
    for name in calls:
        for each_name in "running_mean", "running_var":
            path = f"{name}.{each_name}" if name else each_name
            moved[path] = getattr(modules[name], each_name).detach().clone()
    return moved
