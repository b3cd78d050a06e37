#!/usr/bin/env python3
"""Calibrated files (`--data D --epochs 0`) beside NNCodec and plain GPTQ, at equal quality of the model.

    calibrated_compare.py MODEL.pt DATA [--gbcompress EXECUTABLE] [--qp QP]... [--bits B]... [--json FILE]

MODEL.pt is TorchScript, DATA what --data takes: mnist:DIR, cifar10:DIR or text:FILE. The interpreter needs nncodec,
torch, numpy and zstandard:

    python3 -m venv peers && peers/bin/pip install nncodec==2.1.3 zstandard

NNCodec encodes the tensors with dependent quantization, parameter optimisation and row skipping at each QP. Plain
GPTQ rounds each matrix to B bits with one scale a row, column after column with feedback from 512 training samples
(damping 0.01), and packs the integers with zstd at level 19; what it does not see is rounded to the nearest.
Both are decoded, and `gbcompress eval` measures the model with these weights on held-out data. For each of their
files ours is asked for 0.75 of its bytes, then for 0.85 of that and so on, as long as the expanded file is at least
as good; the smallest such file is printed, or the first one, with what it is worse by. Quality is of the test split,
so small differences are noise: on 10,000 digits 0.1 points, on 2,500 pictures half a point.
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import zstandard
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "real"))
from files import write_safetensors  # noqa: E402

FIRST, NEXT, TRIES = 0.75, 0.85, 7
QPS, BITS = (-32, -26, -20), (6, 4, 3)
SAMPLES, DAMP = 512, 0.01


def opened(path):
    """Bytes of a file, which may be gzipped and be called so."""
    for name, how in ((path, open), (path + ".gz", gzip.open)):
        if os.path.exists(name):
            with how(name, "rb") as file:
                return file.read()
    sys.exit(f"there is no {path} (nor with .gz)")


def samples(spec):
    """Inputs of some training samples, as the program gives them to the model."""
    kind, where = spec.split(":", 1)
    draw = torch.Generator().manual_seed(0)
    if kind == "text":
        text = numpy.frombuffer(pathlib.Path(where).read_bytes(), numpy.uint8)
        tokens = torch.from_numpy(numpy.unique(text, return_inverse=True)[1].reshape(-1))
        starts = torch.randint(len(tokens) * 9 // 10 - 129, (SAMPLES // 4,), generator=draw)
        return torch.stack([tokens[s:s + 128] for s in starts])
    if kind == "mnist":
        pixels = numpy.frombuffer(opened(f"{where}/train-images-idx3-ubyte")[16:], numpy.uint8)
        pictures = torch.from_numpy(pixels.reshape(-1, 1, 28, 28) / numpy.float32(255))
    else:
        records = numpy.frombuffer(opened(f"{where}/train.bin"), numpy.uint8).reshape(-1, 3073)
        pictures = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32) / numpy.float32(255))
        shape = (1, 3, 1, 1)
        pictures = (pictures - torch.tensor([0.485, 0.456, 0.406]).view(shape)) / torch.tensor([0.229, 0.224, 0.225]).view(shape)
    return pictures[torch.randperm(len(pictures), generator=draw)[:SAMPLES]]


class Moments(TorchDispatchMode):
    """Sums X'X of what reaches each matrix and convolution, by name."""

    def __init__(self, model):
        super().__init__()
        self.names = {p.untyped_storage().data_ptr(): name for name, p in model.named_parameters() if p.dim() > 1}
        self.sums = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            x, weight = args[-2:]
            self.add(x, weight)
        elif func is torch.ops.aten.convolution.default and not args[6] and args[8] == 1:
            x, weight = args[:2]
            columns = torch.nn.functional.unfold(x, weight.shape[2:], args[5], args[4], args[3])
            self.add(columns.transpose(1, 2).reshape(-1, columns.size(1)), weight)
        return func(*args, **(kwargs or {}))

    def add(self, rows, weight):
        name = self.names.get(weight.untyped_storage().data_ptr())
        if name:
            rows = rows.double()
            self.sums[name] = self.sums.get(name, 0) + rows.t() @ rows


def rounded(weight, moments, bits):
    """Integers [m, n] and scales [m, 1] of a matrix; without moments the nearest."""
    most = 2 ** (bits - 1) - 1
    w = weight.reshape(weight.size(0), -1).double().clone()
    scale = (w.abs().amax(1, keepdim=True) / most).clamp(min=1e-12)
    integers = torch.zeros_like(w)
    if moments is None:
        return (w / scale).round(), scale
    mean = moments.diagonal().mean().clamp(min=1e-12)
    damped = moments + DAMP * mean * torch.eye(len(moments), dtype=torch.double)
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True)
    for j in range(w.size(1)):
        integers[:, j] = (w[:, j:j + 1] / scale).round().clamp(-most - 1, most)[:, 0]
        lost = (w[:, j] - integers[:, j] * scale[:, 0]) / factor[j, j]
        w[:, j + 1:] -= lost[:, None] * factor[j, j + 1:][None]
    return integers, scale


