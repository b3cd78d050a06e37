"""Statistics of batch norms, moved by the difference that quantization makes."""

from __future__ import annotations

from typing import Any

import torch

from ._collect import Batch, call, evaluating

_Norm = torch.nn.modules.batchnorm._BatchNorm
#: A variance changes by at most this factor.
_MOST = 16.0
#: Bits behind the leading one that moved statistics keep: a thousandth is below what a pass measures, and
#: bits of zero take no bytes.
_BITS = 10


def has_norms(model: torch.nn.Module) -> bool:
    return any(isinstance(module, _Norm) and module.running_mean is not None for module in model.modules())


def _rounded(values: torch.Tensor) -> torch.Tensor:
    mantissa, exponent = torch.frexp(values.float())
    scale = float(1 << (_BITS + 1))
    return torch.ldexp((mantissa * scale).round() / scale, exponent)


def norm_statistics(model: torch.nn.Module, batches: list[Batch]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Mean and variance of every batch norm's inputs, by channel."""
    sums: dict[str, list[torch.Tensor]] = {}

    def hook(name: str) -> Any:
        def run(module: torch.nn.Module, args: Any) -> None:
            values = args[0].detach().float()
            values = values.transpose(0, 1).flatten(1) if values.ndim > 1 else values
            count = torch.full((), float(values.shape[1]), device=values.device)
            new = [count, values.sum(1), values.square().sum(1)]
            sums[name] = [a + b for a, b in zip(sums[name], new, strict=True)] if name in sums else new

        return run

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
    result = {}
    for name, (count, total, squares) in sums.items():
        mean = total / count
        result[name] = (mean, (squares / count - mean.square()).clamp_min(0))
    return result


def corrected_norms(
    model: torch.nn.Module,
    batches: list[Batch],
    before: dict[str, tuple[torch.Tensor, torch.Tensor]],
    state: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """New running statistics by name: those of ``state``, scaled and moved as quantization moved the
    norms' inputs. Statistics of the batches themselves are never stored: batches may be of another
    kind than the training data."""
    moved: dict[str, torch.Tensor] = {}
    modules = dict(model.named_modules())
    for name, (mean, variance) in norm_statistics(model, batches).items():
        mean0, variance0 = before[name]
        eps = float(getattr(modules[name], "eps", 1e-5))
        factor = ((variance + eps) / (variance0 + eps)).clamp(1 / _MOST, _MOST)
        path = f"{name}." if name else ""
        own_mean, own_variance = state[f"{path}running_mean"], state[f"{path}running_var"]
        root = factor.sqrt()
        new_mean = mean + (own_mean.float() - mean0) * root
        moved[f"{path}running_mean"] = _rounded(new_mean).to(own_mean.dtype)
        moved[f"{path}running_var"] = _rounded(own_variance.float() * factor).to(own_variance.dtype)
    return moved
