"""Statistics, and the choice of the best file under them, whatever runs the model. No torch."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arguments import checked_ratio, path, positive, whole
from ._errors import usage
from ._files import SaveReport
from ._quality import checked_drop

if TYPE_CHECKING:
    from ._pieces import BlockReport

T = TypeVar("T")

#: Of the batches, the share that chooses between candidates.
_HELD_OUT = 0.2
#: Rows of inputs of one call that count; more are taken evenly spread.
_ROWS = 8192
#: max_drop: the size is found to this factor, between a ratio that is expected to hold and one that is not.
_RESOLUTION, _LOWEST, _HIGHEST = 1.03, 2.0, 64.0


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


@dataclass(frozen=True)
class CalibrationReport:
    """What calibrate() wrote."""

    file: SaveReport  #: of the file
    method: str  #: the candidate that was written
    #: squared error of the outputs on held-out batches over their variance; of logits the KL divergence
    #: in nats per prediction
    error: float
    candidates: dict[str, float]  #: the errors of all
    quality: float | None = None  #: what evaluate returned with the file's weights
    reference: float | None = None  #: what evaluate returned for the model as given
    blocks: tuple[BlockReport, ...] = ()  #: with ``blocks=``: what each became, in order


def size_of(
    given: Mapping[str, object], input_bytes: int, weights: int
) -> int | None:
    """The target in bytes; None for max_drop.

    Args:
        given: ratio, max_bytes, bits and max_drop, as far as the caller has them.
        input_bytes: that the ratio is relative to.
        weights: elements, which bits are relative to.

    Raises:
        UsageError: there is not one, or it is out of range.
    """
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        found = " and ".join(names) if names else "none"
        *most, last = given
        raise usage(f"give one of {', '.join(most)} and {last}; got {found}")
    value = given[names[0]]
    if names[0] == "max_bytes":
        return whole(value, "max_bytes", 1)
    if names[0] == "ratio":
        return int(input_bytes / checked_ratio(value))
    if names[0] == "bits":
        return max(1, int(positive(value, "bits") * weights / 8))
    checked_drop(value)
    return None


def every_row(count: int) -> int:
    """Of so many rows of inputs, every which one counts. The distance and the count have no common divisor,
    so that rows of images or sequences are not all of one column or one time."""
    every = max(1, count // _ROWS)
    while math.gcd(every, count) > 1:
        every += 1
    return every


def held_out(items: Sequence[T]) -> tuple[list[T], list[T]]:
    """Batches to measure on and to choose by; a single one does both."""
    count = min(len(items) - 1, max(1, round(_HELD_OUT * len(items))))
    if count <= 0:
        return list(items), list(items)
    return list(items[:-count]), list(items[-count:])


class Search(Protocol):
    """Writes candidates and keeps the best file of each size."""

    errors: dict[str, float]  #: of the candidates of the last size

    def best(self, folder: str, size: int, end: float | None) -> tuple[str, str, SaveReport]:
        """Name, file and report of the best candidate."""

    def quality(self, file: str) -> float:
        """What evaluate returns for a file."""


def smallest(
    search: Search, folder: str, input_bytes: int, reference: float, max_drop: float, end: float | None
) -> tuple[str, str, SaveReport, float]:
    """The smallest file within the drop, by bisection over the logarithm of the ratio. The target of its
    report is the drop: a size is one that was tried."""
    ratios = _core.BracketSearch.make(
        logarithmic=True, first=_LOWEST, fails=_HIGHEST, resolution=_RESOLUTION
    )
    kept: tuple[str, str, SaveReport, float] | None = None
    best_errors: dict[str, float] = {}
    while (ratio := ratios.next()) is not None:
        place = tempfile.mkdtemp(dir=folder)
        name, file, report = search.best(place, int(input_bytes / ratio), end)
        errors = dict(search.errors)
        quality = search.quality(file)
        last = False
        within = reference - quality <= max_drop
        ratios.tried(ratio, within)
        if within:
            last = not report.target_met
            report = replace(report, target_met=True, target_note="")
            kept, best_errors = (name, file, report, quality), errors
        elif kept is None:
            note = (
                f"max_drop={max_drop:g} is exceeded: the quality drop is {reference - quality:.3g} "
                f"(evaluate returned {reference:.6g} for the model as given), with half of the original "
                "size; give a larger max_drop, or a size"
            )
            return name, file, replace(report, target_met=False, target_note=note), quality
        if last or (end is not None and time.monotonic() > end):
            break
    assert kept is not None
    search.errors = best_errors
    return kept
