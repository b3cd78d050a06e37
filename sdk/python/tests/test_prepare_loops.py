"""prepare() in the loops that people have: optimizers, groups, scalers, closures, resumed runs,
compiled models, several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rings import ADAM, OPTIMIZERS, F, accuracy, data, net, nn, prepared, torch, train

import gbcompress as gbc


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
    c = gbc.prepare(model, optimizer, rate_weight=0.05, predictions=512, steps=100)
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
        rate_weight=1.0, steps=2, make=lambda p: torch.optim.SGD(p, lr=1e-3)
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
        c = gbc.prepare(model, optimizer, rate_weight=0.03, predictions=512, steps=300)
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
        c = gbc.prepare(ran, optimizer, rate_weight=0.05, predictions=512, steps=30)
        train(ran, optimizer, 30)
        c.save(folder / f"{compiled}.gbz")
        results.append((folder / f"{compiled}.gbz").read_bytes())
    assert results[0] == results[1]


RANK = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, {tests!r})
from rings import data, net
import gbcompress as gbc
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{{folder}}/meet", rank=rank, world_size=2)
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
c = gbc.prepare(model, optimizer, rate_weight=0.05, predictions=512, steps=120)
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
