"""What a .gbz file says of itself."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from . import _core
from ._files import Path


@dataclass(frozen=True)
class TensorInfo:
    """What a file says of one tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str  #: "coded", "plain", "constant", "tied", "generated", "residual", "base"
    bits: float  #: of the file, the header apart, for each number
    step: float | None
    tied_to: str | None
    on_base: bool  #: what it says of the tensor is what changed since the file's base
    plugin: str | None  #: layer type that must be built by its plugin, which Python cannot


@dataclass(frozen=True)
class FileInfo:
    """What a file says of itself."""

    file_bytes: int
    output_bytes: int  #: of all tensors, expanded
    identity: str
    arch: str
    profile: str  #: of the integers: "small" or "fast"
    base: str  #: of a delta: digest of the model that it is loaded with; else ""
    settings: dict[str, Any]  #: it was made with; of small files often empty
    metadata: dict[str, str]
    tensors: tuple[TensorInfo, ...]


def inspect(filename: Path) -> FileInfo:
    """What a file holds, tensor by tensor, without making any.

    Raises:
        NotFound, GbzError: as load_file(); layer types without plugin are no error here.
    """
    file = _core.File(os.fspath(filename), None)
    settings = json.loads(file.settings) if file.settings else {}
    metadata = settings.pop("metadata", {})
    entries = file.tensors()
    bits = file.tensor_bits()
    tensors = []
    for entry, total in zip(entries, bits, strict=True):
        numbers = 1
        for side in entry["shape"]:
            numbers *= side
        tied = entry.pop("tied_to")
        tensors.append(
            TensorInfo(
                bits=total / max(numbers, 1),
                tied_to=None if tied is None else entries[tied]["name"],
                **entry,
            )
        )
    return FileInfo(
        file_bytes=file.file_bytes,
        output_bytes=file.output_bytes,
        identity=file.identity,
        arch=file.arch,
        profile=file.profile,
        base=file.base,
        settings=settings,
        metadata=metadata,
        tensors=tuple(tensors),
    )
