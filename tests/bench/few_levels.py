#!/usr/bin/env python3
"""What exact mode takes of weights of few levels, beside their entropy: integers under scales, ternary, pruned, of a codebook.

    tests/bench/few_levels.py [--gbcompress PROGRAM] [--record ID]

Each model is one matrix of 2048 x 2048, made from normal weights whose rows have different scales. The bound is the entropy of
its integers by their frequencies, of each row or column with a scale of its own, and the bytes of the scales. Of pruned
weights it is that of which are zeros, of the exponents of the others, and of their mantissas given these."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from exact_bound import bfloat16
from record_tool import write_figures

SIDE = 2048
TYPES = {"float32": "F32", "float16": "F16", "uint16": "BF16", "int8": "I8"}


def entropy(symbols):
    """Bytes of all symbols, by their frequencies."""
    count = np.unique(symbols, return_counts=True)[1]
    return float(-(count * np.log2(count / count.sum())).sum()) / 8


def weights():
    draw = np.random.default_rng(1)
    return (draw.standard_normal((SIDE, SIDE)) * np.exp(0.25 * draw.standard_normal((SIDE, 1))) * 0.02).astype(np.float32)


def integers(values, axis, most):
    """Integers up to `most`, and the float32 scale of each row or column."""
    scale = (np.abs(values).max(axis, keepdims=True) / most).astype(np.float32)
    return np.round(values / scale) + np.float32(0), scale


def each_line(codes, axis):
    return sum(entropy(line) for line in (codes if axis == 1 else codes.T))


def pruned_bound(elements, mantissa):
    """Of elements of `mantissa` bits behind the exponent and the sign."""
    bits = elements.view(np.uint32 if elements.itemsize == 4 else np.uint16).ravel()
    some = bits[bits != 0]
    exponents, rest = some >> mantissa, some & ((1 << mantissa) - 1)
    low = max(0, mantissa - 10)  # noise beyond ten bits
    kept = sum(entropy(rest[exponents == e] >> low) for e in np.unique(exponents))
    return entropy(bits != 0) + entropy(exponents) + kept + low / 8 * some.size


def models():
    """Yields the name, the elements and the bound of each."""
    w = weights()
    codes, scale = integers(w, 1, 7)
    yield "4 bits, scales of rows, float32", codes * scale, each_line(codes, 1) + scale.nbytes
    yield "the same, bfloat16", bfloat16(codes * scale), each_line(codes, 1) + scale.nbytes / 2
    yield "the same, int8", codes.astype(np.int8), each_line(codes, 1)
    codes, scale = integers(w, 0, 127)
    yield "8 bits, scales of columns, float32", codes * scale, each_line(codes, 0) + scale.nbytes
    scale = np.abs(w).mean(1, keepdims=True)
    codes = np.round(w / scale).clip(-1, 1) + np.float32(0)
    yield "ternary, scales of rows, float32", codes * scale, entropy(codes) + scale.nbytes
    groups = w.reshape(-1, 32)
    scale = (groups[np.arange(len(groups)), np.abs(groups).argmax(1)] / -8).astype(np.float16).astype(np.float32)[:, None]
    codes = np.clip(np.floor(groups / scale + 8.5), 0, 15) - 8
    dequantized = (codes * scale + np.float32(0)).reshape(SIDE, SIDE)
    yield "Q4_0 dequantized, float32", dequantized, entropy(codes) + entropy(scale)
    yield "the same, bfloat16", bfloat16(dequantized), entropy(codes) + entropy(scale)
    book = np.sort(np.random.default_rng(2).standard_normal(16).astype(np.float32) * 0.02)
    codes = np.stack([np.abs(row[:, None] - book).argmin(1) for row in w])
    yield "16 levels at random, float32", book[codes], entropy(codes) + book.nbytes
    for share in (0.5, 0.9):
        kept = np.where(np.abs(w) > np.quantile(np.abs(w), share), w, np.float32(0))
        for elements, mantissa in ((bfloat16(kept), 7), (kept.astype(np.float16), 10), (kept, 23)):
            yield f"{share:.0%} pruned, {TYPES[elements.dtype.name]}", elements, pruned_bound(elements, mantissa)
    fours = np.abs(w).reshape(-1, 4)
    mask = np.zeros_like(fours, bool)
    np.put_along_axis(mask, np.argsort(fours, 1)[:, 2:], True, 1)
    elements = bfloat16(np.where(mask.reshape(w.shape), w, np.float32(0)))
    bits = elements[elements != 0]
    places = len(fours) * np.log2(6) / 8
    yield "2 of 4, BF16", elements, places + pruned_bound(bits, 7) - entropy(bits != 0)


def packed_bytes(elements, program, folder):
    header = json.dumps({"w": {"dtype": TYPES[elements.dtype.name], "shape": list(elements.shape),
                               "data_offsets": [0, elements.nbytes]}}).encode()
    header += b" " * (-len(header) % 8)
    model, packed = os.path.join(folder, "model.safetensors"), os.path.join(folder, "model.gbz")
    with open(model, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + np.ascontiguousarray(elements).tobytes())
    subprocess.run([program, "compress", "--lossless", model, "-o", packed, "--force", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    return os.path.getsize(packed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbcompress", default="gbcompress")
    parser.add_argument("--record", metavar="ID")
    given = parser.parse_args()
    figures = []
    print(f"{'weights':36} {'bytes':>12} {'bound':>12} {'more':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, elements, bound in models():
            size = packed_bytes(elements, given.gbcompress, folder)
            more = 100 * (size / bound - 1)
            print(f"{name:36} {size:>12,} {bound:>12,.0f} {more:>7.2f}%", flush=True)
            figures += [{"name": f"{name}: bytes", "value": size, "unit": ""}, {"name": "more", "value": round(more, 2), "unit": "%"}]
    if given.record:
        write_figures(given.record, "exact", "weights of few levels beside their entropy", "tests/bench/few_levels.py", figures, seed=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
