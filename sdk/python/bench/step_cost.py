"""What a training step costs through prepare(), beside the plain one, measured in turns in one run.

    OMP_NUM_THREADS=1 python step_cost.py [MODEL ...] [--seconds 6]

Processor time of this process. Refreshes of the entropy model have a column of their own: what those of a
run of --steps cost, beside its plain steps.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gbcompress as gbc


class Sequence(nn.Module):
    """The classifier of examples/lstm.py."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 48, batch_first=True)
        self.head = nn.Linear(48, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.lstm(x)[0].mean(1))
        return out


class Characters(nn.Module):
    """A character transformer of 4 layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(65, 128), nn.Embedding(128, 128)
        layer = nn.TransformerEncoderLayer(
            128, 4, 512, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 65)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        hidden = self.encoder(self.tok(x) + self.pos.weight[: x.shape[1]], mask)
        out: Tensor = self.head(hidden).transpose(1, 2)
        return out


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def classes(n: int, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n, *shape), torch.randint(4, (n,))


Made = tuple[nn.Module, tuple[Tensor, Tensor]]
MODELS: dict[str, Callable[[], Made]] = {
    "digits-32": lambda: (mlp(64, 128, 64, 10), classes(32, 64)),
    "lenet-64": lambda: (mlp(784, 300, 100, 10), classes(64, 784)),
    "lenet-256": lambda: (mlp(784, 300, 100, 10), classes(256, 784)),
    "lstm-64": lambda: (Sequence(), classes(64, 48, 1)),
    "characters-32": lambda: (
        Characters(),
        (torch.randint(65, (32, 128)), torch.randint(65, (32, 128))),
    ),
}


def measure(name: str, steps: int, seconds: float) -> str:
    torch.manual_seed(0)
    plain, (x, y) = MODELS[name]()
    prepared = copy.deepcopy(plain)
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-4, fused=True) for m in (plain, prepared)]
    compression = gbc.prepare(prepared, optimizers[1], rate_weight=0.2, predictions=60_000, steps=steps)

    def run(i: int, count: int) -> float:
        model, optimizer = (plain, prepared)[i], optimizers[i]
        before = time.process_time()
        for _ in range(count):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        return (time.process_time() - before) / count

    run(0, 3), run(1, 3)
    # Refreshes have a time of their own: a step of each kind, the ramp of the rate weight being over.
    compression._interval = 1 << 62
    count = max(1, int(0.1 / run(0, 5)))
    taken: list[list[float]] = [[], []]
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(taken[1]) < 5:
        for i in (0, 1):
            taken[i].append(run(i, count))
    compression.updates = int(0.6 * steps)
    refreshes = []
    for _ in range(3):
        before = time.process_time()
        with torch.no_grad():
            compression._refresh()
        refreshes.append(time.process_time() - before)
    # Turns of both are adjacent, so that what else the machine does falls on both.
    with_hooks = statistics.median(b / a for a, b in zip(*taken, strict=True))
    refresh, step = min(refreshes), statistics.median(taken[0])
    count = sum(map(compression.controller.refreshes, range(steps)))
    share = count * refresh / (steps * step)
    numbers = sum(p.numel() for p in plain.parameters())
    return (
        f"| {name} | {numbers:,} | {step * 1e3:.2f} ms | {with_hooks:.2f} | "
        f"{refresh * 1e3:.1f} ms | {share:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=6.0, help="for each model")
    parser.add_argument("--steps", type=int, default=2700, help="of the run that refreshes belong to")
    options = parser.parse_args()
    print("| model | numbers | plain step | prepared / plain | a refresh | refreshes / plain |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in options.models:
        print(measure(name, options.steps, options.seconds), flush=True)


if __name__ == "__main__":
    main()
