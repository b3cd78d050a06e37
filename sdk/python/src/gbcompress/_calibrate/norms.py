"""Statistics of batch norms, moved by the difference that quantization makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .collect import Batch, called, evaluating

_Norm = torch.nn.modules.batchnorm._BatchNorm
#: A variance changes by at most this factor.
_MOST = 16.0
#: Mantissa bits of moved statistics in files; other vectors have 7.
NORM_BITS = 9


def has_norms(model: torch.nn.Module) -> bool:
    return any(isinstance(module, _Norm) and module.running_mean is not None for module in model.modules())


def _norms_of(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Batch norms with running statistics, by their paths with a dot behind, and ``""`` for the model itself."""
    for name, module in model.named_modules():
        if isinstance(module, _Norm) and module.running_mean is not None:
            yield f"{name}." if name else "", module


def _folded(module: Any, norm: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same function, in evaluation mode, with a running mean of 0 and a divisor of 1: two vectors of four are
    constants. Norms without weights or of other precision stay as they are."""
    if not module.affine or any(value.dtype != torch.float32 for value in norm.values()):
        return norm
    mean, variance = norm["running_mean"].double(), norm["running_var"].double()
    weight = norm["weight"].double() / (variance + module.eps).sqrt()
    bias = norm["bias"].double() - mean * weight
    return {
        "weight": weight.float(),
        "bias": bias.float(),
        "running_mean": torch.zeros_like(norm["running_mean"]),
        "running_var": torch.full_like(norm["running_var"], 1 - module.eps),
    }


def _vectors(prefix: str, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    names = ("weight", "bias", "running_mean", "running_var")
    return {name: state[prefix + name] for name in names if prefix + name in state}


def folded_state(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A model's state dict with its batch norms folded; the rest is shared with ``state``."""
    result = dict(state)
    for prefix, module in _norms_of(model):
        norm = _vectors(prefix, state)
        shared = {value.untyped_storage().data_ptr() for value in norm.values()}
        if sum(value.untyped_storage().data_ptr() in shared for value in state.values()) == len(norm):
            result.update({prefix + name: value for name, value in _folded(module, norm).items()})
    return result


def folded_norms(
    model: torch.nn.Module, state: dict[str, torch.Tensor], moved: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Vectors of the norms whose running statistics were moved, folded as folded_state() does."""
    folded = folded_state(model, state | moved)
    names = {prefix + name for prefix, _ in _norms_of(model) for name in _vectors(prefix, state)}
    return {name: folded[name] for name in sorted(names) if name in moved or folded[name] is not state[name]}


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
    """Runs the batches; ``each`` is called in front of every norm, with its path and a dot, itself and its
    input's sums."""

    def hook(name: str) -> Any:
        return lambda module, args: each(name, module, _sums(args[0]))

    handles = [module.register_forward_pre_hook(hook(prefix)) for prefix, module in _norms_of(model)]
    try:
        with evaluating(model), torch.no_grad():
            for number, batch in enumerate(batches):
                called(model, batch, number)
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
    return {
        prefix.removesuffix("."): _moments(torch.stack(each).sum(0))
        for prefix, each in norm_sums(model, batches).items()
    }


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
        state: of the original.
    """
    with torch.no_grad():
        for prefix, module in _norms_of(model):
            for name, value in _vectors(prefix, state).items():
                getattr(module, name).copy_(value)
    calls: dict[str, int] = {}
    totals: dict[str, torch.Tensor] = {}  # of its inputs now and before, [2, 3, channels]
    moved: dict[str, torch.Tensor] = {}

    def each(prefix: str, module: Any, sums: torch.Tensor) -> None:
        number = calls[prefix] = calls.get(prefix, 0) + 1
        originals = before.get(prefix, [])
        if number > len(originals):
            return
        both = torch.stack([sums, originals[number - 1]])
        totals[prefix] = totals[prefix] + both if prefix in totals else both
        now, original = totals[prefix].unbind()
        _correct(module, now, original, state[f"{prefix}running_mean"], state[f"{prefix}running_var"])
        # The pass has buffers of its own, which end with it.
        for name in "running_mean", "running_var":
            moved[prefix + name] = getattr(module, name).detach().clone()

    _run(model, batches, each)
    return moved
