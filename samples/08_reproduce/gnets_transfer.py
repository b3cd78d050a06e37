"""Expand, then learn: whether weights that g-nets generated learn a new task faster than random weights.

    python gnets_transfer.py mnist DIR [--ratio 30] [--epochs 3] [--seeds 3] [--json]
    python gnets_transfer.py cifar10 DIR --epochs 16
    python gnets_transfer.py text TEXT --other OTHER --ratio 10 --epochs 4

A source task trains plain weights and g-nets, whose file is written and expanded. Plain training of the target task then
begins at random weights, at the plain weights of the source, and at the expanded weights; for images once more at the
last two with a random last layer ("plain, new head"). After 0, 10, 30, 100 and 300 steps the test set of the target is
measured: accuracy in %, for text nats a character.

    permuted labels   source: all classes; target: the same images, class k is now k + 1, the last one 0
    other classes     source: the first half of the classes; target: the second half
    same author       source: the first half of TEXT; target: the second half
    other text        source: the first half of TEXT; target: OTHER
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from gnets_data import Data, cifar10, mnist, network, text
from gnets_training import batches, expanded, measured, steps_of, train_gnets, train_plain, whole_bytes
from torch import nn

MOMENTS = (0, 10, 30, 100, 300)  #: steps after which the target is measured
RATE = 1e-3  #: learning rate of the target task


def permuted(data: Data) -> Data:
    classes = int(data.targets.max()) + 1
    return replace(data, targets=(data.targets + 1) % classes, test_targets=(data.test_targets + 1) % classes)


def halves(data: Data) -> tuple[Data, Data]:
    """The first and the second half of the classes, both counted from 0."""
    half = (int(data.targets.max()) + 1) // 2
    parts = []
    for first in (0, half):
        train, test = ((t >= first) & (t < first + half) for t in (data.targets, data.test_targets))
        parts.append(
            Data(data.inputs[train], data.targets[train] - first, data.test_inputs[test], data.test_targets[test] - first)
        )
    return parts[0], parts[1]


def tasks(options: argparse.Namespace) -> Iterator[tuple[Data, dict[str, Data]]]:
    """Each source and its targets by name."""
    if options.task == "text":
        if options.other is None:
            raise SystemExit("text needs a second text; give --other FILE")
        whole = options.data.read_text(errors="replace")
        targets = {"same author": text(whole[len(whole) // 2 :]), "other text": text(options.other.read_text(errors="replace"))}
        yield text(whole[: len(whole) // 2]), targets
        return
    data = {"mnist": mnist, "cifar10": cifar10}[options.task](options.data)
    yield data, {"permuted labels": permuted(data)}
    source, target = halves(data)
    yield source, {"other classes": target}


def learn(model: nn.Module, data: Data, seed: int) -> list[float]:
    """What is measured at MOMENTS of plain training."""
    optimizer, found = torch.optim.Adam(model.parameters(), lr=RATE), [measured(model, data)]
    for step, (inputs, targets) in enumerate(batches(data, MOMENTS[-1], seed), 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        if step in MOMENTS:
            found.append(measured(model, data))
    return found


class Transfer:
    """Trains, measures and collects values by name, one for each seed."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def sources(self, data: Data, name: str, seed: int) -> dict[str, Path]:
        """The files of the source's weights."""
        steps = steps_of(data, self.options.epochs)
        files = {"plain": self.folder / f"{name}-{seed}.pt", "g-nets": self.folder / f"{name}-{seed}.gbz"}
        torch.manual_seed(seed)
        train_plain(network(data), data, steps, seed, files["plain"])
        torch.manual_seed(seed)
        model = network(data)
        size = train_gnets(model, data, steps, seed, files["g-nets"], self.options.ratio)
        if size is None:
            raise SystemExit(f"no g-nets make a file {self.options.ratio:g}x smaller; give a lower --ratio")
        for start, file in files.items():
            model.load_state_dict(expanded(file))
            self.add(f"{name}, source, {start}", measured(model, data))
        self.add(f"{name}, source, ratio of g-nets", whole_bytes(model) / size)
        return files

    def started(self, data: Data, start: str, files: dict[str, Path], seed: int) -> nn.Module:
        """A network with the weights of a start: random, or NAME, or "NAME, new head"."""
        torch.manual_seed(1000 + seed)
        model = network(data)
        name, _, new_head = start.partition(", ")
        if name in files:
            state = model.state_dict()
            head = list(state)[-1].rpartition(".")[0] + "."
            kept = {key: value for key, value in expanded(files[name]).items() if not (new_head and key.startswith(head))}
            model.load_state_dict(state | kept)
        return model

    def run(self, seed: int) -> None:
        for source, targets in tasks(self.options):
            files = self.sources(source, next(iter(targets)), seed)
            for name, target in targets.items():
                heads = () if self.options.task == "text" else (f"{start}, new head" for start in files)
                for start in ("random", *files, *heads):
                    found = learn(self.started(target, start, files, seed), target, seed)
                    print(f"seed {seed}, {name}, {start}: {[round(value, 3) for value in found]}", file=sys.stderr, flush=True)
                    for step, value in zip(MOMENTS, found, strict=True):
                        self.add(f"{name}, {start}, {step} steps", value)

    def figures(self) -> list[dict[str, object]]:
        """Mean and standard deviation over the seeds."""
        unit = "nats" if self.options.task == "text" else "%"
        found: list[dict[str, object]] = []
        for name, values in self.values.items():
            unit_here = "x" if name.endswith("ratio of g-nets") else unit
            found.append({"name": name, "value": round(statistics.fmean(values), 4), "unit": unit_here})
            if len(values) > 1:
                found.append({"name": f"{name}: deviation", "value": round(statistics.stdev(values), 4), "unit": unit_here})
        return found


def main(arguments: list[str] | None = None) -> dict[str, object]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("mnist", "cifar10", "text"))
    parser.add_argument("data", type=Path, help="a folder; a file for text")
    parser.add_argument("--other", type=Path, help="the second text")
    parser.add_argument("--ratio", type=float, default=30)
    parser.add_argument("--epochs", type=int, default=3, help="of the source")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a folder for the files; it must exist")
    parser.add_argument("--json", action="store_true", help="prints a report for tests/tools/record")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        transfer = Transfer(options, options.keep or Path(folder))
        for seed in range(options.seeds):
            transfer.run(seed)
    report = {"figures": transfer.figures(), "seconds": time.monotonic() - start, "settings": {"train": {"seed": 0}}}
    if options.json:
        print(json.dumps(report))
    return report


if __name__ == "__main__":
    main()
