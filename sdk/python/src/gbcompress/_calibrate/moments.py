"""Moments of the inputs of weight matrices, added up by hooks on modules."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from .._errors import GbzError, warn
from .attention import arguments_of, mixed_values
from .recurrent import cell_inputs, joint_inputs
from .statistics import every_row

#: Columns that are multiplied at a time.
_BLOCK = 256
#: Inputs wider than this have no moment: it would take 4 * width^2 bytes.
_WIDEST = 16384


@dataclass
class Sums:
    """Of one matrix, on the device of the model."""

    moment: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    rows: int = 0
    transposed: bool = False  #: [in, out]: the moment is one of rows


def products(rows: torch.Tensor) -> torch.Tensor:
    """``rows.mT @ rows``, [..., in, in]; of wide rows only what lies on one side of the diagonal is multiplied."""
    width = rows.shape[-1]
    if rows.ndim != 2 or width < 2 * _BLOCK:
        return rows.mT @ rows
    found = torch.empty(width, width, dtype=rows.dtype, device=rows.device)
    for first in range(0, width, _BLOCK):
        end = min(first + _BLOCK, width)
        torch.mm(rows[:, first:end].T, rows[:, first:], out=found[first:end, first:])
        found[end:, first:end] = found[first:end, end:].T
    return found


def moment_bytes(model: torch.nn.Module) -> int:
    """What the moments of a model's inputs take, about: those of matrices with the last sides as inputs."""
    widths = (parameter[0].numel() for parameter in model.parameters() if parameter.ndim >= 2 and len(parameter))
    return sum(4 * width * width for width in widths if width <= _WIDEST)


def check_parameters(parameters: Iterable[tuple[str, torch.Tensor]], masks: bool = False) -> None:
    """Raises GbzError for the first parameter that is not finite, of pairs of names and parameters.

    Args:
        masks: infinities are no error, as those of a mask.
    """
    for name, parameter in parameters:
        if not parameter.is_floating_point():
            continue
        if bool(torch.isnan(parameter).any()) or not (masks or bool(torch.isfinite(parameter).all())):
            raise GbzError(f"{name} holds NaN or infinity; repair the model first", "non_finite")


class Enough(BaseException):
    """Ends a forward pass whose further layers are not needed. It is no error, which a model might catch."""


