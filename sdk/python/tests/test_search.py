"""What calibrate() tries, on which batches, and what it does where memory runs out."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from conftest import Run

torch = pytest.importorskip("torch")
from test_calibrate import Net, batches_of, error_of  # noqa: E402
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress import _core
from gbcompress._calibrate import evaluator as _evaluator
from gbcompress._calibrate import layer_sequence as _layer_sequence
from gbcompress._calibrate import norms as _norms
from gbcompress._calibrate import search as _search  # noqa: E402


def normed() -> nn.Module:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for i in range(4):
        layers += [nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).train()
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(16, 3, 12, 12))
    return model.eval()


def test_norms_are_moved_with_the_measured_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compared on the others: on the measured batches, to which they are fitted, they would look better."""
    model, seen = normed(), []
    batches = [torch.randn(4, 3, 12, 12) for _ in range(10)]
    call = _norms.called

    def recorded(net: nn.Module, batch: torch.Tensor, number: int) -> Any:
        seen.append(next(i for i, each in enumerate(batches) if each is batch))
        return call(net, batch, number)

    monkeypatch.setattr(_norms, "called", recorded)
    report = gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=7)
    assert set(seen) == set(range(8))
    # Of the original once; of the quantized model once for each file.
    corrected = len(report.candidates) - 1  # all but the file without data
    assert corrected > 3
    assert len(seen) % 8 == 0 and 8 * (1 + corrected) <= len(seen) <= 8 * (1 + 3 * corrected)


def test_inputs_of_a_layer_are_those_that_quantized_layers_give() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))
    batches = [torch.randn(16, 6) for _ in range(4)]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    sequence = _layer_sequence.LayerSequence(model, batches, lambda: model.load_state_dict(state))
    assert sequence.groups() == [["0.weight"], ["2.weight"]]
    sequence.begin()
    rounded = (4 * state["0.weight"]).round() / 4
    sequence.put("0.weight", rounded.numpy().tobytes())
    moment, cross, mean, mean_before = sequence.inputs("2.weight")
    moment, cross = moment.reshape(8, 8), cross.reshape(8, 8)
    rows = torch.cat(batches)
    before, now = ((rows @ weight.T + state["0.bias"]).relu() for weight in (state["0.weight"], rounded))
    np.testing.assert_allclose(moment, now.T @ now / len(rows), atol=1e-5)
    np.testing.assert_allclose(cross, (before - now).T @ now / len(rows), atol=1e-5)
    np.testing.assert_allclose(mean, now.mean(0), atol=1e-5)
    np.testing.assert_allclose(mean_before, before.mean(0), atol=1e-5)
    assert np.abs(cross).max() > 1e-3
    sequence.begin()
    assert np.abs(sequence.inputs("2.weight")[1]).max() < 1e-6


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, x + self.second(self.first(x).relu()))


