"""Post-training quantization of a PyTorch model under statistics of a few batches."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from ._arguments import output, path, positive
from ._arrays import Array
from ._collect import Batch, call, called, checked_batches, checked_model, collect, evaluating, outputs_of
from ._errors import TargetNotMet, usage, warn
from ._files import Path, SaveReport, save
from ._load import load_into
from ._norms import corrected_norms, norm_statistics
from ._pieces import owners_of
from ._quality import checked_reference, quality_of
from ._sequential import Blocks
from ._statistics import CANDIDATES, CalibrationReport, Statistics, held_out, size_of, smallest
from ._write import input_bytes


def _is_logits(result: Any) -> bool:
    return isinstance(getattr(result, "logits", None), torch.Tensor)


def _tensors_of(result: Any) -> list[torch.Tensor]:
    if _is_logits(result):
        return [result.logits.detach().float().log_softmax(-1)]
    return [tensor.detach().float() for tensor in outputs_of(result)]


class _Held:
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


def _reference(
    model: torch.nn.Module, evaluate: Callable[[torch.nn.Module], float] | None, max_drop: float | None
) -> float | None:
    """Quality of the model as given; None without a drop. Raises UsageError for one without the other, and
    where no drop can be measured."""
    if (max_drop is None) != (evaluate is None):
        raise usage("max_drop and evaluate belong together; give both or neither")
    if evaluate is None or max_drop is None:
        return None
    return checked_reference(quality_of(model, partial(evaluate, model)), max_drop, "ratio or max_bytes")


def copied_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state dict in memory of its own; names that share memory share it in the copy."""
    state = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    copies: dict[str, torch.Tensor] = {}
    for name, owner in owners_of(state).items():
        copies[name] = state[name].detach().clone() if owner == name else copies[owner]
    return copies


class _Search:
    """Writes candidates and keeps the best file of each size."""

    def __init__(
        self,
        model: torch.nn.Module,
        statistics: Statistics,
        held: _Held,
        evaluate: Callable[[torch.nn.Module], float] | None,
        threads: int,
    ) -> None:
        self.model, self.statistics, self.held, self.threads = model, statistics, held, threads
        self.evaluate = evaluate
        self.state = copied_state(model)
        self.norms = norm_statistics(model, held.batches) if _has_norms(model) else {}
        self.errors: dict[str, float] = {}

    def restore(self) -> None:
        self.model.load_state_dict(self.state)

    def quality(self, file: str) -> float:
        """What evaluate returns for the model with a file's weights."""
        assert self.evaluate is not None
        load_into(self.model, file)
        quality = quality_of(self.model, partial(self.evaluate, self.model))
        self.restore()
        return quality

    def write(self, name: str, use: dict[str, float] | None, filename: str, size: int, norms: bool) -> SaveReport:
        """Writes one candidate and leaves its weights in the model."""
        statistics = None if use is None else self.statistics
        state: dict[str, Array] = dict(self.state)
        report = save(
            state, filename, max_bytes=size, statistics=statistics, use=use, overwrite=True,
            threads=self.threads, quiet=True,
        )  # fmt: skip
        load_into(self.model, filename)
        if not (norms and self.norms):
            return report
        moved = corrected_norms(self.model, self.held.batches, self.norms, self.state)
        state.update(moved)
        exact = sorted(moved)
        report = save(
            state, filename, max_bytes=size, statistics=statistics, use=use, overwrite=True,
            threads=self.threads, exact=exact, quiet=True,
        )  # fmt: skip
        load_into(self.model, filename)
        return report

    def best(self, folder: str, size: int, end: float | None) -> tuple[str, str, SaveReport]:
        """Name, file and report of the candidate with the least error."""
        found: tuple[float, str, str, SaveReport] | None = None
        self.errors = {}
        for norms in (False, True) if self.norms else (False,):
            for name, use in CANDIDATES.items():
                if found is not None and end is not None and time.monotonic() > end:
                    break
                label = name + (", norms corrected" if norms else "")
                filename = os.path.join(folder, f"{len(self.errors)}.gbz")
                report = self.write(name, use, filename, size, norms)
                error = self.held.error(self.model)
                self.errors[label] = error
                if found is None or error < found[0]:
                    found = (error, label, filename, report)
                self.restore()
        assert found is not None
        return found[1], found[2], found[3]


def _has_norms(model: torch.nn.Module) -> bool:
    return any(
        isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None
        for module in model.modules()
    )


