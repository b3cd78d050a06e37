"""Post-training quantization of a PyTorch model under statistics of a few batches."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

import torch

from .._arguments import output, path, positive, whole
from .._errors import TargetNotMet, usage, warn
from .._files.arrays import to_entries
from .._files.layers import Layer, Layers, checked_layers
from .._files.save import Path
from .._files.statistics import Statistics
from .._memory import check_memory, memory_errors
from .._quality import checked_quality, checked_reference, quality_of
from .._train.write import original_size
from .collect import Batch, checked_batches, checked_model, kind_of_outputs, measure, needed_memory
from .evaluator import Held, TorchEvaluator, copied_state
from .norms import folded_state
from .outputs import checked_outputs
from .passes import own_buffers
from .recover import Trained, Trainer
from .search import Search, written
from .sequential import Blocks
from .statistics import CalibrationReport, held_out, size_of

#: Advice where memory runs out: without blocks, and with them.
_SMALLER = "give smaller batches, or blocks=True with state=FOLDER, which resumes after the last block"
_RESUMES = "what is finished lies in {}: call again with the same arguments when memory is free"
_NO_STATE = "give state=FOLDER, from which a further call resumes, or smaller batches"


def _reference(
    model: torch.nn.Module, evaluate: Callable[[torch.nn.Module], float] | None, max_drop: float | None
) -> float | None:
    """Quality of the model as given; None without ``evaluate``. Raises UsageError for a drop without it, where no
    drop can be measured, and for a quality that is not finite."""
    if evaluate is None:
        if max_drop is not None:
            raise usage("max_drop needs evaluate, which measures the quality of a model; give both, or a size")
        return None
    with own_buffers(model):
        quality = quality_of(model, lambda: evaluate(model))
    return checked_quality(quality) if max_drop is None else checked_reference(quality, max_drop, "ratio or max_bytes")


def checked_bits(bits: object, tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises UsageError where the tensors take no more bits a weight themselves."""
    reals = [value for value in tensors.values() if value.is_floating_point()]
    stored = 8 * sum(t.numel() * t.element_size() for t in reals) / max(1, sum(t.numel() for t in reals))
    if bits is not None and reals and positive(bits, "bits") >= stored:
        raise usage(
            f"bits must be below the {stored:.4g} bits that the model takes for a weight, got {bits}; "
            "save_file(..., lossless=True) keeps every bit"
        )


def _checked_steps(recover: object, batches: int) -> int:
    """Raises UsageError."""
    steps = whole(recover, "recover", 0)
    if steps and batches < 2:
        raise usage(
            "recover trains on some batches and chooses by others, got a single batch; give several, or leave out "
            "recover"
        )
    return steps


def _request(
    model: torch.nn.Module, given: Mapping[str, object], filename: Path, overwrite: bool, layers: Layers | None
) -> tuple[int | None, str, list[Layer]]:
    """Bytes of the file, its name and the entries of ``layers``, all checked."""
    tensors = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    checked_bits(given["bits"], tensors)
    size = size_of(given, *original_size(model))
    own = checked_layers(layers, tensors)
    return size, output(filename, overwrite, tensors=tensors), own


