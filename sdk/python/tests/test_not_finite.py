"""Outputs and inputs that are NaN or infinite in the batches that choose between candidates."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._calibrate.compare import squared_error  # noqa: E402


class Net(nn.Module):
    """Gives other outputs by ``change``."""

    def __init__(self, change: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.change = nn.Linear(32, 96), nn.Linear(96, 16), change
        if change == "mask":
            mask = torch.zeros(16).masked_fill(torch.arange(16) >= 12, -math.inf)
            self.mask = nn.Parameter(mask, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b(torch.relu(self.a(x)))
        if self.change == "mask":
            return y + self.mask
        if self.change == "log":
            return torch.log(y)
        return y * math.nan if self.change == "nan" else y


def batches(count: int = 10) -> list[torch.Tensor]:
    return [torch.randn(24, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(count)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("number", [0, 9])
def test_inputs(bad: float, number: int, tmp_path: Path) -> None:
    x = batches()
    x[number][3, 4] = bad
    with pytest.raises(gbc.GbzError, match="the inputs of a are not finite; leave such samples out") as caught:
        gbc.calibrate(Net(), x, tmp_path / "m.gbz", ratio=6)
    assert caught.value.code == "non_finite" and not list(tmp_path.iterdir())


def test_masks_among_inputs_are_no_error(tmp_path: Path) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.a(x, x, x, attn_mask=mask)[0]

    mask = torch.full((24, 24), -math.inf).triu(1)
    report = gbc.calibrate(Attention().eval(), [(x[None], mask) for x in batches()], tmp_path / "m.gbz", ratio=4)
    assert all(0 < error < 1 for error in report.candidates.values())


@pytest.mark.parametrize("outputs", ["scores", "values"])
def test_masked_outputs_are_left_out(outputs: str, tmp_path: Path) -> None:
    report = gbc.calibrate(Net("mask"), batches(), tmp_path / "m.gbz", ratio=6, outputs=outputs, recover=2)
    assert all(0 < error < 1 for error in report.candidates.values())
    assert report.error <= min(report.candidates.values())
    assert report.recovery is not None and report.recovery.steps == 2


def test_outputs_with_some_nan_are_compared_at_the_others(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="no candidate could be compared")
        report = gbc.calibrate(Net("log"), batches(), tmp_path / "m.gbz", ratio=6)
    assert all(0 < error < 1 for error in report.candidates.values())
    assert report.error == min(report.candidates.values())


def test_outputs_without_a_finite_entry(tmp_path: Path) -> None:
    with pytest.raises(gbc.GbzError, match="no output of the model is finite .*; leave such samples out") as caught:
        gbc.calibrate(Net("nan"), batches(), tmp_path / "m.gbz", ratio=6)
    assert caught.value.code == "non_finite" and not list(tmp_path.iterdir())


@pytest.mark.parametrize("layer", ["a", "b"])
def test_weights_are_named(layer: str, tmp_path: Path) -> None:
    model = Net()
    with torch.no_grad():
        getattr(model, layer).weight[2] = math.nan
    with pytest.raises(gbc.GbzError, match=f"{layer}.weight holds NaN or infinity; repair the model") as caught:
        gbc.calibrate(model, batches(), tmp_path / "m.gbz", ratio=6)
    assert caught.value.code == "non_finite"


def test_no_candidate_is_finite(tmp_path: Path) -> None:
    class Exact(Net):
        """NaN but for the weights as given."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            same = torch.equal(self.a.weight, given)
            return super().forward(x) * (1 if same else math.nan)

    model = Exact()
    given = model.a.weight.detach().clone()
    with pytest.warns(UserWarning, match="no candidate could be compared: .*; give evaluate"):
        report = gbc.calibrate(model, batches(), tmp_path / "m.gbz", ratio=6)
    assert report.error == math.inf


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_entries_that_count(make: object) -> None:
    nan, inf = math.nan, math.inf

    def error(before: list[float], now: list[float]) -> float:
        return squared_error(make(before), make(now))  # type: ignore[operator]

    with np.errstate(all="ignore"):
        assert error([1.0, 2.0], [1.5, 2.0]) == 0.25
        assert error([1.0, -inf, inf], [1.5, -inf, inf]) == 0.25
        assert error([1.0, nan, nan], [1.5, 3.0, nan]) == 0.25
        assert error([1.0, 2.0], [nan, 2.0]) == inf
        # Each entry that is finite in one of the two adds the variance, which is 1.
        assert error([1.0, 3.0, -inf, -inf], [1.5, inf, -inf, 0.0]) == 2.25
