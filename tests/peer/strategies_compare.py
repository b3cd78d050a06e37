#!/usr/bin/env python3
"""Seconds a batch of the local strategies, the published PyTorch projects against ours, alternating in one run.

    strategies_compare.py --dtp CHECKOUT --al CHECKOUT --python PYTHON --gbcompress EXECUTABLE

--dtp is a checkout of amoudgl/distributed-dtp, --al one of nick880107-git/Pipeline-Associated-Learning, PYTHON an
interpreter with torch, this one's has numpy and safetensors. The checkouts stay as they are: a temporary copy
receives the repairs below, and stand-ins take the place of the libraries for logging and configuration, so that the
published steps run by themselves: no data loader, no Lightning, no logs. A step of theirs is timed alone, the median
of a round counts; a batch of ours is a share of the difference of a long and a short run of the program, with its data
and its optimiser. Same nets, batches of 64 random pictures, the same K and sigma, float32. It takes 8 minutes and an
idle machine: beside one other busy process, two threads of theirs wait for each other and take tens of times as long.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import types

K, SIGMA, BATCH, CLASSES = 10, 0.05, 64, 10
INPUTS = {"simple-vgg:32": (3, 32, 32), "lenet-dtp": (1, 28, 28)}
CHANNELS = {"simple-vgg:32": (32, 32, 64, 64, 128), "lenet-dtp": (32, 64)}
# Hidden units of a bridge, width of the codes, side that maps are averaged to before a bridge: our defaults, and the
# widths of the published VGG, which averages nothing (16 is the side of the largest map).
WIDTHS = {"our widths": (128, 32, 2), "their widths": (1000, 700, 16)}

DIFFERENCES = """\
dtp  theirs: three passes of a feedback network and two of its stage an iteration, SGD for the stages;
     ours: two and one, AdamW
