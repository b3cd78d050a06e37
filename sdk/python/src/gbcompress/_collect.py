"""Second-order statistics of a PyTorch model's weights, measured by hooks on its modules."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from ._arguments import kind_of, path
from ._arrays import is_module
from ._errors import GbzError, usage, warn
from ._recurrent import joint_inputs

#: Rows of inputs of one call that count; more are taken evenly spread.
_ROWS = 8192
#: Inputs wider than this have no moment: it would take 4 * width^2 bytes.
_WIDEST = 16384

Batch = Any  # a tensor, a tuple of arguments, or a dict of keyword arguments


@dataclass
class Statistics:
    """Second-order statistics of weight matrices, by the names of ``state_dict()``.

    ``tensors`` maps ``NAME.input_moment`` [in, in] (or [groups, in, in]), ``NAME.output_moment``
    [out, out], ``NAME.input_mean`` [in] and ``NAME.row_importance`` [out] to float32 arrays. Of a
    recurrent layer, ``A|B.input_moment`` is the moment of the inputs of both matrices together.
    """

    tensors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    samples: int = 0  #: batches that were seen

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes a safetensors file, as ``gbcompress compress --statistics`` reads it."""
        from safetensors.numpy import save_file

        save_file(self.tensors, path(filename, "filename"))

    @staticmethod
    def load(filename: str | os.PathLike[str]) -> Statistics:
        """Reads what save() wrote."""
        from safetensors.numpy import load_file

        return Statistics(dict(load_file(path(filename, "filename"))))


@dataclass
class _Sums:
    """Of one matrix, on the device of the model."""

    moment: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    rows: int = 0
    transposed: bool = False  #: [in, out]: the moment is one of rows


def call(model: torch.nn.Module, batch: Batch) -> Any:
    """The model's outputs for a batch, whose tensors are moved to the model's device."""
    place = next(model.parameters()).device
    if isinstance(batch, Mapping):
        return model(**{name: _moved(value, place) for name, value in batch.items()})
    if isinstance(batch, tuple | list):
        return model(*(_moved(value, place) for value in batch))
    return model(_moved(batch, place))


def _moved(value: Any, place: torch.device) -> Any:
    return value.to(place) if isinstance(value, torch.Tensor) else value


def outputs_of(result: Any) -> list[torch.Tensor]:
    """All tensors of real numbers in a model's result: a tensor, tuples, dicts, ModelOutput."""
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, Mapping):
        return [tensor for value in result.values() for tensor in outputs_of(value)]
    if isinstance(result, tuple | list):
        return [tensor for value in result for tensor in outputs_of(value)]
    return []


def checked_batches(batches: object) -> list[Batch]:
    """The batches as a list. Raises UsageError for what is none, and for none at all."""
    if isinstance(batches, torch.Tensor | str | Mapping) or not isinstance(batches, Iterable):
        raise usage(
            f"batches must be a list or another iterable of batches, got {kind_of(batches)}; write [batch]"
        )
    items = list(batches)
    if not items:
        raise usage("batches is empty; give some batches of inputs, 64 to 512 samples in all")
    return items


def checked_model(model: object) -> None:
    """Raises UsageError for anything but a module with parameters of real numbers."""
    if not is_module(model):
        raise usage(f"the model must be a torch module, got {kind_of(model)}")
    if next(model.parameters(), None) is None:  # type: ignore[attr-defined]
        raise usage("the model has no parameters; there is nothing to calibrate")


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode for a while: every module gets its own mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


