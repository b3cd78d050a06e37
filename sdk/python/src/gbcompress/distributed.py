"""For torch.distributed.checkpoint: its storage streams, packed without loss.

    import torch.distributed.checkpoint as dcp
    from gbcompress.distributed import GbzStream, registry

    dcp.save(state, storage_writer=dcp.FileSystemWriter("ckpt", _extensions=[GbzStream()]))
    dcp.load(state, storage_reader=dcp.FileSystemReader("ckpt", _extension_registry=registry()))

Stored tensors take the bytes of ``.gbz`` files that keep every bit. PyTorch calls both arguments experimental.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import IO, Any

import numpy as np

from . import _core
from ._errors import GbzError

try:
    from torch.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension
except ImportError as error:
    raise ImportError(
        "gbcompress.distributed needs a torch whose torch.distributed.checkpoint has stream extensions, "
        f"as version 2.11 has: {error}"
    ) from error

__all__ = ["GbzStream", "registry"]

_MAGIC = b"GBZS"
_VERSION = 1
#: Packing, element size, bytes, packed bytes, CRC-32 of the bytes; a frame of no bytes ends the stream.
_HEAD = struct.Struct("<BBIII")
_FRAME = 1 << 22


class GbzStream(StreamTransformExtension):
    """A stream transformer for ``FileSystemWriter(_extensions=[...])``: every bit comes back.

    A stream needs no names, types or shapes: each 4 MiB of it are packed by themselves, floats of 2, 4 or 8
    bytes as planes, the rest by zstd, and have a checksum.
    """

    @staticmethod
    def registry_name() -> str:
        """``stream.gbz``, under which registry() knows it."""
        return "stream.gbz"

    @staticmethod
    def from_descriptor(version: str) -> GbzStream:
        """The transformer that reads a checkpoint's streams.

        Args:
            version: behind the slash of a descriptor.

        Raises:
            GbzError: another version than 1 (``code`` ``"unsupported"``).
        """
        if version.partition(".")[0] != str(_VERSION):
            raise GbzError(
                f"the checkpoint has streams of version {version}; upgrade gbcompress to read them", "unsupported"
            )
        return GbzStream()

    def get_descriptor(self) -> str:
        """``stream.gbz/1``, which the checkpoint's metadata keeps."""
        return f"{self.registry_name()}/{_VERSION}"

    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        """A stream whose bytes go to ``output`` packed. Closing it ends the packed stream and closes ``output``.

        Args:
            output: a binary stream that can be written.
        """
        return _Writer(output)  # type: ignore[return-value]

    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        """The bytes of a packed stream.

        Args:
            input: a binary stream that can be read. Reading raises GbzError where it is damaged
                (``code`` ``"corrupt"``) or ends early (``"truncated"``).
        """
        return io.BufferedReader(_Reader(input), 1 << 16)


def registry() -> Any:
    """An ``ExtensionRegistry`` that knows GbzStream beside PyTorch's own, for ``FileSystemReader``."""
    known = ExtensionRegistry()
    known.register(GbzStream)
    return known


class _Writer(io.RawIOBase):
    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._waiting = bytearray()
        self._written = 0
        output.write(_MAGIC + bytes([_VERSION]))

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._written += len(view)
        at = 0
        while at < len(view):
            if not self._waiting and len(view) - at >= _FRAME:
                self._put(view[at : at + _FRAME])
                at += _FRAME
                continue
            part = view[at : at + _FRAME - len(self._waiting)]
            self._waiting += part
            at += len(part)
            if len(self._waiting) == _FRAME:
                self._put(self._waiting)
                self._waiting = bytearray()
        return len(view)

    def close(self) -> None:
        if self.closed:
            return
        try:
            # Elements have at most 8 bytes: what is left of them has a frame of its own.
            whole = len(self._waiting) // 8 * 8
            for part in (self._waiting[:whole], self._waiting[whole:]):
                if part:
                    self._put(part)
            self._output.write(_HEAD.pack(0, 0, 0, 0, 0))
        finally:
            super().close()
            self._output.close()

    def _put(self, frame: bytearray | memoryview) -> None:
        packing, element, packed = _core.pack_frame(np.frombuffer(frame, np.uint8))
        self._output.write(_HEAD.pack(packing, element, len(frame), packed.size, zlib.crc32(frame)))
        self._output.write(packed.tobytes())


class _Reader(io.RawIOBase):
    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._frame = memoryview(b"")
        self._number = 0
        self._ended = False
        magic = self._take(len(_MAGIC) + 1)
        if magic[: len(_MAGIC)] != _MAGIC:
            raise GbzError("the stream does not begin as GbzStream's do; get the checkpoint again", "corrupt")
        if magic[-1] != _VERSION:
            raise GbzError(
                f"the stream has the version {magic[-1]}; upgrade gbcompress to read it", "unsupported"
            )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        while not self._frame and not self._ended:
            self._next()
        count = min(len(target), len(self._frame))
        target[:count] = self._frame[:count]
        self._frame = self._frame[count:]
        return count

    def _take(self, count: int) -> bytes:
        """So many bytes of the packed stream."""
        parts: list[bytes] = []
        while count:
            part = self._source.read(count)
            if not part:
                raise GbzError(f"the stream ends in frame {self._number}; get the checkpoint again", "truncated")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _next(self) -> None:
        packing, element, raw_bytes, packed_bytes, checksum = _HEAD.unpack(self._take(_HEAD.size))
        label = f"frame {self._number} of the stream"
        if raw_bytes > _FRAME or packed_bytes > raw_bytes:
            raise GbzError(f"{label} is too large; get the checkpoint again", "corrupt")
        if raw_bytes == 0:
            self._ended = True
            return
        packed = np.frombuffer(self._take(packed_bytes), np.uint8)
        raw = _core.unpack_frame(packed, packing, raw_bytes, element, label)
        if zlib.crc32(raw.data) != checksum:
            raise GbzError(f"{label} is damaged; get the checkpoint again", "corrupt")
        self._frame = raw.data
        self._number += 1
