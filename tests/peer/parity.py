#!/usr/bin/env python3
"""Numbers of one training step, the published code against ours: same weights, batch and noise.

    parity.py --dtp CHECKOUT --al CHECKOUT --torchgb CHECKOUT --driver build/release/bin/gbc_parity

--dtp is a checkout of amoudgl/distributed-dtp, --al one of nick880107-git/Pipeline-Associated-Learning, --torchgb one
of jamielohoff/torchGB; what is not given is left out. `ninja gbc_parity` builds the driver. The checkouts stay as
they are: temporary copies receive the repairs of strategies_compare.py and torchgb_compare.py. The driver makes one
step in float32 and writes everything down; the published step then runs on the same weights, batch and noise, in
float64, so that what differs is our rounding and our formulas, and in float32, which says how much their own rounding
is. A difference is the norm of a tensor's difference over its norm. Ends with status 1 where one of ours is above
--at-most and above theirs in float32: "target less output" is a difference of nearly equal numbers, and in the lowest
layers the published code itself keeps five digits of it. It takes half a minute."""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import strategies_compare
import torchgb_compare

BETA, SIGMA = 0.7, 0.1
DTP_NETS = {"simple-vgg:8": 16, "lenet-dtp": 16}  # rows of the batch
# Every component of simple-vgg:8, whose bridge sees all of a map; tanh codes, and a first component that learns the
# class by cross-entropy, as the published nets for text have them.
AL_OPTIONS = "bridge=24 widths=12 pool=32"


class Table:
    """Rows of differences, ours and the published code's own between float32 and float64."""

    def __init__(self):
        self.rows = []

    def add(self, net, quantity, ours, theirs64, theirs32):
        def difference(value):
            value, exact = value.double().flatten(), theirs64.double().flatten()
            return ((value - exact).norm() / exact.norm()).item()

        if ours.shape != theirs64.shape:
            sys.exit(f"{net}, {quantity}: our shape is {list(ours.shape)}, theirs {list(theirs64.shape)}")
        if not theirs64.norm() > 0:
            sys.exit(f"{net}, {quantity}: theirs is zero, so that nothing is compared")
        self.rows.append((net, quantity, difference(ours), difference(theirs32)))

    def add_all(self, net, ours, theirs64, theirs32):
        for quantity, value in theirs64.items():
            if quantity in ours:
                self.add(net, quantity, ours[quantity], value, theirs32[quantity])

    def failed(self, at_most):
        return [row for row in self.rows if not row[2] <= max(at_most, row[3])]

    def figures(self):
        return [{"name": f"{net}, {quantity}{whose}", "value": float(f"{value:.2g}"), "unit": ""}
                for net, quantity, ours, theirs in self.rows
                for whose, value in (("", ours), (", theirs in float32", theirs))]

    def print(self):
        print(f"{'net':34}{'quantity':34}{'ours':>10}{'theirs in float32':>20}")
        for net, quantity, ours, theirs in self.rows:
            print(f"{net:34}{quantity:34}{ours:>10.1e}{theirs:>20.1e}")


