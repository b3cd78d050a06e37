"""prepare(): what training through it makes of a model, and what its file holds."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from conftest import Run
from rings import ADAM, accuracy, net, prepared, train

import gbcompress as gbc

torch = pytest.importorskip("torch")
nn = torch.nn


def test_the_model_learns_and_is_what_its_file_holds(program: Run, folder: Path) -> None:
    model, optimizer, c = prepared()
    train(model, optimizer, 400)
    assert accuracy(model) > 0.97
    size = c.save(folder / "m.gbz", metadata={"who": "me"})
    assert size == (folder / "m.gbz").stat().st_size < 1300
    assert sum(p.numel() * 4 for p in model.parameters()) > 4 * size
    loaded = gbc.load_file(folder / "m.gbz", framework="torch")
    assert list(loaded) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded[name]), name
    assert gbc.inspect(folder / "m.gbz").metadata == {"who": "me"}
    program("expand", folder / "m.gbz", "-o", folder / "m.safetensors")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        c.save(folder / "m.gbz")


def test_a_higher_rate_weight_makes_a_smaller_file() -> None:
    sizes = []
    for rate_weight in (1e-4, 0.05, 1.0):
        model, optimizer, c = prepared(rate_weight=rate_weight)
        train(model, optimizer, 400)
        sizes.append(c.bytes())
    assert sizes[0] > 1.5 * sizes[1] > 1.5 * 1.5 * sizes[2]


def test_report_accounts_for_the_file() -> None:
    model, optimizer, c = prepared(norm=True, exclude=["5.*"])
    train(model, optimizer, 50)
    report = {t.name: t for t in c.report()}
    assert list(report)[:2] == ["0.weight", "0.bias"] and len(report) == len(model.state_dict())
    assert report["5.weight"].stored == "exact" and report["5.weight"].bits > 24
    assert report["3.weight"].stored == "integers" and 0 <= report["3.weight"].zeros <= 1
    assert report["1.running_mean"].stored == "short floats"
    total = sum(t.bits * max(1, torch.Size(t.shape).numel()) for t in report.values()) / 8
    assert 0.7 * c.bytes() < total < c.bytes()


def test_batch_norms_and_buffers_are_what_the_file_holds(folder: Path) -> None:
    model, optimizer, c = prepared(norm=True)
    train(model, optimizer, 100)
    before = model[1].running_var.clone()
    c.save(folder / "m.gbz")
    assert 0 < float((model[1].running_var / before - 1).abs().max()) < 2**-8
    loaded = gbc.load_file(folder / "m.gbz", framework="torch")
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded[name]), name
    assert int(loaded["1.num_batches_tracked"]) == 100


@pytest.mark.parametrize("max_bytes", [500, 900])
def test_a_size_is_met(folder: Path, max_bytes: int) -> None:
    model, optimizer, c = prepared(max_bytes=max_bytes, steps=600)
    train(model, optimizer, 600)
    size = c.save(folder / "m.gbz")
    assert 0.93 * max_bytes < size <= max_bytes
    loaded = gbc.load_file(folder / "m.gbz", framework="torch")
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded[name]), name
    assert accuracy(model) > 0.9


def test_a_drop_is_kept(folder: Path) -> None:
    model = net()
    train(model, torch.optim.Adam(model.parameters(), **ADAM), 300)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    before = accuracy(model)
    c = gbc.prepare(
        model, optimizer, predictions=512, steps=400, max_drop=0.02,
        evaluate=lambda: accuracy(model),
    )  # fmt: skip
    train(model, optimizer, 400)
    size = c.save(folder / "m.gbz")
    assert accuracy(model) >= before - 0.02
    assert size < 1300
    gbc.load_into(model, folder / "m.gbz")
    assert accuracy(model) >= before - 0.02


def test_ties_names_and_rows(folder: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8, bias=False)
            self.b = nn.Linear(8, 8)
            self.b.weight = self.a.weight
            self.frozen = nn.Parameter(torch.randn(8), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x)) + self.frozen

    torch.manual_seed(0)
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rules = [gbc.LayerRule("a.*", row_steps=True), gbc.LayerRule("*.bias", mode="exact")]
    c = gbc.prepare(model, optimizer, rate_weight=0.1, predictions=100, steps=50, rules=rules)
    for _ in range(50):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
    c.save(folder / "m.gbz")
    info = {t.name: t for t in gbc.inspect(folder / "m.gbz").tensors}
    assert info["b.weight"].tied_to == "a.weight"
    assert info["b.bias"].kind == info["frozen"].kind == "exact"
    for name, value in gbc.iter_file(folder / "m.gbz", framework="torch"):
        assert torch.equal(value, model.state_dict()[name]), name
    steps = {
        int(k) for k in c.parts[0].indices_of(0)
    }
    assert len(c.parts[0].indices_of(0)) == 8 and len(steps) > 1


def test_the_same_run_gives_the_same_bytes(folder: Path) -> None:
    for name in "ab":
        model, optimizer, c = prepared(steps=50)
        train(model, optimizer, 50)
        c.save(folder / name)
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()


def test_removed_hooks_do_nothing() -> None:
    model, optimizer, c = prepared()
    train(model, optimizer, 5)
    c.remove()
    train(model, optimizer, 5)
    assert c.updates == 5
    weight = model[0].weight.detach() / c.parts[0].steps_of(0)
    assert float((weight - weight.round()).abs().max()) > 0.01
    gbc.prepare(model, torch.optim.Adam(model.parameters()), rate_weight=1, predictions=9, steps=9)


def test_a_copy_of_state_is_independent() -> None:
    model, optimizer, c = prepared()
    state = c.state_dict()
    kept = copy.deepcopy(state)
    train(model, optimizer, 5)
    assert torch.equal(state["parts"][0]["log_steps"], kept["parts"][0]["log_steps"])
    assert json.dumps(state["controller"]) == json.dumps(kept["controller"])
