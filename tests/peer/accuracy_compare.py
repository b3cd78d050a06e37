#!/usr/bin/env python3
"""Test accuracy of the published PyTorch projects and of ours: same data, net, batches, epochs.

    accuracy_compare.py --dtp CHECKOUT --al CHECKOUT --torchgb CHECKOUT --gbcompress EXECUTABLE --mnist DIR --cifar10 TRAIN,TEST [--seeds 3]

What is not given is left out: dtp takes either data set, torchgb needs --mnist, al needs --cifar10. Checkouts, repairs and stand-ins
are those of strategies_compare.py and torchgb_compare.py. Some thousand training samples and the whole test
set; accuracy is that after the last epoch, mean and standard error of the mean over the seeds. Needs torch, numpy and
safetensors. Prints one JSON line per strategy and code, and to stderr each seed's accuracy when it is known.

dtp on CIFAR-10 is simple-vgg with the published settings (samples/08_reproduce/cifar10-simple-vgg-distributed-dtp.toml) beside
backpropagation: --width and --epochs make it smaller, and the schedule shrinks with the epochs. A seed takes 22 minutes of
processor time of ours and 36 of the published code at the defaults, 65 and 91 with --width 32, from a few steps of each."""

import argparse
import gzip
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import types

import numpy as np
import strategies_compare as peers
import torchgb_compare

#: lenet-dtp on MNIST, with the published settings of its net (target_prop/models/dtp_test.py) but a quarter of its iterations, at
#: which the published learning rate, 0.0362, ends in NaN in the published code.
DTP = {"train": 4_000, "epochs": 2, "batch": 128, "K": [10, 13, 6], "sigma": [0.416, 0.383, 0.140],
       "feedback": [7.19e-4, 1.25e-4, 0.0354], "beta": 0.4655, "lr": 0.01, "decay": 1e-4}  # fmt: skip
#: simple-vgg on CIFAR-10, as ours reads it from samples/08_reproduce (conf/reproduce/cifar10_simple_vgg_distributed_dtp.yaml): the
#: published code takes the same numbers in its own units. 85 of 90 epochs is the half period of its cosine.
VGG = {"train": 8_000, "batch": 128, "K": [20, 30, 35, 55, 20], "sigma": [0.4, 0.4, 0.2, 0.2, 0.08],
       "feedback": [1e-4, 3.5e-4, 8e-3, 8e-3, 0.18], "beta": 0.7, "lr": 0.05, "last_lr": 1e-5, "decay": 1e-4,
       "period": lambda epochs: max(1, round(epochs * 85 / 90))}  # fmt: skip
SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "08_reproduce")
#: simple-vgg:32 on CIFAR-10 with the published losses, and the activations of the published nets of texts: with sigmoids both codes
#: stay at chance for tens of epochs.
AL = {"train": 10_000, "epochs": 4, "batch": 64, "lr": 1e-3, "hidden": 128, "code": 32, "pool": 2}

#: The net of torchGB's example with its optimizers; every weight is made by a g-net, biases are trained as they are.
GNETS = {"train": 10_000, "epochs": 12, "batch": 128, "lr": 1e-3, "hidden": 32, "tile": 10_000, "widths": (784, 256, 256, 64, 10)}


