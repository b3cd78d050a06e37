"""Exact changes, written from docs/reference/exact-deltas.md alone."""

from integer_common import clamp, need

MANTISSA = {"BF16": 7, "F16": 10, "F32": 23, "F64": 52, "F8_E5M2": 2, "F8_E5M2FNUZ": 2, "F8_E4M3": 3,
            "F8_E4M3FNUZ": 3}


class Bits:
    """The lowest of a byte first."""

    def __init__(self, content):
        self.content, self.bits, self.at = content, int.from_bytes(content, "little"), 0

    def take(self, count):
        value = self.bits >> self.at & (1 << count) - 1
        self.at += count
        need(self.at <= 8 * len(self.content), "bits end early")
        return value

    def zeros(self, most):
        """Up to the next 1, which is taken too; of `most` no 1 follows."""
        for count in range(most):
            if self.take(1):
                return count
        return most

    def end_byte(self):
        need(self.take(-self.at % 8) == 0, "bits at the end are not 0")
        return self.at // 8

    def count(self):
        return self.take(min(self.take(7), 64))


class Numbers:
    def __init__(self, octave):
        self.mean = 1 << octave

    def read(self, bits):
        low = min(((self.mean + 32) * 123 >> 14).bit_length(), 30)
        high = bits.zeros(24)
        number = high << low | bits.take(low) if high < 24 else bits.count()
        self.mean += ((min(number, 1 << 30) << 6) - self.mean) >> 4
        return number


class Elements:
    """Of a base, as unsigned numbers."""

    def __init__(self, content, width, dtype):
        self.width, self.bits, self.mantissa = width, 8 * width, MANTISSA.get(dtype)
        self.values = [int.from_bytes(content[i:i + width], "little") for i in range(0, len(content), width)]

    def field(self, i):
        return (self.values[i] & (1 << self.bits - 1) - 1) >> self.mantissa if self.mantissa else 1

    def negative(self, i):
        """Of a float."""
        return bool(self.mantissa) and bool(self.values[i] >> self.bits - 1)

    def add(self, i, difference):
        top, u = 1 << self.bits - 1, self.values[i]
        if self.mantissa:
            u = 2 * top - 1 - u if u >= top else u + top
        u = (u + difference) % (2 * top)
        if self.mantissa:
            u = u - top if u >= top else 2 * top - 1 - u
        self.values[i] = u

    def significand(self, magnitude):
        one = 1 << self.mantissa
        return magnitude % one + (one if magnitude >= one else 0)

    def bin_of(self, magnitude, unit):
        low = unit - max(magnitude >> self.mantissa, 1)
        return self.significand(magnitude) >> low if low >= 0 else self.significand(magnitude) << -low

    def from_bin(self, bits, index, unit):
        """The magnitude of the bin that the next bits tell."""
        m, lowest = self.mantissa, unit - self.mantissa - 1
        if index == 0 and lowest > 0:
            fall = bits.zeros(16)
            fall = fall if fall < 16 else bits.take(12)
            need(0 <= lowest - fall < 1 << self.bits - 1 - m, "a level beyond the type")
            return lowest - fall << m | bits.take(m)
        low = min(m + 1 - index.bit_length(), unit - 1)
        need(low >= -8 and index % (1 << max(-low, 0)) == 0, "a bin that holds no float")
        digits = index << low | bits.take(low) if low > 0 else index >> -low
        need(unit - low < 1 << self.bits - 1 - m, "a level beyond the type")
        return (unit - low - 1 << m) + digits

    def set_binned(self, i, bits, symbol, unit):
        """A float whose symbol counts bins."""
        top, u = 1 << self.bits - 1, self.values[i]
        if symbol == 59:
            return
        if symbol == 60:
            self.values[i] = u ^ top
        elif symbol == 61:
            self.values[i] = bits.take(self.bits)
        else:
            index = self.bin_of(u % top, unit) + read_value(bits, symbol)
            sign = (u >= top) != (index < 0)
            self.values[i] = self.from_bin(bits, index if index >= 0 else -1 - index, unit) + (top if sign else 0)

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
    bits = Bits(section[start:])
    changes = [change for own in members for change in read_class(bits, own, elements)]
    need(bits.end_byte() == len(bits.content), "bytes follow the changes")
    for i, difference in changes:
        elements.add(i, difference)


