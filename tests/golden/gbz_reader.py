#!/usr/bin/env python3
"""Reads a .gbz file without gbcompress, written from the pages docs/reference/{artifact-*,codec*,exact-deltas,lanes,layers,original-files}.md alone.

  gbz_reader.py IN.gbz OUT.npz                     all tensors as NumPy arrays (BF16 as uint16)
  gbz_reader.py IN.gbz --compare FILE.safetensors  bit for bit; exit status 1 on a difference
  gbz_reader.py IN.gbz OUT.npz --digests FILE.json and against recorded SHA-256 of the tensors
  --base FILE.safetensors                          with any of these, repeatable: a model that a delta is from
  --draft                                          the draft of a file with layers

Needs Python 3.8, NumPy and libzstd.
"""

import argparse
import hashlib
import json
import math
import os
import sys

import numpy as np

from block_decoder import TYPES, weights_of
from byte_decoder import read_widths
from delta_decoder import apply_change
from element_bytes import BITS, F32, NUMPY, from_bytes, to_bytes
from gnet_values import Spec, coded_size, decode_theta, from_cosines, generate, prior_classes
from integer_decoder import BadStream, decode_integers, decode_lanes, states_in_lanes, states_of
from level_values import exact_levels, table_size
from piece_reader import join_pieces, read_pieces
from reader_parts import (BadFile, arch_layout, compare, default_grid, known, need, parse_cbor, product,
                          read_safetensors, read_varint, unpack, unzstd)
from requantized_blocks import requantized

# Layer types whose tensor is nothing but its tiles side by side.
PLACING_TYPES = ("attention", "conv", "embedding", "linear", "recurrent")
SOURCES = ("F32", "F16", "BF16")
WHOLE = ("BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64")


def base_digest(tensors):
    """SHA-256 of {name: (dtype, shape, bytes)}."""
    sha = hashlib.sha256()
    for name in sorted(tensors, key=lambda name: name.encode()):
        dtype, shape, content = tensors[name]
        for text in (name, dtype, "".join(f"{side}," for side in shape)):
            sha.update(text.encode() + b"\0")
        sha.update(content)
    return sha.hexdigest()


