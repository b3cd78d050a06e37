"""Models whose forward changes something: its input, random states, buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 16))


def batches(count: int = 8) -> list[torch.Tensor]:
    return [torch.randn(24, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(count)]


class Scaled(nn.Module):
    """Scales its input, in place or not. A batch is (x, {"shift": [y]})."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.net, self.in_place = net(), in_place

    def forward(self, x: torch.Tensor, more: dict[str, list[torch.Tensor]]) -> torch.Tensor:
        if self.in_place:
            return self.net(x.sub_(more["shift"][0].mul_(2)).div_(3))
        return self.net(x.sub(more["shift"][0].mul(2)).div(3))


def test_a_model_that_changes_its_input(tmp_path: Path) -> None:
    given = [(x, {"shift": [torch.ones(32)]}) for x in batches()]
    reports = [gbc.calibrate(Scaled(k), given, tmp_path / f"{k}.gbz", ratio=6) for k in (True, False)]
    assert reports[0].candidates == reports[1].candidates
    assert (tmp_path / "True.gbz").read_bytes() == (tmp_path / "False.gbz").read_bytes()
    for (x, more), original in zip(given, batches(), strict=True):
        assert torch.equal(x, original) and torch.equal(more["shift"][0], torch.ones(32))


def test_a_tensor_that_is_there_twice_is_one() -> None:
    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 8)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            assert x is y
            return self.fc(x)

    assert gbc.collect(Same(), [(x, x) for x in batches()]).tensors
