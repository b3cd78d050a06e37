"""Data and networks of gnets_curve.py and gnets_transfer.py: images in IDX files or CIFAR-10 records, and text."""

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

CONTEXT = 64  #: characters of a window of text
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  #: others become spaces
SIDE = 32


@dataclass
class Data:
    """Inputs [n, ...] and targets [n] or [n, context] of the training and the test set."""

    inputs: Tensor
    targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor


def content(folder: Path, *names: str) -> bytes:
    """The first of these files that exists, gzipped (NAME.gz) or not."""
    for name in names:
        if (folder / name).exists():
            return (folder / name).read_bytes()
        if (folder / f"{name}.gz").exists():
            return gzip.decompress((folder / f"{name}.gz").read_bytes())
    raise SystemExit(f"{folder} has no {' or '.join(names)}; name the folder of the data set")


def idx(data: bytes) -> Tensor:
    shape = np.frombuffer(data, ">i4", data[3], 4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape).copy())


def mnist(folder: Path) -> Data:
    """Images [n, pixels] from 0 to 1 of {train,t10k}-images-idx3-ubyte; `test` may stand for `t10k`."""
    parts = []
    for split in (("train",), ("t10k", "test")):
        images = idx(content(folder, *(f"{name}-images-idx3-ubyte" for name in split))).flatten(1).float()
        parts += [images / images.max(), idx(content(folder, *(f"{name}-labels-idx1-ubyte" for name in split))).long()]
    return Data(*parts)


def cifar10(folder: Path) -> Data:
    """Images [n, 3, 32, 32] from -2 to 2 of train.bin and test.bin: records of a label and 3,072 pixels."""
    parts = []
    for split in ("train.bin", "test.bin"):
        records = torch.from_numpy(np.frombuffer(content(folder, split), np.uint8).reshape(-1, 1 + 3 * SIDE * SIDE).copy())
        parts += [records[:, 1:].reshape(-1, 3, SIDE, SIDE).float() / 63.75 - 2, records[:, 0].long()]
    return Data(*parts)


def text(characters: str) -> Data:
    """Windows of CONTEXT characters and the characters that follow each; the last tenth is the test set."""
    known = {character: i for i, character in enumerate(CHARACTERS)}
    tokens = torch.tensor([known.get(character, known[" "]) for character in characters])
    held = len(tokens) // 10
    parts = []
    for part in (tokens[:-held], tokens[-held:]):
        windows = (len(part) - 1) // CONTEXT
        parts += [part[: windows * CONTEXT].reshape(windows, CONTEXT), part[1 : windows * CONTEXT + 1].reshape(windows, CONTEXT)]
    return Data(*parts)


class Block(nn.Module):
    """Causal attention and an MLP, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.outputs = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        parts = self.inputs(self.before_attention(x)).reshape(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.outputs(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    """2 layers of width 64 with 4 heads: tokens [n, context] to scores [n, characters, context]."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(len(CHARACTERS), width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(CHARACTERS))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x))).transpose(1, 2)


def network(data: Data) -> nn.Module:
    """Pixels-800-classes for flat images, two convolutions and two linear layers for 3 x 32 x 32, a transformer for text."""
    if not data.inputs.is_floating_point():
        return Transformer()
    classes = int(data.targets.max()) + 1
    if data.inputs.dim() == 2:
        return nn.Sequential(nn.Linear(data.inputs.shape[1], 800), nn.ReLU(), nn.Linear(800, classes))
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, classes),
    )  # fmt: skip
