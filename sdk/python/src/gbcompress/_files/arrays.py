"""NumPy arrays and torch tensors as bytes, and back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from .._arguments import kind_of
from .._errors import GbzError, usage

if TYPE_CHECKING:
    import torch

Array: TypeAlias = Union["NDArray[Any]", "torch.Tensor"]
#: Name, element type as safetensors spells it, shape, bytes.
NamedArray: TypeAlias = tuple[str, str, tuple[int, ...], NDArray[np.uint8]]

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
#: torch's names are NumPy's, and pairs of 4-bit floats, of which files count both elements.
_OF_TORCH = {**_OF_NUMPY, "float4_e2m1fn_x2": "F4"}


def is_torch(value: object) -> bool:
    """Whether it is a torch.Tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_module(value: object) -> bool:
    """Whether it is a torch.nn.Module; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _numpy_bytes(name: str, array: NDArray[Any]) -> tuple[str, NDArray[np.uint8]]:
    dtype = _OF_NUMPY.get(array.dtype.name)
    if dtype is None:
        raise usage(f"{name} has the element type {array.dtype}, which .gbz files do not have; convert it")
    if array.dtype.byteorder == ">":
        raise usage(f"{name} is big-endian; pass .astype(...) of it in native byte order")
    return dtype, np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def torch_dtype_name(name: str, tensor: torch.Tensor) -> str:
    """The element type as files spell it. Raises UsageError for one that no file holds."""
    dtype = _OF_TORCH.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise usage(f"{name} has the element type {tensor.dtype}, which .gbz files do not have; convert it")
    return dtype


def torch_bytes(name: str, tensor: torch.Tensor) -> NDArray[np.uint8]:
    """Bytes of a tensor, its last dimension fastest; its own memory where that is contiguous and on the CPU."""
    import torch

    # A copy of weights in channels_last and of transposed parameters, whose memory is in another order.
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.numel() == 0:
        return np.empty(0, np.uint8)
    data: NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return data


def _check_dense(name: str, tensor: torch.Tensor) -> None:
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise usage(
            f"{name} is sparse, quantized, or on the meta device; pass a dense tensor (.to_dense(), "
            ".dequantize())"
        )


def _torch_entry(name: str, tensor: torch.Tensor) -> tuple[str, NDArray[np.uint8]]:
    return torch_dtype_name(name, tensor), torch_bytes(name, tensor)


def memory_of(tensor: torch.Tensor) -> object:
    """Equal for tensors that are one: of the same memory, shape, order and type; a square matrix and its transpose are
    two. Of tensors without elements it says nothing."""
    if hasattr(tensor, "kept_key"):
        return tensor.kept_key()
    if tensor.is_meta:
        return id(tensor)
    order = tuple(step for step, side in zip(tensor.stride(), tensor.shape, strict=True) if side > 1)
    return tensor.device, tensor.data_ptr(), tensor.shape, order, tensor.dtype


def to_entries(tensors: Mapping[str, Array]) -> list[NamedArray]:
    """Names and bytes of all tensors. Names of the same memory keep sharing it: they are tied.

    Memory that is not contiguous is copied. Raises UsageError for a value that is neither an array nor a tensor, or
    that has an unknown element type.
    """
    entries: list[NamedArray] = []
    shared: dict[object, tuple[str, NDArray[np.uint8]]] = {}
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise usage(f"names of tensors must be text, got {name!r}")
        if is_torch(value):
            tensor: Any = value
            _check_dense(name, tensor)
            # Copies from a GPU would lose what is tied.
            key = memory_of(tensor)
            fresh = key not in shared or tensor.numel() == 0
            dtype, data = _torch_entry(name, tensor) if fresh else shared[key]
            shared[key] = dtype, data
        elif isinstance(value, np.ndarray):
            dtype, data = _numpy_bytes(name, value)
        else:
            raise usage(
                f"{name} is {kind_of(value)}; pass a NumPy array or a torch tensor"
            )
        shape = tuple(int(n) for n in value.shape)
        entries.append((name, dtype, (*shape[:-1], 2 * shape[-1]) if dtype == "F4" else shape, data))
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
                f"{name} has the element type {dtype}, which NumPy lacks; load it with "
                "framework='torch'" + ("" if numpy_name is None else ", or install ml_dtypes"),
                "unsupported",
            ) from None
    return data.view(kind).reshape(shape) if data.size else np.empty(shape, kind)


def to_torch(name: str, dtype: str, shape: tuple[int, ...], data: NDArray[Any]) -> torch.Tensor:
    """The tensor of decoded bytes or numbers on the CPU, without a copy.

    Raises GbzError for an element type that this torch does not have.
    """
    import torch

    if dtype == "F4":
        shape = (*shape[:-1], shape[-1] // 2)
    kind = getattr(torch, "float4_e2m1fn_x2" if dtype == "F4" else _NUMPY.get(dtype, ""), None)
    if kind is None:
        raise GbzError(
            f"{name} has the element type {dtype}, which torch {torch.__version__} lacks; install a "
            "newer torch",
            "unsupported",
        )
    if data.size == 0:
        return torch.empty(shape, dtype=kind)
    return torch.from_numpy(data).view(kind).reshape(shape)


#: Element types that real tensors are decoded into, whatever their own is.
_DECODED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def real_dtype(value: object) -> str:
    """float32, float16 or bfloat16 as files spell it. Raises UsageError for anything else."""
    name = value if isinstance(value, str) else str(value).removeprefix("torch.")
    if not isinstance(value, str) and name not in _DECODED:
        try:
            name = np.dtype(value).name  # type: ignore[call-overload]
        except TypeError:
            pass
    if name not in _DECODED:
        raise usage(f"dtype must be float32, float16 or bfloat16, got {value!r}")
    return _DECODED[name]


def writes_to(name: object, value: object) -> None:
    """Raises UsageError for what is neither an array nor a tensor on the CPU."""
    if not isinstance(name, str):
        raise usage(f"names of tensors must be text, got {name!r}")
    if is_torch(value):
        tensor: Any = value
        _check_dense(name, tensor)
        if tensor.device.type != "cpu":
            raise usage(f"{name} lies on {tensor.device}; pass a tensor on the CPU, or the model")
    elif not isinstance(value, np.ndarray):
        raise usage(f"{name} is {kind_of(value)}; pass a NumPy array or a torch tensor")


def _problem(value: Any) -> str:
    """Why the bytes of an array or a CPU tensor cannot be written; "" where they can."""
    if is_torch(value):
        return "" if value.is_contiguous() else "is not contiguous; pass a contiguous tensor"
    if not value.flags.c_contiguous:
        return "is not contiguous; pass a contiguous array"
    if not value.flags.writeable:
        return "is read-only; pass a writable array"
    if value.dtype.byteorder == ">":
        return "is big-endian; pass an array in native byte order"
    return ""


def buffer_of(
    name: str, value: Any, own: str, *, strictly: bool
) -> tuple[str, NDArray[np.uint8]] | None:
    """Element type and bytes of the memory that a tensor of type ``own`` can be decoded into.

    Args:
        strictly: whether it is an error if that cannot be; else nothing is returned then.

    Raises:
        UsageError: another element type, or memory that cannot be written as it is.
    """
    if is_torch(value):
        if value.device.type != "cpu" or value.layout is not sys.modules["torch"].strided:
            return None
        dtype = _OF_TORCH.get(str(value.dtype).removeprefix("torch."))
    else:
        dtype = _OF_NUMPY.get(value.dtype.name)
    real = own in ("F16", "BF16", "F32", "F64")
    fits = dtype is not None and (dtype == own or (real and dtype in _DECODED.values()))
    problem = _problem(value) if fits else (
        f"has the element type {value.dtype}, and the file's is {own}; pass an array of that type"
        + (", or of float32, float16 or bfloat16" if real else "")
    )
    if problem and strictly:
        raise usage(f"{name} {problem}")
    if problem or dtype is None:
        return None
    if is_torch(value):
        return dtype, torch_bytes(name, value)
    data: NDArray[np.uint8] = value.reshape(-1).view(np.uint8)
    return dtype, data