class Peers:
    def __init__(self, told, folder):
        self.told, self.folder = told, folder
        self.model = torch.jit.load(told.model, map_location="cpu").eval()
        self.state = {name: value.detach() for name, value in self.model.state_dict().items()}
        inputs = samples(told.data)
        inputs = inputs.flatten(1) if self.flat(inputs) else inputs
        with torch.no_grad(), Moments(self.model) as seen:
            for part in inputs.split(64):
                self.model(part)
        self.moments = seen.sums

    def flat(self, inputs):
        """Whether the model takes pictures as rows of pixels only."""
        try:
            with torch.no_grad():
                self.model(inputs[:1])
            return False
        except RuntimeError:
            return True

    def run(self, *words):
        done = subprocess.run([self.told.gbcompress, *words], capture_output=True, text=True)
        if done.returncode not in (0, 4):
            sys.exit(f"{words[0]} ended with status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout) if "--json" in words else None

    def quality(self, file):
        result = self.run("eval", file, "--data", self.told.data, "--json",
                          *(["--model", self.told.model] if file.endswith(".gbz") else []))["metric"]
        return result["name"], result["value"]

    def measured(self, state):
        """Quality of the model with these tensors."""
        plain, exact = (os.path.join(self.folder, name) for name in ("plain.safetensors", "plain.gbz"))
        write_safetensors(plain, {name: torch.as_tensor(value).reshape(self.state[name].shape).to(self.state[name].dtype)
                                  for name, value in state.items()})
        self.run("compress", plain, "--mode", "exact", "-o", exact, "--force", "--quiet")
        return self.quality(exact)[1]

    def nncodec(self, qp):
        from nncodec import nn
        # It refuses infinities, which attention masks are made of.
        floats = {name: value.numpy().astype(numpy.float32) for name, value in self.state.items()
                  if value.is_floating_point() and bool(torch.isfinite(value).all())}
        arguments = {"qp": qp, "use_dq": True, "param_opt": True, "row_skipping": True, "results": self.folder, "verbose": False}
        with contextlib.redirect_stdout(sys.stderr):
            stream = nn.encode({name: value.copy() for name, value in floats.items()}, arguments)
            decoded = nn.decode(stream, arguments)
        return len(stream), self.measured({**self.state, **{name: numpy.array(decoded[name]) for name in floats}})

    def gptq(self, bits):
        parts, state = [], dict(self.state)
        for name, value in self.state.items():
            if not value.is_floating_point() or value.dim() < 2:
                parts.append(value.numpy().tobytes())
                continue
            integers, scale = rounded(value, self.moments.get(name), bits)
            state[name] = (integers * scale).reshape(value.shape)
            parts += [integers.to(torch.int8).numpy().tobytes(), scale.float().numpy().tobytes()]
        return len(zstandard.ZstdCompressor(level=19).compress(b"".join(parts))), self.measured(state)

    def ours(self, wanted):
        file = os.path.join(self.folder, "ours.gbz")
        result = self.run("compress", self.told.model, "--data", self.told.data, "--epochs", "0", "--max-bytes", str(int(wanted)),
                          "-o", file, "--force", "--quiet", "--json")
        return os.path.getsize(file), result["metric"]["after"]


def main():
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("model", metavar="MODEL.pt")
    known.add_argument("data", metavar="DATA")
    known.add_argument("--gbcompress", default="gbcompress", metavar="EXECUTABLE")
    known.add_argument("--qp", type=int, action="append", help="of NNCodec, larger is coarser (default: -32, -26, -20)")
    known.add_argument("--bits", type=int, action="append", help="of GPTQ (default: 6, 4, 3)")
    known.add_argument("--tries", type=int, default=TRIES, help="files of ours beside each of theirs at most (%(default)s)")
    known.add_argument("--json", metavar="FILE", help="write the figures there too")
    told = known.parse_args()
    if not shutil.which(told.gbcompress):
        sys.exit(f"{told.gbcompress} is not an executable; name it with --gbcompress")
    with tempfile.TemporaryDirectory(prefix="gbc-peers-") as folder:
        peers = Peers(told, folder)
        metric, before = peers.quality(told.model)
        better = (lambda a, b: a >= b) if metric == "accuracy_percent" else (lambda a, b: a <= b)
        print(f"{os.path.basename(told.model)}: {metric} {before:.4f}\n\n| peer | its bytes | its quality | ours | our quality | of its bytes |")
        print("|---|--:|--:|--:|--:|--:|")
        rows, known_files = [], []
        asked = [("NNCodec, qp", peers.nncodec, qp) for qp in told.qp or QPS]
        asked += [("GPTQ + zstd, bits", peers.gptq, bits) for bits in told.bits or BITS]
        for name, make, number in asked:
            size, quality = make(number)
            wanted, best = FIRST * size, None
            for _ in range(told.tries):
                near = [found for found in known_files if 0.97 * wanted <= found[0] <= wanted]
                found = near[0] if near else peers.ours(wanted)
                known_files.append(found)
                if best is None or better(found[1], quality):
                    best = found
                if not better(found[1], quality):
                    break
                wanted *= NEXT
            rows.append({"peer": f"{name} {number}", "bytes": size, "quality": quality, "ours": best[0], "our_quality": best[1]})
            print(f"| {name} {number} | {size:,} | {quality:.4f} | {best[0]:,} | {best[1]:.4f} | {100 * best[0] / size:.0f} % |", flush=True)
        if told.json:
            pathlib.Path(told.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
