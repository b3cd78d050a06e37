"""Uses of statistics that are compared, the recommended one first. No torch."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._statistics import Statistics

MOMENTS = (".input_moment", ".output_moment", ".input_mean")
#: Damping as the core's, and the cost of error feedback up to which it is better than the trellis.
_DAMP, _PAYS, _WIDEST_FACTOR = 0.02, 0.6, 4096
#: Part of each moment that is replaced by the identity of the same mean diagonal.
_SHRINKAGE = 0.25
#: Steps that follow the importance of tensors, and of the rows of recurrent layers: recommended.
STEPS = {"tensor_steps": 1.0, "row_power": 0.0, "joint_row_power": 1.0}
_PLAIN = {"tensor_steps": 0.0, "row_power": 0.0, "joint_row_power": 0.0}
_ROWS = {"tensor_steps": 1.0, "row_power": 1.0, "joint_row_power": 1.0}


@dataclass(frozen=True)
class Candidate:
    """One use of statistics, with the fields of the core's StatisticsUse."""

    name: str
    statistics: Statistics | None = None
    use: dict[str, float] = field(default_factory=dict)

    def without_bias(self) -> Candidate | None:
        """The same without correction of biases; None where none is corrected."""
        if self.statistics is None or not any(n.endswith(".input_mean") for n in self.statistics.tensors):
            return None
        return Candidate(f"{self.name}, biases kept", self.statistics, {**self.use, "bias": 0.0})


#: Needs no statistics.
DATA_FREE = Candidate("data-free")


def without_moments(statistics: Statistics) -> Statistics:
    """The importance alone: integers are chosen as without data, steps are not."""
    kept = {name: value for name, value in statistics.tensors.items() if not name.endswith(MOMENTS)}
    return replace(statistics, tensors=kept)


def feedback_cost(moment: NDArray[np.float32]) -> float:
    """Mean squared error of the outputs under error feedback over that of rounding to nearest: the mean of
    R_jj^2, where R is the upper factor of the damped moment of mean diagonal 1; of groups, their mean."""
    blocks = moment.reshape(-1, *moment.shape[-2:]).astype(np.float64)
    n = blocks.shape[-1]
    if n > _WIDEST_FACTOR:
        return 0.0
    means = np.trace(blocks, axis1=-2, axis2=-1)[:, None, None] / n
    damped = blocks / np.maximum(means, 1e-30) + _DAMP * np.eye(n)
    # The upper factor is the lower one of the reversed matrix, reversed.
    factors = np.linalg.cholesky(damped[:, ::-1, ::-1])
    return float(np.square(np.diagonal(factors, axis1=-2, axis2=-1)).mean())


def costs_of(statistics: Statistics) -> dict[str, float]:
    """feedback_cost() of each moment, by the name of its tensor."""
    return {
        name.rsplit(".", 1)[0]: feedback_cost(value)
        for name, value in statistics.tensors.items()
        if name.endswith(MOMENTS[:2])
    }


def cosines_of(file: str) -> set[str]:
    """Names of the tensors that a file holds as cosines."""
    return {tensor["name"] for tensor in _core.File(file).tensors() if tensor["axis"] >= 0}


def where_feedback_pays(statistics: Statistics, costs: Mapping[str, float], cosines: set[str]) -> Statistics:
    """Without the moments of tensors whose integers are as good without feedback: those are chosen by the
    trellis, and may be cosines.

    Args:
        costs: feedback_cost() of each moment.
        cosines: names of tensors that the data-free file holds as cosines.
    """
    cheap = {
        name
        for name, cost in costs.items()
        if cost > _PAYS or not cosines.isdisjoint(name.split("|"))
    }
    kept = {
        name: value
        for name, value in statistics.tensors.items()
        if not (name.endswith(MOMENTS) and name.rsplit(".", 1)[0] in cheap)
    }
    return replace(statistics, tensors=kept)


def without_cosines(statistics: Statistics, cosines: Container[str]) -> Statistics:
    """Without the moments of tensors that are cosines without data, which take fewer bytes than integers
    under moments; all their rows count alike."""
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, value in statistics.tensors.items():
        if not any(part in cosines for part in name.rsplit(".", 1)[0].split("|")):
            tensors[name] = value
        elif name.endswith(".row_importance"):
            tensors[name] = np.full_like(value, value.mean())
    return replace(statistics, tensors=tensors)


def candidates_of(statistics: Statistics) -> Iterator[Candidate]:
    """What is tried with these statistics besides DATA_FREE, the recommended use first, then in the order of
    what is expected."""
    bare = without_moments(statistics)
    moments = len(bare.tensors) < len(statistics.tensors)
    steps = STEPS if bare.tensors else _PLAIN
    by = ", steps by importance" if bare.tensors else ""
    if moments:
        yield Candidate("error feedback" + by, statistics, steps)
    if bare.tensors and not moments:
        yield Candidate("steps by importance", bare, STEPS)
    if bare.tensors and moments:
        yield Candidate("error feedback, steps of rows by importance", statistics, _ROWS)
    if moments:
        partly = where_feedback_pays(statistics, costs_of(statistics), set())
        if len(bare.tensors) < len(partly.tensors) < len(statistics.tensors):
            yield Candidate("error feedback where it pays" + by, partly, steps)
    if bare.tensors:
        yield Candidate("steps of rows by importance", bare, _ROWS)
    if bare.tensors and moments:
        yield Candidate("error feedback", statistics, _PLAIN)
        yield Candidate("steps by importance", bare, STEPS)
    if moments:
        yield Candidate("error feedback, shrunk moments" + by, statistics, steps | {"shrinkage": _SHRINKAGE})