def mnist(folder, count):
    def read(name, skip):
        path = os.path.join(folder, name)
        opened = gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")
        with opened as file:
            return np.frombuffer(file.read(), np.uint8)[skip:]

    def part(name, most):
        images = read(f"{name}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)[:most]
        return images.astype(np.float32) / 255, read(f"{name}-labels-idx1-ubyte", 8)[:most].astype(np.int64)

    return *part("train", count), *part("t10k", None)


def cifar10(paths, count):
    def part(path, most):
        opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
        with opened as file:
            records = np.frombuffer(file.read(), np.uint8).reshape(-1, 3073)[:most]
        return (records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255 - 0.5) / 0.25, records[:, 0].astype(np.int64)

    train, test = paths.split(",")
    return *part(train, count), *part(test, None)


def shifted_and_flipped(images, generator):
    """Crops of 32 x 32 of images whose edges are repeated 4 times, half of them mirrored: the published transforms."""
    import torch

    wide = torch.nn.functional.pad(images, (4, 4, 4, 4), mode="replicate")
    places = torch.randint(9, (len(images), 2), generator=generator).tolist()
    mirrored = (torch.rand(len(images), generator=generator) < 0.5).tolist()
    crops = [one[:, y : y + 32, x : x + 32] for one, (y, x) in zip(wide, places)]
    return torch.stack([crop.flip(2) if mirror else crop for crop, mirror in zip(crops, mirrored)])


def epochs(data, settings, seed, step, augment=None, after=None):
    """Calls step(images, labels) for every batch of every epoch, shuffled, and after() at the end of an epoch."""
    import torch

    images, labels = torch.from_numpy(data[0]), torch.from_numpy(data[1])
    generator = torch.Generator().manual_seed(seed)
    for _ in range(settings["epochs"]):
        order = torch.randperm(len(labels), generator=generator)
        for first in range(0, len(order), settings["batch"]):
            rows = order[first : first + settings["batch"]]
            step(augment(images[rows], generator) if augment else images[rows], labels[rows])
        if after:
            after()


def accuracy(answer, data):
    import torch

    right = 0
    with torch.no_grad():
        for first in range(0, len(data[3]), 500):
            scores = answer(torch.from_numpy(data[2][first : first + 500]))
            right += int((scores.argmax(1).numpy() == data[3][first : first + 500]).sum())
    return 100 * right / len(data[3])


def their_dtp(folder, data, seed):
    import torch

    dtp = peers.published_dtp(folder)
    from target_prop.networks import LeNet

    dtp.compute_dist_angle = lambda forward, back: (0.0, 0.0)
    space = types.SimpleNamespace
    options = space(feedback_training_iterations=DTP["K"], noise=DTP["sigma"], beta=DTP["beta"], use_scheduler=False,
                    feedback_samples_per_iteration=1, init_symetric_weights=False, plot_every=10_000,
                    f_optim=space(lr=DTP["lr"], weight_decay=DTP["decay"], momentum=0.9),
                    b_optim=space(lr=DTP["feedback"], weight_decay=0, momentum=0.9))  # fmt: skip
    torch.manual_seed(seed)
    network = LeNet(space(channels=(32, 64), activation=torch.nn.ELU()), 1, 10)
    net = peers.dtp_net(dtp, network, (1, 28, 28), DTP["batch"], options)
    epochs(data, DTP, seed, lambda images, labels: net.training_step((images, labels), 0))
    net.eval()
    return accuracy(net.forward_net, data)


def their_vgg(folder, data, seed, width, count, backprop=False):
    """backprop: their network, optimizer and schedule, as their models/baseline.py has them."""
    import torch

    dtp = peers.published_dtp(folder)
    from target_prop.networks import SimpleVGG

    dtp.compute_dist_angle = lambda forward, back: (0.0, 0.0)
    space = types.SimpleNamespace
    options = space(feedback_training_iterations=VGG["K"], noise=VGG["sigma"], beta=VGG["beta"], use_scheduler=False,
                    feedback_samples_per_iteration=1, init_symetric_weights=False, plot_every=10_000,
                    f_optim=space(lr=VGG["lr"], weight_decay=VGG["decay"], momentum=0.9),
                    b_optim=space(lr=VGG["feedback"], weight_decay=0, momentum=0.9))  # fmt: skip
    torch.manual_seed(seed)
    channels = [width * times for times in (1, 1, 2, 2, 4)]
    network = SimpleVGG(space(channels=channels, activation=torch.nn.ELU()), 3, 10)
    net = peers.dtp_net(dtp, network, (3, 32, 32), VGG["batch"], options)
    optimizer = net._forward_optimizer
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, VGG["period"](count), eta_min=VGG["last_lr"])

    def by_backprop(images, labels):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    step = by_backprop if backprop else lambda images, labels: net.training_step((images, labels), 0)
    epochs(data, {"epochs": count, "batch": VGG["batch"]}, seed, step, shifted_and_flipped, schedule.step)
    net.eval()
    return accuracy(net.forward_net, data)


def their_al(folder, data, seed, drawn_as_ours=False):
    """drawn_as_ours: g begins with normal weights of deviation 1 / sqrt(inputs) and biases of 0; all else is drawn alike."""
    import torch
    from torch import nn

    sys.path.insert(0, folder)
    torch.manual_seed(seed)
    from ALPackage.base import AE, AL as Layer, ENC
    from ALPackage.emb import EMBAE
    from ALPackage.vgg import VGGAL, VGGLayer

    net = VGGAL(3, 10, 1, 1, nn.ReLU(), 1e-4)  # for what it does with its components, which are:
    parts, inputs, side, before = [], 3, 32, 10
    for outputs in peers.CHANNELS["simple-vgg:32"]:
        f = VGGLayer(inputs, [outputs, "M"], side, nn.ELU(), isBatchNorm=False)
        inputs, side = outputs, side // 2
        small = min(AL["pool"], side)
        pool = [nn.AdaptiveAvgPool2d(small)] if small < side else []
        b = nn.Sequential(*pool, nn.Flatten(), nn.Linear(outputs * small * small, AL["hidden"]), nn.Tanh(),
                          nn.Linear(AL["hidden"], AL["code"]), nn.Tanh())  # fmt: skip
        g, h = nn.Sequential(nn.Linear(before, AL["code"]), nn.Tanh()), nn.Linear(AL["code"], before)
        autoencoder = AE(g, h) if parts else EMBAE(g, h, nn.CrossEntropyLoss())
        parts.append(Layer(ENC(f, b), autoencoder, AL["lr"]))
        before = AL["code"]
    net.seq, net.device = nn.ModuleList(parts), ["cpu"] * len(parts)
    if drawn_as_ours:
        for part in parts:
            nn.init.normal_(part.ae.g[0].weight, std=part.ae.g[0].in_features**-0.5)
            nn.init.zeros_(part.ae.g[0].bias)
    net.train()

    def step(images, labels):
        net(images, nn.functional.one_hot(labels, 10).float())
        net.backward()
        net.update()

    epochs(data, AL, seed, step)
    net.eval()
    return accuracy(net.inference, data)


