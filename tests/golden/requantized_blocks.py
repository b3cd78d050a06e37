"""The blocks of docs/reference/requantized.md, which are made of a tensor of the base."""

import numpy as np

from block_decoder import Blocks, TYPES, fields_of, put_symbols, symbols_in
from integer_common import need

F32 = np.float32
LEAST = {2: -8, 6: -16, 8: -128, 11: -4, 14: -32}
# b, f and steps of the search for scales and offsets.
SEARCHES = {10: (2, -0.5, 15), 12: (4, -1.0, 20), 13: (5, -0.5, 15)}


def near(values):
    return np.rint(np.where(np.abs(values) < 2 ** 22, values, 0)).astype(np.int64)


def fma(rule, a, b, c):
    a, b, c = np.broadcast_arrays(F32(a), F32(b), F32(c))
    if rule == 0:
        return (a * b).astype(F32) + c
    product = a.astype(np.float64) * b
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    odd = total.view(np.int64) & 1
    toward = np.where(rest > 0, np.inf, -np.inf)
    return np.where((rest != 0) & (odd == 0), np.nextafter(total, toward), total).astype(F32)


def over(a, b):
    """a / b, 0 where b is 0."""
    return np.where(b == 0, F32(0), F32(a) / np.where(b == 0, F32(1), b)).astype(F32)


def halves(values):
    return values.astype(F32).astype(np.float16).view(np.uint16)


def split_half(values):
    bits = halves(values)
    return [(bits >> 8).astype(np.uint8)[:, None], (bits & 255).astype(np.uint8)[:, None]]


def value_of(high, low):
    return (low[:, 0] | high[:, 0].astype(np.uint16) << 8).view(np.float16).astype(F32)


def first_largest(x):
    return np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0]


def steps_of(kind, fields, symbols):
    """[block][part] steps and shifts."""
    scale = value_of(symbols[0], symbols[1])[:, None]
    if len(fields) == 3:
        return scale, np.zeros_like(scale)
    if len(fields) == 5:
        return scale, -value_of(symbols[2], symbols[3])[:, None]
    if len(fields) == 7:
        return scale * symbols[4].astype(F32), value_of(symbols[2], symbols[3])[:, None] * symbols[5].astype(F32)
    numbers = symbols[2].view(np.int8).astype(F32) if kind == 14 else symbols[2].astype(F32) - F32(32)
    return scale * numbers, np.zeros_like(numbers)


def nearest(kind, fields, symbols, x, found):
    """Symbols of quants. @param found  those where a step is 0"""
    steps, shifts = steps_of(kind, fields, symbols)
    parts = x.reshape(len(x), steps.shape[1], -1)
    least = LEAST.get(kind, 0)
    quants = (parts + shifts[..., None]) / np.where(steps == 0, F32(1), steps)[..., None]
    quants = near(np.minimum(np.where(quants > least, quants, F32(least)), F32(least + 2 ** fields[-1].bits - 1)))
    made = (quants & 255 if kind == 8 else quants - least).astype(np.uint8)
    return np.where((steps == 0)[..., None], found.reshape(made.shape), made).reshape(x.shape)


def simple(kind, rule, fields, x):
    bits = fields[-1].bits
    if kind == 8:
        scale = np.abs(x).max(1) / F32(127)
        at = x * over(F32(1), scale)[:, None]
        quants = np.sign(at) * np.floor(np.abs(at).astype(np.float64) + 0.5)
        return split_half(scale) + [(quants.astype(np.int64) & 255).astype(np.uint8)]
    most = 2 ** bits - 1
    if kind in LEAST:
        scale = first_largest(x) / F32(-2 ** (bits - 1))
        at, before = fma(rule, x, over(F32(1), scale)[:, None], F32(2 ** (bits - 1) + 0.5)), []
    else:
        low = x.min(1)
        scale = (x.max(1) - low) / F32(most)
        at, before = fma(rule, x - low[:, None], over(F32(1), scale)[:, None], F32(0.5)), split_half(low)
    return split_half(scale) + before + [np.clip(np.trunc(at), 0, most).astype(np.uint8)]


def running(rule, factors, values, start):
    total = start
    for i in range(values.shape[-1]):
        total = fma(rule, factors[..., i], values[..., i], total)
    return total


def search_offsets(kind, rule, x):
    """Scale, offset and levels of [part][value]."""
    bits, first, steps = SEARCHES[kind]
    most, count = 2 ** bits - 1, x.shape[-1]
    zero = np.zeros(x.shape[:-1], F32)
    weights = np.abs(x)
    if kind != 10:
        weights = np.sqrt(running(rule, x, x, zero) / F32(32))[..., None] + weights
    total = weights[..., 0].copy()
    for i in range(1, count):
        total = total + weights[..., i]
    products = running(rule, weights[..., 1:], x[..., 1:], weights[..., 0] * x[..., 0])
    low, high = np.minimum(x.min(-1), F32(0)), x.max(-1)
    flat = low == high

    def levels_under(r, low):
        return np.clip(near(r[..., None] * (x - low[..., None])), 0, most).astype(F32)

    def error_of(levels, scale, low):
        error = fma(rule, scale[..., None], levels, low[..., None]) - x
        return running(rule, weights, np.abs(error) if kind == 10 else error * error, zero)

    r = over(F32(most), high - low)
    scale, levels = over(F32(1), r), levels_under(r, low)
    least = error_of(levels, scale, low)
    for i in range(steps + 1):
        tried = levels_under(over(fma(rule, F32(0.1), F32(i), F32(first)) + F32(most), high - low), low)
        a = running(rule, weights, tried, zero)
        b = running(rule, weights * tried, tried, zero)
        c = running(rule, weights * tried, x, zero)
        g = fma(rule, total, b, -(a * a))
        value = over(fma(rule, b, products, -(a * c)), g)
        slope = over(fma(rule, total, c, -(products * a)), g)
        slope = np.where(value > 0, over(c, b), slope)
        value = np.minimum(value, F32(0))
        error = error_of(tried, slope, value)
        better = (g > 0) & (error < least) & ~flat
        least, scale, low = (np.where(better, new, old) for new, old in ((error, least), (slope, scale), (value, low)))
        levels = np.where(better[..., None], tried, levels)
    return np.where(flat, F32(0), scale), -low, np.where(flat[..., None], 0, levels).astype(np.uint8)


