"""Compresses real models with the plain command, expands them and compares what both say; see scripts/real-models.

  measure.py --program GBCOMPRESS --site SITE_PACKAGES [--smallest N] [--only TEXT] [--ratios 8,12,16] [--check]
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

import torch

from files import matched, read_model, read_safetensors
from models import MODELS, Model, fracast_int8

CAP = 0.5      # largest squared error of a tensor over its squares that a file may have
COLLAPSED = 0.99    # with more than this a tensor holds nothing of what it was
HEADER = ("model", "target", "bytes", "times smaller", "worst tensor, its relative error", "collapsed", "output error",
          "agreement", "note")


def tensor_errors(expanded, original):
    """{name: squared error over squares} of the tensors of floating point.

    0 / 0 is 0. A tensor that is missing, of another shape, or whose infinities and NaNs moved is infinitely off."""
    errors = {}
    for name, tensor in original.items():
        if not tensor.is_floating_point():
            continue
        errors[name] = float("inf")
        if name not in expanded or expanded[name].shape != tensor.shape:
            continue
        a, b = tensor.double(), expanded[name].double()
        finite = torch.isfinite(a)
        if torch.equal(a[~finite].nan_to_num(1), b[~finite].nan_to_num(1)):
            lost, whole = float((a - b)[finite].pow(2).sum()), float(a[finite].pow(2).sum())
            errors[name] = lost / whole if whole else (float("inf") if lost else 0.0)
    return errors


def changed_integers(expanded, original):
    """Names of the tensors of integers or truth values that did not come back as they were."""
    return [name for name, tensor in original.items() if not tensor.is_floating_point() and
            (name not in expanded or expanded[name].dtype != tensor.dtype or not torch.equal(expanded[name], tensor))]


def compare(got, wanted):
    """Squared error as a share of the outputs' variance, and the share of decisions that stayed."""
    y, y0 = torch.nan_to_num(got.outputs, 0, 0, 0).double(), wanted.outputs.double()
    error = float((y - y0).pow(2).sum() / (y0 - y0.mean(0)).pow(2).sum())
    d, d0 = got.decisions, wanted.decisions
    same = (d - d0).abs() <= wanted.cents if wanted.cents else d == d0
    same = same if wanted.clear is None else same[wanted.clear]
    return error, float(same.double().mean())


@dataclasses.dataclass
class Row:
    """One file of a model: its target and all that is known of it. `problem` says why there is nothing to know."""
    model: str
    target: str
    problem: str = ""
    status: int = 0
    bytes: int = 0
    ratio: float = 0        # bytes of the model's tensors over bytes of the file
    errors: dict = dataclasses.field(default_factory=dict)
    changed: list = dataclasses.field(default_factory=list)
    output_error: float = 0
    agreement: float = 0
    note: str = ""

    def collapsed(self):
        return sum(error > COLLAPSED for error in self.errors.values())

    def shown(self):
        if self.problem:
            return [self.model, self.target, *"--", self.problem, *"---", ""]
        name, error = max(self.errors.items(), key=lambda item: item[1])
        return [self.model, self.target, f"{self.bytes:,}", f"{self.ratio:.2f}", f"`{name}` {error:.3g}",
                str(self.collapsed()), f"{self.output_error:.2g}", f"{100 * self.agreement:.1f} %", self.note]


