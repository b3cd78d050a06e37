"""Training without end-to-end backpropagation: the strategies of the program, for a ``torch.nn.Sequential``.

    import gbcompress as gbc

    result = gbc.strategies.al(model, (inputs, labels), epochs=20, validation=(test_inputs, test_labels))
    result.accuracy                                 # percent, on the validation set
    result.layers["0"]["bridge_loss"].values        # of a layer, step by step

The strategies are plugins of the command ``gbcompress`` with LibTorch. These functions write weights and data to
temporary files, run the command, and copy the trained weights into the model, bit for bit.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._arguments import kind_of, positive, real, whole
from ._errors import usage
from ._files.arrays import is_torch
from ._files.load import load_file
from ._program import found_program, run_program

if TYPE_CHECKING:
    import torch

    from ._train.architecture import Architecture

__all__ = ["Curve", "StrategyResult", "al", "dtp"]

#: Inputs and labels.
Samples: TypeAlias = "tuple[Any, Any]"

#: Settings that arguments of the functions stand for.
_ARGUMENTS = {
    "strategy.name": "the function",
    "train.epochs": "epochs=",
    "train.batch": "batch=",
    "train.seed": "seed=",
    "train.threads": "threads=",
    "optim.plain_lr": "lr=",
    "optim.plain_weight_decay": "weight_decay=",
    "optim.plain_optimizer": "optimizer=",
    "optim.schedule": "schedule=",
}


@dataclass(frozen=True)
class Curve:
    """A measure over the steps of a run. Of more than 512 steps a point is the mean of several."""

    steps: NDArray[np.float64]  #: [points], from 1; the mean step of a point
    values: NDArray[np.float64]  #: [points]


@dataclass(frozen=True)
class StrategyResult:
    """What a strategy measured."""

    #: Percent of the validation set that the trained model classifies correctly; None without one.
    accuracy: float | None
    #: The same of the model as it was given.
    accuracy_before: float | None
    #: Percent of the validation set whose label is among the five highest scores; None without one, and for five classes
    #: and fewer.
    top5: float | None
    #: Measures of the whole model: ``"loss"`` (cross-entropy of the batch), ``"train_accuracy_percent"``,
    #: ``"train_top5_percent"``; of ``dtp`` ``"feedback_loss"`` (sum over layers) and ``"delta"`` (distance of the
    #: output's target); with ``settings={"train.measure_epochs": N}`` ``"test_accuracy_percent"`` and, of more than five
    #: classes, ``"test_top5_percent"`` of the validation set every N epochs.
    curves: dict[str, Curve]
    #: Measures of each stage, by the path of its first Linear or Conv2d in the model: of ``dtp`` ``"target_loss"``,
    #: ``"feedback_loss"`` and, with ``diagnose``, ``"cosine"``, ``"angle"``, ``"distance"``; of ``al``
    #: ``"bridge_loss"``, ``"code_loss"`` and, with ``exits``, ``"exit_accuracy"``, of a component by its first stage.
    layers: dict[str, dict[str, Curve]]
    arch: str  #: what ``--arch`` of the command line is for this model
    seconds: float  #: of the program's run


def dtp(
    model: torch.nn.Sequential,
    data: Samples,
    *,
    validation: Samples | None = None,
    epochs: int = 20,
    batch: int = 64,
    lr: float | None = None,
    weight_decay: float | None = None,
    optimizer: str | None = None,
    schedule: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
    program: Any = None,
    verbose: bool = False,
    **options: Any,
) -> StrategyResult:
    """Trains a model by difference target propagation, in place.

    Args:
        model: a Sequential of Linear, Conv2d, BatchNorm1d, BatchNorm2d, ReLU, ELU, Tanh, Sigmoid, MaxPool2d,
            AdaptiveAvgPool2d, Flatten, Identity, and of Sequentials of them. Each Linear or Conv2d begins a stage, which
            learns from one target; a Sequential within it is one stage.
        data: inputs, float32 [rows, ...], and labels, integers [rows] from 0; tensors or NumPy arrays.
        validation: the same; the accuracy on it is measured before and after training.
        epochs: passes over the data, 1 or more.
        batch: rows of a step, 1 or more.
        lr: learning rate of the model's parameters; 0.001 unless it is given.
        weight_decay: of the model's parameters, 0 or more; 0 unless it is given.
        optimizer: ``"adamw"`` (the default) or ``"sgd"``.
        schedule: of the learning rate: ``"one_cycle"`` (the default), ``"constant"``, ``"cosine"``,
            ``"epoch_cosine"``, ``"step"``.
        seed: of the order of the data, of first values and noise, 0 or more.
        threads: of the program; as many as torch has unless it is given.
        settings: other settings of the command line by their full names: ``{"train.flip": True}``,
            ``{"optim.plain_momentum": 0.95}``.
        program: the command ``gbcompress`` with LibTorch; that of the package gbcompress_train or the one on the PATH
            unless it is given.
        verbose: the program's progress goes to standard error.
        **options: those of the strategy, as ``strategy.KEY`` of the command line: ``K=[20, 30]``, ``sigma=0.1``.

    Returns:
        What was measured. The model has the trained weights and statistics.

    Raises:
        UsageError: a layer that the program cannot build, with its path and class; data that do not fit the model; an
            unknown option; or there is no program. The model is as it was.
        GbzError: the program failed, with its message and code.
    """
    return _trained("dtp", locals())


def al(
    model: torch.nn.Sequential,
    data: Samples,
    *,
    validation: Samples | None = None,
    epochs: int = 20,
    batch: int = 64,
    lr: float | None = None,
    weight_decay: float | None = None,
    optimizer: str | None = None,
    schedule: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
    program: Any = None,
    verbose: bool = False,
    **options: Any,
) -> StrategyResult:
    """Trains a model by associated learning, in place.

    Arguments, result and errors are those of ``dtp``. ``lr`` is the learning rate of the model's parameters; that of
    bridges and autoencoders, the strategy's own ``lr``, is ``settings={"strategy.lr": 0.001}``. Options are
    ``split=[1, 2]``, ``widths=32``, ``bridge=128``, ``codes="sigmoid"`` and the others of the strategy. Bridges and
    autoencoders are not kept.
    """
    return _trained("al", locals())


def _trained(strategy: str, given: Mapping[str, Any]) -> StrategyResult:
    """A run of a strategy. ``given`` has the arguments of ``dtp`` or ``al`` by their names."""
    run = _Run(given["model"], given["data"], given["validation"], given["settings"], given["program"], given["verbose"])
    run.set("optim.plain_lr", given["lr"], real)
    run.set("optim.plain_weight_decay", given["weight_decay"], real)
    run.set("optim.plain_optimizer", given["optimizer"], _name)
    run.set("optim.schedule", given["schedule"], _name)
    return run.train(strategy, given["epochs"], given["batch"], given["seed"], given["threads"], given["options"])


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise usage(f"{what} must be a text, got {kind_of(value)}")
    return value


def _text(value: object, what: str) -> str:
    """A value of a setting as the command line takes it. Raises UsageError."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(_text(each, what) for each in value)
    if isinstance(value, str):
        return value
    number = real(value, what)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _checked_samples(samples: object, what: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Raises UsageError."""
    if not isinstance(samples, tuple | list) or len(samples) != 2:
        raise usage(f"{what} must be inputs and labels, got {kind_of(samples)}; give (inputs, labels)")
    arrays = [each.detach().cpu().numpy() if is_torch(each) else np.asarray(each) for each in samples]
    inputs, labels = arrays
    if inputs.dtype != np.float32 or inputs.ndim < 2:
        raise usage(f"inputs of {what} must be float32 [rows, ...], got {inputs.dtype} {list(inputs.shape)}")
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise usage(f"labels of {what} must be integers [rows], got {labels.dtype} {list(labels.shape)}")
    if not len(inputs) or len(inputs) != len(labels):
        raise usage(f"{what} has {len(inputs)} inputs and {len(labels)} labels; give one label for each input")
    return np.ascontiguousarray(inputs), np.ascontiguousarray(labels, dtype=np.int64)


def _write_safetensors(file: _Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        dtype = {"float32": "F32", "int64": "I64"}[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            out.write(np.ascontiguousarray(array).data)


class _Run:
    """One call: everything is checked before the program starts, and the model changes after it has succeeded."""

    def __init__(
        self, model: Any, data: object, validation: object, settings: object, program: object, verbose: bool
    ) -> None:
        from ._train.architecture import architecture_of

        self._inputs, self._labels = _checked_samples(data, "data")
        self._validation = None if validation is None else _checked_samples(validation, "validation")
        self._arch: Architecture = architecture_of(model, self._inputs.shape[1:])
        for name, tensor in self._arch.tensors.items():
            if str(tensor.dtype).removeprefix("torch.") not in ("float32", "int64"):
                raise usage(f"{name} is {tensor.dtype}; a strategy trains float32, so use model.float()")
        self._check_outputs(model)
        if settings is not None and not isinstance(settings, Mapping):
            raise usage(f"settings must map names to values, got {kind_of(settings)}")
        self._settings = {str(key): _text(value, str(key)) for key, value in (settings or {}).items()}
        for key in self._settings:
            if key in _ARGUMENTS:
                raise usage(f"settings has {key}; {_ARGUMENTS[key]} sets it")
        if self._validation is None and self._settings.get("train.measure_epochs", "0") != "0":
            raise usage("train.measure_epochs measures the validation set while training; give validation")
        self._program, self._verbose = found_program(program), bool(verbose)

    def _check_outputs(self, model: Any) -> None:
        """Inputs and labels beside what the model gives for two rows; statistics of a batch need more than one."""
        import torch

        from ._calibrate.collect import evaluating

        device = next(model.parameters()).device
        parts = [("data", self._inputs, self._labels)]
        if self._validation is not None:
            parts.append(("validation", *self._validation))
        for what, inputs, labels in parts:
            if inputs.shape[1:] != self._inputs.shape[1:]:
                raise usage(f"inputs of {what} have shape {list(inputs.shape[1:])}, those of data have "
                            f"{list(self._inputs.shape[1:])}")  # fmt: skip
            with evaluating(model), torch.no_grad():
                try:
                    scores = model(torch.from_numpy(inputs[[0, -1]]).to(device))
                except (RuntimeError, ValueError) as error:  # ValueError: of BatchNorm
                    raise usage(f"the model cannot take inputs of shape {list(inputs.shape[1:])}: "
                                f"{str(error).splitlines()[0]}") from error  # fmt: skip
            if scores.ndim != 2:
                raise usage(f"the model gives {list(scores.shape[1:])} for an input; a strategy needs scores of classes, "
                            "[rows, classes]")  # fmt: skip
            low, high = int(labels.min()), int(labels.max())
            if low < 0 or high >= scores.shape[1]:
                raise usage(f"a label of {what} is {low if low < 0 else high}; the model has {scores.shape[1]} classes, "
                            f"0 to {scores.shape[1] - 1}")  # fmt: skip

    def set(self, key: str, value: object, check: Any) -> None:
        """A setting that has an argument of its own, unless it is None."""
        if value is not None:
            self._settings[key] = _text(check(value, _ARGUMENTS[key].removesuffix("=")), key)

    def train(
        self, strategy: str, epochs: object, batch: object, seed: object, threads: object, options: Mapping[str, Any]
    ) -> StrategyResult:
        import torch

        self.set("train.batch", batch, lambda value, what: whole(value, what, 1))
        self.set("train.threads", torch.get_num_threads() if threads is None else threads,
                 lambda value, what: whole(value, what, 1))  # fmt: skip
        call = ["--arch", self._arch.arch, "--strategy", strategy, "--mode", "exact", "--set", "train.loss=task"]
        call += ["--epochs", str(whole(epochs, "epochs", 1)), "--seed", str(whole(seed, "seed", 0))]
        settings = {"train.shift": "0", "train.flip": "no"} | self._settings
        for key, value in options.items():
            if f"strategy.{key}" in settings:
                raise usage(f"{key} is given twice, as an argument and in settings; give it once")
            settings[f"strategy.{key}"] = _text(value, key)
        for key, value in settings.items():
            call += ["--set", f"{key}={value}"]
        with tempfile.TemporaryDirectory(prefix="gbcompress-") as folder:
            place = _Path(folder)
            weights = {name: tensor.detach().cpu().numpy() for name, tensor in self._arch.tensors.items()}
            _write_safetensors(place / "model.safetensors", weights)
            _write_safetensors(place / "data.safetensors", self._data())
            files = ["compress", str(place / "model.safetensors"), "-o", str(place / "model.gbz")]
            files += ["--data", f"tensors:{place / 'data.safetensors'}"]
            told = run_program(self._program, [*files, *call], self._verbose)
            trained = load_file(place / "model.gbz", framework="torch")
        with torch.no_grad():
            for name, tensor in self._arch.tensors.items():
                tensor.copy_(trained[name])
        return self._result(told, strategy)

    def _data(self) -> dict[str, NDArray[Any]]:
        # Without a test set of its own the program would take some of the data.
        rows = [0, -1]  # two, for statistics of a batch
        inputs, labels = (self._inputs[rows], self._labels[rows]) if self._validation is None else self._validation
        return {"inputs": self._inputs, "targets": self._labels, "test_inputs": inputs, "test_targets": labels}

    def _places(self, strategy: str, told: Mapping[str, Any]) -> dict[str, str]:
        """Paths in the model, by what follows the point in the names of curves: of ``al`` the number of a component, of
        ``dtp`` the program's name of a stage."""
        if strategy != "al":
            return self._arch.stages
        names = list(self._arch.stages.values())
        words = told["settings"]["strategy"]["options"] or ""
        split = dict(word.split("=", 1) for word in words.split()).get("split")
        sizes = [int(each) for each in split.split(",")] if split else [1] * (len(names) - 1)
        firsts = itertools.accumulate(sizes[:-1], initial=0)
        return {str(number): names[first] for number, first in enumerate(firsts, 1)}

    def _result(self, told: Mapping[str, Any], strategy: str) -> StrategyResult:
        places = self._places(strategy, told)
        curves: dict[str, Curve] = {}
        layers: dict[str, dict[str, Curve]] = {name: {} for name in self._arch.stages.values()}
        for each in told["curves"]:
            curve = Curve(np.array(each["x"], np.float64), np.array(each["y"], np.float64))
            measure, _, of = each["name"].partition(".")
            if of in places:
                layers[places[of]][measure] = curve
            else:
                curves[each["name"]] = curve
        metric = told["metric"] if self._validation is not None else {"after": None, "before": None}
        return StrategyResult(
            accuracy=metric["after"],
            accuracy_before=metric["before"],
            top5=metric.get("top5_after"),
            curves=curves,
            layers={name: measures for name, measures in layers.items() if measures},
            arch=self._arch.arch,
            seconds=float(told["seconds"]),
        )
