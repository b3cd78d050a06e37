#!/usr/bin/env python3
"""Draws docs/images/language-model.svg from the record `language-model-peers` of language_model.py.

    language_picture.py [--check]

--check writes nothing, and ends with 1 where the picture is not that of the records.
"""

import argparse
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/images"))
from drawing import BLUE, GRAY, GREEN, LINE, ORANGE, PURPLE, Drawing  # noqa: E402

RECORDS, PICTURE = ROOT / "docs/results/records", ROOT / "docs/images/language-model.svg"
RECORD = RECORDS / "language-model-peers.json"
WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 735, 24, 360
BITS, LOSSES = (2.3, 4.9), (0.01, 0.03, 0.1, 0.3, 1, 3, 10)
#: Start of the names of a series, its label, color, and where the label stands beside the last point.
SERIES = (("gbcompress, calibrated", "gbcompress, calibrated", GREEN, (10, 0)),
          ("gbcompress, without data", "gbcompress, without data", BLUE, (10, 14)),
          ("GPTQ", "GPTQ, groups of 128, zstd", ORANGE, (8, 4)),
          ("HQQ", "HQQ", PURPLE, (8, 16)),
          ("nearest with minimum", "nearest", GRAY, (8, 2)))


def lines_of(record):
    """Name, bits of a weight, KL divergence of each line."""
    found = []
    for figure in record["figures"]:
        if figure["unit"] == "bits":
            found.append([figure["name"].removesuffix(": bits"), figure["value"], None])
        elif figure["name"] == "KL divergence":
            found[-1][2] = figure["value"]
    return found


def bits_of(name, bits):
    """Those with zstd, where the name tells them."""
    if "bits with zstd" not in name:
        return bits
    return float(name.split("(")[1].split()[0])


class Axes:
    """A place for each pair of bits and KL divergence; the axis of the latter ends above the largest one."""

    def __init__(self, largest):
        self.losses = [each for i, each in enumerate(LOSSES) if i < 2 or LOSSES[i - 1] < largest]

    def place(self, bits, loss):
        x = LEFT + (bits - BITS[0]) / (BITS[1] - BITS[0]) * (RIGHT - LEFT)
        low, high = math.log(self.losses[0]), math.log(self.losses[-1])
        return x, BOTTOM - (math.log(loss) - low) / (high - low) * (BOTTOM - TOP)

    def draw(self, picture):
        for loss in self.losses:
            _, y = self.place(BITS[0], loss)
            picture.path([(LEFT, y), (RIGHT, y)], LINE)
            picture.text(LEFT - 8, y + 4, f"{loss:g}", "end")
        for bits in (2.5, 3, 3.5, 4, 4.5):
            x, _ = self.place(bits, self.losses[0])
            picture.path([(x, BOTTOM), (x, BOTTOM + 5)])
            picture.text(x, BOTTOM + 20, f"{bits:g}", "middle")
        picture.path([(LEFT, BOTTOM), (RIGHT, BOTTOM)])
        picture.text((LEFT + RIGHT) / 2, BOTTOM + 42, "bits of the file for each weight", "middle")
        picture.text(20, (TOP + BOTTOM) / 2, "KL divergence, nats a token", "middle", turn=-90)

    def series(self, picture, lines, start, label, color, off):
        points = sorted(self.place(bits_of(name, bits), loss) for name, bits, loss in lines if name.startswith(start))
        if not points:
            return
        if len(points) > 1:
            picture.path(points, color, 2)
        for x, y in points:
            picture.dot(x, y, 4, color)
        x, y = points[-1]
        picture.text(x + off[0], y + off[1], label, "end" if off[0] < 0 else "start", color=color)


def drawn(record):
    lines = lines_of(record)
    picture = Drawing(record["title"], WIDTH, HEIGHT)
    axes = Axes(max(loss for name, _, loss in lines if name.startswith(tuple(start for start, *_ in SERIES))))
    axes.draw(picture)
    for each in SERIES:
        axes.series(picture, lines, *each)
    return picture.svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    picture = drawn(json.loads(RECORD.read_text()))
    if not arguments.check:
        PICTURE.write_text(picture)
        return 0
    if PICTURE.read_text() == picture:
        return 0
    print(f"{PICTURE.name} is not the picture of its records; run tests/bench/language_picture.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
