"""Moments of the inputs of weight matrices, added up by hooks on modules."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ._errors import GbzError, warn
from ._recurrent import joint_inputs

#: Rows of inputs of one call that count; more are taken evenly spread.
_ROWS = 8192
#: Inputs wider than this have no moment: it would take 4 * width^2 bytes.
_WIDEST = 16384


@dataclass
class Sums:
    """Of one matrix, on the device of the model."""

    moment: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    rows: int = 0
    transposed: bool = False  #: [in, out]: the moment is one of rows


class Collector:
    """Hooks on every module with a weight matrix, and the sums they fill.

    Args:
        prefix: of the names of the module's parameters within the model: ``"layers.3."``.
        only: full names of the modules that are hooked; None: all.
    """

    def __init__(
        self, model: torch.nn.Module, prefix: str = "", only: Container[str] | None = None
    ) -> None:
        self.names: dict[int, str] = {}
        for name, parameter in model.named_parameters():
            self.names.setdefault(id(parameter), prefix + name)
        self.sums: dict[str, Sums] = {}
        self.expected: set[str] = set()
        self.differing: set[str] = set()
        self._handles: list[Any] = []
        for name, module in model.named_modules():
            full = f"{prefix}{name}".rstrip(".")
            hook = self._hook_of(module) if only is None or full in only else None
            if hook is None:
                continue
            guarded = self._guarded(full, hook)
            self._handles.append(module.register_forward_pre_hook(guarded, with_kwargs=True))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook_of(self, module: torch.nn.Module) -> Callable[..., None] | None:
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.RNNBase):
            return self._recurrent
        if isinstance(module, torch.nn.MultiheadAttention):
            return self._attention if module.in_proj_weight is not None else None
        if not isinstance(weight, torch.nn.Parameter):
            return None
        if isinstance(module, torch.nn.Linear):
            hook = self._linear
        elif isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
            hook = self._convolution
        elif type(module).__name__ == "Conv1D" and weight.ndim == 2:  # of transformers: [in, out]
            hook = self._transposed
        else:
            return None
        self.expected.add(self.names[id(weight)])
        return hook

    def _guarded(self, name: str, hook: Callable[..., None]) -> Callable[..., None]:
        def run(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
            inputs = args[0] if args else next(iter(kwargs.values()), None)
            if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
                return
            if not bool(torch.isfinite(inputs).all()):
                raise GbzError(
                    f"the inputs of {name or 'the model'} are not finite; leave such samples out, or repair "
                    "the model",
                    "non_finite",
                )
            with torch.no_grad(), torch.autocast(inputs.device.type, enabled=False):
                hook(module, inputs.detach(), args, kwargs)

        return run

    def add(self, name: str, rows: torch.Tensor, transposed: bool = False) -> None:
        """Rows of inputs, [count, in] or [groups, count, in]."""
        if rows.shape[-1] > _WIDEST:
            return
        count = rows.shape[-2]
        rows = rows[..., :: max(1, count // _ROWS), :].float()
        sums = self.sums.setdefault(name, Sums(transposed=transposed))
        moment, mean = rows.mT @ rows, rows.sum(-2)
        if self._differs(name, sums, moment, transposed):
            return
        sums.moment = moment if sums.moment is None else sums.moment + moment
        sums.mean = mean if sums.mean is None else sums.mean + mean
        sums.rows += rows.shape[-2]

    def _differs(self, name: str, sums: Sums, moment: torch.Tensor, transposed: bool) -> bool:
        """Whether modules that share a weight see it as different matrices, which no moment describes."""
        if name in self.differing:
            return True
        if sums.moment is None or (sums.moment.shape == moment.shape and sums.transposed == transposed):
            return False
        warn(
            f"{name} is used by modules with different inputs ({list(sums.moment.shape)} and "
            f"{list(moment.shape)}); it is rounded without a moment",
            UserWarning,
        )
        self.differing.add(name)
        sums.moment = sums.mean = None
        return True

    def _linear(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        if inputs.shape[-1] != module.weight.shape[1]:
            return  # the module itself refuses them
        self.add(self.names[id(module.weight)], inputs.reshape(-1, inputs.shape[-1]))

    def _transposed(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        if inputs.shape[-1] != module.weight.shape[0]:
            return
        self.add(self.names[id(module.weight)], inputs.reshape(-1, inputs.shape[-1]), True)

    def _attention(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        given = (*args, *(kwargs[name] for name in ("query", "key", "value") if name in kwargs))
        if len(given) < 3 or not (given[0] is given[1] is given[2]):
            return  # three inputs of one matrix
        self.add(self.names[id(module.in_proj_weight)], inputs.reshape(-1, inputs.shape[-1]))

    def _convolution(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        rows = convolution_rows(module, inputs)
        self.add(self.names[id(module.weight)], rows[0] if module.groups == 1 else rows)

    def _recurrent(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        for first, second, rows in joint_inputs(module, inputs, args, kwargs):
            pair = f"{self.names[id(first)]}|{self.names[id(second)]}"
            self.add(pair, rows)


def convolution_rows(module: Any, inputs: torch.Tensor) -> torch.Tensor:
    """The values that each output position of a convolution sees, [groups, positions, in]."""
    dims = len(module.kernel_size)
    if inputs.ndim == dims + 1:
        inputs = inputs.unsqueeze(0)
    if isinstance(module.padding, str) or module.padding_mode != "zeros":
        pads = module._reversed_padding_repeated_twice
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        inputs = functional.pad(inputs, pads, mode=mode)
    else:
        inputs = functional.pad(inputs, [pad for size in reversed(module.padding) for pad in (size, size)])
    for axis, (size, stride, dilation) in enumerate(
        zip(module.kernel_size, module.stride, module.dilation, strict=True), start=2
    ):
        inputs = inputs.unfold(axis, dilation * (size - 1) + 1, stride)[..., ::dilation]
    # [n, channels, positions..., kernel...] -> [groups, n * positions, channels of a group * kernel]
    n, channels = inputs.shape[:2]
    positions, kernel = inputs.shape[2 : 2 + dims], inputs.shape[2 + dims :]
    own = channels // module.groups
    every = max(1, n * int(np.prod(positions)) // _ROWS)
    flat = inputs.reshape(n, module.groups, own, int(np.prod(positions)), int(np.prod(kernel)))
    flat = flat.permute(1, 0, 3, 2, 4).reshape(module.groups, -1, own * int(np.prod(kernel)))
    return flat[:, ::every]
