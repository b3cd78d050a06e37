"""Tensors out of .gbz files: as new arrays, or into memory that is there already."""

from __future__ import annotations

import functools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, overload

import numpy as np

from .. import _core
from .._arguments import kind_of, path, paths, whole
from .._errors import GbzError, mismatch, usage
from .._modules import unwrapped
from .arrays import buffer_of, is_module, is_torch, memory_of, real_dtype, to_numpy, to_torch, writes_to
from .damage import named as name_damaged
from .save import Path

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

Framework: TypeAlias = Literal["numpy", "np", "torch", "pt"]
DType: TypeAlias = Union["str", "np.dtype[Any]", "type[np.generic]", "torch.dtype"]

#: Bytes that are decoded at a time, so that Ctrl-C is heard in between.
_BATCH = 256 << 20
#: Bytes of a file whose digest is checked unless verify says otherwise: some 40 ms.
_VERIFIED = 64 << 20
_REAL = ("F16", "BF16", "F32", "F64")


def framework_of(value: object) -> Literal["numpy", "torch"]:
    """The one that is meant; safetensors' short names are taken too. Raises UsageError."""
    if value in ("numpy", "np"):
        return "numpy"
    if value in ("torch", "pt"):
        return "torch"
    raise usage(f"framework must be 'numpy' or 'torch', got {value!r}")


