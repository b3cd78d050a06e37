"""The bytes of docs/reference/codec-bytes.md."""

from integer_common import need

MANY, FEW_LANES, MANY_LANES = 1 << 14, 4, 32


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
