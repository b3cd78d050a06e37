"""Files of a PyTorch model at one size, and the best of them by its outputs on held-out batches."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import torch

from . import _core
from ._arrays import Array, to_entries
from ._candidates import DATA_FREE, Candidate, candidates_of, cosines_of, without_cosines
from ._collect import Batch, call, called, evaluating, outputs_of
from ._errors import usage
from ._files import SaveReport, save
from ._load import load_into
from ._norms import NORM_BITS, corrected_norms, folded_norms, has_norms, norm_sums
from ._pieces import owners_of
from ._progress import progress
from ._quality import quality_of
from ._statistics import Statistics

#: At a further size so many uses are tried: those with the least errors at the size before.
_KEPT = 3
#: Files are written anew at most so often where norms that fit their integers take more bytes than before.
_NORM_TRIES = 3


def _is_logits(result: Any) -> bool:
    return isinstance(getattr(result, "logits", None), torch.Tensor)


def _tensors_of(result: Any) -> list[torch.Tensor]:
    if _is_logits(result):
        return [result.logits.detach().float().log_softmax(-1)]
    return [tensor.detach().float() for tensor in outputs_of(result)]


class Held:
    """Batches to choose by, with the outputs of the original model.

    Args:
        first: the first one's number among all batches.
    """

    def __init__(self, model: torch.nn.Module, batches: list[Batch], first: int) -> None:
        self.batches = batches
        self.originals = []
        with evaluating(model), torch.no_grad():
            for number, batch in enumerate(batches, first):
                result = called(model, batch, number)
                self.logits = _is_logits(result)
                self.originals.append(_tensors_of(result))
        if not self.originals[0]:
            raise usage("the model returns no tensor of real numbers; calibrate() compares outputs")

    def error(self, model: torch.nn.Module) -> float:
        """Error of the model as it is now."""
        error = variance = 0.0
        with evaluating(model), torch.no_grad():
            for batch, originals in zip(self.batches, self.originals, strict=True):
                for now, before in zip(_tensors_of(call(model, batch)), originals, strict=True):
                    if self.logits:
                        error += float((before.exp() * (before - now)).sum(-1).double().sum())
                        variance += before.numel() / before.shape[-1]
                    else:
                        error += float((now - before).double().square().sum())
                        variance += float((before - before.mean()).double().square().sum())
        return error / variance if variance > 0 else error


def copied_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state dict in memory of its own; names that share memory share it in the copy."""
    state = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    copies: dict[str, torch.Tensor] = {}
    for name, owner in owners_of(state).items():
        copies[name] = state[name].detach().clone() if owner == name else copies[owner]
    return copies


class Writer(Protocol):
    """Writes a file of the model's weights."""

    norms: bool  #: whether norms may be replaced by short floats

    def __call__(self, filename: str, size: int, candidate: Candidate) -> SaveReport: ...


class StateWriter:
    """Writes the state dict that a model had."""

    norms = True

    def __init__(self, state: dict[str, torch.Tensor], threads: int) -> None:
        self.state, self.threads = state, threads

    def __call__(self, filename: str, size: int, candidate: Candidate) -> SaveReport:
        state: dict[str, Array] = dict(self.state)
        return save(
            state, filename, max_bytes=size, statistics=candidate.statistics, use=candidate.use, overwrite=True,
            threads=self.threads, quiet=True,
        )  # fmt: skip


def with_norms(filename: str, report: SaveReport, moved: dict[str, torch.Tensor]) -> SaveReport:
    """Replaces tensors of a file by short floats; its integers stay. Returns the report of the new file."""
    values = [(name, value.detach().float().cpu().flatten().numpy()) for name, value in moved.items()]
    _core.join([filename], filename, _core.File(filename, None).settings, True, values, NORM_BITS)
    file = _core.File(filename, None)
    return dataclasses.replace(report, file_bytes=file.file_bytes, identity=file.identity)


