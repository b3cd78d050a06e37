"""Second-order statistics of an ONNX model's weights, measured with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import GbzError, warn
from ._onnx_graph import Path
from ._onnx_moments import Measured, Sums, add, measured
from ._onnx_session import Batch, Held, Model, called
from ._statistics import Statistics

#: Deviation of the noise that tells how sensitive a tensor is, in root mean squares of its elements.
_NOISE = 0.05
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


def _check_finite(values: Sequence[NDArray[Any]], nodes: Sequence[Measured], where: _Values, number: int) -> None:
    for node, places in zip(nodes, where.places, strict=True):
        for place in places:
            if place is not None and not np.isfinite(values[place]).all():
                raise GbzError(
                    f"the inputs of {node.key} are not finite in batch {number}; leave such samples out, or "
                    "repair the model",
                    "non_finite",
                )


def _moments(model: Model, batches: Sequence[Batch]) -> dict[str, Sums]:
    found = [(use, measured(use, model.uses)) for use in model.uses]
    nodes = [node for _, node in found if node is not None]
    sums: dict[str, Sums] = {}
    differing: set[str] = set()
    if not nodes:
        return sums
    where = _Values(nodes)
    session, names = model.tapped(where.order, where.named)
    for number, batch in enumerate(batches):
        values = called(session, names, model.feeds(batch, number), number)
        _check_finite(values, nodes, where, number)
        for node, places in zip(nodes, where.places, strict=True):
            rows_of = [None if place is None else values[place] for place in places]
            if any(value is not None and value.size == 0 for value in rows_of):
                continue  # of a branch that was not taken
            if not add(sums, node, node.rows(rows_of)):
                differing.add(node.key)
    for key in sorted(differing):
        warn(f"{key} is used with different inputs; it is rounded without a moment", UserWarning)
        del sums[key]
    return sums


def _noisy(data: bytes, place: tuple[int, int], random: np.random.Generator) -> tuple[bytes, float]:
    """The model with noise on one tensor of float32, and the variance of the noise."""
    offset, size = place
    values = np.frombuffer(data, np.float32, size // 4, offset)
    deviation = _NOISE * float(np.sqrt(np.square(values, dtype=np.float64).mean()))
    noise = random.standard_normal(values.size).astype(np.float32) * np.float32(deviation)
    changed = bytearray(data)
    changed[offset : offset + size] = (values + noise).tobytes()
    return bytes(changed), deviation**2


def _importance(model: Model, batches: Sequence[Batch], seed: int) -> dict[str, NDArray[np.float32]]:
    """Of each row of each float32 weight: squared gradients of the outputs, in units of their variances,
    told from noise on the whole tensor. All rows of a tensor count alike."""
    every = max(1, -(-len(batches) // _MOST_NOISY))
    held = Held(model, list(batches)[::every])
    random = np.random.default_rng(seed)
    places = {
        use["tensor"]: use["payload"]
        for use in model.seen
        if use["payload"] is not None and model.dtypes[use["tensor"]] == "F32"
    }
    rows_of = {use["tensor"]: use["rows"] for use in model.seen}
    found = {}
    for name, place in sorted(places.items()):
        data, variance = _noisy(model.data, place, random)
        if variance <= 0:
            continue
        squares = held.error(data) / variance
        rows = rows_of[name] or (model.shapes[name][0] if len(model.shapes[name]) > 1 else 1)
        if np.isfinite(squares) and squares > 0:
            found[name] = np.full(rows, squares / rows, np.float32)
    return found


def collected(model: Model, batches: Sequence[Batch], importance: bool, seed: int) -> Statistics:
    """Moments of the batches, with warnings."""
    statistics = Statistics(samples=len(batches))
    sums = _moments(model, batches)
    few = []
    for name, of in sums.items():
        width = of.moment.shape[-1]
        if of.rows < width:
            few.append(f"{name} ({of.rows} of {width})")
        statistics.tensors[f"{name}.{of.kind}"] = (of.moment / of.rows).astype(np.float32)
        if of.kind == "input_moment" and "|" not in name:
            statistics.tensors[f"{name}.input_mean"] = (of.mean / of.rows).astype(np.float32)
    if importance:
        for name, rows in _importance(model, batches, seed).items():
            statistics.tensors[f"{name}.row_importance"] = rows
    seen = {part for name in sums for part in name.split("|")}
    if unseen := sorted({use["tensor"] for use in model.seen} - seen):
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