class Blocks(nn.Module):
    """Residual blocks; with ``skip`` the last one sees the output of the first one, too."""

    def __init__(self, skip: bool) -> None:
        super().__init__()
        self.skip = skip
        self.front, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.blocks = nn.ModuleList(Residual() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = [self.front(x)]
        for block in self.blocks:
            last = self.skip and len(outputs) == len(self.blocks)
            outputs.append(block(outputs[-1] + outputs[1] if last else outputs[-1]))
        return cast(torch.Tensor, self.head(outputs[-1]))


@pytest.mark.parametrize("skip", [False, True])
def test_passes_begin_behind_blocks_that_are_done_with(skip: bool) -> None:
    torch.manual_seed(1)
    model = Blocks(skip)
    batches = [torch.randn(16, 6) for _ in range(3)]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    own, whole = (_layer_sequence.LayerSequence(model, batches, lambda: model.load_state_dict(state)) for _ in range(2))
    assert len(own._blocks) == (0 if skip else 4)
    whole._blocks, whole._behind = {}, {}
    assert own.groups() == whole.groups() and len(own.groups()) == 10
    for scale in (4, 2):
        found: list[list[Any]] = []
        for sequence in (own, whole):
            sequence.begin()
            found.append([])
            for (name,) in sequence.groups():
                found[-1].append(sequence.inputs(name))
                sequence.put(name, ((scale * state[name]).round() / scale).numpy().tobytes())
        for one, two in zip(*found, strict=True):
            for a, b in zip(one, two, strict=True):
                np.testing.assert_array_equal(a, b)
        assert np.abs(found[0][-1][1]).max() > 1e-2


class Repeated(nn.Module):
    """A block that is called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.front, self.blocks, self.head = nn.Linear(6, 8), nn.ModuleList([Residual()]), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.front(x)
        for _ in range(3):
            x = self.blocks[0](x)
        return cast(torch.Tensor, self.head(x))


class Recurrent(nn.Module):
    """Without a matrix whose inputs are known by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(6, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cast(torch.Tensor, self.net(x)[0])


@pytest.mark.parametrize("model", [Repeated(), Recurrent()], ids=["repeated", "recurrent"])
def test_models_without_blocks_or_groups_are_calibrated(model: nn.Module, tmp_path: Path) -> None:
    batches = [torch.randn(8, 5, 6) for _ in range(5)]
    report = gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=3, outputs="values")
    assert report.file.target_met


def test_a_forward_function_of_its_own_stays() -> None:
    model = Blocks(skip=False)
    block = model.blocks[1]
    own = block.forward = lambda x, inner=block.forward: inner(x)  # as accelerate does
    state = {name: value.clone() for name, value in model.state_dict().items()}
    sequence = _layer_sequence.LayerSequence(model, [torch.randn(4, 6)], lambda: model.load_state_dict(state))
    sequence.begin()
    sequence.inputs("head.weight")
    assert len(sequence._blocks) == 4
    assert block.forward is own
    assert "forward" not in model.blocks[0].__dict__


def test_layers_are_fitted_one_after_another(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mixed = torch.randn(3, 24)
    model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    batches = [torch.randn(32, 3) @ mixed + 0.1 * torch.randn(32, 24) for _ in range(10)]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=16)
    fitted = [name for name in report.candidates if name.endswith(", layer by layer")]
    assert len(fitted) == 1
    assert report.candidates[fitted[0]] < report.candidates[fitted[0].removesuffix(", layer by layer")]
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def correction_of(factor: float) -> tuple[dict[str, torch.Tensor], Callable[[], dict[str, torch.Tensor]]]:
    """The state of a network, and what corrects its norms after the first weights are multiplied."""
    model, batches = normed(), [torch.randn(4, 3, 12, 12) for _ in range(6)]
    before = _norms.norm_sums(model, batches)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        model[0].weight.mul_(factor)
    return state, lambda: _norms.corrected_norms(model, batches, before, state)


def test_corrected_norms_fit_the_integers_of_their_file(tmp_path: Path) -> None:
    """Those of other integers, even of the same candidate at nearly the same size, do not."""
    model, batches = normed(), [torch.randn(4, 3, 12, 12) for _ in range(10)]
    given = {k: v.clone() for k, v in model.state_dict().items()}
    before = _norms.norm_sums(model, batches[:8])
    file = tmp_path / "m.gbz"
    report = gbc.calibrate(model, batches, file, ratio=5)
    assert report.method != "data-free" and report.file.file_bytes == file.stat().st_size
    gbc.load_into(model, file)
    stored = {k: v.clone() for k, v in model.state_dict().items()}
    moved = _norms.corrected_norms(model, batches[:8], before, given)
    for name, value in _norms.folded_norms(model, given, moved).items():
        largest = float(value.abs().max())
        torch.testing.assert_close(stored[name], value, rtol=2**-9, atol=2**-16 * largest)
        assert not torch.equal(stored[name], given[name])


def test_folded_norms_compute_the_same(tmp_path: Path) -> None:
    model, x = normed(), torch.randn(4, 3, 12, 12)
    given = {k: v.clone() for k, v in model.state_dict().items()}
    wanted = model(x)
    folded = _norms.folded_state(model, given)
    assert torch.equal(folded["1.running_mean"], torch.zeros(16))
    assert not torch.equal(folded["1.weight"], given["1.weight"])
    assert torch.equal(given["1.running_mean"], model.state_dict()["1.running_mean"])
    model.load_state_dict(folded)
    torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-5)
    # Of other precision, without weights, and of two names: as they are.
    others = nn.Sequential(nn.BatchNorm1d(4).half(), nn.BatchNorm1d(4, affine=False), nn.BatchNorm1d(4))
    others.append(others[2])
    state = dict(others.state_dict())
    assert all(value is state[name] for name, value in _norms.folded_state(others, state).items())


