"""The trainings that gnets_curve.py and gnets_transfer.py compare: plain, with g-nets, and with quantized weights.

Each writes a file and gives its bytes; `expanded` reads the weights back. All take the same number of steps, batches in
the same order, and one cycle of the learning rate.
"""

import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from gnets_data import Data
from torch import Tensor, nn

import gbcompress as gbc

RATE = 3e-3  #: highest learning rate of plain and quantized weights


def batch_of(data: Data) -> int:
    """Samples of a batch: 128 images, or 32 windows of text."""
    return 32 if data.targets.dim() == 2 else 128


def batches(data: Data, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator, done = torch.Generator().manual_seed(seed), 0
    while done < steps:
        for rows in torch.randperm(len(data.inputs), generator=generator).split(batch_of(data))[: steps - done]:
            yield data.inputs[rows], data.targets[rows]
            done += 1


def steps_of(data: Data, epochs: int) -> int:
    return epochs * math.ceil(len(data.inputs) / batch_of(data))


def whole_bytes(model: nn.Module) -> int:
    """Bytes of the parameters in float32."""
    return sum(4 * parameter.numel() for parameter in model.parameters())


def one_cycle(model: nn.Module, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps + 1, cycle_momentum=False)


def train_plain(model: nn.Module, data: Data, steps: int, seed: int, file: Path) -> int:
    optimizer, schedule = one_cycle(model, steps)
    for inputs, targets in batches(data, steps, seed):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        schedule.step()
    torch.save(model.state_dict(), file)
    return file.stat().st_size


def train_quantized(model: nn.Module, data: Data, steps: int, seed: int, file: Path, max_bytes: int) -> int | None:
    """None: the smallest file is more than 1.5 times as large as `max_bytes`."""
    optimizer, schedule = one_cycle(model, steps)
    compression = gbc.prepare(model, optimizer, max_bytes=max_bytes, predictions=data.targets.numel(), steps=steps)
    for inputs, targets in batches(data, steps, seed):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        schedule.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gbc.TargetNotMet)  # seen below
        compression.save(file, overwrite=True)
    size = file.stat().st_size
    return size if size <= 1.5 * max_bytes else None


def train_gnets(
    model: nn.Module, data: Data, steps: int, seed: int, file: Path, ratio: float, generator: str | None = None
) -> int | None:
    """None: the smallest file of these g-nets is more than 1.5 times as large as the ratio demands."""
    settings = {} if generator is None else {"generator": generator}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the smallest g-nets are larger than the ratio demands: seen below
        gnets = gbc.GenomicBottleneck(model, steps, target_ratio=ratio, seed=seed, **settings)
    if gnets.save(file, overwrite=True) > 1.5 * whole_bytes(model) / ratio:
        return None
    others = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)  # of parameters without g-nets
    for inputs, targets in batches(data, steps, seed):
        others.zero_grad()
        gnets.zero_grad()
        gnets.predict_weights()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        gnets.backward()
        others.step()
        gnets.step()
    return gnets.save(file, overwrite=True)


def expanded(file: Path) -> dict[str, Tensor]:
    """Weights of a file of any of the trainings."""
    if file.suffix == ".pt":
        return torch.load(file, weights_only=True)
    return gbc.load_file(file, framework="torch")


@torch.no_grad()
def measured(model: nn.Module, data: Data) -> float:
    """Accuracy on the test set in %, or for text the loss in nats a character."""
    model.eval()
    outputs = torch.cat([model(part) for part in data.test_inputs.split(500)])
    model.train()
    if data.test_targets.dim() == 2:
        return nn.functional.cross_entropy(outputs, data.test_targets).item()
    return 100 * (outputs.argmax(1) == data.test_targets).double().mean().item()
