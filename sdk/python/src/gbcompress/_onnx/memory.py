"""An ONNX model of a .gbz without its files: the bytes of a graph, and weights as arrays beside it.

The container of a file (docs/reference/container.md) holds the bytes of the model without the elements of its
tensors. Large initializers of the main graph become external data, which the caller gives as arrays; all other
elements are put into their places.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import GbzError, usage
from .._files.load import Opened
from .._files.save import Path
from .protobuf import Field, encoded, fields, message, text, texts, varint, whole, wholes

#: Bytes of an initializer from which on it lies outside of the graph. onnxruntime reads small ones, such as shapes, there.
_LARGE = 4096
_BYTES, _VARINTS, _AFFINE = 0, 1, 3
#: Fields of messages: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 13, 14
_ELEMENTS = (4, 5, 7, 9, 10, 11)
#: What the graph calls the data that are given as arrays; no file of that name is opened.
_MEMORY = "gbcompress-memory"
#: Element types of ONNX whose bytes NumPy arrays of another type hold, and those of NumPy itself.
_TYPES = {
    1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8",
    16: "u2", 17: "u1", 18: "u1", 19: "u1", 20: "u1",
}  # fmt: skip


def _corrupt(why: str) -> GbzError:
    return GbzError(f"the container of the model is damaged: {why}; get the file again", "corrupt")


@dataclass
class Affine:
    """Integers that stand for (integer - zero) * scale."""

    kind: Any
    inner: int
    scales: NDArray[np.float32]
    zeros: NDArray[np.float32]

    def integers(self, values: NDArray[np.float32]) -> NDArray[Any]:
        at = (np.arange(values.size, dtype=np.int64) // self.inner) % self.scales.size
        limits = np.iinfo(self.kind)
        rounded = np.rint(values.reshape(-1) / self.scales[at]) + self.zeros[at]
        integers: NDArray[Any] = np.clip(rounded, limits.min, limits.max).astype(self.kind)
        return integers


@dataclass
class Hole:
    """A place of a skeleton where the elements of a tensor belong."""

    tensor: int
    place: int
    encoding: int
    size: int = 0  #: bytes in the original file
    affine: Affine | None = None


@dataclass
class Skeleton:
    """A file of the model without elements."""

    name: str
    size: int
    holes: list[Hole]
    data: memoryview = field(default_factory=lambda: memoryview(b""))


class _Reader:
    """Numbers, texts and bytes of a container. Raises GbzError at its end."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        value, self.at = varint(self.data, self.at)
        return value

    def take(self, size: int) -> memoryview:
        if size > len(self.data) - self.at:
            raise _corrupt("it ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return bytes(self.take(self.number())).decode("utf-8", "replace")


def _hole(reader: _Reader, before: int, sizes: dict[int, int]) -> tuple[Hole, int | None]:
    """A hole, and where its length stands in the skeleton."""
    tensor = reader.number()
    if tensor not in sizes:
        raise _corrupt("it names a tensor that the file lacks")
    hole = Hole(tensor, before + reader.number(), reader.number(), sizes[tensor])
    length = None
    if hole.encoding == _VARINTS:
        length = 0
        for _ in range(reader.number()):
            length += reader.number()
    elif hole.encoding == _AFFINE:
        kind = np.dtype(("i1", "u1")[min(reader.number(), 1)])
        inner, count = max(reader.number(), 1), reader.number()
        scales = np.frombuffer(reader.take(4 * count), "<f4")
        zeros = np.frombuffer(reader.take(count), kind).astype(np.float32)
        if not count:
            raise _corrupt("integers without a scale")
        hole.affine, hole.size = Affine(kind, inner, scales, zeros), hole.size // 4
    elif hole.encoding != _BYTES:
        raise GbzError(f"the container of the model has the encoding {hole.encoding}; upgrade gbcompress", "unsupported")
    return hole, length


def read_container(data: memoryview, sizes: dict[int, int]) -> tuple[str, list[Skeleton]]:
    """The format of the model and its files.

    Args:
        sizes: bytes of each tensor by its index.
    """
    reader = _Reader(data)
    if (version := reader.number()) not in (1, 2):
        raise GbzError(f"the container of the model has version {version}; upgrade gbcompress", "unsupported")
    kind = reader.text()
    files: list[Skeleton] = []
    lengths: list[tuple[Skeleton, Hole, int]] = []
    for _ in range(reader.number()):
        file = Skeleton(reader.text(), reader.number(), [])
        before = 0
        for _ in range(reader.number()):
            hole, length = _hole(reader, before, sizes)
            before = hole.place
            file.holes.append(hole)
            if length is not None:
                lengths.append((file, hole, length))
        files.append(file)
    for file in files:
        file.data = reader.take(file.size)
        if file.holes and file.holes[-1].place > file.size:
            raise _corrupt("a hole lies behind the end of its file")
    for file, hole, length in lengths:
        hole.size, _ = varint(file.data, length)
    if not files:
        raise _corrupt("it has no files")
    return kind, files


def _varints(values: NDArray[Any]) -> bytes:
    signed = values.dtype.kind == "i"
    return b"".join(encoded(int(value)) for value in (values.astype(np.int64) if signed else values).reshape(-1))


class Memory:
    """What a session needs in place of the files of an ONNX model.

    Attributes:
        graph: bytes of the model, whose large initializers are external data.
        arrays: an element type of ONNX and the elements of each of them, by name. Elements of types that NumPy lacks
            are integers of as many bytes.
    """

    def __init__(self, filename: Path, threads: int) -> None:
        """Raises as load_file(), and UsageError for a file that was not made of an ONNX model."""
        self._file = Opened(filename, "numpy", None, None, threads, all=True)
        self.arrays: dict[str, tuple[int, NDArray[Any]]] = {}
        self._decoded: dict[int, NDArray[np.uint8]] = {}
        with self._file.checked():
            self._read(filename)

    def _read(self, filename: Path) -> None:
        entries = self._file.tensors
        place = [index for index, entry in enumerate(entries) if entry["name"] == "gbz.container"]
        if not place:
            raise usage(f"{filename} was not made of an ONNX model; load_file() reads its tensors")
        sizes = {index: self._file.size_of(index) for index in range(len(entries)) if index != place[0]}
        kind, self._files = read_container(memoryview(self._elements(place[0]).tobytes()), sizes)
        if kind != "onnx":
            raise usage(f"{filename} was made of a model of the format {kind}; gbcompress expand writes it")
        self._main = self._files[0]
        self._places = [hole.place for hole in self._main.holes]
        # Together on all threads; small ones are decoded where they are needed.
        large = [hole.tensor for hole in self._main.holes if hole.size >= _LARGE]
        self._decoded = dict(self._file.raw(large))
        self._beside = {file.name: self._whole(file) for file in self._files[1:]}
        self.graph = message(list(self._model()))

    def _elements(self, index: int) -> NDArray[np.uint8]:
        """Bytes of a tensor, which has one place."""
        found = self._decoded.pop(index, None)
        return found if found is not None else dict(self._file.raw([index]))[index]

    def _payload(self, hole: Hole) -> NDArray[np.uint8]:
        """The elements of a hole; varints stand in a file in place of those of that encoding."""
        data = self._elements(hole.tensor)
        if hole.affine is not None:
            return hole.affine.integers(data.view(np.float32)).view(np.uint8)
        return data

    def _whole(self, file: Skeleton) -> NDArray[np.uint8]:
        """A file of external data, in memory."""
        size = file.size + sum(hole.size for hole in file.holes)
        result = np.empty(size, np.uint8)
        skeleton = np.frombuffer(file.data, np.uint8)
        at = done = 0
        for hole in file.holes:
            if hole.encoding == _VARINTS:
                raise _corrupt("external data as varints")
            result[at : at + hole.place - done] = skeleton[done : hole.place]
            at += hole.place - done
            result[at : at + hole.size] = self._payload(hole)
            at, done = at + hole.size, hole.place
        result[at:] = skeleton[done:]
        return result

    def _end(self, start: int, length: int) -> int:
        """Where a message that begins in the skeleton ends there; `length` counts elements of holes too."""
        at = start
        for hole in self._main.holes[bisect.bisect_right(self._places, start) :]:
            if length <= hole.place - at:
                break
            length -= hole.place - at + hole.size
            at = hole.place
        if length < 0 or at + length > len(self._main.data):
            raise _corrupt("a message ends within the elements of a tensor")
        return at + length

    def _fields(self, start: int, end: int) -> Iterator[tuple[Field, int, Hole | None]]:
        """Fields between two places, where the content of each begins, and its hole if it is one."""
        data, at = self._main.data, start
        while at < end:
            key, behind = varint(data, at)
            if key & 7 != 2:
                [found] = fields(data[at : self._fixed(key, behind)])
                at = self._fixed(key, behind)
                yield found, at, None
                continue
            length, behind = varint(data, behind)
            index = bisect.bisect_left(self._places, behind)
            hole = self._main.holes[index] if index < len(self._places) and self._places[index] == behind else None
            if hole is not None and hole.size == length:
                yield Field(key >> 3, 2, memoryview(b"")), behind, hole
                at = behind
            else:
                at = self._end(behind, length)
                yield Field(key >> 3, 2, data[behind:at]), behind, None

    def _fixed(self, key: int, at: int) -> int:
        """The end of a field that has no length."""
        if key & 7 == 0:
            return varint(self._main.data, at)[1]
        return at + {1: 8, 5: 4}.get(key & 7, len(self._main.data))

    def _filled(self, start: int, end: int) -> memoryview | bytes:
        """A message with all elements in their places."""
        first = bisect.bisect_right(self._places, start)
        if first == len(self._places) or self._places[first] > end:
            return self._main.data[start:end]
        return message([self._inline(part, at, hole) for part, at, hole in self._fields(start, end)])

    def _inline(self, part: Field, at: int, hole: Hole | None) -> Field:
        if hole is not None:
            data = self._payload(hole)
            if hole.encoding == _VARINTS:
                entry = self._file.tensors[hole.tensor]
                return text(part.number, _varints(data.view(_of_dtype(entry["dtype"]))))
            return text(part.number, data.tobytes())
        if isinstance(part.value, int) or part.wire != 2:
            return part
        return text(part.number, bytes(self._filled(at, at + len(part.value))))

    def _model(self) -> Iterator[Field]:
        for part, at, hole in self._fields(0, len(self._main.data)):
            if part.number != _GRAPH or isinstance(part.value, int):
                yield self._inline(part, at, hole)
                continue
            inner = self._fields(at, at + len(part.value))
            yield text(_GRAPH, message([self._of_graph(each, place, found) for each, place, found in inner]))

    def _of_graph(self, part: Field, at: int, hole: Hole | None) -> Field:
        if part.number != _INITIALIZER or isinstance(part.value, int):
            return self._inline(part, at, hole)
        inner = list(self._fields(at, at + len(part.value)))
        known = [each for each, _, _ in inner]
        name = (texts(known, _NAME) or [""])[-1]
        kind = (wholes(known, _DATA_TYPE) or [0])[-1]
        shape = tuple(wholes(known, _DIMS))
        array = self._array(inner, known, kind)
        if array is None:
            return self._inline(part, at, hole)
        kept = [each for each, _, found in inner if found is None and each.number not in (_EXTERNAL, _LOCATION)]
        if not name or kind not in _TYPES:
            return text(_INITIALIZER, message([*kept, text(_RAW, array.tobytes())]))
        values = array.view(_TYPES[kind]).reshape(shape)
        self.arrays[name] = kind, values if values.flags.aligned else values.copy()
        place = message([text(1, "location"), text(2, _MEMORY)])
        return text(_INITIALIZER, message([*kept, text(_EXTERNAL, place), whole(_LOCATION, 1)]))

    def _array(self, inner: list[Any], known: list[Field], kind: int) -> NDArray[np.uint8] | None:
        """Elements that lie outside of the graph; None: they belong into it."""
        holes = [hole for each, _, hole in inner if hole is not None and each.number in _ELEMENTS]
        if len(holes) == 1 and holes[0].size >= _LARGE:
            return self._payload(holes[0])
        if (wholes(known, _LOCATION) or [0])[-1] != 1:
            return None
        entries = [fields(each.value) for each in known if each.number == _EXTERNAL and not isinstance(each.value, int)]
        told = {(texts(each, 1) or [""])[-1]: (texts(each, 2) or [""])[-1] for each in entries}
        data = self._beside.get(told.get("location", "").removeprefix("./"))
        if data is None:
            raise _corrupt(f"it lacks the external data {told.get('location', '')!r}")
        first = int(told.get("offset") or 0)
        size = int(told["length"]) if told.get("length") else len(data) - first
        if first < 0 or size < 0 or first + size > len(data):
            raise _corrupt("external data end too early")
        return data[first : first + size]


def _of_dtype(name: str) -> str:
    """A NumPy type of as many bytes, of integers of the same sign."""
    bits = "".join(each for each in name if each.isdigit())[:2] or "8"
    bits = {"16": "2", "32": "4", "64": "8"}.get(bits, "1")
    return ("i" if name.startswith("I") else "u") + bits
