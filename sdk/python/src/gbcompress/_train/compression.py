"""A model in training whose parameters hold what its file will hold."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .._arguments import metadata as checked_metadata
from .._arguments import output
from .._errors import GbzError, StepsExceeded, mismatch, usage, warn
from . import write as _write
from .controller import Controller
from .latents import CpuLatents, Latents
from .write import Report

Path = str | os.PathLike[str]

#: Learning rate of the logarithms of step sizes where the optimizer is not one of Adam's kind.
STEP_RATE = 2e-3

#: Optimizers that have hooks of a Compression.
PREPARED: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


class Compression:
    """A model in training whose parameters hold what its file will hold. Made by prepare().

    It consists of two hooks of the optimizer: every ``optimizer.step()`` moves latents, kept beside the
    parameters, by the gradients of loss and rate, and leaves rounded values in the parameters.
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
        self.updates = 0  #: steps of the optimizer so far
        self._step_rate = step_rate
        self._last_refresh = 0  #: updates at the last refresh
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
        self._counted = (-1, 0)  #: refresh and bytes of the last metrics()
        self._handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]
        self._predict()

    # The hooks.

    def _predict(self) -> None:
        with torch.no_grad():
            for part in self.parts:
                part.predict()

    def _refresh(self) -> None:
        """Re-estimates the bits of each element, and adapts the rate weight."""
        self._last_refresh = self.updates
        contexts = self.controller.contexts(self.updates)
        for part in self.parts:
            part.expect(contexts)
        self.controller.adapt(self)

    @property
    def rate_weight(self) -> float:
        """The rate weight (lambda) of the next step: the loss is ``loss + rate_weight * bits /
        predictions``. It rises over the first half of the run."""
        return self.controller.rate_weight(self.updates)

    @property
    def bits(self) -> float:
        """Bits of all integers, estimated with noise at the last refresh of the entropy model: with a fixed
        rate weight a run has 100 of them."""
        return sum(part.bits for part in self.parts)

    @property
    def quality(self) -> float | None:
        """What ``evaluate`` returned for the model that the file holds, after save() or finish(); None
        before, and without ``max_drop``."""
        return self.controller.quality

    @property
    def quality_given(self) -> float | None:
        """What ``evaluate`` returned for the model as it was given; None without ``max_drop``."""
        return self.controller.quality_given

    def metrics(self) -> dict[str, float]:
        """For the logs of a training loop: ``rate_weight``, ``bits`` and ``bytes``, which are counted
        once per refresh of the entropy model. To count bytes, all integers are coded."""
        if self._counted[0] != self._last_refresh:
            self._counted = self._last_refresh, self.bytes()
        return {
            "rate_weight": self.rate_weight,
            "bits": self.bits,
            "bytes": float(self._counted[1]),
        }

    def _before(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _with_closure_run(args, kwargs)
        self._stepping = False
        with torch.no_grad():
            if _found_inf(optimizer):  # of a GradScaler: this step will not happen
                return args, kwargs
            if self.updates == self.steps:
                warn(
                    f"prepare() was given steps={self.steps}, and the optimizer continues; the rate weight "
                    "and the search for a size or a drop depend on that number: give the steps of the "
                    "whole run",
                    StepsExceeded,
                )
            _unscale(optimizer)
            refreshes = self.controller.refreshes(self.updates)
            if refreshes:
                self._refresh()
            weight = self.rate_weight / self.predictions
            bad = [part.add_rate(weight, self.seed, self.updates, refreshes) for part in self.parts]
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
        """Learning rate of the logarithms of step sizes of a group's parameters."""
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

    # For callers.

    def writer(self, metadata: Mapping[str, str] | None = None) -> _core.Writer:
        """The file of the present state."""
        return _write.writer_of(self.model, self.parts, metadata)

    def bytes(self) -> int:
        """Size of the file of the present state, without metadata."""
        return self.writer().size()

    def report(self) -> Report:
        """Every tensor of the model in the file's order, as a list that prints as a table:
        ``print(c.report())``."""
        return _write.report_of(self.model, self.parts)

    def _other_tensors(self) -> dict[str, Tensor]:
        """Copies of all parameters and buffers that are not trained as integers."""
        return {name: tensor.detach().clone() for name, tensor in self._others()}

    def _others(self) -> list[tuple[str, Tensor]]:
        trained = {id(entry.parameter) for part in self.parts for entry in part.entries}
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        return [(name, tensor) for name, tensor in named if id(tensor) not in trained]

    def _put_back(
        self, tensors: Mapping[str, Tensor], parts: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Restores _other_tensors(), and latents and steps where there are any, into the model."""
        with torch.no_grad():
            for name, tensor in self._others():
                kept = tensors.get(name)
                if kept is None:  # a buffer that was made since
                    continue
                if kept.shape == tensor.shape:
                    tensor.copy_(kept)
                else:
                    tensor.data = kept.to(tensor.device, tensor.dtype, copy=True)
            if parts is not None:
                for part, state in zip(self.parts, parts, strict=True):
                    part.restore(state)
                self._predict()

    def finish(self) -> None:
        """Ends a run with ``max_bytes``, ``ratio`` or ``max_drop``, for the model as for the file.

        For a size, integers are chosen until the file is below it. For a drop, the smallest state of
        the run within it is restored (parameters, excluded ones too, and buffers) and measured again;
        ``quality`` is what ``evaluate`` returned. Where a limit is exceeded the warning TargetNotMet
        is given. Called by save(). The next step of the optimizer continues from there.

        Raises:
            UsageError: a parameter does not hold the values of the last step.
        """
        self._finish(None)

    def _finish(self, metadata: Mapping[str, str] | None) -> None:
        with torch.no_grad():
            for part in self.parts:
                if name := part.changed():
                    raise usage(
                        f"{name} no longer holds the values of the last step of the optimizer, which "
                        "the file is made of: it was loaded, averaged or trained without the hooks; "
                        "put the values back, or load the state_dict() of that moment"
                    )
            self.controller.finish(self, metadata)

    def save(
        self,
        filename: Path,
        *,
        metadata: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> int:
        """Writes the file that holds what the model computes.

        Calls finish(). Running statistics are rounded to short floats (8 bits behind the leading one),
        in the model as well. Names are those of ``model.state_dict()``.

        Args:
            filename: a ``.gbz`` file; it appears whole or not at all.
            metadata: text kept in the file; its bytes count for ``max_bytes``.
            overwrite: replaces an existing file, but never one that a tensor of the model is mapped
                from.

        Returns:
            Bytes written.

        Raises:
            FileExists: the file exists.
            UsageError: as finish(), and for an argument of the wrong kind.
            GbzError: NaN or infinity in a parameter (``"non_finite"``); the disk refuses
                (``"io"``).
        """
        kept = checked_metadata(metadata)
        name = output(filename, overwrite, tensors=self.model.state_dict())
        self._finish(kept)
        _write.round_statistics(self.model)
        return self.writer(kept).write(name, overwrite)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on beside model and optimizer, for torch.save()."""
        return {
            "version": 1,
            "updates": self.updates,
            "controller": self.controller.state(),
            "first_rates": list(self._first_rates),
            "parts": [part.state() for part in self.parts],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from state_dict() of the same model, after model and optimizer have loaded theirs.

        Raises:
            UsageError: it is no state of state_dict(), or of a run with another kind of target.
            GbzError: the state is of other parameters (``"shape_mismatch"``), or of a newer version
                (``"unsupported"``). Nothing is changed in any of these cases.
        """
        if not isinstance(state, Mapping) or not state.keys() >= {"version", "updates", "controller"}:
            raise usage("the state is not one of Compression.state_dict(); load what that returned")
        if state["version"] != 1:
            raise GbzError(
                f"the state has version {state['version']}, this gbcompress reads version 1; resume with "
                "the version that wrote it",
                "unsupported",
            )
        parts = state["parts"]
        if len(parts) != len(self.parts):
            raise mismatch(
                f"the state is of a model on {len(parts)} devices, this one is on {len(self.parts)}"
            )
        if state["controller"].get("kind") != self.controller.kind:
            raise usage(
                "the state is of a run with another kind of target; give prepare() the same of "
                "rate_weight, max_bytes, ratio and max_drop"
            )
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
        """Removes the hooks. The parameters keep their rounded values."""
        for handle in self._handles:
            handle.remove()
        PREPARED.discard(self.optimizer)


def _with_closure_run(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Runs a closure now, while parameters are rounded; the optimizer gets its loss alone."""
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
    """Whether a GradScaler has found infinities, so that a fused optimizer does not step."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found.item() != 0)


def _unscale(optimizer: Any) -> None:
    """Unscales gradients that a fused optimizer leaves to its kernel: the rate is added to true ones."""
    scale = getattr(optimizer, "grad_scale", None)
    if scale is None:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.div_(scale.to(parameter.grad.device))
    optimizer.grad_scale = None
