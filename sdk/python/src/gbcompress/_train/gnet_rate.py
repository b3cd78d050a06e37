"""Bits of g-nets that are integers, as a part of the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .. import _core
from .._arguments import real, whole
from .._errors import TargetNotMet, usage, warn
from .gnet_file import file_bytes

if TYPE_CHECKING:
    from .bottleneck import GenomicBottleneck

#: What g-nets can be stored as; with the last one they are integers while they train.
CODINGS = ("fp32", "fp16", "int8", "coded")


def checked_coding(coding: object) -> str:
    """Raises UsageError."""
    if coding not in CODINGS:
        raise usage(f"coding must be 'fp32', 'fp16', 'int8' or 'coded', got {coding!r}")
    return str(coding)


class GnetRate:
    """The rate weight of a run: that of the core's schedule, before each step."""

    def __init__(self, rate_weight: object, predictions: object, steps: int, max_bytes: object) -> None:
        """Raises UsageError."""
        weight = real(0.3 if rate_weight is None else rate_weight, "rate_weight")
        self.max_bytes = None if max_bytes is None else whole(max_bytes, "max_bytes", 1)
        labels = 0 if predictions is None else whole(predictions, "predictions", 1)
        if weight > 0 and labels == 0:
            raise usage(
                "coding='coded' counts bits in the loss, which is a mean over labels; give predictions, their number in "
                "the training data, or rate_weight=0"
            )
        if self.max_bytes is not None and steps == 0:
            raise usage("max_bytes needs the number of steps, over which the rate weight is adapted; give num_batches")
        self._settings = (weight, labels, steps, self.max_bytes)
        self.restart()

    def text(self) -> str:
        """For the agreement of ranks."""
        return str(self._settings)

    def restart(self) -> None:
        """A run begins anew."""
        self._schedule = _core.RateSchedule.make(*self._settings)
        self.loss_per_bit = 0.0  #: of the next backward()
        self._begun = False

    def resume(self, steps: int, loss_per_bit: float) -> None:
        """A run continues after that many steps."""
        self.restart()
        self.loss_per_bit, self._begun = loss_per_bit, loss_per_bit > 0
        if self._begun:
            self._schedule.resume(steps, loss_per_bit)

    def begin(self, bottleneck: GenomicBottleneck) -> None:
        """Before the first backward() of a run: the entropy model has no estimates yet."""
        if not self._begun:
            self.set(bottleneck)
            self._begun = True

    def after_step(self, bottleneck: GenomicBottleneck) -> None:
        if self._begun:
            self.set(bottleneck)

    def set(self, bottleneck: GenomicBottleneck) -> None:
        """The rate weight of the next backward(). [collective with max_bytes]"""
        step, schedule = bottleneck._steps, self._schedule
        if schedule.refreshes(step):
            for gnets in coded_of(bottleneck):
                gnets.expect(schedule.contexts(step))
            if schedule.steers(step):
                factor = schedule.steer(step, _agreed_bytes(bottleneck))
                if factor != 1:
                    for gnets in coded_of(bottleneck):
                        gnets.scale_steps(factor)
        self.loss_per_bit = schedule.loss_per_bit(step)

    def fit_size(self, bottleneck: GenomicBottleneck) -> None:
        """Chooses integers for a file of at most ``max_bytes``. They hold until the next step or forget()."""
        if self.max_bytes is None:
            return
        gnets = coded_of(bottleneck)

        def bytes_at(rate_weight: float) -> int:
            _core.choose_coded(gnets, rate_weight)
            return file_bytes(bottleneck, "coded")

        size = _core.fit_size(self.max_bytes, bytes_at)
        if size > self.max_bytes and bottleneck._ranks.rank == 0:
            warn(
                f"{self.max_bytes} bytes are out of reach: the smallest file of these g-nets has {size}; give smaller "
                "g-nets or a larger max_bytes",
                TargetNotMet,
            )

    def forget(self, bottleneck: GenomicBottleneck) -> None:
        """Training continues from the trained integers, not from the chosen ones."""
        if self.max_bytes is not None:
            for gnets in coded_of(bottleneck):
                gnets.forget_chosen()


def coded_of(bottleneck: GenomicBottleneck) -> list[_core.CodedGnets]:
    """All g-nets, in the order of the file."""
    return [layer.gnets for layer in bottleneck._layers if isinstance(layer.gnets, _core.CodedGnets)]


def _agreed_bytes(bottleneck: GenomicBottleneck) -> int:
    """Of the file as things stand on rank 0: processors of other kinds round differently."""
    size = torch.full((1,), file_bytes(bottleneck, "coded"), device=bottleneck._layers[0].parameter.device)
    bottleneck._ranks.broadcast("step()", [(size, 0)])
    return int(size)
