"""Tensors of files that a model holds within larger ones: Transformers stacks the matrices of experts when it opens a
folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._files.arrays import NamedArray, to_torch, torch_bytes


@dataclass(frozen=True)
class Part:
    """Some rows of one matrix in a stack [count, rows, ...]."""

    stack: str  #: its name in the model
    shape: tuple[int, ...]  #: of the stack
    number: int  #: of the matrix
    rows: slice  #: of the matrix
    view: torch.Tensor  #: of the stack's memory

    def importance(self, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Of its rows, float32 [rows].

        Args:
            given: of all rows of the stack, or of its matrices, whose rows count alike then.
        """
        count, rows = self.shape[:2]
        each = given.reshape(count, -1)
        if each.shape[1] != rows:
            each = np.repeat(each[:, :1] / rows, rows, axis=1)
        return np.ascontiguousarray(each[self.number, self.rows])


def _key(rows: int, row: torch.Tensor) -> tuple[object, ...]:
    return rows, tuple(row.shape), torch_bytes("", row).tobytes()


def parts_of_stacks(state: Mapping[str, torch.Tensor], entries: list[NamedArray]) -> dict[str, Part]:
    """Where the model holds tensors that it does not name, by their names in the file. Found by values, which need no
    table of architectures.

    Args:
        state: of the model, with the values of the file.
        entries: of the file.
    """
    own = {name for name, _, _, _ in entries}
    stacks = {name: value.detach() for name, value in state.items() if name not in own and value.ndim > 2}
    rest = [entry for entry in entries if entry[0] not in state and len(entry[2]) > 1 and 0 not in entry[2]]
    sides = {entry[2] for entry in rest}
    places: dict[tuple[object, ...], Part] = {}
    for name, stack in stacks.items():
        for rows in {shape[0] for shape in sides if shape[1:] == stack.shape[2:] and stack.shape[1] % shape[0] == 0}:
            for number in range(len(stack)):
                for first in range(0, stack.shape[1], rows):
                    some = slice(first, first + rows)
                    part = Part(name, tuple(stack.shape), number, some, stack[number, some])
                    places[_key(rows, part.view[0])] = part
    found: dict[str, Part] = {}
    for name, dtype, shape, data in rest if places else ():
        value = to_torch(name, dtype, shape, data.copy())  # files are read-only memory
        for kind in {stack.dtype for stack in stacks.values()}:
            place = places.get(_key(shape[0], value[0].to(kind)))
            if place is not None and torch.equal(place.view, value.to(kind)):
                found[name] = place
    return found
