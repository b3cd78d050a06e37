#!/usr/bin/env python3
"""The g-net part of a training step, torchGB's loop against ours, alternating in one run.

    torchgb_compare.py --torchgb CHECKOUT --python PYTHON --gbcompress EXECUTABLE

CHECKOUT is a folder with src/torchGB, PYTHON an interpreter with torch and numpy. The checkout stays
as it is: a temporary copy receives the two repairs without which its head neither builds nor trains
a g-net. Both sides do zero, predict, backward and AdamW on the same shapes with given random
gradients: hidden 32, 10,000-weight tiles, binary codes, float32.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = {"mnist-mlp": (784, 256, 256, 64, 10), "gpt2-block": (768, 3072, 768)}

# (file, text, replacement). Each text must occur exactly once.
REPAIRS = (
    # The fast variant of this function wants an argument that its caller does not give.
    ("core.py", "partial(init_linear_gnet_fast, GenomicBottleNet)", "partial(init_linear_gnet, GenomicBottleNet)"),
    # The last layer's own backward returns gradients of wrong shapes.
    ("layers/gnet/model.py", "layer_list.append(PseudoInverseLinear(", "layer_list.append(nn.Linear("),
)


def repaired_copy(checkout, folder):
    source = pathlib.Path(checkout) / "src" / "torchGB"
    if not source.is_dir():
        sys.exit(f"{checkout} holds no src/torchGB")
    shutil.copytree(source, pathlib.Path(folder) / "torchGB", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text, replacement in REPAIRS:
        path = pathlib.Path(folder) / "torchGB" / name
        content = path.read_text()
        if content.count(text) != 1:
            sys.exit(f"repair of {name} does not apply: this is another version of torchGB; its text is\n  {text}")
        path.write_text(content.replace(text, replacement))


def stand_in_for_scipy():
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:  # imported for a function that is not used here
        import types
        sys.modules["scipy"] = types.ModuleType("scipy")
        sys.modules["scipy.optimize"] = sys.modules["scipy"].optimize = types.ModuleType("scipy.optimize")


def worker(folder, threads):
    """Answers each line "SHAPE SECONDS" with the median seconds of a step."""
    sys.path.insert(0, folder)
    stand_in_for_scipy()
    import torch
    torch.set_num_threads(threads)
    torch.distributed.init_process_group("gloo", init_method="file://" + os.path.join(folder, "rendezvous"), rank=0,
                                         world_size=1)
    import torchGB

    nets = {}
    for shape, widths in SHAPES.items():
        holder = torch.nn.Module()
        holder.module = torch.nn.Sequential(*(torch.nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:])))
        with contextlib.redirect_stdout(sys.stderr):
            net = torchGB.GenomicBottleneck(holder, local_rank_dict={0: "cpu"}, hidden_dim=32, gnet_batchsize=10_000)
        layers = list(holder.module)
        nets[shape] = net, layers, [1e-4 * torch.randn(layer.weight.shape) for layer in layers]

    def step(net, layers, gradients):
        net.zero_grad()
        net.predict_weights()
        for layer, gradient in zip(layers, gradients):
            layer.weight.grad = gradient
        net.backward()
        net.step()

    for net in nets.values():
        step(*net)
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads()}), flush=True)
    for line in sys.stdin:
        shape, seconds = line.split()
        times, end = [], time.perf_counter() + float(seconds)
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step(*nets[shape])
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchgb", required=True, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gbcompress", required=True, metavar="EXECUTABLE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each side, shape and round")
    parser.add_argument("--at-least", type=float, metavar="RATIO", help="fail where a median ratio is lower")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="torchgb-") as folder:
        repaired_copy(arguments.torchgb, folder)
        environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
        environment.pop("OMP_WAIT_POLICY", None)
        theirs = subprocess.Popen([arguments.python, "-B", os.path.abspath(__file__), "--worker", folder,
                                   str(arguments.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True,
                                  env=environment)
        hello = theirs.stdout.readline()
        if not hello:
            sys.exit(f"torchGB's side did not start; try: {arguments.python} -c 'import torch, numpy'")
        ours = {}
        their_seconds = {shape: [] for shape in SHAPES}
        our_seconds = {shape: [] for shape in SHAPES}
        for _ in range(arguments.rounds):
            for shape in SHAPES:
                theirs.stdin.write(f"{shape} {arguments.seconds}\n")
                theirs.stdin.flush()
                their_seconds[shape].append(float(theirs.stdout.readline()))
                ours = json.loads(subprocess.run(
                    [arguments.gbcompress, "bench", "engine", "--json", "--quiet", "--shape", shape, "--threads",
                     str(arguments.threads), "--seconds", str(arguments.seconds)],
                    stdout=subprocess.PIPE, check=True, env=environment).stdout)
                our_seconds[shape].append(ours["shapes"][0]["step_seconds"])
        theirs.stdin.close()
        theirs.wait()

    print(f"torchGB: torch {json.loads(hello)['torch']}, {json.loads(hello)['threads']} threads; gbcompress: "
          f"{ours['isa']}, {ours['threads']} threads; {arguments.rounds} rounds, load average "
          f"{os.getloadavg()[0]:.2f}")
    # Medians of the rounds; beside them each side's quietest round, should the machine be shared.
    print(f"{'shape':12}{'weights':>11}{'torchGB':>20}{'gbcompress':>21}{'ratio':>8}{'quietest rounds':>25}{'ratio':>8}")
    low = False
    for shape, widths in SHAPES.items():
        weights = sum(a * b for a, b in zip(widths, widths[1:]))
        ratios = [a / b for a, b in zip(their_seconds[shape], our_seconds[shape])]
        sides = [statistics.median(x[shape]) for x in (their_seconds, our_seconds)]
        cells = [f"{1e3 * s:.2f} ms {weights / s / 1e6:.1f} M/s" for s in sides]
        ratio = statistics.median(ratios)
        low = low or (arguments.at_least is not None and ratio < arguments.at_least)
        best = [min(x[shape]) for x in (their_seconds, our_seconds)]
        quiet = f"{1e3 * best[0]:.2f} ms {1e3 * best[1]:.2f} ms"
        print(f"{shape:12}{weights:>11,}{cells[0]:>20}{cells[1]:>21}{ratio:>8.1f}{quiet:>25}{best[0] / best[1]:>8.1f}")
    return 1 if low else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
