"""Outputs whose shapes depend on the weights, and ``evaluate`` with a size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402


class Boxes(nn.Module):
    """Gives rows whose sum is positive."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(32, 96), nn.Linear(96, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.hidden(x)
        return self.c(h[h.sum(1) > 0])

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


def batches() -> list[torch.Tensor]:
    return [torch.randn(64, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]


def closeness(given: Boxes) -> Any:
    x = batches()[0]
    with torch.no_grad():
        before = given.hidden(x)
    return lambda model: 10 - float((model.hidden(x) - before).square().mean())


def test_without_evaluate(tmp_path: Path) -> None:
    words = r"outputs of candidates have other shapes than the original's \(\[\d+, 8\], not \[\d+, 8\] in batch [67]\)"
    with pytest.raises(gbc.UsageError, match=words + " and cannot be compared; give evaluate"):
        gbc.calibrate(Boxes(), batches(), tmp_path / "m.gbz", ratio=8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", [{"ratio": 8}, {"max_drop": 0.05}])
def test_evaluate_chooses(target: dict[str, float], tmp_path: Path) -> None:
    model = Boxes()
    given = {name: value.clone() for name, value in model.state_dict().items()}
    report = gbc.calibrate(model, batches(), tmp_path / "m.gbz", **target, evaluate=closeness(model))
    assert report.reference == 10 and report.quality is not None and 9 < report.quality < 10
    assert all(torch.equal(value, given[name]) for name, value in model.state_dict().items())
    gbc.load_into(model, tmp_path / "m.gbz")
    measure = closeness(Boxes())
    with torch.no_grad():
        assert measure(model) == pytest.approx(report.quality)
    if "ratio" in target:
        gbc.save_file(Boxes().state_dict(), tmp_path / "free.gbz", ratio=8)
        gbc.load_into(model, tmp_path / "free.gbz")
        with torch.no_grad():
            assert report.quality >= measure(model) - 1e-3


def test_a_quality_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(gbc.UsageError, match="evaluate must return a finite number, got nan"):
        gbc.calibrate(Boxes(), batches(), tmp_path / "m.gbz", ratio=8, evaluate=lambda model: float("nan"))
