"""Runs the ONNX models that files hold, for the core's Calibration."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._arguments import kind_of
from .._calibrate.search import Evaluator
from .._errors import usage
from .session import Held, Model


def quality_of(evaluate: Callable[[str], float], model: str) -> float:
    """What evaluate returns for an ONNX file. Raises UsageError for anything but a number."""
    value = evaluate(model)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise usage(f"evaluate must return a number, got {kind_of(value)}") from None


class OnnxEvaluator(Evaluator):
    """What the core needs of the model.

    Args:
        evaluate: the quality of an ONNX file, by which candidates are compared; or None: by the error of
            their outputs.
        folder: for expanded models.
        end: when no further candidate is begun, on the monotonic clock.
    """

    def __init__(
        self,
        model: Model,
        held: Held,
        evaluate: Callable[[str], float] | None,
        threads: int,
        folder: str,
        end: float | None,
    ) -> None:
        super().__init__(end)
        self.model, self.held, self.evaluate, self.threads = model, held, evaluate, threads
        self.folder = os.path.join(folder, "expanded")
        self._file = ""  #: that is expanded

    def expanded(self, file: str) -> str:
        """The path of the ONNX model that a file holds, which a call with another file replaces."""
        # External data lie beside it under their own names.
        model = os.path.join(self.folder, os.path.basename(self.model.path))
        if file != self._file:
            os.makedirs(self.folder, exist_ok=True)
            _core.expand_container(file, model, True, self.threads)
            self._file = file
        return model

    def error(self, file: str) -> float:
        return self.held.error_of(self.expanded(file))

    def quality(self, file: str) -> float | None:
        return None if self.evaluate is None else quality_of(self.evaluate, self.expanded(file))

    def evaluated(self, file: str) -> float:
        quality = self.quality(file)
        assert quality is not None
        return quality

    def refitted(self, file: str) -> dict[str, NDArray[np.float32]]:
        return {}
