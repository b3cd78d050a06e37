"""Exceptions of a model's forward and backward pass, and what ``loss`` returns, are told in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402


class Odd(Exception):
    pass


class Raises(nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.fc, self.error = nn.Linear(32, 8), error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error


def batches() -> list[torch.Tensor]:
    return [torch.randn(40, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(5)]


def one_sentence(text: str) -> bool:
    return "\n" not in text and not text.endswith(".")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Odd("too odd.\nmore"), "Odd: too odd;"),
        (KeyError("mask"), "KeyError: 'mask';"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero;"),
        (NotImplementedError(), "NotImplementedError;"),
        (ValueError("no"), "ValueError: no;"),
    ],
)
@pytest.mark.parametrize("importance", [False, True])
def test_forward(error: Exception, words: str, importance: bool, tmp_path: Path) -> None:
    for call in (
        lambda: gbc.collect(Raises(error), batches(), importance=importance),
        lambda: gbc.calibrate(Raises(error), batches(), tmp_path / "m.gbz", ratio=4, importance=importance),
    ):
        with pytest.raises(gbc.UsageError, match="batch . .* does not fit the model: " + words) as caught:
            call()
        assert one_sentence(str(caught.value)) and caught.value.__cause__ is error


class Backwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise AssertionError("only in training")


def test_backward(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Backwards.apply(self.fc(x))

    words = "the model's backward pass fails: AssertionError: only in training; give importance=False, which goes without it"
    with pytest.raises(gbc.UsageError, match=words):
        gbc.collect(Model(), batches())
    with pytest.raises(gbc.UsageError, match=words):
        gbc.collect(Model(), batches(), loss=lambda outputs, batch: outputs.sum())
    with pytest.raises(gbc.UsageError, match=words):
        gbc.calibrate(Model(), batches(), tmp_path / "m.gbz", ratio=4)
    assert gbc.collect(Model(), batches(), importance=False).tensors


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda outputs, batch: outputs.square(), r"loss must return a tensor of one number, got a tensor \[40, 8\]; add"),
        (lambda outputs, batch: 1.0, "loss must return a tensor of one number, got "),
        (lambda outputs, batch: outputs.detach().sum(), "loss returned a number without a gradient; compute it from"),
        (3, r"loss must be a function loss\(outputs, batch\), got "),
    ],
)
def test_loss(loss: Any, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words) as caught:
        gbc.collect(nn.Linear(32, 8), batches(), loss=loss)
    assert one_sentence(str(caught.value))
    for keep in (False, True):
        assert gbc.collect(nn.Linear(32, 8), batches(), loss=lambda y, _: y.square().sum((0, 1), keepdim=keep)).tensors
