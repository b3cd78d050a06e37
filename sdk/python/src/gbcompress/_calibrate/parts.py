"""Batches in parts, so that scores of many classes take bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .._memory import ran_out

#: Scores of classes that are alive at a time: batches are run in parts of as many, or of one sample.
SCORES = 1 << 26

Batch = Any  # a tensor, a tuple of arguments, or a dict of keyword arguments


def tensors_in(batch: Batch) -> list[torch.Tensor]:
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple | list) else [batch]
    return [value for value in values if isinstance(value, torch.Tensor)]


def some_samples(batch: Batch, first: int, count: int) -> Batch:
    """Some samples of a batch, whose tensors all begin with that dimension."""
    def some(value: Any) -> Any:
        return value[first : first + count] if isinstance(value, torch.Tensor) else value

    if isinstance(batch, Mapping):
        return {name: some(value) for name, value in batch.items()}
    return type(batch)(map(some, batch)) if isinstance(batch, tuple | list) else some(batch)


class Parts:
    """Takes batches apart whose ``outputs.logits`` are more than SCORES numbers. Other outputs, and batches whose
    tensors do not all begin with one dimension of samples, stay whole.

    Args:
        run: the model's outputs for a batch, without gradients. It is called with the first sample of the first batch
            that may have so many scores.
        widest: classes, at most.
    """

    def __init__(self, run: Callable[[Batch], Any], batches: Sequence[Batch], widest: int) -> None:
        self._run = run
        many = (b for b in batches if self._samples(b) > 1 and tensors_in(b)[0].numel() * widest > SCORES)
        first = next(many, None)
        #: Of a sample, for each element of its first tensor.
        self._scores = 0.0 if first is None else self._of_sample(some_samples(first, 0, 1))

    @staticmethod
    def _samples(batch: Batch) -> int:
        """That can be taken apart."""
        tensors = tensors_in(batch)
        count = len(tensors[0]) if tensors and tensors[0].ndim else 1
        return 1 if any(tensor.ndim == 0 or len(tensor) != count for tensor in tensors) else count

    def of(self, batch: Batch) -> list[Batch]:
        """The parts of a batch, in order."""
        count = self._samples(batch)
        if count < 2 or self._scores == 0:
            return [batch]
        sample = self._scores * tensors_in(batch)[0][0].numel()
        size = int(SCORES // sample) if sample > 0 else count
        if size >= count:
            return [batch]
        return [some_samples(batch, first, max(1, size)) for first in range(0, count, max(1, size))]

    def _of_sample(self, sample: Batch) -> float:
        try:
            logits = getattr(self._run(sample), "logits", None)
        except Exception as error:
            if ran_out(error):
                raise
            return 0.0  # the model takes whole batches alone, or none of this kind
        if not isinstance(logits, torch.Tensor) or logits.ndim < 2 or len(logits) != 1:
            return 0.0
        return logits.numel() / max(1, tensors_in(sample)[0].numel())
