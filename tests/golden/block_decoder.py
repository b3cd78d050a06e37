"""The blocks of docs/reference/blocks.md."""

import re

import numpy as np

from byte_decoder import decode_bytes
from integer_common import need

STRIPE, GROUP, CLASSES = 1 << 20, 32, 16
F32 = np.float32

SCALES = "8, 6, 1: 4 @ 4 / 4 : 6, 4+4 @ 12 / 4 : 4, 4+4 @ 4 / 4 : 2 << 6 >> 4"
OFFSETS = "8, 6, 1: 4 @ 8 / 4 : 6, 4+4 @ 12 / 4 : 4 << 4, 4+4 @ 8 / 4 : 2 << 6 >> 4, scale"
TYPES = {
    2: (18, "D at 0; 32, 4, 2: 32 @ 2 / 16 : 4"),
    3: (20, "D at 0; M at 2; 32, 4, 2: 32 @ 4 / 16 : 4, zero"),
    6: (22, "D at 0; 32, 5, 1: 32 @ 6 / 16 : 4, 32 @ 2 / 1 : 1 >> 4"),
    7: (24, "D at 0; M at 2; 32, 5, 1: 32 @ 8 / 16 : 4, 32 @ 4 / 1 : 1 >> 4, zero"),
    8: (34, "D at 0; 32, 8, 1: 32 @ 2 / 32 : 8"),
    10: (84, "D at 80; M at 82; 16, 4, 1: 16 @ 0 / 16 : 4; 16, 4, 1: 16 @ 0 / 16 : 4 << 4, scale; 256, 2, 4: 256 @ 16 / 32 : 2, zero"),
    11: (110, "D at 108; 16, 6, 1: 16 @ 96 / 8 : 4, 16 @ 104 / 4 : 2 >> 4; 256, 3, 2: 256 @ 32 / 32 : 2, 256 @ 0 / 32 : 1 >> 2"),
    12: (144, f"D at 0; M at 2; {SCALES}; {OFFSETS}; 256, 4, 2: 256 @ 16 / 32 : 4, zero"),
    13: (176, f"D at 0; M at 2; {SCALES}; {OFFSETS}; 256, 5, 1: 256 @ 48 / 32 : 4, 256 @ 16 / 32 : 1 >> 4, zero"),
    14: (210, "D at 208; 16, 8, 1: 16 @ 192 / 16 : 8; 256, 6, 1: 256 @ 0 / 64 : 4, 256 @ 128 / 32 : 2 >> 4"),
}
TYPES[20] = TYPES[2]
RANGE = re.compile(r"(?:(\d+)\+)?(\d+) @ (\d+) / (\d+) : (\d+)(?: << (\d+))?(?: >> (\d+))?$")


class Field:
    def __init__(self, numbers, ranges, context):
        self.count, self.bits, self.joined = numbers
        self.context = context
        self.ranges = [[int(part or 0) for part in RANGE.match(one).groups()] for one in ranges]
        self.bytes = self.count // self.joined


def fields_of(text):
    fields = []
    for part in text.split("; "):
        if " at " in part:
            place = int(part.split()[-1])
            fields += [Field((1, 8, 1), [f"1 @ {place + 1} / 1 : 8"], None), Field((1, 8, 1), [f"1 @ {place} / 1 : 8"], "half")]
            continue
        numbers, rest = part.split(": ", 1)
        ranges = rest.split(", ")
        context = ranges.pop() if ranges[-1].isalpha() else None
        fields.append(Field([int(n) for n in numbers.split(", ")], ranges, context))
    return fields


def weights_of(kind):
    return fields_of(TYPES[kind][1])[-1].count


def symbols_of(field, coded):
    """[block][symbol] of [block][coded byte]."""
    parts = [coded >> (field.bits * s) & ((1 << field.bits) - 1) for s in range(field.joined)]
    return np.stack(parts, 2).reshape(len(coded), field.count)


def zero_classes(fields, coded):
    scale, offset = ((coded[i + 1][:, 0] | coded[i][:, 0].astype(np.uint16) << 8).view(np.float16).astype(F32) for i in (0, 2))
    s, z = scale[:, None], -offset[:, None]
    if len(fields) == 7:
        s, z = s * coded[4].astype(F32), offset[:, None] * coded[5].astype(F32)
    with np.errstate(all="ignore"):
        r = z / s * F32(16 / 2 ** fields[-1].bits) + F32(0.5)
        return np.where(~(r > 0), 0, np.where(r >= 15, 15, np.nan_to_num(np.minimum(r, 15)))).astype(np.uint8).ravel()


