#!/usr/bin/env python3
"""One epoch of lenet-300-100 through g-nets on two cores, beside one process that keeps a core busy: with one thread,
with the default threads, and with threads that spin as OpenMP's do by themselves. In turns; medians.

tests/bench/busy_machine.py MODEL.safetensors MNIST [--gbcompress build/release/bin/gbcompress] [--rounds 3] [--spin]
--spin: the third kind too, which takes up to a minute a round.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {"one thread": {"OMP_NUM_THREADS": "1"}, "default threads": {}, "threads that spin": {"GOMP_SPINCOUNT": "300000"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("mnist")
    parser.add_argument("--gbcompress", default="build/release/bin/gbcompress")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spin", action="store_true")
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # the children's, too
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    seconds = {way: [] for way in WAYS if given.spin or way != "threads that spin"}
    print("load average before:", *os.getloadavg())
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(given.rounds):
                for way in seconds:
                    start = time.monotonic()
                    subprocess.run([given.gbcompress, "compress", given.model, "--arch", "lenet-300-100", "--data",
                                    f"mnist:{given.mnist}", "--mode", "generated", "--epochs", "1", "--ratio", "20", "--quiet", "--force",
                                    "-o", os.path.join(folder, "x.gbz")],
                                   env={**kept, **WAYS[way]}, check=True, stdout=subprocess.DEVNULL)
                    seconds[way].append(time.monotonic() - start)
                    print(f"{way}: {seconds[way][-1]:.1f} s", file=sys.stderr, flush=True)
    finally:
        busy.kill()
        busy.wait()
    one = statistics.median(seconds["one thread"])
    for way, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{way}: {median:.1f} s, {median / one:.2f}x ({', '.join(f'{s:.1f}' for s in taken)})")


if __name__ == "__main__":
    main()
