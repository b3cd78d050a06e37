"""ONNX models run by onnxruntime, which is imported when it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._arguments import kind_of
from .._calibrate.compare import check_some_finite, finite, squared_error
from .._errors import GbzError, usage
from .._files.arrays import is_torch
from .graph import Graph, Path, Tap, tap_name
from .moments import Use, uses_of

if TYPE_CHECKING:
    import torch

#: A batch as callers give it: inputs by name, in their order, or the only one.
Batch: TypeAlias = Union[
    "Mapping[str, NDArray[Any] | torch.Tensor]", "Sequence[NDArray[Any] | torch.Tensor]", "NDArray[Any]", "torch.Tensor"
]
Feeds: TypeAlias = "dict[str, NDArray[Any]]"

_REAL = ("tensor(float)", "tensor(float16)", "tensor(double)")
_FOLDER = "session.model_external_initializers_file_folder_path"


def runtime(what: str = "calibration of ONNX models") -> Any:
    """The module onnxruntime, which is needed for that. Raises GbzError where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise GbzError(
            f"{what} needs onnxruntime, which is not installed; "
            "gbcompress.onnx.compress() and expand() do not; run pip install onnxruntime",
            "unsupported",
        ) from None
    return onnxruntime


def session_runtime() -> Any:
    """The module onnxruntime with what sessions from memory call. Raises GbzError for one that lacks it."""
    module = runtime("a session")
    for owner, name in (("SessionOptions", "add_external_initializers"), ("OrtValue", "ortvalue_from_numpy_with_onnx_type")):
        if not hasattr(getattr(module, owner, None), name):
            raise GbzError(
                f"a session needs onnxruntime 1.20 or later, and {getattr(module, '__version__', 'this one')} has no "
                f"{owner}.{name}; run pip install 'onnxruntime>=1.20'",
                "unsupported",
            )
    return module


def checked_batches(batches: object) -> list[Batch]:
    """The batches as a list. Raises UsageError for what is none, and for none at all."""
    single = isinstance(batches, str | bytes | Mapping | np.ndarray) or is_torch(batches)
    if single or not isinstance(batches, Iterable):
        raise usage(
            f"batches must be a list or another iterable of batches, got {kind_of(batches)}; write [batch]"
        )
    items = list(batches)
    if not items:
        raise usage("batches is empty; give some batches of inputs, 64 to 512 samples in all")
    return items


def _array(value: Any, what: str) -> NDArray[Any]:
    if is_torch(value):
        value = value.detach().cpu().numpy()
    if not isinstance(value, np.ndarray | np.generic):
        raise usage(f"{what} must be a NumPy array or a torch tensor, got {kind_of(value)}; convert it")
    return np.asarray(value)


def feeds_of(batch: Batch, names: Sequence[str], number: int) -> Feeds:
    """A batch by the names of the model's inputs. Raises UsageError for other names or counts."""
    what = f"batch {number}"
    if isinstance(batch, Mapping):
        unknown = [str(name) for name in batch if name not in names]
        if unknown:
            raise usage(
                f"{what} has the input {unknown[0]!r}, which the model lacks; its inputs are {', '.join(names)}"
            )
        given = dict(batch)
    else:
        values: Any = [batch] if is_torch(batch) or isinstance(batch, np.ndarray) else batch
        if not isinstance(values, tuple | list):
            raise usage(
                f"{what} must be a dict of arrays, a tuple of arrays, or one array, got {kind_of(batch)}; give the "
                "inputs by their names"
            )
        if len(values) > len(names):
            raise usage(
                f"{what} has {len(values)} inputs, and the model has {len(names)} ({', '.join(names)}); give one "
                "array for each"
            )
        given = dict(zip(names, values, strict=False))
    if missing := [name for name in names if name not in given]:
        raise usage(f"{what} lacks the input {missing[0]!r}; the inputs of the model are {', '.join(names)}")
    return {name: _array(value, f"the input {name!r} of {what}") for name, value in given.items()}


def called(session: Any, outputs: Sequence[str], feeds: Feeds, number: int) -> list[NDArray[Any]]:
    """Outputs of a session. Raises UsageError for inputs that do not fit the model."""
    try:
        found: list[NDArray[Any]] = session.run(list(outputs), feeds)
        return found
    except MemoryError:
        raise
    except Exception as error:  # those of onnxruntime have no class in common
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        shapes = ", ".join(f"{name}: {value.dtype} {list(value.shape)}" for name, value in feeds.items())
        raise usage(
            f"batch {number} ({shapes}) does not fit the model: {first}; give batches as the model takes them"
        ) from error


def started(data: bytes, options: Any, name: str, kept: Any = None, **kwargs: Any) -> Any:
    """A session of a model.

    Args:
        name: of the model, for the error.
        kept: what lives as long as the session.
        kwargs: of InferenceSession.
    """
    try:
        session = runtime().InferenceSession(data, options, **kwargs)
    except Exception as error:  # those of onnxruntime have no class in common
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise GbzError(
            f"onnxruntime does not load {name}: {first}; give options= that register the libraries of "
            "its operators, or a newer onnxruntime",
            "unsupported",
        ) from error
    session._gbcompress_kept = kept
    return session


