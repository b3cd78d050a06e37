"""784-256-256-64-10 on MNIST with every weight generated, from random weights: gnets_mnist.cpp in Python.

python gnets_mnist.py DIR OUT.gbz [--ratio 20] [--seed 0] [--epochs 6]
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
import torch
from torch import nn

import gbcompress as gbc

BATCH = 128


def idx(folder: Path, name: str) -> torch.Tensor:
    """An IDX file, gzipped or not."""
    file = folder / name
    data = file.read_bytes() if file.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    shape = np.frombuffer(data, ">i4", data[3], 4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape).copy())


def load(folder: Path, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    images = idx(folder, f"{split}-images-idx3-ubyte").float().flatten(1) / 255
    return images, idx(folder, f"{split}-labels-idx1-ubyte").long()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--ratio", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, labels = load(options.data, "train")
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)  # of biases
    steps = options.epochs * -(-len(images) // BATCH)
    gnets = gbc.GenomicBottleneck(model, steps, target_ratio=options.ratio, seed=options.seed)
    for _ in range(options.epochs):
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            gnets.zero_grad()
            gnets.predict_weights()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            gnets.backward()
            optimizer.step()
            gnets.step()
    size = gnets.save(options.output, overwrite=True)
    gnets.load(options.output)
    images, labels = load(options.data, "t10k")
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).double().mean().item()
    whole = sum(4 * p.numel() for p in model.parameters())
    print(f"{size} bytes, {whole / size:.1f}x smaller, {100 * right:.2f} % of the test set right")


if __name__ == "__main__":
    main()