def step_of_ours(driver, folder, *arguments):
    import torch
    out = os.path.join(folder, "step.pt")
    scenario, *more = arguments
    subprocess.run([driver, scenario, out, *more], check=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    return torch.load(out, weights_only=False)  # of the driver


@contextlib.contextmanager
def default_type(dtype):
    import torch
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(torch.float32)


def fill(parameters, values):
    """Writes values into parameters, whose numbers of elements must be the same in the same order."""
    import torch
    with torch.no_grad():
        parameters, values = list(parameters), list(values)
        if [p.shape for p in parameters] != [v.shape for v in values]:
            sys.exit(f"their parameters are {[list(p.shape) for p in parameters]}, "
                     f"ours {[list(v.shape) for v in values]}")
        for parameter, value in zip(parameters, values):
            parameter.copy_(value)


def fill_flat(parameters, flat):
    parameters = list(parameters)
    if sum(p.numel() for p in parameters) != flat.numel():
        sys.exit(f"their feedback network has {sum(p.numel() for p in parameters)} parameters, ours {flat.numel()}")
    fill(parameters, (part.view(p.shape) for p, part in
                      zip(parameters, flat.split([p.numel() for p in parameters]))))


def named(step, prefix):
    return {name.removeprefix(prefix): value for name, value in step.items() if name.startswith(prefix)}


# ---- difference target propagation ----


def in_forward_order(module):
    """Parameters of a feedback network in the order of the layers that it inverts, as ours are."""
    import torch
    children = list(module.children())
    if isinstance(module, torch.nn.Sequential):
        children.reverse()
    return [p for child in children for p in in_forward_order(child)] if children else list(module.parameters())


def published_network(arch):
    import torch
    from target_prop.networks import LeNet, SimpleVGG
    space = types.SimpleNamespace
    if arch == "lenet-dtp":
        return LeNet(space(channels=(32, 64), activation=torch.nn.ELU()), 1, 10)
    return SimpleVGG(space(channels=(8, 8, 16, 16, 32), activation=torch.nn.ELU()), 3, 10)


def dtp_of_theirs(dtp, arch, step, dtype):
    """One published step; what it computed, by the names of the table."""
    import torch
    with default_type(dtype):
        network = published_network(arch)
        inputs = step["inputs"].to(dtype)
        network(inputs[:1])  # lazy layers get their shapes
        layers = len(network) - 1
        space = types.SimpleNamespace
        options = space(feedback_training_iterations=[1] * layers, noise=[SIGMA] * layers, beta=BETA,
                        use_scheduler=False, feedback_samples_per_iteration=1, init_symetric_weights=False,
                        plot_every=10_000, f_optim=space(lr=0.01, weight_decay=0, momentum=0.9),
                        b_optim=space(lr=[0.01] * layers, weight_decay=0, momentum=0.9))
        net = strategies_compare.dtp_net(dtp, network, tuple(inputs.shape[1:]), len(inputs), options)
    fill(network.parameters(), named(step, "weight.").values())
    back = list(net.backward_net)[::-1]
    for i in range(1, layers + 1):
        fill_flat(in_forward_order(back[i]), step[f"feedback.{i}"])

    noise = [step[f"{which}.{i}"].to(dtype) for i in range(1, layers + 1) for which in ("dx", "dy")]
    losses, targets, signals = [], {}, {}
    layer_loss, compute_target, randn_like = net.layer_feedback_loss, net.compute_target, torch.randn_like

    def given_noise(like):
        value = noise.pop(0)
        assert value.shape == like.shape and value.dtype == like.dtype
        return value

    def kept_loss(**named_arguments):
        losses.append(layer_loss(**named_arguments))
        return losses[-1]

    def kept_target(i, G, hs, prev_target):
        targets[i - 1] = compute_target(i=i, G=G, hs=hs, prev_target=prev_target)
        targets.setdefault(i, prev_target)
        signals.update(enumerate(hs))
        return targets[i - 1]

    net.layer_feedback_loss, net.compute_target, torch.randn_like = kept_loss, kept_target, given_noise
    try:
        net.training_step((inputs, step["targets"]), 0)
    finally:
        torch.randn_like = randn_like
    assert not noise and len(losses) == layers
    result = {"feedback loss": sum(losses).detach()}
    for i in range(1, layers + 1):
        result[f"feedback loss {i}"] = losses[i - 1].detach()
        result[f"feedback gradient {i}"] = torch.cat([p.grad.flatten() for p in in_forward_order(back[i])])
    for i in range(layers + 1):
        result[f"target {i}"] = targets[i]
        result[f"target less output {i}"] = (targets[i] - signals[i]).detach()
    for i, stage in enumerate(network):
        result[f"forward gradient {i}"] = torch.cat([p.grad.flatten() for p in stage.parameters()])
    return result


def compare_dtp(table, checkout, driver, folder):
    import torch
    strategies_compare.repaired_copy(checkout, "dtp", folder)
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, strategies_compare.StandIns())
    dtp = strategies_compare.published_dtp(folder)
    dtp.compute_dist_angle = lambda forward, back: (0.0, 0.0)  # logged, and slow
    for arch, rows in DTP_NETS.items():
        step = step_of_ours(driver, folder, "dtp", arch, str(rows),
                            f"inverse=published sigma={SIGMA} beta={BETA} feedback_lr=0.01")
        exact, rounded = (dtp_of_theirs(dtp, arch, step, dtype) for dtype in (torch.float64, torch.float32))
        ours = {}
        for i in range(len(named(step, "change."))):
            # Ours divides the distance from the target by beta and by the rows, so that it is a gradient.
            change = -step[f"change.{i}"].double() * (BETA * rows)
            ours[f"target less output {i}"] = change
            ours[f"target {i}"] = step[f"output.{i}"] + change
            ours[f"forward gradient {i}"] = BETA * step[f"gradient.{i}"]
            if i > 0:
                ours[f"feedback gradient {i}"] = step[f"feedback_gradient.{i}"]
            if f"feedback_loss.{i}" in step:
                ours[f"feedback loss {i}"] = step[f"feedback_loss.{i}"][0]
        ours["feedback loss"] = step["feedback_loss"][0]
        table.add_all("dtp " + arch, ours, exact, rounded)


