"""For Hugging Face's Trainer: ``Trainer(..., callbacks=[GbzCallback("m.gbz", price=0.3)])``."""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import TrainerCallback

from ._callback import Callback

#: In the folder of each checkpoint.
STATE_NAME = "gbcompress.pt"


class GbzCallback(Callback, TrainerCallback):  # type: ignore[misc]  # transformers may be absent
    """Prepares the Trainer's model and optimiser when training begins, and saves when it ends.

    Checkpoints of the Trainer hold the state, and a run that is resumed goes on from it.

    Args:
        filename: the ``.gbz`` to write when training ends; process 0 writes it.
        predictions: labels of the training set; unset: its samples. Of a language model the
            characters or tokens that are predicted.
        overwrite: replaces an existing file.
        settings: as prepare() takes them: ``price``, ``max_bytes``, ``rules``, ...
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer = kwargs["optimizer"]
        bare = getattr(optimizer, "optimizer", optimizer)
        loader = kwargs["train_dataloader"]
        made, resumed = self._begin(kwargs["model"], optimizer, bare, loader, state.max_steps)
        if resumed:
            path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", STATE_NAME)
            made.load_state_dict(torch.load(path, weights_only=False))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if self.compression is not None and state.is_world_process_zero and os.path.isdir(folder):
            torch.save(self.compression.state_dict(), os.path.join(folder, STATE_NAME))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end(state.is_world_process_zero)
