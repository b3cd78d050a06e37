"""ONNX graphs with values inside of them as further outputs.

Only what is needed is parsed: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .._errors import GbzError
from .protobuf import Field, fields, message, text, texts, whole, wholes

#: From the main graph to one inside of it: a node of each graph on the way, and which of its graphs.
Path: TypeAlias = tuple[tuple[int, int], ...]

_FLOAT = 1
_PREFIX = "gbcompress."


@dataclass(frozen=True)
class Node:
    """A node, as far as statistics need it."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)  #: integers, lists of them, texts

    def input(self, index: int) -> str:
        """Its name; "" for one that is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def output(self, index: int) -> str:
        return self.outputs[index] if index < len(self.outputs) else ""


@dataclass(frozen=True)
class Tap:
    """A value that a temporary graph gives as an output."""

    graph: Path  #: where it is made
    value: str
    name: str  #: of the output
    shape: bool = False  #: its shape instead, as floats


def _attribute(parts: list[Field]) -> Any:
    kind = (wholes(parts, 20) or [0])[-1]
    if kind == 2:  # INT
        return (wholes(parts, 3) or [0])[-1]
    if kind == 7:  # INTS
        return wholes(parts, 8)
    if kind == 3:  # STRING
        return (texts(parts, 4) or [""])[-1]
    return None


def _node(data: memoryview) -> Node:
    parts = fields(data)
    attributes = {}
    for part in parts:
        if part.number == 5 and not isinstance(part.value, int):
            inner = fields(part.value)
            attributes[(texts(inner, 1) or [""])[-1]] = _attribute(inner)
    return Node(
        (texts(parts, 4) or [""])[-1], (texts(parts, 7) or [""])[-1],
        tuple(texts(parts, 1)), tuple(texts(parts, 2)), attributes,
    )  # fmt: skip


def _graphs(node: list[Field]) -> list[memoryview]:
    """Graphs in a node's attributes, in the file's order."""
    return [
        inner.value
        for part in node
        if part.number == 5 and not isinstance(part.value, int)
        for inner in fields(part.value)
        if inner.number in (6, 11) and not isinstance(inner.value, int)
    ]


class Graph:
    """The main graph of a model and those inside of it.

    Args:
        data: the bytes of an ONNX file.

    Raises:
        GbzError: ``code`` ``"corrupt"`` for bytes that are none.
    """

    def __init__(self, data: bytes) -> None:
        self.model = fields(memoryview(data))
        main = [part.value for part in self.model if part.number == 7 and not isinstance(part.value, int)]
        if not main:
            raise GbzError("the file holds no graph; it is no ONNX model, or was cut short", "corrupt")
        self._data: dict[Path, memoryview] = {(): main[0]}
        self._nodes: dict[Path, list[memoryview]] = {}

    def _nodes_of(self, path: Path) -> list[memoryview]:
        if path not in self._nodes:
            if path and path not in self._data:
                index, place = path[-1]
                self._data[path] = _graphs(fields(self._nodes_of(path[:-1])[index]))[place]
            parts = fields(self._data[path])
            self._nodes[path] = [
                part.value for part in parts if part.number == 1 and not isinstance(part.value, int)
            ]
        return self._nodes[path]

    def node(self, path: Path, index: int) -> Node:
        """A node of the graph at that path."""
        return _node(self._nodes_of(path)[index])

    def in_branches(self, path: Path) -> bool:
        """Whether the graph is the main one or lies in branches of If alone."""
        return all(
            self.node(path[:depth], index).op == "If" for depth, (index, _) in enumerate(path)
        )

    def with_outputs(
        self, taps: Sequence[Tap], named: dict[tuple[Path, int], str], end: int | None = None
    ) -> bytes:
        """The model with values as further outputs, of type float32.

        Args:
            taps: in_branches(). A branch that does not make a value gives an empty one.
            named: nodes whose first output, which is not used, gets a name.
            end: leaves out the main graph's nodes from that one on, and its own outputs.
        """
        parts = [
            text(7, _edited(part.value, (), list(taps), named, end))
            if part.number == 7 and not isinstance(part.value, int) else part
            for part in self.model
        ]  # fmt: skip
        return message(parts)


def tap_name(number: int) -> str:
    """The name of the output with that number."""
    return f"{_PREFIX}{number}"


def _inner(tap: Tap, depth: int, place: int) -> str:
    """Names in a branch differ from those outside of it."""
    return tap.name if depth == 0 else f"{tap.name}.{depth}.{place}"


def _tapped(tap: Tap, name: str) -> list[Field]:
    """Nodes that give the value, or its shape, as floats."""
    attribute = message([text(1, "to"), whole(3, _FLOAT), whole(20, 2)])
    taken = f"{name}.shape" if tap.shape else tap.value
    cast = message([text(1, taken), text(2, name), text(4, "Cast"), text(5, attribute)])
    if not tap.shape:
        return [text(1, cast)]
    return [text(1, message([text(1, tap.value), text(2, taken), text(4, "Shape")])), text(1, cast)]


def _empty(name: str) -> bytes:
    tensor = message([whole(1, 0), whole(2, _FLOAT), text(9, b"")])
    attribute = message([text(1, "value"), text(5, tensor), whole(20, 4)])
    return message([text(2, name), text(4, "Constant"), text(5, attribute)])


def _output(name: str) -> bytes:
    kind = message([text(1, message([whole(1, _FLOAT)]))])
    return message([text(1, name), text(2, kind)])


def _edited(
    data: memoryview, path: Path, taps: list[Tap], named: dict[tuple[Path, int], str], end: int | None = None
) -> bytes:
    """A graph that gives all these values, in that order; with ``end`` nothing else, of the nodes before that one."""
    depth = len(path)
    place = path[-1][1] if path else 0
    parts = []
    index = 0
    made: list[Field] = []
    within: dict[int, list[Tap]] = {}
    for tap in taps:
        if len(tap.graph) > depth and tap.graph[:depth] == path:
            within.setdefault(tap.graph[depth][0], []).append(tap)
    for part in fields(data):
        if end is not None and (part.number == 12 or (part.number == 1 and index >= end)):
            continue
        if part.number == 1 and not isinstance(part.value, int):
            node = part.value
            if index in within:
                node = memoryview(_edited_node(node, path, index, within[index], named))
            if (path, index) in named:
                node = memoryview(_renamed(node, named[path, index]))
            part = Field(1, part.wire, node)
            index += 1
        parts.append(part)
    for tap in taps:
        name = _inner(tap, depth, place)
        if tap.graph == path:
            made.extend(_tapped(tap, name))
        elif tap.graph[:depth] != path:
            made.append(text(1, _empty(name)))
        made.append(text(12, _output(name)))
    return message(parts + made)


def _edited_node(
    data: memoryview, path: Path, index: int, taps: list[Tap], named: dict[tuple[Path, int], str]
) -> bytes:
    """A node whose graphs give these values, and which gives them in turn."""
    place = 0
    parts = []
    for part in fields(data):
        if part.number == 5 and not isinstance(part.value, int):
            attribute = fields(part.value)
            for at, inner in enumerate(attribute):
                if inner.number in (6, 11) and not isinstance(inner.value, int):
                    below = (*path, (index, place))
                    attribute[at] = text(inner.number, _edited(inner.value, below, taps, named))
                    place += 1
            part = text(5, message(attribute))
        parts.append(part)
    depth = len(path)
    own = path[-1][1] if path else 0
    return message(parts + [text(2, _inner(tap, depth, own)) for tap in taps])


def _renamed(data: memoryview, name: str) -> bytes:
    """A node with that name for its first output."""
    parts = fields(data)
    first = next((at for at, part in enumerate(parts) if part.number == 2), None)
    if first is None:
        return message([*parts, text(2, name)])
    parts[first] = text(2, name)
    return message(parts)
