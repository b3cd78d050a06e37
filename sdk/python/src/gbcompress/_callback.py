"""What the callbacks of training frameworks have in common."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from ._compression import Compression
from ._errors import usage
from ._prepare import prepare


class Callback:
    """Prepares a model when its training begins, and saves it when that ends.

    Args:
        filename: the ``.gbz`` to write when training ends; process 0 writes it.
        predictions: labels of the training set; unset: its samples.
        overwrite: replaces an existing file.
        settings: as prepare() takes them: ``price``, ``max_bytes``, ``rules``, ...
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
        self.settings = settings
        self.compression: Compression | None = None

    def _begin(
        self,
        model: nn.Module,
        optimizer: Any,
        bare: torch.optim.Optimizer,
        loader: Any,
        steps: int,
    ) -> tuple[Compression, bool]:
        """Prepares beside a state that the framework has loaded into the optimiser by now.

        Args:
            bare: the optimiser that holds the state, inside of ``optimizer``.
            loader: of the training set.

        Returns:
            What was made, and whether there was such a state: the run is resumed.
        """
        predictions = self.predictions
        if predictions is None:
            try:
                predictions = len(loader.dataset)
            except (TypeError, AttributeError):
                raise usage("the training set has no length; give predictions") from None
        # prepare() takes a state for steps that were made without it.
        kept = bare.state_dict() if bare.state else None
        bare.state.clear()
        made = prepare(model, optimizer, predictions=predictions, steps=steps, **self.settings)
        if kept is not None:
            bare.load_state_dict(kept)
        self.compression = made
        return made, kept is not None

    def _end(self, writes: bool) -> None:
        if self.compression is None:
            return
        if writes:
            self.compression.save(self.filename, overwrite=self.overwrite)
        self.compression.remove()
