#!/usr/bin/env python3
"""Reads a .gbz file without gbcompress, written from docs/artifact-format.md and docs/codec.md alone.

  gbz_reader.py IN.gbz OUT.npz                     all tensors as NumPy arrays (BF16 as uint16)
  gbz_reader.py IN.gbz --compare FILE.safetensors  bit for bit; exit status 1 on a difference
  gbz_reader.py IN.gbz OUT.npz --digests FILE.json and against recorded SHA-256 of the tensors

Needs Python 3.8, NumPy and libzstd.
"""

import argparse
import ctypes
import hashlib
import json
import math
import os
import struct
import sys

import numpy as np

from integer_decoder import BadStream, decode_integers

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E5M2FNUZ": 8, "F8_E4M3FNUZ": 8,
    "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}
NUMPY = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "BF16": "<u2",
    "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8", "C64": "<c8",
}
F32 = np.float32


class BadFile(Exception):
    pass


def need(condition, sentence):
    if not condition:
        raise BadFile(sentence)


class Cbor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        need(n <= len(self.data) - self.at, "the header ends early")
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, depth=0):
        need(depth < 8, "the header is nested too deep")
        first = self.take(1)[0]
        major, info = first >> 5, first & 31
        if first == 0xFA:
            return struct.unpack(">f", self.take(4))[0]
        need(major in (0, 1, 3, 4, 5) and info <= 27, f"CBOR byte {first:#x} is not used")
        n = info if info < 24 else int.from_bytes(self.take(1 << (info - 24)), "big")
        if major == 0:
            return n
        if major == 1:
            return -1 - n
        if major == 3:
            return self.take(n).decode("utf-8")
        need(n <= len(self.data) - self.at, "the header declares more than it holds")
        if major == 4:
            return [self.value(depth + 1) for _ in range(n)]
        result = {}
        for _ in range(n):
            key = self.value(depth + 1)
            need(isinstance(key, str) and key not in result, "a bad key in the header")
            result[key] = self.value(depth + 1)
        return result


def parse_cbor(data):
    reader = Cbor(data)
    result = reader.value()
    need(reader.at == len(data), "bytes follow the header's map")
    return result


def known(entry, keys, what):
    need(isinstance(entry, dict), f"{what} is not a map")
    for key in entry:
        need(key in keys, f"{what} has the unknown key {key!r}")


def load_zstd():
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                        ctypes.c_size_t]
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    library.ZSTD_getFrameContentSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
    library.ZSTD_findFrameCompressedSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library


def unzstd(data, size):
    zstd = load_zstd()
    need(size < 32768 * (len(data) + 1), "a frame cannot be that large")
    need(zstd.ZSTD_getFrameContentSize(data, len(data)) == size, "a frame states another size")
    need(zstd.ZSTD_findFrameCompressedSize(data, len(data)) == len(data), "not one whole frame")
    out = ctypes.create_string_buffer(max(size, 1))
    need(zstd.ZSTD_decompress(out, size, data, len(data)) == size, "a frame is damaged")
    return out.raw[:size]


def unpack(stored, entry, size, width):
    if "z" in entry or "y" in entry:
        need(not ("z" in entry and "y" in entry), "a section is packed twice")
        raw = unzstd(stored, size)
        if "y" in entry:
            need(width > 1, "single bytes are shuffled")
            raw = np.frombuffer(raw, np.uint8).reshape(width, -1).T.tobytes()
        return raw
    return stored


def product(numbers):
    result = 1
    for n in numbers:
        result *= n
    return result


class Plan:
    def __init__(self, entry, shape):
        known(entry, "ivhwmeuskr", "a plan")
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


def wave(p, q):
    """sqrt(2) cos(pi p / q) as the page says; Python floats are IEEE doubles, without fused steps."""
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
    return F32(1.4142135623730951 * (-result if negative else result))


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


def tile_codes(plan):
    """Codes of rows, columns (None where trained) and kernel positions (None without kernel)."""
    tables = [axis_code(c, n) for c, n in zip(plan.codes, plan.axes())]
    positions = product(plan.axes())
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
    if plan.kernel_dims:
        where = np.unravel_index(np.arange(product(plan.kernel_dims)), plan.kernel_dims)
        kernel = np.concatenate([t[w] for t, w in zip(tables[2:], where)], axis=1)
    return tables[0], tables[1], kernel


