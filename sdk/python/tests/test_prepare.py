"""prepare(): what training through it does, and what comes out."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

import gbcompress as gbc

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
ADAM: dict = {"lr": 5e-3}


def data(n: int = 512, seed: int = 0) -> tuple:
    """Points on two rings and their labels: small nets learn them."""
    g = torch.Generator().manual_seed(seed)
    angle = torch.rand(n, generator=g) * 6.2832
    label = torch.randint(2, (n,), generator=g)
    radius = 1 + label + 0.2 * torch.randn(n, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label


def net(seed: int = 0, norm: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    middle = [nn.BatchNorm1d(32)] if norm else []
    return nn.Sequential(
        nn.Linear(2, 32), *middle, nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
    )


def train(model: nn.Module, optimizer: object, steps: int, first: int = 0) -> None:
    x, y = data()
    for step in range(first, first + steps):
        rows = torch.arange(64) * 7 + step * 13
        optimizer.zero_grad()  # type: ignore[attr-defined]
        F.cross_entropy(model(x[rows % 512]), y[rows % 512]).backward()
        optimizer.step()  # type: ignore[attr-defined]


def accuracy(model: nn.Module) -> float:
    x, y = data(seed=1)
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def prepared(steps: int = 400, norm: bool = False, make: Callable | None = None, **settings) -> tuple:
    model = net(norm=norm)
    optimizer = (make or (lambda p: torch.optim.Adam(p, **ADAM)))(model.parameters())
    if not settings.keys() & {"price", "max_bytes", "max_drop"}:
        settings["price"] = 0.05
    return model, optimizer, gbc.prepare(model, optimizer, predictions=512, steps=steps, **settings)


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


def test_a_higher_price_makes_a_smaller_file() -> None:
    sizes = []
    for price in (1e-4, 0.05, 1.0):
        model, optimizer, c = prepared(price=price)
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
    rules = [gbc.Rule("a.*", row_steps=True), gbc.Rule("*.bias", mode="raw")]
    c = gbc.prepare(model, optimizer, price=0.1, predictions=100, steps=50, rules=rules)
    for _ in range(50):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
    c.save(folder / "m.gbz")
    info = {t.name: t for t in gbc.inspect(folder / "m.gbz").tensors}
    assert info["b.weight"].tied_to == "a.weight"
    assert info["b.bias"].kind == info["frozen"].kind == "plain"
    for name, value in gbc.iter_file(folder / "m.gbz", framework="torch"):
        assert torch.equal(value, model.state_dict()[name]), name
    steps = {
        int(k) for k in c.parts[0].indices_of(0)
    }
    assert len(c.parts[0].indices_of(0)) == 8 and len(steps) > 1


OPTIMIZERS: dict[str, Callable] = {
    "adam": lambda p: torch.optim.Adam(p, **ADAM),
    "adamw fused": lambda p: torch.optim.AdamW(p, fused=True, **ADAM),
    "adam foreach": lambda p: torch.optim.Adam(p, foreach=True, **ADAM),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=2e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    model, optimizer, c = prepared(make=OPTIMIZERS[name])
    train(model, optimizer, 400)
    assert accuracy(model) > 0.95 and c.bytes() < 2500


def test_fused_and_plain_adam_agree() -> None:
    results = []
    for fused in (False, True):
        model, optimizer, c = prepared(make=lambda p: torch.optim.Adam(p, fused=fused, **ADAM))
        train(model, optimizer, 3)
        results.append(c.parts[0].entries[0].latent.clone())
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


def test_parameter_groups_and_schedules() -> None:
    model = net()
    optimizer = torch.optim.Adam(
        [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2:].parameters()}], lr=5e-3
    )
    c = gbc.prepare(model, optimizer, price=0.05, predictions=512, steps=100)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / 100)
    before = [entry.latent.clone() for entry in c.parts[0].entries]
    logs = c.parts[0].log_steps.clone()
    for step in range(20):
        train(model, optimizer, 1, step)
        schedule.step()
    after = c.parts[0].entries
    assert torch.equal(before[0], after[0].latent) and logs[0] == c.parts[0].log_steps[0]
    assert not torch.equal(before[2], after[2].latent) and logs[2] != c.parts[0].log_steps[2]


def test_accumulation_is_one_large_batch() -> None:
    x, y = data(128)
    results = []
    for parts in (1, 4):
        model, optimizer, c = prepared(make=lambda p: torch.optim.SGD(p, lr=0.1))
        for _ in range(5):
            optimizer.zero_grad()
            for rows in torch.arange(128).chunk(parts):
                (F.cross_entropy(model(x[rows]), y[rows]) / parts).backward()
            optimizer.step()
        results.append(c.parts[0].entries[2].latent.clone())
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-5)


def test_clipping_does_not_touch_the_rate() -> None:
    """Gradients clipped to nothing: what moves latents is the rate alone, towards zero."""
    model, optimizer, c = prepared(
        price=1.0, steps=2, make=lambda p: torch.optim.SGD(p, lr=1e-3)
    )
    x, y = data()
    before = c.parts[0].entries[2].latent.clone()
    F.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-12)
    optimizer.step()
    after = c.parts[0].entries[2].latent
    moved = (before.abs() - after.abs())[before.abs() > 0.1]
    assert float((moved > 0).float().mean()) > 0.9


@pytest.mark.parametrize("fused", [False, True])
def test_a_grad_scaler_changes_nothing_and_skips_what_overflows(fused: bool) -> None:
    x, y = data(128)
    results = []
    for scale in (None, 1024.0):
        model, optimizer, c = prepared(
            make=lambda p: torch.optim.Adam(p, fused=fused, **ADAM)
        )
        scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
        for step in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if step == 3 and scale:  # overflows: must be as if it had not been
                scaler.scale(loss * float("inf")).backward()
                kept = c.parts[0].entries[0].latent.clone()
                shown = model[0].weight.clone()
                scaler.step(optimizer)
                scaler.update(1024.0)
                assert torch.equal(kept, c.parts[0].entries[0].latent)
                assert torch.equal(shown, model[0].weight)
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert c.updates == 6
        results.append(c.parts[0].entries[0].latent.clone())
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-5)


def test_bfloat16_autocast_and_parameters(folder: Path) -> None:
    x, y = data()
    for cast in (True, False):
        model = net() if cast else net().to(torch.bfloat16)
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        c = gbc.prepare(model, optimizer, price=0.03, predictions=512, steps=300)
        for _ in range(300):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                out = model(x if cast else x.to(torch.bfloat16))
            F.cross_entropy(out.float(), y).backward()
            optimizer.step()
        with torch.no_grad():
            out = model(x if cast else x.to(torch.bfloat16))
        assert float((out.argmax(1) == y).float().mean()) > 0.93
        c.save(folder / f"{cast}.gbz")
        loaded = gbc.load_file(folder / f"{cast}.gbz", framework="torch")
        for name, value in model.state_dict().items():
            assert loaded[name].dtype == value.dtype
            assert torch.equal(value, loaded[name]), name


def test_a_closure_is_run_before_latents_are_put() -> None:
    x, y = data(128)
    results = []
    for closure in (False, True):
        model, optimizer, c = prepared()

        def loss_of() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        for _ in range(4):
            if closure:
                loss = optimizer.step(loss_of)
                assert loss.item() > 0
            else:
                loss_of()
                optimizer.step()
        results.append(c.parts[0].entries[0].latent.clone())
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_going_on_is_as_if_never_stopped(folder: Path, name: str) -> None:
    def begin() -> tuple:
        model, optimizer, c = prepared(steps=60, make=OPTIMIZERS[name])
        return model, optimizer, c, torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 60)

    def run(model: nn.Module, optimizer: object, schedule: object, steps: range) -> None:
        for step in steps:
            train(model, optimizer, 1, step)
            schedule.step()  # type: ignore[attr-defined]

    whole, optimizer, c, schedule = begin()
    run(whole, optimizer, schedule, range(60))
    first, *kept = begin()
    run(first, kept[0], kept[2], range(35))
    torch.save([x.state_dict() for x in (first, *kept)], folder / "state.pt")
    second, *other = begin()
    for x, state in zip((second, *other), torch.load(folder / "state.pt", weights_only=False)):
        x.load_state_dict(state)
    for key, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[key]), key
    run(second, other[0], other[2], range(35, 60))
    c.save(folder / "a.gbz")
    other[1].save(folder / "b.gbz")
    assert (folder / "a.gbz").read_bytes() == (folder / "b.gbz").read_bytes()


def test_a_compiled_model(folder: Path) -> None:
    results = []
    for compiled in (False, True):
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), **ADAM)
        ran = torch.compile(model, backend="eager") if compiled else model
        c = gbc.prepare(ran, optimizer, price=0.05, predictions=512, steps=30)
        train(ran, optimizer, 30)
        c.save(folder / f"{compiled}.gbz")
        results.append((folder / f"{compiled}.gbz").read_bytes())
    assert results[0] == results[1]


RANK = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, {tests!r})
from test_prepare import data, net
import gbcompress as gbc
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{{folder}}/meet", rank=rank, world_size=2)
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
c = gbc.prepare(model, optimizer, price=0.05, predictions=512, steps=120)
ranked = torch.nn.parallel.DistributedDataParallel(model)
x, y = data()
for step in range(120):
    rows = (torch.arange(32) * 2 + rank + step * 11) % 512
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(ranked(x[rows]), y[rows]).backward()
    optimizer.step()
c.save(f"{{folder}}/{{rank}}.gbz")
dist.destroy_process_group()
"""


def test_two_processes_write_the_same_bytes(folder: Path) -> None:
    code = RANK.format(tests=str(Path(__file__).parent))
    ranks = [subprocess.Popen([sys.executable, "-c", code, str(r), str(folder)]) for r in (0, 1)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    assert (folder / "0.gbz").read_bytes() == (folder / "1.gbz").read_bytes()
    loaded = gbc.load_file(folder / "0.gbz", framework="torch")
    model = net()
    model.load_state_dict(loaded)
    assert accuracy(model) > 0.8


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
    gbc.prepare(model, torch.optim.Adam(model.parameters()), price=1, predictions=9, steps=9)


def test_a_copy_of_state_is_independent() -> None:
    model, optimizer, c = prepared()
    state = c.state_dict()
    kept = copy.deepcopy(state)
    train(model, optimizer, 5)
    assert torch.equal(state["parts"][0]["log_steps"], kept["parts"][0]["log_steps"])
    assert json.dumps(state["controller"]) == json.dumps(kept["controller"])
