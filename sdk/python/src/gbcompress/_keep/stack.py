"""Stacks of matrices that are kept, such as the weights of experts: a matrix is decoded when it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from .store import Unit
from .tensor import FUNCTIONS, KeptTensor, Source


class Member(Source):
    """One tensor [...] of a stack [n, ...], which is a tensor of the file or a member of one. A member of a member is
    decoded with the latter."""

    def __init__(self, stack: Source, place: int) -> None:
        self.store, self.index, self.name = stack.store, stack.index, f"{stack.name}[{place}]"
        self.shape, self._stack, self._place = stack.shape[1:], stack, place

    @property
    def key(self) -> tuple[int, ...]:
        return *self._stack.key, self._place

    def whole(self, dtype: torch.dtype) -> Unit:
        return self._stack.whole(dtype) if isinstance(self._stack, Member) else Unit(self.index, self._place, 1, dtype)

    def values(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        with self.weight(self.whole(dtype)) as decoded:
            return decoded.to(device, copy=True)

    def rows(self, rows: list[int], dtype: torch.dtype) -> torch.Tensor:
        return self.values(dtype, torch.device("cpu"))[rows]

    @contextlib.contextmanager
    def weight(self, unit: Unit, backward: bool = False, ahead: bool = True) -> Iterator[torch.Tensor]:
        with self._stack.weight(unit, backward, ahead) as decoded:
            yield decoded[self._place if isinstance(self._stack, Member) else 0]

    def linear(self, weight: KeptTensor, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return self.use(weight, lambda decoded: F.linear(x, decoded, bias))


class Joined(Source):
    """What a loader makes of several tensors of the file: ``torch.stack(parts)``, or ``torch.cat(parts, dim)``."""

    def __init__(self, parts: list[Source], dim: int | None) -> None:
        self.parts, self.dim = parts, dim
        self.store, self.index, self.name = parts[0].store, parts[0].index, parts[0].name
        self.shape = self._join([torch.empty(part.shape, device="meta") for part in parts]).shape

    def _join(self, values: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(values) if self.dim is None else torch.cat(values, self.dim)

    @property
    def key(self) -> tuple[int, ...]:
        return (id(self),)

    def member(self, place: int) -> Source:
        """``self[place]``, of a stack or of stacks that are joined along another dimension."""
        if self.dim is None:
            return self.parts[place]
        return Joined([member(part, place) for part in self.parts], self.dim - 1)

    def values(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return self._join([part.values(dtype, device) for part in self.parts])

    def rows(self, rows: list[int], dtype: torch.dtype) -> torch.Tensor:
        return self.values(dtype, torch.device("cpu"))[rows]

    def use(self, weight: KeptTensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return function(self.values(weight.dtype, weight.device))

    def linear(self, weight: KeptTensor, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        if self.dim != 0:
            return self.use(weight, lambda decoded: F.linear(x, decoded, bias))
        biases = [None] * len(self.parts) if bias is None else torch.split(bias, [part.shape[0] for part in self.parts])
        kept = [KeptTensor(part, weight.dtype, weight.device) for part in self.parts]
        return torch.cat([F.linear(x, *each) for each in zip(kept, biases, strict=True)], -1)


def member(source: Source, place: int) -> Source:
    return source.member(place) if isinstance(source, Joined) else Member(source, place)


def _get_item(function: Any, args: Any, kwargs: Any) -> Any:
    """A matrix of a stack stays compressed; other parts are decoded copies."""
    kept, place = args
    scalar = isinstance(place, torch.Tensor) and place.dim() == 0 and not (place.is_floating_point() or place.dtype == torch.bool)
    if not isinstance(kept, KeptTensor) or kept.dim() < 3 or kept.is_meta or not (type(place) is int or scalar):
        return NotImplemented
    source, at = kept._source, int(place)
    if isinstance(source, Joined) and source.dim == 0 or not -kept.shape[0] <= at < kept.shape[0]:
        return NotImplemented
    return KeptTensor(member(source, at % kept.shape[0]), kept.dtype, kept.device)


def _joined(function: Any, args: Any, kwargs: Any) -> Any:
    """While a file is loaded: what becomes a parameter stays compressed."""
    given = {**dict(zip(("tensors", "dim"), args, strict=False)), **kwargs}
    parts, dim = list(given.pop("tensors")), given.pop("dim", 0)
    if given or not all(isinstance(part, KeptTensor) and part._source.store.loading for part in parts):
        return NotImplemented
    stacked, first = function is torch.stack, parts[0]
    same = all((part.dtype, part.device) == (first.dtype, first.device) for part in parts)
    if not same or not 0 <= dim < first.dim() or (stacked and dim != 0):
        return NotImplemented
    return KeptTensor(Joined([part._source for part in parts], None if stacked else dim), first.dtype, first.device)


FUNCTIONS.update({torch.Tensor.__getitem__: _get_item, torch.stack: _joined, torch.cat: _joined})
