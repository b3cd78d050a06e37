"""Statistics of PyTorch models, and files calibrated under them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._calibrate import collect as _collect
from gbcompress._calibrate import evaluator as _evaluator  # noqa: E402


def batches_of(n: int, count: int, shape: tuple[int, ...], seed: int = 0) -> list[torch.Tensor]:
    """Inputs that lie near a subspace of a quarter of their dimensions."""
    generator = torch.Generator().manual_seed(seed)
    width = shape[-1]
    mix = torch.randn(max(1, width // 4), width, generator=torch.Generator().manual_seed(99))
    low = torch.randn(n, count, *shape[:-1], mix.shape[0], generator=generator)
    return list(low @ mix + 0.05 * torch.randn(n, count, *shape, generator=generator))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64), nn.GELU())
        self.head = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def error_of(model: nn.Module, file: Path, batch: torch.Tensor) -> float:
    """Of the outputs, over their variance; the model gets its weights back."""
    state = {k: v.clone() for k, v in model.state_dict().items()}
    model.eval()
    with torch.no_grad():
        before = model(batch)
        gbc.load_into(model, file)
        now = model(batch)
        model.load_state_dict(state)
    return float((now - before).square().sum() / (before - before.mean()).square().sum())


def test_moments_are_those_of_the_inputs() -> None:
    model = Net()
    batches = batches_of(3, 50, (64,))
    found = gbc.collect(model, batches)
    x = torch.cat(batches)
    np.testing.assert_allclose(
        found.tensors["body.0.weight.input_moment"], (x.T @ x / len(x)).numpy(), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        found.tensors["body.0.weight.input_mean"], x.mean(0).numpy(), rtol=1e-4, atol=1e-4
    )
    assert found.samples == 3
    assert set(found.tensors) == {
        f"{name}.weight.{kind}"
        for name in ("body.0", "body.2", "head")
        for kind in ("input_moment", "input_mean", "output_moment", "row_importance")
    }


def test_importance_is_the_squared_gradient_in_expectation() -> None:
    # The outputs of a linear layer have the gradient x by each row: E[sum dW^2] of a row is E[|x|^2].
    model = nn.Linear(8, 3, bias=False)
    batches = [torch.randn(1, 8, generator=torch.Generator().manual_seed(i)) for i in range(20)]
    found = gbc.collect(model, batches).tensors["weight.row_importance"]
    expected = float(torch.cat(batches).square().sum(1).mean())
    np.testing.assert_allclose(found, [expected] * 3, rtol=1e-5)


def test_scores_have_the_gradient_of_their_signed_sum() -> None:
    torch.manual_seed(0)
    logits = (3 * torch.randn(5, 7, 40)).requires_grad_()
    found = _collect._signed_scores(logits, np.random.Generator(np.random.Philox(key=3)))
    signs = _collect._signs(logits, np.random.Generator(np.random.Philox(key=3)))
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    scores = logits.log_softmax(-1)
    (scores * (scores.detach() / 2).exp() * signs).sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(found, logits.grad)


def test_passes_end_at_the_last_matrix_where_all_are_seen() -> None:
    class Experts(nn.Module):
        """Of three experts those up to the first number are called."""

        def __init__(self, every: bool) -> None:
            super().__init__()
            self.experts, self.every, self.whole = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), every, 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for expert in self.experts[: 3 if self.every else 1 + int(x[0, 0])]:
                x = x + expert(x)
            self.whole += 1
            return x

    batches = [torch.cat([torch.full((16, 1), float(i)), torch.randn(16, 3)], 1) for i in (0, 2, 2, 0, 1)]
    some, every = Experts(every=False), Experts(every=True)
    found = [gbc.collect(model, batches, importance=False, outputs="values").tensors for model in (some, every)]
    assert all(f"experts.{i}.weight.input_moment" in each for each in found for i in range(3))
    assert (some.whole, every.whole) == (4, 1)  # the third pass ends at the last expert


def test_few_batches_of_a_large_model_are_run_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    batches = [torch.randn(32, 8) for _ in range(6)]
    monkeypatch.setattr(_collect, "_BACKWARD", 1.5 * 32 * sum(p.numel() for p in model.parameters()))
    found = _collect.row_importance(model, batches)
    assert found.batches == 2
    statistics = gbc.collect(model, batches, outputs="values").tensors
    rows = torch.cat(batches)
    np.testing.assert_allclose(statistics["0.weight.input_moment"], rows.T @ rows / len(rows), atol=1e-5)
    np.testing.assert_allclose(statistics["0.weight.row_importance"], found.means["0.weight"], rtol=1e-5)


@pytest.mark.parametrize("options", [
    {"padding": 1}, {"stride": 2, "dilation": 2}, {"groups": 2, "padding": "same"},
    {"padding": 2, "padding_mode": "reflect"},
])  # fmt: skip
def test_rows_of_convolutions_give_their_outputs(options: dict[str, object]) -> None:
    from gbcompress._calibrate.moments import convolution_rows

    torch.manual_seed(1)
    conv = nn.Conv2d(4, 6, (3, 2), bias=False, **options)  # type: ignore[arg-type]
    x = torch.randn(2, 4, 9, 8)
    rows = convolution_rows(conv, x)  # [groups, positions, in]
    groups = conv.groups
    weight = conv.weight.flatten(1).reshape(groups, 6 // groups, -1)
    out = torch.einsum("gpi,goi->gop", rows, weight)
    expected = conv(x).transpose(0, 1).flatten(1).reshape(groups, 6 // groups, -1)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_have_joint_moments(kind: str) -> None:
    torch.manual_seed(2)
    layer = getattr(nn, kind)(5, 7, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(3, 11, 5)
    found = gbc.collect(layer, [x]).tensors
    moment = found["weight_ih_l0|weight_hh_l0.input_moment"]
    assert moment.shape == (12, 12)
    np.testing.assert_allclose(moment[:5, :5], (x.reshape(-1, 5).T @ x.reshape(-1, 5) / 33).numpy(), rtol=1e-4)
    second = found["weight_ih_l1_reverse|weight_hh_l1_reverse.input_moment"]
    assert second.shape == (21, 21)
    # The hidden states before each step, of the direction that runs backwards.
    with torch.no_grad():
        own = layer(x)[0][..., 7:]
    before = torch.cat([own[:, 1:], torch.zeros(3, 1, 7)], 1).reshape(-1, 7)
    np.testing.assert_allclose(second[14:, 14:], (before.T @ before / 33).numpy(), rtol=1e-3, atol=1e-5)


def test_calibrated_files_have_less_error_at_the_same_size(tmp_path: Path) -> None:
    model = Net()
    report = gbc.calibrate(model, batches_of(10, 64, (64,)), tmp_path / "c.gbz", ratio=10)
    gbc.save_file(model.state_dict(), tmp_path / "d.gbz", ratio=10)
    other = batches_of(1, 400, (64,), seed=5)[0]
    tuned, plain = error_of(model, tmp_path / "c.gbz", other), error_of(model, tmp_path / "d.gbz", other)
    assert (tmp_path / "c.gbz").stat().st_size <= (tmp_path / "d.gbz").stat().st_size * 1.02
    assert tuned < 0.6 * plain
    assert report.error == min(report.candidates.values())
    assert report.method != "data-free" and "data-free" in report.candidates
    assert report.file.file_bytes == (tmp_path / "c.gbz").stat().st_size


def test_the_model_is_as_it_was(tmp_path: Path) -> None:
    model = Net().train()
    model.head.weight.requires_grad_(False)
    model.head.bias.grad = torch.ones(16)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    gbc.calibrate(model, batches_of(4, 32, (64,)), tmp_path / "c.gbz", ratio=10)
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
    assert model.training and model.body.training
    assert not model.head.weight.requires_grad and model.body[0].weight.requires_grad
    assert torch.equal(model.head.bias.grad, torch.ones(16)) and model.body[0].weight.grad is None
    assert not list(tmp_path.glob(".gbcompress*"))


def test_statistics_give_the_same_file_from_memory_and_disk(tmp_path: Path) -> None:
    model = Net()
    found = gbc.collect(model, batches_of(4, 50, (64,)))
    found.save(tmp_path / "s.safetensors")
    sources = [found, found.tensors, tmp_path / "s.safetensors", gbc.Statistics.load(tmp_path / "s.safetensors")]
    for i, source in enumerate(sources):
        gbc.save_file(model.state_dict(), tmp_path / f"{i}.gbz", ratio=8, statistics=source)
    files = {(tmp_path / f"{i}.gbz").read_bytes() for i in range(4)}
    assert len(files) == 1
    gbc.save_file(model.state_dict(), tmp_path / "plain.gbz", ratio=8)
    assert (tmp_path / "plain.gbz").read_bytes() not in files


def test_norms_are_corrected(tmp_path: Path) -> None:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    x = [torch.randn(16, 3, 12, 12) for _ in range(6)]
    model.train()
    with torch.no_grad():
        for batch in x:
            model(batch)
    report = gbc.calibrate(model, x, tmp_path / "c.gbz", ratio=7)
    assert report.method != "data-free" and report.error < report.candidates["data-free"]
    gbc.save_file(model.state_dict(), tmp_path / "plain.gbz", ratio=7)
    norms = gbc.load_file(tmp_path / "c.gbz"), gbc.load_file(tmp_path / "plain.gbz")
    assert not np.array_equal(norms[0]["1.bias"], norms[1]["1.bias"])
    assert error_of(model, tmp_path / "c.gbz", x[-1]) == pytest.approx(report.error, rel=1e-3)


def test_arguments_may_be_tuples_and_dicts(tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.table = nn.Linear(16, 64), nn.Embedding(50, 64)

        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": self.a(x) + self.table(ids)}

    model = Two()
    x, ids = torch.randn(20, 16), torch.randint(0, 50, (20,))
    as_tuple = gbc.collect(model, [(x, ids)])
    as_dict = gbc.collect(model, [{"x": x, "ids": ids}])
    assert as_tuple.tensors.keys() == as_dict.tensors.keys()
    for name, value in as_tuple.tensors.items():
        np.testing.assert_array_equal(value, as_dict.tensors[name])
    # Rows of a table that no sample has matter as well.
    assert as_tuple.tensors["table.weight.row_importance"].min() > 0
    gbc.save_file(model.state_dict(), tmp_path / "t.gbz", ratio=6, statistics=as_tuple)


def test_a_transformer_is_seen(tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    found = gbc.collect(model, [torch.randn(40, 8, 32) for _ in range(3)])
    for layer in range(2):
        assert found.tensors[f"layers.{layer}.self_attn.in_proj_weight.input_moment"].shape == (32, 32)
        assert found.tensors[f"layers.{layer}.linear2.weight.input_moment"].shape == (64, 64)
        assert f"layers.{layer}.self_attn.out_proj.weight.row_importance" in found.tensors
    gbc.save_file(model.state_dict(), tmp_path / "t.gbz", ratio=8, statistics=found)


def test_max_drop_finds_a_small_file(tmp_path: Path) -> None:
    model = Net()
    held = batches_of(1, 500, (64,), seed=8)[0]
    with torch.no_grad():
        labels = model(held).argmax(1)

    def accuracy(net: nn.Module) -> float:
        with torch.no_grad():
            return 100 * float((net(held).argmax(1) == labels).float().mean())

    report = gbc.calibrate(
        model, batches_of(8, 64, (64,)), tmp_path / "c.gbz", max_drop=5, evaluate=accuracy
    )
    assert report.reference == 100 and report.quality is not None and report.quality >= 95
    state = {k: v.clone() for k, v in model.state_dict().items()}
    gbc.load_into(model, tmp_path / "c.gbz")
    assert accuracy(model) == report.quality
    model.load_state_dict(state)
    assert report.file.ratio > 6


def test_the_target_of_a_drop_is_the_drop(tmp_path: Path) -> None:
    """No warning speaks of a size that the search tried, nor is one given for the smallest file."""
    model, x = Net(), batches_of(4, 64, (64,))
    modes: list[tuple[bool, bool]] = []

    def constant(net: nn.Module) -> float:
        modes.append((torch.is_grad_enabled(), net.training))
        net.eval()
        return 0.97

    model.train()
    with warnings.catch_warnings():
        warnings.simplefilter("error", gbc.TargetNotMet)
        report = gbc.calibrate(model, x, tmp_path / "a.gbz", max_drop=0.01, evaluate=constant)
    assert report.file.target_met and report.file.target_note == ""
    assert model.training and set(modes) == {(False, True)}

    def strict(net: nn.Module) -> float:
        return -sum(float(p.detach().double().square().sum()) for p in net.parameters())

    with pytest.warns(gbc.TargetNotMet, match=r"max_drop=0 is exceeded: the quality drop is .*half of the") as caught:
        report = gbc.calibrate(model, x, tmp_path / "b.gbz", max_drop=0, evaluate=drop_of(strict, model))
    assert sum(issubclass(each.category, gbc.TargetNotMet) for each in caught) == 1
    assert not report.file.target_met and report.file.target_note == str(caught[-1].message)


def drop_of(quality: Callable[[nn.Module], float], model: nn.Module) -> Callable[[nn.Module], float]:
    """Minus the difference from the model's own quality, below -1."""
    own = quality(model)
    return lambda net: -1 - abs(quality(net) - own)


