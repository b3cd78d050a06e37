"""prepare(): a model whose parameters become small while its own loop trains it."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from . import _core, _write
from ._controller import Controller, FixedPrice, ToDrop, ToSize, first_price
from ._errors import GbzError, exists, mismatch, usage
from ._latents import Latents
from ._write import TensorReport

Path = str | os.PathLike[str]

#: The price rises over this part of the run: first the task is learnt. From CONTEXTS on a number's
#: bits are those of the coder's contexts. Both as `gbcompress compress` has them.
RAMP, CONTEXTS = 0.5, 0.3
#: Looks at the integers in a run.
LOOKS = 100
#: What logarithms of steps learn with where the optimiser is not one of Adam's kind.
STEP_RATE = 2e-3

_prepared: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


@dataclass(frozen=True)
class Rule:
    """What becomes of the parameters whose names match; of several rules the last one wins, field by
    field, as of ``[[layer]]`` tables."""

    match: str  #: full name, ``*`` stands for any characters: ``"encoder.*.weight"``
    mode: Literal["residual", "raw"] | None = None  #: integers (the default), or exact
    row_steps: bool | None = None  #: a step for each output instead of one a tensor


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside what torch.compile and (Distributed)DataParallel make of one."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(
            model, nn.DataParallel | nn.parallel.DistributedDataParallel
        ):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def _bare_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """The torch optimiser inside those of Accelerate and Lightning."""
    while not type(optimizer).__module__.startswith("torch.optim"):
        inner = getattr(optimizer, "optimizer", None)
        if not isinstance(inner, torch.optim.Optimizer) or inner is optimizer:
            break
        optimizer = inner
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise usage(f"a torch.optim.Optimizer is needed, not a {type(optimizer).__name__}")
    return optimizer


def _modes(
    names: Sequence[str], rules: Sequence[Rule], exclude: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """Mode and whether rows have steps, for each name."""
    every = [*rules, *(Rule(glob, mode="raw") for glob in exclude)]
    for rule in every:
        if rule.mode not in (None, "residual", "raw"):
            raise usage(f"the mode of a rule is 'residual' or 'raw', not {rule.mode!r}")
        if not any(_core.matches_glob(rule.match, name) for name in names):
            raise usage(f"the rule {rule.match!r} matches no parameter")
    result = {}
    for name in names:
        mode, row_steps = "residual", False
        for rule in every:
            if _core.matches_glob(rule.match, name):
                mode = rule.mode or mode
                row_steps = row_steps if rule.row_steps is None else rule.row_steps
        result[name] = (mode, row_steps)
    return result


class Compression:
    """A model in training whose parameters hold what its file will hold. Made by prepare().

    It lives in hooks of the optimiser: every ``optimizer.step()`` moves latents, kept aside, under
    the loss and the rate, and leaves rounded values in the parameters.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        parameters: list[tuple[str, nn.Parameter, bool]],
        *,
        controller: Controller,
        predictions: int,
        steps: int,
        step_speed: float,
        step_rate: float | None,
        seed: int,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.controller = controller
        self.predictions, self.steps, self.seed = predictions, steps, seed
        self.updates = 0  #: of the optimiser so far
        self._step_rate = step_rate
        self._interval = max(steps // controller.looks, 1)
        devices: dict[torch.device, list[tuple[str, nn.Parameter, bool]]] = {}
        for item in parameters:
            devices.setdefault(item[1].device, []).append(item)
        self.parts = [Latents(items, step_speed) for items in devices.values()]
        # By place: load_state_dict() makes new groups.
        self._groups = {
            id(p): i for i, group in enumerate(optimizer.param_groups) for p in group["params"]
        }
        self._first_rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._slopes: list[Tensor] | None = None
        self._handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]
        self._predict()

    # What happens at each step of the optimiser.

    def _predict(self) -> None:
        with torch.no_grad():
            for part in self.parts:
                part.predict()

    def _look(self) -> None:
        contexts = self.updates / self.steps >= CONTEXTS or self.controller.starts_priced
        for part in self.parts:
            part.expect(contexts)
        self.controller.look(self, self.updates / self.steps)

    @property
    def price(self) -> float:
        """Lambda of the next step: the loss is ``loss + price * bits / predictions``."""
        ramp = min(1.0, (self.updates + 1) / (RAMP * self.steps))
        return self.controller.price * (1.0 if self.controller.starts_priced else ramp)

    @property
    def bits(self) -> float:
        """Of all integers at the last step, noise included."""
        return sum(float(entry.bits) for part in self.parts for entry in part.entries)

    def _before(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _with_closure_run(args, kwargs)
        self._slopes = None
        with torch.no_grad():
            if _found_inf(optimizer):  # of a GradScaler: this step will not happen
                return args, kwargs
            _unscale(optimizer)
            if self.updates % self._interval == 0:
                self._look()
            weight = self.price / self.predictions
            slopes = [part.add_rate(weight, self.seed, self.updates) for part in self.parts]
            for part, slope in zip(self.parts, slopes, strict=True):
                if name := part.not_finite(slope):
                    raise GbzError(
                        f"the gradient of {name} is not finite at step {self.updates + 1}; lower "
                        "the learning rate, or step through a GradScaler",
                        "non_finite",
                    )
            for part in self.parts:
                part.put()
        self._slopes = slopes
        return args, kwargs

    def _rate_of_steps(self, parameter: nn.Parameter) -> float:
        place = self._groups[id(parameter)]
        group = self.optimizer.param_groups[place]
        lr = float(group["lr"])
        if self._step_rate is None and "betas" in group:
            return lr
        first = self._first_rates[place]
        return (self._step_rate or STEP_RATE) * (lr / first if first > 0 else 1.0)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._slopes is None:
            return
        self.updates += 1
        with torch.no_grad():
            for part, slopes in zip(self.parts, self._slopes, strict=True):
                part.take()
                rates = [self._rate_of_steps(entry.parameter) for entry in part.entries]
                part.learn_steps(slopes, rates, self.updates)
                part.predict()
        self._slopes = None

    # What a caller asks for.

    def writer(self) -> _core.Writer:
        """The file as things stand."""
        return _write.writer_of(self.model, self.parts)

    def bytes(self) -> int:
        """Of the file as things stand, metadata apart."""
        return self.writer().size()

    def report(self) -> list[TensorReport]:
        """How each tensor of the model stands, in the file's order."""
        return _write.report_of(self.model, self.parts)

    def finish(self) -> None:
        """Meets ``max_bytes`` or ``max_drop``: chooses integers, which the parameters then hold.

        Called by save(). The next step of the optimiser trains on.
        """
        with torch.no_grad():
            self.controller.finish(self)

    def save(
        self,
        filename: Path,
        *,
        metadata: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> int:
        """Writes the file that holds what the model computes now.

        Running statistics are rounded to short floats (8 bits behind the leading one), in the
        model as well. Names are those of ``model.state_dict()``.

        Args:
            filename: a ``.gbz`` file; it appears whole or not at all.
            metadata: text kept in the file.
            overwrite: replaces an existing file.

        Returns:
            Bytes written.

        Raises:
            FileExists: the file exists.
            GbzError: NaN or infinity in a parameter (``"non_finite"``); the disk refuses
                (``"io"``).
        """
        if os.path.lexists(filename) and not overwrite:
            raise exists(os.fspath(filename))
        self.finish()
        _write.round_statistics(self.model)
        writer = _write.writer_of(self.model, self.parts, metadata)
        return writer.write(os.fspath(filename), overwrite)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on beside model and optimiser, for torch.save()."""
        return {
            "version": 1,
            "updates": self.updates,
            "controller": self.controller.state(),
            "first_rates": list(self._first_rates),
            "parts": [part.state() for part in self.parts],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from state_dict() of the same model, after model's and optimiser's own.

        Raises:
            GbzError: the state is of other parameters (``"shape_mismatch"``), or of a newer version
                (``"unsupported"``); nothing is changed then.
        """
        if state.get("version") != 1:
            raise GbzError("the state was written by another version", "unsupported")
        parts = state["parts"]
        if len(parts) != len(self.parts):
            raise mismatch("the state is of a model on other devices")
        with torch.no_grad():
            for part, kept in zip(self.parts, parts, strict=True):
                part.check(kept)
            for part, kept in zip(self.parts, parts, strict=True):
                part.restore(kept)
        self.updates = int(state["updates"])
        self._first_rates = list(state["first_rates"])
        self.controller.restore(state["controller"])
        self._predict()

    def remove(self) -> None:
        """Takes the hooks off. The parameters keep their rounded values."""
        for handle in self._handles:
            handle.remove()
        _prepared.discard(self.optimizer)


def _with_closure_run(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A closure is run now, while parameters are rounded; the optimiser sees its loss alone."""
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    if closure is None:
        return args, kwargs
    with torch.enable_grad():
        loss = closure()

    def known() -> Any:
        return loss

    if len(args) > 1:
        return (args[0], known, *args[2:]), kwargs
    return args, {**kwargs, "closure": known}


def _found_inf(optimizer: Any) -> bool:
    """Whether a fused optimiser was told by a GradScaler not to step."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found.item() != 0)


def _unscale(optimizer: Any) -> None:
    """What fused optimisers leave to their kernel, so that the rate is added to true gradients."""
    scale = getattr(optimizer, "grad_scale", None)
    if scale is None:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.div_(scale.to(parameter.grad.device))
    optimizer.grad_scale = None


def _check_numbers(predictions: int, steps: int, step_speed: float) -> None:
    if predictions < 1:
        raise usage(f"predictions must be at least 1, not {predictions}")
    if steps < 1:
        raise usage(f"steps must be at least 1, not {steps}")
    if not (step_speed > 0 and math.isfinite(step_speed)):
        raise usage(f"step_speed must be above 0, not {step_speed}")


def _controller(
    price: float | None,
    max_bytes: int | None,
    max_drop: float | None,
    evaluate: Callable[[], float] | None,
    predictions: int,
) -> Controller:
    if max_bytes is not None and max_drop is not None:
        raise usage("max_bytes contradicts max_drop; give one of them")
    if price is not None and not (price > 0 and math.isfinite(price)):
        raise usage(f"price must be above 0, not {price}")
    begin = price if price is not None else first_price(predictions)
    if max_bytes is not None:
        if max_bytes < 1:
            raise usage(f"max_bytes must be at least 1, not {max_bytes}")
        return ToSize(begin, max_bytes)
    if max_drop is not None:
        if not max_drop >= 0:
            raise usage(f"max_drop must be 0 or more, not {max_drop}")
        if evaluate is None:
            raise usage("max_drop needs evaluate, which says how good the model is now")
        return ToDrop(begin, max_drop, evaluate)
    if price is None:
        raise usage("give price, max_bytes or max_drop")
    return FixedPrice(price, LOOKS)


def prepare(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    predictions: int,
    steps: int,
    price: float | None = None,
    max_bytes: int | None = None,
    max_drop: float | None = None,
    evaluate: Callable[[], float] | None = None,
    rules: Sequence[Rule] = (),
    exclude: Sequence[str] = (),
    step_speed: float = 3.0,
    step_rate: float | None = None,
    seed: int = 0,
) -> Compression:
    """Makes a model's own training loop train it to a small file.

    No module is changed and no name: parameters hold rounded values from here on, so that forward
    passes, evaluation, averages and ``state_dict()`` see what the file will hold. The loss must be
    a mean over predictions; what is minimised is ``loss + price * bits / predictions``.

    Call it before the first step and before wrapping the model for several processes. Works with
    accumulated gradients, clipping, autocast and GradScaler, schedulers, parameter groups,
    torch.compile and DistributedDataParallel: every rank computes the same integers.

    Args:
        model: what is trained; floating parameters that require gradients become integers times a
            learned step.
        optimizer: any that calls its closure at most once; not stepped yet.
        predictions: labels of the training set: one a picture, one a character. At least 1.
        steps: of the optimiser, in the whole run; the price rises over the first half.
        price: lambda, above 0; at ln 2 a description length. For the other two where the search
            begins.
        max_bytes: of the file. The price is steered towards it and save() ends below it.
        max_drop: of what ``evaluate`` says, beside what it says now; 0 or more.
        evaluate: how good the model is, larger is better; called some times in a run, without
            gradients.
        rules: per parameter; the last one that matches wins.
        exclude: names that stay exact; ``*`` stands for any characters.
        step_speed: how many times faster than numbers the logarithms of steps learn, above 0.
        step_rate: their learning rate; unset: the group's own where it is one of Adam's kind, else
            0.002, falling with the group's.
        seed: of the noise.

    Returns:
        What saves, reports and resumes.

    Raises:
        UsageError: settings that contradict each other; a rule that matches nothing; a parameter in
            no group; an optimiser that was stepped or prepared before, or that calls its closure
            many times (LBFGS).
        GbzError: NaN or infinity in a parameter (``"non_finite"``).
    """
    _check_numbers(predictions, steps, step_speed)
    bare = _bare_optimizer(optimizer)
    if bare in _prepared:
        raise usage("this optimizer is prepared already; call remove() on the first Compression")
    if isinstance(bare, torch.optim.LBFGS):
        raise usage("LBFGS evaluates its closure many times a step, between which hooks see nothing")
    if bare.state:
        raise usage(
            "the optimizer was stepped before; call prepare() first and load its state afterwards"
        )
    inner = unwrapped(model)
    parameters = _trained(inner, bare, rules, exclude)
    controller = _controller(price, max_bytes, max_drop, evaluate, predictions)
    controller.begin()
    made = Compression(
        inner,
        bare,
        parameters,
        controller=controller,
        predictions=predictions,
        steps=steps,
        step_speed=step_speed,
        step_rate=step_rate,
        seed=seed,
    )
    _prepared.add(bare)
    return made


def _trained(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rules: Sequence[Rule],
    exclude: Sequence[str],
) -> list[tuple[str, nn.Parameter, bool]]:
    """Parameters that become integers, in the model's order; tied ones under their first name."""
    named = dict(model.named_parameters())
    modes = _modes(list(named), rules, exclude)
    grouped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    result = []
    for name, parameter in named.items():
        mode, row_steps = modes[name]
        if not parameter.requires_grad or mode == "raw":
            continue
        if not parameter.is_floating_point() or parameter.numel() == 0:
            continue
        if id(parameter) not in grouped:
            raise usage(
                f"{name} is in no group of the optimizer; add it, freeze it "
                "(requires_grad_(False)), or exclude it"
            )
        if not bool(torch.isfinite(parameter).all()):
            raise GbzError(f"{name} holds NaN or infinity", "non_finite")
        result.append((name, parameter, row_steps))
    if not result:
        raise usage("there is no parameter to compress: all are frozen or excluded")
    return result
