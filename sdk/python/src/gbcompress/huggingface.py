"""For Hugging Face's libraries: packed folders, and a callback of the Trainer.

    from gbcompress.huggingface import save_pretrained

    save_pretrained(model, "packed/", ratio=8, tokenizer=tokenizer)
    model = AutoModelForCausalLM.from_pretrained("packed/")

    Trainer(..., callbacks=[GbzCallback("m.gbz", rate_weight=0.1)])
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import CallbackHandler

from ._errors import NotFound
from ._huggingface.pretrained import save_pretrained
from ._huggingface.quantizer import GbcompressConfig
from ._train.callback import Callback

__all__ = ["GbcompressConfig", "GbzCallback", "save_pretrained"]

#: In the folder of each checkpoint.
STATE_NAME = "gbcompress.pt"


class GbzCallback(Callback, TrainerCallback):  # type: ignore[misc]  # transformers may be absent
    """Prepares the Trainer's model and optimizer when training begins, and saves when it ends.

    Whenever the Trainer logs its loss, ``gbcompress/rate_weight``, ``gbcompress/bits`` and
    ``gbcompress/bytes`` go to the same logs: to TensorBoard, where ``report_to`` names it. Checkpoints
    of the Trainer hold the state, for a run that is resumed and for ``load_best_model_at_end``.

    Args:
        filename: the ``.gbz`` to write when training ends; process 0 writes it.
        predictions: labels of the training set; unset: its samples. For a language model, give the
            number of tokens that are predicted.
        overwrite: replaces an existing file. Without it, training does not begin if the file exists.
        settings: as prepare() takes them: ``rate_weight``, ``max_bytes``, ``rules``, ...
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _put_first(self, sys._getframe(1).f_locals.get("self"))
        optimizer = kwargs["optimizer"]
        bare = getattr(optimizer, "optimizer", optimizer)
        loader = kwargs["train_dataloader"]
        _, resumed = self._begin(
            kwargs["model"], optimizer, bare, loader, state.max_steps, state.is_world_process_zero
        )
        if resumed:
            self._load(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))

    def _load(self, folder: str) -> None:
        path = os.path.join(folder, STATE_NAME)
        if not os.path.isfile(path):
            raise NotFound(
                f"{path} does not exist: the checkpoint was made without this callback; resume from "
                "one that has the file",
                "not_found",
            )
        if self.compression is not None:
            self.compression.load_state_dict(torch.load(path, weights_only=True))

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs = kwargs.get("logs")
        if logs is not None and "loss" in logs and state.is_world_process_zero:
            scalars = self._scalars()
            logs.update(scalars)
            if state.log_history:
                state.log_history[-1].update(scalars)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if self.compression is not None and state.is_world_process_zero and os.path.isdir(folder):
            torch.save(self.compression.state_dict(), os.path.join(folder, STATE_NAME))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        best = state.best_model_checkpoint
        if args.load_best_model_at_end and best is not None:
            self._load(best)
        self._end(state.is_world_process_zero)


def _put_first(callback: GbzCallback, handler: Any) -> None:
    """Before the callbacks that write logs: they write what on_log() has added by then.

    The Trainer puts its loggers before the callbacks that it is given, and tells callbacks neither
    itself nor its handler; the handler is the caller. Of another caller nothing is changed.
    """
    if isinstance(handler, CallbackHandler) and callback in handler.callbacks:
        handler.callbacks.remove(callback)
        handler.callbacks.insert(0, callback)
