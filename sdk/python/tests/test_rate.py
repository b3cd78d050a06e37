"""The rate: torch's operations against the kernel, gradients against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gbcompress import _core  # noqa: E402
from gbcompress._train.rate import (  # noqa: E402
    integers_of, noise, rate, rate_by_torch, round_to, step_indices, step_sizes,
)  # fmt: skip


def numbers(n: int, seed: int = 0) -> tuple:
    g = torch.Generator().manual_seed(seed)
    latent = torch.randn(n, generator=g) * 0.2
    inverse = torch.exp(torch.randn(n, generator=g)).clamp(1e-3, 50)
    gradient = torch.randn(n, generator=g) * 1e-3
    return latent, inverse, gradient


@pytest.mark.parametrize(("n", "rows"), [(1, 1), (37, 1), (50_000, 1), (40_000, 8), (60, 20)])
def test_torch_operations_are_the_kernel(n: int, rows: int) -> None:
    latent, inverse, gradient = numbers(n)
    steps = step_sizes(torch.arange(-48, -48 + rows))
    ours, theirs = gradient.clone(), gradient.clone()
    bits, slopes = rate(latent, steps, inverse, 0.01, 12345, ours)
    bits_t, slopes_t = rate_by_torch(latent, steps, inverse, 0.01, 12345, theirs)
    assert bits == pytest.approx(float(bits_t), rel=1e-5)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(slopes, slopes_t.double(), rtol=1e-4, atol=1e-6)
    assert not torch.equal(ours, gradient)


def test_bits_and_slopes_by_finite_differences() -> None:
    latent, inverse, _ = (t.double() for t in numbers(400, 3))
    step, key, weight = 0.125, 99, 0.5
    shift = noise(400, key, torch.device("cpu")).double()

    def bits(values: torch.Tensor, size: float) -> torch.Tensor:
        """Of each number, by the integral of the density itself, in double."""
        u = (values / size + shift).abs()

        def below(x: torch.Tensor) -> torch.Tensor:  # of a Laplace distribution
            return torch.where(
                x < 0, 0.5 * torch.exp(inverse * x), 1 - 0.5 * torch.exp(-inverse * x)
            )

        beyond = torch.exp(-inverse * u) * torch.sinh(inverse / 2)
        return -torch.log2(torch.where(u > 0.5, beyond, below(u + 0.5) - below(u - 0.5)))

    gradient = torch.zeros(400)
    total, slopes = rate(
        latent.float(), torch.tensor([step]), inverse.float(), weight, key, gradient
    )
    assert float(total) == pytest.approx(float(bits(latent, step).sum()), rel=1e-5)
    h = 1e-6
    numeric = weight * (bits(latent + h, step) - bits(latent - h, step)) / (2 * h)
    clear = ((latent / step + shift).abs() - 0.5).abs() > 1e-3  # the slope jumps there
    clear &= (latent / step + shift).abs() > 1e-3
    assert clear.sum() > 300
    torch.testing.assert_close(gradient.double()[clear], numeric[clear], rtol=2e-3, atol=2e-3)
    # The step through the rate alone: scales are in units of the step and stay.
    factor = math.exp(h)
    by_log = (bits(latent, step * factor).sum() - bits(latent, step / factor).sum()) / (2 * h)
    assert float(slopes[0]) == pytest.approx(weight * float(by_log), rel=2e-3)


def test_the_tasks_gradient_of_a_step_is_straight_through() -> None:
    latent, inverse, gradient = numbers(1000, 5)
    step = torch.tensor([0.125])
    before = gradient.clone()
    _, slopes = rate(latent, step, inverse, 0.0, 7, gradient)
    torch.testing.assert_close(gradient, before)
    u = latent.double() / 0.125
    expected = (before.double() * (u.round() - u) * 0.125).sum()
    assert float(slopes[0]) == pytest.approx(float(expected), rel=1e-4)


def test_noise_is_uniform_and_keyed() -> None:
    a = noise(100_000, _core.noise_key(0, "w", 3), torch.device("cpu"))
    assert -0.5 <= float(a.min()) < -0.499 and 0.499 < float(a.max()) < 0.5
    assert abs(float(a.mean())) < 0.005 and abs(float(a.var()) - 1 / 12) < 0.001
    keys = {_core.noise_key(s, n, t) for s in (0, 1) for n in ("w", "v") for t in (0, 1)}
    assert len(keys) == 8
    b = noise(100_000, _core.noise_key(0, "w", 4), torch.device("cpu"))
    assert abs(float(np.corrcoef(a, b)[0, 1])) < 0.02


def test_steps_are_those_of_files() -> None:
    logs = torch.linspace(-12, 3, 500)
    for log, index in zip(logs.tolist(), step_indices(logs).tolist(), strict=True):
        assert index == _core.nearest_step(math.exp(log))
    indices = torch.tensor([-1024, -17, 0, 5, 1024])
    assert step_sizes(indices).tolist() == [_core.step_size(int(k)) for k in indices]


def test_rounding_is_integers_times_steps() -> None:
    latent = numbers(4000, 8)[0].reshape(40, 100)
    steps = step_sizes(torch.arange(-60, -20))
    rounded = torch.empty_like(latent)
    round_to(latent, steps, rounded)
    integers = torch.from_numpy(integers_of(latent, steps)).reshape(40, 100)
    assert torch.equal(rounded, integers.float() * steps.unsqueeze(1))


def test_threads_change_no_bit() -> None:
    latent, inverse, gradient = numbers(400_000)
    results = []
    for threads in (1, 3):
        g = gradient.clone().numpy()
        bits, slopes = _core.laplace_rate(
            latent.numpy(), np.array([0.05], np.float32), inverse.numpy(), 0.1, 5, g, threads
        )
        results.append((bits, slopes, g.tobytes()))
    assert results[0] == results[1]