def search_signed(kind, rule, x):
    """Scale and symbols of [part][value]."""
    most = 4 if kind == 11 else 32
    largest = first_largest(x)
    empty = np.abs(largest) < F32(1e-15)
    zero = np.zeros(x.shape[:-1], F32)
    squares = x * x

    def levels_under(r):
        return np.clip(near(r[..., None] * x), -most, most - 1).astype(F32)

    def sums(levels):
        return running(rule, squares * x, levels, zero), running(rule, squares * levels, levels, zero)

    levels = levels_under(over(F32(-most), largest))
    u, v = sums(levels)
    if kind == 14:
        scale = over(u, v)
        best = scale * u
        for i in range(-9, 10):
            if i == 0:
                continue
            tried = levels_under(over(-fma(rule, F32(0.1), F32(i), F32(most)), largest))
            u, v = sums(tried)
            better = (v > 0) & (u * u > best * v)
            scale = np.where(better, over(u, v), scale)
            best = np.where(better, scale * u, best)
            levels = np.where(better[..., None], tried, levels)
    else:
        running_on = ~empty
        for _ in range(5):
            changed = np.zeros_like(empty)
            for i in range(x.shape[-1]):
                l, s = levels[..., i], squares[..., i]
                u0, v0 = fma(rule, -(s * x[..., i]), l, u), fma(rule, -(s * l), l, v)
                k = np.clip(near(over(x[..., i] * v0, u0)), -most, most - 1).astype(F32)
                u1, v1 = fma(rule, s * x[..., i], k, u0), fma(rule, s * k, k, v0)
                take = running_on & (u0 > 0) & (k != l) & (v1 > 0) & (u1 * u1 * v > u * u * v1)
                levels[..., i] = np.where(take, k, l)
                u, v, changed = np.where(take, u1, u), np.where(take, v1, v), changed | take
            running_on = running_on & changed
        scale = over(u, v)
    return np.where(empty, F32(0), scale), np.where(empty[..., None], 0, levels + most).astype(np.uint8)


def stored_levels(numbers, most):
    top = np.maximum(numbers.max(1), F32(0))
    levels = np.minimum(near(over(F32(most), top)[:, None] * numbers), most)
    return levels.astype(np.uint8), top / F32(most)


def reference(kind, rule, fields, x):
    """The symbols of all fields."""
    if len(fields) in (3, 5):
        return simple(kind, rule, fields, x)
    parts = fields[-3 if len(fields) == 7 else -2].count
    some = x.reshape(len(x), parts, -1)
    if kind in SEARCHES:
        scales, offsets, found = search_offsets(kind, rule, some)
        most = 15 if kind == 10 else 63
        (scales, d), (offsets, m) = stored_levels(scales, most), stored_levels(offsets, most)
        symbols = split_half(d) + split_half(m) + [scales, offsets]
    else:
        scales, found = search_signed(kind, rule, some)
        n, top = (32, 128)[kind == 14], first_largest(scales)
        none = top == 0 if kind == 11 else np.abs(top) < F32(1e-15)
        factor = over(F32(-n), top)
        numbers = np.clip(near(factor[:, None] * scales), -n, n - 1)
        numbers = np.where(none[:, None], 0, numbers + 32 if kind == 11 else numbers & 255).astype(np.uint8)
        symbols = split_half(np.where(none, F32(0), over(F32(1), factor))) + [numbers]
        if kind == 14:
            found = np.where(none[:, None, None], 0, found)
    return symbols + [nearest(kind, fields, symbols, x, found)]


def blocks_of(kind, fields, symbols):
    return put_symbols(fields, symbols, len(symbols[0]), TYPES[kind][0])


def requantized(section, kind, values, size, read_varint, read_widths, apply_change):
    """The bytes of the blocks. @param values  float32, those of the base"""
    need(kind in TYPES and kind != 20, "blocks of a type that is made of no base")
    width, text = TYPES[kind]
    fields = fields_of(text)
    x = values.reshape(size // width, fields[-1].count)
    need(len(section) > 0, "blocks of no form")
    form, at = section[0], 1
    need(form <= 2, "blocks of an unknown form")
    with np.errstate(all="ignore"):
        if form != 1:
            need(len(section) > 1 and section[1] <= 1, "an unknown rule")
            symbols, at = reference(kind, section[1], fields, x), 2
        if form:
            length, at = read_varint(section, at)
            content, at = section[at:at + length], at + length
            need(len(content) == length, "scales end early")
            if form == 1:
                raw = Blocks(content, kind, read_varint, read_widths, fields[:-1]).unpack(size)
            else:
                symbols[-1] = np.zeros_like(symbols[-1])
                raw = apply_change(content, blocks_of(kind, fields, symbols), 1, "U8", [size])
            rows = np.frombuffer(raw, np.uint8).reshape(-1, width)
            symbols = [symbols_in(field, rows) for field in fields[:-1]]
            symbols.append(nearest(kind, fields, symbols, x, np.zeros(x.shape, np.uint8)))
    raw = blocks_of(kind, fields, symbols)
    return apply_change(section[at:], raw, 1, "U8", [size]) if at < len(section) else raw
