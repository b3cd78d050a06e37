"""For Lightning: ``Trainer(callbacks=[GbzCallback("m.gbz", price=0.3)])``."""

from __future__ import annotations

import os
from typing import Any

from ._errors import usage
from ._prepare import Compression, prepare

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class GbzCallback(Callback):  # type: ignore[misc]  # Lightning may be absent
    """Prepares the module and its one optimiser when fitting begins, and saves when it ends.

    Checkpoints of Lightning hold the state, and a run that is resumed goes on from it.

    Args:
        filename: the ``.gbz`` to write when fitting ends; process 0 writes it. Names in it are
            those of the LightningModule.
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
        self.filename, self.predictions, self.overwrite = filename, predictions, overwrite
        self.settings = settings
        self.compression: Compression | None = None
        self._kept: dict[str, Any] | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise usage(f"one optimizer is needed, the module has {len(trainer.optimizers)}")
        predictions = self.predictions
        if predictions is None:
            try:
                predictions = len(trainer.train_dataloader.dataset)
            except (TypeError, AttributeError):
                raise usage("the training set has no length; give predictions") from None
        optimizer = trainer.optimizers[0]
        # Lightning has loaded the optimiser's state by now, which prepare() takes for steps.
        kept = optimizer.state_dict() if optimizer.state else None
        optimizer.state.clear()
        self.compression = prepare(
            module,
            optimizer,
            predictions=predictions,
            steps=int(trainer.estimated_stepping_batches),
            **self.settings,
        )
        if kept is not None:
            optimizer.load_state_dict(kept)
        if self._kept is not None:
            self.compression.load_state_dict(self._kept)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.compression is None else self.compression.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._kept = state_dict or None

    def on_train_end(self, trainer: Any, module: Any) -> None:
        if self.compression is None:
            return
        if trainer.is_global_zero:
            self.compression.save(self.filename, overwrite=self.overwrite)
        self.compression.remove()
