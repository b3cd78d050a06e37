"""A short training of a file's vectors, norm weights and biases, under its own integers."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .. import _core
from .._errors import usage, warn
from .._progress_bar import progress
from .collect import PART, Batch, call, evaluating, widest_of
from .compare import finite
from .evaluator import TorchEvaluator
from .norms import NORM_BITS
from .outputs import logits_of, outputs_of
from .parts import Parts, tensors_in
from .search import Chosen
from .statistics import Recovery

#: Learning rate, relative to a value's magnitude and to the root of the weights' relative squared error. Decay of
#: Adam's two averages.
_RATE, _BETAS, _EPSILON = 0.02, (0.9, 0.95), 1e-12
#: A value counts as at least this part of the root of its vector's mean square.
_LEAST = 0.1
#: The part of the steps in which the learning rate grows.
_WARM = 0.1
#: Models of more weights run in bfloat16 where the processor multiplies such numbers, several times as fast.
_LARGE = 10_000_000
#: Of the file, kept free for vectors that are trained: a bit for each value, but at most this part.
_ROOM = 0.005
#: Of the time that is left, the part that recovery takes at most.
_SHARE = 0.5
#: Mantissa bits of trained vectors: as many as fit, of bfloat16 at most its own.
_FEWEST_BITS, _BFLOAT16_BITS = 3, 7
#: Kinds of tensors in files that can be vectors.
_KINDS = ("quantized", "exact", "constant")


def _vectors_of(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Parameters of at most one dimension, each under its first name. Masks, which are infinite, stay."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.ndim <= 1 and parameter.is_floating_point() and parameter.numel()
        and bool(torch.isfinite(parameter).all())
    }


@contextlib.contextmanager
def _swapped(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """The model with other weights for a while, none of which is copied."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    own = {name: tensor.data for name, tensor in tensors.items() if name in state}
    try:
        for name in own:
            tensors[name].data = state[name]
        yield
    finally:
        for name, data in own.items():
            tensors[name].data = data


@contextlib.contextmanager
def _trainable(model: torch.nn.Module, vectors: Mapping[str, torch.nn.Parameter]) -> Iterator[None]:
    """Gradients of the vectors alone for a while."""
    kept = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    wanted = {id(vector) for vector in vectors.values()}
    for parameter, _, _ in kept:
        parameter.grad = None
        parameter.requires_grad_(id(parameter) in wanted)
    try:
        yield
    finally:
        for parameter, requires, gradient in kept:
            parameter.requires_grad_(requires)
            parameter.grad = gradient


def _fast(model: torch.nn.Module) -> bool:
    """Whether products in bfloat16 are faster, and the model is large enough that it matters."""
    first = next(model.parameters())
    if first.dtype != torch.float32 or sum(p.numel() for p in model.parameters()) <= _LARGE:
        return False
    if first.device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return first.device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


