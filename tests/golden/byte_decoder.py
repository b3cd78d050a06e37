"""The bytes of docs/reference/codec.md, Bytes."""

from integer_common import need

MANY, FEW_LANES, MANY_LANES = 1 << 14, 4, 32


def read_widths(data, at):
    """The widths of a table, and where it ends."""
    need(at + 2 <= len(data), "a table ends early")
    first, more = data[at:at + 2]
    at += 2
    need(first + more < 256, "a table of more than 256 bytes")
    widths = [0] * 256
    for value in range(first, first + more + 1):
        need(at < len(data), "a table ends early")
        width, at = data[at], at + 1
        if width >= 128:
            need(at < len(data), "a table ends early")
            width, at = (width - 128) << 8 | data[at], at + 1
        need(width < 4096, "a part of the whole interval")
        widths[value] = width
    need(sum(widths) == 4096, "a table with a hole")
    return widths, at


def decode_bytes(stream, count, tables, classes, run):
    """`count` bytes. @param classes  the table of each run of `run` bytes, or None: all the first"""
    lanes = FEW_LANES if count < MANY else MANY_LANES
    need(len(stream) >= 4 * lanes and len(stream) % 2 == 0, "coded bytes end early")
    states = [int.from_bytes(stream[4 * lane:4 * lane + 4], "little") for lane in range(lanes)]
    need(min(states) >= 1 << 16, "a state is too small")
    slots = []
    for widths in tables:
        table = []
        for value, width in enumerate(widths):
            table += [(value, width, place) for place in range(width)]
        slots.append(table)
    result, at = bytearray(), 4 * lanes
    for i in range(count):
        x = states[i % lanes]
        value, width, place = slots[classes[i // run] if classes else 0][x & 4095]
        x = width * (x >> 12) + place
        if x < 1 << 16:
            need(at < len(stream), "words are missing")
            x = x << 16 | int.from_bytes(stream[at:at + 2], "little")
            at += 2
        states[i % lanes] = x
        result.append(value)
    need(all(x == 1 << 16 for x in states), "the states do not end where they began")
    need(at == len(stream), "coded bytes go on")
    return bytes(result)
