"""Second-order statistics as a file. No torch."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._arguments import path


@dataclass
class Statistics:
    """Second-order statistics of weight matrices, by the names of their tensors.

    ``tensors`` maps ``NAME.input_moment`` [in, in] (or [groups, in, in]), ``NAME.output_moment``
    [out, out], ``NAME.input_mean`` [in] and ``NAME.row_importance`` [out] to float32 arrays. Of a
    recurrent layer, ``A|B.input_moment`` is the moment of the inputs of both matrices together.
    """

    tensors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    samples: int = 0  #: batches that were seen

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes a safetensors file, as ``gbcompress compress --statistics`` reads it."""
        from safetensors.numpy import save_file

        save_file(self.tensors, path(filename, "filename"))

    @staticmethod
    def load(filename: str | os.PathLike[str]) -> Statistics:
        """Reads what save() wrote."""
        from safetensors.numpy import load_file

        return Statistics(dict(load_file(path(filename, "filename"))))
