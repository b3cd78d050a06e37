"""Second-order statistics of an ONNX model's weights, measured with onnxruntime."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._calibrate.statistics import ROWS
from .._errors import GbzError, warn
from .._files.statistics import Statistics
from .expressions import noisy, rows_of, uses_in_expressions
from .graph import Path
from .moments import Measured, Sums, Use, add, measured
from .session import Batch, Feeds, Held, Model, called

#: Bytes of the values that a pass gives of a batch, unless one node takes more.
_PASS = 256 << 20
#: Multiply-adds of all moments, beyond which fewer rows count, and rows for each column that count in any case.
_MOMENTS, _LEAST = 2e11, 32
#: Multiply-adds of all passes with noise, about, beyond which there are fewer batches, then noise on several tensors at once.
_NOISY = 1e12
#: Passes with noise below which importance is left out where time is short.
_FEWEST = 8
#: Batches that it is measured on.
_MOST_NOISY = 8


class _Values:
    """The values that become outputs, and where each node's are among them."""

    def __init__(self, nodes: Sequence[Measured]) -> None:
        self.named: dict[tuple[Path, int], str] = {}
        self.order: list[tuple[Path, str]] = []
        self.places: list[list[int | None]] = []
        known: dict[tuple[Path, str], int] = {}
        for node in nodes:
            places: list[int | None] = []
            for at, value in enumerate(node.values):
                if not value and at == 2 and node.names_output is not None:
                    value = f"gbcompress.state.{len(self.named)}"
                    self.named[node.graph, node.names_output] = value
                if not value:
                    places.append(None)
                    continue
                key = (node.graph, value)
                if key not in known:
                    known[key] = len(self.order)
                    self.order.append(key)
                places.append(known[key])
            self.places.append(places)


@dataclass(frozen=True)
class Ends:
    """When measuring ends, on the monotonic clock."""

    moments: float
    importance: float


@dataclass(frozen=True)
class _Part:
    """Nodes whose values one pass gives, and about how many rows of a batch each adds to its moment."""

    nodes: list[Measured]
    most: list[int]


class _Passes:
    """Passes that measure moments within bounds of memory and work.

    Args:
        largest: of the batches, the one with the most elements.
    """

    def __init__(self, model: Model, nodes: list[Measured], largest: Feeds, number: int, batches: int) -> None:
        where = _Values(nodes)
        session, names = model.tapped(where.order, where.named, shapes=True)
        found = called(session, names, largest, number)
        shapes = [tuple(int(size) for size in shape) for shape in found]
        firsts = [shapes[places[0]] if places[0] is not None else () for places in where.places]
        positions = [node.positions(shape) for node, shape in zip(nodes, firsts, strict=True)]
        #: multiply-adds of a pass of the model, without those of operators that are not measured
        self.work = float(sum(node.weights * count for node, count in zip(nodes, positions, strict=True)))
        most = _most_rows(nodes, positions, batches)
        self.parts: list[_Part] = []
        size, seen = 0, set[int]()
        for at in sorted(range(len(nodes)), key=lambda at: nodes[at].index):
            places = {place for place in where.places[at] if place is not None}
            own = 4 * sum(math.prod(shapes[place]) for place in places - seen)
            if not self.parts or size + own > _PASS:
                self.parts.append(_Part([], []))
                own, size, seen = 4 * sum(math.prod(shapes[place]) for place in places), 0, set()
            self.parts[-1].nodes.append(nodes[at])
            self.parts[-1].most.append(most[at])
            size, seen = size + own, seen | places


def _most_rows(nodes: Sequence[Measured], positions: Sequence[int], batches: int) -> list[int]:
    """Rows of a batch that count for each node: ROWS, or fewer where the moments would take too long."""
    work = batches * sum(float(min(ROWS, count)) * node.width**2 for node, count in zip(nodes, positions, strict=True))
    share = min(1.0, _MOMENTS / max(work, 1.0))
    return [min(ROWS, max(math.ceil(share * ROWS), math.ceil(_LEAST * node.width / batches))) for node in nodes]