class _Collector:
    """Hooks on every module with a weight matrix, and the sums they fill."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.names: dict[int, str] = {}
        for name, parameter in model.named_parameters():
            self.names.setdefault(id(parameter), name)
        self.sums: dict[str, _Sums] = {}
        self.expected: set[str] = set()
        self._handles: list[Any] = []
        for name, module in model.named_modules():
            hook = self._hook_of(module)
            if hook is None:
                continue
            self._handles.append(module.register_forward_pre_hook(self._guarded(name, hook), with_kwargs=True))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook_of(self, module: torch.nn.Module) -> Callable[..., None] | None:
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.RNNBase):
            return self._recurrent
        if isinstance(module, torch.nn.MultiheadAttention):
            return self._attention if module.in_proj_weight is not None else None
        if not isinstance(weight, torch.nn.Parameter):
            return None
        if isinstance(module, torch.nn.Linear):
            hook = self._linear
        elif isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
            hook = self._convolution
        elif type(module).__name__ == "Conv1D" and weight.ndim == 2:  # of transformers: [in, out]
            hook = self._transposed
        else:
            return None
        self.expected.add(self.names[id(weight)])
        return hook

    def _guarded(self, name: str, hook: Callable[..., None]) -> Callable[..., None]:
        def run(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
            inputs = args[0] if args else next(iter(kwargs.values()), None)
            if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
                return
            if not bool(torch.isfinite(inputs).all()):
                raise GbzError(
                    f"the inputs of {name or 'the model'} are not finite; leave such samples out, or repair "
                    "the model",
                    "non_finite",
                )
            with torch.no_grad(), torch.autocast(inputs.device.type, enabled=False):
                hook(module, inputs.detach(), args, kwargs)

        return run

    def add(self, name: str, rows: torch.Tensor, transposed: bool = False) -> None:
        """Rows of inputs, [count, in] or [groups, count, in]."""
        if rows.shape[-1] > _WIDEST:
            return
        count = rows.shape[-2]
        rows = rows[..., :: max(1, count // _ROWS), :].float()
        sums = self.sums.setdefault(name, _Sums(transposed=transposed))
        moment, mean = rows.mT @ rows, rows.sum(-2)
        sums.moment = moment if sums.moment is None else sums.moment + moment
        sums.mean = mean if sums.mean is None else sums.mean + mean
        sums.rows += rows.shape[-2]

    def _linear(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        self.add(self.names[id(module.weight)], inputs.reshape(-1, inputs.shape[-1]))

    def _transposed(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        self.add(self.names[id(module.weight)], inputs.reshape(-1, inputs.shape[-1]), True)

    def _attention(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        given = (*args, *(kwargs[name] for name in ("query", "key", "value") if name in kwargs))
        if len(given) < 3 or not (given[0] is given[1] is given[2]):
            return  # three inputs of one matrix
        self.add(self.names[id(module.in_proj_weight)], inputs.reshape(-1, inputs.shape[-1]))

    def _convolution(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        rows = convolution_rows(module, inputs)
        self.add(self.names[id(module.weight)], rows[0] if module.groups == 1 else rows)

    def _recurrent(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        for first, second, rows in joint_inputs(module, inputs, args, kwargs):
            pair = f"{self.names[id(first)]}|{self.names[id(second)]}"
            self.add(pair, rows)


def convolution_rows(module: Any, inputs: torch.Tensor) -> torch.Tensor:
    """The values that each output position of a convolution sees, [groups, positions, in]."""
    dims = len(module.kernel_size)
    if inputs.ndim == dims + 1:
        inputs = inputs.unsqueeze(0)
    if isinstance(module.padding, str) or module.padding_mode != "zeros":
        pads = module._reversed_padding_repeated_twice
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        inputs = functional.pad(inputs, pads, mode=mode)
    else:
        inputs = functional.pad(inputs, [pad for size in reversed(module.padding) for pad in (size, size)])
    for axis, (size, stride, dilation) in enumerate(
        zip(module.kernel_size, module.stride, module.dilation, strict=True), start=2
    ):
        inputs = inputs.unfold(axis, dilation * (size - 1) + 1, stride)[..., ::dilation]
    # [n, channels, positions..., kernel...] -> [groups, n * positions, channels of a group * kernel]
    n, channels = inputs.shape[:2]
    positions, kernel = inputs.shape[2 : 2 + dims], inputs.shape[2 + dims :]
    own = channels // module.groups
    every = max(1, n * int(np.prod(positions)) // _ROWS)
    flat = inputs.reshape(n, module.groups, own, int(np.prod(positions)), int(np.prod(kernel)))
    flat = flat.permute(1, 0, 3, 2, 4).reshape(module.groups, -1, own * int(np.prod(kernel)))
    return flat[:, ::every]


def _random_signs(outputs: list[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    """Squares of its gradients are those of all outputs, added up, in expectation."""
    total = outputs[0].new_zeros(())
    for output in outputs:
        signs = torch.randint(0, 2, output.shape, generator=generator, device="cpu")
        total = total + (output * (2 * signs - 1).to(output)).sum()
    return total


def _drawn_labels(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The loss for labels drawn from the model's own distribution: gradients of Fisher information."""
    flat = logits.float().reshape(-1, logits.shape[-1])
    chosen = torch.multinomial(flat.detach().softmax(-1).cpu(), 1, generator=generator).to(flat.device)
    return functional.cross_entropy(flat, chosen[:, 0], reduction="sum")


