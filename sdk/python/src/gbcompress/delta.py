"""Sparse patches between two versions of a model, in the layout that inference engines take.

    patch = gbc.delta.to_patch(before, after)       # {name: SparseWeightPatch(index, value)}
    gbc.delta.apply_(model, patch)

A patch of a tensor is the flat index, in checkpoint coordinates (row-major), and the new value of each element
whose bits changed: the layout of vLLM's ``SparseWeightPatch``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ._arguments import kind_of
from ._arrays import Array, is_module, is_torch, to_entries, to_numpy, to_torch
from ._errors import mismatch, usage

__all__ = ["SparseWeightPatch", "apply_", "to_patch"]

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class SparseWeightPatch(NamedTuple):
    """The changed elements of one tensor."""

    index: Any  #: int64 [changed], ascending, 0 to elements - 1
    value: Any  #: the tensor's element type [changed]


def to_patch(before: Mapping[str, Array], after: Mapping[str, Array]) -> dict[str, SparseWeightPatch]:
    """What changed between two versions of a model, bit for bit: -0 and 0 differ, NaNs compare by payload.

    Args:
        before: names and NumPy arrays or torch tensors.
        after: the same names, element types and shapes.

    Returns:
        A patch of every tensor that changed, of arrays or tensors as ``after`` has them (tensors on the
        CPU).

    Raises:
        ShapeMismatch: another name, element type or shape.
        UsageError: as save_file().
    """
    old, patches = {entry[0]: entry for entry in to_entries(before)}, {}
    new = to_entries(after)
    if missing := sorted(set(old) ^ {entry[0] for entry in new}):
        raise mismatch(f"only one of both models has the tensor {missing[0]}; pass two versions of one model")
    for name, dtype, shape, data in new:
        _, was_dtype, was_shape, was = old[name]
        if (was_dtype, was_shape) != (dtype, shape):
            raise mismatch(f"{name} is {dtype} {list(shape)}, and {was_dtype} {list(was_shape)} before")
        if data.size == 0:
            continue
        bits = _BITS[data.size // int(np.prod(shape, dtype=np.int64))]
        now = np.ascontiguousarray(data).view(bits)
        index = np.flatnonzero(now != np.ascontiguousarray(was).view(bits))
        if index.size == 0:
            continue
        value = np.ascontiguousarray(now[index]).view(np.uint8)
        make = to_torch if is_torch(after[name]) else to_numpy
        places: Any = index.astype(np.int64)
        if is_torch(after[name]):
            import torch

            places = torch.from_numpy(places)
        patches[name] = SparseWeightPatch(places, make(name, dtype, (index.size,), value))
    return patches


def apply_(model: Any, patch: Mapping[str, SparseWeightPatch]) -> None:
    """Sets the patched elements of a model in place, on whatever device they lie.

    Args:
        model: a torch.nn.Module, or a dict of writable, contiguous arrays or tensors.
        patch: of to_patch(), or any index and value per tensor.

    Raises:
        ShapeMismatch: a tensor that the model lacks, another element type, or an index beyond its last
            element; nothing was changed then.
        UsageError: a model of another kind, or memory that cannot be written.
    """
    if is_module(model):
        tensors: Mapping[str, Any] = model.state_dict(keep_vars=True)
    elif isinstance(model, Mapping):
        tensors = model
    else:
        raise usage(f"apply_ takes a torch.nn.Module or a dict of tensors, got {kind_of(model)}")
    for name, (index, value) in patch.items():
        _check(name, tensors.get(name), index, value)
    for name, (index, value) in patch.items():
        own = tensors[name]
        if is_torch(own):
            import torch

            with torch.no_grad():
                places = torch.as_tensor(index, device=own.device)
                own.view(-1)[places] = torch.as_tensor(value, device=own.device)
        else:
            own.reshape(-1)[np.asarray(index)] = np.asarray(value)


def _check(name: str, own: Any, index: Any, value: Any) -> None:
    if own is None:
        raise mismatch(f"the model has no tensor {name}; the patch is of another model")
    if not (is_torch(own) or isinstance(own, np.ndarray)):
        raise usage(f"{name} is {kind_of(own)}; pass NumPy arrays or torch tensors")
    kind = str(value.dtype).removeprefix("torch.")
    if kind != str(own.dtype).removeprefix("torch."):
        raise mismatch(f"{name} has the element type {own.dtype}, and its patch has {value.dtype}")
    elements = int(np.prod(tuple(own.shape), dtype=np.int64))
    if tuple(index.shape) != tuple(value.shape) or len(index.shape) != 1:
        raise mismatch(f"the patch of {name} has {tuple(index.shape)} places and {tuple(value.shape)} values")
    if index.shape[0] and not (0 <= int(index.min()) and int(index.max()) < elements):
        raise mismatch(f"the patch of {name} has an index beyond its {elements} elements")
    contiguous = own.is_contiguous() if is_torch(own) else own.flags.c_contiguous and own.flags.writeable
    if not contiguous:
        raise usage(f"{name} is not contiguous, or read-only; pass a writable, contiguous one")
