"""Accuracy against compression on MNIST or CIFAR-10: g-nets beside quantization at the same bytes.

    python gnets_curve.py mnist DIR [--ratios 3 10 30 100 300 1000] [--epochs 4] [--seeds 3] [--json]
    python gnets_curve.py cifar10 DIR --epochs 16

Each file is written and read back; its accuracy is that of the expanded weights on the test set. All runs have the same
epochs and begin with the same random weights:

    plain                 weights in float32, the file of torch.save
    g-nets                target_ratio of gbc.GenomicBottleneck, products of two matrices
    MLP g-nets            the same with generator="gnet", as in Shuvaev et al., PNAS 2024
    quantized             gbc.prepare with max_bytes of the g-nets' file

Seeds above 0 run at --spread alone. The figures are compared in docs/research/experiments.md.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from gnets_data import Data, cifar10, mnist, network
from gnets_training import expanded, measured, steps_of, train_gnets, train_plain, train_quantized, whole_bytes

READERS = {"mnist": mnist, "cifar10": cifar10}


class Curve:
    """Trains, measures and collects figures."""

    def __init__(self, data: Data, epochs: int, folder: Path) -> None:
        self.data, self.steps, self.folder = data, steps_of(data, epochs), folder
        self.figures: list[dict[str, object]] = []

    def model(self, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        return network(self.data)

    def add(self, name: str, file: Path, size: int | None, seed: int) -> None:
        if size is None:
            print(f"{name}: no file of that size", file=sys.stderr)
            return
        model = self.model(seed)
        model.load_state_dict(expanded(file))
        name += f", seed {seed}" if seed else ""
        found = {"bytes": size, "ratio": round(whole_bytes(model) / size, 2), "accuracy": round(measured(model, self.data), 2)}
        units = {"bytes": "bytes", "ratio": "x", "accuracy": "%"}
        self.figures += [{"name": f"{name}: {key}", "value": value, "unit": units[key]} for key, value in found.items()]
        print(f"{name}: {size} bytes, {found['ratio']}x, {found['accuracy']} %", file=sys.stderr, flush=True)

    def plain(self, seed: int) -> None:
        file = self.folder / f"plain-{seed}.pt"
        self.add("plain", file, train_plain(self.model(seed), self.data, self.steps, seed, file), seed)

    def at(self, ratio: float, seed: int) -> None:
        """The three ways at one ratio."""
        sizes = []
        for name, generator in (("g-nets", None), ("MLP g-nets", "gnet")):
            file = self.folder / f"{name.replace(' ', '-')}-{ratio:g}-{seed}.gbz"
            sizes.append(train_gnets(self.model(seed), self.data, self.steps, seed, file, ratio, generator))
            self.add(f"{name} {ratio:g}x", file, sizes[-1], seed)
        model, file = self.model(seed), self.folder / f"quantized-{ratio:g}-{seed}.gbz"
        target = sizes[0] or sizes[1] or int(whole_bytes(model) / ratio)
        self.add(f"quantized {ratio:g}x", file, train_quantized(model, self.data, self.steps, seed, file, target), seed)


def main(arguments: list[str] | None = None) -> dict[str, object]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=READERS)
    parser.add_argument("data", type=Path)
    parser.add_argument("--ratios", type=float, nargs="+", default=[3, 10, 30, 100, 300, 1000])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3, help="at the ratio --spread")
    parser.add_argument("--spread", type=float, default=30)
    parser.add_argument("--keep", type=Path, help="a folder for the files; it must exist")
    parser.add_argument("--json", action="store_true", help="prints a report for tests/tools/record")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        curve = Curve(READERS[options.task](options.data), options.epochs, options.keep or Path(folder))
        curve.plain(0)
        for ratio in options.ratios:
            for seed in range(options.seeds if ratio == options.spread else 1):
                curve.at(ratio, seed)
        for seed in range(1, options.seeds):
            curve.plain(seed)
    report = {"figures": curve.figures, "seconds": time.monotonic() - start, "settings": {"train": {"seed": 0}}}
    if options.json:
        print(json.dumps(report))
    return report


if __name__ == "__main__":
    main()
