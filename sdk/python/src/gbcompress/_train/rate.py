"""The rate of elements that become integers (docs/explanation/rate.md, "Trained quantities").

One pass over a tensor computes bits and all gradients: with the core's kernel on the CPU, with
operations of torch and the same formulas elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import _core

#: Step sizes are 2^(k / 16) for k from -MOST_STEP to MOST_STEP.
MOST_STEP = 1024
_STEPS_PER_OCTAVE = 16
_LOG2_E = 1.44269504
_WORD = 0xFFFFFFFF

_tables: dict[torch.device, Tensor] = {}


def step_indices(log_steps: Tensor) -> Tensor:
    """Indices k of the steps nearest to exp(log_steps), int64 of its shape."""
    k = torch.round(log_steps.double() * (_STEPS_PER_OCTAVE / math.log(2)))
    return k.clamp(-MOST_STEP, MOST_STEP).long()


def step_sizes(indices: Tensor) -> Tensor:
    """The float32 steps 2^(k / 16), the same bits on every device."""
    table = _tables.get(indices.device)
    if table is None:
        sizes = [_core.step_size(k) for k in range(-MOST_STEP, MOST_STEP + 1)]
        table = torch.tensor(sizes, dtype=torch.float32, device=indices.device)
        _tables[indices.device] = table
    return table[indices + MOST_STEP]


def noise(count: int, key: int, device: torch.device) -> Tensor:
    """Uniform in [-1/2, 1/2) from a counter, float32 [count]: the kernel's own numbers."""
    x = torch.arange(count, dtype=torch.int64, device=device)
    x = (x * 0x9E3779B9 + key) & _WORD
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & _WORD
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & _WORD
    x = x ^ (x >> 16)
    return (x >> 8).float() * 2.0**-24 - 0.5


def _bits_and_slope(noisy: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Bits of elements in units of their step sizes, with k = 1 / scale, and their derivatives."""
    x = noisy.abs()
    kx, half_k = k * x, 0.5 * k
    e = torch.exp(-half_k)
    outer_slope = k * _LOG2_E
    outer_bits = kx * _LOG2_E - torch.log2(0.5 * (1 / e - e))
    grow = torch.exp(torch.minimum(kx, half_k))
    shrink = 1 / grow
    p = (1 - e * (0.5 * (grow + shrink))).clamp_min(1e-9)
    inner_slope = e * (0.5 * (grow - shrink)) * outer_slope / p
    inside = x < 0.5
    bits = torch.where(inside, -torch.log2(p), outer_bits)
    return bits, torch.copysign(torch.where(inside, inner_slope, outer_slope), noisy)


def rate_by_torch(
    latent: Tensor, steps: Tensor, inverse_scale: Tensor, weight: float, key: int, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """As rate(), in operations of torch: on any device."""
    rows = steps.numel()
    inverse = (1 / steps).unsqueeze(1)
    u = (latent.reshape(rows, -1) * inverse).reshape(-1)
    bits, slope = _bits_and_slope(u + noise(u.numel(), key, u.device), inverse_scale.reshape(-1))
    flat = gradient.reshape(-1)
    task = (flat * (u.round() - u)).reshape(rows, -1).sum(1, dtype=torch.float64)
    paid = (slope * u).reshape(rows, -1).sum(1, dtype=torch.float64)
    flat += (slope.reshape(rows, -1) * (weight / steps).unsqueeze(1)).reshape(-1)
    return bits.sum(dtype=torch.float64), task * steps - weight * paid


def array_of(tensor: Tensor) -> NDArray[Any]:
    """The memory of a contiguous CPU tensor as a flat array."""
    array: NDArray[Any] = tensor.detach().reshape(-1).numpy()
    return array


def rate(
    latent: Tensor, steps: Tensor, inverse_scale: Tensor, weight: float, key: int, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Bits of a tensor with noise under the expected scales, and gradients of loss plus rate.

    Args:
        latent: float32, contiguous.
        steps: float32, [1], or [rows] of equal parts of the latent.
        inverse_scale: float32, of the latent's shape: 1 / scale in units of the step.
        weight: loss per bit.
        key: of the noise.
        gradient: float32, contiguous, of the latent's shape. In: of the loss with respect to
            rounded values; out: of loss plus rate with respect to latents.

    Returns:
        Bits (a scalar), and the gradient of each step's logarithm, float64.
    """
    if latent.device.type != "cpu":
        return rate_by_torch(latent, steps, inverse_scale, weight, key, gradient)
    bits, slopes = _core.laplace_rate(
        array_of(latent),
        array_of(steps),
        array_of(inverse_scale),
        weight,
        key,
        array_of(gradient),
        torch.get_num_threads(),
    )
    return torch.tensor(bits, dtype=torch.float64), torch.tensor(slopes, dtype=torch.float64)


def round_to(latent: Tensor, steps: Tensor, rounded: Tensor) -> None:
    """rounded := round(latent / step) * step, halves to even; float32, contiguous."""
    if latent.device.type == "cpu":
        _core.round_to_step(
            array_of(latent), array_of(steps), array_of(rounded), torch.get_num_threads()
        )
        return
    rows = latent.reshape(steps.numel(), -1)
    size = steps.unsqueeze(1)
    rounded.copy_(((rows * (1 / size)).round() * size).reshape(latent.shape))


def integers_of(latent: Tensor, steps: Tensor) -> NDArray[np.int32]:
    """The nearest integers, flat, on the CPU."""
    rows = latent.reshape(steps.numel(), -1)
    scaled = (rows * (1 / steps).unsqueeze(1)).round().clamp_(-(2.0**30), 2.0**30)
    array: NDArray[np.int32] = scaled.reshape(-1).to(torch.int32).cpu().numpy()
    return array
