"""The training of tests/unit/bottleneck/same_bits_test.cpp in Python: the same tensors, settings and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import gbcompress as gbc

SHAPES = {
    "fc.weight": (96, 120),
    "fc.bias": (96,),
    "conv.weight": (16, 24, 3, 3),
    "attn.in_proj_weight": (96, 32),
    "deep.weight": (64, 80),
    "low.weight": (64, 80),
    "xox.weight": (64, 80),
    "draw.weight": (64, 80),
    "pair.weight": (64, 64),
}
LAYERS: dict[str, dict[str, Any]] = {
    "deep.*": {"hidden": [20, 10], "row_code": "fourier:4", "col_code": "latent:2"},
    "low.*": {"generator": "low_rank", "rank": 4},
    "xox.*": {"generator": "xox", "rank": 4},
    "draw.*": {"generator": "stochastic"},
}


def values_of(shape: tuple[int, ...], key: int) -> torch.Tensor:
    """Values of -0.5 to 0.5, the same everywhere."""
    i = np.arange(int(np.prod(shape)), dtype=np.uint32) + np.uint32(1 + 7919 * key)
    hashed = (i * np.uint32(2654435761)) >> np.uint32(8)
    return torch.from_numpy(hashed.astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)).reshape(shape)


class Symmetric(nn.Module):
    """A module whose weight is its tiles plus their transpose."""


class Linear(nn.Module):
    """A module with that name; the shapes say the rest."""


class Conv2d(Linear):
    """Likewise."""


class MultiheadAttention(Linear):
    """Likewise."""


def _spec_of_symmetric(parameter: gbc.ParameterInfo, options: gbc.GNetOptions) -> gbc.GNetSpec | None:
    return gbc.make_spec(parameter, options) if parameter.local_name == "weight" else None


def _build_symmetric(spec: gbc.GNetSpec, tiles: torch.Tensor) -> torch.Tensor:
    rows, cols = (-(-side // tile) for side, tile in zip(spec.shape, (spec.tile_rows, spec.tile_cols), strict=True))
    half = tiles.reshape(rows, cols, spec.tile_rows, spec.tile_cols).transpose(1, 2)
    half = half.reshape(rows * spec.tile_rows, cols * spec.tile_cols)[: spec.shape[0], : spec.shape[1]]
    return half + half.t()


def model() -> nn.Module:
    kinds = {"conv": Conv2d, "attn": MultiheadAttention, "pair": Symmetric}
    result = nn.Module()
    for key, (name, shape) in enumerate(SHAPES.items()):
        path, local = name.split(".")
        if path not in dict(result.named_children()):
            result.add_module(path, kinds.get(path, Linear)())
        parameter = nn.Parameter(values_of(shape, key), requires_grad=local != "bias")
        result.get_submodule(path).register_parameter(local, parameter)
    return result


def bottleneck(net: nn.Module, kernel: str, num_batches: int = 0, **more: Any) -> gbc.GenomicBottleneck:
    gbc.register_gnet_type(Symmetric, _spec_of_symmetric, _build_symmetric)
    return gbc.GenomicBottleneck(
        net, num_batches, lr=3e-3, hidden=16, tile_weights=1000, layers=LAYERS, seed=7, kernel=kernel, **more
    )


#: Settings of the coded files of same_bits_test.cpp; the size is added.
CODED = {"num_batches": 12, "coding": "coded", "rate_weight": 0.5, "predictions": 2000}


def step(net: nn.Module, gnets: gbc.GenomicBottleneck, number: int) -> None:
    gnets.zero_grad()
    gnets.predict_weights()
    for key, (name, parameter) in enumerate(net.named_parameters()):
        if parameter.requires_grad:
            own = values_of(SHAPES[name], 100 * (number + 1) + key)
            parameter.grad = own * 2.0**-6 + parameter.detach() * 2.0**-4
    gnets.backward()
    gnets.step()
