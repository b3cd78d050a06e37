"""Exact changes, written from docs/reference/exact-deltas.md alone."""

from fast_decoder import States
from integer_common import clamp, need

MANTISSA = {"BF16": 7, "F16": 10, "F32": 23, "F64": 52, "F8_E5M2": 2, "F8_E5M2FNUZ": 2, "F8_E4M3": 3,
            "F8_E4M3FNUZ": 3}


class Model:
    """Of symbols 0 to 15."""

    def __init__(self):
        self.below, self.count = [2040 * i for i in range(17)], 0

    def start(self, i):
        return (self.below[i] >> 3) + i if i < 16 else 4096

    def read(self, states):
        slot = states.slot()
        symbol = max(i for i in range(16) if self.start(i) <= slot)
        states.take(self.start(symbol), self.start(symbol + 1) - self.start(symbol))
        rate = 2 + sum(self.count >= n for n in (3, 11, 27, 59, 123))
        for i in range(1, 16):
            self.below[i] += ((32640 if i > symbol else 0) - self.below[i]) >> rate
        self.count += 1
        return symbol


def read_bits(states, count):
    value = 0
    for at in range(0, count, 12):
        value |= states.even(min(count - at, 12)) << at
    return value


class Numbers:
    def __init__(self, contexts):
        self.lengths, self.tops = [Model() for _ in range(contexts)], [Model() for _ in range(16)]

    def read(self, states, context=0):
        length = self.lengths[context].read(states)
        if length == 15:
            length = states.even(7)
        need(length <= 64, "a number is too long")
        if length < 2:
            return length
        top_bits = min(length - 1, 4)
        top = self.tops[min(length, 15)].read(states)
        need(top < 1 << top_bits, "a number has more bits than its length")
        below = length - 1 - top_bits
        return ((1 << top_bits) + top << below) + read_bits(states, below)


class Elements:
    """Of a base, as unsigned numbers."""

    def __init__(self, content, width, dtype):
        self.width, self.bits, self.mantissa = width, 8 * width, MANTISSA.get(dtype)
        self.values = [int.from_bytes(content[i:i + width], "little") for i in range(0, len(content), width)]

    def field(self, i):
        return (self.values[i] & (1 << self.bits - 1) - 1) >> self.mantissa if self.mantissa else 1

    def add(self, i, difference):
        top, u = 1 << self.bits - 1, self.values[i]
        if self.mantissa:
            u = 2 * top - 1 - u if u >= top else u + top
        u = (u + difference) % (2 * top)
        if self.mantissa:
            u = u - top if u >= top else 2 * top - 1 - u
        self.values[i] = u

    def content(self):
        return b"".join(value.to_bytes(self.width, "little") for value in self.values)


def apply_sparse(section, elements):
    need(section and 1 <= section[0] <= 8 and (section[0] == 1 or elements.mantissa), "a bad number of classes")
    classes, start = section[0], 2 * section[0] - 1
    need(start <= len(section), "thresholds are missing")
    limits = [int.from_bytes(section[i:i + 2], "little") for i in range(1, start, 2)]
    levels = 1 << elements.bits - 1 - elements.mantissa if elements.mantissa else 1
    need(limits == sorted(set(limits)) and all(1 <= limit < levels for limit in limits), "bad thresholds")
    members = [[] for _ in range(classes)]
    for i in range(len(elements.values)):
        members[sum(limit <= elements.field(i) for limit in limits)].append(i)
    states, counts = States(section[start:]), Numbers(1)
    changes = []
    for own in members:
        states.begin_segment()
        count = counts.read(states)
        need(count <= len(elements.values), "more changes than elements")
        gaps, sizes, mean, at = Numbers(24), Numbers(1), 0, 0
        for n in range(count):
            if n % 1024 == 0:
                states.begin_segment()
            gap = gaps.read(states, min((mean >> 4).bit_length(), 23))
            mean += (16 * min(gap, 1 << 40) - mean) >> 3
            size = sizes.read(states)
            need(size < 1 << elements.bits - 1, "a change beyond its type")
            at += gap
            need(at < len(own), "a change beyond the last element")
            changes.append((own[at], -1 - size if states.even(1) else 1 + size))
            at += 1
            if n % 1024 == 1023:
                states.end_segment()
    states.end_segment(last=True)
    need(states.at == len(states.stream), "bytes follow the changes")
    for i, difference in changes:
        elements.add(i, difference)


class Dense:
    def __init__(self, rows, cols, bits):
        self.bits, self.own = bits, rows > 1 and cols <= 1 << 20
        self.columns, self.signs = [0] * cols, [0] * cols
        self.row = self.quiet = self.agreement = 0
        self.lengths, self.tops = [Model() for _ in range(128)], [Model() for _ in range(35)]

    def read(self, states, row, col, shift):
        x = (self.row + (self.columns[col] if self.own else self.row)) >> shift
        top = x.bit_length() - 1
        half = min(x if x < 2 else 2 * top + (x >> top - 1 & 1), 63)
        low, expected = max(1, (half >> 1) - 15), (half >> 1) - 6
        length = self.lengths[half + (64 if self.quiet >= 16 else 0)].read(states)
        if length == 15:
            length = states.even(7)
        elif length:
            length += low - 1
        need(length <= self.bits, "a difference is too long")
        size = sign = 0
        if length:
            kind = length - 1 if length < 4 else 3 + clamp(length - expected + 1, 0, 3)
            likely = self.signs[col] * self.agreement if self.own else 0
            trust = 0 if likely < -160 else 1 if likely < -64 else 4 if likely > 160 else 3 if likely > 64 else 2
            symbol = self.tops[7 * trust + kind].read(states)
            bits = min(length - 1, 3)
            need(symbol % 8 < 1 << bits, "a difference has more bits than its length")
            below = length - 1 - bits
            size = ((1 << bits) + symbol % 8 << below) + read_bits(states, below)
            sign = -1 if symbol >= 8 else 1
        self.learn(row, col, min(size, 1 << 24) << shift + 6, sign)
        return sign * size

    def learn(self, row, col, activity, sign):
        self.row += (activity - self.row) >> 5
        self.quiet = 0 if sign else self.quiet + 1
        if not self.own:
            return
        self.columns[col] += (activity - self.columns[col]) >> min(4, row.bit_length())
        if sign:
            if self.signs[col]:
                self.agreement += (256 * sign * self.signs[col] - self.agreement) >> 4
            self.signs[col] = sign


def apply_dense(section, elements, shape):
    need(len(section) >= 2, "the lowest level is missing")
    lowest, n = section[0] + 256 * section[1], len(elements.values)
    rows = shape[0] if len(shape) > 1 else 1
    model, states = Dense(rows, n // rows, elements.bits), States(section[2:])
    states.begin_segment()
    for i in range(n):
        shift = clamp(max(elements.field(i), 1) - lowest, 0, 24)
        elements.add(i, model.read(states, i // (n // rows), i % (n // rows), shift))
        if i % 4096 == 4095 and i < n - 1:
            states.end_segment()
            states.begin_segment()
    states.end_segment(last=True)
    need(states.at == len(states.stream), "bytes follow the differences")


def apply_change(section, before, width, dtype, shape):
    """The bytes of a tensor from its section and its bytes in the base."""
    need(section[:1] in (b"\1", b"\2"), "a change of an unknown form")
    elements = Elements(before, width, dtype)
    if section[0] == 1:
        apply_sparse(section[1:], elements)
    else:
        apply_dense(section[1:], elements, shape)
    return elements.content()