def their_gnets(folder, data, seed):
    import contextlib

    import torch
    import torchGB
    from torch import nn

    torch.manual_seed(seed)
    layers = []
    for inputs, outputs in zip(GNETS["widths"], GNETS["widths"][1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    holder = nn.Module()
    holder.module = net = nn.Sequential(*layers[:-1])
    with contextlib.redirect_stdout(sys.stderr):
        gnets = torchGB.GenomicBottleneck(holder, local_rank_dict={0: "cpu"}, hidden_dim=GNETS["hidden"], lr=GNETS["lr"],
                                          gnet_batchsize=GNETS["tile"])  # fmt: skip
    optimizer = torch.optim.Adam(holder.parameters(), lr=GNETS["lr"])

    def step(images, labels):
        optimizer.zero_grad()
        gnets.zero_grad()
        gnets.predict_weights()
        nn.functional.cross_entropy(net(images.flatten(1)), labels).backward()
        gnets.backward()
        optimizer.step()
        gnets.step()

    epochs(data, GNETS, seed, step)
    with torch.no_grad():
        gnets.predict_weights()
    return accuracy(lambda images: net(images.flatten(1)), data)


def ours(options, data, seed, arch, settings, more, mode="exact", rules=None, exit_number=None, published=None):
    """rules: text of a configuration; published: the name of one of SAMPLES, which then decides batch, schedule and transforms."""
    from safetensors.numpy import save_file

    with tempfile.TemporaryDirectory() as folder:
        file, out = os.path.join(folder, "data.safetensors"), os.path.join(folder, "out.gbz")
        save_file(dict(zip(("inputs", "targets", "test_inputs", "test_targets"), data)), file)
        command = [options.gbcompress, "compress", "--from-scratch", "--arch", arch, "--data", f"tensors:{file}", "--mode", mode,
                   "--epochs", str(settings["epochs"]), "--seed", str(seed), "-o", out, "-q", "--json"]  # fmt: skip
        if published:
            command += ["--config", os.path.join(SAMPLES, published)]
        else:
            more = [f"train.batch={settings['batch']}", "optim.schedule=constant", "train.shift=0", "train.flip=no", *more]
        for one in more:
            command += ["--set", one]
        if rules:
            with open(os.path.join(folder, "rules.toml"), "w") as config:
                config.write(rules)
            command += ["--config", config.name]
        environment = {**os.environ, "GBCOMPRESS_FIT_STEPS": "0"}
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    return report["metric"]["last_exit"] if exit_number else report["metric"]["after"]


def our_dtp(options, data, seed):
    join = ",".join
    return ours(options, data, seed, "lenet-dtp", DTP,
                ["strategy.name=dtp", f"strategy.K={join(map(str, DTP['K']))}", f"strategy.sigma={join(map(str, DTP['sigma']))}",
                 f"strategy.feedback_lr={join(map(str, DTP['feedback']))}", f"strategy.beta={DTP['beta']}", "strategy.inverse=published",
                 "strategy.momentum=0.9", "optim.plain_optimizer=sgd", "optim.plain_momentum=0.9",
                 f"optim.plain_lr={DTP['lr']}", f"optim.plain_weight_decay={DTP['decay']}"])  # fmt: skip


def our_vgg(options, data, seed, strategy):
    return ours(options, data, seed, f"simple-vgg:{options.width}", {"epochs": options.epochs},
                [f"optim.schedule_epochs={VGG['period'](options.epochs)}", f"train.threads={options.threads}"],
                published=f"cifar10-simple-vgg-{strategy}.toml")  # fmt: skip


def our_al(options, data, seed):
    arch = f"exits:split=1+1+1+1+1,width={AL['code']},bridge={AL['hidden']},pool={AL['pool']},hidden=codes:simple-vgg:32"
    return ours(options, data, seed, arch, AL,
                ["strategy.name=al", "strategy.loss=mse", f"strategy.lr={AL['lr']}", "strategy.beta2=0.999", f"optim.plain_lr={AL['lr']}",
                 "optim.plain_beta2=0.999"], exit_number=5)  # fmt: skip


def our_gnets(options, data, seed):
    flat = (data[0].reshape(len(data[0]), -1), data[1], data[2].reshape(len(data[2]), -1), data[3])
    return ours(options, flat, seed, "mlp:" + "-".join(map(str, GNETS["widths"])), GNETS,
                ["artifact.coding=fp32", "target.max_bytes=10000000", f"optim.lr={GNETS['lr']}",
                 f"optim.plain_lr={GNETS['lr']}", "optim.plain_beta2=0.999"], mode="generated",
                # A rule fixes the tiles; of the setting alone, the recipe makes more and smaller ones up to the size.
                rules=f'[[layer]]\nmatch = "*.weight"\ntile_weights = {GNETS["tile"]}\nhidden = [{GNETS["hidden"]}]\n')  # fmt: skip


def row(strategy, code, values, seconds):
    mean = sum(values) / len(values)
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1) / len(values))
    print(json.dumps({"strategy": strategy, "code": code, "accuracy": round(mean, 2), "standard_error": round(error, 2),
                      "values": [round(v, 2) for v in values], "processor_seconds": round(seconds, 1)}), flush=True)  # fmt: skip


