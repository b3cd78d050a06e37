#!/usr/bin/env python3
"""How batches of a strategy scale over ranks: a model, and the runs here that check it (docs/explanation/strategies.md).

    strategy_scaling.py GBCOMPRESS DATA.safetensors [--only TEXT] [--repeat N] [--cores C] [--bandwidth BYTES]

DATA is made and overwritten. Each run trains for --steps batches on 1, 2 and 4 ranks of one thread, as far as there are
processors for them.
"""
import argparse
import json
import math
import os
import re
import socket
import subprocess
import time

import numpy as np
from safetensors.numpy import save_file

RUNS = [  # strategy, architecture, options, shape of an input (one number: so many tokens)
    ("dtp", "simple-vgg:32", "K=10 shards=4", (3, 32, 32)),
    ("dtp", "lenet-dtp", "K=10 shards=4", (1, 28, 28)),
    ("al", "simple-vgg:32", "pipeline=1", (3, 32, 32)),
    ("al", "vgg11", "pipeline=1", (3, 32, 32)),
    ("al", "lstm-classifier:2000-128-2-4", "pipeline=1", (64,)),
    ("backprop", "simple-vgg:32", "", (3, 32, 32)),
    ("backprop", "vgg11", "", (3, 32, 32)),
    ("backprop", "lstm-classifier:2000-128-2-4", "", (64,)),
]
BATCH = 64
# simple-vgg:32: parameters, and what its stages but the last give for a picture; 4 bytes each.
PARAMETERS, SIGNALS = 140_714, 32 * 16 * 16 + 32 * 8 * 8 + 64 * 4 * 4 + 64 * 2 * 2 + 128
# Bytes that reach every rank after a batch: feedback networks; gradients of the model and signals.
RECEIVED = {"dtp": 4 * PARAMETERS, "al": 4 * (PARAMETERS + BATCH * SIGNALS)}


def run(program: str, arch: str, data: str, settings: list[str], world: int, epochs: int) -> tuple[float, str]:
    """Seconds of the whole run by the clock, and what the ranks said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "compress", "--from-scratch", "--arch", arch, "--data", "tensors:" + data, "--mode", "exact",
               "--max-bytes", "100M", "--epochs", str(epochs), "--set", f"train.batch={BATCH}", "-o", data + ".gbz", "--force",
               *settings]
    ranks, begin = [], time.perf_counter()
    for rank in range(world):
        more = {"OMP_NUM_THREADS": "1"}
        if world > 1:
            more |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(port)}
        ranks.append(subprocess.Popen(command, env=os.environ | more, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    said = "".join(rank.communicate()[1] for rank in ranks)
    if any(rank.returncode for rank in ranks):
        raise SystemExit(said)
    return time.perf_counter() - begin, said


def batch_seconds(*arguments, steps: int) -> tuple[float, str]:
    """Of one batch: a long run less a short one, so that what they have in common drops out."""
    short, _ = run(*arguments, 1)
    long, said = run(*arguments, 3)
    return (long - short) / (2 * steps), said


def loads(pieces: list[float], world: int, shards: int) -> float:
    """Seconds of the rank that has most: as plugins/common/balance.cpp and plugins/dtp/sharing.cpp share out."""
    order, best = sorted(pieces, reverse=True), math.inf
    for together in range(len(order) + 1 if shards >= world else 1):
        ranks = [0.0] * world
        for piece in order[together:]:
            ranks[ranks.index(min(ranks))] += piece
        seconds = sum(order[:together]) * math.ceil(shards / world) / shards + max(ranks)
        if together == 0 or seconds < best * 0.95:
            best = seconds
    return best


def predicted(alone: float, pieces: list[float], shards: int, world: int, cores: int, sent: float) -> float:
    """Seconds of a batch. What no piece covers is computed by every rank; processors are shared by what is there."""
    if world == 1:
        return alone
    everyone = max(alone - sum(pieces), 0)
    work = (world * everyone + sum(pieces)) / cores
    return max(everyone + loads(pieces, world, shards), work) + sent


def write_data(path: str, rows: int, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    inputs = draw.standard_normal((rows, *shape)).astype(np.float32) if len(shape) > 1 else draw.integers(1, 2000, (rows, *shape))
    classes = 10 if len(shape) > 1 else 4
    save_file({"inputs": inputs, "targets": draw.integers(0, classes, rows)}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="of each rank's link elsewhere, bytes a second")
    parser.add_argument("--steps", type=int, default=20, help="batches of an epoch")
    parser.add_argument("--repeat", type=int, default=1, help="the least of so many measurements")
    parser.add_argument("--only", default="", help="runs whose strategy and architecture hold this text, such as \"al vgg11\"")
    options = parser.parse_args()
    for strategy, arch, text, shape in RUNS:
        if options.only not in f"{strategy} {arch}":
            continue
        write_data(options.data, options.steps * BATCH + BATCH, shape)
        steps = math.ceil((options.steps + 1) * 0.9)
        shards = int((re.search(r"shards=(\d+)", text) or [0, 1])[1])
        settings = ["--strategy", strategy, *(["--set", "strategy.options=" + text] if text else [])]
        measured, pieces = {world: math.inf for world in (1, 2, 4) if world <= options.cores}, []
        for world in [*measured] * options.repeat:  # in turn: other programs slow all of them down
            seconds, said = batch_seconds(options.program, arch, options.data, settings, world, steps=steps)
            measured[world] = min(measured[world], seconds)
            told = re.search(r"by rank: (.*); ", said)
            if told and not pieces:
                pieces = [float(seconds) for seconds in re.findall(r"\(([\d.e-]+) s\)", told[1])]
        line = {"strategy": strategy, "arch": arch, "options": text, "pieces": pieces, "seconds": measured,
                "over one rank": {world: round(measured[1] / seconds, 2) for world, seconds in measured.items()},
                "predicted": {w: predicted(measured[1], pieces, shards, w, options.cores, 0) for w in measured if pieces or w == 1}}
        if arch == "simple-vgg:32" and strategy in RECEIVED:
            elsewhere = RECEIVED[strategy] / options.bandwidth  # on loopback it is within the noise
            line["batches a second elsewhere, a core each"] = {
                w: 1 / predicted(measured[1], pieces, max(shards, w) if shards > 1 else 1, w, w, elsewhere)
                for w in (1, 2, 4, 8, 16, 32, 64)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
