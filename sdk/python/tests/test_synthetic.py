"""Inputs that are fitted to batch norms."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._calibrate.norms import norm_statistics  # noqa: E402
from gbcompress._calibrate.synthetic import pink_noise  # noqa: E402


def textures(n: int, seed: int) -> torch.Tensor:
    """Images whose channels hang together and whose mean is far from 0."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.tensor([[1.0, 0.3, 0.0], [0.8, -0.2, 0.1], [0.9, 0.0, -0.4]])
    noise = pink_noise((n, 3, 24, 24), generator)
    return torch.einsum("nchw,dc->ndhw", noise, mix) + torch.tensor([1.0, 0.5, -1.0]).view(3, 1, 1)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    """Convolutions whose norms have seen textures."""
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for i in range(5):
        layers += [nn.Conv2d(3 if i == 0 else 24, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)).train()
    with torch.no_grad():
        for i in range(25):
            model(textures(32, i))
    return model.eval()


def distance(model: nn.Module, batches: list[torch.Tensor]) -> float:
    """Of the norms' inputs from the running statistics."""
    modules = dict(model.named_modules())
    total = 0.0
    for name, (mean, variance) in norm_statistics(model, batches).items():
        norm = modules[name]
        total += float(((mean - norm.running_mean).square() / norm.running_var).mean())
        total += float((variance.sqrt() / norm.running_var.sqrt() - 1).square().mean())
    return total


def test_norms_see_what_they_saw_in_training(net: nn.Module) -> None:
    state = {k: v.clone() for k, v in net.state_dict().items()}
    fitted = gbc.synthetic_batches(net, 8, shape=(3, 24, 24))
    assert len(fitted) == 8 and fitted[0].shape == (1, 3, 24, 24) and fitted[0].dtype == torch.float32
    noise = [pink_noise((8, 3, 24, 24), torch.Generator().manual_seed(0))]
    assert distance(net, fitted) < 0.1 * distance(net, noise)
    assert all(torch.equal(state[k], v) for k, v in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters()) and not net.training
    again = gbc.synthetic_batches(net, 8, shape=(3, 24, 24))
    assert all(torch.equal(a, b) for a, b in zip(fitted, again, strict=True))


def test_files_are_better_than_without_data(net: nn.Module, tmp_path: Path) -> None:
    gbc.calibrate(net, gbc.synthetic_batches(net, shape=(3, 24, 24)), tmp_path / "c.gbz", ratio=9)
    gbc.save_file(net.state_dict(), tmp_path / "d.gbz", ratio=9)
    x = textures(64, 1000)
    state = {k: v.clone() for k, v in net.state_dict().items()}
    errors = []
    with torch.no_grad():
        before = net(x)
        for name in ("c", "d"):
            gbc.load_into(net, tmp_path / f"{name}.gbz")
            errors.append(float((net(x) - before).square().sum() / (before - before.mean()).square().sum()))
        net.load_state_dict(state)
    assert errors[0] < 0.7 * errors[1], errors


def test_the_shape_follows_from_the_first_layer() -> None:
    images = nn.Sequential(nn.Conv2d(2, 4, 3, stride=8), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1))
    assert gbc.synthetic_batches(images, 2, steps=1)[0].shape == (1, 2, 128, 128)
    rows = nn.Sequential(nn.Linear(7, 4), nn.BatchNorm1d(4))
    assert gbc.synthetic_batches(rows, 3, steps=1)[2].shape == (1, 7)


def test_refuses_what_cannot_be() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.cells = nn.BatchNorm1d(4), nn.GRU(4, 4)

    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.fc(torch.ones_like(x)))

    good = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))
    untracked = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    for model, arguments, words in [
        (Mixed(), {}, r"cells is recurrent \(GRU\)"),
        (nn.LSTM(3, 3), {}, r"the model is recurrent \(LSTM\)"),
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), {}, "no batch norm"),
        (untracked, {}, "no batch norm"),
        (Blind(), {}, "do not see its input"),
        (good, {"shape": (3, 8, 8)}, "does not fit the model"),
        (good, {"shape": 8}, "shape must be that of one input"),
        (good, {"count": 1}, "count must be at least 2"),
        (good, {"count": 1000}, "count must be at most 64"),
        (nn.BatchNorm2d(3), {}, "does not follow from the model"),
        ("model.pt", {}, "must be a torch module"),
    ]:
        with pytest.raises(gbc.UsageError, match=words) as caught:
            gbc.synthetic_batches(model, **arguments)
        assert "\n" not in str(caught.value)
