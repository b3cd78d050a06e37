"""Tensors to .gbz files, without data and without training."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import _core
from .._arguments import checked_ratio, kind_of, output, path, positive, texts, whole
from .._arguments import metadata as checked_metadata
from .._errors import TargetNotMet, usage, warn
from .arrays import Array, NamedArray, is_module, to_entries
from .layers import Layers, checked_layers

if TYPE_CHECKING:
    from .statistics import Statistics

Path: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True)
class StoredTensor:
    """How one tensor is stored in a file."""

    name: str
    dtype: str  #: as safetensors spells it: "F32", "BF16"
    shape: tuple[int, ...]
    #: "integers", "short floats", "exact", "levels", "constant", "tied"; of deltas "as in the base" and "base
    #: and integers" too
    stored: str
    step: float | None  #: of integers
    bytes: float  #: its share of the file, without the header
    bits: float  #: per element
    error: float  #: squared error over squares; 0: exact
    #: of a delta: squared error over the squares of the change since the base; None: not in the base
    change_error: float | None = None


@dataclass(frozen=True)
class SaveReport:
    """What save_file() wrote. Every figure is measured on the file, which is read back."""

    file_bytes: int
    input_bytes: int  #: of the same tensors as a safetensors file, tied ones once
    parameters: int  #: elements of all tensors that are not tied
    error: float  #: squared error over squares, of all tensors of real numbers together
    target_met: bool  #: whether the file is as small as it was to be
    target_note: str  #: why it is not; else ""
    identity: str  #: SHA-256 of the file, hexadecimal
    tensors: tuple[StoredTensor, ...]
    #: of a delta: squared error over the squares of the change, of all tensors that the base has
    change_error: float | None = None
    #: a sentence each: tensors that are exact without a rule (with NaN or infinity, scales of packed weights);
    #: of a base, that the change is empty or the base saves nothing
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """Bytes of the safetensors file over bytes of this one."""
        return self.input_bytes / self.file_bytes


def _one_target(
    ratio: object, max_bytes: object, max_error: object, lossless: bool
) -> tuple[float | None, int | None, float | None]:
    """Checks each by itself and that there is one. Raises UsageError."""
    if not isinstance(lossless, bool):
        raise usage(f"lossless must be True or False, got {lossless!r}")
    values = {"ratio": ratio, "max_bytes": max_bytes, "max_error": max_error}
    given = [name for name, value in values.items() if value is not None] + ["lossless"] * lossless
    if not given:
        raise usage("there is no target; give one of ratio, max_bytes, max_error and lossless=True")
    if len(given) > 1:
        raise usage(f"{' and '.join(given)} contradict each other; give one of them")
    return (
        None if ratio is None else checked_ratio(ratio),
        None if max_bytes is None else whole(max_bytes, "max_bytes", 1),
        None if max_error is None else positive(max_error, "max_error", below=1),
    )


def _check_tensors(tensors: object) -> None:
    """Raises UsageError for anything but a mapping, with what to pass instead."""
    if isinstance(tensors, Mapping):
        return
    if is_module(tensors):
        instead = "pass model.state_dict()"
    elif isinstance(tensors, str | os.PathLike):
        instead = "pass the tensors first and the file to write second"
    elif hasattr(tensors, "shape") and hasattr(tensors, "dtype"):
        instead = 'pass {"name": tensor}'
    elif isinstance(tensors, Sequence) or hasattr(tensors, "__next__"):
        instead = "give each tensor its name: pass a dict, as model.state_dict() is one"
    else:
        instead = "pass a dict, as model.state_dict() is one"
    raise usage(f"save_file takes a dict of tensors, got {kind_of(tensors)}; {instead}")


def _exact_names(exact: object, tensors: Mapping[str, Array]) -> list[str]:
    """Raises UsageError for a name that matches no tensor."""
    globs = texts(exact, "exact")
    for glob in globs:
        if not any(_core.matches_glob(glob, name) for name in tensors):
            raise usage(f"exact={glob!r} matches no tensor; names are the keys of the dict")
    return globs


def save_file(
    tensors: Mapping[str, Array],
    filename: Path,
    *,
    ratio: float | None = None,
    max_bytes: int | None = None,
    max_error: float | None = None,
    lossless: bool = False,
    exact: Sequence[str] = (),
    layers: Layers | None = None,
    base: Path | None = None,
    statistics: Statistics | Mapping[str, Array] | Path | None = None,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> SaveReport:
    """Compresses tensors to a ``.gbz`` file, without data or under statistics of a few samples.

    The bytes are those that ``gbcompress compress`` writes for a safetensors file of the same
    tensors; with ``lossless`` that keeps the file's header, too. The target is exactly one of
    ``ratio``, ``max_bytes``, ``max_error`` and ``lossless``.

    Args:
        tensors: names and NumPy arrays or torch tensors (any device) of any shape up to 8 dimensions;
            bfloat16 and 8-bit floats too. Memory in another order (``channels_last``, transposed) is
            copied. Tensors of the same memory are tied: stored once.
        filename: the file to write; it appears whole or not at all.
        ratio: bytes of the tensors as safetensors over bytes of the file, above 1.
        max_bytes: of the file, at least 1.
        max_error: squared error of every tensor over its squares, or with ``base`` over the squares of
            its change; above 0 and below 1.
        lossless: every tensor bit for bit.
        exact: names that stay bit for bit; ``*`` stands for any characters.
        layers: sizes or errors of matrices of their own, whatever the target, as ``[[layer]]`` tables set them:
            ``{"head.*": {"bits": 4.5}, "*.v_proj.weight": {"max_error": 0.001}}``, bits per weight from 0.1 to 32, or
            the squared error over the squares. The last entry that matches counts. Without ``base``.
        base: the model that these tensors are a change of, such as the last checkpoint: a model file, a
            ``.gbz``, or a folder of either. The change is stored, and the file is loaded with the
            same base.
        statistics: second-order statistics of the weights, as collect() measures them, their dict of
            arrays, or a safetensors file of it: weights are rounded with error feedback, sensitive
            tensors get finer steps. With ``ratio`` or ``max_bytes``, and without ``base``.
        metadata: text kept in the file, as safetensors keeps it. It adds to the file's bytes.
        overwrite: replaces an existing file, but never the base, the statistics, or a file that a tensor
            is mapped from.
        threads: 0: one for each processor. The bytes do not depend on it.

    Returns:
        How every tensor is stored. If the size is unreachable, the smallest possible file is written,
        ``target_met`` is false, and the warning TargetNotMet is given. A UserWarning names a ``base``
        that saves nothing, and an empty change.

    Raises:
        UsageError: an argument of the wrong kind; arguments that contradict each other or have no
            effect; an output that is an input; a tensor of an unknown element type.
        ShapeMismatch: a tensor has another type or shape in the base.
        FileExists: the file exists.
        GbzError: the disk refuses (``code`` ``"io"``).
    """
    return save(
        tensors,
        filename,
        ratio=ratio,
        max_bytes=max_bytes,
        max_error=max_error,
        lossless=lossless,
        exact=exact,
        layers=layers,
        base=base,
        statistics=statistics,
        metadata=metadata,
        overwrite=overwrite,
        threads=threads,
    )


def report_of(report: dict[str, Any]) -> SaveReport:
    """The core's report of a file."""
    fields = {key: value for key, value in report.items() if key != "tensors"}
    return SaveReport(tensors=tuple(StoredTensor(**tensor) for tensor in report["tensors"]), **fields)


