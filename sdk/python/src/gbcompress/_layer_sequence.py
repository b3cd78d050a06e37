"""A PyTorch model whose layers are quantized one after another, for the core's Calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ._collect import Batch, call, evaluating
from ._moments import Collector

#: Samples that are used, at least and at most, and rows of inputs of a matrix that are kept of all of them.
_FEWEST, _MOST, _ROWS = 64, 4096, 1 << 14
#: Multiply-adds of a walk through all groups, each of which takes a forward pass.
_WALK = 2e11
#: Matrices with wider inputs are rounded by their statistics alone.
_WIDEST = 4096
#: Bytes of the original model's inputs that are kept, unless those of one group need more.
_KEPT = 256 << 20

Sink = Callable[[str, torch.Tensor], None]


class _Enough(Exception):
    """Ends a forward pass whose further layers are not needed."""


class _Inputs(Collector):
    """Hands rows of inputs on instead of adding them up."""

    def __init__(self, model: torch.nn.Module, sink: Sink) -> None:
        self._sink = sink
        super().__init__(model)

    def add(self, name: str, rows: torch.Tensor, transposed: bool = False) -> None:
        if not transposed and rows.ndim == 2 and "|" not in name and rows.shape[-1] <= _WIDEST:
            self._sink(name, rows)

    def add_moment(
        self, name: str, moment: torch.Tensor, mean: torch.Tensor, count: int, transposed: bool = False
    ) -> None:
        pass


def _samples(batch: Batch) -> int:
    """The first dimension of the first tensor."""
    values: Iterable[Any] = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else [batch]
    return max(1, next((len(v) for v in values if isinstance(v, torch.Tensor) and v.ndim), 1))


def _first_of(batches: list[Batch], work: float) -> list[Batch]:
    """As many as there is time for, where a walk takes ``work`` multiply-adds for each sample."""
    most = min(max(_WALK / max(work, 1.0), _FEWEST), _MOST)
    taken: list[Batch] = []
    count = 0
    for batch in batches:
        if taken and count + _samples(batch) > most:
            break
        taken.append(batch)
        count += _samples(batch)
    return taken


class LayerSequence:
    """What gbcompress::SequentialModel asks.

    Args:
        batches: the first ones of them are used.
        restore: gives the model its original values.
    """

    def __init__(self, model: torch.nn.Module, batches: list[Batch], restore: Callable[[], None]) -> None:
        self.model, self.restore = model, restore
        self._tensors = model.state_dict()  # which share the model's memory
        self._groups: list[list[str]] = []
        self._uses: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._before: dict[str, list[list[torch.Tensor]]] = {}
        self._put: dict[str, torch.Tensor] = {}
        self.restore()
        work = self._find_groups(batches[0]) / _samples(batches[0])
        self.batches = _first_of(batches, work * len(self._groups))
        self._most = max(1, _ROWS // len(self.batches))

    def _run(self, batch: Batch, sink: Sink) -> None:
        collector = _Inputs(self.model, sink)
        try:
            with evaluating(self.model), torch.no_grad():
                call(self.model, batch)
        except _Enough:
            pass
        finally:
            collector.close()

    def _find_groups(self, batch: Batch) -> float:
        """One forward pass tells which matrices are seen, and in what order. Returns its multiply-adds."""
        last: torch.Tensor | None = None  # kept, so that no other tensor takes its memory
        work = 0.0

        def see(name: str, rows: torch.Tensor) -> None:
            nonlocal last, work
            work += len(rows) * self._tensors[name].numel()
            self._uses[name] = self._uses.get(name, 0) + 1
            self._bytes[name] = self._bytes.get(name, 0) + 4 * _ROWS * rows.shape[1]
            if self._uses[name] > 1:
                return
            if last is None or last.data_ptr() != rows.data_ptr() or last.shape != rows.shape:
                self._groups.append([])
            self._groups[-1].append(name)
            last = rows

        self._run(batch, see)
        return work

    def _rows(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[:: max(1, len(rows) // self._most)].float()

    def groups(self) -> list[list[str]]:
        return self._groups

    def begin(self) -> None:
        self._put = {}
        self.restore()

    def put(self, name: str, content: bytes) -> None:
        tensor = self._tensors[name]
        self._put[name] = torch.from_numpy(np.frombuffer(content, np.float32).copy()).reshape(tensor.shape)
        with torch.no_grad():
            tensor.copy_(self._put[name])

    def _keep(self, first: str) -> None:
        """Instead of others keeps the original inputs of this group and of as many after it as there is room for."""
        names = [group[0] for group in self._groups]
        self._before, used = {}, 0
        for name in names[names.index(first) :]:
            used += self._bytes[name]
            if used > _KEPT and self._before:
                break
            self._before[name] = []
        self.restore()
        for batch in self.batches:
            for kept in self._before.values():
                kept.append([])
            self._run(batch, self._take)
        with torch.no_grad():
            for name, values in self._put.items():
                self._tensors[name].copy_(values)

    def _take(self, name: str, rows: torch.Tensor) -> None:
        if name in self._before:
            self._before[name][-1].append(self._rows(rows).clone())

    def inputs(self, name: str) -> tuple[NDArray[np.float32], ...]:
        """Moment, cross moment and means, as gbcompress::SequentialInputs has them."""
        if name not in self._before:
            self._keep(name)
        sums: list[torch.Tensor] = []
        count = 0
        for number, batch in enumerate(self.batches):
            found: list[torch.Tensor] = []

            def see(seen: str, rows: torch.Tensor, found: list[torch.Tensor] = found) -> None:
                if seen != name:
                    return
                found.append(self._rows(rows))
                if len(found) == self._uses[name]:
                    raise _Enough

            self._run(batch, see)
            for now, before in zip(found, self._before[name][number], strict=False):
                each = [now.mT @ now, (before - now).mT @ now, now.sum(0), before.sum(0)]
                each = [part.double() for part in each]
                sums = [a + b for a, b in zip(sums, each, strict=True)] if sums else each
                count += len(now)
        return tuple((part / max(1, count)).float().cpu().flatten().numpy() for part in sums)