def step_size(k):
    need(-2368 <= k <= 2047, "a step is out of range")
    return F32(math.ldexp(float(F32(2.0 ** (k % 16 / 16))), k // 16))


def short_floats(integers, bits, exponent):
    """The float32 numbers that the integers stand for."""
    need(-126 <= exponent <= 127, "an exponent is out of range")
    size = 14 << bits
    need(np.abs(integers).max() < size, "a short float that is none")
    n = size - np.abs(integers).astype(np.int64)
    octave, fraction = n >> bits, n & ((1 << bits) - 1)
    mantissa = np.where(octave > 0, fraction + (1 << bits), fraction).astype(np.float64)
    power = exponent - 12 + np.maximum(octave - 1, 0) - bits
    return np.where(integers == 0, 0, np.sign(integers) * np.ldexp(mantissa, power)).astype(F32)


def whole_numbers(integers, offset, dtype, nibbles):
    """Bytes of the element type, which has all of them."""
    numbers = [int(integer) + offset for integer in integers.ravel()]
    bits = BITS[dtype]
    if nibbles > 1:
        need(all(0 <= number < 16 for number in numbers), "a nibble of more than four bits")
        return bytes(low + 16 * high for low, high in zip(numbers[::2], numbers[1::2]))
    low, high = (-1 << bits - 1, 1 << bits - 1) if dtype[0] == "I" else (0, 1 << bits)
    if dtype == "BOOL":
        high = 2
    need(all(low <= number < high for number in numbers), "a number that its type cannot hold")
    return b"".join(number.to_bytes(bits // 8, "little", signed=low < 0) for number in numbers)


class Tensor:
    """What the header says of one tensor."""

    def __init__(self, entry, known_as):
        if isinstance(entry, int):
            need(0 <= entry <= 6 and known_as, "a bad short entry")
            entry = ({"one": entry - 2} if 2 <= entry <= 3 else {"k": 0, "m": 7} if entry == 6
                     else {"k": entry if entry < 2 else entry - 2})
        else:
            known(entry, "nrhdzygckivmfxbelpwqjs", "a tensor")
        self.entry = entry
        need(("n" in entry) != bool(known_as), "a tensor has two names, or none")
        self.name = entry["n"] if "n" in entry else known_as[0]
        self.tied = entry.get("r")
        if self.tied is not None:
            need(not set(entry) - set("nr"), "a tied tensor with keys of its own")
            self.coded = self.coded_theta = False
            self.pieces = []
            return
        self.shape = entry["h"] if "n" in entry else known_as[1]
        self.dtype = entry.get("d", known_as[2] if known_as else "F32")
        need(self.dtype in BITS, f"the element type {self.dtype!r} is not known")
        self.spec = Spec(entry["g"], self.shape) if "g" in entry else None
        self.changed = "e" in entry
        need(not self.changed or not set(entry) - set("nhdeb"), "a bad change")
        need(not self.changed or (BITS[self.dtype] % 8 == 0 and self.dtype != "C64" and product(self.shape) > 0),
             "a change of what has none")
        self.set_source(entry)
        self.on_base = self.changed or self.made_of is not None or "b" in entry
        need("b" not in entry or (entry["b"] >= 1 and not set(entry) & set("zygcvmfx") and ("w" not in entry or self.made_of)), "a bad base")
        self.base = entry.get("b", 1)
        need("p" not in entry or not set(entry) - set("nhdp"), "pieces of another kind")
        self.pieces = read_pieces(self) if "p" in entry else []
        self.coded = "k" in entry
        self.constant = None
        if "v" in entry:
            self.constant = entry["v"].to_bytes(BITS[self.dtype] // 8, "little")
        elif "one" in entry:
            self.constant = np.array(entry["one"], NUMPY[self.dtype]).tobytes()
        self.coding = 3 if self.coded else entry.get("c", 2)
        self.coded_theta = self.spec is not None and self.coding == 3
        if self.coded:
            whole = self.dtype in WHOLE
            need(entry["k"] in ((0, 4, 8) if whole else (0, 1, 2, 3)), "integers of an unknown kind")
            self.row_steps = entry["k"] % 2
            self.kind = entry["k"] // 2 if entry["k"] < 4 else 2 if entry["k"] == 4 else 0
            self.nibbles = BITS[self.dtype] // 4 if entry["k"] == 8 else 1
            need(entry["k"] < 8 or (self.dtype != "BOOL" and "i" not in entry), "bad nibbles")
            self.short = entry.get("m", 0)
            self.axis = entry.get("x")
            need(self.axis is None or (self.axis < len(self.shape) and not whole and not self.spec
                                       and "m" not in entry and 2 <= self.shape[self.axis] <= 2048),
                 "a bad axis")
            need("m" not in entry or (1 <= self.short <= 16 and entry["k"] == 0 and not self.spec),
                 "short floats that are none")
            need(not whole or not (self.short or self.spec or self.on_base), "whole numbers with steps")
            self.grid = entry.get("i", default_grid(self.shape))
            if entry["k"] == 8:
                self.grid = [self.grid[0], self.grid[1] * self.nibbles, 0]
            need(self.grid[0] * self.grid[1] == product(self.shape) * self.nibbles > 0
                 and self.grid[2] < max(self.grid[1], 1), "a bad grid")
            self.set_levels(entry.get("l"), whole)
        need("l" not in entry or self.coded, "levels of no integers")

    def set_source(self, entry):
        """The base's tensor that its blocks are made of."""
        self.made_of = None
        if "j" in entry:
            kind, self.first, *shape = entry["j"]
            need(set(entry) <= set("nhdwqjsb") and {"w", "q"} <= set(entry) and self.dtype == "U8" and entry["q"] in TYPES
                 and kind < len(SOURCES), "bad blocks of a base")
            self.made_of = (entry.get("s", self.name), SOURCES[kind], shape)
            self.weights = product(self.shape) // TYPES[entry["q"]][0] * weights_of(entry["q"])
            need(0 < self.weights <= product(shape) - self.first, "blocks of more than the base has")

    def set_levels(self, levels, whole):
        """[palette], [positions, stride] or [rows, columns, negative zero]."""
        self.levels = levels
        if levels is None:
            return
        need(not whole and self.entry["k"] == 0 and not set(self.entry) & set("gmxb"), "levels with another form")
        self.table = [*table_size(levels, self.grid, self.dtype), 0, 0, None]

    def grids(self):
        """[rows, cols, stride, kind, classes] of its integers, in the order in which they are
        coded; classes are None or a function of the arrays that were decoded before."""
        grids = []
        if self.coded_theta:
            grids += [[self.spec.tiles * size // cols, cols, 0, 0, None]
                      for size, cols in zip(self.spec.blocks, self.spec.block_cols)]
        if self.coded and self.row_steps:
            grids.append([1, self.grid[0], 0, 0, None])
        if self.coded and self.levels:
            grids.append(self.table)
        if not self.coded:
            return grids
        classes = None
        if self.spec and self.spec.generator == 1 and self.spec.shape == self.shape:
            blocks, before = len(self.spec.blocks), len(grids)

            def classes(arrays):
                theta = self.coded_parameters(arrays[-before:][:blocks])
                return prior_classes(self.spec, theta).ravel().tolist()
        return grids + [self.grid + [self.kind, classes]]

    def coded_parameters(self, arrays):
        """theta from its integers, one array a block."""
        return np.concatenate(
            [array.reshape(self.spec.tiles, size).astype(F32) * step_size(step)
             for array, size, step in zip(arrays, self.spec.blocks, self.theta_steps)], axis=1)

    def take_steps(self, expected, steps):
        """Reads its steps from the list; `expected` is {None: the last step, ...}."""
        self.theta_steps = []
        if self.coded_theta:
            for _ in self.spec.blocks:
                expected[None] += steps.pop(0)
                self.theta_steps.append(expected[None])
        if self.coded:
            kind = (self.name.rpartition(".")[2], len(self.shape))
            self.step = expected.get(kind, expected[None]) + steps.pop(0)
            expected[kind] = expected[None] = self.step

    def values(self, integers, before):
        """Its bytes. @param integers  one array a grid, empty where it has none
        @param before  bytes of this tensor in the base, or None"""
        if self.constant is not None:
            return self.constant * product(self.shape)
        total = None
        if self.spec:
            spec = self.spec
            need(spec.type in PLACING_TYPES and spec.shape == self.shape,
                 f"{self.name} needs the plugin of {spec.type}")
            if self.coded_theta:
                theta = self.coded_parameters([integers.pop(0) for _ in spec.blocks])
            else:
                theta = self.theta
            total = generate(spec, theta)
        if self.coded and self.dtype in WHOLE:
            return whole_numbers(integers.pop(0), self.step, self.dtype, self.nibbles)
        if self.coded and self.levels:
            table, numbers = integers.pop(0), integers.pop(0)
            return exact_levels(self.levels, table.reshape(self.table[:2]), numbers.reshape(self.grid[:2]),
                                self.step, self.dtype)
        if self.coded and self.short:
            return to_bytes(short_floats(integers.pop(0), self.short, self.step), self.dtype)
        if self.coded:
            rows = integers.pop(0).ravel() if self.row_steps else np.zeros(self.grid[0], int)
            steps = np.array([step_size(self.step + int(row)) for row in rows], F32)
            numbers = integers.pop(0)
            coded = numbers.astype(F32)
            if self.kind == 1:
                states = states_of(numbers.ravel())
                if self.in_lanes:
                    states = states_in_lanes(*self.grid[:2], numbers.ravel())
                second = np.array(states, int).reshape(numbers.shape) % 2
                coded = coded - (second * np.sign(numbers)).astype(F32) / F32(2)
            coded = (coded * steps[:, None]).reshape(self.shape)
            if self.axis is not None:
                coded = from_cosines(coded, self.axis)
            if self.on_base:
                total = from_bytes(before, self.dtype).reshape(self.shape)
            total = coded if total is None else total + coded
        return to_bytes(total, self.dtype)


def part_end(data, begin):
    """Where the part of a file ends that begins there."""
    need(data[begin:begin + 3] == b"GBZ", "not a .gbz file")
    need(data[begin + 3:begin + 4] == b"2", f"version {data[begin + 3:begin + 4]!r} is not known")
    length, at = read_varint(data, begin + 4)
    need(length >= 18, "the file is cut short")
    return at + length


def read_header(data, begin=0):
    """The header's map, and where the sections begin, of the part of a file that ends with `data`."""
    need(part_end(data, begin) == len(data), "the file has another length than it declares")
    need(hashlib.sha256(data[:-16]).digest()[:16] == data[-16:], "the digest does not fit")
    _, at = read_varint(data, begin + 4)
    stored, at = read_varint(data, at)
    raw, at = read_varint(data, at)
    need(raw <= 1 << 24 and stored <= len(data) - 16 - at and (stored < raw or raw == 0), "a bad header size")
    header = data[at:at + stored]
    header = parse_cbor(unzstd(header, raw) if raw else header)
    known(header, "abdopstuwx", "the header")
    need(header.get("p", 0) in (0, 1), "a part that there is not")
    need(list(header) == sorted(header), "the header's keys are not in order")
    return header, at + stored


def read_tensors(header):
    layout = arch_layout(header.get("a", ""))
    need("t" in header or layout, "there are no tensors")
    entries = header.get("t", [known_as[3] for known_as in layout or []])
    unnamed = [e for e in entries if isinstance(e, int) or "n" not in e]
    need(not unnamed or (layout and len(unnamed) == len(entries) == len(layout)), "tensors without names do not fit the architecture")
    tensors = [Tensor(e, layout[i] if unnamed else None) for i, e in enumerate(entries)]
    need(len({t.name for t in tensors}) == len(tensors), "two tensors have one name")
    expected, steps = {None: -64}, list(header.get("u", []))
    need(len(steps) == sum(t.coded + (len(t.spec.blocks) if t.coded_theta else 0) for t in tensors),
         "a bad number of steps")
    for tensor in tensors:
        tensor.take_steps(expected, steps)
    return tensors


def named_bases(tensors, header, given, deltas):
    """Those of the models that the header names, in its order."""
    digests = header.get("b", [])
    need(isinstance(digests, list) and len(digests) <= 16 and ("b" not in header or digests), "bad bases")
    used = {t.base for t in deltas} | {p.base for t in tensors for p in t.pieces if p.base}
    need(used == set(range(1, len(digests) + 1)), "a base that is needed and not named, or the other way")
    need(len(set(digests)) == len(digests), "a base that is named twice")
    models = {base_digest(model): model for model in given}
    need(all(digest in models for digest in digests), "it is a delta of other models: --base FILE.safetensors")
    bases = [models[digest] for digest in digests]
    return bases


def bases_of(tensors, header, given, draft):
    """The models that tensors are a change of."""
    deltas = [t for t in tensors if t.tied is None and t.on_base]
    if header.get("p") == 1:
        need("b" not in header and all(t.base == 1 and not t.made_of for t in deltas)
             and not any(p.base for t in tensors for p in t.pieces), "an exact part with other bases than its draft")
        bases = [draft]
    else:
        bases = named_bases(tensors, header, given, deltas)
    for t in deltas:
        base = bases[t.base - 1]
        name, *form = t.made_of or (t.name, t.dtype, t.shape)
        need(name in base and list(base[name][:2]) == form, "the base does not fit")
    return bases


def read_sections(data, at, tensors, sizes):
    """Sizes are those of integers' sections, or None. Sets the theta of g-nets. Returns bytes and integers by name, and where the sections end."""
    end, plain, integers = len(data) - 16, {}, {}
    for tensor in tensors:
        if tensor.tied is not None or tensor.constant is not None or (
                tensor.on_base and not (tensor.changed or tensor.made_of or tensor.coded)):
            continue
        entry = tensor.entry
        if tensor.changed or tensor.made_of or tensor.pieces:
            size = entry["e"] if tensor.changed else entry["w"] if tensor.made_of else sum(piece.stored for piece in tensor.pieces)
            need(size <= end - at, "a section goes beyond the file")
            plain[tensor.name] = data[at:at + size]
            at += size
            continue
        if tensor.coded or tensor.coded_theta:
            size = sizes.pop(0) if sizes is not None else 0
            if size > 0:
                need(size <= end - at, "a section goes beyond the file")
                need(sum(product(g[:2]) for g in tensor.grids()) <= 1 << 26, "too many integers")
                integers[tensor.name] = decode_integers(data[at:at + size], tensor.grids())
                at += size
            continue
        if tensor.spec:
            size, wide = coded_size(tensor.spec, tensor.coding), {0: 4, 1: 2, 2: 1}[tensor.coding]
        else:
            bits = BITS[tensor.dtype]
            need("f" not in entry or (tensor.dtype in ("F16", "BF16", "F32", "F64") or tensor.dtype.startswith("F8")), "planes of no floats")
            need(("w" in entry) == ("q" in entry) and ("w" not in entry or tensor.dtype == "U8"), "blocks of no type")
            size, wide = product(tensor.shape) * bits // 8, max(1, bits // 8)
        in_file = entry.get("z", entry.get("y", entry.get("f", entry.get("w", size))))
        need(in_file <= end - at, "a section goes beyond the file")
        content = unpack(data[at:at + in_file], entry, size, wide)
        at += in_file
        if tensor.spec:
            tensor.theta = decode_theta(tensor.spec, tensor.coding, content)
        else:
            plain[tensor.name] = content
    return plain, integers, at


def read_streams(data, at, tensors, header, integers):
    """Adds the integers that lie behind the sections."""
    end = len(data) - 16
    coded = [t for t in tensors if (t.coded or t.coded_theta) and t.name not in integers]
    for tensor in tensors:
        tensor.in_lanes = "w" in header and tensor in coded
    need("w" not in header or (len(header["w"]) > 1 and coded), "stripes of nothing")
    need("x" not in header or ("w" in header and integers), "sections beside no stripes, or none")
    grids = [grid for tensor in coded for grid in tensor.grids()]
    if "w" in header:
        numbers = decode_lanes(data[at:end], header["w"], grids)
    elif coded:
        need(sum(product(g[:2]) for g in grids) <= 1 << 26, "too many integers")
        numbers = decode_integers(data[at:end], grids)
    else:
        need(at == end, "bytes between the sections and the digest")
        return
    for tensor in coded:
        integers[tensor.name] = [numbers.pop(0) for _ in tensor.grids()]


def without_originals(data, at, sizes):
    """The file without the section of its original files, which is checked."""
    if sizes is None:
        return data
    need(len(sizes) == 2 and 0 < sizes[0] <= sizes[1], "bad sizes of original files")
    stored, raw = sizes
    end = len(data) - 16
    need(stored <= end - at, "original files beyond the file")
    kept = data[end - stored:end]
    kept = unzstd(kept, raw) if stored < raw else kept
    need(kept[0] == 1, "original files of an unknown version")
    return data[:end - stored] + data[end:]


def read_gbz(path, given=(), draft=False):
    """{name: (dtype, shape, bytes)} in the file's order. @param given  models like that, a delta's bases among them
    @param draft  of a file with layers, its draft"""
    with open(path, "rb") as file:
        data = file.read()
    end = part_end(data, 0)
    header, tensors = read_part(data[:end], 0, given, None)
    need(end == len(data) or header.get("p") == 0, "the file has another length than it declares")
    need(header.get("p") != 1 and (not draft or header.get("p") == 0), "a part without the other one")
    if end == len(data) or draft:
        return tensors
    header, tensors = read_part(data, end, given, tensors)
    need(header.get("p") == 1, "another file behind a draft")
    return tensors


def read_part(data, begin, given, draft):
    """The header and the tensors of the part that begins there and ends with `data`. @param draft  the tensors of the draft, of an exact part"""
    header, at = read_header(data, begin)
    data = without_originals(data, at, header.get("o"))
    tensors = read_tensors(header)
    bases = bases_of(tensors, header, given, draft)
    sizes = header.get("x")
    need(sizes is None or len(sizes) == sum(bool(t.grids()) for t in tensors), "bad section sizes")
    plain, integers, at = read_sections(data, at, tensors, None if sizes is None else list(sizes))
    read_streams(data, at, tensors, header, integers)
    result = {}
    for tensor in tensors:
        if tensor.tied is None:
            content = plain.get(tensor.name)
            before = bases[tensor.base - 1][tensor.made_of[0] if tensor.made_of else tensor.name][2] if tensor.on_base else None
            if tensor.changed:
                content = apply_change(content, before, BITS[tensor.dtype] // 8, tensor.dtype, tensor.shape)
            elif tensor.made_of:
                values = from_bytes(before, tensor.made_of[1]).ravel()[tensor.first:tensor.first + tensor.weights]
                content = requantized(content, tensor.entry["q"], values, product(tensor.shape), read_varint, read_widths, apply_change)
            elif tensor.on_base and not tensor.coded:
                content = before
            elif tensor.pieces:
                content = join_pieces(tensor, content, bases)
            if content is None:
                content = tensor.values(integers.get(tensor.name, []), before)
            result[tensor.name] = (tensor.dtype, tensor.shape, content)
    for tensor in tensors:
        if tensor.tied is not None:
            need(tensor.tied < len(tensors) and tensors[tensor.tied].tied is None, "a bad tie")
            result[tensor.name] = result[tensors[tensor.tied].name]
    return header, {tensor.name: result[tensor.name] for tensor in tensors}


def main():
    parser = argparse.ArgumentParser(description="Reads a .gbz file without gbcompress.")
    parser.add_argument("gbz")
    parser.add_argument("npz", nargs="?")
    parser.add_argument("--compare", metavar="FILE.safetensors")
    parser.add_argument("--digests", metavar="FILE.json")
    parser.add_argument("--base", metavar="FILE.safetensors", action="append", default=[])
    parser.add_argument("--draft", action="store_true", help="of a file with layers, its draft")
    args = parser.parse_args()
    if not args.npz and not args.compare:
        parser.error("give OUT.npz or --compare")
    try:
        tensors = read_gbz(args.gbz, [read_safetensors(base) for base in args.base], args.draft)
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
