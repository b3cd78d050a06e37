"""The bytes of docs/reference/codec-bytes.md."""

from integer_common import need


class States:
    """Four interleaved states of a chunk."""

    def __init__(self, stream):
        self.stream, self.at, self.parts = stream, 0, 0
        self.states = [self.number(4) for _ in range(4)]
        need(min(self.states) >= 1 << 16, "a state is too small")

    def number(self, size):
        need(self.at + size <= len(self.stream), "the stream ends early")
        self.at += size
        return int.from_bytes(self.stream[self.at - size:self.at], "little")

    def end(self):
        need(all(x == 1 << 16 for x in self.states), "the states do not end where they began")
        need(self.at == len(self.stream), "a chunk goes on")

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


def decode_bytes(stream, count):
    """As docs/reference/codec-bytes.md says."""
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
        for _ in range(min(1 << 18, count - len(result))):
            symbol = symbols[states.slot()]
            states.take(starts[symbol], widths[symbol])
            result.append(symbol)
        states.end()
    need(at == len(stream), "coded bytes go on")
    return bytes(result)
