#!/usr/bin/env python3
"""What exact mode takes of a file of bfloat16 weights, beside a bound of coders that know the scale of each row.

    tests/bench/exact_bound.py model.safetensors... [--gbcompress PROGRAM] [--record ID]

Elements are rounded to bfloat16 first. The bound has a bit for each sign; the entropy of the exponents, given the class of
their row's root mean square (sixteenths of an octave); the entropy of the mantissa's 7 bits, given the exponent. It counts no
tables, and is that of each tensor by itself. Vectors count by their bytes."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from record_tool import write_figures

NUMPY = {"F32": np.float32, "F16": np.float16, "F64": np.float64}


def tensors_of(path):
    """Yields the name and the float32 values of each tensor of real numbers of a safetensors file."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    data = np.memmap(path, np.uint8, "r", 8 + length)
    for name, entry in header.items():
        if name == "__metadata__" or not (entry["dtype"] in NUMPY or entry["dtype"] == "BF16"):
            continue
        raw = data[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            values = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = raw.view(NUMPY[entry["dtype"]]).astype(np.float32)
        yield name, values.reshape(entry["shape"])


def bfloat16(values):
    """The nearest bfloat16 of each float32, ties to even, as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def conditional_entropy(symbols, contexts, count):
    """Bits of all symbols (0 to count - 1), given their contexts, by the frequencies themselves."""
    joint = np.bincount(contexts.astype(np.int64) * count + symbols).astype(np.float64)
    joint = np.pad(joint, (0, -len(joint) % count)).reshape(-1, count)
    joint = joint[joint.sum(1) > 0]
    share = np.divide(joint, joint.sum(1, keepdims=True))
    return -float((joint[share > 0] * np.log2(share[share > 0])).sum())


def bound_bits(elements):
    """Of a matrix of bfloat16, as uint16 [rows, columns]."""
    exponent, mantissa = elements >> 7 & 0xFF, elements & 0x7F
    values = (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    values[~np.isfinite(values)] = 0
    scale = np.sqrt(np.maximum((values**2).mean(1), 1e-60))
    classes = np.round(16 * np.log2(scale)).astype(np.int64)
    classes = np.broadcast_to((classes - classes.min())[:, None], elements.shape).ravel()
    own = conditional_entropy(exponent.ravel(), classes, 256)
    return elements.size + own + conditional_entropy(mantissa.ravel(), exponent.ravel(), 128)


def write_safetensors(path, tensors):
    """A file of bfloat16 tensors: {name: (shape, uint16)}."""
    header, at = {}, 0
    for name, (shape, elements) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + elements.nbytes]}
        at += elements.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, elements in tensors.values():
            file.write(elements.tobytes())


def measure(path, program, folder):
    tensors = {name: (list(values.shape), bfloat16(values)) for name, values in tensors_of(path)}
    raw = sum(elements.nbytes for _, elements in tensors.values())
    bits = sum(bound_bits(elements.reshape(shape[0], -1)) if len(shape) > 1 else 8 * elements.nbytes
               for shape, elements in tensors.values())
    model, packed = os.path.join(folder, "model.safetensors"), os.path.join(folder, "model.gbz")
    write_safetensors(model, tensors)
    subprocess.run([program, "compress", "--lossless", model, "-o", packed, "--force", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    return raw, os.path.getsize(packed) / raw, bits / 8 / raw


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--gbcompress", default="gbcompress")
    parser.add_argument("--record", metavar="ID")
    given = parser.parse_args()
    figures = []
    print(f"{'model':<32} {'bytes':>12} {'file':>8} {'bound':>8}")
    for path in given.models:
        with tempfile.TemporaryDirectory() as folder:
            raw, file, bound = measure(path, given.gbcompress, folder)
        name = os.path.basename(path)
        print(f"{name:<32} {raw:>12,} {100 * file:>7.2f}% {100 * bound:>7.2f}%", flush=True)
        for what, share in (("file", file), ("bound", bound)):
            figures.append({"name": f"{name.removesuffix('.safetensors')}: {what}", "value": round(100 * share, 2), "unit": "%"})
    if given.record:
        write_figures(given.record, "exact", "exact bfloat16 beside its bound", "tests/bench/exact_bound.py MODELS", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
