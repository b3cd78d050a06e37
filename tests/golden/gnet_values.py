"""Weights from the parameters of g-nets, written from docs/reference/artifact-format.md alone: plain, exact."""

import math

import numpy as np

from reader_parts import known, need, product

F32 = np.float32


class Spec:
    def __init__(self, entry, shape):
        known(entry, "ivhwmeuskr", "a specification")
        self.shape = entry.get("h", shape)
        self.type = entry.get("i", "conv" if len(self.shape) > 2 else "linear")
        row_dim, col_dim, self.row_splits, self.col_splits = entry.get("w", [0, 1, 1, 1])
        need((row_dim, col_dim) in ((0, 1), (1, 0), (0, -1)), "an unknown view")
        self.transposed = row_dim == 1
        self.vector = col_dim == -1
        self.kernel_dims = self.shape[1 if self.vector else 2:]
        row_side, col_side = self.shape[row_dim], 1 if self.vector else self.shape[col_dim]
        need(row_side % self.row_splits == 0 and col_side % self.col_splits == 0, "bad splits")
        self.rows, self.cols = row_side // self.row_splits, col_side // self.col_splits
        self.tile_rows, self.tile_cols = entry.get("m", [self.rows, self.cols])
        need(1 <= self.tile_rows <= self.rows and 1 <= self.tile_cols <= self.cols, "a bad tile")
        self.generator = entry.get("k", 0)
        need(self.generator in (0, 1, 2, 3), "an unknown generator")
        self.rank = entry.get("r", 0)
        self.codes = parse_codes(entry.get("e", [0, 0] + [2] * len(self.kernel_dims)))
        need(len(self.codes) == 2 + len(self.kernel_dims), "a bad number of encodings")
        self.hidden = entry.get("u", [32])
        need(1 <= len(self.hidden) <= 8, "a bad number of layers")
        self.scale = F32(entry.get("s", 1.0))
        self.grid_rows = -(-self.rows // self.tile_rows)
        self.grid_cols = -(-self.cols // self.tile_cols)
        self.tiles = self.row_splits * self.col_splits * self.grid_rows * self.grid_cols
        if self.generator >= 2:
            need("u" not in entry and "e" not in entry and self.rank > 0, "a bad product")
            cols = self.tile_cols * product(self.kernel_dims)
            core = [self.rank * self.rank] if self.generator == 3 else []
            self.blocks = [self.tile_rows * self.rank] + core + [cols * self.rank]
            self.block_cols = [self.rank] * len(self.blocks)
        else:
            need(self.rank == 0, "a rank without a product")
            self.inputs = sum(width(c, n) for c, n in zip(self.codes, self.axes()))
            widths = [self.inputs] + self.hidden + [2 if self.generator == 1 else 1]
            self.layers = list(zip(widths, widths[1:]))
            self.blocks = [size for i, o in self.layers for size in (i * o, o)]
            self.block_cols = [cols for i, o in self.layers for cols in (i, o)]
            for code, n in zip(self.codes[:2], self.axes()):
                if code[0] == 5:
                    self.blocks.append(n * code[1])
                    self.block_cols.append(code[1])
            need(all(code[0] != 5 for code in self.codes[2:]), "a latent kernel axis")
        self.parameters = sum(self.blocks)

    def axes(self):
        return [self.tile_rows, self.tile_cols] + self.kernel_dims


def parse_codes(numbers):
    """[(kind,), (kind, size) or (kind, size, sides), ...]"""
    codes, at = [], 0
    while at < len(numbers):
        kind = numbers[at]
        need(0 <= kind <= 5, "an unknown encoding")
        at += 1
        if kind < 3:
            codes.append((kind,))
        elif kind == 4:
            size, count = numbers[at:at + 2]
            sides = numbers[at + 2:at + 2 + count]
            need(len(sides) == count and 1 <= count <= 8, "a bad image")
            codes.append((kind, size, sides))
            at += 2 + count
        else:
            codes.append((kind, numbers[at]))
            at += 1
        need(kind < 3 or 1 <= codes[-1][1] <= 1024, "a bad size of a code")
    return codes


def width(code, n):
    if code[0] == 2:
        return n
    if code[0] == 3:
        return 2 * code[1]
    if code[0] == 4:
        need(product(code[2]) == n, "the sides of an image do not fit")
        return max(1, sum(min(code[1], side - 1) for side in code[2]))
    if code[0] == 5:
        return code[1]
    return max(1, (n - 1).bit_length())


def cosine(p, q):
    """cos(pi p / q) as the page says; Python floats are IEEE doubles, without fused steps."""
    p %= 2 * q
    if p > q:
        p = 2 * q - p
    negative = 2 * p > q
    if negative:
        p = q - p

    def series(y, a):
        s = 1.0
        for k in range(16 + a, a - 1, -2):
            s = 1.0 - y / (k * (k + 1)) * s
        return s

    if 4 * p <= q:
        x = math.pi * (p / q)
        result = series(x * x, 1)
    else:
        x = math.pi * ((q - 2 * p) / (2 * q))
        result = x * series(x * x, 2)
    return -result if negative else result


def wave(p, q):
    return F32(1.4142135623730951 * cosine(p, q))


def from_cosines(values, axis):
    """The tensor whose cosines along a dimension are `values`."""
    y = np.moveaxis(values, axis, 0).astype(np.float64)
    n = len(y)
    total = np.zeros_like(y)
    for b in range(n):
        c = [math.sqrt(1.0 / n) if b == 0 else math.sqrt(2.0 / n) * cosine(b * (2 * i + 1), 2 * n)
             for i in range(n)]
        total = total + np.array(c).reshape((n,) + (1,) * (y.ndim - 1)) * y[b]
    return np.moveaxis(total, 0, axis).astype(F32)


def axis_code(code, n):
    """The table of one axis; None where it is trained."""
    kind = code[0]
    if kind == 5:
        return None
    if kind == 3:
        return np.array([[w for f in range(1, code[1] + 1)
                          for w in (wave(2 * f * (2 * i + 1) + 3 * n, 2 * n), wave(f * (2 * i + 1), n))]
                         for i in range(n)], F32)
    if kind == 4:
        rows = []
        for i in range(n):
            place = np.unravel_index(i, code[2])
            rows.append([wave(f * (2 * int(c) + 1), 2 * side) for c, side in zip(place, code[2])
                         for f in range(1, min(code[1], side - 1) + 1)] or [F32(0)])
        return np.array(rows, F32)
    if kind == 2:
        return np.eye(n, dtype=np.int64)
    i = np.arange(n)
    word = i ^ (i >> 1) if kind == 1 else i
    bits = width(code, n)
    return word[:, None] >> np.arange(bits - 1, -1, -1) & 1


def tile_codes(spec):
    """Codes of rows, columns (None where trained) and kernel positions (None without kernel)."""
    tables = [axis_code(c, n) for c, n in zip(spec.codes, spec.axes())]
    positions = product(spec.axes())
    digital = [t for t in tables if t is not None and t.dtype != F32]
    if digital:
        ones = sum(int(t.sum()) * (positions // len(t)) for t in digital)
        count = positions * sum(t.shape[1] for t in digital)
        s, n = float(ones), float(count)
        mean = s / n
        squares = s * ((1 - mean) * (1 - mean)) + (n - s) * (mean * mean)
        deviation = 1.0 if ones in (0, count) else float(np.sqrt(np.float64(squares / (n - 1))))
        zero, one = F32((0 - mean) / deviation), F32((1 - mean) / deviation)
        tables = [t if t is None or t.dtype == F32 else np.where(t == 1, one, zero).astype(F32)
                  for t in tables]
    kernel = None
    if spec.kernel_dims:
        where = np.unravel_index(np.arange(product(spec.kernel_dims)), spec.kernel_dims)
        kernel = np.concatenate([t[w] for t, w in zip(tables[2:], where)], axis=1)
    return tables[0], tables[1], kernel


def coded_size(spec, coding):
    n = spec.tiles * spec.parameters
    return {0: 4 * n, 1: 2 * n, 2: n + 4 * len(spec.blocks)}[coding]


def decode_theta(spec, coding, raw):
    shape = (spec.tiles, spec.parameters)
    if coding == 0:
        theta = np.frombuffer(raw, "<f4").astype(F32).reshape(shape)
    elif coding == 1:
        theta = np.frombuffer(raw, "<f2").astype(F32).reshape(shape)
    else:
        blocks = len(spec.blocks)
        scales = np.frombuffer(raw, "<f4", blocks)
        need(np.isfinite(scales).all() and not np.signbit(scales).any(), "a bad scale")
        q = np.frombuffer(raw, np.int8, offset=4 * blocks).reshape(shape)
        need(not (q == -128).any(), "-128 in int8 coding")
        theta = q.astype(F32) * np.repeat(scales, spec.blocks).astype(F32)
    need(np.isfinite(theta).all(), "g-net parameters that are not finite")
    return theta


def products(start, codes, weight):
    """start, then + codes[n, k] * weight[u, k] for k: one product after another, never a matmul."""
    total = np.broadcast_to(start, (len(codes), len(weight))).astype(F32)
    for k in range(codes.shape[1]):
        total = total + codes[:, k, None] * weight[None, :, k]
    return total


def tile_values(spec, codes, theta):
    """[tile_rows, tile_cols, kernel, outputs] of one g-net, before cropping and scaling."""
    layers, at = [], 0
    for inputs, outputs in spec.layers:
        weight = theta[at:at + inputs * outputs].reshape(outputs, inputs)
        at += inputs * outputs
        layers.append((weight, theta[at:at + outputs]))
        at += outputs
    rows, cols, kernel = codes
    if rows is None:
        size = spec.tile_rows * spec.codes[0][1]
        rows = theta[at:at + size].reshape(spec.tile_rows, -1)
        at += size
    if cols is None:
        cols = theta[at:].reshape(spec.tile_cols, -1)
    w, bias = layers[0]
    r, c = rows.shape[1], cols.shape[1]
    zeros = np.zeros(len(w), F32)
    z = (products(bias, rows, w[:, :r])[:, None, None]
         + products(zeros, cols, w[:, r:r + c])[None, :, None])
    if kernel is not None:
        z = z + products(zeros, kernel, w[:, r + c:])[None, None, :]
    for w, bias in layers[1:]:
        a = np.where(z > 0, z, F32(0))
        z = np.broadcast_to(bias, a.shape[:3] + bias.shape).astype(F32)
        for u in range(w.shape[1]):
            z = z + w[:, u] * a[..., u, None]
    assert z.dtype == F32
    return z


def product_values(spec, theta):
    """The same of a product of matrices, which has one output."""
    ends = np.cumsum(spec.blocks)
    blocks = [b.reshape(-1, spec.rank) for b in np.split(theta, ends[:-1])]
    left, right = blocks[0], blocks[-1]
    if spec.generator == 3:
        left = products(np.zeros(spec.rank, F32), left, blocks[1].T)
    values = products(np.zeros(len(right), F32), left, right)
    return values.reshape(spec.tile_rows, spec.tile_cols, -1, 1)


def generate(spec, theta):
    """The weights."""
    return output(spec, theta, 0) * spec.scale


def prior_classes(spec, theta):
    """What a stochastic g-net tells the coder of every value."""
    bounds = np.arange(-7, 8).astype(F32) * F32(0.34657359)
    return (output(spec, theta, 1)[..., None] >= bounds).sum(axis=-1)


def output(spec, theta, which):
    """One of the g-nets' outputs, in the tensor's shape."""
    codes = tile_codes(spec) if spec.generator < 2 else None
    kernel = product(spec.kernel_dims)
    whole = np.zeros((spec.row_splits * spec.rows, spec.col_splits * spec.cols, kernel), F32)
    tile = 0
    for p in range(spec.row_splits):
        for q in range(spec.col_splits):
            for i in range(0, spec.rows, spec.tile_rows):
                for j in range(0, spec.cols, spec.tile_cols):
                    high, wide = min(spec.tile_rows, spec.rows - i), min(spec.tile_cols, spec.cols - j)
                    top, left = p * spec.rows + i, q * spec.cols + j
                    values = (tile_values(spec, codes, theta[tile]) if codes
                              else product_values(spec, theta[tile]))
                    whole[top:top + high, left:left + wide] = values[:high, :wide, :, which]
                    tile += 1
    if spec.transposed:
        whole = whole.transpose(1, 0, 2)
    return np.ascontiguousarray(whole).reshape(spec.shape)
