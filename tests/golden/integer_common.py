"""What both profiles of docs/reference/codec.md use."""

MOST = 2815
MOST_VALUE = 1 << 20


class BadStream(Exception):
    pass


def need(condition, sentence):
    if not condition:
        raise BadStream(sentence)


def clamp(x, low, high):
    return low if x < low else high if x > high else x


def divide(a, b):
    """Towards zero, b > 0; Python's // rounds down."""
    return a // b if a >= 0 else -(-a // b)


def fractions():
    table = []
    for i in range(256):
        m, bits = (256 + i) << 22, 0
        for _ in range(8):
            m = m * m >> 30
            bits = 2 * bits + (m >> 31)
            m >>= m >> 31
        table.append(bits)
    return table


FRACTION = fractions()


def log2(x):
    top = x.bit_length() - 1
    below = x >> (top - 8) if top >= 8 else x << (8 - top)
    return 256 * top + FRACTION[below & 255]


def log(x):
    return log2(x) * 45426 >> 16


def ratio(a, b):
    return clamp(log(a) - log(b) - 2839, -MOST, MOST)


def next_state(state, value):
    """Of dependent integers; value & 1 is the parity of negative ones too."""
    return state >> 1 ^ (119 if state & 1 else 0) ^ (35 if value & 1 else 0)
