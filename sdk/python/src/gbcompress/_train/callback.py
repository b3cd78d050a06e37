"""The common part of the callbacks of training frameworks."""

from __future__ import annotations

import inspect
import os
from typing import Any

import torch
from torch import nn

from .._arguments import output
from .._arguments import path as checked_path
from .._errors import usage
from .compression import Compression
from .prepare import prepare

#: Of prepare(), given by the callback or by the framework.
_NOT_SETTINGS = ("model", "optimizer", "predictions", "steps")


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Raises UsageError for what prepare() does not take: now, not when training begins."""
    known = [name for name in inspect.signature(prepare).parameters if name not in _NOT_SETTINGS]
    for name in settings:
        if name in _NOT_SETTINGS:
            raise usage(f"{name} comes from the trainer; leave it out")
        if name not in known:
            raise usage(f"there is no setting {name}; prepare() takes {', '.join(known)}")
    if not settings.keys() & {"rate_weight", "max_bytes", "ratio", "max_drop"}:
        raise usage("there is no target; give one of rate_weight, max_bytes, ratio and max_drop")
    return settings


class Callback:
    """Prepares a model when its training begins, logs, and saves it when training ends.

    Args:
        filename: the ``.gbz`` to write when training ends; process 0 writes it.
        predictions: labels of the training set; unset: its samples.
        overwrite: replaces an existing file. Without it, training does not begin if the file exists.
        settings: as prepare() takes them: ``rate_weight``, ``max_bytes``, ``rules``, ...
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        *,
        predictions: int | None = None,
        overwrite: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.filename, self.predictions, self.overwrite = filename, predictions, overwrite
        self.settings = _checked(settings)
        self.compression: Compression | None = None
        checked_path(filename, "filename")

    def _begin(
        self,
        model: nn.Module,
        optimizer: Any,
        bare: torch.optim.Optimizer,
        loader: Any,
        steps: int,
        writes: bool,
    ) -> tuple[Compression, bool]:
        """Prepares, also where the framework has loaded a state into the optimizer before.

        Args:
            bare: the optimizer that holds the state, inside of ``optimizer``.
            loader: of the training set.
            writes: whether this process writes the file.

        Returns:
            The Compression, and whether there was such a state: the run is resumed.
        """
        if writes:
            output(self.filename, self.overwrite)
        predictions = self.predictions
        if predictions is None:
            try:
                predictions = len(loader.dataset)
            except (TypeError, AttributeError):
                raise usage("the training set has no length; give predictions=") from None
        # prepare() refuses an optimizer with a state.
        kept = bare.state_dict() if bare.state else None
        bare.state.clear()
        made = prepare(model, optimizer, predictions=predictions, steps=steps, **self.settings)
        if kept is not None:
            bare.load_state_dict(kept)
        self.compression = made
        return made, kept is not None

    def _scalars(self) -> dict[str, float]:
        """What a logger is given, beside the loss."""
        if self.compression is None:
            return {}
        return {f"gbcompress/{name}": value for name, value in self.compression.metrics().items()}

    def _end(self, writes: bool) -> None:
        if self.compression is None:
            return
        if writes:
            self.compression.save(self.filename, overwrite=self.overwrite)
        self.compression.remove()
