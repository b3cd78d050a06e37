"""Moments of the inputs that the nodes of an ONNX graph multiply with their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._calibrate.statistics import ROWS, every_row
from .graph import Graph, Node, Path

Floats: TypeAlias = "NDArray[np.float32]"
#: Inputs wider than this have no moment: it would take 4 * width^2 bytes.
_WIDEST = 16384
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class Use:
    """A node that takes a tensor as its weight."""

    tensor: str
    shape: tuple[int, ...]
    graph: Path
    index: int  #: of the node
    input: int  #: of the node
    transposed: bool
    node: Node
    #: by how much the node sees errors of each row, and of each column, of the tensor's matrix; None: alike
    factors: tuple[Floats | None, Floats | None] = (None, None)


@dataclass
class Sums:
    """Of one tensor, or of two that are rounded as one."""

    kind: str  #: "input_moment" or "output_moment"
    moment: NDArray[np.float64]
    mean: NDArray[np.float64]
    rows: int = 0
    waiting: list[Floats] = field(default_factory=list)  #: rows that are not in the moment yet

    def finish(self) -> None:
        """Adds the rows that wait: products of many rows at once take less time."""
        if self.waiting:
            rows = np.concatenate(self.waiting, -2)
            self.waiting.clear()
            self.moment += np.swapaxes(rows, -1, -2) @ rows


@dataclass(frozen=True)
class Measured:
    """What one node adds to the moment of a tensor.

    ``rows`` maps the node's values, in the order of ``values``, to [count, in] or [groups, count, in]; of convolutions to
    about as many positions as its second argument says.
    """

    key: str  #: the tensor, or "A|B"
    kind: str
    values: tuple[str, ...]  #: names; "": an input that is left out
    graph: Path
    rows: Callable[[list[Floats | None], int], Floats]
    width: int  #: columns that rows() gives where the node takes the tensor in the file's shape
    index: int  #: of the main graph's node that it is, or lies in
    weights: int  #: elements of the tensor, or of both
    channels: int  #: axis of the first value that is no position
    #: the node's first output, which is among the values, needs a name
    names_output: int | None = field(default=None)

    def positions(self, shape: tuple[int, ...]) -> int:
        """Rows of a first value of that shape; of convolutions with strides, more."""
        return int(np.prod(shape)) // max(1, shape[self.channels]) if len(shape) > 1 else min(1, len(shape))


def _spread(rows: Floats, most: int) -> Floats:
    count = rows.shape[-2]
    return rows[..., :: every_row(count, most), :]


def _scaled(rows: Floats, factors: Floats | None) -> Floats:
    return rows if factors is None else rows * factors


def main_index(graph: Path, index: int) -> int:
    """Of the main graph's node that a node of a graph is, or lies in."""
    return graph[0][0] if graph else index


def _product(use: Use) -> Measured | None:
    """Of MatMul and Gemm."""
    if len(use.shape) != 2 or use.input > 1:
        return None
    gemm = use.node.op == "Gemm"
    turned = [gemm and bool(use.node.attributes.get(name)) for name in ("transA", "transB")]
    # The weight's axis that the product sums over, as the node takes the weight and as the file has it.
    summed = 1 - use.input if not turned[use.input] else use.input
    axis = 1 - summed if use.transposed else summed
    first = use.input == 1  # whether the other operand stands first
    turn = turned[0] if first else not turned[1]

    def rows(values: list[Floats | None], most: int) -> Floats:
        x = values[0]
        assert x is not None
        if turn and x.ndim > 1:
            x = np.swapaxes(x, -1, -2)
        return _scaled(x.reshape(-1, x.shape[-1]), use.factors[axis])

    kind = "input_moment" if axis == 1 else "output_moment"
    return Measured(
        use.tensor, kind, (use.node.input(1 - use.input),), use.graph, rows, use.shape[axis], main_index(use.graph, use.index),
        int(np.prod(use.shape)), -2 if turn else -1,
    )  # fmt: skip


