"""Second-order statistics of a PyTorch model's weights, measured by hooks on its modules."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.parameter import is_lazy
from torch.nn.utils.spectral_norm import SpectralNorm  # the hook of modules without parametrizations

from .._arguments import kind_of
from .._errors import GbzError, usage, warn
from .._files.arrays import is_module
from .._files.statistics import Statistics
from .._memory import memory_errors, ran_out
from .._modules import unwrapped
from .._progress_bar import progress
from .moments import Collector, check_parameters, moment_bytes
from .outputs import are_scores, beginning, checked_outputs, logits_of, outputs_of
from .parts import Batch as Batch
from .parts import Parts, tensors_in
from .passes import copied, undisturbed

#: Batches whose outputs tell what they are.
_LOOKED_AT = 8

#: Gradients of larger embeddings are sparse.
_TABLE = 1 << 22
#: Of moments between rows: rows of a matrix, and numbers in all.
_MOST_ROWS, _MOST_NUMBERS = 4096, 48 << 20


def call(model: torch.nn.Module, batch: Batch, number: int) -> Any:
    """The model's outputs for a batch, whose tensors are copied to the model's device.

    Args:
        number: of the batch, which random numbers depend on.
    """
    place = next(model.parameters()).device
    with undisturbed(model, number):
        if isinstance(batch, Mapping):
            return model(**copied(dict(batch), place))
        if isinstance(batch, tuple | list):
            return model(*copied(list(batch), place))
        return model(copied(batch, place))


def called(model: torch.nn.Module, batch: Batch, number: int) -> Any:
    """The same for batch ``number`` of a list. Raises UsageError where the forward pass raises an exception."""
    try:
        return call(model, batch, number)
    except Exception as error:  # forward may raise any
        if isinstance(error, GbzError) or ran_out(error):
            raise
        beyond = _beyond(model, batch) if isinstance(error, IndexError) else None
        raise usage(
            f"batch {number} ({_described(batch)}) does not fit the model: {beyond or _told(error)}; give batches as the "
            "model takes them, tuples of arguments and dicts of keyword arguments too"
        ) from error


def _told(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


def _beyond(model: torch.nn.Module, batch: Batch) -> str | None:
    """Names a token id that no row of the largest embedding has."""
    words = max((m.num_embeddings for m in model.modules() if isinstance(m, torch.nn.Embedding)), default=0)
    for tensor in tensors_in(batch):
        bad = tensor[(tensor < 0) | (tensor >= words)] if words and not tensor.is_floating_point() else tensor[:0]
        if bad.numel():
            return f"token id {int(bad.flatten()[0])} is beyond the vocabulary of {words}, whose ids begin at 0"
    return None


def _described(batch: Batch) -> str:
    """Shapes of a batch, for messages."""
    if isinstance(batch, torch.Tensor):
        return f"a tensor {list(batch.shape)}"
    values = batch.items() if isinstance(batch, Mapping) else enumerate(batch) if isinstance(batch, tuple | list) else ()
    shapes = [f"{k}: {list(v.shape) if isinstance(v, torch.Tensor) else type(v).__name__}" for k, v in values]
    return f"{type(batch).__name__} {', '.join(shapes)}".rstrip()


def outputs_for(model: torch.nn.Module, batch: Batch) -> Any:
    """Without gradients, in evaluation mode."""
    with evaluating(model), torch.no_grad():
        return call(model, batch, 0)


def parts_for(model: torch.nn.Module, items: list[Batch]) -> Parts:
    """How batches of a model are taken apart."""
    return Parts(partial(outputs_for, model), items, widest_of(model))


def widest_of(model: torch.nn.Module) -> int:
    """The longest side of a parameter: no model has more classes."""
    return max((side for parameter in model.parameters() for side in parameter.shape), default=1)


def _differs_in_training(module: torch.nn.Module) -> bool:
    """Whether it computes something else in training mode, or changes its buffers."""
    kinds = (
        torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd,
        torch.nn.utils.parametrizations._SpectralNorm,
    )  # fmt: skip
    hooks = getattr(module, "_forward_pre_hooks", {}).values()
    return isinstance(module, kinds) or any(isinstance(hook, SpectralNorm) for hook in hooks)


def mentions_training(model: torch.nn.Module) -> None:
    """Warns of a model in training mode, where that makes a difference."""
    for name, module in model.named_modules():
        if module.training and _differs_in_training(module):
            warn(
                f"the model is in training mode ({name or 'it'} is); it is measured in evaluation mode and is in "
                "training mode again afterwards, model.eval() avoids this warning",
                UserWarning,
            )
            return


def checked_batches(batches: object) -> list[Batch]:
    """The batches as a list. Raises UsageError for what is none, and for none at all."""
    if isinstance(batches, torch.Tensor | str | Mapping) or not isinstance(batches, Iterable):
        raise usage(
            f"batches must be a list or another iterable of batches, got {kind_of(batches)}; write [batch]"
        )
    items = list(batches)
    if not items:
        raise usage("batches is empty; give some batches of inputs, 64 to 512 samples in all")
    return items


def checked_model(model: object) -> torch.nn.Module:
    """The module that runs: the one inside what torch.compile and DataParallel return, whose names files have. Raises
    UsageError for anything but a module with parameters that have values."""
    if not is_module(model):
        raise usage(f"the model must be a torch module, got {kind_of(model)}")
    inner: torch.nn.Module = unwrapped(model)  # type: ignore[arg-type]
    if next(inner.parameters(), None) is None:
        raise usage("the model has no parameters; there is nothing to calibrate")
    for name, tensor in (*inner.named_parameters(), *inner.named_buffers()):
        if is_lazy(tensor):
            raise usage(f"{name} has no shape yet; run a batch through the model first, model(batch)")
        if tensor.is_meta:
            raise usage(
                f"{name} lies on the meta device and has no values; load the weights first, as "
                "model.load_state_dict(..., assign=True) does"
            )
    return inner


def _uncompiled() -> contextlib.AbstractContextManager[object]:
    """Meanwhile, what torch.compile has made runs as it was written: compiled functions call no hooks, and each
    candidate would be compiled anew. Without torch._dynamo nothing is compiled."""
    stance = getattr(torch.compiler, "set_stance", None) if "torch._dynamo" in sys.modules else None
    return stance("force_eager") if stance else contextlib.nullcontext()


@contextlib.contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode for a while, without compiled functions: every module gets its own mode back."""
    modes = {module: module.training for module in model.modules()}
    try:
        try:
            model.eval()
        except NotImplementedError:  # of a module of torch.export, whose graph has its mode
            for module in modes:
                module.training = False
        with _uncompiled():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


