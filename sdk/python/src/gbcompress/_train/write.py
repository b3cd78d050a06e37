"""From a model in training to its file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from .. import _core
from .._files.arrays import memory_of, torch_bytes, torch_dtype_name
from .latents import Latents

#: Bits behind the leading one that running statistics keep.
STATISTIC_BITS = 8


@dataclass(frozen=True)
class TensorReport:
    """How a file stores one tensor of a model in training."""

    name: str
    shape: tuple[int, ...]
    stored: str  #: "integers", "short floats", "exact", "levels", "constant", "tied"
    step: float | None  #: step size of integers; the median of rows with steps of their own
    zeros: float | None  #: share of integers that are 0
    bits: float  #: of the file, per element

    @property
    def elements(self) -> int:
        """1 for a scalar."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
        """Its share of the file, without the header."""
        return self.bits * self.elements / 8


_COLUMNS = ("tensor", "shape", "stored as", "step", "zeros", "bits/weight", "bytes")
#: Tables stay within 100 columns: longer names lose their middle.
_LONGEST_NAME, _LONGEST_SHAPE = 28, 14


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = (most - 3) // 2
    return f"{text[:head]}...{text[head + 3 - most :]}"


class Report(list[TensorReport]):
    """All tensors of a model in the file's order; its text is a table."""

    def __init__(self, tensors: Iterable[TensorReport], file_bytes: int, input_bytes: int) -> None:
        super().__init__(tensors)
        self.file_bytes = file_bytes  #: of the file, without metadata
        self.input_bytes = input_bytes  #: of the same tensors as a safetensors file

    def _row(self, tensor: TensorReport) -> tuple[str, ...]:
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        return (
            _shortened(tensor.name, _LONGEST_NAME),
            _shortened(shape, _LONGEST_SHAPE),
            tensor.stored,
            "" if tensor.step is None else f"{tensor.step:.3g}",
            "" if tensor.zeros is None else f"{tensor.zeros:.1%}",
            f"{tensor.bits:.3f}",
            f"{tensor.bytes:.0f}",
        )

    def __str__(self) -> str:
        rows = [_COLUMNS, *map(self._row, self)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = []
        for row in rows:
            # Words to the left, figures to the right.
            cells = [
                cell.ljust(width) if i < 3 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        lines.insert(1, "-" * sum(widths, 2 * (len(widths) - 1)))
        ratio = self.input_bytes / max(self.file_bytes, 1)
        lines.append(
            f"file: {self.file_bytes} bytes with its header, {ratio:.1f}x smaller than safetensors "
            f"({self.input_bytes} bytes)"
        )
        return "\n".join(lines)

    __repr__ = __str__


def tensors_of(model: nn.Module) -> list[tuple[str, Tensor, str | None, bool]]:
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
    """Its values as short floats; None where they cannot be such."""
    numbers = tensor.detach().float().cpu().numpy()
    largest = float(np.abs(numbers).max())
    if not 2.0**-120 <= largest < 2.0**127 or bool((tensor == tensor[0]).all()):
        return None
    rounded = _core.short_floats(tuple(tensor.shape), numbers, STATISTIC_BITS)
    return torch.from_numpy(rounded).reshape(tensor.shape).to(tensor.dtype)


def round_statistics(model: nn.Module) -> None:
    """Rounds running statistics to the values that the file holds."""
    with torch.no_grad():
        for _, tensor, tied, buffer in tensors_of(model):
            if tied is None and _is_statistic(tensor, buffer):
                if (rounded := _as_short_floats(tensor)) is not None:
                    tensor.copy_(rounded)


def _settings(metadata: Mapping[str, str] | None) -> str:
    if not metadata:
        return ""
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
    rows = []
    for name, tensor, tied, buffer in tensors_of(model):
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
        rows.append((name, shape, stored, step, zeros))
    return rows


def writer_of(
    model: nn.Module, parts: Sequence[Latents], metadata: Mapping[str, str] | None = None
) -> _core.Writer:
    """The file of a model in its present state."""
    writer = _core.Writer(_settings(metadata))
    with torch.no_grad():
        _fill(writer, model, parts)
    return writer


def original_size(model: nn.Module) -> tuple[int, int]:
    """Bytes of a safetensors file of ``model.state_dict()``, and its elements; tied tensors count once."""
    memory: dict[object, int] = {}
    tensors = []
    for name, tensor, _, _ in tensors_of(model):
        shared = memory_of(tensor) if tensor.numel() else name
        place = memory.setdefault(shared, len(memory) + 1)
        tensors.append((name, torch_dtype_name(name, tensor), tuple(tensor.shape), place))
    return _core.original_size(tensors)


def input_bytes(model: nn.Module) -> int:
    """Size of a safetensors file of ``model.state_dict()`` with tied tensors once."""
    return original_size(model)[0]


def report_of(model: nn.Module, parts: Sequence[Latents]) -> Report:
    """How the file of the present state stores each tensor."""
    writer = _core.Writer("")
    with torch.no_grad():
        rows = _fill(writer, model, parts)
    result = []
    for (name, shape, stored, step, zeros), bits in zip(rows, writer.tensor_bits(), strict=True):
        elements = max(math.prod(shape), 1)
        result.append(TensorReport(name, shape, stored, step, zeros, bits / elements))
    return Report(result, writer.size(), input_bytes(model))
