"""Compresses neural networks: ``.gbz`` files from tensors, and models that are trained to be small.

    import gbcompress as gbc

    gbc.save_file(model.state_dict(), "m.gbz", ratio=8)
    tensors = gbc.load_file("m.gbz")
    gbc.load_into(model, "m.gbz")
    gbc.inspect("m.gbz")

torch is not imported before it is used; NumPy alone is enough for files.
"""

from ._core import __version__
from ._errors import FileExists, GbzError, NotFound, ShapeMismatch, TargetNotMet, UsageError
from ._files import (
    FileInfo,
    SaveReport,
    StoredTensor,
    TensorInfo,
    inspect,
    iter_file,
    load_file,
    load_into,
    save_file,
)

__all__ = [
    "FileExists",
    "FileInfo",
    "GbzError",
    "NotFound",
    "SaveReport",
    "ShapeMismatch",
    "StoredTensor",
    "TargetNotMet",
    "TensorInfo",
    "UsageError",
    "__version__",
    "inspect",
    "iter_file",
    "load_file",
    "load_into",
    "save_file",
]