@pytest.mark.parametrize(
    ("value", "max_drop", "words"),
    [
        (0.97, 1, r"max_drop=1 is in units of evaluate, which returned 0.97"),
        (0.97, 0.97, "every model is within it; give a smaller one, such as max_drop=0.0097"),
        (0.0, 0.01, "evaluate returned 0 for the model as given.* or give ratio or max_bytes"),
        (float("nan"), 0.01, "finite number, got nan"),
        (None, 0.01, "evaluate must return a number, got None"),
        (0.97, -0.1, "max_drop must be at least 0, got -0.1"),
    ],
)
def test_drops_that_say_nothing(tmp_path: Path, value: object, max_drop: float, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.calibrate(
            Net(), batches_of(2, 64, (64,)), tmp_path / "x.gbz", max_drop=max_drop, evaluate=lambda net: value
        )
    assert not list(tmp_path.iterdir())


def test_refuses_what_cannot_be(tmp_path: Path) -> None:
    model, x = Net(), [torch.randn(8, 64)]
    out = tmp_path / "x.gbz"
    for call, words in [
        (lambda: gbc.calibrate(model, [], out, ratio=8), "empty"),
        (lambda: gbc.calibrate(model, iter(()), out, ratio=8), "empty"),
        (lambda: gbc.calibrate(model, x[0], out, ratio=8), "write \\[batch\\]"),
        (lambda: gbc.calibrate(model, x, out), "give one of"),
        (lambda: gbc.calibrate(model, x, out, ratio=8, bits=4), "ratio and bits"),
        (lambda: gbc.calibrate(model, x, out, bits=32), "bits must be below the 32 bits"),
        (lambda: gbc.calibrate(model, x, out, ratio=0.5), "ratio must be above 1, got 0.5"),
        (lambda: gbc.calibrate(model, x, out, max_drop=1), "max_drop needs evaluate"),
        (lambda: gbc.calibrate(model.state_dict(), x, out, ratio=8), "torch module"),
        (lambda: gbc.collect(nn.ReLU(), x), "no parameters"),
        (lambda: gbc.save_file(model.state_dict(), out, ratio=8, statistics=3), "statistics"),
        (lambda: gbc.save_file(model.state_dict(), out, lossless=True, statistics={}), "statistics"),
        (
            lambda: gbc.save_file(
                model.state_dict(), out, ratio=8, statistics={"y.input_mean": np.ones(3, np.float32)}
            ),
            "no such tensor",
        ),
    ]:
        with pytest.raises(gbc.UsageError, match=words):
            call()
    with pytest.raises(gbc.ShapeMismatch, match="input_moment"):
        wrong = {"head.weight.input_moment": np.eye(5, dtype=np.float32)}
        gbc.save_file(model.state_dict(), out, ratio=8, statistics=wrong)
    with pytest.raises(gbc.GbzError, match="not finite") as caught:
        gbc.collect(model, [torch.full((4, 64), float("nan"))])
    assert caught.value.code == "non_finite"
    assert not out.exists()


def test_warns_of_layers_that_nothing_reached() -> None:
    model = Net()
    model.extra = nn.Linear(4, 4)
    with pytest.warns(UserWarning, match="extra.weight"):
        gbc.collect(model, batches_of(2, 200, (64,)))


def test_warns_of_few_samples() -> None:
    with pytest.warns(UserWarning, match=r"8 of 64"):
        gbc.collect(Net(), [torch.randn(8, 64)])


def test_layers_hold_in_calibrated_files(tmp_path: Path) -> None:
    model, batches = Net(), batches_of(10, 64, (64,))
    plain = gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=8).file
    own = gbc.calibrate(model, batches, tmp_path / "l.gbz", ratio=8, layers={"body.0.weight": {"max_error": 1e-4}}).file
    errors = [{tensor.name: tensor.error for tensor in file.tensors} for file in (plain, own)]
    assert errors[0]["body.0.weight"] > 1e-4 >= errors[1]["body.0.weight"] > 0
    assert own.target_met and errors[1]["body.2.weight"] > errors[0]["body.2.weight"]
    with pytest.raises(gbc.UsageError, match="layers has no effect on blocks"):
        gbc.calibrate(model, batches, tmp_path / "b.gbz", ratio=8, blocks=True, layers={"body.0.weight": {"bits": 4}})
    with pytest.raises(gbc.UsageError, match=r"layers\['9.weight'\] matches no tensor"):
        gbc.calibrate(model, batches, tmp_path / "b.gbz", ratio=8, layers={"9.weight": {"bits": 4}})


def test_scores_of_many_classes_lie_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In parts and from a file, errors are those of all scores in memory."""
    from gbcompress._calibrate import parts as _parts
    from gbcompress._calibrate import spilled as _spilled
    from test_recover import Language, sentences

    model, batches = Language().eval(), sentences(5)
    held = _evaluator.Held(model, batches, 0, lambda: True, str(tmp_path))
    monkeypatch.setattr(_parts, "SCORES", 1000)
    monkeypatch.setattr(_spilled, "_IN_MEMORY", 5000)
    parted = _evaluator.Held(model, batches, 0, lambda: True, str(tmp_path))
    assert len(parted.batches) > len(held.batches) and not list(tmp_path.iterdir())
    assert parted.originals._file is not None and held.originals._file is None
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    assert parted.error(model) == pytest.approx(held.error(model), rel=1e-5)
    assert held.error(model) > 1e-3