def _needed(model: torch.nn.Module, importance: bool) -> int:
    """Bytes that calibrate() takes beside the model, about: a copy of the weights, and the statistics."""
    held = [t for t in (*model.parameters(), *model.buffers()) if t.device.type == "cpu"]
    return sum(t.numel() * t.element_size() for t in held) + needed_memory(model, importance)


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
    outputs: Literal["scores", "values"] | None = None,
    recover: int = 0,
    layers: Layers | None = None,
    minutes: float | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> CalibrationReport:
    """Compresses a model to a ``.gbz`` with the help of some inputs, without training.

    Statistics are measured on four fifths of the batches. Candidates (without data, error feedback along
    rows and columns, steps by importance of tensors and rows, biases kept) are compared by the model's
    outputs on the last fifth, batch norms corrected; the one with the least error is written. The model has its own weights
    afterwards.

    Args:
        model: on any device. What torch.compile or DataParallel returns is replaced by the module inside.
        batches: as collect() takes them. With a single batch, it also chooses.
        filename: the file to write; it appears whole or not at all.
        ratio: bytes of ``state_dict()`` as safetensors over bytes of the file.
        max_bytes: of the file.
        bits: of the file, per weight.
        max_drop: the smallest file whose ``evaluate`` is at most this much below the original's, in the
            units of ``evaluate``; the size is found to 3 %.
        evaluate: quality of the model, more is better. With ``ratio``, ``max_bytes`` or ``bits``, it chooses between
            the candidates in place of the outputs' error; with ``max_drop`` too, where outputs of candidates have other
            shapes than the original's, as boxes or durations have.
        statistics: of collect(), instead of measuring them here.
        blocks: quantizes the blocks of a large model one after another: True for the ModuleList with the
            most weights whose modules are of one class, or its path, ``"model.layers"``. The inputs of
            each block are those that the quantized blocks before it give. Memory holds the statistics of
            one block, one activation per batch, and the weights twice. With ``ratio``, ``max_bytes`` or
            ``bits``.
        state: with ``blocks``: a folder for finished blocks. A run that was killed resumes from it with
            the same arguments; the folder may be removed afterwards.
        importance: gradients of the whole model for each batch tell which tensors are sensitive; False
            saves the memory and time of a backward pass, and takes models whose outputs have no gradient.
        outputs: as collect() takes it. Scores are compared by the KL divergence, values by the squared error.
        recover: steps of a training of the written file's vectors, norm weights and biases, after the candidate is
            chosen; 0: none. Each takes one of the batches that statistics are of, and Adam lowers the KL divergence
            from the original's scores, or the squared error of values; integers of matrices stay. The trained
            vectors are written if they lower the error on the last fifth of the batches, with ``evaluate`` only
            within ``max_drop``. A step takes about twice the time of a backward pass of its batch. Not with ``blocks``.
        layers: as save_file() takes them; not with ``blocks``. Matrices with a ``max_error`` of their own are rounded
            without error feedback.
        minutes: no candidate is begun that would end after them, by the time of the longest so far; without
            ``blocks``. The first two, without data and the recommended one, are written in any case; without
            ``minutes``, others while those before have at most 60 million weights together. ``recover`` takes
            at most half of them, with fewer steps if they are short.
        overwrite: replaces an existing file.
        threads: 0: one for each processor.

    Raises:
        UsageError: an argument of the wrong kind, no target or several, an empty ``batches``, batches
            that do not fit the model; ``recover`` of a model without vectors or without gradients, or with a
            single batch; blocks that do not follow each other, or a ``state`` of another
            calibration.
        FileExists: the file exists.
        GbzError: ``code`` ``"non_finite"`` for inputs that are NaN or infinite, ``"limit"`` where memory
            runs out, or fewer bytes are free than weights and statistics take; with ``state``, a further call resumes;
            ``"io"`` where the file cannot be written, before the model runs.
    """
    model = checked_model(model)
    items = checked_batches(batches)
    given = {"ratio": ratio, "max_bytes": max_bytes, "bits": bits, "max_drop": max_drop}
    threads = whole(threads, "threads", 0)
    size, target, own_layers = _request(model, given, filename, overwrite, layers)
    reference = None if blocks else _reference(model, evaluate, max_drop)
    end = None if minutes is None else time.monotonic() + 60 * positive(minutes, "minutes")
    measured, chosen = held_out(items)
    steps = _checked_steps(recover, len(items))
    if not isinstance(importance, bool):
        raise usage(f"importance must be True or False, got {importance!r}")
    if blocks:
        _no_effect_on_blocks(
            max_drop=max_drop, evaluate=evaluate, statistics=statistics, minutes=minutes, recover=steps or None,
            layers=layers
        )
        assert size is not None
        advice = _NO_STATE if state is None else _RESUMES.format(path(state, "state"))
        with memory_errors(advice):
            return _by_blocks(model, measured, chosen, target, size, blocks, state, importance, threads)
    if state is not None:
        raise usage("state belongs to blocks; give blocks=True, or leave it out")
    check_memory(_needed(model, importance), "calibration", _SMALLER)
    with memory_errors(_SMALLER):
        place = os.path.dirname(os.path.abspath(target))
        kind = partial(kind_of_outputs, model, measured, checked_outputs(outputs))
        held = Held(model, chosen, len(items) - len(chosen), kind, place)
        make = _search_of(model, measured, held, statistics, importance, own_layers, threads)
        evaluator = TorchEvaluator(model, measured, held, copied_state(model), True, evaluate, end, max_drop is None and evaluate is not None)
        recoverer = Trained(Trainer(evaluator, steps)) if steps else None
        try:
            report = written(target, partial(make, evaluator), size, max_drop, reference, recoverer)
        finally:
            evaluator.restore()
    if not report.file.target_met:
        warn(report.file.target_note, TargetNotMet)
    return report


def _search_of(
    model: torch.nn.Module, measured: list[Batch], held: Held, statistics: Statistics | None, importance: bool,
    layers: list[Layer], threads: int,
) -> Callable[[TorchEvaluator, str], Search]:  # fmt: skip
    """Measures statistics, unless they are given. Returns what makes the search of an evaluator in a folder."""
    taken = statistics is None
    if statistics is None:
        statistics = measure(model, measured, importance=importance, scores=held.scores)

    def make(evaluator: TorchEvaluator, folder: str) -> Search:
        entries = to_entries(dict(folded_state(model, evaluator.state)))
        return Search(entries, statistics, evaluator, folder, threads, layers=layers, taken=taken)

    return make


def _no_effect_on_blocks(**refused: object) -> None:
    """Raises UsageError for the first argument that is given."""
    for name, value in refused.items():
        if value is not None:
            raise usage(f"{name} has no effect on blocks; leave it out, or leave out blocks")


def _by_blocks(
    model: torch.nn.Module, measured: list[Batch], chosen: list[Batch], target: str, size: int,
    blocks: bool | str, state: Path | None, importance: bool, threads: int,
) -> CalibrationReport:  # fmt: skip
    """calibrate() with ``blocks``, its arguments checked."""
    if not isinstance(blocks, bool | str):
        raise usage(f"blocks must be True or a path of modules, got {blocks!r}")
    place = os.path.dirname(os.path.abspath(target))
    held = Held(model, chosen, len(measured) if measured is not chosen else 0, lambda: False, place)
    originals = copied_state(model)
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
