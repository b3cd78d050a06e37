#!/usr/bin/env python3
"""Lossless compression beside lmzip, ZipNN, zstd -3 and xz -9: sizes, seconds, processor time, peak memory.

    lossless.py --gbcompress EXECUTABLE [--lmz EXECUTABLE] [--zipnn PYTHON] [--before EXECUTABLE] [--made BYTES]
                [--folder DIR] [--rounds N] [--record ID] [INPUT...]

The made file has matrices of 4096 x 4096 bfloat16 whose rows have scales of their own; --made 0 leaves it out. INPUT is a model's
file or folder, or a folder of several models, a family; lossless_corpus.py makes some. --before is another gbcompress to compare
with. Programs that are not given are left out; zstd and xz get a tar of a folder. Figures are medians of the rounds, in which the
programs take turns; "expand" says whether the same bytes came back. Needs NumPy.
"""

import argparse
import datetime
import filecmp
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record_tool import record_tool

SIDE = 4096
ZIPNN = """
import sys, zipnn
coder = zipnn.ZipNN(bytearray_dtype=sys.argv[1], input_format="byte")
data = open(sys.argv[3], "rb").read()
open(sys.argv[4], "wb").write(coder.compress(data) if sys.argv[2] == "c" else coder.decompress(data))
"""


def to_bfloat16(array):
    """The nearest bfloat16 of float32, as unsigned integers."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def made_file(path, size):
    """Normal weights; the scales of rows are log-normal."""
    noise = np.random.default_rng(20)
    count = max(1, size // (2 * SIDE * SIDE))
    header, at = {}, 0
    for i in range(count):
        header[f"model.layers.{i}.mlp.up_proj.weight"] = {
            "dtype": "BF16", "shape": [SIDE, SIDE], "data_offsets": [at, at + 2 * SIDE * SIDE]}
        at += 2 * SIDE * SIDE
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(count):
            scales = 0.02 * np.exp(0.3 * noise.standard_normal((SIDE, 1), np.float32))
            file.write(to_bfloat16(noise.standard_normal((SIDE, SIDE), np.float32) * scales).tobytes())


def size_of(path):
    return sum(each.stat().st_size for each in [path, *path.rglob("*")] if each.is_file())


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def same(one, other):
    if one.is_file() or other.is_file():
        return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)
    names = sorted(path.relative_to(one) for path in one.rglob("*"))
    return names == sorted(path.relative_to(other) for path in other.rglob("*")) and all(
        same(one / name, other / name) for name in names if (one / name).is_file())


def run(command):
    """Seconds by the clock, of the processor in the program and in the system, and MB at most."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if child.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(str(word) for word in command)}: {output.read().decode()}")
    return {"clock": seconds, "user": usage.ru_utime, "system": usage.ru_stime, "peak": usage.ru_maxrss / 1000}


def is_family(source):
    return source.is_dir() and not (source / "config.json").exists()


def tarred(pack, unpack):
    """Commands for a folder, of programs that pack a stream."""
    return (lambda a, b: ["sh", "-c", f"tar -C '{a}' -c . | {pack} > '{b}'"],
            lambda a, b: ["sh", "-c", f"mkdir '{b}' && {unpack} < '{a}' | tar -C '{b}' -x"])


def programs(arguments, source):
    """Name, suffix, command to compress, command to expand."""
    def gbcompress(name, executable):
        if source.is_file():
            return (name, ".gbz", lambda a, b: [executable, "compress", a, "--lossless", "-o", b],
                    lambda a, b: [executable, "expand", a, "-o", b])
        if not is_family(source):  # one file of all that is in the folder
            return (name, ".gbz", lambda a, b: [executable, "compress", f"{a}/", "--lossless", "-o", b],
                    lambda a, b: [executable, "expand", a, "-o", f"{b}/"])
        return (name, ".packed", lambda a, b: [executable, "compress", *sorted(a.iterdir()), "--lossless", "-o", f"{b}/"],
                lambda a, b: [executable, "expand", f"{a}/", "-o", f"{b}/"])
    yield gbcompress("gbcompress", arguments.gbcompress)
    if arguments.before:
        yield gbcompress("gbcompress before", arguments.before)
    if arguments.lmz:
        yield ("lmzip", ".lmz", lambda a, b: [arguments.lmz, "compress", "-q", a, b],
               lambda a, b: [arguments.lmz, "decompress", "-q", a, b])
    if not source.is_file():
        yield ("zstd -3", ".zst", *tarred("zstd -q -3", "zstd -q -d"))
        if arguments.xz:
            yield ("xz -9e", ".xz", *tarred("xz -9e", "xz -d"))
        return
    if arguments.zipnn:
        kind = "float32" if "f32" in source.name else "bfloat16"
        yield ("ZipNN", ".znn", lambda a, b: [arguments.zipnn, "-c", ZIPNN, kind, "c", a, b],
               lambda a, b: [arguments.zipnn, "-c", ZIPNN, kind, "d", a, b])
    yield ("zstd -3", ".zst", lambda a, b: ["zstd", "-q", "-3", a, "-o", b], lambda a, b: ["zstd", "-q", "-d", a, "-o", b])
    if arguments.xz:
        yield ("xz -9e", ".xz", lambda a, b: ["sh", "-c", f"xz -9e -c '{a}' > '{b}'"],
               lambda a, b: ["sh", "-c", f"xz -d -c '{a}' > '{b}'"])


