"""What the hooks do at a step: the core's three calls against the same in operations of torch."""

from __future__ import annotations

import pytest
from rings import ADAM, data, net, nn, prepared, torch, train

import gbcompress as gbc
from gbcompress._train import compression as _compression
from gbcompress._train.latents import CpuLatents, Latents


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [False, True])
def test_torch_operations_do_what_the_core_does(
    monkeypatch: pytest.MonkeyPatch, rows: bool, dtype: str
) -> None:
    """What is trained on a GPU is what is trained on the CPU, within rounding."""
    kind = getattr(torch, dtype)
    results = []
    for latents in (CpuLatents, Latents):
        monkeypatch.setattr(_compression, "CpuLatents", latents)
        model = net().to(kind)
        optimizer = torch.optim.Adam(model.parameters(), **ADAM)
        rules = [gbc.LayerRule("*", row_steps=rows)]
        c = gbc.prepare(model, optimizer, rate_weight=0.1, predictions=512, steps=40, rules=rules)
        assert type(c.parts[0]) is latents
        g = torch.Generator().manual_seed(3)
        for _ in range(4):
            for parameter in model.parameters():
                parameter.grad = 1e-2 * torch.randn(parameter.shape, generator=g).to(kind)
            optimizer.step()
        results.append((model, c.parts[0]))
    (ours, part), (theirs, other) = results
    torch.testing.assert_close(part.latents, other.latents, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(part.log_steps, other.log_steps, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(part.first, other.first, rtol=1e-3, atol=1e-7)
    torch.testing.assert_close(part.second, other.second, rtol=1e-3, atol=1e-12)
    assert torch.equal(part.indices, other.indices) and torch.equal(part.steps, other.steps)
    assert part.bits == pytest.approx(other.bits, rel=1e-5) and part.bits > 100
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        differ = (a - b).abs() > 1e-3 * part.steps.min()  # halves may fall to either side
        assert float(differ.float().mean()) < 0.01
    counts = [p.shape[0] if rows and p.dim() > 1 else 1 for p in ours.parameters()]
    assert len(part.steps) == sum(counts)


def test_bits_are_counted_at_refreshes() -> None:
    model, optimizer, c = prepared(steps=300)  # a refresh every three steps
    counted = []
    for step in range(7):
        train(model, optimizer, 1, step)
        counted.append(c.bits)
    assert counted[0] == counted[1] == counted[2] and counted[3] == counted[4] == counted[5]
    assert len(set(counted)) == 3 and min(counted) > 100


def test_parameters_that_kernels_cannot_write() -> None:
    """Channels last: their memory has another order than a file; what is trained is the same."""
    results = []
    x, y = data(64)
    for memory in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Unflatten(1, (2, 1, 1)), nn.Conv2d(2, 8, 3, padding=1), nn.Flatten(), nn.Linear(8, 2)
        ).to(memory_format=memory)
        optimizer = torch.optim.Adam(model.parameters(), **ADAM)
        c = gbc.prepare(model, optimizer, rate_weight=0.05, predictions=512, steps=20)
        for _ in range(10):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        assert model[1].weight.is_contiguous(memory_format=memory)
        results.append(c.parts[0].latents)
        step, weight = c.parts[0].steps[0], model[1].weight
        assert torch.equal((weight / step).round() * step, weight)
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-5)
