#!/usr/bin/env python3
"""A training step of N small MLPs: EnsembleMlp beside N separate networks (gbc_ensemble_bench) and torch.func.

    ensemble_compare.py --bench build/release/bin/gbc_ensemble_bench [--seconds S]

torch.func: vmap over stacked parameters, grad of the loss, fused AdamW on the stacks. Same shapes (32-64-64-1), batch of
256, float32, the same number of threads; the rounds of both programs follow each other. Prints a JSON line for each N."""

import argparse
import json
import subprocess
import time

import torch
from torch.func import functional_call, grad, stack_module_state, vmap

WIDTHS, BATCH = (32, 64, 64, 1), 256


def net():
    layers = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def milliseconds(nets, seconds):
    x, y = torch.randn(BATCH, WIDTHS[0]), torch.randn(BATCH, 1)
    base = net().to("meta")
    stacks, _ = stack_module_state([net() for _ in range(nets)])
    optimizer = torch.optim.AdamW(list(stacks.values()), fused=True)

    def loss(parameters):
        return (functional_call(base, parameters, (x,)) - y).square().mean()

    gradients = vmap(grad(loss))

    def step():
        for name, value in gradients({name: p.detach() for name, p in stacks.items()}).items():
            stacks[name].grad = value
        optimizer.step()

    best, end, rounds = float("inf"), time.monotonic() + seconds, 0
    while rounds < 3 or time.monotonic() < end:
        begin = time.perf_counter()
        step()
        best, rounds = min(best, time.perf_counter() - begin), rounds + 1
    return 1000 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    for nets in (1, 4, 16, 64, 256):
        done = subprocess.run([options.bench, "--nets", str(nets), "--seconds", str(options.seconds)], check=True, capture_output=True, text=True)
        row = json.loads(done.stdout)
        row["torch_func_ms"] = round(milliseconds(nets, options.seconds), 4)
        row["speed_up_over_torch_func"] = round(row["torch_func_ms"] / row["ensemble_ms"], 2)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