def test_a_block_whose_output_the_model_cannot_take_elsewhere(tmp_path: Path) -> None:
    """Layers of a feed-forward part count as blocks, and no pass can begin behind the first of them."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
            self.body = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(x, x, x, need_weights=False)[0]
            return x + self.body(x)

    torch.manual_seed(0)
    model, batches = nn.Sequential(Block(), Block()), [torch.randn(6, 24, 32) for _ in range(5)]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    sequence = _layer_sequence.LayerSequence(model, batches, lambda: model.load_state_dict(state))
    assert "1.body.2.weight" in [name for group in sequence.groups() for name in group]
    report = gbc.calibrate(model, batches, tmp_path / "m.gbz", ratio=8)
    assert any(name.endswith("layer by layer") for name in report.candidates)


def test_a_correction_is_made_once() -> None:
    """What changes the inputs of the first norm alone changes the statistics of the first norm alone."""
    state, corrected = correction_of(1.5)
    moved = corrected()
    names = [name for name in moved if name.endswith("running_var")]
    assert len(names) > 1
    torch.testing.assert_close(moved[names[0]], 2.25 * state[names[0]], rtol=1e-3, atol=1e-5)
    for name in moved:
        if not name.startswith(names[0].rsplit(".", 1)[0] + "."):
            torch.testing.assert_close(moved[name], state[name], rtol=2e-3, atol=2e-3)


def test_minutes_stop_after_the_best_guess(tmp_path: Path) -> None:
    report = gbc.calibrate(Net(), batches_of(10, 64, (64,)), tmp_path / "c.gbz", ratio=10, minutes=1e-9)
    assert list(report.candidates) == ["data-free", "error feedback, steps by importance"]
    assert report.method == "error feedback, steps by importance"


def test_what_is_tried(tmp_path: Path) -> None:
    report = gbc.calibrate(Net(), batches_of(10, 64, (64,)), tmp_path / "c.gbz", ratio=10)
    names = list(report.candidates)
    first = "error feedback, steps by importance"
    assert names[:3] == ["data-free", first, f"{first}, moments shrunk by 25 %"]
    assert "two-sided error feedback, steps by importance" in names
    assert "steps by importance" in names and any(name.endswith("biases kept") for name in names)
    assert report.error == min(report.candidates.values())
    other = batches_of(1, 400, (64,), seed=5)[0]
    assert error_of(Net(), tmp_path / "c.gbz", other) < 2 * report.error


def test_cosines_stay_cosines(tmp_path: Path) -> None:
    """A Fourier basis takes fewer bytes than its integers under moments."""
    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.basis, self.head = nn.Conv1d(1, 128, 128, 32, bias=False), nn.Linear(128, 64)
            k, t = torch.arange(64)[:, None], torch.arange(128)[None]
            phase = 2 * torch.pi * k * t / 128
            self.basis.weight.data = torch.cat([phase.cos(), phase.sin()])[:, None] * torch.hann_window(128)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.basis(x).abs().mean(2))

    model = Spectrum()
    waves = list(torch.randn(6, 20, 1, 2000).cumsum(-1) / 30)
    gbc.calibrate(model, waves, tmp_path / "c.gbz", ratio=9)
    gbc.save_file(model.state_dict(), tmp_path / "d.gbz", ratio=9)
    for name in ("c.gbz", "d.gbz"):
        tensors = _core.File(str(tmp_path / name)).tensors()
        assert [tensor["name"] for tensor in tensors if tensor["axis"] >= 0] == ["basis.weight"]


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).detach()


def test_outputs_without_a_gradient(tmp_path: Path) -> None:
    """The advice of the message works."""
    batches = batches_of(10, 64, (64,))
    with pytest.raises(gbc.UsageError, match="give importance=False"):
        gbc.calibrate(Detached(), batches, tmp_path / "c.gbz", ratio=10)
    report = gbc.calibrate(Detached(), batches, tmp_path / "c.gbz", ratio=10, importance=False)
    assert "error feedback" in report.candidates and not any("importance" in name for name in report.candidates)
    assert report.error < report.candidates["data-free"]
    with pytest.raises(gbc.UsageError, match="importance must be True or False"):
        gbc.calibrate(Net(), batches, tmp_path / "x.gbz", ratio=10, importance=1)  # type: ignore[arg-type]


def test_further_sizes_try_what_was_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for a drop does not write all candidates at each of its sizes."""
    counts: list[int] = []
    best, error = _search.Search.best, _evaluator.TorchEvaluator.error

    def begun(self: Any, size: int) -> Any:
        counts.append(0)
        return best(self, size)

    def counted(self: Any, file: str) -> float:
        counts[-1] += 1
        return error(self, file)

    monkeypatch.setattr(_search.Search, "best", begun)
    monkeypatch.setattr(_evaluator.TorchEvaluator, "error", counted)
    held = batches_of(1, 500, (64,), seed=8)[0]
    model = Net()
    with torch.no_grad():
        labels = model(held).argmax(1)
    gbc.calibrate(
        model, batches_of(8, 64, (64,)), tmp_path / "c.gbz", max_drop=5,
        evaluate=lambda net: 100 * float((net(held).argmax(1) == labels).float().mean()),
    )  # fmt: skip
    assert len(counts) > 4 and counts[0] >= 7 and counts[1:] == [3] * (len(counts) - 1)


