#!/usr/bin/env python3
"""Whether the cost of a weight, and the memory beside the weights, stay the same as models grow.

    scale.py --gbcompress EXECUTABLE [--largest 1e9] [--threads N]

One layer of each size through `gbcompress bench engine`. 1e9 weights need 13 GB: the weights, their
gradients, the copy that a bottleneck keeps of the original values, and the bank.
"""

import argparse
import json
import os
import subprocess

SIDES = (320, 1000, 3200, 10000, 31700)
MIB = 1 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbcompress", required=True, metavar="EXECUTABLE")
    parser.add_argument("--largest", type=float, default=1.1e9, metavar="WEIGHTS")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    sides = [side for side in SIDES if side * side <= arguments.largest]
    rows = {side: [] for side in sides}
    for _ in range(arguments.rounds):
        for side in sides:
            report = json.loads(subprocess.run(
                [arguments.gbcompress, "bench", "engine", "--json", "--quiet", "--shape", f"{side}x{side}", "--threads",
                 str(arguments.threads), "--seconds", str(arguments.seconds)],
                stdout=subprocess.PIPE, check=True).stdout)
            rows[side].append(report["shapes"][0])

    print(f"{report['threads']} thread(s), {report['isa']}, best of {arguments.rounds} rounds, load average "
          f"{os.getloadavg()[0]:.2f}")
    print(f"{'weights':>15}{'forward ns':>12}{'backward ns':>13}{'step ns':>9}{'bank MiB':>10}{'extra MiB':>11}")
    steps = []
    for side in sides:
        cost = {part: min(1e9 / row[part]["weights_per_second"] for row in rows[side])
                for part in ("forward", "backward", "step")}
        steps.append(cost["step"])
        extra = max(row["step_extra_bytes"] for row in rows[side])
        row = rows[side][0]
        print(f"{row['weights']:>15,}{cost['forward']:>12.2f}{cost['backward']:>13.2f}{cost['step']:>9.2f}"
              f"{row['bank_bytes'] / MIB:>10.1f}{extra / MIB:>11.1f}")
    middle = sorted(steps)[len(steps) // 2]
    print(f"the step's cost differs from its median by {100 * min(steps) / middle - 100:+.0f} % to "
          f"{100 * max(steps) / middle - 100:+.0f} %")


if __name__ == "__main__":
    main()
