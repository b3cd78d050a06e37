#!/usr/bin/env python3
"""What calibration loses, from the command line and from Python: KL divergence of the predictions, or the loss of a text.

    calibrated_kl.py MODELS --gbcompress EXECUTABLE [--mnist DIR] [--cifar10 DIR] [--text FILE] [--only NAME]

MODELS holds lenet-300-100-mnist, resnet20-cifar10 and char-transformer, as safetensors and as TorchScript. Models whose data are not
given are left out. The program calibrates by `--data D --epochs 0 --max-bytes N`; LeNet-300-100 is calibrated by gbc.calibrate() too,
with 8,192 training images. The expanded file is scored on the test set. Prints a line and a JSON object a file. Needs torch, numpy,
safetensors and the package gbcompress."""

import argparse
import copy
import gzip
import json
import pathlib
import subprocess
import tempfile
import time
import warnings

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import kl_div

import gbcompress as gbc

LENET, RESNET, TEXT = (15_000, 35_000), (60_000, 80_000), (160_000, 298_000)
SAMPLES = 8_192  # of the training set, for Python: as many as the program takes
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def unzipped(path):
    with gzip.open(f"{path}.gz") as file:
        return np.frombuffer(file.read(), np.uint8)


def digits(folder, part):
    pixels = unzipped(f"{folder}/{part}-images-idx3-ubyte")[16:].reshape(-1, 784)
    return torch.from_numpy(pixels.astype(np.float32) / np.float32(255))


def pictures(folder):
    pixels = unzipped(f"{folder}/test.bin").reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32)
    return (torch.from_numpy(pixels.astype(np.float32) / np.float32(255)) - MEAN) / STD


def scores(model, inputs):
    with torch.no_grad():
        return torch.cat([model(part) for part in inputs.split(500)]).log_softmax(-1)


def divergence(of, to):
    return float(kl_div(to, of, log_target=True, reduction="sum")) / len(of)


def by_program(told, model, size, *options):
    """What the program printed, and the tensors of its file."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/m.gbz"
        done = subprocess.run([told.gbcompress, "compress", model, "--epochs", "0", "--max-bytes", str(size), "-o", file, "--json",
                               "-q", *options], capture_output=True, text=True, check=True)
        return json.loads(done.stdout), gbc.load_file(file, framework="torch")


def with_values(script, tensors):
    for name, value in script.state_dict().items():
        if name in tensors:
            value.copy_(tensors[name].reshape(value.shape))
    return script


def say(model, door, size, file_bytes, seconds, figure, value, method):
    row = {"model": model, "door": door, "target": size, "bytes": file_bytes, "seconds": round(seconds, 1), figure: value, "method": method}
    print(f"{model:16} {door:8} {size:>8,} {file_bytes:>8,} B  {figure} {value:.5f}  {seconds:7.1f} s  {method}")
    print(json.dumps(row), flush=True)


def program_rows(told, name, sizes, inputs, *options):
    script = f"{told.models}/{name}.torchscript.pt"
    given = scores(torch.jit.load(script).eval(), inputs)
    for size in sizes:
        start = time.monotonic()
        printed, tensors = by_program(told, f"{told.models}/{name}.safetensors", size, *options)
        lost = divergence(given, scores(with_values(torch.jit.load(script).eval(), tensors), inputs))
        say(name, "program", size, printed["output_bytes"], time.monotonic() - start, "KL", lost, printed["allocation"])


def lenet_module(file):
    """The network of the file, layer by layer from the widest inputs on."""
    tensors = load_file(file)
    weights = sorted((key for key in tensors if key.endswith("weight")), key=lambda key: -tensors[key].shape[1])
    layers = []
    for key in weights:
        layer = nn.Linear(*reversed(tensors[key].shape))
        layer.load_state_dict({"weight": tensors[key], "bias": tensors[key.replace("weight", "bias")]})
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def lenet(told):
    name, inputs = "lenet-300-100-mnist", digits(told.mnist, "t10k")
    program_rows(told, name, LENET, inputs, "--arch", "lenet-300-100", "--data", f"mnist:{told.mnist}")
    model, training = lenet_module(f"{told.models}/{name}.safetensors"), digits(told.mnist, "train")
    given = scores(model, inputs)
    chosen = torch.randperm(len(training), generator=torch.Generator().manual_seed(0))[:SAMPLES]
    for size in LENET:
        with tempfile.TemporaryDirectory() as folder:
            start, file = time.monotonic(), f"{folder}/m.gbz"
            report = gbc.calibrate(model, list(training[chosen].split(256)), file, max_bytes=size)
            seconds, expanded = time.monotonic() - start, copy.deepcopy(model)
            gbc.load_into(expanded, file)
            say(name, "Python", size, report.file.file_bytes, seconds, "KL", divergence(given, scores(expanded, inputs)), report.method)


def resnet(told):
    program_rows(told, "resnet20-cifar10", RESNET, pictures(told.cifar10), "--arch", "resnet20", "--data", f"cifar10:{told.cifar10}")


def text(told):
    name = "char-transformer"
    for size in TEXT:
        start = time.monotonic()
        printed, _ = by_program(told, f"{told.models}/{name}.torchscript.pt", size, "--data", f"text:{told.text}")
        metric = printed["metric"]
        say(name, "program", size, printed["output_bytes"], time.monotonic() - start, "nats lost", metric["after"] - metric["before"],
            printed["allocation"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models")
    parser.add_argument("--gbcompress", required=True)
    parser.add_argument("--mnist", type=pathlib.Path)
    parser.add_argument("--cifar10", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--only", default="")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    for rows, data in ((lenet, told.mnist), (resnet, told.cifar10), (text, told.text)):
        if data and told.only in rows.__name__:
            rows(told)


if __name__ == "__main__":
    main()