def _finite(values: NDArray[Any]) -> bool:
    flat = values.reshape(-1)
    with np.errstate(all="ignore"):
        square = np.dot(flat, flat)
    return bool(np.isfinite(square) or np.isfinite(values).all())


def _check_finite(values: Sequence[NDArray[Any]], nodes: Sequence[Measured], where: _Values, number: int) -> None:
    infinite = {place for place, value in enumerate(values) if not _finite(value)}
    for node, places in zip(nodes, where.places, strict=True):
        if not infinite.isdisjoint(places):
            raise GbzError(
                f"the inputs of {node.key} are not finite in batch {number}; leave such samples out, or "
                "repair the model",
                "non_finite",
            )


def check_held(model: Model, held: Held) -> None:
    """Raises GbzError for held-out batches in which inputs of weights, or all outputs, are not finite."""
    suspects = held.suspects()
    nodes = [node for use in model.uses if (node := measured(use, model.uses)) is not None]
    if suspects and nodes:
        where = _Values(nodes)
        session, names = model.tapped(where.order, where.named)
        for number, feeds in suspects:
            _check_finite(called(session, names, feeds, number), nodes, where, number)
    held.check_some()


def _add_part(
    model: Model, part: _Part, feeds: Sequence[Feeds], sums: dict[str, Sums], differing: set[str], end: float
) -> int:
    """Adds the rows of a part's nodes. @return batches that were seen, at least one: fewer than all where time ends"""
    where = _Values(part.nodes)
    last = max(node.index for node in part.nodes) + 1
    session, names = model.tapped(where.order, where.named, last)
    for number, feed in enumerate(feeds):
        if number > 0 and time.monotonic() > end:
            return number
        values = called(session, names, feed, number)
        _check_finite(values, part.nodes, where, number)
        for node, places, most in zip(part.nodes, where.places, part.most, strict=True):
            rows_of = [None if place is None else values[place] for place in places]
            if any(value is not None and value.size == 0 for value in rows_of):
                continue  # of a branch that was not taken
            if not add(sums, node, node.rows(rows_of, most), most):
                differing.add(node.key)
    return len(feeds)


def _moments(
    model: Model, uses: list[Use], batches: Sequence[Batch], end: float
) -> tuple[dict[str, Sums], int, float]:
    """Sums by tensors, batches that all of them have seen, and multiply-adds of a batch."""
    feeds = [model.feeds(batch, number) for number, batch in enumerate(batches)]
    found = [measured(use, uses) for use in uses]
    nodes = [node for node in found if node is not None]
    sums: dict[str, Sums] = {}
    differing: set[str] = set()
    if not nodes:
        return sums, len(batches), 0.0
    sizes = [sum(value.size for value in feed.values()) for feed in feeds]
    largest = sizes.index(max(sizes))
    passes = _Passes(model, nodes, feeds[largest], largest, len(feeds))
    fewest = len(batches)
    for left, part in zip(range(len(passes.parts), 0, -1), passes.parts, strict=True):
        now = time.monotonic()
        fewest = min(fewest, _add_part(model, part, feeds, sums, differing, now + (end - now) / left))
    for each in sums.values():
        each.finish()
    for key in sorted(differing):
        warn(f"{key} is used with different inputs; it is rounded without a moment", UserWarning)
        del sums[key]
    return sums, fewest, passes.work


