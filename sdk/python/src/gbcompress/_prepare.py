"""prepare(): a model whose parameters become small while its own loop trains it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from . import _core
from ._compression import PREPARED, Compression
from ._controller import Controller, FixedPrice, ToDrop, ToSize, first_price
from ._errors import GbzError, usage

#: Looks at the integers in a run.
LOOKS = 100


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
    if bare in PREPARED:
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
    PREPARED.add(bare)
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
