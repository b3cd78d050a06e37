"""For Lightning: ``Trainer(callbacks=[GbzCallback("m.gbz", price=0.3)])``."""

from __future__ import annotations

from typing import Any

from . import _callback
from ._errors import usage

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class GbzCallback(_callback.Callback, Callback):  # type: ignore[misc]  # Lightning may be absent
    """Prepares the module and its one optimiser when fitting begins, and saves when it ends.

    Checkpoints of Lightning hold the state, and a run that is resumed goes on from it.

    Args:
        filename: the ``.gbz`` to write when fitting ends; process 0 writes it. Names in it are
            those of the LightningModule.
        predictions: labels of the training set; unset: its samples.
        overwrite: replaces an existing file.
        settings: as prepare() takes them: ``price``, ``max_bytes``, ``rules``, ...
    """

    _kept: dict[str, Any] | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise usage(f"one optimizer is needed, the module has {len(trainer.optimizers)}")
        optimizer = trainer.optimizers[0]
        steps = int(trainer.estimated_stepping_batches)
        made, _ = self._begin(module, optimizer, optimizer, trainer.train_dataloader, steps)
        if self._kept is not None:
            made.load_state_dict(self._kept)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.compression is None else self.compression.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._kept = state_dict or None

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._end(trainer.is_global_zero)