class Opened:
    """A file whose layer types are all known."""

    def __init__(
        self,
        filename: Path,
        framework: str,
        base: Path | Sequence[Path] | None,
        max_output: int | None,
        threads: int,
        dtype: DType | None = None,
        all: bool = False,
        verify: bool | None = True,
        draft: bool = False,
    ) -> None:
        """With ``all``, everything that follows is within checked()."""
        self._make = to_torch if framework_of(framework) == "torch" else to_numpy
        self._dtype = None if dtype is None else real_dtype(dtype)
        self._threads = whole(threads, "threads", 0)
        named = paths(base, "base")
        limit = None if max_output is None else whole(max_output, "max_output", 1)
        file = _core.artifact_in(path(filename, "filename"))
        if verify is None:
            verify = not os.path.exists(file) or os.path.getsize(file) <= _VERIFIED
        self._reopen = functools.partial(_core.File, file, limit, named, "never", draft)
        try:
            self._file = _core.File(file, limit, named, "decoding" if all else "at_once" if verify else "never", draft)
        except GbzError as error:
            raise name_damaged(error, self._reopen) from error
        self.tensors = self._file.tensors()
        if not all:
            self._file.check_readable()

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Decoding takes the file into its digest; a damaged one is refused whatever else is wrong."""
        try:
            self._file.check_readable()
            yield
        finally:
            self.check_digest()

    def check_digest(self) -> None:
        """Raises GbzError, with the tensors that do not decode, for a digest that does not fit."""
        try:
            self._file.check_digest()
        except GbzError as error:
            raise name_damaged(error, self._reopen) from error

    def metadata(self) -> dict[str, str]:
        settings = json.loads(self._file.settings) if self._file.settings else {}
        found: dict[str, str] = settings.get("metadata", {})
        return found

    def _dtype_of(self, index: int) -> str:
        own: str = self.tensors[index]["dtype"]
        return self._dtype if self._dtype is not None and own in _REAL else own

    def _batches(self, indices: Sequence[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        size = 0
        for index in indices:
            batch.append(index)
            elements = 1
            for side in self.tensors[index]["shape"]:
                elements *= side
            size += 4 * elements
            if size >= _BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def arrays(self, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Indices and tensors in new memory, in that order."""
        for batch in self._batches(indices):
            wanted = [(index, self._dtype_of(index)) for index in batch]
            for (index, dtype), data in zip(wanted, self._file.read(wanted, self._threads), strict=True):
                entry = self.tensors[index]
                yield index, self._make(entry["name"], dtype, entry["shape"], data)

    def raw(self, indices: Sequence[int]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Indices and bytes of tensors in their own element types, in new memory."""
        for batch in self._batches(indices):
            wanted = [(index, self.tensors[index]["dtype"]) for index in batch]
            for index, data in zip(batch, self._file.read(wanted, self._threads), strict=True):
                yield index, data.view(np.uint8).reshape(-1)

    def size_of(self, index: int) -> int:
        """Bytes of a tensor in its own element type."""
        entry = self.tensors[index]
        digits = re.search(r"\d+", entry["dtype"])  # of BOOL none
        elements: int = math.prod(entry["shape"])
        return elements * int(digits[0] if digits else 8) // 8

    def rows(self, index: int, first: int, count: int) -> Any | None:
        """Rows of an untied tensor in new memory; None where rows may begin within a byte."""
        entry, dtype = self.tensors[index], self._dtype_of(index)
        if self.size_of(index) < math.prod(entry["shape"]):
            return None
        data = self._file.read_rows(index, dtype, first, count, self._threads)
        return self._make(entry["name"], dtype, (count, *entry["shape"][1:]), data)

    def read_into(self, buffers: Mapping[int, tuple[str, NDArray[np.uint8]]]) -> None:
        """Into element types and writable bytes, by index."""
        for batch in self._batches(list(buffers)):
            self._file.read_into([(index, *buffers[index]) for index in batch], self._threads)


@overload
def load_file(
    filename: Path,
    *,
    framework: Literal["numpy", "np"] = "numpy",
    dtype: DType | None = None,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> dict[str, NDArray[Any]]: ...
@overload
def load_file(
    filename: Path,
    *,
    framework: Literal["torch", "pt"],
    dtype: DType | None = None,
    device: str | torch.device | None = None,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> dict[str, torch.Tensor]: ...
def load_file(
    filename: Path,
    *,
    framework: Framework = "numpy",
    dtype: DType | None = None,
    device: str | torch.device | None = None,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """All tensors of a file, bit for bit as ``gbcompress expand`` writes them.

    Files of profile ``lanes`` are decoded on several threads, straight into the memory that is returned.

    Args:
        filename: a ``.gbz`` file, or a folder with one, as ``gbcompress compress FOLDER -o OUT/``
            writes. The file's digest is checked while it is decoded.
        framework: ``"numpy"`` (or ``"np"``) for arrays, ``"torch"`` (or ``"pt"``) for tensors.
        dtype: element type of real tensors, decoded straight into it: float32, float16 or bfloat16 as
            text, or as NumPy's or torch's type; rounded to nearest even from the tensor's own type.
            Integers and booleans keep theirs. Unset: each tensor's own.
        device: where torch tensors lie; unset: on the CPU.
        base: of a delta: the model that it was made with, as save_file() takes it; of one that was made
            with several, a list of them.
        max_output: refuses a file that expands to more bytes.
        threads: 0: one for each processor. They change no bit.

    Returns:
        Names and tensors in the file's order; tied names share one tensor. Beside them and the file,
        memory holds one more tensor at most.

    Raises:
        NotFound: there is no such file, or the folder has none.
        UsageError: an argument of the wrong kind, or without effect; a delta without its base, or with
            another; a folder with several files.
        GbzError: ``code`` ``"corrupt"`` or ``"truncated"`` for a damaged file: the message names the first tensor that
            does not decode, or says that all decode; ``"unsupported"``
            for one of a newer version, of a layer type that needs its plugin (the message names
            it), or of an element type that the framework lacks; ``"limit"`` above ``max_output``.
    """
    file = Opened(filename, framework, base, max_output, threads, dtype, all=True)
    if device is not None and framework_of(framework) != "torch":
        raise usage("device has no effect on NumPy arrays; give framework='torch' as well")
    result: dict[str, Any] = {}
    own = [index for index, entry in enumerate(file.tensors) if entry["tied_to"] is None]
    with file.checked():
        for index, array in file.arrays(own):
            result[file.tensors[index]["name"]] = array if device is None else array.to(device)
    names = [entry["name"] for entry in file.tensors]
    return {
        entry["name"]: result[entry["name"] if entry["tied_to"] is None else names[entry["tied_to"]]]
        for entry in file.tensors
    }


@overload
def iter_file(
    filename: Path,
    *,
    framework: Literal["numpy", "np"] = "numpy",
    dtype: DType | None = None,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> Iterator[tuple[str, NDArray[Any]]]: ...
@overload
def iter_file(
    filename: Path,
    *,
    framework: Literal["torch", "pt"],
    dtype: DType | None = None,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> Iterator[tuple[str, torch.Tensor]]: ...
def iter_file(
    filename: Path,
    *,
    framework: Framework = "numpy",
    dtype: DType | None = None,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> Iterator[tuple[str, Any]]:
    """Names and tensors one after another, in the file's order: for files larger than memory.

    Tensors are decoded one at a time; a tied one is decoded again. Arguments and errors are those of
    load_file(); a damaged file is refused before the first tensor.
    """
    file = Opened(filename, framework, base, max_output, threads, dtype)

    def tensors() -> Iterator[tuple[str, Any]]:
        for index, entry in enumerate(file.tensors):
            for _, array in file.arrays([index]):
                yield entry["name"], array

    return tensors()


def _targets(target: object) -> dict[str, Any]:
    """Arrays and tensors to write into, by name. Raises UsageError for anything else."""
    if is_module(target):
        import torch

        model: Any = target
        state = model.state_dict(keep_vars=True)
        return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    if isinstance(target, Mapping):
        return dict(target)
    if isinstance(target, str | os.PathLike):
        instead = "pass the model first and the file to read second"
    else:
        instead = "pass the model"
    raise usage(
        f"load_into takes a torch module or a dict of arrays, got {kind_of(target)}; {instead}"
    )


def _check_fit(
    stored: Mapping[str, Any], state: Mapping[str, Any], strict: bool, what: str
) -> tuple[list[str], list[str]]:
    """Names that each side lacks. Raises ShapeMismatch for names (with ``strict``) and shapes."""
    memory = {name: memory_of(value) for name, value in state.items() if is_torch(value) and value.numel()}
    read = {place for name, place in memory.items() if name in stored}
    missing = [name for name in state if name not in stored and memory.get(name) not in read]
    unexpected = [name for name in stored if name not in state]
    if strict and (missing or unexpected):
        lacks = f"the file lacks {missing[0]}" if missing else f"the {what} lacks {unexpected[0]}"
        more = len(missing) + len(unexpected) - 1
        others = f" (and {more} more names differ)" if more else ""
        raise mismatch(f"{lacks}{others}; give strict=False to load the names that both have")
    for name, entry in stored.items():
        if name in state and tuple(state[name].shape) != entry["shape"]:
            raise mismatch(
                f"{name} has the shape {list(entry['shape'])} in the file and "
                f"{list(state[name].shape)} in the {what}"
            )
    return missing, unexpected


def load_into(
    target: torch.nn.Module | Mapping[str, Any],
    filename: Path,
    *,
    strict: bool = True,
    base: Path | Sequence[Path] | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> tuple[list[str], list[str]]:
    """Writes the tensors of a file into memory that is there already: a model's, or a dict's.

    Nothing is allocated for contiguous arrays on the CPU: tensors of profile ``lanes`` are decoded
    straight into them, on several threads. Everything is checked before the first write, the file's
    digest in a pass of its own.

    Args:
        target: a torch module, of any device and element type, whose names are those of
            ``state_dict()``, or of the module inside what torch.compile and DataParallel return, and
            whose values are converted as ``load_state_dict`` does; or a dict of
            NumPy arrays and torch tensors on the CPU: contiguous, writable, aligned, of the tensor's
            own element type or, where that is real, float32, float16 or bfloat16.
        filename: as load_file() takes it.
        strict: every name of the file must be in the target, and every name of the target in the file; of tied
            parameters one name suffices.
        base: as load_file() takes it.

    Returns:
        Names that the file lacks, and names that the target lacks; both empty with ``strict``.

    Raises:
        ShapeMismatch: names (with ``strict``) or shapes differ.
        UsageError: an array of another element type, or one that is read-only, not contiguous or not
            aligned.
        NotFound, GbzError: as load_file().
    """
    state = _targets(target)
    file = Opened(filename, "torch" if is_module(target) else "numpy", base, max_output, threads)
    stored = {entry["name"]: entry for entry in file.tensors}
    if is_module(target) and stored.keys().isdisjoint(state):
        model: Any = target
        state = _targets(unwrapped(model))  # whose names calibrate() and prepare() write
    for name, value in state.items():
        if not is_module(target):
            writes_to(name, value)
    result = _check_fit(stored, state, strict, "model" if is_module(target) else "dict")
    buffers: dict[int, tuple[str, NDArray[np.uint8]]] = {}
    converted: list[int] = []
    for index, entry in enumerate(file.tensors):
        if entry["name"] not in state:
            continue
        value = state[entry["name"]]
        buffer = buffer_of(entry["name"], value, entry["dtype"], strictly=not is_module(target))
        if buffer is None:
            converted.append(index)
        else:
            buffers[index] = buffer
    _write(file, state, buffers, converted)
    return result


def _write(
    file: Opened,
    state: Mapping[str, Any],
    buffers: Mapping[int, tuple[str, NDArray[np.uint8]]],
    converted: Sequence[int],
) -> None:
    """Into the memory itself, and by a copy where torch converts."""
    file.read_into(buffers)
    values = [state[file.tensors[index]["name"]] for index in buffers]
    if any(is_torch(value) for value in values):
        import torch

        torch.autograd.graph.increment_version([value for value in values if is_torch(value)])
    if not converted:
        return
    import torch

    with torch.no_grad():
        for index, array in file.arrays(converted):
            state[file.tensors[index]["name"]].copy_(array)
