"""Weights of a mapped ``.gbz``, decoded when a layer uses them."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch

from .. import _core
from .._errors import GbzError, of_code
from .._files.arrays import _OF_TORCH, to_torch
from .._files.open import OpenFile
from .._files.save import Path

#: Weights with more elements are decoded in pieces of rows.
WHOLE = 1 << 22
#: Elements of a piece, at most, unless one block of the file is larger.
_PIECE = 1 << 21
#: Values of a block of profile lanes, and bytes of a stripe of exact floats: rows that begin there are read alone.
_BLOCK = 1 << 20
#: Element types that the file is read as, beside its own.
_READ = ("F32", "F16", "BF16")
#: Element types of the file and of the model that multiply() takes.
_MULTIPLIED = {("F32", torch.float32), ("F32", torch.bfloat16), ("BF16", torch.float32), ("BF16", torch.bfloat16)}
#: Elements up to which torch copies on one thread.
_SERIAL = 1 << 15
#: Weights that are decoded ahead; each has a buffer.
_AHEAD = 2
#: Bytes of weights that are decoded together, on all processors, before layers that leave none to decode ahead.
_TOGETHER = 8 << 20
#: Bytes between values in one buffer: a multiple of every vector's.
_ALIGNED = 64


class Unit(NamedTuple):
    """Rows [first, first + rows) of a tensor of the file, as one element type: what is decoded at a time."""

    tensor: int
    first: int
    rows: int
    dtype: torch.dtype


def _memory(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Values to be written. Tensors made in inference mode could not be written by other threads, nor outside of it."""
    with torch.inference_mode(False):
        return torch.empty(tuple(shape), dtype=dtype)


def _convert(values: torch.Tensor, out: torch.Tensor) -> None:
    """Copies in parts for which torch starts no threads: those of a thread that decodes ahead would compete with the layer's."""
    for first in range(0, out.numel(), _SERIAL):
        out[first : first + _SERIAL].copy_(values[first : first + _SERIAL])


class _Buffers:
    """Memory that decoded weights use in turn. As many buffers exist as are in use at once; the largest ones stay."""

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []
        self._lock = threading.Lock()
        self.bytes = 0  #: of all buffers

    def take(self, size: int) -> torch.Tensor:
        """At least ``size`` bytes."""
        with self._lock:
            fitting = [i for i, each in enumerate(self._free) if each.numel() >= size]
            if fitting:
                return self._free.pop(fitting[0])
            if self._free:  # the smallest one makes room
                self.bytes -= self._free.pop(0).numel()
            self.bytes += size
        return _memory((size,), torch.uint8)

    def give(self, buffer: torch.Tensor) -> None:
        with self._lock:
            self._free.append(buffer)
            self._free.sort(key=torch.Tensor.numel)
            while len(self._free) > _AHEAD + 1:
                self.bytes -= self._free.pop(0).numel()


class _Holder:
    """A buffer with the values of one or several weights. It is free again when each was given back."""

    def __init__(self, buffers: _Buffers, size: int, users: int) -> None:
        self._buffers, self._users, self.memory = buffers, users, buffers.take(size)

    def give(self, users: int = 1) -> None:
        with self._buffers._lock:
            self._users -= users
            if self._users > 0:
                return
        self._buffers.give(self.memory)