def classes_of(fields, f, coded):
    if fields[f].context == "zero":
        return zero_classes(fields, coded)
    before = coded[f - 1].ravel()
    return before & 3 if fields[f].context == "half" else before >> (fields[f - 1].bits - 4) & 15


def places(field):
    """(first, count, byte of each symbol, shift of each, width, to) of its ranges."""
    for first, count, offset, stride, width, shift, to in field.ranges:
        slots, t = (8 - shift) // width, np.arange(count)
        yield (first, count, offset + t // (stride * slots) * stride + t % stride, shift + width * (t // stride % slots),
               width, to)


def put_symbols(fields, symbols, blocks, width):
    raw = np.zeros((blocks, width), np.uint8)
    for field, content in zip(fields, symbols):
        for first, count, place, shift, bits, to in places(field):
            parts = (content[:, first:first + count] >> to & ((1 << bits) - 1)) << shift
            for i in range(count):
                raw[:, place[i]] |= parts[:, i].astype(np.uint8)
    return raw.tobytes()


def symbols_in(field, raw):
    symbols = np.zeros((len(raw), field.count), np.uint8)
    for first, count, place, shift, bits, to in places(field):
        symbols[:, first:first + count] |= (raw[:, place] >> shift.astype(np.uint8) & ((1 << bits) - 1)) << to
    return symbols


class Blocks:
    def __init__(self, stored, kind, read_varint, read_widths, fields=None):
        need(kind in TYPES, "blocks of an unknown type")
        self.bytes, text = TYPES[kind]
        self.fields, self.stored, self.at = fields or fields_of(text), stored, 0
        self.read_varint = read_varint
        self.tables, self.maps = [], []
        for field in self.fields:
            count = self.take(1)[0]
            need(count <= (CLASSES if field.context else 1), "more tables than classes")
            nibbles = self.take(CLASSES // 2) if count > 1 else bytes(CLASSES // 2)
            self.maps.append(np.array([nibbles[c // 2] >> 4 * (c % 2) & 15 for c in range(CLASSES)], np.uint8))
            need(count < 2 or self.maps[-1].max() < count, "a class of no table")
            tables = []
            for _ in range(count):
                widths, self.at = read_widths(stored, self.at)
                tables.append(widths)
            self.tables.append(tables)

    def take(self, count):
        need(self.at + count <= len(self.stored), "blocks end early")
        self.at += count
        return self.stored[self.at - count:self.at]

    def field(self, stripe, at, f, coded, blocks):
        field, tables = self.fields[f], self.tables[f]
        size = field.bytes * blocks
        need(at < len(stripe), "a field is missing")
        kind, at = stripe[at], at + 1
        if kind == 0:
            need(at + size <= len(stripe), "a field ends early")
            return np.frombuffer(stripe, np.uint8, size, at), at + size
        need(kind == 2 and tables, "a field of an unknown kind")
        length, at = self.read_varint(stripe, at)
        content, at = stripe[at:at + length], at + length
        need(len(content) == length, "a field ends early")
        if len(tables) == 1:
            return np.frombuffer(decode_bytes(content, size, tables, None, 1), np.uint8), at
        units = self.maps[f][classes_of(self.fields, f, coded)]
        unit = size // len(units)
        groups = [int((units == t).sum()) * unit for t in range(len(tables))]
        filled = [-(-group // GROUP) * GROUP for group in groups]
        runs = [t for t, group in enumerate(filled) for _ in range(group // GROUP)]
        made = np.frombuffer(decode_bytes(content, sum(filled), tables, runs or None, GROUP), np.uint8)
        result = np.zeros((len(units), unit), np.uint8)
        for t, group in enumerate(groups):
            begin = sum(filled[:t])
            result[units == t] = made[begin:begin + group].reshape(-1, unit)
        return result.ravel(), at

    def stripe(self, stripe, blocks):
        at, coded = 0, []
        for f, field in enumerate(self.fields):
            content, at = self.field(stripe, at, f, coded, blocks)
            coded.append(content.reshape(blocks, field.bytes))
        need(at == len(stripe), "bytes follow the last field")
        symbols = [symbols_of(field, content) for field, content in zip(self.fields, coded)]
        return put_symbols(self.fields, symbols, blocks, self.bytes)

    def unpack(self, size):
        need(size % self.bytes == 0, "other bytes than blocks")
        blocks, each, raw = size // self.bytes, STRIPE // self.bytes, []
        for first in range(0, blocks, each):
            last = blocks - first <= each
            length = len(self.stored) - self.at if last else int.from_bytes(self.take(4), "little")
            raw.append(self.stripe(self.take(length), min(each, blocks - first)))
        need(self.at == len(self.stored), "bytes follow the last stripe")
        return b"".join(raw)
