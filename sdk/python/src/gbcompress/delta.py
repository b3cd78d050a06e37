"""Sparse patches between two versions of a model, in the layout that inference engines take.

    patches = gbc.delta.to_patch(before, after)     # {name: SparseWeightPatch(name, indices, values, full_shape)}
    gbc.delta.apply_(model, patches)

A patch of a tensor is the flat index, in checkpoint coordinates (row-major), and the new value of each element
whose bits changed. Fields, their order and their types are those of ``SparseWeightPatch`` in vLLM's
``vllm.distributed.weight_transfer.sparse_nccl_engine`` (vLLM pull requests 40096 and 53751).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ._arguments import kind_of
from ._errors import mismatch, usage
from ._files.arrays import Array, is_module, is_torch, to_entries, to_numpy, to_torch

__all__ = ["SparseWeightPatch", "apply_", "to_patch"]

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


_MOST_INT32 = 2**31 - 1


class SparseWeightPatch(NamedTuple):
    """The changed elements of one tensor."""

    name: str  #: of the tensor in the checkpoint
    indices: Any  #: int32 [changed], ascending, 0 to elements - 1; int64 of more than 2,147,483,647 elements
    values: Any  #: the tensor's element type [changed]
    full_shape: tuple[int, ...]  #: of the tensor


def to_patch(before: Mapping[str, Array], after: Mapping[str, Array]) -> dict[str, SparseWeightPatch]:
    """What changed between two versions of a model, bit for bit: -0 and 0 differ, NaNs compare by payload.

    Args:
        before: names and NumPy arrays or torch tensors.
        after: the same names, element types and shapes.

    Returns:
        A patch of every tensor that changed, of arrays or tensors as ``after`` has them (contiguous
        tensors on the CPU). An engine that marks unchanged elements with NaN, as vLLM's loader does,
        takes no patch of integers or with a NaN among its values: send such a tensor whole.

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
        values = np.ascontiguousarray(now[index]).view(np.uint8)
        places: Any = index.astype(np.int32 if now.size <= _MOST_INT32 else np.int64)
        make = to_torch if is_torch(after[name]) else to_numpy
        if is_torch(after[name]):
            import torch

            places = torch.from_numpy(places)
        patches[name] = SparseWeightPatch(name, places, make(name, dtype, (index.size,), values), tuple(shape))
    return patches


def apply_(model: Any, patches: Mapping[str, SparseWeightPatch] | Iterable[SparseWeightPatch]) -> None:
    """Sets the patched elements of a model in place, on whatever device they lie.

    Args:
        model: a torch.nn.Module, or a dict of writable, contiguous arrays or tensors.
        patches: of to_patch(), or objects of any kind with the same fields, as a dict or one after another.
            Engines that know no ``full_shape`` leave it out: the shape is then not compared.

    Raises:
        ShapeMismatch: a tensor that the model lacks, another shape or element type, or an index beyond its
            last element; nothing was changed then.
        UsageError: a model of another kind, memory that cannot be written, indices that are no integers, or
            a patch without name, indices or values.
    """
    if is_module(model):
        tensors: Mapping[str, Any] = model.state_dict(keep_vars=True)
    elif isinstance(model, Mapping):
        tensors = model
    else:
        raise usage(f"apply_ takes a torch.nn.Module or a dict of tensors, got {kind_of(model)}")
    found = list(patches.values()) if isinstance(patches, Mapping) else list(patches)
    for patch in found:
        _check(tensors, patch)
    for patch in found:
        own = tensors[patch.name]
        if is_torch(own):
            import torch

            # As integers: torch sets no single elements of 8-bit floats, and NaNs keep their bits.
            bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[own.element_size()]
            places = torch.as_tensor(patch.indices, device=own.device).long()
            values = torch.as_tensor(patch.values, device=own.device).contiguous()
            own.detach().view(-1).view(bits)[places] = values.view(bits)
        else:
            own.reshape(-1)[np.asarray(patch.indices)] = np.asarray(patch.values)


def _check(tensors: Mapping[str, Any], patch: SparseWeightPatch) -> None:
    for field in ("name", "indices", "values"):
        if not hasattr(patch, field):
            raise usage(f"a patch has name, indices and values, and {kind_of(patch)} has no {field}")
    name, indices, values = patch.name, patch.indices, patch.values
    own = tensors.get(name)
    if own is None:
        raise mismatch(f"the model has no tensor {name}; the patch is of another model")
    if not (is_torch(own) or isinstance(own, np.ndarray)):
        raise usage(f"{name} is {kind_of(own)}; pass NumPy arrays or torch tensors")
    shape = getattr(patch, "full_shape", None)
    if shape is not None and tuple(own.shape) != tuple(shape):
        raise mismatch(f"{name} has the shape {list(own.shape)}, and its patch {list(shape)}: it is of another model")
    kind = str(values.dtype).removeprefix("torch.")
    if kind != str(own.dtype).removeprefix("torch."):
        raise mismatch(f"{name} has the element type {own.dtype}, and its patch has {values.dtype}")
    if tuple(indices.shape) != tuple(values.shape) or len(indices.shape) != 1:
        raise mismatch(f"the patch of {name} has {tuple(indices.shape)} places and {tuple(values.shape)} values")
    if str(indices.dtype).removeprefix("torch.") not in ("int32", "int64"):
        raise usage(f"the patch of {name} has indices of type {indices.dtype}; pass int32 or int64")
    elements = int(np.prod(tuple(own.shape), dtype=np.int64))
    if indices.shape[0] and not (0 <= int(indices.min()) and int(indices.max()) < elements):
        raise mismatch(f"the patch of {name} has an index beyond its {elements} elements")
    contiguous = own.is_contiguous() if is_torch(own) else own.flags.c_contiguous and own.flags.writeable
    if not contiguous:
        raise usage(f"{name} is not contiguous, or read-only; pass a writable, contiguous one")
