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


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x + torch.randn_like(x))


def test_a_model_that_draws_random_numbers(tmp_path: Path) -> None:
    given = batches()
    report = gbc.calibrate(Noisy(), given, tmp_path / "a.gbz", ratio=4, recover=2)
    # Draws of their own would give the original itself an error near 1.
    assert all(error < 0.2 for error in report.candidates.values())
    torch.manual_seed(123)
    again = gbc.calibrate(Noisy(), given, tmp_path / "b.gbz", ratio=4, recover=2)
    assert again.candidates == report.candidates
    assert (tmp_path / "a.gbz").read_bytes() == (tmp_path / "b.gbz").read_bytes()


def test_the_state_of_random_numbers_is_the_callers() -> None:
    model, given = Noisy(), batches()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    gbc.collect(model, given)
    assert torch.equal(before, torch.get_rng_state())


def test_each_batch_has_draws_of_its_own() -> None:
    seen: list[torch.Tensor] = []
    model, x = Noisy(), batches(1)[0]
    model.net.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    gbc.collect(model, [x, x], importance=False)
    assert len(seen) > 1 and any(not torch.equal(seen[0], other) for other in seen)