al   theirs: sigmoids, mean square errors, no readout of the last stage;
     ours: tanh and ReLU, half sums of squares, the readout learns too, batches overlap in a pipeline"""

# (file, text, replacement). Each text must occur exactly once.
REPAIRS = {
    # Padding 1, as the paper's own repository has it: 3136 features of a 28 x 28 picture.
    "dtp": [("target_prop/networks/lenet.py", "kernel_size=3, stride=2,", "kernel_size=3, stride=2, padding=1,")],
    # simple-vgg's convolutions have biases.
    "al": [("ALPackage/vgg.py", "padding: int = 1, bias: bool = False", "padding: int = 1, bias: bool = True")],
}
PACKAGES = {"dtp": "target_prop", "al": "ALPackage"}
STAND_INS = {"hydra", "omegaconf", "plotly", "pytorch_lightning", "simple_parsing", "torchmetrics", "wandb"}


def repaired_copy(checkout, which, folder):
    source = pathlib.Path(checkout) / PACKAGES[which]
    if not source.is_dir():
        sys.exit(f"{checkout} holds no {PACKAGES[which]}")
    shutil.copytree(source, pathlib.Path(folder) / PACKAGES[which], ignore=shutil.ignore_patterns("__pycache__"))
    for name, text, replacement in REPAIRS[which]:
        path = pathlib.Path(folder) / name
        content = path.read_text()
        if content.count(text) != 1:
            sys.exit(f"repair of {name} does not apply: this is another version; its text is\n  {text}")
        path.write_text(content.replace(text, replacement))


# ---- their side: a process of its own, which answers lines ----


class _AnyName(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=_AnyName):
    """Whatever a module imports for logs and settings: a class to derive from, a function to call."""

    def __init__(self, *arguments, **named):
        pass


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that hold every name."""

    class Module(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return self.Module(spec.name)

    def exec_module(self, module):
        pass


def published_dtp(folder):
    """The package's module `dtp`, imported without what else the packages import."""
    import torch
    for package in ("target_prop", "target_prop.models"):
        if package not in sys.modules:
            module = sys.modules[package] = types.ModuleType(package)
            module.__path__ = [os.path.join(folder, *package.split("."))]
    import pytorch_lightning

    class Module(torch.nn.Module):
        trainer, device, global_step = None, "cpu", 0

        def log(self, *arguments, **named):
            pass

        save_hyperparameters = log

    pytorch_lightning.LightningModule = Module
    from target_prop.models import dtp

    dtp.instantiate = lambda options, **more: torch.optim.SGD(**(vars(options) | more))
    return dtp


def dtp_net(dtp, network, shape, rows, options):
    """Their algorithm around a network, ready for training_step()."""
    space = types.SimpleNamespace
    net = dtp.DTP(space(batch_size=rows, dims=shape), network, options, space(seed=None, debug=False), space())
    optimizers = [one["optimizer"] for one in net.configure_optimizers()]
    net._feedback_optimizers, net._forward_optimizer = optimizers[:-1] + [None], optimizers[-1]
    net.train()
    return net


def dtp_step(folder, arch, angles):
    """A whole step of the published sequential algorithm: feedback phase, targets, forward update."""
    import torch
    dtp = published_dtp(folder)
    from target_prop.networks import LeNet, SimpleVGG

    measured = dtp.compute_dist_angle

    space = types.SimpleNamespace
    shape, channels = INPUTS[arch], CHANNELS[arch]
    layers = 5 if arch.startswith("simple-vgg") else 3  # that have feedback
    options = space(feedback_training_iterations=[K] * layers, noise=[SIGMA] * layers, beta=0.7, use_scheduler=False,
                    feedback_samples_per_iteration=1, init_symetric_weights=False, plot_every=10_000,
                    f_optim=space(lr=0.01, weight_decay=1e-4, momentum=0.9),
                    b_optim=space(lr=[1e-3] * layers, weight_decay=0, momentum=0.9))
    build = SimpleVGG if layers == 5 else LeNet
    network = build(space(channels=channels, activation=torch.nn.ELU()), shape[0], CLASSES)
    net = dtp_net(dtp, network, shape, BATCH, options)
    batch = torch.randn(BATCH, *shape), torch.randint(CLASSES, (BATCH,))

    def step():
        dtp.compute_dist_angle = measured if angles else lambda forward, back: (0.0, 0.0)
        net.training_step(batch, 0)

    return step, net


def al_step(widths, mode):
    """A batch of the trainers' `train` (forward, backward, update of all), or of their `train_p` (threads)."""
    import torch
    from torch import nn
    from ALPackage.base import AE, AL, ENC
    from ALPackage.vgg import VGGAL, VGGLayer

    hidden, code, pool = WIDTHS[widths]
    net = VGGAL(3, CLASSES, 1, 1, nn.ReLU(), 1e-4)  # for what it does with its components, which are:
    parts, inputs, side, before = [], 3, 32, CLASSES
    for outputs in CHANNELS["simple-vgg:32"]:
        f = VGGLayer(inputs, [outputs, "M"], side, nn.ELU(), isBatchNorm=False)
        inputs, side = outputs, side // 2
        small = min(pool, side)
        b = nn.Sequential(*([nn.AdaptiveAvgPool2d(small)] if small < side else []), nn.Flatten(),
                          nn.Linear(outputs * small * small, hidden), nn.Sigmoid(),
                          nn.Linear(hidden, code), nn.Sigmoid())
        g, h = (nn.Sequential(nn.Linear(*ends), nn.Sigmoid()) for ends in ((before, code), (code, before)))
        parts.append(AL(ENC(f, b), AE(g, h), 1e-4))
        before = code
    net.seq, net.device = nn.ModuleList(parts), ["cpu"] * len(parts)
    net.train()
    inputs, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(CLASSES, (BATCH,))

    def step():
        y = torch.nn.functional.one_hot(labels, CLASSES).float()
        if mode == "threads":
            net.thread_forward_backward_and_update(inputs, y)
        else:
            net(inputs, y)
            net.backward()
            net.update()

    return step, net


def worker(folder):
    """Answers each line [strategy, subject, mode, threads, seconds] with the median seconds of a step."""
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, StandIns())
    import torch

    print(json.dumps({"torch": torch.__version__}), flush=True)
    steps = {}
    for line in sys.stdin:
        strategy, subject, mode, threads, seconds = json.loads(line)
        torch.set_num_threads(threads)
        key = strategy, subject, mode
        if key not in steps:
            torch.manual_seed(0)
            steps[key] = dtp_step(folder, subject, mode == "angles") if strategy == "dtp" else al_step(subject, mode)
        step, net = steps[key]
        step()  # warms up, after whatever ran before
        times, end = [], time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        if not all(p.isfinite().all() for p in net.parameters()):
            sys.exit(f"{key} diverged")
        print(statistics.median(times), flush=True)


# ---- both sides ----


