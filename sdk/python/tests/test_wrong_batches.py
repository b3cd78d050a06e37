"""What is wrong with a model or with its batches is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 8))


def one_sentence(text: str) -> bool:
    return "\n" not in text and ";" in text and not text.endswith(".")


def yields(*batches: object) -> Iterator[object]:
    yield from batches


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        (lambda: yields(), "batches is empty"),
        (lambda: yields(torch.randn(9, 16), torch.randn(9, 15)), r"batch 1 \(a tensor \[9, 15\]\) does not fit"),
        (lambda: yields((torch.randn(9, 16), torch.randn(9, 16))), r"batch 0 \(tuple 0: \[9, 16\], 1: \[9, 16\]\)"),
        (lambda: yields({"x": torch.randn(9, 16)}), r"batch 0 \(dict x: \[9, 16\]\) does not fit"),
        (lambda: yields(torch.ones(3, 16, dtype=torch.long)), "batch 0 .* does not fit the model"),
        (lambda: yields("text"), "batch 0 .* does not fit the model"),
    ],
)
@pytest.mark.parametrize("importance", [False, True])
def test_batches(batches: object, words: str, importance: bool, tmp_path: Path) -> None:
    with pytest.raises(gbc.UsageError, match=words) as caught:
        gbc.collect(net(), batches(), importance=importance)  # type: ignore[operator]
    assert one_sentence(str(caught.value))
    with pytest.raises(gbc.UsageError, match=words):
        gbc.calibrate(net(), batches(), tmp_path / "x.gbz", ratio=8)  # type: ignore[operator]
    assert not list(tmp_path.iterdir())


def test_training_mode_is_left_meanwhile() -> None:
    model = nn.Sequential(nn.Linear(16, 24), nn.Dropout(0.5), nn.BatchNorm1d(24), nn.Linear(24, 8)).train()
    before = model[2].running_mean.clone()
    x = [torch.randn(40, 16)]
    with pytest.warns(UserWarning, match="the model is in training mode") as warned:
        trained = gbc.collect(model, x)
    assert one_sentence(str(warned[0].message))
    assert model.training and model[1].training and torch.equal(model[2].running_mean, before)
    evaluated = gbc.collect(model.eval(), x)
    for name, value in evaluated.tensors.items():
        np.testing.assert_array_equal(value, trained.tensors[name])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_activations_that_are_not_finite(bad: float) -> None:
    model = net()
    with torch.no_grad():
        model[0].bias[3] = bad
    with pytest.raises(gbc.GbzError, match="the inputs of 2 are not finite") as caught:
        gbc.collect(model, [torch.randn(9, 16)])
    assert caught.value.code == "non_finite" and one_sentence(str(caught.value))


def test_outputs_without_a_gradient() -> None:
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).detach()

    with pytest.raises(gbc.UsageError, match="no output of the model depends on its weights") as caught:
        gbc.collect(Detached(), [torch.randn(30, 16)])
    assert one_sentence(str(caught.value))
    assert gbc.collect(Detached(), [torch.randn(30, 16)], importance=False).tensors


class Shared(nn.Module):
    """One weight in two linear layers; in a transposed use of it, too."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)
        self.b.weight = self.a.weight
        if transposed:
            self.b = nn.Conv1d(16, 32, 2)
            self.b.weight = nn.Parameter(torch.randn(32, 16, 2))
            self.a = nn.Conv1d(16, 32, 2, groups=1)
            self.c = nn.Conv1d(32, 32, 2, groups=2)
            self.c.weight = self.b.weight
            self.a.weight = self.b.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.a, nn.Conv1d):
            return self.c(self.a(x))
        return self.b(torch.relu(self.a(x)))


def test_a_weight_that_two_modules_use(tmp_path: Path) -> None:
    model = Shared(False).eval()
    x = torch.randn(200, 32)
    found = gbc.collect(model, [x]).tensors
    with torch.no_grad():
        second = torch.relu(model.a(x))
    both = torch.cat([x, second])
    np.testing.assert_allclose(found["a.weight.input_moment"], (both.T @ both / 400).numpy(), rtol=1e-4, atol=1e-5)
    assert not any(name.startswith("b.weight") for name in found)
    # The file has the weight once, whatever calibrate() copies meanwhile.
    gbc.calibrate(model, [x, x + 1], tmp_path / "m.gbz", ratio=6)
    kinds = {tensor.name: tensor.kind for tensor in gbc.inspect(tmp_path / "m.gbz").tensors}
    assert kinds["b.weight"] == "tied" and kinds["a.weight"] == "quantized"


def test_a_weight_whose_modules_see_it_differently() -> None:
    model = Shared(True).eval()
    with pytest.warns(UserWarning, match="a.weight is used by modules with different inputs") as warned:
        found = gbc.collect(model, [torch.randn(8, 16, 40)]).tensors
    assert one_sentence(str(warned[0].message))
    assert "a.weight.input_moment" not in found and "a.weight.row_importance" in found


def test_fewer_samples_than_the_rank() -> None:
    with pytest.warns(UserWarning, match=r"fewer rows of inputs than their width: 0.weight \(5 of 16\)") as warned:
        gbc.collect(net(), [torch.randn(5, 16)])
    assert one_sentence(str(warned[0].message))
