#!/usr/bin/env python3
"""The g-net part of a training step: torchGB, the C++ engine and gbcompress.GenomicBottleneck, alternating in one run.

    torchgb_compare.py --torchgb CHECKOUT --python PYTHON --gbcompress EXECUTABLE --package FOLDER

CHECKOUT is a folder with src/torchGB, PYTHON an interpreter with torch and numpy, FOLDER the one that holds the Python
package gbcompress. The checkout stays as it is: a temporary copy receives the two repairs without which its head
neither builds nor trains a g-net. All sides do zero, predict, backward and AdamW on the same shapes with given random
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


def layers_of(torch, widths):
    return torch.nn.Sequential(*(torch.nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:])))


def torchgb_of(torch, folder):
    """A function that makes torchGB's bottleneck of a model."""
    sys.path.insert(0, folder)
    stand_in_for_scipy()
    torch.distributed.init_process_group("gloo", init_method="file://" + os.path.join(folder, "rendezvous"), rank=0,
                                         world_size=1)
    import torchGB

    def make(model):
        holder = torch.nn.Module()
        holder.module = model
        return torchGB.GenomicBottleneck(holder, local_rank_dict={0: "cpu"}, hidden_dim=32, gnet_batchsize=10_000)

    return make


def package_of(torch, folder):
    sys.path.insert(0, folder)
    import gbcompress

    return lambda model: gbcompress.GenomicBottleneck(model, min_elements=1)


def worker(side, folder, threads):
    """Answers each line "SHAPE SECONDS" with the median seconds of a step."""
    import torch
    torch.set_num_threads(threads)
    make = {"torchgb": torchgb_of, "package": package_of}[side](torch, folder)
    nets = {}
    for shape, widths in SHAPES.items():
        model = layers_of(torch, widths)
        with contextlib.redirect_stdout(sys.stderr):
            net = make(model)
        nets[shape] = net, list(model), [1e-4 * torch.randn(layer.weight.shape) for layer in model]

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


class Worker:
    """A side in a process of its own."""

    def __init__(self, python, side, folder, threads, environment):
        self.process = subprocess.Popen(
            [python, "-B", os.path.abspath(__file__), "--worker", side, folder, str(threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        hello = self.process.stdout.readline()
        if not hello:
            sys.exit(f"the side {side} did not start; try: {python} {__file__} --worker {side} {folder} {threads}")
        self.hello = json.loads(hello)

    def seconds(self, shape, seconds):
        self.process.stdin.write(f"{shape} {seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(arguments, folder):
    """Seconds of each round by side and shape, and what the sides say of themselves."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    environment.pop("OMP_WAIT_POLICY", None)
    theirs = Worker(arguments.python, "torchgb", folder, arguments.threads, environment)
    package = Worker(arguments.python, "package", os.path.abspath(arguments.package), arguments.threads, environment)
    times = {side: {shape: [] for shape in SHAPES} for side in ("torchGB", "C++", "Python")}
    for _ in range(arguments.rounds):
        for shape in SHAPES:
            times["torchGB"][shape].append(theirs.seconds(shape, arguments.seconds))
            engine = json.loads(subprocess.run(
                [arguments.gbcompress, "bench", "engine", "--json", "--quiet", "--shape", shape, "--threads",
                 str(arguments.threads), "--seconds", str(arguments.seconds)],
                stdout=subprocess.PIPE, check=True, env=environment).stdout)
            times["C++"][shape].append(engine["shapes"][0]["step_seconds"])
            times["Python"][shape].append(package.seconds(shape, arguments.seconds))
    theirs.end()
    package.end()
    print(f"torchGB: torch {theirs.hello['torch']}, {theirs.hello['threads']} threads; C++: {engine['isa']}, "
          f"{engine['threads']} threads; Python: {package.hello['threads']} threads; {arguments.rounds} rounds, load "
          f"average {os.getloadavg()[0]:.2f}")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchgb", required=True, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gbcompress", required=True, metavar="EXECUTABLE")
    parser.add_argument("--package", required=True, metavar="FOLDER")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each side, shape and round")
    parser.add_argument("--at-least", type=float, metavar="RATIO",
                        help="fail where torchGB's median time over another side's is lower")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="torchgb-") as folder:
        repaired_copy(arguments.torchgb, folder)
        times = measure(arguments, folder)
    # Medians of the rounds; beside them each side's quietest round, should the machine be shared.
    print(f"{'shape':12}{'weights':>11}  {'side':10}{'step':>12}{'weights/s':>12}{'ratio':>8}{'quietest':>12}"
          f"{'ratio':>8}")
    low = False
    for shape, widths in SHAPES.items():
        weights = sum(a * b for a, b in zip(widths, widths[1:]))
        theirs = times["torchGB"][shape]
        for side, of_side in times.items():
            ours = of_side[shape]
            step, best = statistics.median(ours), min(ours)
            ratio = statistics.median(a / b for a, b in zip(theirs, ours))
            low = low or (side != "torchGB" and arguments.at_least is not None and ratio < arguments.at_least)
            rate = f"{weights / step / 1e6:.1f} M/s"
            print(f"{shape:12}{weights:>11,}  {side:10}{1e3 * step:>9.3f} ms{rate:>12}{ratio:>8.1f}"
                  f"{1e3 * best:>9.3f} ms{min(theirs) / best:>8.1f}")
    return 1 if low else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main())
