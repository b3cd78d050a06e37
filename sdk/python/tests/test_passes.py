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


class Counting(nn.Module):
    """Its outputs depend on the calls before."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("hidden", torch.zeros(16), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.net(x) + self.mean + self.hidden
        self.calls += 1
        self.mean = 0.5 * self.mean + y.detach().mean(0)
        self.hidden.add_(y.detach().mean(0))
        return y


@pytest.mark.parametrize("settings", [{"ratio": 6}, {"ratio": 6, "recover": 2}, {"max_drop": 1.0}])
def test_buffers_that_forward_writes(settings: dict[str, float], tmp_path: Path) -> None:
    model = Counting()
    buffers = {name: (buffer, buffer.clone()) for name, buffer in model.named_buffers()}

    def evaluate(model: nn.Module) -> float:
        assert int(model.calls) == 0
        return 10.0 + 0 * float(model(batches(1)[0]).mean())

    more = {"evaluate": evaluate} if "max_drop" in settings else {}
    gbc.calibrate(model, batches(), tmp_path / "m.gbz", **settings, **more)
    for name, (buffer, value) in buffers.items():
        assert model.get_buffer(name) is buffer and torch.equal(buffer, value)
    stored = gbc.load_file(tmp_path / "m.gbz", framework="torch")
    assert int(stored["calls"]) == 0 and not stored["mean"].any()


@pytest.mark.parametrize("kind", ["scripted", "traced"])
def test_buffers_of_torchscript(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(32, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 16)).eval()
    plain[1].running_mean.normal_()
    model = torch.jit.script(plain) if kind == "scripted" else torch.jit.trace(plain, batches(1)[0])
    report = gbc.calibrate(model, batches(), tmp_path / "m.gbz", ratio=4, importance=False)
    assert report.error < 0.1
    for name, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
