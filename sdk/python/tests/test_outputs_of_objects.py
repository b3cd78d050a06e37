"""Outputs in objects: dataclasses and namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402


@dataclass
class Inner:
    y: Any
    name: str = "y"


@dataclass
class Outer:
    inner: Inner
    count: int = 1


class Model(nn.Module):
    def __init__(self, made: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.made = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 16)), made

    def forward(self, x: torch.Tensor) -> Any:
        return self.made(self.net(x))


@pytest.mark.parametrize(
    "made",
    [Inner, lambda y: Outer(Inner(y)), lambda y: SimpleNamespace(a=[y], b=None), lambda y: {"a": SimpleNamespace(y=Inner(y))}],
)
@pytest.mark.parametrize("importance", [False, True])
def test_outputs_are_found(made: Any, importance: bool, tmp_path: Path) -> None:
    given = [torch.randn(24, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(5)]
    reports = [
        gbc.calibrate(Model(each), given, tmp_path / "m.gbz", ratio=6, importance=importance, overwrite=True)
        for each in (made, lambda y: y)
    ]
    assert reports[0].candidates == reports[1].candidates