# ---- associated learning ----


def al_of_theirs(step, dtype):
    """The losses and gradients of all components of the package, built from its parts as its documentation says."""
    import torch
    from torch import nn
    from ALPackage.base import AE, AL, ENC
    from ALPackage.emb import EMBAE
    weights, result = named(step, "weight."), {}
    with default_type(dtype):
        x, y = step["inputs"].to(dtype), nn.functional.one_hot(step["targets"], 10).to(dtype)
        for i in range(len([name for name in step if name.startswith("bridge_loss.")])):
            own = list(named(step, f"before.component{i}#").values())
            bridge, codes = own[:4], own[13:17]  # behind each: two moments of every tensor, and step counts
            kernel = weights[f"conv{i + 1}.0.weight"]
            f = nn.Sequential(nn.Conv2d(kernel.shape[1], kernel.shape[0], 3, padding=1), nn.ELU(), nn.MaxPool2d(2))
            b = nn.Sequential(nn.Flatten(), nn.Linear(*reversed(bridge[0].shape)), nn.ReLU(),
                              nn.Linear(*reversed(bridge[2].shape)), nn.Tanh())
            g = nn.Sequential(nn.Linear(*reversed(codes[0].shape)), nn.Tanh())
            h = nn.Linear(*reversed(codes[2].shape))
            ae = EMBAE(g, h, nn.CrossEntropyLoss()) if i == 0 else AE(g, h)
            al = AL(ENC(f, b), ae, 1e-3)
            fill(f.parameters(), [kernel, weights[f"conv{i + 1}.0.bias"]])
            fill(b.parameters(), bridge)
            fill([*g.parameters(), *h.parameters()], codes)
            width = codes[0].shape[0]
            before = codes[0].shape[1]
            x, y = al(x, y)
            al.backward()
            enc_loss, ae_loss = al.loss()
            # Half a sum over the code is ours, a mean over it theirs.
            of_code = 1 if i == 0 else before / 2
            number = str(i + 1)
            result["bridge loss " + number] = enc_loss.detach() * (width / 2)
            result["code loss " + number] = ae_loss.detach() * of_code
            for name, module, factor in (("f", f, width / 2), ("b", b, width / 2), ("g", g, of_code),
                                         ("h", h, of_code)):
                result[f"gradient of {name} {number}"] = factor * torch.cat([p.grad.flatten()
                                                                             for p in module.parameters()])
    return result


def al_of_ours(step):
    import torch
    result, gradients = {}, named(step, "gradient.")
    for i in range(len([name for name in step if name.startswith("bridge_loss.")])):
        number = str(i + 1)
        after = list(named(step, f"after.component{i}#").values())
        # The first moment of Adam after its first step, beta1 being 0.9.
        b, codes = ([moment / 0.1 for moment in after[at:at + 4]] for at in (4, 17))

        def flat(parts):
            return torch.cat([part.flatten() for part in parts])

        result["bridge loss " + number] = step[f"bridge_loss.{number}"][0]
        result["code loss " + number] = step[f"code_loss.{number}"][0]
        result["gradient of f " + number] = flat(gradients[f"conv{number}.0.{which}"] for which in ("weight", "bias"))
        result["gradient of b " + number] = flat(b)
        result["gradient of g " + number] = flat(codes[:2])
        result["gradient of h " + number] = flat(codes[2:])
    return result