def _score_gradient(before: torch.Tensor, now: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The mean KL divergence of predictions, and its gradient by the scores ``now``, in the memory of the original's
    where these lie without gaps. Both are [..., classes]."""
    shape, predictions = now.shape, now.numel() // now.shape[-1]
    before, now = before.flatten(0, -2), now.detach().flatten(0, -2)
    step, total = max(1, PART // before.shape[-1]), 0.0
    for first in range(0, len(before), step):
        some = slice(first, first + step)
        log_p, log_q = before[some].float().log_softmax(-1), now[some].float().log_softmax(-1)
        p = log_p.exp()
        terms = (p * (log_p - log_q)).masked_fill_((log_p == -math.inf) & (log_q == -math.inf), 0)  # masked classes
        total += float(terms.sum(-1).double().sum())
        before[some] = (log_q.exp_().sub_(p) / predictions).to(before.dtype)
    return total / predictions, before.view(shape)


def _spread(values: torch.Tensor) -> float:
    """Squared distance from the mean of the entries that are finite; the others are not compared."""
    some = values[finite(values)]
    return float((some - some.mean()).square().sum()) if some.numel() else 0.0


class Trainer:
    """Trains vectors of a model to give the original's outputs.

    Memory beside the weights of both: the scores of a part of a batch twice, activations of its passes, and for
    each value of a vector four float32 numbers.

    Args:
        evaluator: whose ``state`` is the original's and whose ``measured`` batches train.
        seed: of the order of batches.

    Raises:
        UsageError: no vectors; no output has a gradient.
    """

    def __init__(self, evaluator: TorchEvaluator, steps: int, seed: int = 0) -> None:
        self.evaluator, self.model, self.steps, self.seed = evaluator, evaluator.model, steps, seed
        self.vectors = _vectors_of(self.model)
        if not self.vectors:
            raise usage(
                f"recover={steps} trains norm weights and biases, and the model has no parameter of one dimension; "
                "leave out recover"
            )
        self._fast = _fast(self.model)
        self._parts = Parts(self._before, evaluator.measured, widest_of(self.model))
        self._seconds = self._timed()

    def _timed(self) -> float:
        """Seconds of a step, about."""
        with _trainable(self.model, self.vectors):
            parts = self._parts.of(self.evaluator.measured[0])
            start = time.monotonic()
            self._pass(parts[0], 1.0)
        return (time.monotonic() - start) * len(parts)

    @property
    def seconds(self) -> float:
        """Of all steps, about."""
        return self._seconds * self.steps

    def _call(self, batch: Batch) -> Any:
        kind = next(self.model.parameters()).device.type
        with evaluating(self.model), torch.autocast(kind, torch.bfloat16, enabled=self._fast):
            return call(self.model, batch, 0)  # both models draw the same random numbers

    def _before(self, batch: Batch) -> Any:
        with torch.no_grad(), _swapped(self.model, self.evaluator.state):
            return self._call(batch)

    def _pass(self, part: Batch, share: float) -> float:
        """Adds the gradients of a part's mean loss, times its share of the step. Returns the mean loss."""
        before = self._before(part)
        with torch.enable_grad():
            now = self._call(part)
        scores = self.evaluator.held.scores
        if (logits := logits_of(now, scores)) is not None:
            target = logits_of(before, scores)
            assert target is not None
            loss, gradient = _score_gradient(target, logits)
            self._backward([logits], [gradient.to(logits.dtype).mul_(share)])
            return loss
        if [each.shape for each in outputs_of(now)] != [each.shape for each in outputs_of(before)]:
            raise usage("recover compares outputs, and the file's have other shapes than the original's; leave out recover")
        pairs = list(zip(outputs_of(now), outputs_of(before), strict=True))
        scale = sum(_spread(old.float()) for _, old in pairs) or 1.0
        off = [(new.detach().float() - old.float()).masked_fill_(~finite(old), 0) for new, old in pairs]
        gradients = [(2 * share / scale * each).to(new.dtype) for each, (new, _) in zip(off, pairs, strict=True)]
        self._backward([new for new, _ in pairs], gradients)
        return sum(float(each.square().sum()) for each in off) / scale

    def _backward(self, outputs: list[torch.Tensor], gradients: list[torch.Tensor]) -> None:
        wanted = [(new, gradient) for new, gradient in zip(outputs, gradients, strict=True) if new.requires_grad]
        if not wanted:
            raise usage(
                "no output of the model depends on its vectors by a gradient; leave out recover, or return the outputs "
                "before they are detached"
            )
        torch.autograd.backward([new for new, _ in wanted], [gradient for _, gradient in wanted])

    def _batches(self) -> Iterator[Batch]:
        """All batches in one order after another, each drawn by the seed."""
        draw = np.random.Generator(np.random.Philox(key=self.seed))
        while True:
            for number in draw.permutation(len(self.evaluator.measured)):
                yield self.evaluator.measured[number]

    def _step(self, batch: Batch) -> float:
        """Gradients of one batch. Returns its mean loss."""
        parts = self._parts.of(batch)
        rows = [len(tensors_in(part)[0]) if len(parts) > 1 else 1 for part in parts]
        shares = [count / sum(rows) for count in rows]
        return sum(share * self._pass(part, share) for share, part in zip(shares, parts, strict=True))

    def trained(self, names: list[str], error: float) -> tuple[int, dict[str, torch.Tensor]] | None:
        """Trains vectors of the model as it is now. Returns the steps and float32 values; None where a loss is
        not finite, or no step is done in time.

        Args:
            error: relative squared error of the weights.
        """
        vectors = {name: self.vectors[name] for name in names}
        steps = self._in_time()
        if not vectors or steps < 1:
            return None
        begun = {name: vector.detach().float().clone() for name, vector in vectors.items()}
        scales = {name: _scales(value) for name, value in begun.items()}
        moved = {name: torch.zeros_like(value) for name, value in begun.items()}
        rate = _RATE * math.sqrt(error)
        adam = torch.optim.Adam(moved.values(), lr=rate, betas=_BETAS, eps=_EPSILON)
        batches = self._batches()
        with _trainable(self.model, vectors):
            for step in progress(range(steps), "steps of recovery"):
                for group in adam.param_groups:
                    group["lr"] = rate * _factor(step, steps)
                loss = self._step(next(batches))
                for name, vector in vectors.items():
                    moved[name].grad = None if vector.grad is None else vector.grad.float() * scales[name]
                    vector.grad = None
                if not math.isfinite(loss):
                    return None
                adam.step()
                with torch.no_grad():
                    for name, vector in vectors.items():
                        vector.copy_(begun[name] + scales[name] * moved[name])
                if step + 1 < steps and self._in_time() < 1:
                    steps = step + 1
                    break
        return steps, {name: begun[name] + scales[name] * moved[name] for name in vectors}

    def _in_time(self) -> int:
        """The steps that end in time. Writing and measuring the file take less time than a candidate."""
        if self.evaluator.end is None:
            return self.steps
        left = self.evaluator.end - self.evaluator.longest - time.monotonic()
        return min(self.steps, max(0, int(left / max(self._seconds, 1e-9))))


def _scales(values: torch.Tensor) -> torch.Tensor:
    """What the learning rate of each value of a vector is relative to."""
    root = float(values.double().square().mean().sqrt())
    return values.abs().clamp_min(_LEAST * root) if root > 0 else torch.ones_like(values)


def _factor(step: int, steps: int) -> float:
    """Of the learning rate: warm-up, then half a cosine."""
    warm = max(1, round(_WARM * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 + 0.5 * math.cos(math.pi * (step - warm) / max(1, steps - warm))


class Trained:
    """Trains the vectors of a chosen file, and writes it anew where that lowers its error."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.evaluator = trainer, trainer.evaluator
        self.end = self.evaluator.end
        if self.end is not None:  # the search ends before
            now = time.monotonic()
            self.evaluator.end = self.end - min(trainer.seconds, _SHARE * max(0.0, self.end - now))

    def room(self, size: int) -> int:
        return min(sum(vector.numel() for vector in self.trainer.vectors.values()) // 8, int(_ROOM * size))

    def recovered(self, chosen: Chosen, size: int | None, worst: float | None, folder: str) -> Recovery:
        self.evaluator.end = self.end
        stored = _stored(chosen.file, self.trainer.vectors, None if size is None else size - chosen.report.file_bytes)
        self.evaluator.load(chosen.file)
        try:
            found = self.trainer.trained(list(stored), chosen.report.error)
        finally:
            self.evaluator.restore()
        if found is None:
            warn(
                "recovery did no step: no time was left, a loss was not finite, or the file holds no vector that "
                "can be trained; the file is as it was chosen",
                UserWarning,
            )
            return Recovery(0, chosen.error, math.nan, False)
        steps, vectors = found
        values = {stored[name]: value.cpu().flatten().numpy() for name, value in vectors.items()}
        file = os.path.join(folder, "recovered.gbz")
        before = chosen.error
        if not _write(chosen.file, file, values, size):
            return Recovery(steps, before, math.nan, False)
        after = self.evaluator.error(file)
        quality = None if worst is None else self.evaluator.evaluated(file)
        kept = after < before and (worst is None or quality is not None and quality >= worst)
        if kept:
            made = _core.File(file, None)
            chosen.file, chosen.error = file, after
            chosen.quality = chosen.quality if quality is None else quality
            chosen.report = replace(chosen.report, file_bytes=made.file_bytes, identity=made.identity)
        return Recovery(steps, before, after, kept)


def _stored(file: str, vectors: Mapping[str, torch.nn.Parameter], room: int | None) -> dict[str, str]:
    """Names of a file's own vectors by those of the model's. Constants, which take no bytes, are left out where all
    of them would take more than there is room for, about."""
    tensors = _core.File(file, None).tensors()
    entries = {entry["name"]: entry for entry in tensors}
    found: dict[str, str] = {}
    for name, vector in vectors.items():
        entry = entries.get(name)
        if entry is not None and entry["tied_to"] is not None:
            entry = tensors[entry["tied_to"]]
        if entry is not None and entry["kind"] in _KINDS and tuple(entry["shape"]) == tuple(vector.shape):
            found[name] = entry["name"]
    constants = {name for name in found if entries[found[name]]["kind"] == "constant"}
    if room is not None and sum(vectors[name].numel() for name in constants) > room:
        return {name: own for name, own in found.items() if name not in constants}
    return found


def _write(file: str, to: str, values: Mapping[str, np.ndarray[Any, np.dtype[np.float32]]], size: int | None) -> bool:
    """Writes the file with other vectors, of as many mantissa bits as the size takes. False: of none."""
    read = _core.File(file, None)
    narrow = all(entry["dtype"] == "BF16" for entry in read.tensors() if entry["name"] in values)
    for bits in range(_BFLOAT16_BITS if narrow else NORM_BITS, _FEWEST_BITS - 1, -1):
        made = _core.join([file], to, read.settings, True, list(values.items()), bits)
        if size is None or made <= max(size, read.file_bytes):
            return True
    return False
