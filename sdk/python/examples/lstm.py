"""An LSTM that tells which of four waveforms a noisy sequence is, trained to a small file.

    python lstm.py lstm.gbz [--rate-weight 0.05]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gbcompress as gbc


def sequences(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """[n, 48, 1] and their classes: sine, square, sawtooth, pulses; any phase, pitch and noise."""
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(4, (n,), generator=g)
    pitch = 2 + 3 * torch.rand(n, 1, generator=g)
    phase = (torch.arange(48) / 48 * pitch + torch.rand(n, 1, generator=g)) % 1
    shapes = torch.stack([
        (6.2832 * phase).sin(), (phase < 0.5) * 2.0 - 1, 2 * phase - 1, (phase < 0.15) * 2.0 - 0.3,
    ])  # fmt: skip
    wave = shapes[label, torch.arange(n)] + 0.3 * torch.randn(n, 48, generator=g)
    return wave.unsqueeze(2), label


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 48, batch_first=True)
        self.head = nn.Linear(48, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.lstm(x)[0].mean(1))
        return out


def main(arguments: list[str] | None = None) -> tuple[int, float, int]:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--rate-weight", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    x, y = sequences(2048, 0)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    compression = gbc.prepare(
        model, optimizer, rate_weight=options.rate_weight, predictions=len(x), steps=options.steps
    )
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, options.steps)
    for _ in range(options.steps):
        rows = torch.randint(len(x), (64,))
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), y[rows]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    size = compression.save(options.output, overwrite=True)

    restored = Classifier()
    gbc.load_into(restored, options.output)
    x, y = sequences(1000, 1)
    with torch.no_grad():
        accuracy = float((restored(x).argmax(1) == y).float().mean())
    before = sum(p.numel() * p.element_size() for p in model.parameters())
    print(f"{options.output}: {before} bytes became {size}, {accuracy:.2%} of new sequences")
    return size, accuracy, before


if __name__ == "__main__":
    main()
