"""Runs a PyTorch model on held-out batches, for the core's Calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._errors import usage
from .._files.load import load_into
from .._quality import quality_of
from .collect import PART, Batch, call, called, evaluating, parts_for
from .layer_sequence import LayerSequence
from .norms import corrected_norms, folded_norms, has_norms, norm_sums
from .outputs import logits_of, outputs_of
from .pieces import owners_of
from .search import Evaluator
from .spilled import Spilled

#: Scores of all held-out batches that are compared: of models with many classes not every prediction.
_SCORES = 1 << 28


def _tensors_of(result: Any, scores: bool, most: int) -> list[torch.Tensor]:
    """What is compared: of scores the logarithms of probabilities, [predictions, classes], at most about so many."""
    logits = logits_of(result, scores)
    if logits is None:
        return [tensor.detach().float() for tensor in outputs_of(result)]
    rows = logits.detach().flatten(0, -2)
    every = max(1, -(-rows.numel() // most))
    return [rows[::every].float().log_softmax(-1)]


def _divergence(before: torch.Tensor, now: torch.Tensor) -> float:
    """The KL divergences of all predictions, added up."""
    step = max(1, PART // before.shape[-1])
    total = 0.0
    for first in range(0, len(before), step):
        part = before[first : first + step]
        total += float((part.exp() * (part - now[first : first + step])).sum(-1).double().sum())
    return total


class Held:
    """Batches to choose by, with the outputs of the original model. Of a model with many classes not all are
    used: each file takes a forward pass of them. Scores of classes are worked on in parts, and those of the original
    lie in a temporary file where they are many.

    Args:
        first: the first one's number among all batches.
        are_scores: tells of outputs without a name whether they are scores of classes.
        folder: for the temporary file; None: the system's.
    """

    def __init__(
        self, model: torch.nn.Module, batches: list[Batch], first: int, are_scores: Callable[[], bool],
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self.batches: list[Batch] = []  #: in parts
        self.scores, left = False, _SCORES
        self.originals = Spilled(folder)
        self.parts = parts_for(model, batches)
        for number, batch in enumerate(batches, first):
            for part in self.parts.of(batch):
                with evaluating(model), torch.no_grad():
                    result = called(model, part, number)
                if not self.batches and logits_of(result, False) is None:
                    self.scores = are_scores()
                self.logits = logits_of(result, self.scores) is not None
                tensors = _tensors_of(result, self.scores, _SCORES)
                del result
                if not tensors:
                    raise usage("the model returns no tensor of real numbers; calibrate() compares outputs")
                self.originals.append(tensors)
                self.batches.append(part)
                left -= sum(tensor.numel() for tensor in tensors) if self.logits else 0
            if left <= 0:
                break

    def error(self, model: torch.nn.Module) -> float:
        """Error of the model as it is now."""
        error = variance = 0.0
        with evaluating(model), torch.no_grad():
            for number, batch in enumerate(self.batches):
                result = _tensors_of(call(model, batch), self.scores, _SCORES)
                for now, before in zip(result, self.originals.read(number), strict=True):
                    if self.logits:
                        error += _divergence(before, now)
                        variance += before.numel() / before.shape[-1]
                    else:
                        error += float((now - before).double().square().sum())
                        variance += float((before - before.mean()).double().square().sum())
        return error / variance if variance > 0 else error


def copied_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state dict in memory of its own; names that share memory share it in the copy."""
    state = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    copies: dict[str, torch.Tensor] = {}
    for name, owner in owners_of(state).items():
        copies[name] = state[name].detach().clone() if owner == name else copies[owner]
    return copies


class TorchEvaluator(Evaluator):
    """What the core needs of the model.

    Args:
        measured: batches that the statistics are of. Those of norms are measured on them, too: on ``held``
            the moved ones are compared.
        state: of the model as it is, in memory of its own.
        norms: whether batch norms may be replaced by short floats.
        evaluate: of calibrate().
        end: when no further candidate is begun, on the monotonic clock.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        measured: list[Batch],
        held: Held,
        state: Mapping[str, torch.Tensor],
        norms: bool,
        evaluate: Callable[[torch.nn.Module], float] | None = None,
        end: float | None = None,
    ) -> None:
        super().__init__(end)
        self.evaluate = evaluate
        self.model, self.measured, self.held, self.state = model, measured, held, dict(state)
        self.norms = norm_sums(model, measured) if norms and has_norms(model) else {}

    def load(self, file: str) -> None:
        load_into(self.model, file, strict=False)

    def restore(self) -> None:
        self.model.load_state_dict(self.state)

    def error(self, file: str) -> float:
        self.load(file)
        error = self.held.error(self.model)
        self.restore()
        return error

    def sequential(self) -> LayerSequence:
        return LayerSequence(self.model, self.measured, self.restore)

    def evaluated(self, file: str) -> float:
        assert self.evaluate is not None
        self.load(file)
        quality = quality_of(self.model, partial(self.evaluate, self.model))
        self.restore()
        return quality

    def refitted(self, file: str) -> dict[str, NDArray[np.float32]]:
        """Vectors of the norms that fit the file's own integers."""
        if not self.norms:
            return {}
        self.load(file)
        moved = corrected_norms(self.model, self.measured, self.norms, self.state)
        vectors = folded_norms(self.model, self.state, moved)
        self.restore()
        return {name: value.detach().float().cpu().flatten().numpy() for name, value in vectors.items()}