def cases():
    """Name of a row, its net, what is asked of their worker (the first is compared), and of ours: (settings, ranks)."""
    def ours(options, ranks, *more):
        return ["--set", "strategy.options=" + options, *more], ranks

    for arch in INPUTS:
        same = f"K={K} sigma={SIGMA}"
        yield (f"dtp {arch}", arch,
               {"sequential": ("dtp", arch, "plain", 2), "with its angles": ("dtp", arch, "angles", 2)},
               {"1 rank, 2 threads": ours(same, 1, "--set", "train.threads=2"), "2 ranks": ours(same, 2),
                "2 ranks, shards=4": ours(same + " shards=4", 2)})
    for name, (hidden, code, pool) in WIDTHS.items():
        same = f"bridge={hidden} widths={code} pool={pool} pipeline=1"
        yield (f"al simple-vgg:32, {name}", "simple-vgg:32",
               {"sequential": ("al", name, "sequential", 2), "threads mode": ("al", name, "threads", 2),
                "threads mode, 1 each": ("al", name, "threads", 1)},
               {"pipeline, 2 threads": ours(same + " threads=2", 1), "pipeline, 2 ranks": ours(same, 2)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtp", required=True, metavar="CHECKOUT")
    parser.add_argument("--al", required=True, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gbcompress", required=True, metavar="EXECUTABLE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of theirs, for each figure and round")
    parser.add_argument("--dtp-steps", type=int, default=4, help="batches an epoch of ours; a figure is 2 epochs")
    parser.add_argument("--al-steps", type=int, default=50)
    parser.add_argument("--only", default="", help="rows whose name begins so")
    arguments = parser.parse_args()

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
    import numpy as np
    from safetensors.numpy import save_file
    import strategy_scaling
    assert strategy_scaling.BATCH == BATCH, "strategy_scaling.py runs batches of another size"

    rows = [row for row in cases() if row[0].startswith(arguments.only)]
    theirs = {(row[0], name): [] for row in rows for name in row[2]}
    ours = {(row[0], name): [] for row in rows for name in row[3]}
    with tempfile.TemporaryDirectory(prefix="strategies-") as folder:
        for which in PACKAGES:
            repaired_copy(getattr(arguments, which), which, folder)
        data = os.path.join(folder, "data.safetensors")
        environment = dict(os.environ, OMP_NUM_THREADS="2")
        environment.pop("OMP_WAIT_POLICY", None)
        peer = subprocess.Popen([arguments.python, "-B", os.path.abspath(__file__), "--worker", folder],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        version = json.loads(peer.stdout.readline() or sys.exit("their side did not start"))["torch"]
        for _ in range(arguments.rounds):
            for row, arch, asked, run in rows:
                strategy = row.split()[0]
                for name, request in asked.items():
                    peer.stdin.write(json.dumps([*request, arguments.seconds]) + "\n")
                    peer.stdin.flush()
                    theirs[row, name].append(float(peer.stdout.readline() or sys.exit(f"{row}: their side ended")))
                steps = arguments.dtp_steps if strategy == "dtp" else arguments.al_steps
                draw, tensors = np.random.default_rng(0), {}
                for prefix, count in (("", steps * BATCH), ("test_", BATCH)):
                    tensors[prefix + "inputs"] = draw.standard_normal((count, *INPUTS[arch])).astype(np.float32)
                    tensors[prefix + "targets"] = draw.integers(0, CLASSES, count)
                save_file(tensors, data)
                for name, (settings, world) in run.items():
                    settings = ["--strategy", strategy, *settings]
                    seconds, _ = strategy_scaling.batch_seconds(arguments.gbcompress, arch, data, settings, world,
                                                                steps=steps)
                    ours[row, name].append(seconds)
        peer.stdin.close()
        peer.wait()

    print(f"torch {version}, {os.cpu_count()} cores, {arguments.rounds} rounds, load average {os.getloadavg()[0]:.2f}; "
          f"batches of {BATCH}, K={K}, sigma={SIGMA}; milliseconds a batch: median of the rounds (lowest to highest); "
          "ratio: `sequential` to ours, round by round")
    print(DIFFERENCES)

    def spread(values, unit=1.0, digits=1):
        low, middle, high = (unit * f(values) for f in (min, statistics.median, max))
        return f"{middle:9.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    for row, _, asked, run in rows:
        print(f"\n{row}")
        for name in asked:
            print(f"  theirs, {name:22}{spread(theirs[row, name], 1e3)}")
        for name in run:
            ratios = [a / b for a, b in zip(theirs[row, "sequential"], ours[row, name])]
            print(f"  ours,   {name:22}{spread(ours[row, name], 1e3):34}ratio{spread(ratios, digits=2)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2])
    else:
        sys.exit(main())
