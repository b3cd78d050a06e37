"""Arguments of the public functions: each is checked once, by name, before anything is read."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Mapping
from pathlib import Path as _Path
from typing import Any

from . import _core
from ._errors import exists, usage


def kind_of(value: object) -> str:
    """What a message calls a value: ``"a torch module (Linear)"``, ``"a list"``, ``"None"``."""
    if value is None:
        return "None"
    kind = type(value)
    bases = {f"{base.__module__}.{base.__name__}" for base in kind.__mro__}
    if "torch.nn.modules.module.Module" in bases:
        return f"a torch module ({kind.__name__})"
    if "torch.optim.optimizer.Optimizer" in bases:
        return f"an optimizer ({kind.__name__})"
    if kind.__module__ == "torch" and kind.__name__ in ("Tensor", "Parameter"):
        return "a torch tensor"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, os.PathLike):
        return f"the path {str(value)!r}"
    return f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"


def path(value: object, what: str) -> str:
    """A file's name as text.

    Raises:
        UsageError: it is no path, is empty, or has bytes that no text has.
    """
    if isinstance(value, bytes | bytearray) or not isinstance(value, str | os.PathLike):
        raise usage(f"{what} must be a path, got {kind_of(value)}")
    text = os.fspath(value)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not text:
        raise usage(f"{what} is empty; name a file")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise usage(f"{what} is not UTF-8: {text!r}; rename the file") from None
    if "\0" in text:
        raise usage(f"{what} contains a zero byte: {text!r}; rename the file")
    return text


def paths(value: object, what: str) -> list[str]:
    """path() of one or of several in a list or tuple; None: of none."""
    if value is None:
        return []
    return [path(each, what) for each in value] if isinstance(value, list | tuple) else [path(value, what)]


def real(value: object, what: str) -> float:
    """A finite number. Raises UsageError for anything else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise usage(f"{what} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise usage(f"{what} must be finite, got {value}")
    return float(value)


def positive(value: object, what: str, below: float | None = None) -> float:
    """A number above 0, and below a limit where there is one. Raises UsageError."""
    number = real(value, what)
    if number <= 0 or (below is not None and number >= below):
        limit = "" if below is None else f" and below {below:g}"
        raise usage(f"{what} must be above 0{limit}, got {value}")
    return number


def checked_ratio(value: object) -> float:
    """A ratio of bytes: above 1, because a file of rounded weights has no reason to be larger. Raises UsageError."""
    number = real(value, "ratio")
    if number <= 1:
        raise usage(f"ratio must be above 1, got {value}; save_file(..., lossless=True) keeps every bit")
    return number


def whole(value: object, what: str, least: int) -> int:
    """An integer; ``5e6`` counts as one. Raises UsageError for others and for those below ``least``."""
    number = real(value, what)
    if not number.is_integer():
        raise usage(f"{what} must be an integer, got {value!r}")
    if number < least:
        raise usage(f"{what} must be at least {least}, got {value}")
    if number >= 2**63:
        raise usage(f"{what} must be below 2^63, got {value}")
    return int(value)  # type: ignore[call-overload, no-any-return]  # exact above 2^53 too


def texts(value: object, what: str) -> list[str]:
    """Several names. One text is refused: its letters would be taken for names."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise usage(f"{what} must be a list of names, got {value!r}; write {what}=[{str(value)!r}]")
    items = list(value)
    for item in items:
        if not isinstance(item, str):
            raise usage(f"{what} must be a list of names, got {kind_of(item)} in it")
    return items


def metadata(value: object) -> dict[str, str]:
    """Text by text; nothing for None. Raises UsageError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise usage(f"metadata must be a dict of text, got {kind_of(value)}")
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise usage(f"metadata must map text to text, got {key!r}: {text!r}; convert with str()")
    return dict(value)


def _same_file(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> bool:
    """Device and inode are the same: also through symbolic and hard links."""
    try:
        return os.path.samefile(a, b)
    except (OSError, ValueError):
        return False  # one of them does not exist


def _files_read(source: str) -> Iterable[str | os.PathLike[str]]:
    """A file that is read, and the files of the folder that is read or that an index lies in."""
    yield source
    place = _Path(source)
    folder = place if place.is_dir() else place.parent if source.endswith(".index.json") else None
    if folder is not None:
        try:
            yield from folder.iterdir()
        except OSError:
            return  # who reads it says why


def _address(value: Any) -> int:
    """Of an array's or a CPU tensor's first element; 0 for anything else."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr()) if value.device.type == "cpu" else 0
    interface = getattr(value, "__array_interface__", None)
    return 0 if interface is None else int(interface["data"][0])


def _mapped_from(file: str, tensors: Mapping[str, Any]) -> str | None:
    """The first tensor whose memory is a mapping of that file, by whatever name it was opened."""
    ranges = []
    same: dict[str, bool] = {}
    try:
        maps = _Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return None  # a system without /proc
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or not words[5].startswith("/"):
            continue
        if words[5] not in same:
            same[words[5]] = _same_file(file, words[5])
        if same[words[5]]:
            ranges.append([int(end, 16) for end in words[0].split("-")])
    for name, value in tensors.items() if ranges else ():
        if any(first <= _address(value) < last for first, last in ranges):
            return name
    return None


def output(
    filename: object,
    overwrite: bool,
    *,
    base: str | None = None,
    model: str | None = None,
    statistics: object = None,
    tensors: Mapping[str, Any] | None = None,
) -> str:
    """The name of a file that may be written.

    Args:
        filename: as a caller gave it.
        overwrite: whether an existing file may be replaced.
        base: a file or folder that is read meanwhile.
        model: the file that is compressed.
        statistics: those of a call; a file of them is read too.
        tensors: what is written: arrays and tensors, some of which may be mapped from a file.

    Raises:
        UsageError: it is no path, or it is an input, by whatever name.
        FileExists: it exists and is not to be replaced.
        GbzError: its folder does not exist, or takes no file (``code`` ``"io"``).
    """
    name = path(filename, "filename")
    if not isinstance(overwrite, bool):
        raise usage(f"overwrite must be True or False, got {overwrite!r}")
    if os.path.lexists(name):
        _check_replaced(name, overwrite, base, model, statistics, tensors or {})
    _core.check_writable(name, overwrite)  # before work of hours
    return name


def _check_replaced(
    name: str, overwrite: bool, base: str | None, model: str | None, statistics: object, tensors: Mapping[str, Any]
) -> None:
    """output() of a file that exists."""
    if model is not None and _same_file(name, model):
        raise usage(f"the output {name} is the model itself; write another file")
    if base is not None and any(_same_file(name, file) for file in _files_read(base)):
        raise usage(f"{name} is the base, which is read; write another file")
    if isinstance(statistics, str | os.PathLike) and _same_file(name, statistics):
        raise usage(f"{name} holds the statistics, which are read; write another file")
    if mapped := _mapped_from(name, tensors):
        raise usage(f"{name} is the file that {mapped} is mapped from; write another file")
    if not overwrite:
        raise exists(name)
