"""A classifier of handwritten digits, 8x8 pixels, in a plain loop: 69 kB become less than 1 kB.

    python digits.py FOLDER_OF_IDX_FILES digits.gbz [--rate-weight 0.05 | --max-bytes 900]

The repository has such files in samples/digits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gbcompress as gbc


def split(folder: Path, name: str) -> tuple[Tensor, Tensor]:
    """Images [n, 64], 0 to 1, and labels [n]."""
    parts = []
    for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        data = (folder / f"{name}-{kind}").read_bytes()
        shape = np.frombuffer(data, ">i4", data[3], 4)
        parts.append(np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape))
    images = torch.from_numpy(parts[0].copy()).flatten(1).float()
    return images / images.max(), torch.from_numpy(parts[1].copy()).long()


def main(arguments: list[str] | None = None) -> tuple[int, float]:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rate-weight", type=float)
    parser.add_argument("--max-bytes", type=int)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args(arguments)
    if options.rate_weight is None and options.max_bytes is None:
        options.rate_weight = 0.05

    torch.manual_seed(0)
    images, labels = split(options.data, "train")
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    steps = options.epochs * -(-len(images) // 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 5e-3, total_steps=steps + 1, cycle_momentum=False
    )
    compression = gbc.prepare(
        model, optimizer, rate_weight=options.rate_weight, max_bytes=options.max_bytes,
        predictions=len(images), steps=steps,
    )  # fmt: skip
    for _ in range(options.epochs):
        for rows in torch.randperm(len(images)).split(32):
            optimizer.zero_grad()
            cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    size = compression.save(options.output, overwrite=True)

    gbc.load_into(model, options.output)
    images, labels = split(options.data, "test")
    with torch.no_grad():
        accuracy = float((model(images).argmax(1) == labels).float().mean())
    print(f"{options.output}: {size} bytes, {accuracy:.2%} of the test digits")
    return size, accuracy


if __name__ == "__main__":
    main()
