"""NumPy arrays and torch tensors as bytes, and back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from ._errors import GbzError, usage

if TYPE_CHECKING:
    import torch

Array: TypeAlias = Union["NDArray[Any]", "torch.Tensor"]
#: Name, element type as safetensors spells it, shape, bytes.
Entry: TypeAlias = tuple[str, str, tuple[int, ...], NDArray[np.uint8]]

#: Element types and what NumPy calls them; the last ones are those of the package ml_dtypes.
_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}
_OF_NUMPY = {name: dtype for dtype, name in _NUMPY.items()}
#: torch's names are NumPy's.
_OF_TORCH = _OF_NUMPY


def is_torch(value: object) -> bool:
    """Whether it is a torch.Tensor; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _numpy_bytes(name: str, array: NDArray[Any]) -> tuple[str, NDArray[np.uint8]]:
    dtype = _OF_NUMPY.get(array.dtype.name)
    if dtype is None:
        raise usage(f"{name} has the element type {array.dtype}, which no file holds")
    if not array.flags.c_contiguous:
        raise usage(f"{name} is not contiguous; save np.ascontiguousarray(...) of it")
    if array.dtype.byteorder == ">":
        raise usage(f"{name} is big-endian; save .astype(...) in native byte order")
    return dtype, array.reshape(-1).view(np.uint8)


def torch_dtype_name(name: str, tensor: torch.Tensor) -> str:
    """The element type as files spell it. Raises UsageError for one that no file holds."""
    dtype = _OF_TORCH.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise usage(f"{name} has the element type {tensor.dtype}, which no file holds")
    return dtype


def torch_bytes(name: str, tensor: torch.Tensor) -> NDArray[np.uint8]:
    """Bytes of a contiguous tensor; its own memory where that lies on the CPU."""
    import torch

    flat = tensor.detach().cpu().reshape(-1)
    if flat.numel() == 0:
        return np.empty(0, np.uint8)
    data: NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return data


def _check_dense(name: str, tensor: torch.Tensor) -> None:
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise usage(f"{name} is not a dense tensor with memory of its own")


def _torch_entry(name: str, tensor: torch.Tensor) -> tuple[str, NDArray[np.uint8]]:
    dtype = torch_dtype_name(name, tensor)
    if not tensor.is_contiguous():
        raise usage(f"{name} is not contiguous; save .contiguous() of it")
    return dtype, torch_bytes(name, tensor)


def to_entries(tensors: Mapping[str, Array]) -> list[Entry]:
    """Names and bytes of all tensors. Names of the same memory keep sharing it: they are tied.

    Raises UsageError for what is neither an array nor a tensor, not contiguous, or of an unknown
    element type.
    """
    entries: list[Entry] = []
    shared: dict[object, tuple[str, NDArray[np.uint8]]] = {}
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise usage(f"names of tensors are text, not {type(name).__name__}")
        if is_torch(value):
            tensor: Any = value
            _check_dense(name, tensor)
            # Copies from a GPU would lose what is tied.
            key = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.dtype)
            fresh = key not in shared or tensor.numel() == 0
            dtype, data = _torch_entry(name, tensor) if fresh else shared[key]
            shared[key] = dtype, data
        elif isinstance(value, np.ndarray):
            dtype, data = _numpy_bytes(name, value)
        else:
            raise usage(f"{name} is a {type(value).__name__}, not an array or a tensor")
        entries.append((name, dtype, tuple(int(n) for n in value.shape), data))
    return entries


def to_numpy(name: str, dtype: str, shape: tuple[int, ...], data: NDArray[Any]) -> NDArray[Any]:
    """The array of decoded bytes or numbers, without a copy.

    Raises GbzError for bfloat16 and 8-bit floats where the package ml_dtypes is not installed.
    """
    numpy_name = _NUMPY.get(dtype)
    try:
        if numpy_name is None:
            raise TypeError
        kind = np.dtype(numpy_name)
    except TypeError:
        try:
            import ml_dtypes

            kind = np.dtype(getattr(ml_dtypes, str(numpy_name)))
        except (ImportError, AttributeError):
            raise GbzError(
                f"{name} is {dtype}, which NumPy does not have; load it with framework='torch', "
                "or install ml_dtypes",
                "unsupported",
            ) from None
    return data.view(kind).reshape(shape) if data.size else np.empty(shape, kind)


def to_torch(name: str, dtype: str, shape: tuple[int, ...], data: NDArray[Any]) -> torch.Tensor:
    """The tensor of decoded bytes or numbers on the CPU, without a copy.

    Raises GbzError for an element type that this torch does not have.
    """
    import torch

    kind = getattr(torch, _NUMPY.get(dtype, ""), None)
    if kind is None:
        raise GbzError(f"{name} is {dtype}, which this torch does not have", "unsupported")
    if data.size == 0:
        return torch.empty(shape, dtype=kind)
    return torch.from_numpy(data).view(kind).reshape(shape)
