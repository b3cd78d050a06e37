"""Runs a PyTorch model on held-out batches, for the core's Calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._errors import usage
from .._files.load import load_into
from .._quality import quality_of
from .collect import PART, Batch, called, evaluating, parts_for
from .compare import OtherShapes, check_some_finite, differs, finite, squared_error
from .layer_sequence import LayerSequence
from .moments import Checker, check_parameters
from .norms import corrected_norms, folded_norms, has_norms, norm_sums
from .outputs import logits_of, outputs_of
from .parts import tensors_in
from .passes import own_buffers
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
    """The KL divergences of all predictions, added up. Classes that the original masks by -inf do not count where the
    candidate does, nor do predictions that are NaN in the original."""
    step = max(1, PART // before.shape[-1])
    total = 0.0
    for first in range(0, len(before), step):
        part, other = before[first : first + step], now[first : first + step]
        terms = part.exp() * (part - other)
        if not bool(torch.isfinite(terms).all()):
            if differs(part, other):
                return math.inf
            terms.masked_fill_(~finite(part), 0)
        total += float(terms.sum(-1).double().sum())
    return total


def _check_inputs(model: torch.nn.Module, batch: Batch, number: int) -> None:
    """Raises GbzError where inputs of layers are not finite."""
    checker = Checker(model)
    try:
        with evaluating(model), torch.no_grad():
            called(model, batch, number)
    finally:
        checker.close()


def _all_finite(tensors: list[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _check_shapes(before: list[torch.Tensor], now: list[torch.Tensor], number: int) -> None:
    """Raises OtherShapes."""
    shapes = [[list(tensor.shape) for tensor in tensors] for tensors in (before, now)]
    if shapes[0] == shapes[1]:
        return
    different = next((pair for pair in zip(*shapes, strict=False) if pair[0] != pair[1]), None)
    told = f"{different[1]}, not {different[0]}" if different else f"{len(now)} outputs, not {len(before)}"
    raise OtherShapes(
        f"outputs of candidates have other shapes than the original's ({told} in batch {number}) and cannot be compared; "
        "give evaluate, which then chooses",
        "usage",
    )


class Held:
    """Batches to choose by, with the outputs of the original model. Of a model with many classes not all are
    used: each file takes a forward pass of them. Scores of classes are worked on in parts, and those of the original
    lie in a temporary file where they are many.

    Args:
        first: the first one's number among all batches.
        are_scores: tells of outputs without a name whether they are scores of classes.
        folder: for the temporary file; None: the system's.

    Raises:
        UsageError: a batch that does not fit, or no tensor of real numbers among the outputs.
        GbzError: inputs of a layer, or all outputs, are not finite (``code`` ``"non_finite"``).
    """

    def __init__(
        self, model: torch.nn.Module, batches: list[Batch], first: int, are_scores: Callable[[], bool],
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self.batches: list[tuple[int, Batch]] = []  #: in parts, each with its batch's number
        self.scores, left = False, _SCORES
        self.originals = Spilled(folder)
        self.parts = parts_for(model, batches)
        comparable = entries = 0
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
                # Masks may be infinite, among inputs and among outputs: a further pass tells.
                if not _all_finite(tensors_in(part) + tensors):
                    _check_inputs(model, part, number)
                    check_parameters(model.named_parameters(), masks=True)
                comparable += sum(int(finite(tensor).sum()) for tensor in tensors)
                entries += sum(tensor.numel() for tensor in tensors)
                self.originals.append(tensors)
                self.batches.append((number, part))
                left -= sum(tensor.numel() for tensor in tensors) if self.logits else 0
            if left <= 0:
                break
        check_some_finite(comparable, entries)

    def error(self, model: torch.nn.Module) -> float:
        """Error of the model as it is now. Raises OtherShapes where its outputs are not those of the original."""
        error = variance = 0.0
        with evaluating(model), torch.no_grad():
            for at, (number, batch) in enumerate(self.batches):
                result = _tensors_of(called(model, batch, number), self.scores, _SCORES)
                originals = self.originals.read(at)
                _check_shapes(originals, result, number)
                for now, before in zip(result, originals, strict=True):
                    if self.logits:
                        error += _divergence(before, now)
                        variance += float(finite(before).any(-1).sum())
                    else:
                        error += squared_error(before, now)
                        some = before if _all_finite([before]) else before[finite(before)]
                        variance += float((some - some.mean()).double().square().sum()) if some.numel() else 0.0
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
        chooses: whether ``evaluate`` chooses between candidates in place of the error of their outputs.
        end: when no further candidate is begun, on the monotonic clock.
        views: tensors that files name and the model does not, on the CPU, in the model's memory.
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
        chooses: bool = False,
        views: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(end)
        self.evaluate, self.chooses, self.views = evaluate, chooses, views or {}
        self.model, self.measured, self.held, self.state = model, measured, held, dict(state)
        self.norms = norm_sums(model, measured) if norms and has_norms(model) else {}

    def load(self, file: str) -> None:
        load_into(self.model, file, strict=False)
        if self.views:
            load_into(self.views, file, strict=False)

    def restore(self) -> None:
        self.model.load_state_dict(self.state)

    def error(self, file: str) -> float:
        self.load(file)
        try:
            return self.held.error(self.model)
        except OtherShapes:
            if not self.chooses:
                raise
            return math.inf
        finally:
            self.restore()

    def takes_over(self) -> bool:
        took = self.evaluate is not None and not self.chooses
        self.chooses = self.chooses or took
        return took

    def quality(self, file: str) -> float | None:
        return self.evaluated(file) if self.chooses else None

    def sequential(self) -> LayerSequence:
        return LayerSequence(self.model, self.measured, self.restore, self.views)

    def evaluated(self, file: str) -> float:
        assert self.evaluate is not None
        self.load(file)
        with own_buffers(self.model):
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