class Bench:
    """A model with its weights and what it says; makes a row for every file."""

    def __init__(self, program, site, model: Model, more):
        self.program, self.site, self.model, self.more = program, site, model, more
        self.path = os.path.join(site, model.file)
        self.state = read_model(self.path, model.parts)
        self.wanted = self.said(self.state)

    def said(self, state):
        named = {self.model.names(k): v.float() if v.is_floating_point() else v for k, v in state.items()}
        with torch.no_grad():
            return self.model.run(named, self.site)

    def measure(self, row, state):
        """Fills in what the tensors say, and what the model with them says."""
        row.errors, row.changed = tensor_errors(state, self.state), changed_integers(state, self.state)
        row.ratio = sum(v.numel() * v.element_size() for v in self.state.values()) / row.bytes
        missing = [name for name in self.state if name not in state]
        if missing:
            row.problem = f"not in the file: {', '.join(missing[:3])}"
            return row
        got = self.said(state)
        row.output_error, row.agreement = compare(got, self.wanted)
        row.note = got.note and f"{got.note} (fp32 {self.wanted.note.split()[-1]})"
        if self.model.unit:
            row.note = f"1 - cosine {float((1 - (got.outputs * self.wanted.outputs).sum(1)).mean()):.2g}"
        return row

    def file(self, target, options):
        """The row of the file that `compress MODEL OPTIONS` writes."""
        row = Row(self.model.name, target)
        with tempfile.TemporaryDirectory(prefix="gbc-real-") as folder:
            small, large = os.path.join(folder, "m.gbz"), os.path.join(folder, "m.safetensors")
            for verb in (["compress", self.path, *options, "-o", small, *self.more], ["expand", small, "-o", large]):
                done = subprocess.run([self.program, *verb, "--quiet"], capture_output=True, text=True)
                row.status = row.status or done.returncode
                if done.returncode not in (0, 4):
                    row.problem = f"{verb[0]}, status {done.returncode}: {' '.join(done.stderr.split())}"
                    return row
            row.bytes = os.path.getsize(small)
            self.measure(row, matched(read_safetensors(large), self.state))
        if row.status == 4:
            row.note = "; ".join(filter(None, [row.note, "the size is unreachable"]))
        return row

    def rows(self, ratios):
        """Yields (row, target ratio or size) of all files of the model."""
        for ratio in ratios:
            yield self.file(f"{ratio:g}x", ["--ratio", f"{ratio:g}"]), ratio
        for size in self.model.sizes:
            yield self.file(f"{size:,} B", ["--max-bytes", str(size)]), size
        if self.model.name == "fracast":
            own = Row(self.model.name, "its own int8")
            own.bytes = os.path.getsize(os.path.join(self.site, "fracast/weights/model.int8.safetensors"))
            yield self.measure(own, fracast_int8(self.site)), 0


def problems(row, bound):
    """What --check objects to in a row; bound: (largest output error, smallest agreement) or nothing."""
    if row.problem:
        return [row.problem]
    found = [f"{name} has relative error {e:.3g}" for name, e in row.errors.items() if e > CAP * (1 + 1e-6)]
    found += [f"{name} is not as it was" for name in row.changed]
    if bound and row.output_error > bound[0]:
        found.append(f"output error {row.output_error:.3g} is above {bound[0]:g}")
    if bound and row.agreement < bound[1]:
        found.append(f"agreement {row.agreement:.3f} is below {bound[1]:g}")
    return found


def line(cells):
    return "| " + " | ".join(cells) + " |"


def options():
    known = argparse.ArgumentParser()
    known.add_argument("--program", required=True)
    known.add_argument("--site", required=True)
    known.add_argument("--smallest", type=int, default=len(MODELS), help="only so many of the smallest models")
    known.add_argument("--only", default="", help="only models with this in their name")
    known.add_argument("--ratios", default="8,12,16")
    known.add_argument("--check", action="store_true", help="end with status 1 where a model lost more than it may")
    known.add_argument("--json", default="", help="a file for all that was measured")
    known.add_argument("--packages", action="store_true", help="print which packages the models need, and end")
    known.add_argument("more", nargs="*", help="further options of compress, after --")
    return known.parse_args()


def main():
    told = options()
    chosen = [m for m in MODELS[: told.smallest] if told.only.lower() in m.name.lower()]
    if told.packages:
        print(*sorted({p for m in chosen for p in m.packages.split()}))
        return 0
    torch.set_num_threads(1)
    print(line(HEADER), line(["---"] * 2 + ["--:"] * 2 + ["---"] + ["--:"] * 3 + ["---"]), sep="\n", flush=True)
    rows, bad = [], []
    for model in chosen:
        for row, target in Bench(told.program, told.site, model, told.more).rows(map(float, told.ratios.split(","))):
            print(line(row.shown()), flush=True)
            rows.append(dataclasses.asdict(row))
            bad += [f"{model.name} at {row.target}: {p}" for p in problems(row, model.bounds.get(target))]
    if told.json:
        with open(told.json, "w") as file:
            json.dump(rows, file, indent=1)
    if told.check:
        print(*(f"real-models: {problem}" for problem in bad), sep="\n", file=sys.stderr)
    return 1 if told.check and bad else 0


if __name__ == "__main__":
    sys.exit(main())
