"""What the price of a bit is, and how a run ends: fixed, towards a size, or within a drop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import _core

if TYPE_CHECKING:
    from ._compression import Compression

#: A size or a drop is steered from the first to the second part of the run.
_FROM, _UNTIL = 0.3, 0.85
#: A price moves by this power of how far a size is off, and by no more than a factor at a look.
_GAIN, _MOST = 0.6, 2.0
#: After a look that lost too much, and after one that did not.
_CHEAPER, _DEARER = 0.6, 1.2
#: Part of a size that a run aims at: integers that are made cheaper afterwards answer worse than
#: those that were trained.
_AIM = 0.975
#: From here on nothing that became zero comes back by itself: files that are too small get finer
#: steps, by as much as is missing.
_SETTLED = 0.6
_LARGEST_LAMBDA, _HALVINGS = 4096.0, 12


def first_price(predictions: int) -> float:
    """Where `gbcompress compress` begins to search, too."""
    return 0.0004 * math.sqrt(predictions)


class Controller:
    """A fixed price; the others move it."""

    starts_priced = False  #: no ramp: what is trained has been trained before

    def __init__(self, price: float, looks: int) -> None:
        self.price = price
        self.looks = looks

    def begin(self) -> None:
        """Before the model's parameters are rounded for the first time."""

    def look(self, compression: Compression, progress: float) -> None:
        """Now and then in a run. ``progress``: 0 to 1."""

    def finish(self, compression: Compression) -> None:
        """Before a file is written."""

    def state(self) -> dict[str, Any]:
        return {"price": self.price}

    def restore(self, state: dict[str, Any]) -> None:
        self.price = float(state["price"])


class FixedPrice(Controller):
    """The price that was given."""


class ToSize(Controller):
    """Towards a file of a size: its bytes follow a line in the logarithm from where they are when
    the ramp's first part is over."""

    def __init__(self, price: float, max_bytes: int) -> None:
        super().__init__(price, looks=60)
        self.max_bytes = max_bytes
        self.start = 0.0  #: log of the bytes at _FROM

    def look(self, compression: Compression, progress: float) -> None:
        if progress < _FROM:
            return
        now = math.log(compression.bytes())
        if self.start == 0:
            self.start = now
        done = min(1.0, (progress - _FROM) / (_UNTIL - _FROM))
        wanted = self.start + (math.log(_AIM * self.max_bytes) - self.start) * done
        change = math.exp(_GAIN * (now - wanted))
        self.price *= min(max(change, 1 / _MOST), _MOST)
        if progress >= _SETTLED and now < wanted:
            for part in compression.parts:
                part.scale_steps(math.exp(now - wanted))

    def finish(self, compression: Compression) -> None:
        land(compression, self.max_bytes)

    def state(self) -> dict[str, Any]:
        return {"price": self.price, "start": self.start}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.start = float(state["start"])


class ToDrop(Controller):
    """As small as a drop of quality allows: the price rises while less is lost, falls where more is.
    What was the smallest within the drop is what a run ends with."""

    def __init__(self, price: float, max_drop: float, evaluate: Callable[[], float]) -> None:
        super().__init__(price, looks=40)
        self.max_drop, self.evaluate = max_drop, evaluate
        self.reference = 0.0
        self.best: tuple[int, dict[str, Any]] | None = None  #: bytes, state

    def _quality(self) -> float:
        with torch.no_grad():
            return float(self.evaluate())

    def begin(self) -> None:
        self.reference = self._quality()

    def _keep(self, compression: Compression) -> bool:
        fits = self.reference - self._quality() <= self.max_drop
        if fits:
            size = compression.bytes()
            if self.best is None or size < self.best[0]:
                state = compression.state_dict()
                state.pop("controller")
                self.best = size, state
        return fits

    def look(self, compression: Compression, progress: float) -> None:
        if progress >= _FROM:
            self.price *= _DEARER if self._keep(compression) else _CHEAPER

    def finish(self, compression: Compression) -> None:
        if not self._keep(compression) or (self.best and self.best[0] < compression.bytes()):
            if self.best is not None:
                compression.load_state_dict({**self.best[1], "controller": self.state()})

    def state(self) -> dict[str, Any]:
        return {"price": self.price, "reference": self.reference, "best": self.best}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.reference, self.best = float(state["reference"]), state["best"]


def choose(compression: Compression, price: float) -> int:
    """Integers for the least squared error in steps plus ``price`` times the bits, into the
    parameters. Returns the bytes of the file."""
    for part in compression.parts:
        scaled = []
        for i, entry in enumerate(part.entries):
            inverse = (1 / part.steps_of(i)).unsqueeze(1)
            rows = entry.latent.reshape(entry.rows, -1) * inverse
            scaled.append(rows.reshape(-1).cpu().numpy())
        shapes = [tuple(entry.latent.shape) for entry in part.entries]
        for entry, integers in zip(
            part.entries, _core.choose(shapes, scaled, price), strict=True
        ):
            entry.chosen = integers
    return compression.bytes()


def land(compression: Compression, wanted: int) -> None:
    """Ends below ``wanted`` bytes: what fits is left as it was trained, else integers are chosen for
    fewer bits. As the core's land()."""
    size = choose(compression, 0)
    if size > wanted:
        low, high = 0.0, 1.0
        while choose(compression, high) > wanted and high < _LARGEST_LAMBDA:
            low, high = high, high * 4
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if choose(compression, middle) <= wanted:
                high = middle
            else:
                low = middle
        choose(compression, high)
    for part in compression.parts:
        part.predict()
