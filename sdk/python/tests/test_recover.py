"""calibrate(recover=N): vectors that are trained under a file's own integers."""

from __future__ import annotations

import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from test_calibrate import Net, batches_of  # noqa: E402
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress import _core
from gbcompress._calibrate import parts as _parts
from gbcompress._calibrate import recover as _recover  # noqa: E402

WORDS, WIDTH = 61, 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.body = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.body(self.second(x))


class Language(nn.Module):
    """A transformer with a tied head. Its blocks decide what it predicts, not the token itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight
        with torch.no_grad():
            self.embedding.weight *= 0.15
            for name, parameter in self.named_parameters():
                if parameter.ndim == 1:
                    parameter += 0.1 * torch.randn_like(parameter)
                parameter *= 3 if "body" in name and parameter.ndim == 2 or name.endswith("norm.weight") else 1

    def forward(self, input_ids: torch.Tensor) -> Any:
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        return types.SimpleNamespace(logits=self.head(self.norm(x)))


def sentences(count: int = 10) -> list[dict[str, torch.Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [{"input_ids": torch.randint(WORDS, (6, 24), generator=draw)} for _ in range(count)]


def integers_of(file: Path) -> dict[str, np.ndarray]:
    """Decoded matrices."""
    return {name: value for name, value in gbc.load_file(file).items() if value.ndim > 1}


def divergence(model: nn.Module, file: Path, batches: list[dict[str, torch.Tensor]]) -> float:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    with torch.no_grad():
        before = [model(**batch).logits.log_softmax(-1) for batch in batches]
        gbc.load_into(model, file)
        now = [model(**batch).logits.log_softmax(-1) for batch in batches]
        model.load_state_dict(state)
    return float(np.mean([float((b.exp() * (b - n)).sum(-1).mean()) for b, n in zip(before, now, strict=True)]))


def test_divergence_falls_under_the_same_integers(tmp_path: Path) -> None:
    model, batches, plain, better = Language(), sentences(), tmp_path / "a.gbz", tmp_path / "b.gbz"
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.embedding.weight.requires_grad_(False)
    size = 9_000
    report = gbc.calibrate(model, batches, better, max_bytes=size, recover=100)
    found = report.recovery
    assert found is not None and found.kept and found.steps == 100
    assert report.error == found.after < 0.9 * found.before
    assert report.file.file_bytes == better.stat().st_size <= size
    assert report.file.identity == gbc.inspect(better).identity
    # The file holds the values that were measured, and the model is as it was.
    assert divergence(model, better, batches[-2:]) == pytest.approx(report.error, rel=1e-3)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not model.embedding.weight.requires_grad and model.norm.weight.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    # Samples of neither part.
    room = min(int(_recover._ROOM * size), sum(p.numel() for p in model.parameters() if p.ndim == 1) // 8)
    gbc.calibrate(model, batches, plain, max_bytes=size - room)
    first, second = integers_of(plain), integers_of(better)
    assert all(np.array_equal(first[name], second[name]) for name in first) and len(first) > 8
    assert divergence(model, better, sentences(14)[10:]) < 0.9 * divergence(model, plain, sentences(14)[10:])


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    files = [tmp_path / "a.gbz", tmp_path / "b.gbz"]
    for file in files:
        report = gbc.calibrate(Language(), sentences(), file, ratio=11, recover=10)
        assert report.recovery is not None and report.recovery.kept
    assert files[0].read_bytes() == files[1].read_bytes()


def test_values_and_batch_norms(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 20))
    batches = batches_of(10, 64, (64,))
    for batch in batches:
        model.train()(batch)
    report = gbc.calibrate(model.eval(), batches, tmp_path / "m.gbz", ratio=10, recover=40, outputs="values")
    assert report.recovery is not None and report.recovery.kept and report.error < report.recovery.before


def test_only_measured_batches_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batches, seen = Net(), batches_of(10, 64, (64,)), set()
    call = _recover.call

    def recorded(net: nn.Module, batch: torch.Tensor, number: int) -> Any:
        seen.add(next(i for i, each in enumerate(batches) if each.data_ptr() == batch.data_ptr()))
        return call(net, batch, number)

    monkeypatch.setattr(_recover, "call", recorded)
    gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=8, recover=16)
    assert seen == set(range(8))


def test_batches_are_run_in_parts_with_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch, teacher = Language().eval(), sentences(1)[0], Language().eval()
    original = {name: value.clone() for name, value in model.state_dict().items()}
    held: Any = types.SimpleNamespace(scores=False)
    evaluator: Any = types.SimpleNamespace(model=model, state=original, measured=[batch], held=held, end=None)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "norm.bias":
                parameter.mul_(1.05)
    gradients, most = [], []
    for limit in 1 << 26, 2 * 24 * WORDS:
        monkeypatch.setattr(_parts, "SCORES", limit)
        trainer = _recover.Trainer(evaluator, 1)
        parts = trainer._parts.of(batch)
        most.append(max(len(part["input_ids"]) for part in parts))
        with _recover._trainable(model, trainer.vectors):
            loss = trainer._step(batch)
            gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert most == [6, 2]
    log_p = teacher(**batch).logits.detach().log_softmax(-1)
    expected = (log_p.exp() * (log_p - model(**batch).logits.log_softmax(-1))).sum(-1).mean()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-4)
    vectors = [p for p in model.parameters() if p.ndim == 1]
    exact = torch.autograd.grad(expected, vectors)
    for each in gradients:
        assert len(each) == len(vectors)
        for one, other in zip(each, exact, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_what_is_not_finite_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recover, "_RATE", float("inf"))
    with pytest.warns(UserWarning, match="recovery did no step"):
        report = gbc.calibrate(Net(), batches_of(10, 64, (64,)), tmp_path / "m.gbz", ratio=8, recover=5)
    assert report.recovery is not None and not report.recovery.kept and report.recovery.steps == 0
    assert report.error == report.recovery.before == min(report.candidates.values())
    assert gbc.load_file(tmp_path / "m.gbz").keys() == Net().state_dict().keys()


def test_worse_vectors_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recover, "_RATE", 5.0)
    report = gbc.calibrate(Net(), batches_of(10, 64, (64,)), tmp_path / "m.gbz", ratio=8, recover=4)
    found = report.recovery
    assert found is not None and not found.kept and found.after > found.before == report.error


def test_minutes_hold(tmp_path: Path) -> None:
    start = time.monotonic()
    report = gbc.calibrate(Net(), batches_of(10, 64, (64,)), tmp_path / "m.gbz", ratio=8, recover=10**6, minutes=0.1)
    assert time.monotonic() - start < 30
    assert report.recovery is not None and 0 < report.recovery.steps < 10**6


def test_a_drop_is_kept(tmp_path: Path) -> None:
    model = Net()
    batches = batches_of(10, 64, (64,))
    labels = model(batches[0]).argmax(1)

    def accuracy(net: nn.Module) -> float:
        return 100 * float((net(batches[0]).argmax(1) == labels).float().mean())

    report = gbc.calibrate(model, batches, tmp_path / "m.gbz", max_drop=5, evaluate=accuracy, recover=20)
    assert report.recovery is not None and report.quality is not None and report.quality >= 95


def test_refuses(tmp_path: Path) -> None:
    plain = nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU(), nn.Linear(32, 8, bias=False))
    x, out = batches_of(5, 64, (64,)), tmp_path / "x.gbz"

    class Detached(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).detach()

    for model, batches, options, words in [
        (plain, x, {"recover": 5}, r"recover=5 trains norm weights and biases, and the model has no parameter of one"),
        (Net(), x[:1], {"recover": 5}, "got a single batch"),
        (Net(), x, {"recover": -1}, "recover must be at least 0, got -1"),
        (Net(), x, {"recover": 1.5}, "recover must be an integer"),
        (Net(), x, {"recover": 5, "blocks": "body"}, "recover has no effect on blocks"),
        (Detached(), x, {"recover": 5, "importance": False}, "no output of the model depends on its vectors"),
    ]:
        with pytest.raises(gbc.UsageError, match=words):
            gbc.calibrate(model, batches, out, ratio=8, **options)  # type: ignore[arg-type]
    assert not out.exists()


def test_file_of_other_vectors_has_the_same_tensors(tmp_path: Path) -> None:
    gbc.calibrate(Language(), sentences(), tmp_path / "m.gbz", ratio=11, recover=10)
    file = _core.File(str(tmp_path / "m.gbz"), None)
    tied = [entry for entry in file.tensors() if entry["tied_to"] is not None]
    assert [entry["name"] for entry in tied] == ["head.weight"]
    assert {entry["name"] for entry in file.tensors()} == set(Language().state_dict())