def measure(arguments, source, folder):
    """[(program, bytes, figures of compress, figures of expand, same bytes)]"""
    candidates = list(programs(arguments, source))
    packing, unpacking, results = {}, {}, {}
    for _ in range(arguments.rounds):
        for name, suffix, compress, expand in candidates:
            packed, back = folder / f"packed{suffix}", folder / f"back{source.suffix}"
            remove(packed), remove(back)
            packing.setdefault(name, []).append(run(compress(source, packed)))
            unpacking.setdefault(name, []).append(run(expand(packed, back)))
            results[name] = (size_of(packed), same(source, back))
            remove(packed), remove(back)
    def middle(figures):
        return {key: statistics.median(each[key] for each in figures) for key in figures[0]}
    return [(name, results[name][0], middle(packing[name]), middle(unpacking[name]), results[name][1]) for name in results]


def show(source, results):
    before = size_of(source)
    print(f"\n{source.name}: {before:,} bytes\n"
          f"{'':18}{'bytes':>14}{'share':>9}   compress: clock, user, system, MB     expand: clock, user, system, MB")
    for name, size, packing, unpacking, equal in results:
        figures = "".join(f"{each['clock']:12.2f}{each['user']:8.2f}{each['system']:8.2f}{each['peak']:8.0f}"
                          for each in (packing, unpacking))
        print(f"{name:18}{size:14,}{100 * size / before:8.2f}%{figures}   {'same' if equal else 'OTHER BYTES'}", flush=True)


def write_record(identity, source, results, command):
    tool, before = record_tool(), size_of(source)
    figures = [{"name": "bytes before", "value": before, "unit": ""}]
    for name, size, packing, unpacking, _ in results:
        figures.append({"name": f"{name}: bytes", "value": size, "unit": ""})
        for verb, each in (("compress", packing), ("expand", unpacking)):
            figures.append({"name": f"{name}: {verb}", "value": round(each["clock"], 2), "unit": "s"})
            figures.append({"name": "processor", "value": round(each["user"] + each["system"], 2), "unit": "s"})
            figures.append({"name": "peak memory", "value": round(each["peak"]), "unit": "MB"})
    tool.write({"schema": 1, "id": f"{identity}-{re.sub('[^a-z0-9]+', '-', source.name.lower())}", "section": "exact",
                "title": f"{source.name}, beside other programs", "command": command, "commit": tool.commit(), "machine": tool.machine(),
                "date": datetime.date.today().isoformat(), "seed": 20, "model": source.name, "bytes_before": before,
                "bytes": results[0][1], "figures": figures,
                "shown": ["bytes before", *(f"{name}: bytes" for name in ("gbcompress", "lmzip", "zstd -3"))]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="*", type=Path, metavar="INPUT")
    for option in ("--gbcompress", "--before", "--lmz"):
        parser.add_argument(option, metavar="EXECUTABLE", required=option == "--gbcompress")
    parser.add_argument("--zipnn", metavar="PYTHON")
    parser.add_argument("--xz", action="store_true", help="xz -9e too, which takes minutes")
    parser.add_argument("--made", type=int, default=200_000_000, metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", metavar="DIR")
    parser.add_argument("--record", metavar="ID", help="writes a record of each input")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gbc-lossless-", dir=arguments.folder) as name:
        folder = Path(name)
        inputs = arguments.inputs
        if arguments.made:
            made_file(folder / "made-bf16.safetensors", arguments.made)
            inputs = [folder / "made-bf16.safetensors", *inputs]
        for source in (each.resolve() for each in inputs):
            results = measure(arguments, source, folder)
            show(source, results)
            if arguments.record:
                write_record(arguments.record, source, results, "tests/bench/lossless.py --gbcompress gbcompress --lmz lmz")
            if not all(equal for *_, equal in results):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
