#!/usr/bin/env python3
"""Makes the four IDX files of this folder from scikit-learn's digits.csv.gz.

    pip download scikit-learn --no-deps
    unzip scikit_learn-*.whl sklearn/datasets/data/digits.csv.gz
    python3 make_digits.py sklearn/datasets/data/digits.csv.gz

Needs the standard library only. Every fifth row, counted from the fifth, is held out."""

import gzip
import pathlib
import struct
import sys

ROWS, SIDE = 1797, 8


def write_idx(path, shape, values):
    header = struct.pack(">HBB", 0, 0x08, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(header + bytes(values))


def main(source):
    with gzip.open(source, "rt", encoding="ascii") as lines:
        rows = [[int(float(field)) for field in line.split(",")] for line in lines if line.strip()]
    if len(rows) != ROWS or any(len(row) != SIDE * SIDE + 1 for row in rows):
        sys.exit(f"{source} does not hold {ROWS} rows of {SIDE * SIDE} pixels and a label")
    if any(not 0 <= pixel <= 16 for row in rows for pixel in row[:-1]):
        sys.exit(f"{source} holds a pixel outside 0..16")
    if {row[-1] for row in rows} != set(range(10)):
        sys.exit(f"{source} does not hold the labels 0 to 9")
    # 359 rows end a group of five; the last, incomplete group gives the 360th.
    held_out = [row for i, row in enumerate(rows) if i % 5 == 4 or i == ROWS - 1]
    kept = [row for i, row in enumerate(rows) if not (i % 5 == 4 or i == ROWS - 1)]
    folder = pathlib.Path(__file__).resolve().parent
    for name, part in (("train", kept), ("test", held_out)):
        pixels = [pixel for row in part for pixel in row[:-1]]
        write_idx(folder / f"{name}-images-idx3-ubyte", (len(part), SIDE, SIDE), pixels)
        write_idx(folder / f"{name}-labels-idx1-ubyte", (len(part),), [row[-1] for row in part])
        print(f"{name}: {len(part)} digits")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
