"""For Lightning: ``Trainer(callbacks=[GbzCallback("m.gbz", rate_weight=0.1)])``."""

from __future__ import annotations

from typing import Any

from ._errors import usage
from ._train import callback as _callback

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class GbzCallback(_callback.Callback, Callback):  # type: ignore[misc]  # Lightning may be absent
    """Prepares the module and its one optimizer when fitting begins, and saves when it ends.

    Every ``log_every_n_steps`` steps ``gbcompress/loss``, ``gbcompress/rate_weight``,
    ``gbcompress/bits`` and ``gbcompress/bytes`` go to the trainer's loggers, as TensorBoardLogger is
    one. Checkpoints of Lightning hold the state, for a run that is resumed.

    Args:
        filename: the ``.gbz`` to write when fitting ends; process 0 writes it. Names in it are
            those of the LightningModule.
        predictions: labels of the training set; unset: its samples.
        overwrite: replaces an existing file. Without it, fitting does not begin if the file exists.
        settings: as prepare() takes them: ``rate_weight``, ``max_bytes``, ``rules``, ...
    """

    _kept: dict[str, Any] | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise usage(
                f"the module has {len(trainer.optimizers)} optimizers, the callback serves one; call "
                "prepare() for each in a loop of your own"
            )
        optimizer = trainer.optimizers[0]
        steps = trainer.estimated_stepping_batches
        if steps == float("inf"):
            raise usage("the trainer has no end; give it max_steps or max_epochs")
        loader = trainer.train_dataloader
        made, _ = self._begin(
            module, optimizer, optimizer, loader, int(steps), trainer.is_global_zero
        )
        if self._kept is not None:
            made.load_state_dict(self._kept)

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        every = trainer.log_every_n_steps
        if not trainer.is_global_zero or not trainer.loggers or not every or step % every:
            return
        scalars = self._scalars()
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            scalars["gbcompress/loss"] = float(loss)
        for logger in trainer.loggers:
            logger.log_metrics(scalars, step=step)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.compression is None else self.compression.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._kept = state_dict or None

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._end(trainer.is_global_zero)
