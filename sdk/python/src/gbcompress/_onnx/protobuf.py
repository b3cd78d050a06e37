"""Messages of protocol buffers as lists of their fields: what is not understood is written as it was."""

from __future__ import annotations

from dataclasses import dataclass

from .._errors import GbzError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass
class Field:
    """One field of a message."""

    number: int
    wire: int
    value: int | memoryview  #: bytes of all types but varints


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise GbzError("a message of the model does not end where it should; load the file again", "corrupt")


def fields(data: memoryview) -> list[Field]:
    """The fields of a message in their order. Raises GbzError, ``code`` ``"corrupt"``."""
    found = []
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = varint(data, at)
            found.append(Field(number, wire, value))
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire, -1)
        if wire == _BYTES:
            size, at = varint(data, at)
        if size < 0 or size > len(data) - at:
            raise GbzError(
                "a message of the model does not end where it should; load the file again", "corrupt"
            )
        found.append(Field(number, wire, data[at : at + size]))
        at += size
    return found


def encoded(number: int) -> bytes:
    """A varint; negative numbers as 64 bits."""
    number &= 2**64 - 1
    parts = bytearray()
    while number > 127:
        parts.append(128 | number & 127)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def message(parts: list[Field]) -> bytes:
    """The bytes of the fields of a message."""
    result = bytearray()
    for field in parts:
        result += encoded(field.number << 3 | field.wire)
        if isinstance(field.value, int):
            result += encoded(field.value)
            continue
        if field.wire == _BYTES:
            result += encoded(len(field.value))
        result += field.value
    return bytes(result)


def text(number: int, content: str | bytes) -> Field:
    """A field of text, or of a message."""
    data = content.encode() if isinstance(content, str) else content
    return Field(number, _BYTES, memoryview(data))


def whole(number: int, value: int) -> Field:
    """A field of an integer."""
    return Field(number, _VARINT, value)


def texts(parts: list[Field], number: int) -> list[str]:
    """All fields of that number as text."""
    return [
        bytes(field.value).decode("utf-8", "surrogateescape")
        for field in parts
        if field.number == number and not isinstance(field.value, int)
    ]


def wholes(parts: list[Field], number: int) -> list[int]:
    """All integers of the fields of that number, packed or not, as signed 64-bit numbers."""
    found: list[int] = []
    for field in parts:
        if field.number != number:
            continue
        if isinstance(field.value, int):
            found.append(field.value)
            continue
        at = 0
        while at < len(field.value):
            value, at = varint(field.value, at)
            found.append(value)
    return [value - 2**64 if value >= 2**63 else value for value in found]
