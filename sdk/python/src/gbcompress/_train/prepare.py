"""prepare(): a model that its own training loop trains to a small file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from .. import _core
from .._arguments import checked_ratio, kind_of, positive, texts, whole
from .._errors import GbzError, usage
from .._modules import unwrapped
from .._quality import checked_drop
from .compression import PREPARED, Compression
from .controller import Controller, ToDrop, ToSize, first_rate_weight
from .write import input_bytes


@dataclass(frozen=True)
class LayerRule:
    """How the parameters whose names match are stored; of several rules the last one wins, field by
    field, as of ``[[layer]]`` tables."""

    match: str  #: full name, ``*`` stands for any characters: ``"encoder.*.weight"``
    mode: Literal["quantized", "exact"] | None = None  #: unset: quantized
    row_steps: bool | None = None  #: a step size for each output instead of one for the tensor


def _bare_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """The torch optimizer inside those of Accelerate and Lightning."""
    given = optimizer
    while not type(optimizer).__module__.startswith("torch.optim"):
        inner = getattr(optimizer, "optimizer", None)
        if not isinstance(inner, torch.optim.Optimizer) or inner is optimizer:
            break
        optimizer = inner
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise usage(f"the optimizer must be a torch.optim.Optimizer, got {kind_of(given)}")
    return optimizer


def _mode(rule: LayerRule) -> str | None:
    if rule.mode not in (None, "quantized", "exact"):
        raise usage(f"the mode of a rule must be 'quantized' or 'exact', got {rule.mode!r}")
    return rule.mode


def _check_rule(rule: LayerRule, mode: str | None, named: dict[str, nn.Parameter]) -> None:
    """Raises UsageError for a rule without any effect on these parameters."""
    matched = [p for name, p in named.items() if _core.matches_glob(rule.match, name)]
    if not matched:
        raise usage(
            f"the rule {rule.match!r} matches no parameter; names are those of model.named_parameters()"
        )
    if mode is None and rule.row_steps is None:
        raise usage(f"the rule {rule.match!r} sets nothing; give it mode= or row_steps=")
    if rule.row_steps and mode == "exact":
        raise usage(f"the rule {rule.match!r} sets row_steps, which mode='exact' does not have")
    if rule.row_steps and all(p.dim() < 2 for p in matched):
        raise usage(
            f"the rule {rule.match!r} sets row_steps, and matches only parameters of one dimension, "
            "which have one step"
        )
    if (rule.row_steps or mode == "quantized") and not any(p.requires_grad for p in matched):
        raise usage(
            f"the rule {rule.match!r} matches only frozen parameters, which stay exact; unfreeze them "
            "or remove the rule"
        )


def _modes(
    named: dict[str, nn.Parameter], rules: Sequence[LayerRule], exclude: Sequence[str]
) -> dict[str, tuple[str, bool]]:
    """Mode and whether rows have steps, for each name."""
    every = [*rules, *(LayerRule(glob, mode="exact") for glob in exclude)]
    modes = [_mode(rule) for rule in every]
    for rule, mode in zip(every, modes, strict=True):
        _check_rule(rule, mode, named)
    result = {}
    for name in named:
        final, row_steps = "quantized", False
        for rule, mode in zip(every, modes, strict=True):
            if _core.matches_glob(rule.match, name):
                final = mode or final
                row_steps = row_steps if rule.row_steps is None else rule.row_steps
        result[name] = (final, row_steps)
    return result


def _rules(rules: object) -> list[LayerRule]:
    if isinstance(rules, LayerRule) or not isinstance(rules, Iterable):
        raise usage(f"rules must be a list of gbc.LayerRule, got {kind_of(rules)}")
    items = list(rules)
    for item in items:
        if not isinstance(item, LayerRule) or not isinstance(item.match, str):
            raise usage(f"rules must be a list of gbc.LayerRule, got {kind_of(item)} in it")
    return items


@dataclass
class _Target:
    """What of the target prepare() was given, checked each by itself."""

    rate_weight: float | None
    max_bytes: int | None
    ratio: float | None
    max_drop: float | None
    evaluate: Callable[[], float] | None

    def __post_init__(self) -> None:
        given = [name for name in ("max_bytes", "ratio", "max_drop") if getattr(self, name) is not None]
        if len(given) > 1:
            raise usage(f"{' and '.join(given)} contradict each other; give one of them")
        if self.rate_weight is not None:
            self.rate_weight = positive(self.rate_weight, "rate_weight")
        elif not given:
            raise usage("there is no target; give one of rate_weight, max_bytes, ratio and max_drop")
        if self.max_bytes is not None:
            self.max_bytes = whole(self.max_bytes, "max_bytes", 1)
        if self.ratio is not None:
            self.ratio = checked_ratio(self.ratio)
        if self.max_drop is not None:
            self.max_drop = checked_drop(self.max_drop)
            if self.evaluate is None:
                raise usage(
                    "max_drop needs evaluate=f: f() returns the quality of the model, larger is better"
                )
        if self.evaluate is not None and self.max_drop is None:
            raise usage("evaluate has no effect without max_drop; give max_drop, or leave it out")
        if self.evaluate is not None and not callable(self.evaluate):
            raise usage(
                f"evaluate must be a function that returns a number, got {kind_of(self.evaluate)}"
            )

    def controller(self, model: nn.Module, predictions: int, steps: int) -> Controller:
        """Which controller obeys it."""
        begin = first_rate_weight(predictions) if self.rate_weight is None else self.rate_weight
        if self.max_bytes is not None:
            return ToSize(begin, predictions, steps, self.max_bytes)
        if self.ratio is not None:
            return ToSize(begin, predictions, steps, max(int(input_bytes(model) / self.ratio), 1))
        if self.max_drop is not None and self.evaluate is not None:
            return ToDrop(begin, predictions, steps, self.max_drop, self.evaluate)
        return Controller(begin, predictions, steps)


def prepare(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    predictions: int,
    steps: int,
    rate_weight: float | None = None,
    max_bytes: int | None = None,
    ratio: float | None = None,
    max_drop: float | None = None,
    evaluate: Callable[[], float] | None = None,
    rules: Sequence[LayerRule] = (),
    exclude: Sequence[str] = (),
    step_speed: float = 3.0,
    step_rate: float | None = None,
    seed: int = 0,
) -> Compression:
    """Makes a model's own training loop train it to a small file.

    Modules and names stay as they are: parameters hold rounded values from here on, so that forward
    passes, evaluation, averages and ``state_dict()`` see what the file will hold. The loss must be
    a mean over predictions; training minimizes ``loss + rate_weight * bits / predictions``.

    Call it before the first step and before wrapping the model for several processes. Works with
    accumulated gradients, clipping, autocast and GradScaler, schedulers, parameter groups,
    torch.compile and DistributedDataParallel: every rank computes the same integers.

    The target is one of ``rate_weight``, ``max_bytes``, ``ratio`` and ``max_drop``. Beside one of the
    other three, ``rate_weight`` is where the search begins.

    Args:
        model: what is trained; floating-point parameters that require gradients become integers times
            a learned step size.
        optimizer: any that calls its closure at most once; not stepped yet.
        predictions: labels of the training set: one per image, one per character. At least 1.
        steps: of the optimizer, in the whole run, at least 1; the rate weight rises over the first
            half. More steps give the warning StepsExceeded.
        rate_weight: lambda, above 0. Which value to begin with: "The rate weight" in the
            documentation of the Python package has a table.
        max_bytes: size of the file, at least 1. The rate weight is adjusted towards it, and save()
            ends below it.
        ratio: the same size as a ratio: bytes of ``model.state_dict()`` as safetensors over bytes of
            the file, above 0.
        max_drop: limit of the quality drop, in units of ``evaluate``, relative to the model as it is
            given, which is measured at once: 0 or more, and below the quality of the given model.
        evaluate: returns the quality of the model, larger is better; the same for the same model. It is
            called about 30 times per run, without gradients. Modules return to the mode (training or
            evaluation) that they were in.
        rules: per parameter; the last one that matches wins.
        exclude: names that stay exact; ``*`` stands for any characters.
        step_speed: how many times faster than weights the logarithms of step sizes learn, above 0.
        step_rate: their learning rate, above 0; unset: the group's own where the optimizer is one of
            Adam's kind, else 0.002, falling with the group's.
        seed: of the noise, 0 or more.

    Returns:
        What saves, reports and resumes.

    Raises:
        UsageError: an argument of the wrong kind or out of range; arguments that contradict each other
            or have no effect; a rule that matches nothing; a parameter in no group; an optimizer that
            was stepped or prepared before, or that calls its closure many times (LBFGS).
        GbzError: NaN or infinity in a parameter (``"non_finite"``).
    """
    predictions, steps = whole(predictions, "predictions", 1), whole(steps, "steps", 1)
    target = _Target(rate_weight, max_bytes, ratio, max_drop, evaluate)
    if not isinstance(model, nn.Module):
        raise usage(f"the model must be a torch module, got {kind_of(model)}")
    bare = _bare_optimizer(optimizer)
    if bare in PREPARED:
        raise usage("this optimizer is prepared already; call remove() of the first Compression")
    if isinstance(bare, torch.optim.LBFGS):
        raise usage(
            "LBFGS evaluates its closure several times per step, which the hooks cannot follow; use another "
            "optimizer, such as Adam"
        )
    if bare.state:
        raise usage(
            "the optimizer was stepped before; call prepare() first and load its state afterwards"
        )
    inner = unwrapped(model)
    parameters = _trained(inner, bare, _rules(rules), texts(exclude, "exclude"))
    controller = target.controller(inner, predictions, steps)
    settings = {
        "step_speed": positive(step_speed, "step_speed"),
        "step_rate": None if step_rate is None else positive(step_rate, "step_rate"),
    }
    seed = whole(seed, "seed", 0)
    controller.begin(inner)
    made = Compression(
        inner,
        bare,
        parameters,
        controller=controller,
        predictions=predictions,
        steps=steps,
        seed=seed,
        **settings,  # type: ignore[arg-type]
    )
    PREPARED.add(bare)
    return made


def _trained(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rules: Sequence[LayerRule],
    exclude: Sequence[str],
) -> list[tuple[str, nn.Parameter, bool]]:
    """Parameters that become integers, in the model's order; tied ones under their first name."""
    named = dict(model.named_parameters())
    modes = _modes(named, rules, exclude)
    grouped = {id(p) for group in optimizer.param_groups for p in group["params"]}
    result = []
    for name, parameter in named.items():
        mode, row_steps = modes[name]
        if not parameter.requires_grad or mode == "exact":
            continue
        if not parameter.is_floating_point() or parameter.numel() == 0:
            continue
        if id(parameter) not in grouped:
            raise usage(
                f"{name} is in no group of the optimizer; add it, freeze it "
                "(requires_grad_(False)), or exclude it"
            )
        if not bool(torch.isfinite(parameter).all()):
            raise GbzError(f"{name} holds NaN or infinity; repair the model first", "non_finite")
        result.append((name, parameter, row_steps))
    if not result:
        raise usage("there is no parameter to compress: all are frozen or excluded; unfreeze or include some")
    return result