class Model:
    """An ONNX file, its graph, and sessions of it and of its variants.

    Args:
        filename: of the model.
        options: onnxruntime's SessionOptions, for models with operators of other libraries; or None.

    Raises:
        NotFound: there is no such file.
        GbzError: it is no ONNX model, holds no weights (``code`` ``"unsupported"``) or is damaged.
    """

    def __init__(self, filename: str, options: Any, threads: int) -> None:
        self.path, self.threads, self._options = filename, threads, options
        tensors = _core.list_tensors(filename)  # says why a file cannot be read
        if not _core.is_onnx(filename):
            raise usage(f"{filename} is no ONNX model; give the path of one")
        self.dtypes = {name: dtype for name, dtype, _ in tensors}
        self.shapes = {name: shape for name, _, shape in tensors}
        with open(filename, "rb") as file:
            self.data = file.read()
        self._external = _core.onnx_bytes(filename) != len(self.data)
        self.graph = Graph(self.data)
        self.seen = _core.onnx_graph(filename)
        self.uses: list[Use] = uses_of(self.graph, self.seen, self.shapes)
        session = self.session(self.data)
        self.inputs = [each.name for each in session.get_inputs()]
        real = [each.name for each in session.get_outputs() if each.type in _REAL]
        self._compared = real or self._last_values()
        self._tapped = not real

    def session(self, data: bytes, folder: str | None = None) -> Any:
        """A session of these bytes.

        Args:
            folder: of external data; None: the model's.
        """
        module = runtime()
        options = self._options
        if options is None:
            options = module.SessionOptions()
            options.log_severity_level = 4  # errors are raised
            # Threads that wait would take the processors of those that compress meanwhile.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if self.threads:
            options.intra_op_num_threads = self.threads
        if self._external:
            beside = folder or os.path.dirname(os.path.abspath(self.path))
            options.add_session_config_entry(_FOLDER, beside)
        return started(data, options, self.path, providers=["CPUExecutionProvider"])

    def _last_values(self) -> list[str]:
        """What is compared where no output is of real numbers: the result of the last weights."""
        main = [use.node for use in self.uses if not use.graph and use.node.output(0)]
        if not main:
            raise usage(
                "the model has no output of real numbers; calibration compares outputs, remove what "
                "encodes them from the graph"
            )
        return [main[-1].output(0)]

    def comparable(self, data: bytes, folder: str | None) -> tuple[Any, list[str]]:
        """A session of a variant of the model, and the names of the outputs to compare."""
        if not self._tapped:
            return self.session(data, folder), self._compared
        taps = [Tap((), value, tap_name(n)) for n, value in enumerate(self._compared)]
        return self.session(Graph(data).with_outputs(taps, {}), folder), [tap.name for tap in taps]

    def tapped(
        self,
        values: Sequence[tuple[Path, str]],
        named: dict[tuple[Path, int], str],
        end: int | None = None,
        shapes: bool = False,
        data: bytes | None = None,
    ) -> tuple[Any, list[str]]:
        """A session that gives values inside of the graph, or their shapes, and their names as outputs.

        Args:
            end: as Graph.with_outputs() takes it.
            data: a variant of the model; None: itself.
        """
        taps = [Tap(path, value, tap_name(n), shapes) for n, (path, value) in enumerate(values)]
        graph = self.graph if data is None else Graph(data)
        return self.session(graph.with_outputs(taps, named, end)), [tap.name for tap in taps]

    def feeds(self, batch: Batch, number: int) -> Feeds:
        return feeds_of(batch, self.inputs, number)


class Held:
    """Batches with the outputs of the original model, to compare others with.

    Args:
        first: the first one's number among all batches.
    """

    def __init__(self, model: Model, batches: Sequence[Batch], first: int = 0) -> None:
        self.model = model
        self.feeds = [model.feeds(batch, number) for number, batch in enumerate(batches, first)]
        self.first = first
        self.originals = self._outputs(model.data)
        self.variances, self._count = [], 0
        for values in zip(*self.originals, strict=True):
            some = np.concatenate([value[finite(value)] for value in values])
            mean = float(some.sum()) / max(some.size, 1)
            self.variances.append(float(np.square(some - mean).sum()))
            self._count += some.size

    def suspects(self) -> list[tuple[int, Feeds]]:
        """Numbers and inputs of the batches in which an input or an output of the original is NaN or infinite. Masks
        may be; inputs of weights may not."""
        found = []
        for number, (feeds, values) in enumerate(zip(self.feeds, self.originals, strict=True), self.first):
            given = [value for value in feeds.values() if value.dtype.kind == "f"]
            if not all(finite(value).all() for value in (*given, *values)):
                found.append((number, feeds))
        return found

    def check_some(self) -> None:
        """Raises GbzError where no entry of the outputs can be compared."""
        check_some_finite(self._count, sum(value.size for values in self.originals for value in values))

    def _outputs(self, data: bytes, folder: str | None = None) -> list[list[NDArray[np.float64]]]:
        session, names = self.model.comparable(data, folder)
        return [
            [np.asarray(value, np.float64) for value in called(session, names, feeds, number)]
            for number, feeds in enumerate(self.feeds, self.first)
        ]

    def error_of(self, filename: str) -> float:
        """error() of a variant of the model in a file, with external data of its own."""
        with open(filename, "rb") as file:
            return self.error(file.read(), os.path.dirname(filename))

    def error(self, data: bytes, folder: str | None = None) -> float:
        """Squared error of each output over its variance, the mean of all outputs. Entries that are not
        finite in the original, masks as a rule, do not count where the variant has the same."""
        errors = [0.0] * len(self.variances)
        for outputs, originals in zip(self._outputs(data, folder), self.originals, strict=True):
            for n, (now, before) in enumerate(zip(outputs, originals, strict=True)):
                same = now.shape == before.shape
                wrong = now if same else np.where(finite(before), 0, before)  # of another shape all of it is
                with np.errstate(all="ignore"):
                    errors[n] += squared_error(before, wrong)
        shares = [e / v if v > 0 else e for e, v in zip(errors, self.variances, strict=True)]
        return sum(shares) / max(len(shares), 1)