def coded_size(plan, coding):
    n = plan.tiles * plan.parameters
    return {0: 4 * n, 1: 2 * n, 2: n + 4 * len(plan.blocks)}[coding]


def decode_theta(plan, coding, raw):
    shape = (plan.tiles, plan.parameters)
    if coding == 0:
        theta = np.frombuffer(raw, "<f4").astype(F32).reshape(shape)
    elif coding == 1:
        theta = np.frombuffer(raw, "<f2").astype(F32).reshape(shape)
    else:
        blocks = len(plan.blocks)
        scales = np.frombuffer(raw, "<f4", blocks)
        need(np.isfinite(scales).all() and not np.signbit(scales).any(), "a bad scale")
        q = np.frombuffer(raw, np.int8, offset=4 * blocks).reshape(shape)
        need(not (q == -128).any(), "-128 in int8 coding")
        theta = q.astype(F32) * np.repeat(scales, plan.blocks).astype(F32)
    need(np.isfinite(theta).all(), "g-net parameters that are not finite")
    return theta


def products(start, codes, weight):
    """start, then + codes[n, k] * weight[u, k] for k: one product after another, never a matmul."""
    total = np.broadcast_to(start, (len(codes), len(weight))).astype(F32)
    for k in range(codes.shape[1]):
        total = total + codes[:, k, None] * weight[None, :, k]
    return total


def tile_values(plan, codes, theta):
    """[tile_rows, tile_cols, kernel] of one g-net, before cropping."""
    layers, at = [], 0
    for inputs, outputs in plan.layers:
        weight = theta[at:at + inputs * outputs].reshape(outputs, inputs)
        at += inputs * outputs
        layers.append((weight, theta[at:at + outputs]))
        at += outputs
    rows, cols, kernel = codes
    if rows is None:
        size = plan.tile_rows * plan.codes[0][1]
        rows = theta[at:at + size].reshape(plan.tile_rows, -1)
        at += size
    if cols is None:
        cols = theta[at:].reshape(plan.tile_cols, -1)
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
    values = z[..., 0] * plan.scale
    assert values.dtype == F32
    return values


def product_values(plan, theta):
    """The same of a product of matrices."""
    ends = np.cumsum(plan.blocks)
    blocks = [b.reshape(-1, plan.rank) for b in np.split(theta, ends[:-1])]
    left, right = blocks[0], blocks[-1]
    if plan.generator == 3:
        left = products(np.zeros(plan.rank, F32), left, blocks[1].T)
    values = products(np.zeros(len(right), F32), left, right)
    return (values * plan.scale).reshape(plan.tile_rows, plan.tile_cols, -1)


def generate(plan, theta):
    codes = tile_codes(plan) if plan.generator < 2 else None
    kernel = product(plan.kernel_dims)
    whole = np.zeros((plan.row_splits * plan.rows, plan.col_splits * plan.cols, kernel), F32)
    tile = 0
    for p in range(plan.row_splits):
        for q in range(plan.col_splits):
            for i in range(0, plan.rows, plan.tile_rows):
                for j in range(0, plan.cols, plan.tile_cols):
                    high, wide = min(plan.tile_rows, plan.rows - i), min(plan.tile_cols, plan.cols - j)
                    top, left = p * plan.rows + i, q * plan.cols + j
                    values = (tile_values(plan, codes, theta[tile]) if codes
                              else product_values(plan, theta[tile]))
                    whole[top:top + high, left:left + wide] = values[:high, :wide]
                    tile += 1
    if plan.transposed:
        whole = whole.transpose(1, 0, 2)
    return np.ascontiguousarray(whole).reshape(plan.shape)


def to_bytes(values, dtype):
    if dtype == "BF16":
        bits = values.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(
            "<u2").tobytes()
    with np.errstate(over="ignore"):
        return values.astype(NUMPY[dtype]).tobytes()