def test_progress_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, int] = {}

    def tqdm(items: Iterable[Any], desc: str, disable: bool | None) -> Iterator[Any]:
        assert disable is None  # on a terminal alone
        for item in items:
            shown[desc] = shown.get(desc, 0) + 1
            yield item

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=tqdm))
    batches = batches_of(5, 80, (64,))
    report = gbc.calibrate(Net(), batches, tmp_path / "c.gbz", ratio=10)
    assert shown["gradients of batches"] == 4
    assert shown["calibration files"] in (len(report.candidates), len(report.candidates) - 1)
    gbc.collect(Net(), batches, importance=False)
    assert shown["moments of batches"] == 5
    monkeypatch.setitem(sys.modules, "tqdm", None)  # not installed
    gbc.collect(Net(), batches)


WORDS = "CUDA out of memory. Tried to allocate 2.00 GiB."


class Full(nn.Module):
    """Runs out of memory in its n-th call."""

    def __init__(self, calls: int, error: Exception) -> None:
        super().__init__()
        self.net, self.calls, self.error = Net(), calls, error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls -= 1
        if self.calls == 0:
            raise self.error
        return self.net(x)


@pytest.mark.parametrize("error", [
    torch.OutOfMemoryError(WORDS),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes"),
])  # fmt: skip
@pytest.mark.parametrize("calls", [2, 6, 9])  # gradients, outputs of the original, candidates
def test_memory_runs_out(error: Exception, calls: int, tmp_path: Path) -> None:
    model = Full(calls, error)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(gbc.GbzError, match="memory ran out: .*; give smaller batches, or blocks=True") as caught:
        gbc.calibrate(model, batches_of(5, 80, (64,)), tmp_path / "c.gbz", ratio=10)
    assert caught.value.code == "limit" and "\n" not in str(caught.value)
    assert not isinstance(caught.value, gbc.UsageError)
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
    assert not list(tmp_path.iterdir())
    with pytest.raises(gbc.GbzError, match="memory ran out: .*importance=False saves"):
        gbc.collect(Full(2, error), batches_of(5, 80, (64,)))


def test_the_command_line_writes_the_same_bytes(program: Run, tmp_path: Path) -> None:
    from safetensors.torch import save_file as save_safetensors

    model = Net()
    found = gbc.collect(model, batches_of(4, 100, (64,)))
    lstm = nn.LSTM(12, 24)
    for name, net, statistics in (
        ("net", model, found),
        ("lstm", lstm, gbc.collect(lstm, [torch.randn(30, 8, 12) for _ in range(2)])),
    ):
        file, of_it = tmp_path / f"{name}.safetensors", tmp_path / f"{name}-statistics.safetensors"
        save_safetensors(net.state_dict(), file)
        statistics.save(of_it)
        program("compress", file, "--ratio", "8", "--statistics", of_it, "-o", tmp_path / f"{name}-cli.gbz")
        gbc.save_file(net.state_dict(), tmp_path / f"{name}.gbz", ratio=8, statistics=statistics)
        assert (tmp_path / f"{name}.gbz").read_bytes() == (tmp_path / f"{name}-cli.gbz").read_bytes()
        gbc.save_file(net.state_dict(), tmp_path / f"{name}-plain.gbz", ratio=8)
        assert (tmp_path / f"{name}.gbz").read_bytes() != (tmp_path / f"{name}-plain.gbz").read_bytes()


def test_held_out_batches_choose(tmp_path: Path) -> None:
    """Moments of a batch that is like no other one are worse than none."""
    batches = [torch.zeros(200, 64) for _ in range(4)]
    for batch in batches:
        batch[:, :2] = 10 * torch.randn(200, 2)
    report = gbc.calibrate(Net(), [*batches, torch.randn(200, 64)], tmp_path / "c.gbz", ratio=10)
    worst = max(report.candidates.values())
    assert report.error < worst and np.isfinite(worst)
