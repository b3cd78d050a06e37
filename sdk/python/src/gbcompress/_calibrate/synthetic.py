"""Inputs for calibration made from a network's batch norms, where there are none of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._arguments import whole
from .._errors import usage
from .collect import called, checked_model, evaluating

_Norm = torch.nn.modules.batchnorm._BatchNorm
#: Step size of Adam, for inputs of variance 1.
_SPEED = 0.1
#: Length of a side that convolutions see where none is given, by their dimensions.
_SIDES = {1: (4096,), 2: (128, 128), 3: (32, 32, 32)}
#: Inputs at a time, as each takes the memory of a backward pass.
_MOST = 64


def _norms(model: torch.nn.Module) -> list[_Norm]:
    return [
        module
        for module in model.modules()
        if isinstance(module, _Norm) and module.running_mean is not None
    ]


def _check(model: torch.nn.Module) -> list[_Norm]:
    """Raises UsageError for a network whose norms say nothing about its inputs."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.RNNBase | torch.nn.RNNCellBase):
            raise usage(
                f"{name or 'the model'} is recurrent ({type(module).__name__}), and inputs that are made up "
                "do it harm; calibrate with real inputs, or compress without data"
            )
    norms = _norms(model)
    if not norms:
        raise usage(
            "the model has no batch norm with running statistics, which the inputs would be fitted to; "
            "calibrate with real inputs, or compress without data"
        )
    return norms


def _shape_of(model: torch.nn.Module, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Of one input. Raises UsageError where it is neither given nor follows from the first layer."""
    if shape is not None:
        if isinstance(shape, str | int):
            raise usage(f"shape must be that of one input, such as (3, 224, 224), got {shape!r}")
        return tuple(whole(side, "shape", 1) for side in shape)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
            return (module.in_channels, *_SIDES[len(module.kernel_size)])
        if isinstance(module, torch.nn.Linear):
            return (module.in_features,)
    raise usage("the shape of an input does not follow from the model; give it: shape=(3, 224, 224)")


def pink_noise(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Noise of the spectrum 1/f along all dimensions behind the first two, of variance 1."""
    noise = torch.randn(shape, generator=generator)
    if len(shape) < 3:
        return noise
    dims = tuple(range(2, len(shape)))
    squares = torch.zeros(shape[2:])
    for at, d in enumerate(dims):
        line = [1] * len(dims)
        line[at] = shape[d]
        squares = squares + torch.fft.fftfreq(shape[d]).view(line).square()
    spectrum = torch.fft.fftn(noise, dim=dims) * (squares + (1 / shape[-1]) ** 2).rsqrt()
    values: torch.Tensor = torch.fft.ifftn(spectrum, dim=dims).real
    return values / values.std()


class _Distance:
    """How far the inputs of all norms are from their running statistics, added up during a pass."""

    def __init__(self, norms: list[_Norm]) -> None:
        self.total: torch.Tensor | None = None
        self._handles = [norm.register_forward_pre_hook(self._add) for norm in norms]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _add(self, module: Any, args: Any) -> None:
        values = args[0].float()
        values = values.transpose(0, 1).flatten(1)
        mean, deviation = values.mean(1), values.var(1, correction=0).clamp_min(1e-8).sqrt()
        own_mean, own_variance = module.running_mean.float(), module.running_var.float()
        of_mean = ((mean - own_mean).square() / (own_variance + 1e-5)).mean()
        of_deviation = (deviation / (own_variance + 1e-8).sqrt() - 1).square().mean()
        self.total = of_mean + of_deviation + (0 if self.total is None else self.total)


def synthetic_batches(
    model: torch.nn.Module,
    count: int = 12,
    *,
    shape: Sequence[int] | None = None,
    steps: int = 100,
    seed: int = 0,
) -> list[torch.Tensor]:
    """Inputs whose activations have the means and variances that the model's batch norms hold, for
    calibrate() where there are no inputs at all.

    They begin as 1/f noise and are fitted by Adam. They serve to move norms and to see inputs of
    convolutional networks; they resemble no data.

    Args:
        model: a network with batch norms that were trained, which takes one tensor; on any device.
        count: of inputs, in one batch each; 8 to 16 suffice.
        shape: of one input, without the dimension of the batch; unset: that of the first layer, with
            sides of 128 for images.
        steps: of gradient descent; each is a forward and a backward pass.
        seed: of the noise.

    Returns:
        ``count`` batches of one input each, ``[1, *shape]``, float32, on the CPU.

    Raises:
        UsageError: a recurrent network; one without batch norms; a shape that does not fit it.
    """
    model = checked_model(model)
    norms = _check(model)
    number, rounds = whole(count, "count", 2), whole(steps, "steps", 1)
    if number > _MOST:
        raise usage(f"count must be at most {_MOST}, got {count}; 8 to 16 suffice")
    generator = torch.Generator().manual_seed(whole(seed, "seed", 0))
    start = pink_noise((number, *_shape_of(model, shape)), generator)
    parameters = [(p, p.requires_grad) for p in model.parameters()]
    inputs = start.to(parameters[0][0].device).requires_grad_()
    optimizer = torch.optim.Adam([inputs], lr=_SPEED)
    distance = _Distance(norms)
    try:
        for parameter, _ in parameters:
            parameter.requires_grad_(False)
        with evaluating(model), torch.enable_grad():
            for _ in range(rounds):
                distance.total = None
                optimizer.zero_grad()
                called(model, inputs, 0)
                if distance.total is None or not distance.total.requires_grad:
                    raise usage(
                        "the model's batch norms do not see its input, so nothing can be fitted to them; "
                        "calibrate with real inputs"
                    )
                distance.total.backward()
                optimizer.step()
    finally:
        distance.close()
        for parameter, wanted in parameters:
            parameter.requires_grad_(wanted)
    return list(torch.split(inputs.detach().cpu(), 1))
