"""Compresses neural networks: ``.gbz`` files from tensors, and training to small files.

    import gbcompress as gbc

    gbc.save_file(model.state_dict(), "m.gbz", ratio=8)
    tensors = gbc.load_file("m.gbz")
    gbc.load_into(model, "m.gbz")
    with gbc.open("m.gbz") as file:         # one tensor, or some of its rows
        rows = file.get_slice("embed.weight")[:100]
    gbc.inspect("m.gbz")
    AutoModel.from_pretrained("packed/")     # of Transformers, once this package is imported

    gbc.calibrate(model, batches, "m.gbz", ratio=8)     # without training, better than without data
    gbc.onnx.calibrate("m.onnx", batches, "m.gbz", ratio=8)

    c = gbc.prepare(model, optimizer, rate_weight=0.1, predictions=len(dataset), steps=total)
    ...                                     # the usual loop
    c.save("m.gbz")

Files need NumPy alone; torch is imported when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import delta, onnx
from ._chain import Chain
from ._core import __version__
from ._errors import (
    FileExists,
    GbzError,
    NotFound,
    ShapeMismatch,
    StepsExceeded,
    TargetNotMet,
    UsageError,
)
from ._files import SaveReport, StoredTensor, save_file
from ._folders import compress_folder
from ._inspect import FileInfo, TensorInfo, inspect
from ._load import iter_file, load_file, load_into
from ._open import OpenFile, TensorSlice, open
from ._registration import register_when_imported
from ._statistics import CalibrationReport, Statistics

if TYPE_CHECKING:
    from ._calibrate import calibrate
    from ._collect import collect
    from ._compression import Compression
    from ._pieces import BlockReport
    from ._prepare import Rule, prepare
    from ._synthetic import synthetic_batches
    from ._write import Report, TensorReport

# Without "open": `from gbcompress import *` is not to hide Python's own.
__all__ = [
    "BlockReport",
    "CalibrationReport",
    "Chain",
    "Compression",
    "FileExists",
    "FileInfo",
    "GbzError",
    "NotFound",
    "OpenFile",
    "Report",
    "Rule",
    "SaveReport",
    "ShapeMismatch",
    "Statistics",
    "StepsExceeded",
    "StoredTensor",
    "TargetNotMet",
    "TensorInfo",
    "TensorReport",
    "TensorSlice",
    "UsageError",
    "__version__",
    "calibrate",
    "collect",
    "compress_folder",
    "delta",
    "inspect",
    "iter_file",
    "load_file",
    "load_into",
    "onnx",
    "prepare",
    "save_file",
    "synthetic_batches",
]


register_when_imported()


# Training needs torch, files do not: what comes from these modules is imported when it is asked for.
_LATER = {
    "BlockReport": "_pieces",
    "Compression": "_compression",
    "Report": "_write",
    "Rule": "_prepare",
    "TensorReport": "_write",
    "calibrate": "_calibrate",
    "collect": "_collect",
    "prepare": "_prepare",
    "synthetic_batches": "_synthetic",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "open", "__doc__", "__name__", "__path__", "__file__"])