def arch_layout(arch):
    """[(name, shape, type, usual entry), ...] of a known architecture, else None."""
    name, colon, options = arch.partition(":")
    numbers = options.split("-") if colon else []
    if not all(n.isdigit() and n.isascii() and 1 <= int(n) <= 1 << 20 for n in numbers):
        return None
    numbers = [int(n) for n in numbers]
    if name == "lenet-300-100" and arch == name:
        name, numbers = "mlp", [784, 300, 100, 10]
    parameters, buffers = [], []

    def add(path, *shape):
        parameters.append((path, list(shape), "F32", 0))

    def linear(path, inputs, outputs):
        add(path + ".weight", outputs, inputs)
        add(path + ".bias", outputs)

    def norm(path, channels):
        add(path + ".weight", channels)
        add(path + ".bias", channels)
        buffers.extend([(path + ".running_mean", [channels], "F32", 2),
                        (path + ".running_var", [channels], "F32", 3),
                        (path + ".num_batches_tracked", [], "I64", 2)])

    if name == "mlp" and 2 <= len(numbers) <= 65:
        if sum(i * o for i, o in zip(numbers, numbers[1:])) > 1 << 30:
            return None
        for n, (inputs, outputs) in enumerate(zip(numbers, numbers[1:])):
            linear(str(2 * n), inputs, outputs)
    elif arch == "lenet5":
        add("conv1.weight", 20, 1, 5, 5)
        add("conv1.bias", 20)
        add("conv2.weight", 50, 20, 5, 5)
        add("conv2.bias", 50)
        linear("fc1", 800, 500)
        linear("fc2", 500, 10)
    elif name in ("resnet20", "resnet32", "resnet56") and len(numbers) <= 1:
        add("conv1.weight", 16, 3, 3, 3)
        norm("bn1", 16)
        inputs = 16
        for stage in range(3):
            outputs = 16 << stage
            for block in range((int(name[6:]) - 2) // 6):
                path = f"layer{stage + 1}.{block}."
                add(path + "conv1.weight", outputs, inputs, 3, 3)
                norm(path + "bn1", outputs)
                add(path + "conv2.weight", outputs, outputs, 3, 3)
                norm(path + "bn2", outputs)
                inputs = outputs
        linear("linear", 64, numbers[0] if numbers else 10)
    else:
        return None
    return parameters + buffers


def default_grid(shape):
    rows = shape[0] if len(shape) > 1 else 1
    cols, stride = product(shape) // rows, 0
    if len(shape) == 2 and cols >= 64:
        stride = math.isqrt(cols)
        stride = stride if stride * stride == cols else 0
    if len(shape) > 2:
        stride = 0 if shape[-1] in (1, cols) else shape[-1]
    return [rows, cols, stride]


def step_size(k):
    need(-1024 <= k <= 1024, "a step is out of range")
    return F32(math.ldexp(float(F32(2.0 ** (k % 16 / 16))), k // 16))


class Tensor:
    """What the header says of one tensor."""

    def __init__(self, entry, known_as):
        if isinstance(entry, int):
            need(0 <= entry <= 3 and known_as, "a bad short entry")
            entry = {"k": entry} if entry < 2 else {"one": entry - 2}
        else:
            known(entry, "nrhdzygckiv", "a tensor")
        self.entry = entry
        need(("n" in entry) != bool(known_as), "a tensor has two names, or none")
        self.name = entry["n"] if "n" in entry else known_as[0]
        self.tied = entry.get("r")
        if self.tied is not None:
            need(not set(entry) - set("nr"), "a tied tensor with keys of its own")
            self.coded = self.coded_theta = False
            return
        self.shape = entry["h"] if "n" in entry else known_as[1]
        self.dtype = entry.get("d", known_as[2] if known_as else "F32")
        need(self.dtype in BITS, f"the element type {self.dtype!r} is not known")
        self.plan = Plan(entry["g"], self.shape) if "g" in entry else None
        self.coded = "k" in entry
        self.constant = None
        if "v" in entry:
            self.constant = entry["v"].to_bytes(BITS[self.dtype] // 8, "little")
        elif "one" in entry:
            self.constant = np.array(entry["one"], NUMPY[self.dtype]).tobytes()
        self.coding = 3 if self.coded else entry.get("c", 2)
        self.coded_theta = self.plan is not None and self.coding == 3
        if self.coded:
            self.grid = entry.get("i", default_grid(self.shape))
            need(self.grid[0] * self.grid[1] == product(self.shape) > 0
                 and self.grid[2] < max(self.grid[1], 1), "a bad grid")

    def grids(self):
        """Of its integers, in the order in which they are coded."""
        grids = []
        if self.coded_theta:
            grids += [[self.plan.tiles * size // cols, cols, 0]
                      for size, cols in zip(self.plan.blocks, self.plan.block_cols)]
        if self.coded and self.entry["k"]:
            grids.append([1, self.grid[0], 0])
        return grids + [self.grid] if self.coded else grids

    def take_steps(self, expected, steps):
        """Reads its steps from the list; `expected` is {None: the last step, ...}."""
        self.theta_steps = []
        if self.coded_theta:
            for _ in self.plan.blocks:
                expected[None] += steps.pop(0)
                self.theta_steps.append(expected[None])
        if self.coded:
            kind = (self.name.rpartition(".")[2], len(self.shape))
            self.step = expected.get(kind, expected[None]) + steps.pop(0)
            expected[kind] = expected[None] = self.step

    def values(self, integers):
        """Its bytes. @param integers  one array a grid, empty where it has none"""
        if self.constant is not None:
            return self.constant * product(self.shape)
        total = None
        if self.plan:
            plan = self.plan
            need(plan.type in ("linear", "conv", "attention") and plan.shape == self.shape,
                 f"{self.name} needs the plugin of {plan.type}")
            if self.coded_theta:
                theta = np.concatenate(
                    [integers.pop(0).reshape(plan.tiles, size).astype(F32) * step_size(step)
                     for size, step in zip(plan.blocks, self.theta_steps)], axis=1)
            else:
                theta = self.theta
            total = generate(plan, theta)
        if self.coded:
            rows = integers.pop(0).ravel() if self.entry["k"] else np.zeros(self.grid[0], int)
            steps = np.array([step_size(self.step + int(row)) for row in rows], F32)
            coded = (integers.pop(0).astype(F32) * steps[:, None]).reshape(self.shape)
            total = coded if total is None else total + coded
        return to_bytes(total, self.dtype)


def varint(data, at):
    value, shift = 0, 0
    while True:
        need(at < len(data) and shift < 63, "a bad size")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            need(byte or shift == 7, "a bad size")
            return value, at


def read_header(data):
    """The header's map, and where the sections begin."""
    need(data[:3] == b"GBZ", "not a .gbz file")
    need(data[3:4] == b"2", f"version {data[3:4]!r} is not known")
    length, at = varint(data, 4)
    need(length == len(data) - at, "the file has another length than it declares")
    need(length >= 18, "the file is cut short")
    need(hashlib.sha256(data[:-16]).digest()[:16] == data[-16:], "the digest does not fit")
    stored, at = varint(data, at)
    raw, at = varint(data, at)
    need(raw <= 1 << 24 and stored <= len(data) - 16 - at and (stored < raw or raw == 0),
         "a bad header size")
    header = data[at:at + stored]
    header = parse_cbor(unzstd(header, raw) if raw else header)
    known(header, "astuv", "the header")
    need(list(header) == sorted(header), "the header's keys are not in order")
    return header, at + stored


def read_tensors(header):
    layout = arch_layout(header.get("a", ""))
    need("t" in header or layout, "there are no tensors")
    entries = header.get("t", [known_as[3] for known_as in layout or []])
    unnamed = [e for e in entries if isinstance(e, int) or "n" not in e]
    need(not unnamed or (layout and len(unnamed) == len(entries) == len(layout)),
         "tensors without names do not fit the architecture")
    tensors = [Tensor(e, layout[i] if unnamed else None) for i, e in enumerate(entries)]
    need(len({t.name for t in tensors}) == len(tensors), "two tensors have one name")
    expected, steps = {None: -64}, list(header.get("u", []))
    need(len(steps) == sum(t.coded + (len(t.plan.blocks) if t.coded_theta else 0) for t in tensors),
         "a bad number of steps")
    for tensor in tensors:
        tensor.take_steps(expected, steps)
    return tensors


def read_gbz(path):
    """{name: (dtype, shape, bytes)} in the file's order."""
    with open(path, "rb") as file:
        data = file.read()
    header, at = read_header(data)
    tensors = read_tensors(header)
    end, plain, integers, sizes = len(data) - 16, {}, {}, header.get("v")
    need(sizes is None or len(sizes) == sum(bool(t.grids()) for t in tensors), "bad section sizes")
    for tensor in tensors:
        if tensor.tied is not None or tensor.constant is not None:
            continue
        entry = tensor.entry
        if tensor.coded or tensor.coded_theta:
            if sizes is not None:
                size = sizes.pop(0)
                need(size <= end - at, "a section goes beyond the file")
                integers[tensor.name] = decode_integers("fast", data[at:at + size], tensor.grids())
                at += size
            continue
        if tensor.plan:
            size, wide = coded_size(tensor.plan, tensor.coding), {0: 4, 1: 2, 2: 1}[tensor.coding]
        else:
            bits = BITS[tensor.dtype]
            size, wide = product(tensor.shape) * bits // 8, max(1, bits // 8)
        in_file = entry.get("z", entry.get("y", size))
        need(in_file <= end - at, "a section goes beyond the file")
        content = unpack(data[at:at + in_file], entry, size, wide)
        at += in_file
        if tensor.plan:
            tensor.theta = decode_theta(tensor.plan, tensor.coding, content)
        else:
            plain[tensor.name] = content
    coded = [t for t in tensors if t.coded or t.coded_theta]
    if sizes is None and coded:
        need(sum(product(g[:2]) for t in coded for g in t.grids()) <= 1 << 26, "too many integers")
        grids = [grid for tensor in coded for grid in tensor.grids()]
        numbers = decode_integers("small", data[at:end], grids)
        for tensor in coded:
            integers[tensor.name] = [numbers.pop(0) for _ in tensor.grids()]
    else:
        need(at == end, "bytes between the sections and the digest")
    result = {}
    for tensor in tensors:
        if tensor.tied is None:
            content = plain.get(tensor.name)
            if content is None:
                content = tensor.values(integers.get(tensor.name, []))
            result[tensor.name] = (tensor.dtype, tensor.shape, content)
    for tensor in tensors:
        if tensor.tied is not None:
            need(tensor.tied < len(tensors) and tensors[tensor.tied].tied is None, "a bad tie")
            result[tensor.name] = result[tensors[tensor.tied].name]
    return {tensor.name: result[tensor.name] for tensor in tensors}


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length].decode("utf-8"))
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (e["dtype"], e["shape"], body[e["data_offsets"][0]:e["data_offsets"][1]])
            for name, e in header.items()}


def compare(got, expected):
    """Prints one line for each tensor that differs; returns their number."""
    differences = 0
    for name in list(expected) + [n for n in got if n not in expected]:
        if name not in got or name not in expected:
            line = "is only in the " + (".gbz" if name in got else ".safetensors")
        elif got[name][:2] != expected[name][:2]:
            line = f"is {got[name][:2]} in the .gbz, {expected[name][:2]} in the .safetensors"
        elif got[name][2] != expected[name][2]:
            a, b = (np.frombuffer(x[name][2], np.uint8) for x in (got, expected))
            line = f"differs in {int((a != b).sum())} of {len(a)} bytes"
        else:
            continue
        print(f"{name!r} {line}")
        differences += 1
    return differences


def main():
    parser = argparse.ArgumentParser(description="Reads a .gbz file without gbcompress.")
    parser.add_argument("gbz")
    parser.add_argument("npz", nargs="?")
    parser.add_argument("--compare", metavar="FILE.safetensors")
    parser.add_argument("--digests", metavar="FILE.json")
    args = parser.parse_args()
    if not args.npz and not args.compare:
        parser.error("give OUT.npz or --compare")
    try:
        tensors = read_gbz(args.gbz)
    except (BadFile, BadStream, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
        sys.exit(f"{args.gbz}: {error}")
    bad = 0
    if args.digests:
        with open(args.digests, encoding="utf-8") as file:
            recorded = json.load(file)[os.path.splitext(os.path.basename(args.gbz))[0]]
        now = {name: hashlib.sha256(content).hexdigest() for name, (_, _, content) in tensors.items()}
        for name in sorted(set(now) | set(recorded)):
            if now.get(name) != recorded.get(name):
                print(f"{name!r} is not what was recorded")
                bad += 1
    if args.npz:
        np.savez(args.npz, **{
            name: np.frombuffer(content, NUMPY.get(dtype, "u1")).reshape(
                shape if dtype in NUMPY else -1)
            for name, (dtype, shape, content) in tensors.items()})
    if args.compare:
        bad += compare(tensors, read_safetensors(args.compare))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
