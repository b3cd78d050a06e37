"""For Hugging Face's Trainer: ``Trainer(..., callbacks=[GbzCallback("m.gbz", price=0.3)])``."""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import TrainerCallback

from ._errors import usage
from ._prepare import Compression, prepare

#: In the folder of each checkpoint.
STATE_NAME = "gbcompress.pt"


class GbzCallback(TrainerCallback):  # type: ignore[misc]  # transformers may be absent
    """Prepares the Trainer's model and optimiser when training begins, and saves when it ends.

    Checkpoints of the Trainer hold the state, and a run that is resumed goes on from it.

    Args:
        filename: the ``.gbz`` to write when training ends; process 0 writes it.
        predictions: labels of the training set; unset: its samples. Of a language model the
            characters or tokens that are predicted.
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
        self.filename, self.predictions, self.overwrite = filename, predictions, overwrite
        self.settings = settings
        self.compression: Compression | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        predictions = self.predictions
        if predictions is None:
            try:
                predictions = len(kwargs["train_dataloader"].dataset)
            except TypeError:
                raise usage("the training set has no length; give predictions") from None
        optimizer = kwargs["optimizer"]
        resumed = getattr(optimizer, "optimizer", optimizer)
        # The Trainer has loaded the optimiser's state by now, which prepare() takes for steps.
        kept = resumed.state_dict() if resumed.state else None
        resumed.state.clear()
        self.compression = prepare(
            kwargs["model"],
            optimizer,
            predictions=predictions,
            steps=state.max_steps,
            **self.settings,
        )
        if kept is not None:
            resumed.load_state_dict(kept)
            path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", STATE_NAME)
            self.compression.load_state_dict(torch.load(path, weights_only=False))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if self.compression is not None and state.is_world_process_zero and os.path.isdir(folder):
            torch.save(self.compression.state_dict(), os.path.join(folder, STATE_NAME))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.compression is None:
            return
        if state.is_world_process_zero:
            self.compression.save(self.filename, overwrite=self.overwrite)
        self.compression.remove()
