#!/usr/bin/env python3
"""Constants of the data-free allocation, each chosen on all models but one and checked on that one.

    tests/bench/leave_one_out.py BASE.json CONSTANT=VALUE:FILE.json... [--record ID]

Files are of `scripts/real-models --ratios 8,12 --json FILE`: BASE with the constants as they are, the others with a program in which one
constant of core/src/quantize has another value. For each constant and each model, the value (the base's among them) with the least
geometric mean of output errors over the other models is taken; printed are the model's errors under it over those of the base, and
the geometric means of all models. Sizes of both files are those asked.
"""

import argparse
import json
import math
from pathlib import Path

from record_tool import write_figures

RATIOS = ("8x", "12x")


def errors_of(file):
    """{model: {ratio: output error}}"""
    found = {}
    for row in json.loads(Path(file).read_text()):
        if row["target"] in RATIOS:
            found.setdefault(row["model"], {})[row["target"]] = row["output_error"]
    return found


def ratio(errors, base, models):
    """The geometric mean of errors over those of the base."""
    logs = [math.log(errors[m][r] / base[m][r]) for m in models for r in RATIOS]
    return math.exp(sum(logs) / len(logs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("others", nargs="+", metavar="CONSTANT=VALUE:FILE")
    parser.add_argument("--record", metavar="ID")
    options = parser.parse_args()
    base = errors_of(options.base)
    values = {}
    for other in options.others:
        name, file = other.split(":", 1)
        values.setdefault(name.split("=")[0], {})[name.split("=")[1]] = errors_of(file)
    figures = []
    for constant, of in values.items():
        for value, errors in of.items():
            mean = ratio(errors, base, base)
            print(f"{constant} = {value}: {mean:.3f}  " + "  ".join(f"{m} {ratio(errors, base, [m]):.2f}" for m in base))
            figures.append({"name": f"{constant} {value}: output errors over those of the base, all models", "value": round(mean, 3)})
        left_out = []
        for model in base:
            rest = [m for m in base if m != model]
            chosen = min([base, *of.values()], key=lambda errors, rest=rest: ratio(errors, base, rest))
            left_out.append(math.log(ratio(chosen, base, [model])))
        mean = math.exp(sum(left_out) / len(left_out))
        print(f"{constant}, each model under the value of the others: {mean:.3f}")
        figures.append({"name": f"{constant}: the left-out model under the value that the others choose", "value": round(mean, 3)})
    if options.record:
        write_figures(options.record, "data-free", f"constants of the allocation without data, {len(base)} models",
                      "tests/bench/leave_one_out.py BASE.json CONSTANT=VALUE:FILE.json...", figures)


if __name__ == "__main__":
    main()
