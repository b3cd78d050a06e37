"""What .gbz files are made of below their tensors, written from docs/reference/artifact-format.md alone: CBOR,
zstd frames, architectures; and safetensors files to compare with."""

import ctypes
import json
import math
import struct

import numpy as np

from block_decoder import Blocks
from byte_decoder import decode_bytes, read_widths


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


def read_varint(data, at):
    value, shift = 0, 0
    while True:
        need(at < len(data) and shift < 63, "a bad size")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            need(byte or shift == 7, "a bad size")
            return value, at


STRIPE = 1 << 19


class PlanesForm:
    """What the stripes of a section share: docs/reference/planes.md."""

    def __init__(self, stored, width):
        self.width, self.at, self.stored = width, 0, stored
        head, self.base = self.take(2)
        self.mantissa, self.run = head & 7, 128 << (head >> 4)
        need(self.mantissa <= (4 if width > 1 else 0) and head >> 4 <= 13, "a malformed form of planes")
        self.escape = self.take(1)[0] if head & 8 else None
        counts, self.at = read_varint(stored, self.at)
        need(counts & 31 <= 16 and counts >> 5 < 1 << width, "too many tables")
        self.zeros_apart = counts >> (4 + width) & 1
        need(not self.zeros_apart or width > 1 and (self.escape is None or self.escape > 1), "a malformed form of planes")
        self.tables = [[self.table() for _ in range(counts & 31)]]
        self.tables += [[self.table() for _ in range(counts >> (4 + plane) & 1)] for plane in range(1, width)]

    def take(self, n):
        need(self.at + n <= len(self.stored), "planes end early")
        self.at += n
        return self.stored[self.at - n:self.at]

    def table(self):
        widths, self.at = read_widths(self.stored, self.at)
        return widths


def unpack_bits(content, at, n, mantissa):
    """The last plane, whose lowest `mantissa` bits are in the first one: (bytes, place behind)."""
    plane, place = np.zeros(n, np.uint8), mantissa
    for bits in (4, 2, 1):
        if not (8 - mantissa) & bits:
            continue
        each = (n * bits + 7) // 8
        need(at + each <= len(content), "a plane ends early")
        group = np.frombuffer(content[at:at + each], np.uint8)
        for turn in range(8 // bits):
            part = plane[turn * each:(turn + 1) * each]
            part |= (group[:len(part)] >> (bits * turn) & ((1 << bits) - 1)) << place
        at, place = at + each, place + bits
    return plane, at


def unpack_plane(form, stripe, at, n, plane, classes):
    need(at < len(stripe), "a plane is missing")
    kind, at = stripe[at], at + 1
    if kind == 0 and plane + 1 == form.width and form.mantissa:
        return unpack_bits(stripe, at, n, form.mantissa)
    length = n
    if kind:
        length, at = read_varint(stripe, at)
    content = stripe[at:at + length]
    need(len(content) == length, "a plane ends early")
    if kind == 1:
        content = unzstd(content, n)
    elif kind:
        need(kind == 2 and form.tables[plane], "a plane of an unknown kind")
        content = decode_bytes(content, n, form.tables[plane], classes, form.run)
    return np.frombuffer(content, np.uint8).copy(), at + length


def unpack_stripe(form, stripe, n):
    at, classes, width = 0, None, form.width
    if len(form.tables[0]) > 1:
        runs = -(-n // form.run)
        nibbles, at = stripe[:(runs + 1) // 2], (runs + 1) // 2
        classes = [nibbles[i // 2] >> 4 * (i % 2) & 15 for i in range(runs)]
        need(max(classes) < len(form.tables[0]), "a run of no table")
    escaped = b""
    if form.escape is not None:
        count, at = read_varint(stripe, at)
        escaped, at = stripe[at:at + count * width], at + count * width
        need(len(escaped) == count * width, "escaped elements end early")
    bits = np.zeros(n, np.uint64)
    for plane in range(width):
        if plane == 0:
            content, at = unpack_plane(form, stripe, at, n, plane, classes)
            escapes = np.flatnonzero(content == form.escape) if form.escape is not None else []
            first, others = content, content > 1 if form.zeros_apart else np.ones(n, bool)
        else:
            content = np.zeros(n, np.uint8)
            content[others], at = unpack_plane(form, stripe, at, int(others.sum()), plane, classes)
        bits |= content.astype(np.uint64) << np.uint64(8 * (width - 1 - plane))
    need(at == len(stripe), "bytes follow the last plane")
    every = np.uint64((1 << 8 * width) - 1)
    bits = (bits >> np.uint64(form.mantissa)) + np.uint64(form.base << 8 * (width - 1)) & every
    bits = bits >> np.uint64(1) | (bits & np.uint64(1)) << np.uint64(8 * width - 1)
    bits[~others] = first[~others].astype(np.uint64) << np.uint64(8 * width - 1)
    raw = bits.astype(f"<u{width}")
    need(len(escapes) * width == len(escaped), "other escapes than escaped elements")
    raw[escapes] = np.frombuffer(escaped, f"<u{width}")
    return raw.tobytes()


def unpack_planes(stored, size, width):
    form = PlanesForm(stored, width)
    raw = b""
    for first in range(0, size, STRIPE):
        length = int.from_bytes(form.take(4), "little") if size - first > STRIPE else len(stored) - form.at
        raw += unpack_stripe(form, form.take(length), min(STRIPE, size - first) // width)
    need(form.at == len(stored), "bytes follow the last stripe")
    return raw


def unpack(stored, entry, size, width):
    if "f" in entry:
        need("z" not in entry and "y" not in entry, "a section is packed twice")
        return unpack_planes(stored, size, width)
    if "w" in entry:
        need(not {"z", "y", "f"} & set(entry), "a section is packed twice")
        return Blocks(stored, entry["q"], read_varint, read_widths).unpack(size)
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
