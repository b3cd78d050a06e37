"""The profile lanes, written from docs/reference/lanes.md alone: slow, plain, exact.

Lanes(head, stripes).grids([(rows, cols, dependent), ...]) gives the integers of every grid.
"""

from integer_common import MOST_VALUE, clamp, need, next_state
from small_decoder import Arithmetic

SPAN, EVEN, ODD = 126, "even", "odd"


def line_width(rows, cols):
    return 64 if rows < 2 or cols < 2 or cols > 1 << 20 else cols


def blocks_of(rows, cols):
    """[(first value, values)] of each block."""
    size = max(1, (1 << 20) // line_width(rows, cols)) * line_width(rows, cols)
    return [(first, min(size, rows * cols - first)) for first in range(0, rows * cols, size)]


def states_in_lanes(rows, cols, values):
    """The state before each of a dependent grid's values."""
    states = []
    for first, size in blocks_of(rows, cols):
        lanes = [0] * 64
        for i in range(size):
            states.append(lanes[i % 64])
            lanes[i % 64] = next_state(lanes[i % 64], int(values[first + i]))
    return states


class Chance:
    def __init__(self):
        self.ones = self.seen = 0

    def bit(self, coder):
        bit = coder.bit(65536 * (2 * self.ones + 1) // (2 * self.seen + 2))
        self.ones, self.seen = self.ones + bit, self.seen + 1
        if self.seen == 1024:
            self.ones, self.seen = self.ones // 2, 512
        return bit


def chances(count):
    return [Chance() for _ in range(count)]


class ListChances:
    def __init__(self):
        self.zero, self.negative, self.more = chances(9), chances(3), [chances(12), chances(12)]


class Head:
    def __init__(self, data):
        self.coder = Arithmetic(data)
        self.set_number, self.reach, self.center = chances(24), chances(24), chances(24)
        self.widths = [chances(24) for _ in range(12)]
        self.used, self.dependent = chances(2), Chance()
        self.by_line, self.by_column, self.by_block = Chance(), Chance(), Chance()
        self.lines, self.columns = ListChances(), ListChances()
        sets = self.number(chances(24))
        need(1 <= sets <= 16, "a bad number of sets")
        self.sets = [self.read_set() for _ in range(sets)]

    def number(self, lengths):
        e = 0
        while lengths[e].bit(self.coder):
            e += 1
            need(e < 24, "a number that is too large")
        low = 0
        for _ in range(e):
            low = 2 * low + self.coder.bit(32768)
        return (1 << e) - 1 + low

    def read_set(self):
        """(dependent, {(t, Q): parts}), a part for each of the 2048 slots: (symbol, start, width)."""
        dependent, tables, before = self.dependent.bit(self.coder), {}, 0
        for t in range(27):
            for q in range(1 + dependent):
                before = self.used[before].bit(self.coder)
                if before:
                    tables[t, q] = self.read_table()
        return dependent, tables

    def read_table(self):
        low, high = self.number(self.reach), self.number(self.reach)
        need(max(low, high) <= SPAN, "a table is too wide")
        widths = {EVEN: 1 + self.number(self.widths[0]), ODD: 1 + self.number(self.widths[0])}
        before = widths[0] = self.number(self.widths[11])
        for k in range(1, max(low, high) + 1):
            for symbol in [-k] * (k <= low) + [k] * (k <= high):
                need(sum(widths.values()) <= 2048, "a table of too many parts")
                before = widths[symbol] = self.number(self.widths[before.bit_length()])
        need(sum(widths.values()) == 2048, "a table of other than 2048 parts")
        slots = []
        for symbol in [EVEN, ODD] + list(range(-SPAN, SPAN + 1)):
            width = widths.get(symbol, 0)
            slots += [(symbol, len(slots), width)] * width
        return slots

    def read_list(self, count, kind):
        result, d1, d2 = [], 0, 0
        for _ in range(count):
            d = 0
            if kind.zero[3 * min(abs(d1), 2) + min(abs(d2), 2)].bit(self.coder):
                negative = kind.negative[1 + (d1 > 0) - (d1 < 0)].bit(self.coder)
                more, d = kind.more[abs(d1) + abs(d2) > 2], 1
                while more[min(d - 1, 11)].bit(self.coder):
                    d += 1
                    need(d < 144, "a class that is too large")
                d = -d if negative else d
            result.append(d)
            d1, d2 = d, d1
        return result

    def read_grid(self, rows, cols, dependent):
        """(tables, classes of lines, classes of columns for each block)"""
        width, blocks = line_width(rows, cols), len(blocks_of(rows, cols))
        lines = -(-rows * cols // width)
        number = self.number(self.set_number)
        need(number < len(self.sets) and self.sets[number][0] == dependent, "a bad set")
        by_line, by_column = self.by_line.bit(self.coder), self.by_column.bit(self.coder)
        by_block = by_column and self.by_block.bit(self.coder)
        center = self.number(self.center)
        line_classes = [center] * lines
        if by_line:
            line_classes = [center + d for d in self.read_list(lines, self.lines)]
        need(0 <= min(line_classes) and max(line_classes) <= 71, "a class of a line is out of range")
        columns = [[0] * width] * blocks
        if by_column:
            found = self.read_list(width * (blocks if by_block else 1), self.columns)
            need(-71 <= min(found) and max(found) <= 71, "a class of a column is out of range")
            columns = [found[width * b:][:width] for b in range(blocks)] if by_block else [found] * blocks
        return self.sets[number][1], line_classes, columns


class Stripe:
    def __init__(self, data):
        need(len(data) >= 260 and len(data) % 4 == 0, "a stripe of a bad size")
        words = int.from_bytes(data[:4], "little")
        self.x = [int.from_bytes(data[i:i + 4], "little") for i in range(4, 260, 4)]
        need(min(self.x) >= 1 << 16, "a state is too small")
        need(260 + 2 * words <= len(data), "words go beyond the stripe")
        self.words = [int.from_bytes(data[i:i + 2], "little") for i in range(260, 260 + 2 * words, 2)]
        self.words.reverse()
        self.escapes, self.at = data[260 + 2 * words:], 0

    def refill(self, lane):
        if self.x[lane] < 1 << 16:
            need(self.words, "the words end early")
            self.x[lane] = self.x[lane] << 16 | self.words.pop()

    def escape(self):
        z = 0
        for i in range(4):
            need(self.at < len(self.escapes), "the escapes end early")
            byte = self.escapes[self.at]
            self.at += 1
            z |= (byte & 127) << 7 * i
            if byte < 128:
                need(byte or i == 0, "an escape is not written as they are")
                return z >> 1 if z % 2 == 0 else -(z >> 1) - 1
        need(False, "an escape is too long")

    def step(self, kinds):
        """@param kinds  (parts, low bits) of each lane. @return the values"""
        found = []
        for lane, (parts, _) in enumerate(kinds):
            x = self.x[lane]
            need(parts, "a table that is not there")
            symbol, start, width = parts[x % 2048]
            self.x[lane] = width * (x >> 11) + x % 2048 - start
            self.refill(lane)
            found.append(symbol)
        values = []
        for lane, (_, low) in enumerate(kinds):
            bits = self.x[lane] & ((1 << low) - 1)
            if low > 0:
                self.x[lane] >>= low
                self.refill(lane)
            values.append(bits)
        for lane, (_, low) in enumerate(kinds):
            h = found[lane]
            if h in (EVEN, ODD):
                h = self.escape()
                need(h % 2 == (found[lane] == ODD), "an escape of the other parity")
            values[lane] += h << low
            need(abs(values[lane]) <= MOST_VALUE, "a value is too large")
        return values

    def finish(self):
        rest = self.escapes[self.at:]
        need(all(x == 1 << 16 for x in self.x), "the states do not end where they began")
        need(not self.words and len(rest) < 4 and not any(rest), "a stripe goes on after its last value")


class Lanes:
    def __init__(self, head, stripes):
        self.head, self.stripes, self.stripe, self.filled = Head(head), list(stripes), None, 0

    def block(self, size):
        """The stripe that has the next block."""
        if self.stripe is None or self.filled + size > 1 << 20:
            self.end_stripe()
            need(self.stripes, "there are too few stripes")
            self.stripe, self.filled = Stripe(self.stripes.pop(0)), 0
        self.filled += size
        return self.stripe

    def end_stripe(self):
        if self.stripe:
            self.stripe.finish()

    def grid(self, rows, cols, dependent):
        tables, lines, columns = self.head.read_grid(rows, cols, dependent)
        width, values = line_width(rows, cols), []
        for block, (first, size) in enumerate(blocks_of(rows, cols)):
            stripe, states = self.block(size), [0] * 64
            for step in range(first, first + size, 64):
                kinds = []
                for lane, i in enumerate(range(step, min(step + 64, first + size))):
                    c = clamp(lines[i // width] + columns[block][i % width], 0, 71)
                    t, low = (c, 0) if c <= 26 else (24 + (c - 24) % 3, (c - 24) // 3)
                    kinds.append((tables.get((t, states[lane] % 2 if dependent else 0)), low))
                values += stripe.step(kinds)
                for lane, value in enumerate(values[step:]):
                    states[lane] = next_state(states[lane], value)
        return values

    def finish(self):
        self.end_stripe()
        need(not self.stripes, "there are too many stripes")
        self.head.coder.finish()
