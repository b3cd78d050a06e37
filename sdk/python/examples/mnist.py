"""LeNet-300-100 on MNIST from random weights to about 3 kB, in a plain loop.

    python mnist.py DIR_OF_IDX_FILES lenet.gbz --rate-weight 0.2 --epochs 60
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

import gbcompress as gbc


def idx(folder: Path, name: str) -> Tensor:
    """A gzipped IDX file as a tensor."""
    data = gzip.decompress((folder / f"{name}.gz").read_bytes())
    shape = np.frombuffer(data, ">i4", data[3], 4)
    array = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)
    return torch.from_numpy(array.copy())


def load_images(folder: Path, split: str) -> tuple[Tensor, Tensor]:
    images = idx(folder, f"{split}-images-idx3-ubyte").float() / 255
    labels = idx(folder, f"{split}-labels-idx1-ubyte").long()
    return (images - 0.1307) / 0.3081, labels


def shifted(images: Tensor) -> Tensor:
    """Random shift by up to one pixel in both directions."""
    n = len(images)
    wide = pad(images, (1, 1, 1, 1), value=-0.4242)
    windows = wide.unfold(1, 28, 1).unfold(2, 28, 1)
    return windows[torch.arange(n), torch.randint(3, (n,)), torch.randint(3, (n,))]


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data", type=Path)
    arguments.add_argument("output", type=Path)
    arguments.add_argument("--rate-weight", type=float, default=0.2)
    arguments.add_argument("--epochs", type=int, default=60)
    arguments.add_argument("--batch", type=int, default=256)
    arguments.add_argument("--plain", action="store_true", help="trains without compression")
    options = arguments.parse_args()

    torch.manual_seed(0)
    images, labels = load_images(options.data, "train")
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(),
        nn.Linear(100, 10),
    )  # fmt: skip
    steps = options.epochs * -(-len(images) // options.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 2e-3, total_steps=steps + 1, cycle_momentum=False
    )
    if not options.plain:
        compression = gbc.prepare(
            model, optimizer, rate_weight=options.rate_weight, predictions=len(images), steps=steps,
            step_speed=1,
        )  # fmt: skip
    start = time.perf_counter()
    for epoch in range(options.epochs):
        for rows in torch.randperm(len(images)).split(options.batch):
            optimizer.zero_grad()
            cross_entropy(model(shifted(images[rows])), labels[rows]).backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}, {time.perf_counter() - start:.0f} s", flush=True)
    test = accuracy(model, *load_images(options.data, "t10k"))
    print(f"{steps} steps in {time.perf_counter() - start:.1f} s, {test:.2%} of the test split")
    if options.plain:
        return
    size = compression.save(options.output, overwrite=True)
    gbc.load_into(model, options.output)
    test = accuracy(model, *load_images(options.data, "t10k"))
    print(f"{options.output}: {size} bytes, {test:.2%} of the test split")
    print(compression.report())


if __name__ == "__main__":
    main()
