"""ONNX models: compressed without data, calibrated with onnxruntime, expanded.

    import gbcompress as gbc

    gbc.onnx.compress("m.onnx", "m.gbz", ratio=8)                   # without data
    gbc.onnx.calibrate("m.onnx", batches, "m.gbz", ratio=8)         # with some inputs
    gbc.onnx.expand("m.gbz", "m.onnx")
    session = gbc.onnx.session("m.gbz")                             # without a file of full size

The package onnx is not needed; onnxruntime is, by calibrate(), collect() and session().
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _core
from ._arguments import kind_of, output, path, positive, texts, whole
from ._calibrate.search import Search, written
from ._calibrate.statistics import CalibrationReport, held_out, size_of
from ._errors import TargetNotMet, usage, warn
from ._files.save import Path, SaveReport, _one_target, entries_of_statistics, report_of
from ._files.statistics import Statistics
from ._onnx.collect import Ends, check_held, collected
from ._onnx.evaluator import OnnxEvaluator, quality_of
from ._onnx.session import Batch, Held, Model, checked_batches, runtime, session_runtime, started
from ._quality import checked_quality, checked_reference

#: Of the time limit, after which moments and importance must be measured.
_MOMENTS, _IMPORTANCE = 0.2, 0.45

__all__ = ["calibrate", "collect", "compress", "expand", "session"]


def _source(model: object) -> str:
    name = path(model, "model")
    if os.path.exists(name) and not _core.is_onnx(name):
        raise usage(f"{name} is no ONNX model; give the path of one")
    return name


def compress(
    model: Path,
    filename: Path,
    *,
    ratio: float | None = None,
    max_bytes: int | None = None,
    max_error: float | None = None,
    lossless: bool = False,
    exact: Sequence[str] = (),
    statistics: Statistics | Mapping[str, Any] | Path | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> SaveReport:
    """Compresses an ONNX model to a ``.gbz``, without running it.

    Args:
        model: an ONNX file; data in files beside it belong to it.
        filename: the file to write; it appears whole or not at all.
        ratio: bytes of the model's files over bytes of the file.
        max_bytes: of the file.
        max_error: squared error of every weight matrix over the sum of its squares.
        lossless: the expanded file is the original's bit for bit.
        exact: names of constants that stay bit for bit; ``*`` stands for any characters.
        statistics: of collect(), with ``ratio`` or ``max_bytes``.
        overwrite: replaces an existing file.
        threads: 0: one for each processor.

    Returns:
        How every tensor is stored; ``input_bytes`` are those of the model's files.

    Raises:
        NotFound: there is no such model.
        UsageError: an argument of the wrong kind, no target or several.
        FileExists: the file exists.
        GbzError: the model is damaged or holds no weights (``code`` ``"unsupported"``).
    """
    source = _source(model)
    ratio, max_bytes, max_error = _one_target(ratio, max_bytes, max_error, lossless)
    report = _core.save(
        source, output(filename, overwrite, model=source, statistics=statistics), ratio=ratio, max_bytes=max_bytes,
        max_error=max_error, exact=texts(exact, "exact"), base=None,
        statistics=entries_of_statistics(statistics), use={}, metadata="", overwrite=overwrite,
        threads=whole(threads, "threads", 0),
    )  # fmt: skip
    result = report_of(report)
    if not result.target_met:
        warn(result.target_note, TargetNotMet)
    for note in result.notes:
        warn(note, UserWarning)
    return result


def expand(filename: Path, model: Path, *, overwrite: bool = False, threads: int = 0) -> int:
    """Writes the ONNX model that a ``.gbz`` holds, and its files of external data beside it.

    Args:
        filename: a file of compress(), calibrate() or ``gbcompress compress model.onnx``.
        model: the ONNX file to write; it appears whole or not at all.
        overwrite: replaces existing files.
        threads: 0: one for each processor.

    Returns:
        Bytes of the files that were written.

    Raises:
        NotFound: there is no such file.
        UsageError: the file was not made of an ONNX model.
        FileExists: a file that would be written exists.
        GbzError: the file is damaged (``code`` ``"corrupt"``, ``"truncated"``).
    """
    target = output(model, overwrite)
    return _core.expand_container(path(filename, "filename"), target, overwrite, whole(threads, "threads", 0))


def session(filename: Path, options: Any = None, *, threads: int = 0, **kwargs: Any) -> Any:
    """An onnxruntime session of a ``.gbz``, whose weights are decoded into memory that the session uses::

        session = gbc.onnx.session("m.gbz", providers=["CPUExecutionProvider"])
        outputs = session.run(None, {"x": x})

    No file is written. Memory holds the graph and the decoded weights once, as for an ONNX file.

    Args:
        filename: a file of compress(), calibrate() or ``gbcompress compress model.onnx``.
        options: onnxruntime's ``SessionOptions``; they get the weights too, so that they serve one session alone.
        threads: for decoding; 0: one for each processor.
        kwargs: of onnxruntime's ``InferenceSession``: ``providers``, ``provider_options``, ...

    Returns:
        An ``InferenceSession``, which holds the memory of the weights.

    Raises:
        NotFound: there is no such file.
        UsageError: the file was not made of an ONNX model.
        GbzError: the file is damaged (``code`` ``"corrupt"``, ``"truncated"``), as of load_file(); no onnxruntime,
            one older than 1.20, or it does not load the model (``"unsupported"``).
    """
    from ._onnx.memory import Memory

    module = session_runtime()
    memory = Memory(path(filename, "filename"), whole(threads, "threads", 0))
    if options is None:
        options = module.SessionOptions()
    values = [
        module.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind) for kind, array in memory.arrays.values()
    ]
    options.add_external_initializers(list(memory.arrays), values)
    return started(memory.graph, options, os.fspath(filename), [values, memory.arrays], **kwargs)


def collect(
    model: Path,
    batches: Iterable[Batch],
    *,
    importance: bool = True,
    options: Any = None,
    seed: int = 0,
    threads: int = 0,
) -> Statistics:
    """Measures second-order statistics of an ONNX model's weights with onnxruntime.

    The inputs of MatMul, Gemm, Conv, LSTM, GRU, RNN and Attention become outputs of a temporary graph, also
    those within branches of If.

    Args:
        model: an ONNX file.
        batches: each a dict of arrays by the names of inputs, arrays in the order of inputs, or the only
            input. 64 to 512 samples suffice as a rule; no labels.
        importance: tells sensitive tensors by noise on one after another; a session and up to 8 batches each.
        options: onnxruntime's ``SessionOptions``, for models with operators of other libraries.
        seed: of the noise.
        threads: of onnxruntime; 0: one for each processor.

    Returns:
        Moments and importance by the names of the model's constants, as compress() takes them. A UserWarning
        names weights that were not measured, and moments of fewer rows of inputs than they are wide.

    Raises:
        NotFound: there is no such model.
        UsageError: no batches, or one that does not fit the model's inputs.
        GbzError: no onnxruntime, or it does not load the model (``code`` ``"unsupported"``); NaN or infinity
            among the inputs of weights (``"non_finite"``).
    """
    source = _source(model)
    items = checked_batches(batches)
    runtime()
    opened = Model(source, options, whole(threads, "threads", 0))
    return collected(opened, items, importance, seed)


def calibrate(
    model: Path,
    batches: Iterable[Batch],
    filename: Path,
    *,
    ratio: float | None = None,
    max_bytes: int | None = None,
    max_drop: float | None = None,
    evaluate: Callable[[str], float] | None = None,
    statistics: Statistics | None = None,
    importance: bool = True,
    options: Any = None,
    minutes: float | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> CalibrationReport:
    """Compresses an ONNX model to a ``.gbz`` with the help of some inputs, without training.

    Statistics are measured on four fifths of the batches. Candidates, the data-free file among them, are
    expanded and run on the last fifth; the one with the least error of the outputs is written.

    Args:
        model: an ONNX file.
        batches: as collect() takes them. With a single batch, it also chooses.
        filename: the file to write; it appears whole or not at all.
        ratio: bytes of the model's files over bytes of the file.
        max_bytes: of the file.
        max_drop: the smallest file whose ``evaluate`` is at most this much below the original's, in the
            units of ``evaluate``; the size is found to 3 %.
        evaluate: quality of the model in an ONNX file, more is better; gets its path. With ``ratio`` or
            ``max_bytes``, it chooses between the candidates in place of the outputs' error.
        statistics: of collect(), instead of measuring them here.
        importance: as collect() takes it.
        options: as collect() takes them.
        minutes: limit of the time. A fifth of them at most goes to moments, a quarter to importance, of fewer batches
            and in coarser steps where they do not suffice; a candidate that would end later than that, by the time of
            the longest one so far, is not begun. The first two candidates are written in any case. The file then
            depends on the machine. None: others are written while those before have at most 60 million weights together.
        overwrite: replaces an existing file.
        threads: 0: one for each processor.

    Returns:
        The file, the candidate that was chosen, and the error of each: squared error of an output over its
        variance, the mean of all outputs.

    Raises:
        NotFound: there is no such model.
        UsageError: an argument of the wrong kind, no target or several, ``max_drop`` without ``evaluate``,
            no batches, or one that does not fit the model's inputs.
        FileExists: the file exists.
        GbzError: as collect().
    """
    source = _source(model)
    items = checked_batches(batches)
    given = {"ratio": ratio, "max_bytes": max_bytes, "max_drop": max_drop}
    input_bytes = _input_bytes(source)
    size = size_of(given, input_bytes, 0)
    if max_drop is not None and evaluate is None:
        raise usage("max_drop needs evaluate, which measures the quality of a model; give both, or a size")
    if statistics is not None and not isinstance(statistics, Statistics):
        raise usage(f"statistics must be those of collect(), got {kind_of(statistics)}; give Statistics.load(file)")
    target = output(filename, overwrite, model=source)
    seconds, start = None if minutes is None else 60 * positive(minutes, "minutes"), time.monotonic()
    end = None if seconds is None else start + seconds
    ends = None if seconds is None else Ends(start + _MOMENTS * seconds, start + _IMPORTANCE * seconds)
    threads = whole(threads, "threads", 0)
    runtime()
    opened = Model(source, options, threads)
    measured, chosen = held_out(items)
    held = Held(opened, chosen, len(items) - len(chosen))
    check_held(opened, held)
    if statistics is None:
        statistics = collected(opened, measured, importance, 0, ends)
    found = statistics
    reference = None if evaluate is None else quality_of(evaluate, source)
    if reference is not None:
        checked_quality(reference)
    if max_drop is not None:
        assert reference is not None
        checked_reference(reference, max_drop, "ratio or max_bytes")

    def make(folder: str) -> Search:
        evaluator = OnnxEvaluator(opened, held, evaluate, threads, folder, end)
        return Search(source, found, evaluator, folder, threads)

    report = written(target, make, size, max_drop, reference)
    if not report.file.target_met:
        warn(report.file.target_note, TargetNotMet)
    return report


def _input_bytes(source: str) -> int:
    """Bytes of the model's files."""
    return int(_core.onnx_bytes(source))
