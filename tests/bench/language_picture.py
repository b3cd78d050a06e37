#!/usr/bin/env python3
"""Draws docs/images/language-model.svg from the record `language-model-peers` of language_model.py.

    language_picture.py [--check]

--check writes nothing, and ends with 1 where the picture is not that of the record.
"""

import argparse
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD, PICTURE = ROOT / "docs/results/records/language-model-peers.json", ROOT / "docs/images/language-model.svg"
WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 735, 24, 360
BITS, LOSS = (2.3, 4.9), (0.03, 3.0)
#: Start of the names of a series, its label, color, and where the label stands beside the last point.
SERIES = (("gbcompress, calibrated", "gbcompress, calibrated", "#0b6e4f", (8, 16)),
          ("gbcompress, without data", "gbcompress, without data", "#2a9d8f", (8, -8)),
          ("GPTQ", "GPTQ, groups of 128, zstd", "#c1440e", (8, 4)),
          ("HQQ", "HQQ, groups of 64", "#7b4fa3", (-8, 16)),
          ("nearest with minimum", "nearest, groups of 64", "#666666", (-8, -8)))


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


def place(bits, loss):
    x = LEFT + (bits - BITS[0]) / (BITS[1] - BITS[0]) * (RIGHT - LEFT)
    share = (math.log(loss) - math.log(LOSS[0])) / (math.log(LOSS[1]) - math.log(LOSS[0]))
    return x, BOTTOM - share * (BOTTOM - TOP)


def axes():
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for loss in (0.03, 0.1, 0.3, 1, 3):
        _, y = place(BITS[0], loss)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:g}</text>')
    for bits in (2.5, 3, 3.5, 4, 4.5):
        x, _ = place(bits, LOSS[0])
        parts.append(f'<path d="M{x:.1f} {BOTTOM}v5" stroke="#666666"/>')
        parts.append(f'<text x="{x:.1f}" y="{BOTTOM + 20}" text-anchor="middle">{bits:g}</text>')
    parts.append(f'<path d="M{LEFT} {BOTTOM}H{RIGHT}" stroke="#666666"/>')
    parts.append(f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 42}" text-anchor="middle">bits of the file for each weight</text>')
    middle = (TOP + BOTTOM) / 2
    parts.append(f'<text x="20" y="{middle}" text-anchor="middle" transform="rotate(-90 20 {middle})">'
                 "KL divergence, nats a token</text>")
    return parts


def series(lines, start, label, color, off):
    points = sorted(place(bits_of(name, bits), loss) for name, bits, loss in lines if name.startswith(start))
    if not points:
        return []
    parts = []
    if len(points) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in points]
    x, y = points[-1]
    anchor = "end" if off[0] < 0 else "start"
    parts.append(f'<text x="{x + off[0]:.1f}" y="{y + off[1]:.1f}" text-anchor="{anchor}" fill="{color}">{label}</text>')
    return parts


def drawn(record):
    lines = lines_of(record)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
             f"<title>{record['title']}</title>", *axes()]
    for each in SERIES:
        parts += series(lines, *each)
    return "\n".join([*parts, "</svg>"]) + "\n"


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
    print(f"{PICTURE.name} is not the picture of {RECORD.name}; run tests/bench/language_picture.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