#: Scores that are worked on at a time.
PART = 1 << 24
#: Predictions times parameters of the batches that are run backwards, about: gradients of few batches tell as
#: much of Fisher information as those of many. Moments of inputs are of all batches.
_BACKWARD = 2e11


def _signs(like: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    """1 or -1, drawn for each element."""
    bits = np.unpackbits(np.frombuffer(draw.bytes(-(-like.numel() // 8)), np.uint8), count=like.numel())
    return torch.from_numpy(bits).to(like.device, like.dtype).mul_(2).sub_(1).reshape(like.shape)


def _signed_scores(logits: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    """The gradient by logits of a sum over the classes of their logarithms of probabilities, each with a random
    sign and weighted by the root of its probability. Squares of the gradients that it leads to are those of Fisher
    information, in expectation. Labels that are drawn tell the same with a larger variance, as nearly all are the
    model's own."""
    gradient = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    rows, into = logits.detach().flatten(0, -2), gradient.flatten(0, -2)
    step = max(1, PART // rows.shape[-1])
    for first in range(0, len(rows), step):
        shares = rows[first : first + step].float().softmax(-1)
        signed = shares.sqrt().mul_(_signs(shares, draw))
        into[first : first + step] = signed - shares * signed.sum(-1, keepdim=True)
    return gradient


def kind_of_outputs(model: torch.nn.Module, items: list[Batch], scores: bool | None) -> bool:
    """Whether outputs without a name are scores: as the caller says, or as the values of some do."""
    if scores is not None:
        return scores
    results: list[Any] = []
    with evaluating(model), torch.no_grad():
        for number, batch in enumerate(items[:_LOOKED_AT]):
            result = called(model, batch, number)
            if not results and logits_of(result, False) is not None:
                return False  # they have their name
            results.append(beginning(result))
    return are_scores(results)


def _backward(result: Any, draw: np.random.Generator, scores: bool) -> None:
    """Gradients whose squares are Fisher information of scores; of values all outputs count alike."""
    logits = logits_of(result, scores)
    outputs = [logits] if logits is not None else outputs_of(result)
    outputs = [output for output in outputs if output.requires_grad]
    if not outputs:
        raise usage(
            "no output of the model depends on its weights by a gradient; give importance=False, or return "
            "the outputs before they are detached"
        )
    signed = _signed_scores if logits is not None else _signs
    _run_backward(outputs, [signed(output, draw) for output in outputs])


def _run_backward(outputs: list[torch.Tensor], gradients: list[torch.Tensor] | None = None) -> None:
    """Raises UsageError where the model's backward pass raises an exception."""
    try:
        torch.autograd.backward(outputs, gradients)
    except Exception as error:  # functions of a model's own may raise any
        if isinstance(error, GbzError) or ran_out(error):
            raise
        raise usage(
            f"the model's backward pass fails: {_told(error)}; give importance=False, which goes without it"
        ) from error


def _backward_of_loss(value: object) -> None:
    """Gradients of what ``loss`` returned. Raises UsageError for anything but a number with a gradient."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = f"a tensor {list(value.shape)}" if isinstance(value, torch.Tensor) else kind_of(value)
        raise usage(f"loss must return a tensor of one number, got {found}; add it up over samples")
    if not value.requires_grad:
        raise usage(
            "loss returned a number without a gradient; compute it from the outputs without detach() or no_grad(), or "
            "give importance=False"
        )
    _run_backward([value.reshape(())])


def _predictions(result: Any) -> int:
    """All but the last dimension of the first output."""
    first = next(iter(outputs_of(result)), torch.empty(1))
    return first.numel() // (first.shape[-1] if first.ndim and first.shape[-1] else 1)


def _narrow(model: torch.nn.Module) -> set[str]:
    """Matrices whose rows get moments: those of the fewest rows first, as many as the limit allows."""
    rows = sorted((p.shape[0], name) for name, p in model.named_parameters() if p.ndim >= 2)
    numbers, names = 0, set()
    for count, name in rows:
        numbers += count * count
        if count > _MOST_ROWS or numbers > _MOST_NUMBERS:
            break
        names.add(name)
    return names


def _large_table(module: torch.nn.Module) -> bool:
    """Whether an embedding's gradient is to have only the rows that were read."""
    return (
        isinstance(module, torch.nn.Embedding) and module.weight.numel() >= _TABLE and not module.sparse
        and not module.scale_grad_by_freq and module.max_norm is None
    )  # fmt: skip


class _Importance:
    """Second moments of the gradients of the matrices' rows, added up during each backward pass: of all
    gradients only the one that was just made is in memory.

    Args:
        between: moments between rows, too, where they fit the memory limit.
    """

    def __init__(self, model: torch.nn.Module, between: bool) -> None:
        self.found: dict[str, torch.Tensor] = {}  #: squared gradients, [out]
        self.moments: dict[str, torch.Tensor] = {}  #: [out, out]
        self._between = _narrow(model) if between else set()
        self._kept = [(p, p.requires_grad, p.grad) for p in model.parameters()]
        self._handles = []
        self._dense = [m for m in model.modules() if _large_table(m)]
        for module in self._dense:
            module.sparse = True  # type: ignore[assignment]
        for name, parameter in model.named_parameters():
            parameter.grad = None
            parameter.requires_grad_(parameter.is_floating_point())
            if parameter.requires_grad:
                hook = self._hook(name)
                self._handles.append(parameter.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]

    def _hook(self, name: str) -> Callable[[torch.Tensor], None]:
        def run(parameter: torch.Tensor) -> None:
            gradient, parameter.grad = parameter.grad, None
            if gradient is None or parameter.ndim < 2:
                return
            if gradient.is_sparse and name in self._between:
                gradient = gradient.to_dense()
            with torch.no_grad(), torch.autocast(parameter.device.type, enabled=False):
                if gradient.is_sparse:
                    self._add_some(name, gradient.coalesce())
                else:
                    self._add(name, gradient.float().flatten(1))

        return run

    def _add(self, name: str, rows: torch.Tensor) -> None:
        step = max(1, PART // max(1, rows.shape[1]))
        squares = torch.cat([part.square().sum(1) for part in torch.split(rows, step)])  # without a copy of all
        self.found[name] = squares + self.found[name] if name in self.found else squares
        if name not in self._between:
            return
        if name in self.moments:
            self.moments[name].addmm_(rows, rows.T)
        else:
            self.moments[name] = rows @ rows.T

    def _add_some(self, name: str, gradient: torch.Tensor) -> None:
        """Of the rows that a batch has read."""
        if name not in self.found:
            self.found[name] = torch.zeros(gradient.shape[0], device=gradient.device)
        self.found[name].index_add_(0, gradient.indices()[0], gradient.values().float().flatten(1).square().sum(1))

    def close(self) -> None:
        for module in self._dense:
            module.sparse = False  # type: ignore[assignment]
        for handle in self._handles:
            handle.remove()
        for parameter, wanted, gradient in self._kept:
            parameter.requires_grad_(wanted)
            parameter.grad = gradient


@dataclass(frozen=True)
class Gradients:
    """Sums over some batches, by the names of matrices."""

    rows: dict[str, torch.Tensor]  #: squares of every row, [out]
    moments: dict[str, torch.Tensor]  #: between rows, [out, out]
    batches: int  #: parts of batches that were run
    rest: list[Batch] = field(default_factory=list)  #: batches, and parts of one, that were not

    @property
    def means(self) -> dict[str, torch.Tensor]:
        """Squares of every row for a batch."""
        return {name: squares / self.batches for name, squares in self.rows.items()}


def row_importance(
    model: torch.nn.Module,
    items: list[Batch],
    loss: Callable[[Any, Batch], torch.Tensor] | None = None,
    seed: int = 0,
    between: bool = False,
    scores: bool = False,
    parts: Parts | None = None,
) -> Gradients:
    """Second moments of the gradients of the first batches.

    Args:
        between: moments between rows, too.
        scores: outputs without a name are scores of classes.
        parts: of the batches; unset: the model runs a sample to tell.
    """
    parameters = sum(parameter.numel() for parameter in model.parameters())
    draw = np.random.Generator(np.random.Philox(key=seed))
    if parts is None:
        parts = parts_for(model, items)
    importance = _Importance(model, between)
    rest: list[Batch] = []
    count, work = 0, 0.0
    try:
        with evaluating(model), torch.enable_grad():
            for number, batch in enumerate(progress(items, "gradients of batches")):
                # What ``loss`` knows of a batch need not hold for its parts.
                for part in [batch] if loss or work >= _BACKWARD else parts.of(batch):
                    if work >= _BACKWARD:
                        rest.append(part)
                        continue
                    result = called(model, part, number)
                    count, work = count + 1, work + 1.0 * _predictions(result) * parameters
                    if loss:
                        _backward_of_loss(loss(result, part))
                    else:
                        _backward(result, draw, scores)
    finally:
        importance.close()
    if not all(bool(torch.isfinite(squares).all()) for squares in importance.found.values()):
        check_parameters(model.named_parameters())
    return Gradients(importance.found, importance.moments, count, rest)


def needed_memory(model: torch.nn.Module, importance: bool) -> int:
    """Bytes that collect() takes beside the model and the activations of its passes, about."""
    sizes = [parameter.numel() for parameter in model.parameters()]
    narrow = _narrow(model) if importance else set()
    between = sum(len(p) ** 2 for name, p in model.named_parameters() if name in narrow)
    # Sums, and the statistics that are made of them; two gradients of the largest matrix.
    return 2 * (moment_bytes(model) + 4 * between) + (8 * max(sizes) if importance else 0)


def collect(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    *,
    importance: bool = True,
    loss: Callable[[Any, Batch], torch.Tensor] | None = None,
    outputs: Literal["scores", "values"] | None = None,
    seed: int = 0,
) -> Statistics:
    """Measures second-order statistics of a model's weights, for ``save_file(statistics=)``.

    Inputs of linear layers, convolutions, transposed ones too, recurrent layers and cells, and attention are
    seen by hooks; embeddings count how often each row is read. Other matrices get their importance alone.
    The model is evaluated in evaluation mode and is not changed.

    Args:
        model: on any device, of any floating type.
        batches: each a tensor, a tuple of arguments, or a dict of keyword arguments. 64 to 512 samples
            suffice as a rule; no labels.
        importance: runs each batch backwards too, which tells sensitive tensors and rows.
        loss: ``loss(outputs, batch)``, summed over samples; unset: labels drawn from the scores of classes
            where the outputs are some, else all outputs count alike.
        outputs: what the outputs are: ``"scores"`` of classes before the softmax, ``[..., classes]``, or
            ``"values"``. Unset: ``outputs.logits`` are scores, and so is an only tensor whose values look
            like them.
        seed: of the drawn labels and signs.

    Returns:
        Moments and importance, as float32 arrays. A UserWarning names layers that no batch reached, and
        moments of fewer rows of inputs than they are wide.

    Raises:
        UsageError: no batches; an exception of the model's forward or backward pass; outputs, or a ``loss``, without
            a gradient; a ``loss`` that is not one number.
        GbzError: ``code`` ``"non_finite"`` for inputs of a layer that are NaN or infinite, ``"limit"``
            where memory runs out.
    """
    model = checked_model(model)
    items = checked_batches(batches)
    if loss is not None and not callable(loss):
        raise usage(f"loss must be a function loss(outputs, batch), got {kind_of(loss)}")
    with memory_errors("give smaller batches; importance=False saves the memory of a backward pass"):
        scores = kind_of_outputs(model, items, checked_outputs(outputs))
        return measure(model, items, importance=importance, loss=loss, seed=seed, scores=scores)


def measure(
    model: torch.nn.Module,
    items: list[Batch],
    *,
    importance: bool = True,
    loss: Callable[[Any, Batch], torch.Tensor] | None = None,
    seed: int = 0,
    scores: bool = False,
) -> Statistics:
    """collect(), its arguments checked."""
    mentions_training(model)
    parts = parts_for(model, items)
    # Looking for weights computes those of parametrizations, which in training mode change their buffers.
    with evaluating(model):
        collector = Collector(model)
        try:
            if importance:
                gradients = row_importance(model, items, loss, seed, between=True, scores=scores, parts=parts)
            else:  # the first pass gives the outputs, too
                gradients = Gradients({}, {}, 0, [*parts.of(items[0]), *items[1:]])
            with torch.no_grad():
                number = len(items) - len(gradients.rest)
                for at, batch in enumerate(progress(gradients.rest, "moments of batches"), number):
                    with collector.up_to_the_last():
                        called(model, batch, max(0, at))
        finally:
            collector.close()
    return finish(collector, gradients, len(items))


def _spread(squares: torch.Tensor, counts: torch.Tensor | None) -> torch.Tensor:
    """Importance of rows that few samples tell. Rows of an embedding are tokens, most of which no sample has:
    each counts as often as it was read, and all together as often as Good and Turing expect of those unseen
    (Biometrika 40, 1953). Rows of other tensors count alike."""
    if counts is None or not (reads := int(counts.sum())):
        return squares.mean().expand_as(squares)
    unseen = (int((counts == 1).sum()) + 1) / (reads + 1)
    shares = (1 - unseen) * counts.to(squares) / reads + unseen / len(counts)
    return squares.sum() * shares


def finish(collector: Collector, gradients: Gradients, count: int) -> Statistics:
    """What hooks and gradients of so many batches have added up, with warnings."""
    statistics = Statistics(samples=count)

    def put(name: str, tensor: torch.Tensor) -> None:
        statistics.tensors[name] = np.ascontiguousarray(tensor.detach().float().cpu().numpy())

    few = []
    for name, sums in collector.sums.items():
        if sums.moment is None or sums.mean is None or not sums.rows:  # seen in two ways, or never reached
            continue
        width = sums.moment.shape[-1]
        if sums.rows < width:
            few.append(f"{name} ({sums.rows} of {width})")
        kind = "output_moment" if sums.transposed else "input_moment"
        put(f"{name}.{kind}", sums.moment / sums.rows)
        if not sums.transposed and "|" not in name:
            put(f"{name}.input_mean", sums.mean / sums.rows)
        if not sums.transposed and sums.moment.ndim == 2 and name in gradients.moments:
            put(f"{name}.output_moment", gradients.moments[name] / gradients.batches)
    matrices = {part for name, sums in collector.sums.items() if sums.rows for part in name.split("|")}
    for name, squares in gradients.means.items():
        rows = squares if name in matrices else _spread(squares, collector.counts.get(name))
        put(f"{name}.row_importance", rows)
    if unseen := sorted(collector.expected - matrices):
        warn(
            f"no batch reached {', '.join(unseen[:3])}{' and others' if len(unseen) > 3 else ''}; they are "
            "rounded without statistics",
            UserWarning,
        )
    if few:
        warn(
            f"fewer rows of inputs than their width: {', '.join(few[:3])}"
            f"{' and others' if len(few) > 3 else ''}; more samples give better files",
            UserWarning,
        )
    return statistics