def _held(model: Model, batches: Sequence[Batch], most: int) -> Held:
    """About so many of the batches, evenly spread."""
    return Held(model, list(batches)[:: max(1, -(-len(batches) // most))])


def _noise_passes(
    model: Model, batches: Sequence[Batch], work: float, tensors: int, end: float
) -> tuple[Held | None, int]:
    """Batches for passes with noise, and tensors that have noise at once. No batches: there is no time for it."""
    start = time.monotonic()
    if start >= end:
        return None, 1
    passes = _NOISY / max(work, 1.0)  # of one batch
    held = _held(model, batches, int(min(_MOST_NOISY, max(1.0, passes / tensors))))
    passes = max(passes / len(held.feeds), _FEWEST)
    if math.isinf(end):
        return held, math.ceil(tensors / passes)
    now, count = time.monotonic(), len(held.feeds)
    fit = max(0.0, end - now) / max(now - start, 1e-9)  # passes of a session and these batches
    if fit < tensors and count > 1:
        held = _held(model, batches, max(1, int(count * fit / tensors)))
        fit *= count / len(held.feeds)
    return (held, math.ceil(tensors / min(fit, passes))) if fit >= min(_FEWEST, tensors) else (None, 1)


def _importance(
    model: Model, weights: set[str], batches: Sequence[Batch], seed: int, work: float, end: float
) -> dict[str, NDArray[np.float32]]:
    """Of each row of each of these weights that is float32: squared gradients of the outputs, in units of their variances,
    told from noise on the whole tensor, or on several, which then count alike. All rows of a tensor count alike."""
    places = {
        use["tensor"]: use["payload"]
        for use in model.seen
        if use["tensor"] in weights and use["payload"] is not None and model.dtypes[use["tensor"]] == "F32"
    }
    if not places:
        return {}
    held, size = _noise_passes(model, batches, work, len(places), end)
    if held is None:
        return {}
    random = np.random.default_rng(seed)
    counts = {use["tensor"]: rows_of(model.shapes[use["tensor"]], use["rows"]) for use in model.seen}
    names = sorted(places)
    found = {}
    for first in range(0, len(names), size):
        group = names[first : first + size]
        data, added = noisy(model.data, [places[name] for name in group], random)
        variances = [deviation**2 for deviation, _ in added]
        some = [name for name, variance in zip(group, variances, strict=True) if variance > 0]
        if not some:
            continue
        error = held.error(data) / len(some)
        for name, variance in zip(group, variances, strict=True):
            if variance > 0 and np.isfinite(error) and error > 0:
                found[name] = np.full(counts[name], error / variance / counts[name], np.float32)
    return found


def _unmatched(model: Model, uses: list[Use]) -> set[str]:
    """Matrices in expressions of which no node sees an error as one of its weight."""
    places = {(use.graph, use.index, use.input) for use in uses}
    return {
        use["tensor"]
        for use in model.seen
        if use["computed"] and (use["graph"], use["node"], use["input"]) not in places
        and len(model.shapes[use["tensor"]]) > 1 and min(model.shapes[use["tensor"]]) > 1
    }  # fmt: skip


def collected(
    model: Model, batches: Sequence[Batch], importance: bool, seed: int, ends: Ends | None = None
) -> Statistics:
    """Moments of the batches, or of as many as time allows, with warnings."""
    ends = ends or Ends(math.inf, math.inf)
    uses = [*model.uses, *uses_in_expressions(model, model.feeds(batches[0], 0), 0)]
    sums, samples, work = _moments(model, uses, batches, ends.moments)
    statistics = Statistics(samples=samples)
    computed = {use["tensor"] for use in model.seen if use["computed"]}
    few = []
    for name, of in sums.items():
        width = of.moment.shape[-1]
        if of.rows < width:
            few.append(f"{name} ({of.rows} of {width})")
        statistics.tensors[f"{name}.{of.kind}"] = (of.moment / of.rows).astype(np.float32)
        # Means correct biases, for which errors of an expression would have to be known in size.
        if of.kind == "input_moment" and "|" not in name and name not in computed:
            statistics.tensors[f"{name}.input_mean"] = (of.mean / of.rows).astype(np.float32)
    # Of expressions those that nodes see, and not scales and masks.
    weights = {use.tensor for use in uses} | {use["tensor"] for use in model.seen if not use["computed"]}
    if importance:
        for name, rows in _importance(model, weights, batches, seed, work, ends.importance).items():
            statistics.tensors[f"{name}.row_importance"] = rows
    seen = {part for name in sums for part in name.split("|")}
    if unseen := sorted((weights | _unmatched(model, uses)) - seen):
        warn(
            f"the inputs of {', '.join(unseen[:3])}{' and others' if len(unseen) > 3 else ''} were not measured; "
            "they are rounded without moments",
            UserWarning,
        )
    if few:
        warn(
            f"fewer rows of inputs than their width: {', '.join(few[:3])}"
            f"{' and others' if len(few) > 3 else ''}; more samples give better files",
            UserWarning,
        )
    return statistics
