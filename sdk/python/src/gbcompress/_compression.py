"""A model in training whose parameters hold what its file will hold."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from . import _core, _write
from ._controller import Controller
from ._errors import GbzError, exists, mismatch
from ._latents import CpuLatents, Latents
from ._write import TensorReport

Path = str | os.PathLike[str]

#: The price rises over this part of the run: first the task is learnt. From CONTEXTS on a number's
#: bits are those of the coder's contexts. Both as `gbcompress compress` has them.
RAMP, CONTEXTS = 0.5, 0.3
#: What logarithms of steps learn with where the optimiser is not one of Adam's kind.
STEP_RATE = 2e-3

#: Optimisers that have hooks of a Compression.
PREPARED: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


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
        self.parts = [
            (CpuLatents if device.type == "cpu" else Latents)(items, step_speed)
            for device, items in devices.items()
        ]
        # By place: load_state_dict() makes new groups.
        group_of = {
            id(p): i for i, group in enumerate(optimizer.param_groups) for p in group["params"]
        }
        self._groups = [[group_of[id(e.parameter)] for e in part.entries] for part in self.parts]
        self._first_rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._stepping = False
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
        """Of all integers, noise included, when they were counted last: at every look, of which
        there are 100 in a run with a fixed price."""
        return sum(part.bits for part in self.parts)

    def _before(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _with_closure_run(args, kwargs)
        self._stepping = False
        with torch.no_grad():
            if _found_inf(optimizer):  # of a GradScaler: this step will not happen
                return args, kwargs
            _unscale(optimizer)
            looks = self.updates % self._interval == 0
            if looks:
                self._look()
            weight = self.price / self.predictions
            bad = [part.add_rate(weight, self.seed, self.updates, looks) for part in self.parts]
            if name := next(filter(None, bad), None):
                raise GbzError(
                    f"the gradient of {name} is not finite at step {self.updates + 1}; lower "
                    "the learning rate, or step through a GradScaler",
                    "non_finite",
                )
            for part in self.parts:
                part.put()
        self._stepping = True
        return args, kwargs

    def _rate_of_steps(self, place: int) -> float:
        """What logarithms of steps learn with whose parameters are of that group."""
        group = self.optimizer.param_groups[place]
        lr = float(group["lr"])
        if self._step_rate is None and "betas" in group:
            return lr
        first = self._first_rates[place]
        return (self._step_rate or STEP_RATE) * (lr / first if first > 0 else 1.0)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._stepping:
            return
        self._stepping = False
        self.updates += 1
        rates = [self._rate_of_steps(place) for place in range(len(self._first_rates))]
        with torch.no_grad():
            for part, places in zip(self.parts, self._groups, strict=True):
                part.take([rates[place] for place in places], self.updates)

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
        PREPARED.discard(self.optimizer)


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
