"""The contents of a .gbz file, without decoding."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .. import _core
from .._arguments import path
from .save import Path


@dataclass(frozen=True)
class TensorInfo:
    """How a file stores one tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str  #: "quantized", "exact", "constant", "tied", "generated", "predicted", "base", "change", "pieces", "blocks"
    bits: float  #: of the file without the header, per element
    step: float | None
    tied_to: str | None
    on_base: bool  #: whether the file stores the tensor's change since the base
    plugin: str | None  #: layer type whose plugin is needed to decode it, which Python does not load


@dataclass(frozen=True)
class FileInfo:
    """The contents of a file."""

    file_bytes: int
    output_bytes: int  #: of all tensors, expanded
    draft_bytes: int  #: of a file with layers: of its first part, the draft; else 0
    is_draft: bool  #: whether the file ends behind its draft, so that its values are not exact
    identity: str
    arch: str
    profile: str  #: of the entropy coder: "small" or "lanes"
    bases: tuple[str, ...]  #: of a delta: digests of the models that it is loaded with; else empty
    settings: dict[str, Any]  #: that the file was made with; small files often have none
    metadata: dict[str, str]
    tensors: tuple[TensorInfo, ...]


def inspect(filename: Path) -> FileInfo:
    """The contents of a file, tensor by tensor, without decoding them.

    Args:
        filename: as load_file() takes it; no base is needed.

    Raises:
        NotFound, UsageError, GbzError: as load_file(); a layer type that needs its plugin is no error.
    """
    file = _core.File(_core.artifact_in(path(filename, "filename")), None)
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
        del entry["axis"]  # tells calibrate() alone something
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
        draft_bytes=file.draft_bytes,
        is_draft=file.is_draft,
        identity=file.identity,
        arch=file.arch,
        profile=file.profile,
        bases=tuple(file.bases),
        settings=settings,
        metadata=metadata,
        tensors=tuple(tensors),
    )