def read_class(bits, own, elements):
    count, places, at = bits.count(), [], 0
    need(count <= len(own), "more changes than elements")
    if count == 0:
        return []
    gaps = Numbers(min(bits.take(6), 36))
    for _ in range(count):
        at += gaps.read(bits)
        need(at < len(own), "a change beyond the last element")
        places.append(own[at])
        at += 1
    signs = [1 - 2 * bits.take(1) for _ in range(count)]
    sizes, larger = [1] * count, bits.count()
    need(larger <= count, "more sizes than changes")
    if larger:
        between, beyond = Numbers(min(bits.take(6), 36)), Numbers(min(bits.take(6), 36))
        at = 0
        for _ in range(larger):
            at += between.read(bits)
            size = beyond.read(bits)
            need(at < count and size < (1 << elements.bits - 1) - 1, "a size beyond the changes or their type")
            sizes[at] = 2 + size
            at += 1
    return [(place, sign * size) for place, sign, size in zip(places, signs, sizes)]


class Tables:
    def __init__(self, bits):
        self.tables = []
        for _ in range(24):
            count = bits.take(6)
            need(count <= 62, "a table of more symbols")
            widths = []
            for _ in range(count):
                length = bits.take(4)
                widths.append(length if length < 2 else 1 << length - 1 | bits.take(length - 1))
            need(not count or sum(widths) == 4096, "a table that does not fill the unit interval")
            self.tables.append(widths or [4096])

    def read(self, states, lane, table):
        slot, start = states[lane] & 4095, 0
        for symbol, width in enumerate(self.tables[table]):
            if slot < start + width:
                states[lane] = width * (states[lane] >> 12) + slot - start
                return symbol
            start += width
        raise AssertionError


def read_value(bits, symbol):
    if symbol < 41:
        return (symbol + 1) // 2 if symbol % 2 else -(symbol // 2)
    sign, length = -1 if symbol % 2 == 0 else 1, (symbol - 41) // 2
    if length == 8:
        length = bits.take(6)
    beyond = length if length < 2 else 1 << length - 1 | bits.take(length - 1)
    return sign * (21 + beyond)


def read_scales(bits, count):
    steps, scales, scale = Numbers(6), [], 12
    for _ in range(count):
        step = steps.read(bits)
        scale += step // 2 + 1 if step % 2 else -(step // 2)
        need(0 <= scale <= 175, "a scale that there is not")
        scales.append(scale)
    return scales


def apply_dense(section, elements, shape):
    need(len(section) >= 2, "the lowest level is missing")
    lowest, n = section[0] + 256 * section[1], len(elements.values)
    levels = 1 << elements.bits - 1 - elements.mantissa if elements.mantissa else 2
    need(1 <= lowest < levels, "a lowest level that there is not")
    rows = shape[0] if len(shape) > 1 else 1
    line = n // rows if rows > 1 and 128 <= n // rows <= 8192 else 1024
    head = Bits(section[2:])
    scales = read_scales(head, -(-n // line))
    tables, raw_bytes = Tables(head), head.count()
    raw_at = 2 + head.end_byte()
    states_at = raw_at + raw_bytes
    at = states_at + 32
    need(at <= len(section), "the states are missing")
    raw = Bits(section[raw_at:states_at])
    states = [int.from_bytes(section[states_at + 4 * i:states_at + 4 * i + 4], "little") for i in range(8)]
    need(min(states) >= 1 << 16, "a state is too low")
    for i in range(n):
        scale = scales[i // line]
        context = max(scale - 2 * max(max(elements.field(i), 1) - lowest, 0), 0)
        table, low = context, (context - 16) // 2
        if low >= 0:
            base = clamp(elements.mantissa - 3 - low, 0, 3) if elements.mantissa else 0
            table = 16 + 2 * base + context % 2
        symbol = tables.read(states, i % 8, table)
        if states[i % 8] < 1 << 16:
            need(at + 2 <= len(section), "the words end early")
            states[i % 8] = states[i % 8] << 16 | int.from_bytes(section[at:at + 2], "little")
            at += 2
        if low >= 0 and elements.mantissa:
            elements.set_binned(i, raw, symbol, lowest + (scale - 16) // 2)
            continue
        need(symbol < 59, "a symbol of bins without them")
        low = clamp(low, 0, 46)
        difference = (read_value(raw, symbol) << low) + raw.take(low)
        elements.add(i, -difference if elements.negative(i) else difference)
    need(at == len(section) and states == [1 << 16] * 8, "the words do not end as they began")
    need(raw.end_byte() == raw_bytes, "bytes follow the low bits")


def apply_change(section, before, width, dtype, shape):
    """The bytes of a tensor from its section and its bytes in the base."""
    need(section[:1] in (b"\1", b"\2"), "a change of an unknown form")
    elements = Elements(before, width, dtype)
    if section[0] == 1:
        apply_sparse(section[1:], elements)
    else:
        apply_dense(section[1:], elements, shape)
    return elements.content()