class Collector:
    """Hooks on every module with a weight matrix, and the sums they fill.

    Args:
        prefix: of the names of the module's parameters within the model: ``"layers.3."``.
        only: full names of the modules that are hooked; None: all.
    """

    def __init__(
        self, model: torch.nn.Module, prefix: str = "", only: Container[str] | None = None
    ) -> None:
        # Parameters of scripted modules are kept alive, or their ids would be others' later.
        self._parameters = [(prefix + name, parameter) for name, parameter in model.named_parameters()]
        self.names: dict[int, str] = {}
        for name, parameter in self._parameters:
            self.names.setdefault(id(parameter), name)
        self.sums: dict[str, Sums] = {}
        self.counts: dict[str, torch.Tensor] = {}  #: of embeddings: how often each row was read
        self.expected: set[str] = set()
        self.differing: set[str] = set()
        self._handles: list[Any] = []
        self._called: list[str] = []  # modules with a hook that the last forward pass has called
        self._hooked = 0  # modules with a hook
        self._last: str | None = None  # ends a pass
        #: What tells the last input from others, itself, its moment, sum and rows.
        self._input: tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, int] | None = None
        if not isinstance(model, torch.jit.ScriptModule):
            self._handles.append(model.register_forward_pre_hook(lambda *_: self._called.clear()))
        # Fused attention calls no module, and gives the hooks nested tensors.
        self._fast: bool = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        scripted: dict[int, Callable[..., None]] = {}
        for name, module in model.named_modules():
            full = f"{prefix}{name}".rstrip(".")
            hook = self._hook_of(module) if only is None or full in only else None
            if hook is None:
                continue
            guarded = self._guarded(full, hook)
            self._hooked += 1
            if isinstance(module, torch.jit.ScriptModule):
                scripted[id(module)] = guarded
            else:
                self._handles.append(module.register_forward_pre_hook(guarded, with_kwargs=True))
        if scripted:
            self._handles.append(_on_scripted(scripted))

    def close(self) -> None:
        torch.backends.mha.set_fastpath_enabled(self._fast)
        self._input = None
        for handle in self._handles:
            handle.remove()

    @contextlib.contextmanager
    def up_to_the_last(self) -> Iterator[None]:
        """Ends a forward pass at the last module that has a hook, where the pass before called each of them and
        that one once."""
        every = len(set(self._called)) == self._hooked > 0
        self._last = self._called[-1] if every and self._called.count(self._called[-1]) == 1 else None
        try:
            yield
        except Enough:
            pass
        finally:
            self._last = None

    def _hook_of(self, module: torch.nn.Module) -> Callable[..., None] | None:
        kind, weights = _kind_of(module), ["weight"]
        if kind in ("LSTM", "GRU", "RNN"):
            hook, weights = self._recurrent, [f"weight_ih_l{i}" for i in range(module.num_layers)]  # type: ignore[arg-type]
        elif kind.endswith("Cell"):
            hook, weights = self._cell, ["weight_ih", "weight_hh"]
        elif kind == "MultiheadAttention":
            hook, weights = self._attention, ["in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"]
        elif kind in ("Embedding", "EmbeddingBag"):
            return self._embedding if id(module.weight) in self.names else None
        elif kind == "Linear":
            hook = self._linear
        elif kind.startswith("ConvTranspose"):
            hook = self._transposed_convolution
        elif kind in ("Conv1d", "Conv2d", "Conv3d"):
            hook = self._convolution
        elif kind == "Conv1D" and getattr(module.weight, "ndim", 0) == 2:  # of transformers: [in, out]
            hook = self._transposed
        else:
            return None
        found = [self.names.get(id(getattr(module, weight, None))) for weight in weights]
        if not any(found):
            return None  # weights that are computed, such as those of parametrizations
        self.expected.update(name for name in found if name)
        return hook

    def _guarded(self, name: str, hook: Callable[..., None]) -> Callable[..., None]:
        def run(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
            inputs = args[0] if args else next(iter(kwargs.values()), None)
            if not isinstance(inputs, torch.Tensor):
                return
            if inputs.is_floating_point() and not bool(torch.isfinite(inputs).all()):
                check_parameters(self._parameters)
                raise GbzError(
                    f"the inputs of {name or 'the model'} are not finite; leave such samples out, or repair "
                    "the model",
                    "non_finite",
                )
            if inputs.is_floating_point() == (hook == self._embedding):
                return
            with torch.no_grad(), torch.autocast(inputs.device.type, enabled=False):
                hook(module, inputs.detach(), args, kwargs)
            self._called.append(name)
            if name == self._last:
                raise Enough

        return run

    def add(self, name: str, rows: torch.Tensor, transposed: bool = False) -> None:
        """Rows of inputs, [count, in] or [groups, count, in]."""
        if rows.shape[-1] > _WIDEST:
            return
        # Several matrices read one input, one after another: queries, keys and values.
        known = (rows.data_ptr(), rows.shape, rows.stride(), rows.dtype, rows._version)
        if self._input is None or self._input[0] != known:
            some = rows[..., :: every_row(rows.shape[-2]), :].float()
            # The rows are kept, so that no other input takes their place in memory.
            self._input = known, rows, products(some), some.sum(-2), some.shape[-2]
        _, _, moment, mean, count = self._input
        self.add_moment(name, moment, mean, count, transposed)

    def add_moment(
        self, name: str, moment: torch.Tensor, mean: torch.Tensor, count: int, transposed: bool = False
    ) -> None:
        """Sums over ``count`` rows."""
        sums = self.sums.setdefault(name, Sums(transposed=transposed))
        if self._differs(name, sums, moment, transposed):
            return
        if sums.moment is None or sums.mean is None:
            # In memory of their own: other matrices may have the same input.
            sums.moment, sums.mean = moment.clone(), mean.clone()
        else:
            sums.moment += moment
            sums.mean += mean
        sums.rows += count

    def _differs(self, name: str, sums: Sums, moment: torch.Tensor, transposed: bool) -> bool:
        """Whether modules that share a weight see it as different matrices, which no moment describes."""
        if name in self.differing:
            return True
        if sums.moment is None or (sums.moment.shape == moment.shape and sums.transposed == transposed):
            return False
        warn(
            f"{name} is used by modules with different inputs ({list(sums.moment.shape)} and "
            f"{list(moment.shape)}); it is rounded without a moment",
            UserWarning,
        )
        self.differing.add(name)
        sums.moment = sums.mean = None
        return True

    def _linear(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        if inputs.shape[-1] != module.weight.shape[1]:
            return  # the module itself refuses them
        self.add(self.names[id(module.weight)], inputs.reshape(-1, inputs.shape[-1]))

    def _transposed(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        if inputs.shape[-1] != module.weight.shape[0]:
            return
        self.add(self.names[id(module.weight)], inputs.reshape(-1, inputs.shape[-1]), True)

    def _attention(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        given = arguments_of(args, kwargs)
        if given is None:
            return
        three = [given[name].detach() for name in ("query", "key", "value")]
        three = [each.reshape(-1, each.shape[-1]) for each in three]
        if module.in_proj_weight is None:
            for name, rows in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), three, strict=True):
                self.add(self.names[id(getattr(module, name))], rows)
        elif given["query"] is given["key"] is given["value"]:
            self.add(self.names[id(module.in_proj_weight)], three[0])
        else:
            self._three_inputs(self.names[id(module.in_proj_weight)], three)
        out = self.names.get(id(module.out_proj.weight))
        if out is not None:
            mixed = mixed_values(module, given)
            self.add(out, mixed.reshape(-1, mixed.shape[-1]))

    def _three_inputs(self, name: str, three: list[torch.Tensor]) -> None:
        """Query, key and value of one matrix: a moment for each third of its rows, all of equal weight."""
        if three[0].shape[-1] > _WIDEST:
            return
        three = [rows[:: every_row(len(rows))].float() for rows in three]
        count = len(three[0])
        shares = [count / max(1, len(rows)) for rows in three]
        moment = torch.stack([rows.mT @ rows * share for rows, share in zip(three, shares, strict=True)])
        mean = torch.stack([rows.sum(0) * share for rows, share in zip(three, shares, strict=True)])
        self.add_moment(name, moment, mean, count)

    def _embedding(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        name, count = self.names[id(module.weight)], len(module.weight)
        if inputs.numel() and (int(inputs.min()) < 0 or int(inputs.max()) >= count):
            return  # the module itself refuses them
        found = torch.bincount(inputs.reshape(-1), minlength=count)
        self.counts[name] = self.counts[name] + found if name in self.counts else found

    def _transposed_convolution(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        """The weight [in, out, ...] is multiplied from its left; groups share no output."""
        weight = module.weight
        if inputs.ndim == weight.ndim - 1:
            inputs = inputs.unsqueeze(0)
        if inputs.shape[1] != len(weight) or len(weight) > _WIDEST:
            return
        rows = inputs.transpose(0, 1).flatten(1)
        rows = rows[:, :: every_row(rows.shape[1])].float()
        moment = rows @ rows.mT
        if module.groups > 1:
            group = torch.arange(len(weight), device=moment.device) // (len(weight) // module.groups)
            moment = moment * (group[:, None] == group[None, :])
        self.add_moment(self.names[id(weight)], moment, rows.sum(1), rows.shape[1], True)

    def _convolution(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        rows = convolution_rows(module, inputs)
        self.add(self.names[id(module.weight)], rows[0] if module.groups == 1 else rows)

    def _recurrent(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        for first, second, rows in joint_inputs(module, inputs, args, kwargs):
            self.add(f"{self.names[id(first)]}|{self.names[id(second)]}", rows)

    def _cell(self, module: Any, inputs: torch.Tensor, args: Any, kwargs: Any) -> None:
        for first, second, rows in cell_inputs(module, inputs, args, kwargs):
            self.add(f"{self.names[id(first)]}|{self.names[id(second)]}", rows)


class Checker(Collector):
    """Raises GbzError where inputs of a module with a weight matrix are not finite, and adds nothing up."""

    def _hook_of(self, module: torch.nn.Module) -> Callable[..., None] | None:
        return None if super()._hook_of(module) is None else lambda *_: None


_KINDS = (
    "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "MultiheadAttention", "Embedding", "EmbeddingBag",
    "Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
)  # fmt: skip


def _kind_of(module: torch.nn.Module) -> str:
    """The class of torch.nn that a module is of, also one that was scripted; else its own."""
    own = getattr(module, "original_name", None) if isinstance(module, torch.jit.ScriptModule) else None
    for kind in _KINDS:
        if own == kind or isinstance(module, getattr(torch.nn, kind)):
            return kind
    return type(module).__name__


def _on_scripted(hooks: dict[int, Callable[..., None]]) -> Any:
    """Scripted modules take no hooks of their own; those of all modules run where Python calls them."""

    def run(module: torch.nn.Module, args: Any) -> None:
        if id(module) in hooks:
            hooks[id(module)](module, args, {})

    return torch.nn.modules.module.register_module_forward_pre_hook(run)


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
    # [n, channels, positions..., kernel...] -> [rows, channels, kernel...], of which few are copied
    places = (len(inputs), *inputs.shape[2 : 2 + dims])
    count = math.prod(places)
    chosen = torch.arange(0, count, every_row(count), device=inputs.device)
    rows = inputs.movedim(1, 1 + dims)[torch.unravel_index(chosen, places)]
    return rows.reshape(len(chosen), module.groups, -1).transpose(0, 1)