class _Rows:
    """Rows of an embedding that were decoded before, the latest ones, in one block of memory."""

    def __init__(self, rows: int, width: int, dtype: torch.dtype, size: int) -> None:
        self.capacity = max(0, min(rows, size // max(1, width * dtype.itemsize)))
        self.values = _memory((self.capacity, width), dtype)
        self._slots: OrderedDict[int, int] = OrderedDict()
        self.lock = threading.Lock()

    def find(self, rows: list[int], out: torch.Tensor) -> list[int]:
        """Copies the rows that are here to their places. Places of the others."""
        if not self._slots:
            return list(range(len(rows)))
        missing, places, slots = [], [], []
        for place, row in enumerate(rows):
            slot = self._slots.get(row)
            if slot is None:
                missing.append(place)
                continue
            self._slots.move_to_end(row)
            places.append(place)
            slots.append(slot)
        if places:
            out[places] = self.values[slots]
        return missing

    def put(self, rows: list[int], values: torch.Tensor) -> None:
        """The last ones of them that fit; rows used longest ago leave."""
        first = max(0, len(rows) - self.capacity)
        for row, value in zip(rows[first:], values[first:], strict=True):
            if row in self._slots:
                continue
            slot = len(self._slots) if len(self._slots) < self.capacity else self._slots.popitem(last=False)[1]
            self._slots[row] = slot
            self.values[slot] = value

    @property
    def bytes(self) -> int:
        return self.values.numel() * self.values.element_size()


class Store:
    """A file, the buffers that its weights are decoded into, and the threads that decode ahead.

    Methods may be called by several threads at once. After a fork, the child has threads of its own.
    """

    def __init__(self, filename: Path, base: Path | None = None, cache_bytes: int = 16 << 20) -> None:
        """With the digest checked.

        Raises:
            GbzError: ``code`` ``"corrupt"`` or ``"truncated"``, with the tensor where its values do not decode.
            NotFound, UsageError: as of open().
        """
        self.filename, self.cache_bytes = os.path.abspath(_core.artifact_in(os.fspath(filename))), cache_bytes
        self._opened = OpenFile(filename, "torch", base=base, verify=True)
        self._read = self._opened._opened()
        self.tensors = self._read.tensors
        self.names = [str(entry["name"]) for entry in self.tensors]
        self.file_bytes = int(self._read._file.file_bytes)
        self._lanes = self._read._file.profile == "lanes"
        self.buffers = _Buffers()
        self._rows: dict[tuple[int, torch.dtype], _Rows] = {}
        self._matrices: dict[int, _core.FixedWidthMatrix | None] = {}
        self.integers = 0  #: bytes of matrices
        self.decoded: set[int] = set()  #: tensors that are decoded from the file when they are used
        self.loading = False  #: whether parameters that are made now are frozen without an error
        self._reset()
        _stores.add(self)

    def _reset(self) -> None:
        """Locks and threads of this process."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="gbcompress")
        self._ready: dict[Unit, Future[tuple[_Holder, torch.Tensor]]] = {}
        self._after: dict[tuple[Unit, bool], Unit] = {}
        self._last = threading.local()
        self.buffers._lock = threading.Lock()
        for rows in self._rows.values():
            rows.lock = threading.Lock()

    def place(self, name: str) -> int:
        """Index of the tensor that holds the values: of a tied one, its owner's."""
        return self._opened._place(name)

    def memory(self) -> dict[str, int]:
        """Bytes held: ``file`` (mapped; beside integers what other weights take of it), ``buffers``, ``rows`` of embeddings,
        ``integers``."""
        rows = sum(rows.bytes for rows in self._rows.values())
        file = self.file_bytes
        if self.integers:
            bits = self._read._file.tensor_bits()
            file = math.ceil(sum(bits[index] for index in self.decoded) / 8)
        return {"file": file, "buffers": self.buffers.bytes, "rows": rows, "integers": self.integers}

    def matrix(self, name: str) -> _core.FixedWidthMatrix | None:
        """The integers of a tensor; None where it is not stored as integers times steps, or they would take more than nine
        bits a weight. Tied tensors share them."""
        index = self.place(name)
        if index not in self._matrices:
            with self._naming(index):
                made = self._read._file.fixed_width(index)
            if made is not None and 8 * made.bytes > 9 * made.rows * made.cols:
                made = None
            self._matrices[index] = made
            self.integers += 0 if made is None else made.bytes
        return self._matrices[index]

    def units(self, index: int, dtype: torch.dtype) -> list[Unit]:
        """The whole tensor, or, above WHOLE elements, pieces of rows that begin where stripes do."""
        rows, width = self._sides(index)
        if rows * width <= WHOLE:
            return [Unit(index, 0, rows, dtype)]
        block = max(1, _BLOCK // max(1, width))
        step = max(1, _PIECE // (block * width)) * block
        return [Unit(index, first, min(step, rows - first), dtype) for first in range(0, rows, step)]

    def _sides(self, index: int) -> tuple[int, int]:
        shape = self.tensors[index]["shape"]
        rows = shape[0] if shape else 1
        return rows, math.prod(shape) // max(1, rows)

    def fresh(self, index: int, dtype: torch.dtype) -> torch.Tensor:
        """The tensor in memory of its own."""
        shape = self.tensors[index]["shape"]
        result = _memory(shape, dtype)
        self._decode_into(Unit(index, 0, self._sides(index)[0], dtype), result, 0)
        return result

    def _decode_into(self, unit: Unit, out: torch.Tensor, threads: int) -> None:
        """Into contiguous memory of the unit's size."""
        if out.numel() == 0:
            return
        entry = self.tensors[unit.tensor]
        own, flat = entry["dtype"], out.reshape(-1)
        dtype = _OF_TORCH[str(unit.dtype).removeprefix("torch.")]
        whole = unit.rows == self._sides(unit.tensor)[0]
        with self._naming(unit.tensor):
            if dtype != own and dtype not in _READ:
                values = self._read._file.read_rows(unit.tensor, own, unit.first, unit.rows, threads)
                _convert(to_torch(entry["name"], own, (flat.numel(),), values), flat)
                return
            data = flat.view(torch.uint8).numpy()
            if whole:
                self._read._file.read_into([(unit.tensor, dtype, data)], threads)
            else:
                self._read._file.read_rows_into(unit.tensor, dtype, unit.first, data, threads)

    @contextlib.contextmanager
    def _naming(self, index: int) -> Iterator[None]:
        """Errors name the tensor and the file."""
        try:
            yield
        except GbzError as error:
            name = self.names[index]
            if name in str(error):
                raise
            raise of_code(error.code, f"{name} of {self.filename} cannot be decoded: {error}") from error

    def multiply(self, index: int, dtype: torch.dtype, x: torch.Tensor) -> torch.Tensor | None:
        """``x [..., in] @ W.T`` in float32, of a weight whose values are rounded to ``dtype``; stripes are decoded and
        multiplied one after another by each thread. None where the tensor has other parts or types."""
        own = self.tensors[index]["dtype"]
        kind = "BF16" if dtype == torch.bfloat16 or (dtype == torch.float32 and own == "BF16") else "F32"
        if (own, dtype) not in _MULTIPLIED:
            return None
        given = x.detach().to(torch.float32).reshape(-1).contiguous()
        out = torch.empty(*x.shape[:-1], self._sides(index)[0])
        with self._naming(index):
            fits = self._read._file.multiply(index, kind, given.numpy(), out.reshape(-1).numpy())
        return out if fits else None

    def _values(self, unit: Unit) -> tuple[tuple[int, ...], int]:
        """Shape and bytes."""
        shape = (unit.rows, *self.tensors[unit.tensor]["shape"][1:])
        return shape, math.prod(shape) * unit.dtype.itemsize

    def _decode(self, unit: Unit, threads: int) -> tuple[_Holder, torch.Tensor]:
        """Values [rows, ...] in a buffer."""
        shape, size = self._values(unit)
        holder = _Holder(self.buffers, size, 1)
        try:
            values = holder.memory[:size].view(unit.dtype).view(shape)
            self._decode_into(unit, values, threads)
        except BaseException:
            holder.give()
            raise
        return holder, values

    def _decode_together(self, units: list[Unit]) -> list[tuple[_Holder, torch.Tensor]]:
        """Whole weights side by side in one buffer, on all processors: a part of one stripe keeps no thread idle."""
        shapes = [self._values(unit) for unit in units]
        starts = [0, *itertools.accumulate(-(-size // _ALIGNED) * _ALIGNED for _, size in shapes)]
        holder = _Holder(self.buffers, starts[-1], len(units))
        try:
            made, wanted = [], []
            for unit, (shape, size), start in zip(units, shapes, starts, strict=False):
                with torch.inference_mode(False):  # another mode may be on when they are used
                    data = holder.memory[start : start + size]
                    made.append((holder, data.view(unit.dtype).view(shape)))
                wanted.append((unit.tensor, _OF_TORCH[str(unit.dtype).removeprefix("torch.")], data.numpy()))
            self._read._file.read_into(wanted, 0)
        except BaseException:
            holder.give(len(units))
            raise
        return made

    @contextlib.contextmanager
    def weight(self, unit: Unit, backward: bool = False, ahead: bool = True) -> Iterator[torch.Tensor]:
        """Values [rows, ...] in a buffer that belongs to the caller within the block.

        What followed this unit before, in the same direction, is decoded by threads meanwhile or, unless ``ahead``, along
        with it.
        """
        with self._lock:
            future = self._ready.pop(unit, None)
            last = getattr(self._last, "unit", None)
            if last is not None and last[1] == backward:
                self._after[last] = unit
            self._last.unit = (unit, backward)
            if future is not None and future.cancel():  # it has not begun
                future = None
            if ahead:
                self._decode_ahead(unit, backward)
            following = [] if ahead or future is not None else self._following(unit, backward)
        if future is not None:
            holder, values = future.result()
        elif following:
            holder, values = self._with_following(unit, following)
        else:
            holder, values = self._decode(unit, 0)
        try:
            yield values
        finally:
            holder.give()

    def _following(self, unit: Unit, backward: bool) -> list[Unit]:
        """Under the lock: units that came next and fit beside it. Buffers of all others are given back."""
        chain, left = [unit], _TOGETHER - self._values(unit)[1]
        if self._is_direct(unit):
            following = self._after.get((unit, backward))
            while following is not None and following not in chain and self._is_direct(following):
                left -= -(-self._values(following)[1] // _ALIGNED) * _ALIGNED
                if left < 0:
                    break
                chain.append(following)
                following = self._after.get((following, backward))
        self._drop(chain)
        return [each for each in chain[1:] if each not in self._ready]

    def _is_direct(self, unit: Unit) -> bool:
        """Whether it is a whole tensor that is read as its own type, or as one of _READ."""
        dtype = _OF_TORCH[str(unit.dtype).removeprefix("torch.")]
        whole = unit.rows == self._sides(unit.tensor)[0]
        return whole and (dtype in _READ or dtype == self.tensors[unit.tensor]["dtype"])

    def _with_following(self, unit: Unit, following: list[Unit]) -> tuple[_Holder, torch.Tensor]:
        """Decodes units, and keeps those after the first one until they are used."""
        try:
            first, *others = self._decode_together([unit, *following])
        except GbzError:  # of which one it is
            return self._decode(unit, 0)
        with self._lock:
            for each, decoded in zip(following, others, strict=True):
                if each in self._ready:  # of another thread
                    decoded[0].give()
                    continue
                done: Future[tuple[_Holder, torch.Tensor]] = Future()
                done.set_result(decoded)
                self._ready[each] = done
        return first

    def _drop(self, wanted: list[Unit]) -> None:
        """Under the lock: gives back buffers of units that are not expected any more."""
        for other in [each for each in self._ready if each not in wanted]:
            self._ready.pop(other).add_done_callback(self._give_back)

    def _decode_ahead(self, unit: Unit, backward: bool) -> None:
        """Under the lock."""
        wanted: list[Unit] = []
        following = self._after.get((unit, backward))
        while following is not None and len(wanted) < _AHEAD and following not in wanted:
            wanted.append(following)
            following = self._after.get((following, backward))
        self._drop(wanted)
        for each in wanted:
            if each not in self._ready:
                self._ready[each] = self._pool.submit(self._decode, each, 1)

    def _give_back(self, future: Future[tuple[_Holder, torch.Tensor]]) -> None:
        if not future.cancelled() and future.exception() is None:
            future.result()[0].give()

    def rows(self, index: int, rows: list[int], dtype: torch.dtype) -> torch.Tensor:
        """Rows in the order of their indices, [len(rows), width]; the latest ones come from memory.

        Args:
            rows: sorted, each once, within the tensor.
        """
        total, width = self._sides(index)
        with self._lock:
            cache = self._rows.get((index, dtype))
            if cache is None:
                cache = self._rows[index, dtype] = _Rows(total, width, dtype, self.cache_bytes)
        out = _memory((len(rows), width), dtype)
        with cache.lock:
            missing = cache.find(rows, out)
        if missing:
            self._decode_rows(index, [rows[place] for place in missing], missing, out)
            with cache.lock:
                cache.put([rows[place] for place in missing], out[missing])
        return out

    def _decode_rows(self, index: int, rows: list[int], places: list[int], out: torch.Tensor) -> None:
        """Rows to their places; rows of one block are decoded together, blocks side by side."""
        total, width = self._sides(index)
        block = max(1, _BLOCK // max(1, width))
        if not self._lanes and total * width <= WHOLE:
            block = total  # profile small decodes the whole tensor for any row
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for row, place in zip(rows, places, strict=True):
            group = groups.setdefault(row // block, ([], []))
            group[0].append(row)
            group[1].append(place)

        def decode(group: tuple[list[int], list[int]]) -> None:
            wanted, at = group
            unit = Unit(index, wanted[0], wanted[-1] + 1 - wanted[0], out.dtype)
            values = _memory((unit.rows, width), out.dtype)
            self._decode_into(unit, values, 0 if len(groups) == 1 else 1)
            out[at] = values[[row - unit.first for row in wanted]]

        if len(groups) == 1:
            decode(next(iter(groups.values())))
        else:
            list(self._pool.map(decode, groups.values()))


#: Open stores, whose threads a forked child does not have.
_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _reset_all() -> None:
    for store in list(_stores):
        store._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
