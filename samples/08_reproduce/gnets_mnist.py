"""784-256-256-64-10 on MNIST with every weight generated, from random weights: gnets_mnist.cpp in Python.

    python gnets_mnist.py DIR OUT.gbz [--ratio 20] [--seed 0] [--epochs 6]
    python gnets_mnist.py DIR OUT.gbz --widths 784 800 10 --ratio 320 --coded

With --coded the parameters of the g-nets are integers, with their bits in the loss.
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


def mlp(widths: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--ratio", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--widths", type=int, nargs="+", default=[784, 256, 256, 64, 10])
    parser.add_argument("--coded", action="store_true")
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    images, labels = load(options.data, "train")
    model = mlp(options.widths)
    whole = sum(4 * p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)  # of biases
    steps = options.epochs * -(-len(images) // BATCH)
    coded = {"coding": "coded", "predictions": len(images), "max_bytes": int(whole / options.ratio)} if options.coded else {}
    gnets = gbc.GenomicBottleneck(model, steps, target_ratio=options.ratio, seed=options.seed, **coded)
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
    print(f"{size} bytes, {whole / size:.1f}x smaller, {100 * right:.2f} % of the test set right")


if __name__ == "__main__":
    main()