def compare_al(table, checkout, driver, folder):
    import torch
    strategies_compare.repaired_copy(checkout, "al", folder)
    sys.path.insert(0, folder)
    step = step_of_ours(driver, folder, "al", "simple-vgg:8", "16", AL_OPTIONS)
    table.add_all("al simple-vgg:8", al_of_ours(step), al_of_theirs(step, torch.float64),
                  al_of_theirs(step, torch.float32))


# ---- torchGB ----


def gnets_of_theirs(step, dtype):
    import torch
    import torchGB
    names = list(named(step, "original."))
    holder = torch.nn.Module()
    holder.module = torch.nn.Sequential(*(torch.nn.Linear(*reversed(step["original." + name].shape), bias=False)
                                          for name in names)).to(dtype)
    fill(holder.module.parameters(), [step["original." + name] for name in names])
    with contextlib.redirect_stdout(sys.stderr):
        net = torchGB.GenomicBottleneck(holder, local_rank_dict={0: "cpu"}, hidden_dim=32, gnet_batchsize=10_000)
    for name in names:
        layer = net.gnetdict[name]
        layer.gnet_input = layer.gnet_input.to(dtype)
        for gnet, theta in zip(layer.gnets, step["theta." + name], strict=True):
            fill_flat(gnet.to(dtype).parameters(), theta)
    net.zero_grad()
    net.predict_weights()
    result = {}
    for i, name in enumerate(names):
        result["weights of " + name] = holder.module[i].weight.detach().clone()
        holder.module[i].weight.grad = step["given." + name].to(dtype)
    net.backward()
    for name in names:
        result["g-net gradients of " + name] = torch.stack(
            [torch.cat([p.grad.flatten() for p in gnet.parameters()]) for gnet in net.gnetdict[name].gnets])
    return result


def compare_torchgb(table, checkout, driver, folder):
    import torch
    torchgb_compare.repaired_copy(checkout, folder)
    sys.path.insert(0, folder)
    torchgb_compare.stand_in_for_scipy()
    torch.distributed.init_process_group("gloo", init_method="file://" + os.path.join(folder, "rendezvous"), rank=0,
                                         world_size=1)
    step = step_of_ours(driver, folder, "gnet")
    ours = {}
    for name in named(step, "original."):
        ours["weights of " + name] = step["predicted." + name]
        ours["g-net gradients of " + name] = step["grad." + name]
    table.add_all("torchGB 300-200, 130-150", ours, gnets_of_theirs(step, torch.float64),
                  gnets_of_theirs(step, torch.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("dtp", "al", "torchgb"):
        parser.add_argument("--" + name, metavar="CHECKOUT")
    parser.add_argument("--driver", required=True, metavar="EXECUTABLE")
    parser.add_argument("--at-most", type=float, default=1e-5, metavar="DIFFERENCE")
    parser.add_argument("--json", action="store_true", help="the figures of a record instead of the table")
    arguments = parser.parse_args()
    import torch
    torch.set_num_threads(1)
    table = Table()
    compare = {"dtp": compare_dtp, "al": compare_al, "torchgb": compare_torchgb}
    for name, function in compare.items():
        if checkout := getattr(arguments, name):
            with tempfile.TemporaryDirectory(prefix="parity-") as folder:
                function(table, checkout, os.path.abspath(arguments.driver), folder)
    if not table.rows:
        parser.error("give at least one checkout")
    failed = table.failed(arguments.at_most)
    if arguments.json:
        print(json.dumps({"figures": table.figures()}))
        return 1 if failed else 0
    table.print()
    print(f"{len(table.rows)} rows, torch {torch.__version__}; largest difference of ours "
          f"{max(row[2] for row in table.rows):.1e}, of theirs in float32 {max(row[3] for row in table.rows):.1e}")
    for net, quantity, *_ in failed:
        print(f"{net}, {quantity}: above {arguments.at_most:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    sys.exit(main())
