"""From a model in training to its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from . import _core
from ._arrays import torch_bytes, torch_dtype_name
from ._errors import usage
from ._latents import Latents

#: Bits behind the leading one that running statistics keep.
STATISTIC_BITS = 8


@dataclass(frozen=True)
class TensorReport:
    """How one tensor of a model in training stands."""

    name: str
    shape: tuple[int, ...]
    stored: str  #: "integers", "short floats", "exact", "constant", "tied"
    step: float | None  #: of integers; of rows with steps of their own, the one in their middle
    zeros: float | None  #: share of integers that are 0
    bits: float  #: of the file, for each number


def _tensors(model: nn.Module) -> list[tuple[str, Tensor, str | None, bool]]:
    """Parameters, then buffers, as state_dict() names them: name, tensor, what it is tied to,
    whether it is a buffer."""
    kept = {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, Tensor)}
    first: dict[int, str] = {}
    result = []
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name in [*(n for n in parameters if n in kept), *(n for n in kept if n not in parameters)]:
        tensor = kept[name]
        tied = first.get(id(tensor))
        first.setdefault(id(tensor), name)
        result.append((name, tensor, tied, name not in parameters))
    return result


def _is_statistic(tensor: Tensor, buffer: bool) -> bool:
    """Buffers of real numbers along one axis: means and variances."""
    return buffer and tensor.is_floating_point() and tensor.dim() == 1 and tensor.numel() > 1


def _as_short_floats(tensor: Tensor) -> Tensor | None:
    """What such a file holds of it; None where its numbers cannot be short floats."""
    numbers = tensor.detach().float().cpu().numpy()
    largest = float(np.abs(numbers).max())
    if not 2.0**-120 <= largest < 2.0**127 or bool((tensor == tensor[0]).all()):
        return None
    rounded = _core.short_floats(tuple(tensor.shape), numbers, STATISTIC_BITS)
    return torch.from_numpy(rounded).reshape(tensor.shape).to(tensor.dtype)


def round_statistics(model: nn.Module) -> None:
    """Running statistics to what the file holds of them."""
    with torch.no_grad():
        for _, tensor, tied, buffer in _tensors(model):
            if tied is None and _is_statistic(tensor, buffer):
                if (rounded := _as_short_floats(tensor)) is not None:
                    tensor.copy_(rounded)


def _settings(metadata: Mapping[str, str] | None) -> str:
    if not metadata:
        return ""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise usage(f"metadata maps text to text; {key!r} does not")
    text = {"version": _core.__version__, "metadata": dict(metadata)}
    return json.dumps(text, separators=(",", ":"), ensure_ascii=False)


def _add_exact(writer: _core.Writer, name: str, tensor: Tensor, buffer: bool) -> str:
    """Returns how it is stored."""
    dtype, shape = torch_dtype_name(name, tensor), tuple(tensor.shape)
    dense = tensor.detach().contiguous()
    if _is_statistic(dense, buffer) and _as_short_floats(dense) is not None:
        numbers = dense.float().cpu().numpy()
        if writer.add_short_floats(name, dtype, shape, numbers, STATISTIC_BITS):
            return "short floats"
    data = torch_bytes(name, dense)
    size = dense.element_size()
    if buffer and data.size and bool((data.reshape(-1, size) == data[:size]).all()):
        writer.add_constant(name, dtype, shape, data[:size].copy())
        return "constant"
    writer.add_plain(name, dtype, shape, data)
    return "exact"


def _fill(
    writer: _core.Writer, model: nn.Module, parts: Sequence[Latents]
) -> list[tuple[str, tuple[int, ...], str, float | None, float | None]]:
    """All tensors into the writer. Returns name, shape, how it is stored, step, share of zeros."""
    places = {
        id(entry.parameter): (part, i) for part in parts for i, entry in enumerate(part.entries)
    }
    told = []
    for name, tensor, tied, buffer in _tensors(model):
        shape = tuple(int(n) for n in tensor.shape)
        step = zeros = None
        if tied is not None:
            writer.add_tied(name, tied)
            stored = "tied"
        elif (place := places.get(id(tensor))) is not None:
            part, i = place
            indices = part.indices_of(i)
            integers = part.integers(i)
            middle = sorted(indices)[len(indices) // 2]
            offsets = [k - middle for k in indices] if min(indices) != max(indices) else []
            dtype = torch_dtype_name(name, tensor)
            writer.add_coded(name, dtype, shape, integers, middle, offsets)
            stored, step = "integers", _core.step_size(middle)
            zeros = float((integers == 0).mean())
        else:
            stored = _add_exact(writer, name, tensor, buffer)
        told.append((name, shape, stored, step, zeros))
    return told


def writer_of(
    model: nn.Module, parts: Sequence[Latents], metadata: Mapping[str, str] | None = None
) -> _core.Writer:
    """The file of a model as it stands."""
    writer = _core.Writer(_settings(metadata))
    with torch.no_grad():
        _fill(writer, model, parts)
    return writer


def report_of(model: nn.Module, parts: Sequence[Latents]) -> list[TensorReport]:
    """How each tensor stands."""
    writer = _core.Writer("")
    with torch.no_grad():
        told = _fill(writer, model, parts)
    result = []
    for (name, shape, stored, step, zeros), bits in zip(told, writer.tensor_bits(), strict=True):
        numbers = max(int(np.prod(shape)), 1)
        result.append(TensorReport(name, shape, stored, step, zeros, bits / numbers))
    return result
