#!/usr/bin/env python3
"""Rates of loading a model in Python: a `.gbz` file beside the safetensors file that it was made of.

    load_file.py MODEL.safetensors FILE.gbz [--threads 2] [--runs 9]

Prints one JSON line: for each way of loading the minimum of the runs in seconds, and the rate in GB of the tensors' own bytes a
second. `into` fills memory that is used again, `fresh` makes new arrays, `cold` begins without the file in the page cache
(POSIX_FADV_DONTNEED, which takes effect for files that are on the disk already). The ways take turns, so that a busy moment
concerns all of them."""
import argparse
import json
import time

import gbcompress as gbc
from safetensors.numpy import load_file

from page_cache import forget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    memory = gbc.load_file(args.file, threads=args.threads)
    size = sum(tensor.nbytes for tensor in memory.values())
    ways = {
        "into": (None, lambda: gbc.load_into(memory, args.file, threads=args.threads)),
        "fresh": (None, lambda: gbc.load_file(args.file, threads=args.threads)),
        "cold": (args.file, lambda: gbc.load_file(args.file, threads=args.threads)),
        "safetensors": (None, lambda: load_file(args.model)),
        "safetensors_cold": (args.model, lambda: load_file(args.model)),
    }
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(args.runs):
        for name, (dropped, load) in ways.items():
            if dropped:
                forget(dropped)
            start = time.perf_counter()
            load()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    print(json.dumps({"bytes": size, "threads": args.threads,
                      "seconds": {name: round(s, 4) for name, s in seconds.items()},
                      "gb_per_second": {name: round(size / s / 1e9, 2) for name, s in seconds.items()}}))


main()
