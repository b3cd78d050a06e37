"""Files of an ONNX model at one size, and the best of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

from . import _core
from ._arguments import kind_of
from ._candidates import cosines_of, costs_of, where_feedback_pays, without_moments
from ._errors import usage
from ._files import SaveReport, StoredTensor, _statistics_entries
from ._onnx_session import Held, Model
from ._statistics import Statistics

_WHERE_IT_PAYS = "error feedback where it pays"
_SHRINKAGE = 0.5
_PLAIN = {"tensor_steps": 0.0, "row_power": 0.0, "joint_row_power": 0.0}
_STEPS = {"tensor_steps": 1.0, "row_power": 0.0, "joint_row_power": 0.0}


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
            self.candidates["error feedback, shrunk moments"] = (statistics, _PLAIN | {"shrinkage": _SHRINKAGE})
            if bare.tensors:
                self.candidates["error feedback, steps by importance"] = (statistics, _STEPS)
            self.candidates[_WHERE_IT_PAYS] = (statistics, _STEPS if bare.tensors else _PLAIN)
        self.costs = costs_of(statistics)

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