class Search:
    """Writes candidates and keeps the best file of each size.

    Args:
        measured: batches that the statistics are of. Those of norms are measured on them, too: on ``held``
            the moved ones are judged.
        state: of the model as it is, in memory of its own.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        statistics: Statistics,
        measured: list[Batch],
        held: Held,
        state: dict[str, torch.Tensor],
        writer: Writer,
        evaluate: Callable[[torch.nn.Module], float] | None = None,
    ) -> None:
        self.model, self.statistics, self.measured, self.held = model, statistics, measured, held
        self.state, self.writer, self.evaluate = state, writer, evaluate
        self.norms = norm_sums(model, measured) if writer.norms and has_norms(model) else {}
        self._norm_bytes = 0  #: that corrected norms take more than those of the model
        self.errors: dict[str, float] = {}
        self._candidates: list[Candidate] = []  #: of the size before; empty: no size was tried
        self._best: tuple[float, str, str, SaveReport] | None = None

    def restore(self) -> None:
        self.model.load_state_dict(self.state)

    def quality(self, file: str) -> float:
        """What evaluate returns for the model with a file's weights."""
        assert self.evaluate is not None
        load_into(self.model, file, strict=False)
        quality = quality_of(self.model, partial(self.evaluate, self.model))
        self.restore()
        return quality

    def _add(self, label: str, filename: str, report: SaveReport) -> None:
        error = self.held.error(self.model)
        self.errors[label] = error
        if self._best is None or error < self._best[0]:
            self._best = (error, label, filename, report)

    def _try(self, candidate: Candidate, folder: str, size: int) -> float:
        """The least error of the candidate, with norms as they are and moved."""
        filename = os.path.join(folder, f"{len(self.errors)}.gbz")
        report = self.writer(filename, size, candidate)
        load_into(self.model, filename, strict=False)
        self._add(candidate.name, filename, report)
        if candidate is DATA_FREE and not self._candidates:
            self.statistics = without_cosines(self.statistics, cosines_of(filename))
        if not self.norms:
            return self.errors[candidate.name]
        filename = os.path.join(folder, f"{len(self.errors)}.gbz")
        corrected = self._corrected(candidate, filename, size)
        if corrected is None:
            return self.errors[candidate.name]
        label = f"{candidate.name}, norms corrected"
        self._add(label, filename, corrected)
        return min(self.errors[candidate.name], self.errors[label])

    def _corrected(self, candidate: Candidate, filename: str, size: int) -> SaveReport | None:
        """Writes the candidate with norms that fit the file's own integers; the model has its weights then.
        None where no such file of the size was found.

        The norms of other integers, even of the same candidate in a file 1 % larger, do not fit: the shifts
        that they correct are sums of rounding errors."""
        room = size - self._norm_bytes
        for _ in range(_NORM_TRIES):
            report = self.writer(filename, room, candidate)
            load_into(self.model, filename, strict=False)
            moved = corrected_norms(self.model, self.measured, self.norms, self.state)
            before = report.file_bytes
            report = with_norms(filename, report, folded_norms(self.model, self.state, moved))
            self._norm_bytes = max(0, report.file_bytes - before)
            if report.file_bytes <= size or not report.target_met:
                load_into(self.model, filename, strict=False)
                return report
            room = min(room - (report.file_bytes - size), size - self._norm_bytes)
        return None

    def _uses(self) -> Iterator[Candidate]:
        if self._candidates:
            yield from self._candidates
            return
        yield DATA_FREE
        yield from candidates_of(self.statistics)

    def best(self, folder: str, size: int, end: float | None) -> tuple[str, str, SaveReport]:
        """Name, file and report of the candidate with the least error. The file without data and that of
        the recommended use are written whatever the time is."""
        self.errors, self._best = {}, None
        tried: list[tuple[float, Candidate]] = []
        for candidate in progress(self._uses(), "calibration files"):
            if len(tried) >= 2 and end is not None and time.monotonic() > end:
                break
            tried.append((self._try(candidate, folder, size), candidate))
            self.restore()
        tried.sort(key=lambda each: each[0])
        other = tried[0][1].without_bias()
        late = end is not None and time.monotonic() > end
        if other is not None and not late and not self._candidates:
            tried.append((self._try(other, folder, size), other))
            self.restore()
            tried.sort(key=lambda each: each[0])
        self._candidates = [candidate for _, candidate in tried[:_KEPT]]
        assert self._best is not None
        return self._best[1], self._best[2], self._best[3]
