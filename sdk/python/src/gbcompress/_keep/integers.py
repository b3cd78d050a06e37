"""Weights that stay in memory as integers of a fixed width and steps, and products with them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from .. import _core
from .store import Store, Unit
from .tensor import KeptTensor, Source, computed

#: Elements that are converted at a time.
_CONVERTED = 1 << 18
_READ = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
_REAL = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


class IntegerSource(Source):
    """Values from integers in memory; those of the file, but for products of few tokens, whose weights are not rounded to
    the file's element type."""

    def __init__(self, store: Store, name: str, matrix: _core.FixedWidthMatrix) -> None:
        super().__init__(store, name)
        self.matrix = matrix
        self._parts = matrix.rows // self.shape[0]  # rows of the matrix for one of the tensor: of stacks of matrices
        self._own = _REAL[store.tensors[self.index]["dtype"]]

    def values(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        with torch.inference_mode(False):
            out = torch.empty(self.shape, dtype=dtype)
        self._fill(range(self.shape[0]), out)
        return out.to(device)

    def rows(self, rows: list[int], dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty(len(rows), self._parts * self.matrix.cols, dtype=dtype)
        self._fill(rows, out)
        return out

    def _fill(self, rows: Sequence[int], out: torch.Tensor) -> None:
        """Rows of the tensor in the order of their indices, rounded to the file's element type first."""
        rows = [row * self._parts + part for row in rows for part in range(self._parts)] if self._parts > 1 else rows
        flat = out.detach().reshape(len(rows), self.matrix.cols)
        if out.dtype in _READ and self._own in (out.dtype, torch.float32):
            self._read(rows, flat)
            return
        step = max(1, _CONVERTED // self.matrix.cols)
        for first in range(0, len(rows), step):
            wanted = rows[first : first + step]
            made = torch.empty(len(wanted), self.matrix.cols, dtype=self._own if self._own in _READ else torch.float32)
            self._read(wanted, made)
            flat[first : first + len(wanted)].copy_(made)

    def _read(self, rows: Sequence[int], out: torch.Tensor) -> None:
        wanted = torch.tensor(rows, dtype=torch.int64).numpy()
        self.matrix.read(wanted, _READ[out.dtype], out.reshape(-1).view(torch.uint8).numpy())

    @contextlib.contextmanager
    def weight(self, unit: Unit, backward: bool = False, ahead: bool = True) -> Iterator[torch.Tensor]:
        shape = (unit.rows, *self.shape[1:])
        size = math.prod(shape) * unit.dtype.itemsize
        buffer = self.store.buffers.take(size)
        try:
            values = buffer[:size].view(unit.dtype).view(shape)
            self._fill(range(unit.first, unit.first + unit.rows), values)
            yield values
        finally:
            self.store.buffers.give(buffer)

    def linear(self, weight: KeptTensor, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        kind = computed(weight)
        if self._parts > 1 or not self._takes(weight, x):
            return super().linear(weight, x, bias)
        if torch.is_grad_enabled() and x.requires_grad:
            made: torch.Tensor = _Product.apply(x, self)  # type: ignore[no-untyped-call]
        else:
            made = self.product(x)
        return (made if bias is None else made + bias).to(kind)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """``x [..., in] @ W.T`` in float32."""
        given = x.detach().to(torch.float32).reshape(-1).contiguous()
        out = torch.empty(*x.shape[:-1], self.matrix.rows)
        self.matrix.multiply(given.numpy(), out.reshape(-1).numpy())
        return out

    def by_inputs(self, gradient: torch.Tensor) -> torch.Tensor:
        """``gradient [..., out] @ W`` in float32."""
        parts = []
        for unit in self.store.units(self.index, torch.float32):
            with self.weight(unit) as decoded:
                parts.append(F.linear(gradient[..., unit.first : unit.first + unit.rows].float(), decoded.T))
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


class _Product(torch.autograd.Function):
    """Differentiable by the inputs."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, source: IntegerSource) -> torch.Tensor:
        context.source, context.dtype = source, x.dtype
        return source.product(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return context.source.by_inputs(gradient).to(context.dtype), None
