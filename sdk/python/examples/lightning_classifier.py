"""A convolutional net with batch norms in Lightning, on images of crosses, rings and bars.

    python lightning_classifier.py shapes.gbz [--rate-weight 0.01]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gbcompress as gbc
from gbcompress.lightning import GbzCallback


def make_images(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """[n, 1, 12, 12] with noise, and classes."""
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(3, (n,), generator=g)
    center = 4 + 4 * torch.rand(n, 2, 1, 1, generator=g)
    y, x = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    dy, dx = (y - center[:, 0]).abs(), (x - center[:, 1]).abs()
    cross = ((dy < 1) | (dx < 1)) & (dy < 4) & (dx < 4)
    ring = ((dy**2 + dx**2).sqrt() - 3).abs() < 0.8
    bar = (dy < 1.2) & (dx < 4)
    shapes = torch.stack([cross, ring, bar])[label, torch.arange(n)].float()
    return (shapes + 0.4 * torch.randn(n, 12, 12, generator=g)).unsqueeze(1), label


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 9, 3),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        return out

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        return cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main(arguments: list[str] | None = None) -> tuple[int, float, int]:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--rate-weight", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args(arguments)

    model = Classifier()
    loader = DataLoader(TensorDataset(*make_images(1024, 0)), batch_size=32, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=options.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0,
        callbacks=[GbzCallback(options.output, rate_weight=options.rate_weight, overwrite=True)],
    )  # fmt: skip
    trainer.fit(model, loader)

    restored = Classifier()
    gbc.load_into(restored, options.output)
    restored.eval()
    x, y = make_images(600, 1)
    with torch.no_grad():
        accuracy = float((restored(x).argmax(1) == y).float().mean())
    size = options.output.stat().st_size
    before = sum(p.numel() * p.element_size() for p in model.parameters())
    print(f"{options.output}: {before} bytes became {size}, {accuracy:.2%} of new images")
    return size, accuracy, before


if __name__ == "__main__":
    main()
