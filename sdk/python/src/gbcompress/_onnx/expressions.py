"""Weights that nodes take in another shape, or computed from tensors of the file: norms of weights, masks, differences of
low rank. How such a weight moves with a tensor is measured, not told by operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .graph import Path
from .moments import Use, is_in_pairs, main_index
from .session import Feeds, Model, called

#: Deviation of noise on a tensor, in root mean squares of its elements.
_NOISE = 0.05
#: Cosine between the noise on a tensor and what a node sees of it, from which on the tensor's errors are the node's.
_ALIKE = 0.5

Factors: TypeAlias = "NDArray[np.float32] | None"


def noisy(
    data: bytes, places: Sequence[tuple[int, int]], random: np.random.Generator
) -> tuple[bytes, list[tuple[float, NDArray[np.float32]]]]:
    """The model with noise on tensors of float32; the deviation on each, and the noise divided by it."""
    changed = bytearray(data)
    added = []
    for offset, size in places:
        values = np.frombuffer(data, np.float32, size // 4, offset)
        deviation = _NOISE * float(np.sqrt(np.square(values, dtype=np.float64).mean()))
        noise = random.standard_normal(values.size, dtype=np.float32)
        changed[offset : offset + size] = (values + noise * np.float32(deviation)).tobytes()
        added.append((deviation, noise))
    return bytes(changed), added


def _factors(seen: NDArray[Any], noise: NDArray[Any], axis: int) -> tuple[float, Factors]:
    """The cosine between noise on a matrix and what a node sees of it, and a factor for each place of an axis where
    factors account for most of the difference; else None."""
    powers, products = np.square(noise).sum(1 - axis), (seen * noise).sum(1 - axis)
    size = float(np.square(seen).sum())
    if size == 0 or not powers.any():
        return 0.0, None
    cosine = float(products.sum()) / math.sqrt(float(powers.sum()) * size)
    factors = products / np.maximum(powers, 1e-30)
    fitted = math.sqrt(float((powers * np.square(factors)).sum()) / size)
    if 1 - fitted**2 > 0.5 * (1 - cosine**2):
        return cosine, None
    return fitted, factors.astype(np.float32)


def rows_of(shape: tuple[int, ...], rows: int) -> int:
    """Rows of the matrix that a tensor is rounded as; those of its use in the graph, 0: its first side."""
    return rows or (shape[0] if len(shape) > 1 else 1)


def _matched(model: Model, use: dict[str, Any], seen: NDArray[Any], noise: NDArray[Any]) -> Use | None:
    """The use, where what the node sees has the tensor's matrix in the same order, or by columns."""
    rows = rows_of(model.shapes[use["tensor"]], use["rows"])
    cols = noise.size // max(1, rows)
    if seen.size != noise.size or min(rows, cols) < 2:
        return None
    node = model.graph.node(use["graph"], use["node"])
    kernel = node.op in ("Conv", "FusedConv")
    shape = seen.shape if kernel else seen.shape[-2:]
    if len(shape) < 2 or math.prod(shape) != seen.size:
        return None
    matrix = noise.reshape(rows, cols)
    found = []
    for turned in (False,) if kernel else (False, True):
        sides = (shape[0], seen.size // shape[0])
        if sides != ((cols, rows) if turned else (rows, cols)):
            continue
        laid = seen.reshape(sides).T if turned else seen.reshape(sides)
        (by_row, of_rows), (by_col, of_cols) = (_factors(laid, matrix, axis) for axis in (0, 1))
        found.append((max(by_row, by_col), turned, (of_rows, of_cols)))
    cosine, turned, factors = max(found, key=lambda each: each[0], default=(0.0, False, (None, None)))
    if not cosine >= _ALIKE:  # or NaN
        return None
    taken = tuple(shape) if kernel else (rows, cols)
    return Use(use["tensor"], taken, use["graph"], use["node"], use["input"], turned, node, factors)


class _Expressions:
    """Values that nodes take as weights, of a batch."""

    def __init__(self, model: Model, uses: list[dict[str, Any]], feeds: Feeds, number: int) -> None:
        self._model, self._feeds, self._number = model, feeds, number
        self.places = [(use["graph"], model.graph.node(use["graph"], use["node"]).input(use["input"])) for use in uses]
        self._values = list(dict.fromkeys(self.places))
        self._end = 1 + max(main_index(use["graph"], use["node"]) for use in uses)

    def of(self, data: bytes | None) -> dict[tuple[Path, str], NDArray[Any]]:
        """Of a variant of the model; None: of itself."""
        session, names = self._model.tapped(self._values, {}, self._end, data=data)
        return dict(zip(self._values, called(session, names, self._feeds, self._number), strict=True))


def uses_in_expressions(model: Model, feeds: Feeds, number: int) -> list[Use]:
    """Uses of float32 tensors whose noise a node sees in its weight.

    Args:
        feeds: a batch, and its number.
    """
    uses = [
        use
        for use in model.seen
        if (use["reshaped"] or use["computed"]) and use["payload"] is not None
        and model.dtypes[use["tensor"]] == "F32" and model.graph.in_branches(use["graph"])
        and not is_in_pairs(model.graph.node(use["graph"], use["node"]))
    ]  # fmt: skip
    if not uses:
        return []
    expressions = _Expressions(model, uses, feeds, number)
    before = expressions.of(None)
    waiting = {
        (use["tensor"], place): use
        for use, place in zip(uses, expressions.places, strict=True)
        if math.prod(model.shapes[use["tensor"]]) == before[place].size
    }
    payloads = {use["tensor"]: use["payload"] for use in uses}
    random = np.random.default_rng(0)
    found = []
    while waiting:
        # Each expression is seen with noise on one of its tensors, unless it shares others with another one.
        now = {place: tensor for tensor, place in waiting}
        names = sorted(set(now.values()))
        data, added = noisy(model.data, [payloads[name] for name in names], random)
        noise = {name: values * np.float32(deviation) for name, (deviation, values) in zip(names, added, strict=True)}
        after = expressions.of(data)
        for place, tensor in now.items():
            with np.errstate(all="ignore"):
                match = _matched(model, waiting.pop((tensor, place)), after[place] - before[place], noise[tensor])
            if match is not None:
                found.append(match)
    return found
