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
def test_parameters_that_are_not_finite(bad: float) -> None:
    model = net()
    with torch.no_grad():
        model[0].bias[3] = bad
    with pytest.raises(gbc.GbzError, match="0.bias holds NaN or infinity") as caught:
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


class Words(nn.Module):
    """A language model with a head beside its embedding."""

    def __init__(self, words: int = 50, width: int = 64, tied: str = "no") -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.hidden = nn.Embedding(words, width), nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        if tied == "memory":
            self.head.weight = self.embed.weight
        elif tied == "copy":
            self.head.weight.data = self.embed.weight.data.clone()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.hidden(self.embed(ids))))


@pytest.mark.parametrize("call", ["collect", "calibrate"])
@pytest.mark.parametrize("bad", [50, -1])
def test_token_ids_beyond_the_vocabulary(call: str, bad: int, tmp_path: Path) -> None:
    batches = [torch.randint(0, 50, (4, 12)) for _ in range(5)]
    batches[3][2, 5] = bad
    with pytest.raises(gbc.UsageError, match=rf"batch 3 .*token id {bad} .*50") as caught:
        if call == "collect":
            gbc.collect(Words(), batches)
        else:
            gbc.calibrate(Words(), batches, tmp_path / "x.gbz", ratio=6)
    assert one_sentence(str(caught.value)) and not list(tmp_path.iterdir())


def test_batches_of_other_lengths(tmp_path: Path) -> None:
    batches = [torch.randint(0, 50, (count, length)) for count, length in ((4, 12), (1, 30), (7, 5), (2, 12), (3, 9))]
    model = Words().eval()
    seen: list[torch.Tensor] = []
    handle = model.head.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach().flatten(0, 1)))
    with torch.no_grad():
        for batch in batches:
            model(batch)
    handle.remove()
    rows = torch.cat(seen)
    found = gbc.collect(model, batches).tensors
    np.testing.assert_allclose(found["head.weight.input_moment"], rows.T @ rows / len(rows), rtol=1e-4, atol=1e-6)
    report = gbc.calibrate(model, batches, tmp_path / "x.gbz", ratio=6)
    assert report.file.target_met and report.error > 0


@pytest.mark.parametrize("tied", ["memory", "copy"])
def test_a_head_that_is_tied_by_a_copy(tied: str, tmp_path: Path) -> None:
    """Equal values are stored once, under the moments of the head and the importance of both uses."""
    batches = [torch.randint(0, 50, (8, 16)) for _ in range(5)]
    model = Words(tied=tied).eval()
    gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=6, outputs="scores")
    stored = {tensor.name: tensor.tied_to for tensor in gbc.inspect(tmp_path / "m.gbz").tensors}
    assert stored["head.weight"] == "embed.weight" or stored["embed.weight"] == "head.weight"
    other = Words().eval()
    gbc.load_into(other, tmp_path / "m.gbz")
    assert torch.equal(other.head.weight, other.embed.weight)


@pytest.mark.parametrize("tied", ["no", "memory"])
def test_sparse_gradients_of_large_embeddings_have_the_same_importance(tied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from gbcompress._calibrate import collect as _collect

    batches, model = [torch.randint(0, 50, (4, 12)) for _ in range(3)], Words(tied=tied).eval()
    monkeypatch.setattr(_collect, "_MOST_ROWS", 0)
    dense = _collect.row_importance(model, batches, scores=True).rows
    monkeypatch.setattr(_collect, "_TABLE", 1)
    sparse = _collect.row_importance(model, batches, scores=True).rows
    assert dense.keys() == sparse.keys() and not model.embed.sparse
    for name, squares in dense.items():
        torch.testing.assert_close(sparse[name], squares)


def test_the_file_of_a_copied_head_is_that_of_a_shared_one(tmp_path: Path) -> None:
    batches = [torch.randint(0, 50, (8, 16)) for _ in range(5)]
    statistics = gbc.collect(Words(tied="memory"), batches, outputs="scores")
    sizes = []
    for tied in "memory", "copy":
        state = Words(tied=tied).state_dict()
        report = gbc.save_file(state, tmp_path / f"{tied}.gbz", max_bytes=6000, statistics=statistics)
        sizes.append((report.file_bytes, {t.name: t.error for t in report.tensors if t.name == "embed.weight"}))
    assert sizes[0] == sizes[1]


def test_too_little_memory_is_said_before_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from gbcompress import _memory
    from gbcompress._calibrate import calibrate as _calibrate

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the model ran")

    model, batches = net(), [torch.randn(9, 16) for _ in range(5)]
    monkeypatch.setattr(_memory, "free_memory", lambda: 1000)
    for module in model:
        module.register_forward_pre_hook(never)
    words = r"calibration needs about \S+ GB of memory, and 1e-06 GB are free; give smaller batches, or blocks=True"
    with pytest.raises(gbc.GbzError, match=words) as caught:
        gbc.calibrate(model, batches, tmp_path / "x.gbz", ratio=8)
    assert caught.value.code == "limit" and not list(tmp_path.iterdir())
    # A copy of the weights, moments of inputs and of rows as sums and arrays, and two gradients of the largest.
    copies, moments, rows, gradients = 4 * 608, 2 * 4 * (16**2 + 24**2), 2 * 4 * (24**2 + 8**2), 8 * 384
    assert _calibrate._needed(model, True) == copies + moments + rows + gradients


def test_free_memory_is_that_of_the_control_group(tmp_path: Path) -> None:
    from gbcompress import _memory

    free = _memory.free_memory()
    assert free is None or 1 << 20 < free < 1 << 50
    for name, text in {"memory.max": "5000\n", "memory.current": "4000\n"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 700\nactive_file 50\nfile 900\n")
    assert _memory._group_memory(tmp_path) == 5000 - 4000 + 750
    (tmp_path / "memory.max").write_text("max\n")
    assert _memory._group_memory(tmp_path) is None
    assert _memory._group_memory(tmp_path / "none") is None
