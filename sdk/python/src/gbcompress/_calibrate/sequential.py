"""Calibration block by block: the inputs of each block come from the quantized blocks before it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._files.load import load_into
from .._files.save import SaveReport
from .._files.statistics import Statistics
from .._progress_bar import progress
from .blocks import Captured, capture, find_blocks, run
from .collect import Batch, Gradients, called, evaluating, finish
from .moments import Collector
from .pieces import BlockReport, Piece, Pieces, owners_of

#: What is tried for each block; "steps" follow the importance of tensors and rows.
_USES: dict[str, dict[str, float]] = {
    "error feedback": {"tensor_steps": 0, "row_power": 0, "joint_row_power": 0},
    "error feedback, steps by importance": {},
}
#: Without inputs.
_BY_IMPORTANCE = {"steps by importance": _USES["error feedback, steps by importance"]}


@contextlib.contextmanager
def without_cache(model: torch.nn.Module) -> Iterator[None]:
    """Language models of Transformers keep no keys and values meanwhile: a block is called repeatedly."""
    config = getattr(model, "config", None)
    before = getattr(config, "use_cache", None)
    if before is None:
        yield
        return
    config.use_cache = False  # type: ignore[union-attr]
    try:
        yield
    finally:
        config.use_cache = before  # type: ignore[union-attr]


class Blocks:
    """One calibration, whose finished pieces lie in a folder.

    Args:
        blocks: path of the list of blocks, or True for the list that repeats.
        measured, chosen: batches that give statistics, and those that candidates are compared on.
        size: of the file, in bytes.
        folder: for the state.
        importance: whether gradients of the whole model are measured first.
    """

    def __init__(
        self, model: torch.nn.Module, blocks: bool | str, measured: list[Batch], chosen: list[Batch],
        size: int, folder: str, importance: bool, threads: int,
    ) -> None:  # fmt: skip
        self.model, self.measured, self.chosen = model, measured, chosen
        self.name, self.blocks = find_blocks(model, blocks)
        self.tail: set[str] = set()
        settings = (self.name, len(chosen))
        with without_cache(model):
            self.pieces = Pieces(model, measured + chosen, size, folder, settings, importance, threads)

    def _cut(self, captured_before: set[str]) -> None:
        """The tensors before the blocks, of each block, and behind them; ties stay together."""
        state = dict(self.model.state_dict())
        owners = owners_of(state)
        count = len(self.blocks)
        before, behind = Piece("before", []), Piece("after", [])
        inside = [Piece(f"{self.name}.{i}", []) for i in range(count)]
        modules = [name for name, m in self.model.named_modules() if next(m.children(), None) is None]
        late = {m for m in modules if m not in captured_before and not m.startswith(f"{self.name}.")}
        for name in state:
            owner = owners[name]
            rest = owner.removeprefix(f"{self.name}.")
            if rest != owner and rest.split(".")[0].isdigit():
                inside[int(rest.split(".")[0])].tensors.append(name)
            elif owner.rsplit(".", 1)[0] in late and "." in owner:
                behind.tensors.append(name)
            else:
                before.tensors.append(name)
        # Vectors alone see no inputs: they are rounded at once.
        if not any(state[name].ndim > 1 for name in behind.tensors):
            before.tensors += behind.tensors
            behind.tensors = []
        self.tail = late if behind.tensors else set()
        self.pieces.all = [p for p in (before, *inside, behind) if p.tensors]

    def _statistics(self, collector: Collector, piece: Piece) -> Statistics:
        names = set(piece.tensors)
        rows = {k: v for k, v in self.pieces.importance.items() if k in names}
        found = finish(collector, Gradients(rows, {}, 1), len(self.measured))
        inside = {k: v for k, v in found.tensors.items() if names.issuperset(k.rsplit(".", 1)[0].split("|"))}
        return Statistics(inside, found.samples)

    def _write(
        self, piece: Piece, statistics: Statistics | None, outputs: Callable[[], list[torch.Tensor]] | None = None
    ) -> None:
        """Chooses among the uses by the error of the block's outputs, and leaves the weights in the model.

        Args:
            outputs: the block's outputs on the held-out batches, with the weights that it has.
        """
        pieces = self.pieces
        tensors = pieces.copied(piece)
        energy = sum(float(v.double().square().sum()) for v in tensors.values() if v.is_floating_point())
        size = pieces.budget(piece)
        final = pieces.file(piece)
        originals = outputs() if outputs else []
        best: tuple[float, str, SaveReport] | None = None
        uses = _uses_of(statistics, outputs is not None)
        for number, (method, use) in enumerate(uses.items()):
            file = final if len(uses) == 1 else f"{final}.{number}"
            report = pieces.save(piece, file, size, statistics, use, tensors)
            load_into(self.model, file, strict=False)
            error = _error(originals, outputs()) if outputs else 0.0
            if best is None or error < best[0]:
                best = (error, method, report)
                if file != final:
                    os.replace(file, final)
            elif file != final:
                os.remove(file)
        assert best is not None
        error, method, report = best
        if piece is pieces.all[-1]:
            report = pieces.fit(piece, size, statistics, uses[method], tensors) or report
        load_into(self.model, final, strict=False)
        block = BlockReport(piece.name, report.file_bytes, method, error if outputs else None)
        pieces.finish(piece, block, report, energy)

    def run(self) -> None:
        """Writes all pieces that an earlier run has not, and leaves the file's weights in the model."""
        with evaluating(self.model), without_cache(self.model), torch.no_grad():
            first = capture(self.model, self.name, self.blocks, self.measured[:1])
            self._cut(first.before)
            pieces = list(self.pieces.all)
            if pieces[0].name == "before":
                piece = pieces.pop(0)
                if not self.pieces.done(piece):
                    self._write(piece, self._importance_of(piece))
            inputs = capture(self.model, self.name, self.blocks, self.measured)
            held = capture(self.model, self.name, self.blocks, self.chosen)
            for number, block in enumerate(progress(self.blocks, f"blocks of {self.name}")):
                if not self.pieces.done(pieces[number]):
                    self._calibrate(pieces[number], number, block, inputs, held)
                for captured in (inputs, held):
                    for i, hidden in enumerate(captured.hidden):
                        captured.hidden[i] = run(block, captured.calls[i][number], hidden, i)
            if len(pieces) > len(self.blocks) and not self.pieces.done(pieces[-1]):
                self._write(pieces[-1], self._behind(pieces[-1]))

    def _importance_of(self, piece: Piece) -> Statistics | None:
        names = set(piece.tensors)
        rows = {
            f"{name}.row_importance": squares.numpy()
            for name, squares in self.pieces.importance.items()
            if name in names
        }
        return Statistics(rows) if rows else None

    def _calibrate(
        self, piece: Piece, number: int, block: torch.nn.Module, inputs: Captured, held: Captured
    ) -> None:
        collector = Collector(block, f"{piece.name}.")
        try:
            for i, hidden in enumerate(inputs.hidden):
                run(block, inputs.calls[i][number], hidden, i)
        finally:
            collector.close()
        statistics = self._statistics(collector, piece)

        def outputs() -> list[torch.Tensor]:
            return [run(block, held.calls[i][number], hidden, i) for i, hidden in enumerate(held.hidden)]

        self._write(piece, statistics, outputs)

    def _behind(self, piece: Piece) -> Statistics:
        """Of the modules behind the blocks, in one pass of the whole quantized model."""
        collector = Collector(self.model, only=self.tail)
        try:
            for number, batch in enumerate(self.measured):
                called(self.model, batch, number)
        finally:
            collector.close()
        return self._statistics(collector, piece)


def _uses_of(statistics: Statistics | None, inputs: bool) -> dict[str, dict[str, float]]:
    """What is tried with these statistics."""
    if statistics is None or not statistics.tensors:
        return {"data-free": {}}
    if not inputs:
        return _BY_IMPORTANCE
    measured = any(name.endswith(".row_importance") for name in statistics.tensors)
    return _USES if measured else {"error feedback": _USES["error feedback"]}


def _error(originals: list[torch.Tensor], now: list[torch.Tensor]) -> float:
    """Squared error over the variance."""
    error = variance = 0.0
    for before, after in zip(originals, now, strict=True):
        error += float((before.double() - after.double()).square().sum())
        variance += float((before.double() - before.double().mean()).square().sum())
    return error / variance if variance > 0 else error
