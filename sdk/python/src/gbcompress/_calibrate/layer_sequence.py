"""A PyTorch model whose layers are quantized one after another, for the core's Calibration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from .._errors import warn
from .._memory import ran_out
from .collect import Batch, call, evaluating
from .moments import Collector, Enough

#: Samples that are used, at most, and rows of inputs of a matrix that are kept of all of them.
_MOST, _ROWS = 4096, 1 << 14
#: Multiply-adds of a walk through all groups, and samples or rows of inputs that are used whatever they take.
_WALK, _FEWEST, _FEWEST_ROWS = 2e11, 64, 4096
#: Matrices with wider inputs are rounded by their statistics alone.
_WIDEST = 4096
#: Bytes of the original model's inputs that are kept, unless those of one group need more.
_KEPT = 256 << 20
#: A block with a larger share of the groups is taken apart, if it has blocks itself.
_LARGE = 0.34

Sink = Callable[[str, torch.Tensor], None]
Arrays: TypeAlias = tuple[NDArray[np.float32], ...]


@contextlib.contextmanager
def _giving(module: torch.nn.Module, output: Any) -> Iterator[None]:
    """A module that gives this output whatever it is called with."""
    own = module.__dict__.get("forward")  # others replace it, too
    module.forward = lambda *_, **__: output
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


class _Inputs(Collector):
    """Hands rows of inputs on instead of adding them up."""

    def __init__(self, model: torch.nn.Module, sink: Sink, skipped: Sequence[str]) -> None:
        self._sink = sink
        ahead = tuple(f"{path}." for path in skipped)
        names = (name for name, _ in model.named_modules())
        super().__init__(model, only={name for name in names if not f"{name}.".startswith(ahead)} if ahead else None)

    def add(self, name: str, rows: torch.Tensor, transposed: bool = False) -> None:
        if not transposed and rows.ndim == 2 and "|" not in name and rows.shape[-1] <= _WIDEST:
            self._sink(name, rows)

    def add_moment(
        self, name: str, moment: torch.Tensor, mean: torch.Tensor, count: int, transposed: bool = False
    ) -> None:
        pass


def _samples(batch: Batch) -> int:
    """The first dimension of the first tensor."""
    values: Iterable[Any] = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple | list) else [batch]
    return max(1, next((len(v) for v in values if isinstance(v, torch.Tensor) and v.ndim), 1))


def _first_of(batches: list[Batch], work: float, rows: float) -> list[Batch]:
    """As many as there is time for.

    Args:
        work: multiply-adds of a walk for each sample.
        rows: of the inputs of a matrix, for each sample.
    """
    fewest = min(_FEWEST, _FEWEST_ROWS / max(rows, 1.0))
    most = min(max(_WALK / max(work, 1.0), fewest), _MOST)
    taken: list[Batch] = []
    count = 0
    for batch in batches:
        if taken and count + _samples(batch) > most:
            break
        taken.append(batch)
        count += _samples(batch)
    return taken


def _blocks_of(module: torch.nn.Module, path: str, groups: list[str]) -> dict[str, torch.nn.Module]:
    """Modules of lists and sequences within a module, the outermost ones, by their paths."""
    found: dict[str, torch.nn.Module] = {}
    for name, child in module.named_children():
        inside = _blocks_of(child, f"{path}{name}.", groups)
        if isinstance(module, torch.nn.ModuleList | torch.nn.Sequential) and not isinstance(child, torch.jit.ScriptModule):
            share = sum(group.startswith(f"{path}{name}.") for group in groups) / max(1, len(groups))
            if not inside or share <= _LARGE:
                inside = {path + name: child}
        found.update(inside)
    return found


@dataclass
class _Place:
    """Where forward passes of all batches begin: behind some blocks, which gave these outputs."""

    blocks: int = 0
    outputs: list[Any] = field(default_factory=list)  #: of the last one, for each batch


class LayerSequence:
    """What gbcompress::SequentialModel asks.

    Forward passes begin behind the last block (a module of a ModuleList or a Sequential) that is done with, where
    a pass of the first batch has shown that the blocks before it are seen by their last output alone.

    Args:
        batches: the first ones of them are used.
        restore: gives the model its original values.
        views: tensors that are put under names of their own, in the model's memory.
    """

    def __init__(
        self, model: torch.nn.Module, batches: list[Batch], restore: Callable[[], None],
        views: Mapping[str, torch.Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.restore = model, restore
        self._tensors = {**model.state_dict(), **(views or {})}  # which share the model's memory
        self._groups: list[list[str]] = []
        self._uses: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._before: dict[str, list[list[torch.Tensor]]] = {}
        self._apart: set[str] = set()  #: matrices whose rows are others once the model is quantized
        self._put: dict[str, torch.Tensor] = {}
        self._blocks: dict[str, torch.nn.Module] = {}  #: in the order in which they end
        self._behind: dict[str, int] = {}  #: blocks that have ended before the first of a group is called; others: 0
        self._originals, self._quantized = _Place(), _Place()
        self.batches = batches[:1]
        self.restore()
        work, rows = self._find_groups()
        self._find_blocks()
        passes = 1 + len(self._groups) / (1 + len(self._blocks))
        self.batches = _first_of(batches, work / _samples(batches[0]) * passes, rows / _samples(batches[0]))
        self._most = max(1, _ROWS // len(self.batches))

    def _run(self, number: int, sink: Sink, place: _Place | None = None) -> None:
        """The forward pass of a batch, up to where the sink raises Enough."""
        skipped = list(self._blocks)[: place.blocks] if place else []
        with evaluating(self.model), torch.no_grad(), self._skipped(place, number):
            collector = _Inputs(self.model, sink, skipped)
            try:
                call(self.model, self.batches[number], number)
            except Enough:
                pass
            finally:
                collector.close()

    @contextlib.contextmanager
    def _skipped(self, place: _Place | None, number: int) -> Iterator[None]:
        """Instead of running, blocks give what the last of them has given."""
        with contextlib.ExitStack() as stack:
            if place is not None:
                for block in list(self._blocks.values())[: place.blocks]:
                    stack.enter_context(_giving(block, place.outputs[number]))
            yield

    def _find_groups(self) -> tuple[float, float]:
        """One forward pass of a batch tells which matrices are seen, and in what order. Returns its multiply-adds,
        and the rows of the inputs of a matrix, on average."""
        last: torch.Tensor | None = None  # kept, so that no other tensor takes its memory
        work = count = 0.0

        def see(name: str, rows: torch.Tensor) -> None:
            nonlocal last, work, count
            work += len(rows) * self._tensors[name].numel()
            count += len(rows)
            self._uses[name] = self._uses.get(name, 0) + 1
            self._bytes[name] = self._bytes.get(name, 0) + 4 * _ROWS * rows.shape[1]
            if self._uses[name] > 1:
                return
            if last is None or last.data_ptr() != rows.data_ptr() or last.shape != rows.shape:
                self._groups.append([])
            self._groups[-1].append(name)
            last = rows

        self._run(0, see)
        return work, count / max(1, len(self._uses))

    def _find_blocks(self) -> None:
        """Blocks behind which passes may begin: those with which the last matrix of the next one sees the same."""
        names = [group[0] for group in self._groups]
        found = _blocks_of(self.model, "", names)
        paths = {block: path for path, block in found.items()}
        ended: list[str] = []
        outputs: list[Any] = []
        last: dict[int, tuple[str, torch.Tensor]] = {}  # behind so many blocks, the last first use of a matrix
        behind: dict[str, int] = {}

        def end(block: torch.nn.Module, _: Any, output: Any) -> None:
            ended.append(paths[block])
            outputs.append(output)

        def see(name: str, rows: torch.Tensor) -> None:
            if name not in behind:
                behind[name] = len(ended)
                last[len(ended)] = name, rows.clone()
            if len(behind) == len(self._uses):
                raise Enough

        handles = [block.register_forward_hook(end) for block in found.values()]
        try:
            self._run(0, see)
        finally:
            for handle in handles:
                handle.remove()
        if len(set(ended)) != len(ended):
            return  # called more than once
        self._blocks = {path: found[path] for path in ended}
        if all(self._sees(name, rows, _Place(n, [outputs[n - 1]])) for n, (name, rows) in last.items() if n > 0):
            self._behind = behind
        else:
            self._blocks = {}

    def _sees(self, name: str, rows: torch.Tensor, place: _Place) -> bool:
        """Whether these are the inputs of the first use of a matrix where a pass begins there. A model that cannot
        take the output of a block there does not see them."""
        same = False

        def see(seen: str, found: torch.Tensor) -> None:
            nonlocal same
            if seen == name:
                same = torch.equal(found, rows)
                raise Enough

        try:
            self._run(0, see, place)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            if ran_out(error):
                raise
            return False
        return same

    def _advance(self, place: _Place, blocks: int) -> None:
        """Moves a place on behind so many blocks, for the model as it is."""
        if place.blocks > blocks:
            place.blocks, place.outputs = 0, []
        if place.blocks == blocks:
            return
        outputs: list[Any] = []

        def end(_: Any, __: Any, output: Any) -> None:
            outputs.append(output)
            raise Enough

        handle = list(self._blocks.values())[blocks - 1].register_forward_hook(end)
        try:
            for number in range(len(self.batches)):
                self._run(number, lambda *_: None, place)
        finally:
            handle.remove()
        place.blocks, place.outputs = blocks, outputs

    def _rows(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[:: max(1, len(rows) // self._most)].float()

    def groups(self) -> list[list[str]]:
        return self._groups

    def begin(self) -> None:
        self._put = {}
        self._quantized = _Place()
        self.restore()

    def put(self, name: str, content: bytes) -> None:
        tensor = self._tensors.get(name)
        if tensor is None:
            return  # files may hold tensors that the model lacks
        self._put[name] = torch.from_numpy(np.frombuffer(content, np.float32).copy()).reshape(tensor.shape)
        with torch.no_grad():
            tensor.copy_(self._put[name])
        if any(name.startswith(f"{path}.") for path in list(self._blocks)[: self._quantized.blocks]):
            self._quantized = _Place()

    def _keep(self, first: str) -> None:
        """Instead of others keeps the original inputs of this group and of as many after it as there is room for."""
        names = [group[0] for group in self._groups]
        self._before, used = {}, 0
        for name in names[names.index(first) :]:
            used += self._bytes[name]
            if used > _KEPT and self._before:
                break
            self._before[name] = []
        self.restore()
        self._advance(self._originals, self._behind.get(first, 0))
        for number in range(len(self.batches)):
            for kept in self._before.values():
                kept.append([])
            self._run(number, self._take, self._originals)
        with torch.no_grad():
            for name, values in self._put.items():
                self._tensors[name].copy_(values)

    def _take(self, name: str, rows: torch.Tensor) -> None:
        if name not in self._before:
            return
        self._before[name][-1].append(self._rows(rows).clone())
        if all(len(kept[-1]) == self._uses[each] for each, kept in self._before.items()):
            raise Enough

    def _seen(self, name: str, number: int) -> list[torch.Tensor]:
        """Rows of the inputs of a matrix in a pass of the model as it is, for each use."""
        found: list[torch.Tensor] = []

        def see(seen: str, rows: torch.Tensor) -> None:
            if seen != name:
                return
            found.append(self._rows(rows))
            if len(found) == self._uses[name]:
                raise Enough

        self._run(number, see, self._quantized)
        return found

    def _summed(self, name: str, seen: Iterable[list[torch.Tensor]]) -> Arrays | None:
        """What inputs() returns, of rows of the inputs of all batches; None where they are not as many as the original
        ones."""
        sums: list[torch.Tensor] = []
        count = 0
        for found, originals in zip(seen, self._before[name], strict=True):
            originals = originals[: self._uses[name]]
            if [len(now) for now in found] != [len(before) for before in originals]:
                return None
            for now, before in zip(found, originals, strict=True):
                each = [now.mT @ now, (before - now).mT @ now, now.sum(0), before.sum(0)]
                each = [part.double() for part in each]
                sums = [a + b for a, b in zip(sums, each, strict=True)] if sums else each
                count += len(now)
        return tuple((part / max(1, count)).float().cpu().flatten().numpy() for part in sums)

    def inputs(self, name: str) -> Arrays:
        """Moment, cross moment and means, as gbcompress::SequentialInputs has them. Where quantized weights send other
        rows to a matrix, as routers of experts do, no row has an original: the matrix is fitted to its original inputs."""
        if name not in self._before:
            self._keep(name)
        if name not in self._apart:
            self._advance(self._quantized, self._behind.get(name, 0))
            found = self._summed(name, (self._seen(name, number) for number in range(len(self.batches))))
            if found is not None:
                return found
            if not self._apart:
                warn(
                    f"{name} has other numbers of inputs once the layers before it are quantized; it and other such "
                    "matrices are rounded for their original inputs",
                    UserWarning,
                )
            self._apart.add(name)
        found = self._summed(name, (each[: self._uses[name]] for each in self._before[name]))
        assert found is not None
        return found