def entries_of_statistics(statistics: object) -> list[NamedArray] | None:
    """Raises UsageError for what holds no statistics."""
    if statistics is None:
        return None
    if isinstance(statistics, str | os.PathLike):
        return _core.read_tensors(path(statistics, "statistics"))
    tensors = getattr(statistics, "tensors", statistics)
    if not isinstance(tensors, Mapping):
        raise usage(
            f"statistics must be those of collect(), a dict of arrays, or a file; got {kind_of(statistics)}"
        )
    return to_entries(tensors)


def save(
    tensors: Mapping[str, Array],
    filename: Path,
    *,
    ratio: float | None = None,
    max_bytes: int | None = None,
    max_error: float | None = None,
    lossless: bool = False,
    exact: Sequence[str] = (),
    layers: Layers | None = None,
    base: Path | None = None,
    statistics: object = None,
    use: Mapping[str, float] | None = None,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
    threads: int = 0,
    quiet: bool = False,
    lanes: bool = False,
) -> SaveReport:
    """save_file(), with the fields of the core's StatisticsUse, without warnings where ``quiet``, and of
    profile lanes whatever the size where ``lanes``."""
    _check_tensors(tensors)
    ratio, max_bytes, max_error = _one_target(ratio, max_bytes, max_error, lossless)
    kept = checked_metadata(metadata)
    names = _exact_names(exact, tensors)
    own = checked_layers(layers, tensors, names, lossless)
    if own and base is not None:
        raise usage("layers has no effect on the change since a base; leave out one of them")
    threads = whole(threads, "threads", 0)
    entries = to_entries(tensors)
    before = None if base is None else path(base, "base")
    report = _core.save(
        entries,
        output(filename, overwrite, base=before, statistics=statistics, tensors=tensors),
        ratio=ratio,
        max_bytes=max_bytes,
        max_error=max_error,
        exact=names,
        layers=own,
        base=before,
        statistics=entries_of_statistics(statistics),
        use=dict(use or {}),
        metadata=json.dumps(kept, ensure_ascii=False) if kept else "",
        overwrite=overwrite,
        threads=threads,
        lanes=lanes,
    )
    result = report_of(report)
    if not result.target_met and not quiet:
        warn(result.target_note, TargetNotMet)
    for note in () if quiet else result.notes:
        warn(note, UserWarning)
    return result
