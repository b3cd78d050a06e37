"""The profile fast of docs/reference/codec-fast.md."""

from integer_common import MOST_VALUE, clamp, log2, need, next_state

ROOTS = [65536, 68437, 71467, 74631, 77935, 81386, 84989, 88752,
         92681, 96785, 101070, 105545, 110217, 115097, 120193, 125514]


def power(a):
    """2^(a / 16) in units of 2^-16."""
    shift = a >> 4
    return ROOTS[a & 15] << shift if shift >= 0 else ROOTS[a & 15] >> -shift


class States:
    """Four interleaved states, chunk by chunk."""

    def __init__(self, stream):
        self.stream, self.at, self.parts, self.states = stream, 0, 0, None

    def number(self, size):
        need(self.at + size <= len(self.stream), "the stream ends early")
        self.at += size
        return int.from_bytes(self.stream[self.at - size:self.at], "little")

    def begin_segment(self):
        if self.states is None:
            self.states, self.parts = [self.number(4) for _ in range(4)], 0
            need(min(self.states) >= 1 << 16, "a state is too small")

    def end_segment(self, last=False):
        if self.states and (last or self.parts >= 1 << 18):
            need(all(x == 1 << 16 for x in self.states), "the states do not end where they began")
            self.states = None

    def slot(self):
        return self.states[self.parts % 4] & 4095

    def take(self, start, width):
        lane = self.parts % 4
        x = self.states[lane]
        x = width * (x >> 12) + (x & 4095) - start
        if x < 1 << 16:
            x = x << 16 | self.number(2)
        self.states[lane] = x
        self.parts += 1

    def even(self, count):
        value = 0
        while count > 0:
            now = min(count, 12)
            bits = self.slot() >> (12 - now)
            self.take(bits << (12 - now), 1 << (12 - now))
            value, count = value << now | bits, count - now
        return value


