"""Tensors to .gbz files and back, without data and without training."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from . import _core
from ._arrays import Array, to_entries, to_numpy, to_torch
from ._errors import TargetNotMet, exists, mismatch, usage

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

Path: TypeAlias = "str | os.PathLike[str]"
Framework: TypeAlias = Literal["numpy", "torch"]


@dataclass(frozen=True)
class StoredTensor:
    """How one tensor ended in a file."""

    name: str
    dtype: str  #: as safetensors spells it: "F32", "BF16"
    shape: tuple[int, ...]
    #: "integers", "short floats", "exact", "constant", "tied"; of deltas "as in the base" and "base
    #: and integers" too
    stored: str
    step: float | None  #: of integers
    bytes: float  #: its share of the file beside the header
    bits: float  #: a number
    error: float  #: squared error over squares; 0: exact


@dataclass(frozen=True)
class SaveReport:
    """What save_file() wrote. Every number is of the file, which was read back."""

    file_bytes: int
    input_bytes: int  #: of the same tensors as a safetensors file
    parameters: int  #: numbers of all tensors that are not tied
    error: float  #: squared error over squares, of all tensors of real numbers together
    target_met: bool
    target_note: str  #: why not
    identity: str  #: SHA-256 of the file, hexadecimal
    tensors: tuple[StoredTensor, ...]

    @property
    def ratio(self) -> float:
        """Bytes of the safetensors file over bytes of this one."""
        return self.input_bytes / self.file_bytes


def _check_target(
    ratio: float | None, max_bytes: int | None, max_error: float | None, lossless: bool
) -> None:
    given = [
        name
        for name, there in (
            ("ratio", ratio is not None),
            ("max_bytes", max_bytes is not None),
            ("max_error", max_error is not None),
            ("lossless", lossless),
        )
        if there
    ]
    if len(given) != 1:
        which = f"not {' and '.join(given)}" if given else "nothing was"
        raise usage(f"give one of ratio, max_bytes, max_error and lossless=True; {which} given")
    if ratio is not None and not 0 < ratio < float("inf"):
        raise usage(f"ratio must be above 0, not {ratio}")
    if max_bytes is not None and max_bytes < 1:
        raise usage(f"max_bytes must be at least 1, not {max_bytes}")
    if max_error is not None and not 0 < max_error < 1:
        raise usage(f"max_error must be above 0 and below 1, not {max_error}")


def _metadata_text(metadata: Mapping[str, str] | None) -> str:
    if not metadata:
        return ""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise usage(f"metadata maps text to text; {key!r} does not")
    return json.dumps(dict(metadata), ensure_ascii=False)


def save_file(
    tensors: Mapping[str, Array],
    filename: Path,
    *,
    ratio: float | None = None,
    max_bytes: int | None = None,
    max_error: float | None = None,
    lossless: bool = False,
    exact: Sequence[str] = (),
    base: Path | None = None,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> SaveReport:
    """Compresses tensors by themselves, without data, to a ``.gbz`` file.

    The bytes are those that ``gbcompress compress`` writes for a safetensors file of the same
    tensors. Exactly one of the first four settings is given.

    Args:
        tensors: names and NumPy arrays or torch tensors (any device), contiguous, of any shape up
            to 8 dimensions; bfloat16 and 8-bit floats too. Tensors of the same memory are tied:
            stored once.
        filename: appears whole or not at all.
        ratio: bytes of the tensors as safetensors over bytes of the file, above 0.
        max_bytes: of the file, at least 1.
        max_error: squared error over squares of every tensor, above 0 and below 1.
        lossless: every tensor bit for bit.
        exact: names that stay bit for bit; ``*`` stands for any characters.
        base: a model file whose tensors these mostly are, the last checkpoint say: what changed is
            stored, and the file is loaded with the same base.
        metadata: text kept in the file, as safetensors keeps it. It costs its bytes.
        overwrite: replaces an existing file.
        threads: 0: one for each processor. The bytes do not depend on it.

    Returns:
        What became of every tensor. Where the size was out of reach the file is the smallest that
        can be made, ``target_met`` is false, and the warning TargetNotMet is given.

    Raises:
        UsageError: settings that contradict each other; a tensor that is not contiguous, or of an
            unknown element type.
        ShapeMismatch: a tensor has another type or shape in the base.
        FileExists: the file exists.
        GbzError: the disk refuses (``code`` ``"io"``).
    """
    _check_target(ratio, max_bytes, max_error, lossless)
    kept = _metadata_text(metadata)
    entries = to_entries(tensors)
    if os.path.lexists(filename) and not overwrite:
        raise exists(os.fspath(filename))
    report = _core.save(
        entries,
        os.fspath(filename),
        ratio=ratio,
        max_bytes=max_bytes,
        max_error=max_error,
        exact=list(exact),
        base=None if base is None else os.fspath(base),
        metadata=kept,
        overwrite=overwrite,
        threads=threads,
    )
    stored = tuple(StoredTensor(**tensor) for tensor in report.pop("tensors"))
    result = SaveReport(tensors=stored, **report)
    if not result.target_met:
        warnings.warn(result.target_note, TargetNotMet, stacklevel=2)
    return result


class _Open:
    """A file whose layer types are all known."""

    def __init__(
        self,
        filename: Path,
        framework: str,
        base: Path | None,
        max_output: int | None,
        threads: int,
    ) -> None:
        if framework not in ("numpy", "torch"):
            raise usage(f"framework is 'numpy' or 'torch', not {framework!r}")
        self._make = to_torch if framework == "torch" else to_numpy
        self._threads = threads
        named = None if base is None else os.fspath(base)
        self._file = _core.File(os.fspath(filename), max_output, named)
        self._file.check_readable()
        self.tensors = self._file.tensors()

    def array(self, index: int) -> Any:
        entry = self.tensors[index]
        data = self._file.decode(index, self._threads)
        return self._make(entry["name"], entry["dtype"], entry["shape"], data)


@overload
def load_file(
    filename: Path,
    *,
    framework: Literal["numpy"] = "numpy",
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> dict[str, NDArray[Any]]: ...
@overload
def load_file(
    filename: Path,
    *,
    framework: Literal["torch"],
    device: str | torch.device = "cpu",
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> dict[str, torch.Tensor]: ...
def load_file(
    filename: Path,
    *,
    framework: Framework = "numpy",
    device: str | torch.device = "cpu",
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """All tensors of a file, bit for bit what ``gbcompress expand`` makes of it.

    Args:
        filename: a ``.gbz`` file; its digest is checked before anything of it is used.
        framework: what the tensors are: ``"numpy"`` arrays or ``"torch"`` tensors.
        device: where torch tensors lie.
        base: of a delta: the model that it was made with, a model file or a ``.gbz``.
        max_output: refuses a file that expands to more bytes.
        threads: 0: one for each processor. They change no bit.

    Returns:
        Names and tensors in the file's order; tied names share one tensor. Beside it and the file
        no more than one tensor is in memory.

    Raises:
        NotFound: there is no such file.
        UsageError: a delta without its base, or with another; a base for what is no delta.
        GbzError: ``code`` ``"corrupt"`` or ``"truncated"`` for a damaged file; ``"unsupported"``
            for one of a newer version, of a layer type that needs its plugin (the message names
            it), or of an element type that the framework lacks; ``"limit"`` above ``max_output``.
    """
    file = _Open(filename, framework, base, max_output, threads)
    result: dict[str, Any] = {}
    for index, entry in enumerate(file.tensors):
        if entry["tied_to"] is not None:
            continue
        array = file.array(index)
        result[entry["name"]] = array.to(device) if framework == "torch" else array
    names = [entry["name"] for entry in file.tensors]
    return {
        entry["name"]: result[entry["name"] if entry["tied_to"] is None else names[entry["tied_to"]]]
        for entry in file.tensors
    }


@overload
def iter_file(
    filename: Path,
    *,
    framework: Literal["numpy"] = "numpy",
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> Iterator[tuple[str, NDArray[Any]]]: ...
@overload
def iter_file(
    filename: Path,
    *,
    framework: Literal["torch"],
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> Iterator[tuple[str, torch.Tensor]]: ...
def iter_file(
    filename: Path,
    *,
    framework: Framework = "numpy",
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> Iterator[tuple[str, Any]]:
    """Names and tensors one after another, in the file's order: for files larger than memory.

    Tensors are decoded as they are asked for; a tied one is decoded again. Arguments and errors as
    of load_file(); a damaged file is refused before the first tensor.
    """
    file = _Open(filename, framework, base, max_output, threads)

    def tensors() -> Iterator[tuple[str, Any]]:
        for index, entry in enumerate(file.tensors):
            yield entry["name"], file.array(index)

    return tensors()


def load_into(
    model: torch.nn.Module,
    filename: Path,
    *,
    strict: bool = True,
    base: Path | None = None,
    max_output: int | None = None,
    threads: int = 0,
) -> tuple[list[str], list[str]]:
    """Writes the tensors of a file into a model's parameters and buffers, in their own memory.

    Names are those of ``model.state_dict()``. A model that does not fit is not changed.

    Args:
        model: of any device and element type; numbers are converted as ``load_state_dict`` does.
        filename: as load_file() takes it.
        strict: every name of the file is in the model, and the other way round.
        base: as load_file() takes it.

    Returns:
        Names that the file lacks, and names that the model lacks; both empty with ``strict``.

    Raises:
        ShapeMismatch: names (with ``strict``) or shapes differ.
        NotFound, GbzError: as load_file().
    """
    import torch

    file = _Open(filename, "torch", base, max_output, threads)
    state = {
        name: value
        for name, value in model.state_dict(keep_vars=True).items()
        if isinstance(value, torch.Tensor)
    }
    stored = {entry["name"]: entry for entry in file.tensors}
    missing = [name for name in state if name not in stored]
    unexpected = [name for name in stored if name not in state]
    if strict and (missing or unexpected):
        lacks = f"the file lacks {missing[0]}" if missing else f"the model lacks {unexpected[0]}"
        more = len(missing) + len(unexpected) - 1
        raise mismatch(lacks + (f" (and {more} more names differ)" if more else ""))
    for name, entry in stored.items():
        if name in state and tuple(state[name].shape) != entry["shape"]:
            raise mismatch(
                f"{name} has the shape {list(entry['shape'])} in the file and "
                f"{list(state[name].shape)} in the model"
            )
    with torch.no_grad():
        for index, entry in enumerate(file.tensors):
            if entry["name"] in state:
                state[entry["name"]].copy_(file.array(index))
    return missing, unexpected