def cases(options, folder):
    """(strategy, code, accuracy of a seed) of what is asked for."""
    import torch

    if options.torchgb and options.mnist:
        torchgb_compare.repaired_copy(options.torchgb, folder)
        torchgb_compare.stand_in_for_scipy()
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
        digits = mnist(options.mnist, GNETS["train"])
        yield "torchgb", "published", lambda seed: their_gnets(folder, digits, seed)
        yield "torchgb", "ours", lambda seed: our_gnets(options, digits, seed)
    if options.dtp and options.mnist:
        data = mnist(options.mnist, DTP["train"])
        yield "dtp", "published", lambda seed: their_dtp(folder, data, seed)
        yield "dtp", "ours", lambda seed: our_dtp(options, data, seed)
    if options.dtp and options.cifar10:
        pictures, size = cifar10(options.cifar10, VGG["train"]), (options.width, options.epochs)
        yield "simple-vgg backprop", "published", lambda seed: their_vgg(folder, pictures, seed, *size, backprop=True)
        yield "simple-vgg backprop", "ours", lambda seed: our_vgg(options, pictures, seed, "backprop")
        yield "simple-vgg dtp", "published", lambda seed: their_vgg(folder, pictures, seed, *size)
        yield "simple-vgg dtp", "ours", lambda seed: our_vgg(options, pictures, seed, "distributed-dtp")
    if options.al and options.cifar10:
        images = cifar10(options.cifar10, AL["train"])
        yield "al", "published", lambda seed: their_al(folder, images, seed)
        yield "al", "published, g drawn as ours", lambda seed: their_al(folder, images, seed, drawn_as_ours=True)
        yield "al", "ours", lambda seed: our_al(options, images, seed)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtp", metavar="CHECKOUT", help="of amoudgl/distributed-dtp")
    parser.add_argument("--al", metavar="CHECKOUT", help="of nick880107-git/Pipeline-Associated-Learning")
    parser.add_argument("--torchgb", metavar="CHECKOUT", help="of jamielohoff/torchGB")
    parser.add_argument("--gbcompress", required=True)
    parser.add_argument("--mnist", help="a folder with MNIST's four files")
    parser.add_argument("--cifar10", metavar="TRAIN,TEST", help="binary records")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose strategy and code begin so, as in `simple-vgg dtp, ours`")
    parser.add_argument("--width", type=int, default=16, help="of simple-vgg's first convolution")
    parser.add_argument("--epochs", type=int, default=20, help="of simple-vgg")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the published code, and of simple-vgg; beside other programs, 1 is fastest")
    return parser.parse_args()


def main():
    options = arguments()
    sys.meta_path.insert(0, peers.StandIns())
    import torch

    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        for which in ("dtp", "al"):
            if getattr(options, which):
                peers.repaired_copy(getattr(options, which), which, folder)
        sys.path.insert(0, folder)
        for strategy, code, run in cases(options, folder):
            if not f"{strategy}, {code}".startswith(options.only):
                continue
            start, values = time.process_time() + children(), []
            for seed in range(options.seeds):
                values.append(run(seed))
                print(f"{strategy}, {code}, seed {seed}: {values[-1]:.2f} %", file=sys.stderr, flush=True)
            row(strategy, code, values, (time.process_time() + children() - start) / options.seeds)


def children():
    """Seconds of processor time of ended programs that this one started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