class Table:
    def __init__(self, weights):
        total = sum(weights)
        self.counts = [w * 2048 // total for w in weights]
        self.seen = [0] * len(weights)
        self.fresh = self.now = 0
        self.make()

    def make(self):
        n, self.total = len(self.counts), sum(self.counts)
        while self.total > 1 << 20:
            self.counts = [count // 2 for count in self.counts]
            self.total = sum(self.counts)
        self.widths = [1 + count * (4096 - n) // self.total for count in self.counts]
        self.widths[self.counts.index(max(self.counts))] += 4096 - sum(self.widths)
        self.starts = [sum(self.widths[:i]) for i in range(n)]
        self.symbols = [i for i, width in enumerate(self.widths) for _ in range(width)]

    def read(self, states):
        symbol = self.symbols[states.slot()]
        states.take(self.starts[symbol], self.widths[symbol])
        self.seen[symbol] += 1
        self.now += 1
        return symbol

    def end_segment(self):
        if not self.now:
            return
        self.fresh, self.now = self.fresh + self.now, 0
        if 64 * self.fresh >= self.total:
            self.counts = [count + 16 * seen for count, seen in zip(self.counts, self.seen)]
            self.seen, self.fresh = [0] * len(self.counts), 0
            self.make()


class ValueTable(Table):
    def __init__(self, j):
        m = power(4 * (j - 24))
        self.range = 2 + (4 * m >> 16)
        q = m * (65536 + m) // ((m * m >> 16) + 2 * m + 131072)
        w, side = 1 << 24, []
        for _ in range(self.range + 1):
            side.append(w)
            w = w * q >> 16
        super().__init__(side[:0:-1] + side + [2 * w * 65536 // (65536 - q)])
        self.order, rest = 0, self.range
        while rest > 3:
            rest, self.order = rest // 2, self.order + 1


class Fast:
    def __init__(self, stream):
        self.states = States(stream)
        self.tables = [ValueTable(j) for j in list(range(40)) * 2]
        self.scales = Table([4096 >> abs(d) for d in range(-12, 13)] + [64])
        self.scale = 0

    @staticmethod
    def segments(rows, cols):
        """(first value, end, first column, rows that end)"""
        pieces = (cols + 1023) // 1024
        group = (cols + 63) // cols
        if pieces == 1:
            for row in range(0, rows, group):
                end = min(rows, row + group)
                yield row * cols, end * cols, 0, end - row
            return
        for row in range(rows):
            for piece in range(pieces):
                begin, end = piece * cols // pieces, (piece + 1) * cols // pieces
                yield row * cols + begin, row * cols + end, begin, int(piece == pieces - 1)

    def tensor(self, rows, cols, _, kind, prior):
        if cols == 1:
            rows, cols = 1, rows
        states, values = self.states, []
        units = 16 if prior else cols
        factor, sums, numbers = [0] * units, [0] * units, [0] * units
        done, next_time, state = 0, 1, 0
        for first, end, column, ended in self.segments(rows, cols):
            states.begin_segment()
            symbol = self.scales.read(states)
            self.scale = states.even(7) - 24 if symbol == 25 else self.scale + symbol - 12
            need(-24 <= self.scale <= 80, "a row scale out of range")
            inverse = power(192 - 4 * self.scale)
            for i in range(end - first):
                unit = prior[first + i] if prior else (column + i) % cols
                k = clamp((4 * self.scale + factor[unit] + 2) >> 2, -24, 80)
                v = self.value(k, state & 1)
                values.append(v)
                if kind == 1:
                    state = next_state(state, v)
                sums[unit] += min(abs(v) * inverse >> 20, 16384)
                numbers[unit] += 1
            done += ended
            if ended and done >= next_time:
                next_time = done + clamp(done // 8, 1, 64)
                for u in range(units):
                    if numbers[u] >= 512:
                        numbers[u], sums[u] = numbers[u] // 2, sums[u] // 2
                    factor[u] = clamp((log2(sums[u] + 512) - log2(numbers[u] + 2) - 2048 + 8) >> 4,
                                      -96, 96)
            for table in self.tables + [self.scales]:
                table.end_segment()
            states.end_segment()
        return values

    def value(self, k, second):
        states = self.states
        shift = 0 if k < 12 else (k - 12) // 4
        table = self.tables[40 * second + (k + 24 if k < 12 else 36 + (k - 12) % 4)]
        h = table.read(states) - table.range
        if h > table.range:
            negative, bits = states.even(1), table.order
            while states.even(1):
                bits += 1
                need(bits <= 21, "a value beyond 2^20")
            h = (1 << bits) + states.even(bits) - (1 << table.order) + table.range + 1
            h = -h if negative else h
        v = (h << shift) + states.even(shift)
        need(abs(v) <= MOST_VALUE, "a value beyond 2^20")
        return v

    def finish(self):
        self.states.end_segment(last=True)
        need(self.states.at == len(self.states.stream), "the stream goes on after the last value")


def decode_bytes(stream, count):
    """Bytes of docs/reference/codec-fast.md, "Bytes"."""
    result, at = bytearray(), 0
    while len(result) < count:
        need(at + 2 <= len(stream), "a table is missing")
        first, used = stream[at], stream[at + 1] + 1
        at += 2
        need(first + used <= 256 and at + 2 * used + 4 <= len(stream), "a bad table")
        symbols, starts, widths = [], [0] * 256, [0] * 256
        for symbol in range(first, first + used):
            widths[symbol] = int.from_bytes(stream[at:at + 2], "little")
            starts[symbol] = len(symbols)
            symbols += [symbol] * widths[symbol]
            at += 2
        need(len(symbols) == 4096, "a table with a hole")
        size = int.from_bytes(stream[at:at + 4], "little")
        at += 4
        need(size % 2 == 0 and at + 16 + size <= len(stream), "a chunk ends early")
        states = States(stream[at:at + 16 + size])
        at += 16 + size
        states.begin_segment()
        for _ in range(min(1 << 18, count - len(result))):
            symbol = symbols[states.slot()]
            states.take(starts[symbol], widths[symbol])
            result.append(symbol)
        states.end_segment(last=True)
        need(states.at == len(states.stream), "a chunk goes on")
    need(at == len(stream), "coded bytes go on")
    return bytes(result)
