"""Tensors of integers beside a table of exact numbers (docs/reference/artifact-integers.md, "Levels")."""

import numpy as np

from element_bytes import BITS, F32, from_bytes, to_bytes
from reader_parts import need


def table_size(levels, grid, dtype):
    """Rows and columns of the table of [palette], [positions, stride] or [rows, columns, negative zero]."""
    rows, cols = grid[:2]
    if len(levels) == 1:
        need(1 <= levels[0] <= 4096, "a bad palette")
        return BITS[dtype] // 4, levels[0]
    if len(levels) == 2:
        need(levels[0] >= 3 and levels[1] >= 1 and rows * cols % (levels[0] * levels[1]) == 0 and dtype != "F64",
             "bad lines")
        return 8, 4 * (rows * cols // levels[0])
    need(len(levels) == 3 and 1 <= levels[0] <= rows and 1 <= levels[1] <= cols and levels[2] <= 1 << 20,
         "bad blocks of factors")
    return 8, ((rows - 1) // levels[0] + 1) * ((cols - 1) // levels[1] + 1)


def ordered(element, bits):
    """Ascends with the number that an element's bits are."""
    magnitude = element & ((1 << bits - 1) - 1)
    return -1 - magnitude if element >> bits - 1 else magnitude


def from_lines(levels, numbers, integers, dtype):
    """The elements' bits."""
    positions, stride = levels
    bits, mask = BITS[dtype], (1 << BITS[dtype] - 1) - 1
    count = integers.size // positions
    numbers = [int(number) for number in numbers]
    elements = [0] * integers.size

    def value(element):
        return float(from_bytes(element.to_bytes(bits // 8, "little"), dtype)[0])

    for line in range(count):
        factor, offset = (float(np.array([numbers[k * count + line]], "<u4").view("<f4")[0]) for k in (0, 1))
        places = [line // stride * stride * positions + line % stride + i * stride for i in range(positions)]
        for k, place in enumerate(places[:2]):
            elements[place] = numbers[(2 + k) * count + line] & (2 * mask + 1)
        for before, last, place in zip(places, places[1:], places[2:]):
            with np.errstate(all="ignore"):
                number = np.float64(factor) * value(elements[last]) - value(elements[before]) + np.float64(offset)
                guess = to_bytes(np.array([0 if np.isnan(number) else number]).astype(F32), dtype)
            order = ordered(int.from_bytes(guess, "little"), bits) + int(integers.ravel()[place])
            elements[place] = order & mask if order >= 0 else (-1 - order & mask) | mask + 1
    return b"".join(element.to_bytes(bits // 8, "little") for element in elements)


def exact_levels(levels, table, integers, offset, dtype):
    """Bytes of a tensor whose table has exact numbers."""
    need(((table >= -8) & (table <= 7)).all(), "a table of no nibbles")
    numbers = [0] * table.shape[1]
    for row in table:
        numbers = [number << 4 | int(nibble) + 8 for number, nibble in zip(numbers, row)]
    numbers = np.array(numbers, np.uint64)
    if len(levels) == 2:
        return from_lines(levels, numbers, integers, dtype)
    places = integers.astype(np.int64) + offset
    if len(levels) == 1:
        need(((places >= 0) & (places < levels[0])).all(), "a level that the table lacks")
        size = BITS[dtype] // 8
        return numbers[places].astype("<u8").view("u1").reshape(-1, 8)[:, :size].tobytes()
    rows, cols, negative_zero = levels
    factors = numbers.astype(np.uint32).view(F32).reshape(-1, (integers.shape[1] - 1) // cols + 1)
    factors = factors.repeat(rows, 0)[:integers.shape[0]].repeat(cols, 1)[:, :integers.shape[1]]
    multiples = places.astype(F32)
    if negative_zero:
        multiples[places == negative_zero] = F32(-0.0)
    with np.errstate(all="ignore"):
        return to_bytes((multiples * factors).astype(F32), dtype)