def _pads(node: Node, sizes: tuple[int, ...], kernel: list[int], strides: list[int], gaps: list[int]) -> Any:
    """Zeros before and behind each axis of positions."""
    mode = node.attributes.get("auto_pad", "NOTSET") or "NOTSET"
    dims = len(kernel)
    if mode.startswith("SAME"):
        result = []
        for size, k, step, gap in zip(sizes, kernel, strides, gaps, strict=True):
            total = max(0, (-(-size // step) - 1) * step + gap * (k - 1) + 1 - size)
            small, large = total // 2, total - total // 2
            result.append((small, large) if mode == "SAME_UPPER" else (large, small))
        return result
    given = node.attributes.get("pads") or [0] * (2 * dims)
    return [(0, 0)] * dims if mode == "VALID" else list(zip(given[:dims], given[dims:], strict=True))


def convolution_rows(node: Node, shape: tuple[int, ...], x: Floats, most: int = ROWS) -> Floats:
    """What about ``most`` output positions of a convolution see, [groups, positions, channels of a group * kernel]."""
    kernel = list(shape[2:])
    dims = len(kernel)
    strides = node.attributes.get("strides") or [1] * dims
    gaps = node.attributes.get("dilations") or [1] * dims
    groups = int(node.attributes.get("group") or 1)
    padded = np.pad(x, [(0, 0), (0, 0), *_pads(node, x.shape[2:], kernel, strides, gaps)])
    spans = [gap * (k - 1) + 1 for k, gap in zip(kernel, gaps, strict=True)]
    axes: Any = tuple(range(2, 2 + dims))
    seen: Any = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=axes)
    cut = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    seen = seen[(*cut, *(slice(None, None, gap) for gap in gaps))]
    places = (seen.shape[0], *seen.shape[2 : 2 + dims])
    count = int(np.prod(places))
    chosen = np.unravel_index(np.arange(0, count, every_row(count, most)), places)
    rows = seen[(chosen[0], slice(None), *chosen[1:])]  # [count, channels, kernel...]
    return np.ascontiguousarray(
        rows.reshape(rows.shape[0], groups, -1).transpose(1, 0, 2), dtype=np.float32
    )


def _convolution(use: Use) -> Measured | None:
    if use.input != 1 or use.transposed or len(use.shape) < 3:
        return None

    def rows(values: list[Floats | None], most: int) -> Floats:
        assert values[0] is not None
        found = _scaled(convolution_rows(use.node, use.shape, values[0], most), use.factors[1])
        return found[0] if len(found) == 1 else found

    width = int(np.prod(use.shape[1:]))
    return Measured(
        use.tensor, "input_moment", (use.node.input(0),), use.graph, rows, width, main_index(use.graph, use.index),
        int(np.prod(use.shape)), 1,
    )  # fmt: skip


def _recurrent(use: Use, others: list[Use]) -> Measured | None:
    """Of both matrices of a layer with one direction: the inputs of a step, and the state before it."""
    node = use.node
    pair = [u for u in others if (u.graph, u.index, u.input) == (use.graph, use.index, 2)]
    hidden = node.attributes.get("hidden_size")
    one_way = (node.attributes.get("direction") or "forward") != "bidirectional"
    plain = not node.input(4) and not node.attributes.get("layout")
    if use.input != 1 or len(pair) != 1 or not hidden or not one_way or not plain:
        return None
    rows_of = [int(np.prod(u.shape[:-1])) for u in (use, pair[0])]
    gates = _GATES[node.op] * hidden
    if rows_of != [gates, gates] or pair[0].shape[-1] != hidden or use.transposed or pair[0].transposed:
        return None
    backwards = node.attributes.get("direction") == "reverse"

    def rows(values: list[Floats | None], most: int) -> Floats:
        x, first, states = values
        assert x is not None and states is not None
        states = states[:, 0]  # [steps, directions, batch, hidden]
        start = np.zeros_like(states[:1]) if first is None else first[:1]
        before = (
            np.concatenate([states[1:], start]) if backwards else np.concatenate([start, states[:-1]])
        )
        both: Floats = np.concatenate([x, before], -1)
        return both.reshape(-1, both.shape[-1])

    key = f"{use.tensor}|{pair[0].tensor}"
    unnamed = None if node.output(0) else use.index
    values = (node.input(0), node.input(5), node.output(0))
    width = use.shape[-1] + hidden
    weights = int(np.prod(use.shape)) + int(np.prod(pair[0].shape))
    return Measured(key, "input_moment", values, use.graph, rows, width, main_index(use.graph, use.index), weights, -1, unnamed)


def measured(use: Use, others: list[Use]) -> Measured | None:
    """How a use is measured; None where it is not."""
    op, standard = use.node.op, use.node.domain in ("", "ai.onnx")
    if standard and op in ("MatMul", "Gemm"):
        return _product(use)
    if standard and op == "Conv":
        return _convolution(use)
    if standard and op in _GATES and len(use.shape) >= 2:
        return _recurrent(use, others)
    if use.node.domain == "com.microsoft" and op == "Attention" and use.input == 1:
        return _product(use)
    return None


def is_in_pairs(node: Node) -> bool:
    """Whether two weights of the node are rounded as one matrix."""
    return node.op in _GATES


def uses_of(graph: Graph, seen: list[dict[str, Any]], shapes: dict[str, tuple[int, ...]]) -> list[Use]:
    """Uses of weights in graphs whose values can become outputs, without those of other shapes.

    Args:
        seen: of _core.onnx_graph().
    """
    found = []
    for use in seen:
        if not graph.in_branches(use["graph"]):
            continue
        node = graph.node(use["graph"], use["node"])
        if use["computed"] or (use["reshaped"] and not is_in_pairs(node)):
            continue
        found.append(
            Use(use["tensor"], shapes[use["tensor"]], use["graph"], use["node"], use["input"], use["transposed"], node)
        )
    return found


def add(sums: dict[str, Sums], of: Measured, rows: Floats, most: int) -> bool:
    """Adds about ``most`` rows to the sums of their tensor. @return whether they are of the form of the earlier ones"""
    if rows.shape[-1] > _WIDEST or rows.shape[-1] != of.width:
        return True
    rows = _spread(rows, most).astype(np.float32, copy=False)
    groups, (count, width) = rows.shape[:-2], rows.shape[-2:]
    own = sums.get(of.key)
    if own is None:
        own = sums[of.key] = Sums(of.kind, np.zeros((*groups, width, width)), np.zeros((*groups, width)))
    if own.kind != of.kind or own.moment.shape != (*groups, width, width):
        return False
    own.mean += rows.sum(-2, dtype=np.float64)
    own.rows += count
    # Copied: the values that they are part of may be larger than a pass may hold.
    own.waiting.append(rows.copy())
    if sum(each.shape[-2] for each in own.waiting) >= width:
        own.finish()
    return True
