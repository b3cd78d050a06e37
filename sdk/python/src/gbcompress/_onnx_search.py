"""Files of an ONNX model at one size, and the best of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arguments import kind_of
from ._errors import usage
from ._files import SaveReport, StoredTensor, _statistics_entries
from ._onnx_session import Held, Model
from ._statistics import Statistics

_MOMENTS = (".input_moment", ".output_moment", ".input_mean")
#: Damping as the core's, and the cost of error feedback up to which it is better than the trellis.
_DAMP, _PAYS, _WIDEST_FACTOR = 0.02, 0.6, 4096
_SHRINKAGE = 0.5
_WHERE_IT_PAYS = "error feedback where it pays"
_PLAIN = {"tensor_steps": 0.0, "row_power": 0.0, "joint_row_power": 0.0}
_STEPS = {"tensor_steps": 1.0, "row_power": 0.0, "joint_row_power": 0.0}


def without_moments(statistics: Statistics) -> Statistics:
    """The importance alone: integers are chosen as without data, steps are not."""
    kept = {name: value for name, value in statistics.tensors.items() if not name.endswith(_MOMENTS)}
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
        if not (name.endswith(_MOMENTS) and name.rsplit(".", 1)[0] in cheap)
    }
    return replace(statistics, tensors=kept)


def shrunk(statistics: Statistics) -> Statistics:
    """With half of each moment replaced by the identity of the same mean diagonal: moments of few samples
    overstate how much the inputs depend on each other."""
    tensors = dict(statistics.tensors)
    for name, value in tensors.items():
        if name.endswith(_MOMENTS[:2]):
            means = np.trace(value, axis1=-2, axis2=-1)[..., None, None] / value.shape[-1]
            identity = means * np.eye(value.shape[-1])
            tensors[name] = ((1 - _SHRINKAGE) * value + _SHRINKAGE * identity).astype(np.float32)
    return replace(statistics, tensors=tensors)


class OnnxSearch:
    """Writes candidates and keeps the best file of each size.

    Args:
        evaluate: the quality of an ONNX file, by which candidates are compared; or None: by the error of
            their outputs.
        folder: for temporary files.
    """

    def __init__(
        self,
        model: Model,
        statistics: Statistics,
        held: Held,
        evaluate: Callable[[str], float] | None,
        threads: int,
        folder: str,
    ) -> None:
        self.model, self.held, self.evaluate, self.threads = model, held, evaluate, threads
        self.folder = folder
        self.errors: dict[str, float] = {}
        self.qualities: dict[str, float] = {}
        self.count = 0
        bare = without_moments(statistics)
        self.candidates: dict[str, tuple[Statistics | None, dict[str, float]]] = {"data-free": (None, {})}
        if bare.tensors:
            self.candidates["steps by importance"] = (bare, _STEPS)
        if len(bare.tensors) < len(statistics.tensors):
            self.candidates["error feedback"] = (statistics, _PLAIN)
            self.candidates["error feedback, shrunk moments"] = (shrunk(statistics), _PLAIN)
            if bare.tensors:
                self.candidates["error feedback, steps by importance"] = (statistics, _STEPS)
            self.candidates[_WHERE_IT_PAYS] = (statistics, _STEPS if bare.tensors else _PLAIN)
        self.costs = {
            name.rsplit(".", 1)[0]: feedback_cost(value)
            for name, value in statistics.tensors.items()
            if name.endswith(_MOMENTS[:2])
        }

    def write(self, file: str, size: int, statistics: Statistics | None, use: dict[str, float]) -> SaveReport:
        """Writes one candidate."""
        report: dict[str, Any] = _core.save(
            self.model.path, file, ratio=None, max_bytes=size, max_error=None, exact=[], base=None,
            statistics=_statistics_entries(statistics), use=use, metadata="", overwrite=True, threads=self.threads,
        )  # fmt: skip
        report.pop("base_note")
        stored = tuple(StoredTensor(**tensor) for tensor in report.pop("tensors"))
        return SaveReport(tensors=stored, **report)

    def expanded(self, file: str) -> str:
        """The path of the ONNX model that a file holds, which the next call replaces."""
        # External data lie beside it under their own names.
        model = os.path.join(self.folder, "expanded", os.path.basename(self.model.path))
        os.makedirs(os.path.dirname(model), exist_ok=True)
        _core.expand_container(file, model, True, self.threads)
        return model

    def quality_of(self, model: str) -> float:
        """What evaluate returns for an ONNX file. Raises UsageError for anything but a number."""
        assert self.evaluate is not None
        value = self.evaluate(model)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise usage(f"evaluate must return a number, got {kind_of(value)}") from None

    def quality(self, file: str) -> float:
        return self.quality_of(self.expanded(file))

    def best(self, folder: str, size: int, end: float | None) -> tuple[str, str, SaveReport]:
        """Name, file and report of the candidate with the most quality, or the least error, of those that have
        the size where any has."""
        found: tuple[tuple[bool, float, float], str, str, SaveReport] | None = None
        self.errors, self.qualities = {}, {}
        cosines: set[str] = set()
        for name, (statistics, use) in self.candidates.items():
            if found is not None and end is not None and time.monotonic() > end:
                break
            if name == _WHERE_IT_PAYS and statistics is not None:
                every, statistics = statistics, where_feedback_pays(statistics, self.costs, cosines)
                if len(statistics.tensors) in (len(every.tensors), len(without_moments(every).tensors)):
                    continue  # the same as an earlier one
            self.count += 1
            file = os.path.join(folder, f"{self.count}.gbz")
            report = self.write(file, size, statistics, use)
            if statistics is None:
                cosines = cosines_of(file)
            model = self.expanded(file)
            self.errors[name] = self.held.error_of(model)
            if self.evaluate is not None:
                self.qualities[name] = self.quality_of(model)
            quality = self.qualities.get(name, 0.0)
            worse = math.inf if math.isnan(quality) else -quality
            score = (not report.target_met, worse, self.errors[name])
            if found is None or score < found[0]:
                found = (score, name, file, report)
        assert found is not None
        return found[1], found[2], found[3]
