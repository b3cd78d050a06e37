#!/usr/bin/env python3
"""The bits that a rotation of a table's columns to the principal axes of its rows saves.

    tests/bench/rotation.py FILE TENSOR [--rows N] [--bits B]... [--record ID]

The first N rows of a matrix in a safetensors file are compressed without data at B bits per weight, as they are and in the basis of
their principal axes, and decoded again. Errors are squared, relative to the rows, and measured after the rotation back. A rotation
saves log2(error / rotated error) / 2 bits per weight, without its basis, whose elements take 16 bits each. The rotation back takes 2 C
operations a weight for C columns; its rate is that of a product in float32 on all processors. Needs gbcompress, torch and
safetensors.
"""

import argparse
import math
import tempfile
import time
from pathlib import Path

import gbcompress
import torch
from record_tool import write_figures
from safetensors import safe_open


def decoded(rows, bits, folder):
    """The weights of a file of at most so many bits per weight, and the bits per weight that it has."""
    file = Path(folder) / "rows.gbz"
    gbcompress.save_file({"rows": rows}, file, max_bytes=int(rows.numel() * bits / 8), overwrite=True)
    back = gbcompress.load_file(file, framework="torch")["rows"]
    return back, 8 * file.stat().st_size / rows.numel()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("tensor")
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--bits", type=float, action="append")
    parser.add_argument("--record", metavar="ID")
    options = parser.parse_args()
    with safe_open(options.file, "pt") as tensors:
        rows = tensors.get_slice(options.tensor)[: options.rows].float().contiguous()
    axes = torch.linalg.eigh((rows.double().T @ rows.double()) / len(rows))[1].float()
    rotated = (rows @ axes).contiguous()
    energy = rows.square().sum()
    figures = []
    print(f"{'bits':>6} {'error':>10} {'rotated':>10} {'saved bits per weight':>22}")
    with tempfile.TemporaryDirectory() as folder:
        for bits in options.bits or [2.25, 3, 4]:
            plain, size = decoded(rows, bits, folder)
            basis, basis_size = decoded(rotated, bits, folder)
            errors = [float((rows - made).square().sum() / energy) for made in (plain, basis @ axes.T)]
            saved = math.log2(errors[0] / errors[1]) / 2 + size - basis_size
            print(f"{size:6.3f} {errors[0]:10.5f} {errors[1]:10.5f} {saved:22.3f}")
            figures += [{"name": f"relative squared error at {bits:g} bits", "value": float(f"{errors[0]:.4g}"), "unit": ""},
                        {"name": f"rotated, at {bits:g} bits", "value": float(f"{errors[1]:.4g}"), "unit": ""},
                        {"name": f"saved at {bits:g} bits", "value": round(saved, 3), "unit": "bits"}]
    basis_bits = 16 * axes.numel() / rows.numel()
    rotated @ axes.T  # the first product starts threads
    begin = time.perf_counter()
    for _ in range(3):
        rotated @ axes.T
    seconds = (time.perf_counter() - begin) / 3
    print(f"basis: {basis_bits:.3f} bits per weight; rotation back: {rows.numel() / seconds / 1e6:.0f} M weights/s")
    figures += [{"name": "basis", "value": round(basis_bits, 3), "unit": "bits"},
                {"name": "rotation back", "value": round(rows.numel() / seconds / 1e6), "unit": "M weights/s"}]
    if options.record:
        write_figures(options.record, "data-free", f"rotation of {options.tensor}",
                      f"tests/bench/rotation.py FILE {options.tensor} --rows {options.rows}", figures)


if __name__ == "__main__":
    main()
