"""A small net, its data and its loop: what the tests of prepare() train."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import gbcompress as gbc

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
ADAM: dict = {"lr": 5e-3}


def data(n: int = 512, seed: int = 0) -> tuple:
    """Points on two rings and their labels: small nets learn them."""
    g = torch.Generator().manual_seed(seed)
    angle = torch.rand(n, generator=g) * 6.2832
    label = torch.randint(2, (n,), generator=g)
    radius = 1 + label + 0.2 * torch.randn(n, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label


def net(seed: int = 0, norm: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    middle = [nn.BatchNorm1d(32)] if norm else []
    return nn.Sequential(
        nn.Linear(2, 32), *middle, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )


def train(model: nn.Module, optimizer: object, steps: int, first: int = 0) -> None:
    x, y = data()
    for step in range(first, first + steps):
        rows = torch.arange(64) * 7 + step * 13
        optimizer.zero_grad()  # type: ignore[attr-defined]
        F.cross_entropy(model(x[rows % 512]), y[rows % 512]).backward()
        optimizer.step()  # type: ignore[attr-defined]


def accuracy(model: nn.Module) -> float:
    x, y = data(seed=1)
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def prepared(steps: int = 400, norm: bool = False, make: Callable | None = None, **settings) -> tuple:
    model = net(norm=norm)
    optimizer = (make or (lambda p: torch.optim.Adam(p, **ADAM)))(model.parameters())
    if not settings.keys() & {"rate_weight", "max_bytes", "ratio", "max_drop"}:
        settings["rate_weight"] = 0.05
    return model, optimizer, gbc.prepare(model, optimizer, predictions=512, steps=steps, **settings)


OPTIMIZERS: dict[str, Callable] = {
    "adam": lambda p: torch.optim.Adam(p, **ADAM),
    "adamw fused": lambda p: torch.optim.AdamW(p, fused=True, **ADAM),
    "adam foreach": lambda p: torch.optim.Adam(p, foreach=True, **ADAM),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=2e-3),
}
