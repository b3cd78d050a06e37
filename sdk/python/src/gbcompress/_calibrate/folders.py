"""Folders of Hugging Face's libraries, compressed from Python."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._arguments import kind_of, output, path, texts, whole
from .._errors import TargetNotMet, exists, usage, warn
from .._files.layers import Layer, Layers, checked_layers
from .._files.save import Path, SaveReport, _one_target, report_of

if TYPE_CHECKING:
    from .._files.statistics import Statistics
    from .search import Search
    from .stacks import Part

#: Sentences of one batch where ``data`` is text; fewer where that makes fewer batches than these.
_SENTENCES, _LEAST_BATCHES = 16, 5


@contextlib.contextmanager
def made_folder(folder: str, name: str, overwrite: bool) -> Iterator[str]:
    """The ``.gbz`` to write in a folder that is made if it is missing, and goes again if writing fails.

    Args:
        name: of the file, without its suffix.

    Raises:
        FileExists: the folder holds another one, or is a file.
    """
    place = _Path(folder)
    if place.exists() and not place.is_dir():
        raise exists(folder)
    file = str(place / (name + ".gbz"))
    fresh = not place.is_dir()
    if fresh:
        place.mkdir(parents=True)
    try:
        output(file, overwrite)
        yield file
    except BaseException:
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
        raise


def compress_folder(
    source: Path,
    folder: Path,
    ratio: float | None = None,
    *,
    max_bytes: int | None = None,
    max_error: float | None = None,
    lossless: bool = False,
    data: Iterable[Any] | None = None,
    exact: Sequence[str] = (),
    layers: Layers | None = None,
    overwrite: bool = False,
    threads: int = 0,
) -> SaveReport:
    """Compresses a model folder of Hugging Face's libraries to a folder with a ``.gbz``.

    The result is that of ``gbcompress compress SOURCE -o FOLDER/``: the weights of all shards in one file of their
    name (``model.gbz``, ``adapter_model.gbz``), and beside it the files of configuration and tokenizer, also those in subfolders.
    from_pretrained() of Transformers opens it, and ``gbcompress expand`` makes a folder for other programs.

    Args:
        source: a folder as ``save_pretrained`` of Transformers or sentence-transformers writes it, or a
            file of weights.
        folder: the folder to write. It may exist, without the files that are written.
        ratio: bytes of the weights over bytes of the file; 8 unless another target is given.
        max_bytes: as save_file() takes it.
        max_error: as save_file() takes it.
        lossless: as save_file() takes it.
        exact: as save_file() takes it.
        layers: as save_file() takes them.
        threads: as save_file() takes them.
        data: inputs to calibrate with: sentences, or batches as collect() takes them. Transformers opens
            the model, and torch runs it. As calibrate() does, the use of the statistics is chosen on a
            fifth of the batches, and the file without data is kept where it is better; batch norms keep
            their statistics. Matrices of experts that Transformers stacks are found by their values; a
            UserWarning names matrices that its model does not hold.
        overwrite: replaces the ``.gbz`` and the files beside it.

    Returns:
        How every tensor is stored. A warning TargetNotMet is given as by save_file().

    Raises:
        NotFound: there is no such folder, or it has no weights; one with weights in subfolders alone, such as a
            pipeline of diffusers, is given subfolder by subfolder.
        UsageError: an argument of the wrong kind; a folder that is written into itself; ``data`` with
            ``max_error`` or ``lossless``, or for tensors that the model does not name.
        FileExists: ``folder`` holds a ``.gbz`` of that name or another file that would be written.
    """
    given, target = path(source, "source"), path(folder, "folder")
    if os.path.isdir(target) and os.path.exists(given) and os.path.samefile(given, target):
        raise usage(f"{target} is the folder that is read; write another one")
    if ratio is None and max_bytes is None and max_error is None and lossless is False:
        ratio = 8
    ratio, max_bytes, max_error = _one_target(ratio, max_bytes, max_error, lossless)
    names = [name for name, _, _ in _core.list_tensors(given)]
    globs = texts(exact, "exact")
    for glob in globs:
        if not any(_core.matches_glob(glob, name) for name in names):
            raise usage(f"exact={glob!r} matches no tensor of {given}")
    own = checked_layers(layers, names, globs, lossless)
    threads = whole(threads, "threads", 0)
    if data is not None and ratio is None and max_bytes is None:
        raise usage("data has an effect on a size alone; give ratio or max_bytes")
    name = _core.weights_name(given) if os.path.isdir(given) else "model"
    with made_folder(target, name, overwrite) as file:
        make = None if data is None else _calibration(given, names, data, globs, own, threads)

        def place() -> SaveReport:
            if make is None:
                return _written(given, globs, own, ratio, max_bytes, max_error, threads, file, overwrite)
            with tempfile.TemporaryDirectory(dir=target, prefix=".gbcompress-") as temporary:
                search = make(temporary)
                _, best, report = search.best(max_bytes or int(search.input_bytes / (ratio or 1)))
                os.replace(best, file)
            return report

        beside = os.path.isdir(given)
        result: SaveReport = _core.carry(given, target, overwrite, place, name + ".gbz") if beside else place()
    if not result.target_met:
        warn(result.target_note, TargetNotMet)
    return result


def _written(
    source: str, globs: Sequence[str], layers: Sequence[Layer], ratio: float | None, max_bytes: int | None,
    max_error: float | None, threads: int, file: str, overwrite: bool,
) -> SaveReport:  # fmt: skip
    """One ``.gbz`` of the weights of a folder, without data."""
    return report_of(
        _core.save(
            source, file, ratio=ratio, max_bytes=max_bytes, max_error=max_error, exact=list(globs), layers=layers, base=None,
            statistics=None, use={}, metadata="", overwrite=overwrite, threads=threads,
        )  # fmt: skip
    )


def _calibration(
    source: str, names: Sequence[str], data: Iterable[Any], globs: Sequence[str], layers: Sequence[Layer],
    threads: int,
) -> Callable[[str], Search]:  # fmt: skip
    """The choice of calibrate() among files of a folder. Batch norms keep their statistics."""
    from .._memory import memory_errors
    from .collect import kind_of_outputs, measure
    from .evaluator import Held, TorchEvaluator, copied_state
    from .search import Search
    from .statistics import held_out

    model, items = _batches_of(source, data)
    measured, chosen = held_out(items)
    with memory_errors("give fewer or shorter inputs, or call calibrate() with the model and blocks=True"):
        held = Held(model, chosen, len(items) - len(chosen), lambda: kind_of_outputs(model, measured, None))
        parts = _parts_in(model, source, names)
        found = _stored(measure(model, measured, scores=held.scores), source, names, parts)
        views = {name: part.view for name, part in parts.items()}
        evaluator = TorchEvaluator(model, measured, held, copied_state(model), False, views=views)
        return lambda folder: Search(source, found, evaluator, folder, threads, globs, layers, taken=True)


def _batches_of(source: str, data: Iterable[Any]) -> tuple[Any, list[Any]]:
    """The folder's model, and the data as its batches."""
    from .collect import checked_batches

    if isinstance(data, str):
        raise usage("data must be a list of sentences or batches, got one text; write [text]")
    if not isinstance(data, Iterable):
        raise usage(f"data must be a list of sentences or batches, got {kind_of(data)}")
    items = list(data)
    model, tokenizer = _opened(source, any(isinstance(item, str) for item in items))
    if items and all(isinstance(item, str) for item in items):
        count = max(1, min(_SENTENCES, len(items) // _LEAST_BATCHES))
        items = [
            dict(tokenizer(items[i : i + count], padding=True, truncation=True, return_tensors="pt"))
            for i in range(0, len(items), count)
        ]
    elif any(isinstance(item, str) for item in items):
        raise usage("data has sentences and batches; give one kind")
    return model, checked_batches(items)


def _parts_in(model: Any, source: str, names: Sequence[str]) -> dict[str, Part]:
    """Matrices of the folder that the model holds within stacks. Warns of those that it does not hold at all."""
    from .stacks import parts_of_stacks

    state = model.state_dict()
    others = set(names).difference(state)
    parts = parts_of_stacks(state, _core.read_tensors(source)) if others else {}
    shapes = {name: shape for name, _, shape in _core.list_tensors(source)}
    missing = sorted(name for name in others.difference(parts) if len(shapes[name]) > 1)
    if missing and len(missing) < len(names):
        warn(
            f"the model that Transformers makes of {source} does not hold {', '.join(missing[:3])}"
            f"{' and others' if len(missing) > 3 else ''}; they are rounded without statistics",
            UserWarning,
        )
    return parts


def _stored(found: Statistics, source: str, names: Sequence[str], parts: Mapping[str, Part]) -> Statistics:
    """Statistics of the tensors that the folder's files name as the model does, and of parts of stacks."""
    from .._files.statistics import Statistics

    stored = set(names)
    kept: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = {}
    for key, value in found.tensors.items():
        if all(part in stored for part in key.rsplit(".", 1)[0].split("|")):
            kept[key] = value
    for name, part in parts.items():
        if (rows := found.tensors.get(f"{part.stack}.row_importance")) is not None:
            kept[f"{name}.row_importance"] = part.importance(rows)
    if not kept:
        raise usage(
            f"the weights of {source} have other names than the model that Transformers makes of them "
            f"({names[0]}); call calibrate() with that model"
        )
    return Statistics(kept, found.samples)


def _opened(source: str, sentences: bool) -> tuple[Any, Any]:
    """The model of a folder in the class that its configuration names, and its tokenizer if needed."""
    import transformers

    if not os.path.isdir(source):
        raise usage(f"{source} is no folder, so its model is not known; call calibrate() with the model")
    config = transformers.AutoConfig.from_pretrained(source)
    classes = [getattr(transformers, name, None) for name in (config.architectures or [])]
    cls = next((each for each in classes if each is not None), transformers.AutoModel)
    model = cls.from_pretrained(source)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source) if sentences else None
    if tokenizer is not None and tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer is not None:
        longest = getattr(config, "max_position_embeddings", None)
        if longest:
            tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
    return model.eval(), tokenizer
