"""Statistics and targets, whatever runs the model. No torch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._arguments import checked_ratio, path, positive, whole
from .._errors import usage
from .._files.save import SaveReport
from .._files.statistics import Statistics
from .._quality import checked_drop

if TYPE_CHECKING:
    from .pieces import BlockReport

T = TypeVar("T")

#: Of the batches, the share that chooses between candidates.
_HELD_OUT = 0.2
#: Rows of inputs of one call that count; more are taken evenly spread.
ROWS = 8192


@dataclass(frozen=True)
class Recovery:
    """What training the vectors of the chosen file, by ``recover=``, changed."""

    steps: int  #: that were done; 0: no vector could be trained, a loss was not finite, or there was no time
    before: float  #: error with the file's own vectors
    after: float  #: error with the trained ones; NaN without steps, and where they do not fit into the size
    kept: bool  #: whether the file holds the trained ones


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
    recovery: Recovery | None = None  #: with ``recover=``


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


def every_row(count: int, most: int = ROWS) -> int:
    """Of so many rows of inputs, every which one counts, so that about ``most`` do. The distance and the count have no
    common divisor, so that rows of images or sequences are not all of one column or one time."""
    every = max(1, count // most)
    while math.gcd(every, count) > 1:
        every += 1
    return every


def held_out(items: Sequence[T]) -> tuple[list[T], list[T]]:
    """Batches to measure on and to choose by; a single one does both."""
    count = min(len(items) - 1, max(1, round(_HELD_OUT * len(items))))
    if count <= 0:
        return list(items), list(items)
    return list(items[:-count]), list(items[-count:])