def _loss_of(result: Any, generator: torch.Generator) -> torch.Tensor:
    logits = getattr(result, "logits", None)
    loss = (
        _drawn_labels(logits, generator)
        if isinstance(logits, torch.Tensor) and logits.ndim >= 2
        else _random_signs(outputs_of(result), generator)
        if outputs_of(result)
        else None
    )
    if loss is None or not loss.requires_grad:
        raise usage(
            "no output of the model depends on its weights by a gradient; give importance=False, or return "
            "the outputs before they are detached"
        )
    return loss


def _importance(
    model: torch.nn.Module, names: dict[int, str], found: dict[str, torch.Tensor]
) -> None:
    """Adds the squared gradients of this batch, row by row."""
    for parameter in model.parameters():
        gradient = parameter.grad
        parameter.grad = None
        if gradient is None or parameter.ndim < 2:
            continue
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        squares = gradient.float().square().flatten(1).sum(1)
        name = names[id(parameter)]
        found[name] = squares + found[name] if name in found else squares


def collect(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    *,
    importance: bool = True,
    loss: Callable[[Any, Batch], torch.Tensor] | None = None,
    seed: int = 0,
) -> Statistics:
    """Measures second-order statistics of a model's weights, for ``save_file(statistics=)``.

    Inputs of linear layers, convolutions, recurrent layers and self-attention are seen by hooks. Other
    matrices, such as embeddings, get their importance alone. The model is evaluated in evaluation mode
    and is not changed.

    Args:
        model: on any device, of any floating type.
        batches: each a tensor, a tuple of arguments, or a dict of keyword arguments. 64 to 512 samples
            suffice as a rule; no labels.
        importance: runs each batch backwards too, which tells sensitive tensors and rows.
        loss: ``loss(outputs, batch)``, summed over samples; unset: labels drawn from ``outputs.logits``
            where there are some, else all outputs count alike.
        seed: of the drawn labels and signs.

    Returns:
        Moments and importance, as float32 arrays. A UserWarning names layers that no batch reached, and
        moments of fewer rows of inputs than they are wide.

    Raises:
        UsageError: no batches; outputs without a gradient.
        GbzError: ``code`` ``"non_finite"`` for inputs of a layer that are NaN or infinite.
    """
    checked_model(model)
    items = checked_batches(batches)
    collector = _Collector(model)
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, torch.Tensor] = {}
    wanted = {p: p.requires_grad for p in model.parameters()}
    gradients = {p: p.grad for p in model.parameters()}
    try:
        with evaluating(model), torch.set_grad_enabled(importance):
            for parameter in model.parameters():
                parameter.requires_grad_(importance and parameter.is_floating_point())
                parameter.grad = None
            for batch in items:
                result = call(model, batch)
                if not importance:
                    continue
                value = loss(result, batch) if loss else _loss_of(result, generator)
                value.backward()  # type: ignore[no-untyped-call]
                _importance(model, collector.names, found)
    finally:
        collector.close()
        for parameter, gradient in gradients.items():
            parameter.requires_grad_(wanted[parameter])
            parameter.grad = gradient
    return _finish(collector, found, len(items))


def _finish(collector: _Collector, found: dict[str, torch.Tensor], count: int) -> Statistics:
    statistics = Statistics(samples=count)

    def put(name: str, tensor: torch.Tensor) -> None:
        statistics.tensors[name] = np.ascontiguousarray(tensor.detach().float().cpu().numpy())

    few = []
    for name, sums in collector.sums.items():
        assert sums.moment is not None and sums.mean is not None
        width = sums.moment.shape[-1]
        if sums.rows < width:
            few.append(f"{name} ({sums.rows} of {width})")
        kind = "output_moment" if sums.transposed else "input_moment"
        put(f"{name}.{kind}", sums.moment / sums.rows)
        if not sums.transposed and "|" not in name:
            put(f"{name}.input_mean", sums.mean / sums.rows)
    matrices = {part for name in collector.sums for part in name.split("|")}
    for name, squares in found.items():
        # Rows of an embedding are tokens, most of which no sample has: one importance for all.
        rows = squares if name in matrices else squares.mean().expand_as(squares)
        put(f"{name}.row_importance", rows / count)
    if unseen := sorted(collector.expected - matrices):
        warn(
            f"no batch reached {', '.join(unseen[:3])}{' and others' if len(unseen) > 3 else ''}; they are "
            "rounded without statistics",
            UserWarning,
        )
    if few:
        warn(
            f"fewer rows of inputs than their width: {', '.join(few[:3])}"
            f"{' and others' if len(few) > 3 else ''}; more samples give better files",
            UserWarning,
        )
    return statistics
