"""Compresses neural networks: ``.gbz`` files from tensors, and models that are trained to be small.

    import gbcompress as gbc

    gbc.save_file(model.state_dict(), "m.gbz", ratio=8)
    tensors = gbc.load_file("m.gbz")
    gbc.load_into(model, "m.gbz")
    gbc.inspect("m.gbz")

    c = gbc.prepare(model, optimizer, price=0.03, predictions=len(dataset), steps=total)
    ...                                     # the usual loop
    c.save("m.gbz")

torch is not imported before it is used; NumPy alone is enough for files.
"""

from typing import TYPE_CHECKING, Any

from ._core import __version__
from ._errors import FileExists, GbzError, NotFound, ShapeMismatch, TargetNotMet, UsageError
from ._files import (
    SaveReport,
    StoredTensor,
    iter_file,
    load_file,
    load_into,
    save_file,
)
from ._inspect import FileInfo, TensorInfo, inspect

if TYPE_CHECKING:
    from ._compression import Compression
    from ._prepare import Rule, prepare
    from ._write import TensorReport

__all__ = [
    "Compression",
    "FileExists",
    "FileInfo",
    "GbzError",
    "NotFound",
    "Rule",
    "SaveReport",
    "ShapeMismatch",
    "StoredTensor",
    "TargetNotMet",
    "TensorInfo",
    "TensorReport",
    "UsageError",
    "__version__",
    "inspect",
    "iter_file",
    "load_file",
    "load_into",
    "prepare",
    "save_file",
]


def __getattr__(name: str) -> Any:
    # What trains needs torch, which files do not.
    if name == "Compression":
        from . import _compression

        return _compression.Compression
    if name in ("Rule", "prepare"):
        from . import _prepare

        return getattr(_prepare, name)
    if name == "TensorReport":
        from . import _write

        return _write.TensorReport
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