def calibrate(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    filename: Path,
    *,
    ratio: float | None = None,
    max_bytes: int | None = None,
    bits: float | None = None,
    max_drop: float | None = None,
    evaluate: Callable[[torch.nn.Module], float] | None = None,
    statistics: Statistics | None = None,
    blocks: bool | str = False,
    state: Path | None = None,
    importance: bool = True,
    minutes: float | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> CalibrationReport:
    """Compresses a model to a ``.gbz`` with the help of some inputs, without training.

    Statistics are measured on four fifths of the batches. Candidates (without data, error feedback,
    steps by importance, norms corrected) are compared by the model's outputs on the last fifth; the one
    with the least error is written. The model has its own weights afterwards.

    Args:
        model: on any device.
        batches: as collect() takes them. With a single batch, it also chooses.
        filename: the file to write; it appears whole or not at all.
        ratio: bytes of ``state_dict()`` as safetensors over bytes of the file.
        max_bytes: of the file.
        bits: of the file, per weight.
        max_drop: the smallest file whose ``evaluate`` is at most this much below the original's, in the
            units of ``evaluate``; the size is found to 3 %.
        evaluate: quality of the model, more is better; with ``max_drop``.
        statistics: of collect(), instead of measuring them here.
        blocks: quantizes the blocks of a large model one after another: True for the ModuleList with the
            most weights whose modules are of one class, or its path, ``"model.layers"``. The inputs of
            each block are those that the quantized blocks before it give. Memory holds the statistics of
            one block, one activation per batch, and the weights twice. With ``ratio``, ``max_bytes`` or
            ``bits``.
        state: with ``blocks``: a folder for finished blocks. A run that was killed resumes from it with
            the same arguments; the folder may be removed afterwards.
        importance: with ``blocks``: gradients of the whole model for each batch tell which tensors are
            sensitive; without them, memory and time of a backward pass are saved.
        minutes: no further candidate is begun after them; without ``blocks``.
        overwrite: replaces an existing file.
        threads: 0: one for each processor.

    Raises:
        UsageError: an argument of the wrong kind, no target or several, an empty ``batches``, batches
            that do not fit the model; blocks that do not follow each other, or a ``state`` of another
            calibration.
        GbzError: ``code`` ``"non_finite"`` for inputs that are NaN or infinite.
    """
    checked_model(model)
    items = checked_batches(batches)
    tensors: dict[str, Array] = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    given = {"ratio": ratio, "max_bytes": max_bytes, "bits": bits, "max_drop": max_drop}
    weights = sum(value.numel() for value in model.state_dict().values())
    size = size_of(given, input_bytes(model), weights)
    target = output(filename, overwrite, tensors=tensors)
    reference = None if blocks else _reference(model, evaluate, max_drop)
    end = None if minutes is None else time.monotonic() + 60 * positive(minutes, "minutes")
    measured, chosen = held_out(items)
    if blocks:
        refused = {"max_drop": max_drop, "evaluate": evaluate, "statistics": statistics, "minutes": minutes}
        for name, value in refused.items():
            if value is not None:
                raise usage(f"{name} has no effect on blocks; leave it out, or leave out blocks")
        assert size is not None
        return _by_blocks(model, measured, chosen, target, size, blocks, state, importance, threads)
    if state is not None or not importance:
        raise usage("state and importance belong to blocks; give blocks=True, or leave them out")
    if statistics is None:
        statistics = collect(model, measured)
    held = _Held(model, chosen, len(items) - len(chosen))
    search = _Search(model, statistics, held, evaluate, threads)
    folder = os.path.dirname(os.path.abspath(target))
    with tempfile.TemporaryDirectory(dir=folder, prefix=".gbcompress-") as temporary:
        try:
            if size is not None:
                name, file, report = search.best(temporary, size, end)
                quality = None
            else:
                assert max_drop is not None and reference is not None
                name, file, report, quality = smallest(
                    search, temporary, input_bytes(model), reference, max_drop, end
                )
        finally:
            search.restore()
        os.replace(file, target)
    if not report.target_met:
        warn(report.target_note, TargetNotMet)
    return CalibrationReport(report, name, search.errors[name], dict(search.errors), quality, reference)


def _by_blocks(
    model: torch.nn.Module, measured: list[Batch], chosen: list[Batch], target: str, size: int,
    blocks: bool | str, state: Path | None, importance: bool, threads: int,
) -> CalibrationReport:  # fmt: skip
    """calibrate() with ``blocks``, its arguments checked."""
    if not isinstance(blocks, bool | str) or not isinstance(importance, bool):
        raise usage(f"blocks must be True or a path of modules, and importance a bool, got {blocks!r}")
    held = _Held(model, chosen, len(measured) if measured is not chosen else 0)
    originals = copied_state(model)
    place = os.path.dirname(os.path.abspath(target))
    with contextlib.ExitStack() as stack:
        if state is None:
            state = stack.enter_context(tempfile.TemporaryDirectory(dir=place, prefix=".gbcompress-"))
        stack.callback(model.load_state_dict, originals)
        work = Blocks(model, blocks, measured, chosen, size, path(state, "state"), importance, threads)
        work.run()
        work.pieces.join(target)
        report = work.pieces.report(target)
        error = held.error(model)
    if not report.target_met:
        warn(report.target_note, TargetNotMet)
    name = "block by block, error feedback"
    return CalibrationReport(report, name, error, {name: error}, blocks=tuple(work.pieces.reports))
