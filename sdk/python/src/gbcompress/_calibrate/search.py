"""The best file of a size, and the smallest within a drop, by the core's Calibration. No torch."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .. import _core
from .._files.layers import Layer
from .._files.save import SaveReport, entries_of_statistics, report_of
from .._files.statistics import Statistics
from .._progress_bar import progress
from .compare import OtherShapes, warn_if_incomparable
from .statistics import CalibrationReport, Recovery

#: max_drop: the size is found to this factor, between a ratio that is expected to hold and one that is not.
_RESOLUTION, _LOWEST, _HIGHEST = 1.03, 2.0, 64.0


class Evaluator:
    """What every evaluator has: time and progress. Others add error() and refitted()."""

    def __init__(self, end: float | None) -> None:
        self.end = end
        self._begun = time.monotonic()  # of the candidate that is made
        self.longest = 0.0  #: seconds of a candidate
        self._bar = iter(progress(itertools.count(), "calibration files"))

    def limited(self) -> bool:
        """Whether time() may end."""
        return self.end is not None

    def time(self) -> bool:
        """Whether a further candidate of a size may be begun."""
        return self.in_time()

    def in_time(self) -> bool:
        """Whether the longest candidate so far would end in time."""
        return self.end is None or time.monotonic() + self.longest <= self.end

    def tell(self, name: str, file_bytes: int, error: float) -> None:
        now = time.monotonic()
        self.longest, self._begun = max(self.longest, now - self._begun), now
        next(self._bar)

    def quality(self, file: str) -> float | None:
        """What chooses between candidates in place of their error."""
        return None

    def takes_over(self) -> bool:
        """Makes quality() choose from now on, where errors cannot. False: it does already, or there is none."""
        return False

    def sequential(self) -> Any:
        """The model, to be quantized layer by layer (a LayerSequence); None: it cannot be."""
        return None

    def evaluated(self, file: str) -> float:
        """What the caller's ``evaluate`` returns for the model in a file."""
        raise NotImplementedError


class Search:
    """The best file at each of several sizes.

    Args:
        source: tensors as entries, or the path of a model.
        evaluator: with error() and refitted().
        folder: for files of candidates.
        taken: the statistics belong to the search, which leaves them empty: the core has a copy.
    """

    def __init__(
        self,
        source: Sequence[Any] | str,
        statistics: Statistics,
        evaluator: Evaluator,
        folder: str,
        threads: int,
        exact: Sequence[str] = (),
        layers: Sequence[Layer] = (),
        taken: bool = False,
    ) -> None:
        entries = entries_of_statistics(statistics)
        self._core = _core.Calibration(source, entries or [], evaluator, folder, list(exact), threads, list(layers))
        if taken:
            statistics.tensors.clear()
        self.evaluator = evaluator
        self.errors: dict[str, float] = {}
        self.measured: float | None = None  #: quality of the best, where it chose

    @property
    def input_bytes(self) -> int:
        return self._core.input_bytes

    def best(self, size: int) -> tuple[str, str, SaveReport]:
        """Name, file and report of the candidate with the least error. Raises OtherShapes."""
        try:
            found: dict[str, Any] = self._core.best(size)
        except OtherShapes:
            if not self.evaluator.takes_over():
                raise
            found = self._core.best(size)
        self.errors, self.measured = found["candidates"], found["quality"]
        return found["method"], found["file"], report_of(found["report"])


def smallest(search: Search, reference: float, max_drop: float) -> tuple[str, str, SaveReport, float]:
    """The smallest file within the drop, by bisection over the logarithm of the ratio. The target of its
    report is the drop: a size is one that was tried.

    Args:
        reference: what ``evaluate`` returned for the model as given.
    """
    ratios = _core.BracketSearch.make(
        logarithmic=True, first=_LOWEST, fails=_HIGHEST, resolution=_RESOLUTION
    )
    kept: tuple[str, str, SaveReport, float] | None = None
    best_errors: Mapping[str, float] = {}
    while (ratio := ratios.next()) is not None:
        name, file, report = search.best(int(search.input_bytes / ratio))
        errors = dict(search.errors)
        quality = search.evaluator.evaluated(file)
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
        if last or not search.evaluator.in_time():
            break
    assert kept is not None
    search.errors = dict(best_errors)
    return kept


@dataclass
class Chosen:
    """A file, and what is known of it."""

    file: str
    report: SaveReport
    error: float
    quality: float | None = None  #: what ``evaluate`` returned


class Recoverer(Protocol):
    """Changes the file that was chosen."""

    def room(self, size: int) -> int:
        """Bytes that are left free for it in a file of that size."""

    def recovered(self, chosen: Chosen, size: int | None, worst: float | None, folder: str) -> Recovery:
        """Replaces the fields of ``chosen``, if its error falls.

        Args:
            size: of the file at most; None: any.
            worst: quality at least.
        """


def _best(search: Search, size: int, recoverer: Recoverer | None) -> tuple[str, str, SaveReport]:
    """The best file of a size, with room for the recovery."""
    if recoverer is not None and (room := recoverer.room(size)) > 0:
        found = search.best(size - room)
        if found[2].target_met:
            return found
    return search.best(size)


def written(
    target: str,
    make: Callable[[str], Search],
    size: int | None,
    max_drop: float | None,
    reference: float | None,
    recoverer: Recoverer | None = None,
) -> CalibrationReport:
    """Writes the best file of a size, or the smallest within a drop, to ``target``.

    Args:
        make: the search, whose files lie in that folder.
    """
    place = os.path.dirname(os.path.abspath(target))
    recovery, worst = None, None
    with tempfile.TemporaryDirectory(dir=place, prefix=".gbcompress-") as folder:
        search = make(folder)
        if size is not None:
            name, file, report = _best(search, size, recoverer)
            quality = worst = search.measured
        else:
            assert max_drop is not None and reference is not None
            name, file, report, quality = smallest(search, reference, max_drop)
            worst = min(quality, reference - max_drop)
        chosen = Chosen(file, report, search.errors[name], quality)
        if recoverer is not None:
            recovery = recoverer.recovered(chosen, size, worst, folder)
        os.replace(chosen.file, target)
    if chosen.quality is None:
        warn_if_incomparable(chosen.error)
    errors = dict(search.errors)
    return CalibrationReport(
        chosen.report, name, chosen.error, errors, chosen.quality, reference, recovery=recovery
    )
