"""How the rate weight changes in a run, and how a run ends: fixed, to a size, or within a drop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from .._errors import TargetNotMet, warn
from .._quality import checked_reference, quality_of
from .write import round_statistics

if TYPE_CHECKING:
    from .compression import Compression

#: A drop moves the rate weight from this part of the run on.
_FROM = 0.3
#: Factors after a refresh whose drop was too large, and after one whose drop was not.
_LOWER, _HIGHER = 0.6, 1.2
#: Refreshes of a run with a drop: each calls evaluate.
_MEASURED = 40


def first_rate_weight(predictions: int) -> float:
    """Where `gbcompress compress` begins its search, too."""
    return 0.0004 * math.sqrt(predictions)


class Controller:
    """The rate weight of a run, by the core's schedule; subclasses change it."""

    kind = "rate_weight"
    #: Quality of the model as it was given, and of the state that the file holds, in units of
    #: ``evaluate``; None without one.
    quality_given: float | None = None
    quality: float | None = None

    def __init__(self, rate_weight: float, predictions: int, steps: int, max_bytes: int | None = None) -> None:
        self._schedule = _core.RateSchedule.make(rate_weight, predictions, steps, max_bytes)
        self._predictions, self._steps = predictions, steps

    def rate_weight(self, step: int) -> float:
        """Lambda of that step."""
        return self._schedule.loss_per_bit(step) * self._predictions

    def refreshes(self, step: int) -> bool:
        """Whether the entropy model is refreshed before that step."""
        return self._schedule.refreshes(step)

    def contexts(self, step: int) -> bool:
        """Whether the bits of an element are those of the entropy coder's contexts."""
        return self._schedule.contexts(step)

    def begin(self, model: torch.nn.Module) -> None:
        """Before the model's parameters are rounded for the first time."""

    def adapt(self, compression: Compression) -> None:
        """Changes the rate weight after a refresh."""

    def finish(self, compression: Compression, metadata: Mapping[str, str] | None) -> None:
        """Before a file with that metadata is written."""

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "rate_weight": self._schedule.rate_weight}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes state() back."""
        self._schedule.rate_weight = float(state["rate_weight"])


class ToSize(Controller):
    """Towards a file size, by the law of the core."""

    kind = "max_bytes"

    def __init__(self, rate_weight: float, predictions: int, steps: int, max_bytes: int) -> None:
        super().__init__(rate_weight, predictions, steps, max_bytes)
        self.max_bytes = max_bytes

    def adapt(self, compression: Compression) -> None:
        step = compression.updates
        if not self._schedule.steers(step):
            return
        factor = self._schedule.steer(step, compression.bytes())
        if factor != 1:
            for part in compression.parts:
                part.scale_steps(factor)

    def finish(self, compression: Compression, metadata: Mapping[str, str] | None) -> None:
        size = fit_size(compression, self.max_bytes, metadata)
        if size > self.max_bytes:
            warn(
                f"{self.max_bytes} bytes are out of reach: the smallest file of this model has {size}; "
                "exclude fewer parameters, or give a larger max_bytes or a smaller ratio",
                TargetNotMet,
            )


class ToDrop(Controller):
    """As small as a quality drop allows: the rate weight rises while the drop is within its limit and
    falls while it is not. A run ends with the smallest state within the limit, and with the state of
    the smallest drop where there is none.

    What is measured is what a file would hold: rounded values and rounded running statistics. What is
    kept is everything that ``evaluate`` can see."""

    kind = "max_drop"

    def __init__(
        self, rate_weight: float, predictions: int, steps: int, max_drop: float, evaluate: Callable[[], float]
    ) -> None:
        super().__init__(rate_weight, predictions, steps)
        self.max_drop, self.evaluate = max_drop, evaluate
        #: "bytes" and "quality", "parts" (latents and steps) and "tensors" (all others)
        self.best: dict[str, Any] | None = None
        self._measured_at = -1  #: updates at the last measurement

    def refreshes(self, step: int) -> bool:
        return step % max(self._steps // _MEASURED, 1) == 0

    def _measure(self, model: torch.nn.Module) -> float:
        return quality_of(model, self.evaluate)

    def begin(self, model: torch.nn.Module) -> None:
        given = self._measure(model)
        self.quality_given = checked_reference(given, self.max_drop, "rate_weight or max_bytes")

    def _within(self, quality: float) -> bool:
        assert self.quality_given is not None
        return self.quality_given - quality <= self.max_drop

    def _rank(self, size: int, quality: float) -> tuple[bool, float]:
        """Larger is better."""
        if self._within(quality):
            return True, -float(size)
        return False, -math.inf if math.isnan(quality) else quality

    def _keep(self, compression: Compression) -> bool:
        """Measures the present state and keeps it where it is the best. Returns whether the drop is
        within its limit."""
        before = compression._other_tensors()
        round_statistics(compression.model)
        rounded = compression._other_tensors()
        quality, size = self._measure(compression.model), compression.bytes()
        compression._put_back(before)  # evaluate may have moved running statistics as well
        self._measured_at = compression.updates
        best = self.best
        if best is None or self._rank(size, quality) > self._rank(best["bytes"], best["quality"]):
            parts = [part.state() for part in compression.parts]
            self.best = {"bytes": size, "quality": quality, "parts": parts, "tensors": rounded}
        return self._within(quality)

    def adapt(self, compression: Compression) -> None:
        if compression.updates >= _FROM * self._steps:
            self._schedule.rate_weight *= _HIGHER if self._keep(compression) else _LOWER

    def finish(self, compression: Compression, metadata: Mapping[str, str] | None) -> None:
        if self._measured_at != compression.updates:
            self._keep(compression)
        assert self.best is not None
        best = self.best
        compression._put_back(best["tensors"], best["parts"])
        self._measured_at = compression.updates
        self.quality = self._measure(compression.model)
        compression._put_back(best["tensors"])
        if self._within(self.quality):
            return
        if self._within(best["quality"]):
            why = (
                f"evaluate returned {best['quality']:.6g} when this state was kept and "
                f"{self.quality:.6g} now; it must return the same for the same model, on data that do "
                "not change"
            )
        else:
            why = (
                f"no state of the run is within it, the file holds the nearest ({self.quality:.6g}); "
                "train for more steps, begin with a smaller rate_weight, or give a larger max_drop"
            )
        warn(
            f"max_drop={self.max_drop:g} is exceeded: evaluate returned {self.quality_given:.6g} for "
            f"the model as given; {why}",
            TargetNotMet,
        )

    def state(self) -> dict[str, Any]:
        return {**super().state(), "quality_given": self.quality_given, "best": self.best}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.quality_given, self.best = float(state["quality_given"]), state["best"]
        self._measured_at = -1


def choose(compression: Compression, rate_weight: float, metadata: Mapping[str, str] | None) -> int:
    """Integers for the least squared error in steps plus ``rate_weight`` times the bits, into the
    parameters. Returns the bytes of the file."""
    for part in compression.parts:
        scaled = []
        for i, entry in enumerate(part.entries):
            inverse = (1 / part.steps_of(i)).unsqueeze(1)
            rows = entry.latent.reshape(entry.rows, -1) * inverse
            scaled.append(rows.reshape(-1).cpu().numpy())
        shapes = [tuple(entry.latent.shape) for entry in part.entries]
        for entry, integers in zip(
            part.entries, _core.choose(shapes, scaled, rate_weight), strict=True
        ):
            entry.chosen = integers
    return compression.writer(metadata).size()


def fit_size(compression: Compression, max_bytes: int, metadata: Mapping[str, str] | None) -> int:
    """Ends at or below ``max_bytes`` where that is possible: what fits stays as it was trained, else
    integers are chosen for fewer bits. Returns the bytes of the file."""
    size = _core.fit_size(max_bytes, lambda rate_weight: choose(compression, rate_weight, metadata))
    for part in compression.parts:
        part.predict()
    return size
