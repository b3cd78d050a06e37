#!/usr/bin/env python3
"""Measures exact deltas of the models that delta_models.py made, and writes their records.

    delta_records.py pairs FOLDER BENCH       changes of one step and of a run, beside other coders: BENCH is gbc_delta_bench
    delta_records.py chain FOLDER RATE        a chain of all steps of one rate: sizes, time to load, prune and rebase
    delta_records.py history FOLDER RATE      what an element's own history would save, as entropies
    delta_records.py contexts FOLDER RATE     what the base would save in lossy deltas, as entropies
    delta_records.py kills COUNT              killed writers of a chain
    delta_records.py streams FOLDER           a checkpoint of torch.distributed.checkpoint with GbzStream
    delta_records.py fuzz EXECUTIONS FINDINGS COMMAND

FOLDER needs `--every 1`. Run with an interpreter that has gbcompress, torch and safetensors. Records go to
docs/results/records; tests/tools/record index writes the page.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record_tool import record_tool

ROOT = Path(__file__).resolve().parent.parent.parent


def model_in(folder):
    """What delta_models.py made."""
    from safetensors import safe_open
    with safe_open(Path(folder) / "base.safetensors", "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}
    layers = 1 + max(int(name.split(".")[1]) for name in shapes if name.startswith("layers."))
    return (f"Llama-style, {sum(math.prod(shape) for shape in shapes.values()):,} weights, {layers} layers of "
            f"{shapes['norm.weight'][0]}")


def write(name, title, command, figures, note=None, section="deltas", listed=False, seed=0, folder=None, **more):
    tool = record_tool()
    arguments = argparse.Namespace(id=name, section=section, title=title, commit=None, machine=None, seed=seed, date=None,
                                   model=more.pop("model", None) or model_in(folder),
                                   data=more.pop("data", "Python's standard library"), target=None, note=note,
                                   listed=None if listed else False)
    record = tool.base_record(arguments, command) | more
    record["figures"] = [{"name": what, "value": value, "unit": unit} for what, value, unit in figures]
    tool.write(record)


def share(part, whole):
    return round(100 * part / whole, 1)


def rates_in(folder):
    names = {path.name.removeprefix("rate-").removesuffix(".f32.safetensors") for path in folder.glob("rate-*.f32.safetensors")}
    return sorted(names, key=float)


def last_step(folder, rate):
    return max(int(path.stem.rpartition("step")[2]) for path in folder.glob(f"rate-{rate}-step*.safetensors"))


def speeds(row, form):
    return [(f"{way}", round(row[f"{form}_{key}_mb_s"]), "MB/s")
            for way, key in (("encode", "encode"), ("decode", "decode"))]


def record_pair(bench, name, title, base, now, dtype, made):
    done = subprocess.run([bench, base, now], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)[dtype]
    smallest = min(("mask_values", "xor_zstd3"), key=lambda key: row[key])
    figures = [("changed", share(row["changed"], row["elements"]), "%"), ("bytes", row["ours"], ""),
               ("of PULSE's", share(row["ours"], row["gaps16_zstd1"]), "%"),
               ("of TRL's", share(row["ours"], row["index32"]), "%"),
               ("of the order-0 entropy", share(row["ours"], row["entropy"]), "%"),
               ("of the corrected entropy", share(row["ours"], row["entropy_corrected"]), "%"),
               (f"of {'mask + values' if smallest == 'mask_values' else 'XOR, zstd -3'}", share(row["ours"], row[smallest]), "%"),
               *speeds(row, "ours"), ("XOR, zstd -3: encode", round(row["xor_zstd3_encode_mb_s"]), "MB/s"),
               ("decode", round(row["xor_zstd3_decode_mb_s"]), "MB/s")]
    note = ("bytes of the base a second of one core, coding alone, best of three. PULSE: gaps of 16 bits and values under "
            "zstd -1; TRL: int32 index and value; each beside all tensors together. The entropy counts no table: where most differences "
            "occur once, as in float32, it is below what any coder reaches. Corrected: plus what so few occurrences hide (Miller and "
            f"Madow), {8 * row['entropy'] / row['elements']:.2f} and {8 * row['entropy_corrected'] / row['elements']:.2f} bits")
    write(name, title, f"{made}; gbc_delta_bench {base.name} {now.name}", figures, note, bytes=int(row["ours"]),
          bytes_before=os.path.getsize(now), folder=base.parent)
    print(json.dumps(row, indent=1))


def pairs(arguments):
    folder, made = Path(arguments.folder), arguments.made
    for rate in rates_in(folder):
        last = last_step(folder, rate)
        step = [folder / f"rate-{rate}-step{number}.safetensors" for number in (last - 1, last)]
        record_pair(arguments.bench, f"exact-delta-{rate}-step", f"exact delta of one bf16 step, learning rate {rate}", *step, "BF16", made)
    for rate in rates_in(folder):
        last = last_step(folder, rate)
        if float(rate) >= 1e-5:
            record_pair(arguments.bench, f"exact-delta-{rate}-run", f"exact delta of {last} bf16 steps, learning rate {rate}",
                        folder / "base.safetensors", folder / f"rate-{rate}-step{last}.safetensors", "BF16", made)
        record_pair(arguments.bench, f"exact-delta-{rate}-f32", f"exact delta of {last} steps in float32, learning rate {rate}",
                    folder / "base.f32.safetensors", folder / f"rate-{rate}.f32.safetensors", "F32", made)


def processor_seconds(run, times=3):
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return best, result


def rebase(link, output, *onto):
    """By the command of the package. @return processor seconds"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "gbcompress", "rebase", link, "-o", output, *onto], check=True,
                   capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def chain(arguments):
    import gbcompress as gbc
    import torch
    from safetensors.torch import load_file

    folder, rate = Path(arguments.folder), arguments.rate
    last = last_step(folder, rate)
    files = [folder / "base.safetensors"] + [folder / f"rate-{rate}-step{step}.safetensors" for step in range(1, last + 1)]

    def equal(found, step):
        expected = load_file(files[step])
        return all(torch.equal(found[name].view(torch.int16), expected[name].view(torch.int16)) for name in expected)

    with tempfile.TemporaryDirectory() as place:
        links = gbc.Chain(Path(place) / "run")
        start = time.process_time()
        for step, file in enumerate(files):
            links.append(load_file(file), step=step)
        appending = (time.process_time() - start) / len(files)
        sizes = [os.path.getsize(links.file(step)) for step in range(last + 1)]
        whole = Path(place) / "whole.gbz"
        gbc.save_file(load_file(files[last]), whole, lossless=True)
        full, _ = processor_seconds(lambda: gbc.load_file(whole, framework="torch"))
        loads = {count: processor_seconds(lambda count=count: links.load(count, framework="torch"))[0]
                 for count in (0, 10, 20, last)}
        exact = all(equal(links.load(step, framework="torch"), step) for step in range(last + 1))
        alone, onto = Path(place) / "alone.gbz", Path(place) / "onto.gbz"
        rebasing = [rebase(links.file(last), alone), rebase(links.file(last), onto, "--onto", links.file(0))]
        exact = exact and equal(gbc.load_file(alone, framework="torch"), last) and equal(
            gbc.load_file(onto, base=links.file(0), framework="torch"), last)
        rebased = os.path.getsize(onto)
        links.prune(keep=10)
        pruned = links.steps() == list(range(last - 9, last + 1)) and all(
            equal(links.load(step, framework="torch"), step) for step in links.steps())
    figures = [("links", last, ""), ("bytes of a link", round(sum(sizes[1:]) / last), ""), ("whole", sizes[0], ""),
               ("load of a whole file", round(full, 3), "s"), *((f"of step {count}", round(value, 3), "s") for count, value in loads.items()),
               (f"step {last} over a whole file", round(loads[last] / full, 2), "x"), ("append", round(appending, 3), "s"),
               ("rebase to a whole file", round(rebasing[0], 3), "s"), (f"rebase of step {last} onto step 0", round(rebasing[1], 3), "s"),
               ("its bytes", rebased, ""),
               ("steps that differ", 0 if exact and pruned else 1, "")]
    write(f"exact-delta-chain-{rate}", f"chain of {last} exact deltas, bf16, learning rate {rate}",
          f"{arguments.made}; tests/bench/delta_records.py chain FOLDER {rate}", figures,
          "processor time of all threads, best of three; every step loaded and compared bit for bit, before and after prune(keep=10), and the last one after both rebases",
          listed=True, folder=folder)


def entropy_of(counts):
    """Bits of outcomes, given counts [contexts][outcomes]."""
    counts = np.asarray(counts, np.float64)
    all_ = counts.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = counts * np.log2(all_ / counts)
    return float(np.nansum(bits))


def history(arguments):

    folder, rate = Path(arguments.folder), arguments.rate
    last = last_step(folder, rate)

    def ordered(path):
        import torch
        from safetensors.torch import load_file as load_torch
        parts = [tensor.view(torch.int16).numpy().reshape(-1).view(np.uint16) for _, tensor in sorted(load_torch(path).items())]
        raw = np.concatenate(parts).astype(np.int32)
        return np.where(raw >= 0x8000, 0xFFFF - raw, raw + 0x8000), (raw >> 7 & 0xFF).clip(1)

    before, level = ordered(folder / "base.safetensors")
    since = np.full(before.size, 7, np.int64)  # steps since the element changed, at most 7
    sign = np.zeros(before.size, np.int64)
    names = ("level", "level, steps since, sign")
    places, signs, changes = np.zeros(2), np.zeros(2), 0
    for step in range(1, last + 1):
        now, now_level = ordered(folder / f"rate-{rate}-step{step}.safetensors")
        difference = now - before
        changed, way = difference != 0, np.sign(difference)
        if step > last // 2:  # the history has filled
            for i, context in enumerate((level, level * 24 + since * 3 + sign + 1)):
                counts = np.stack([np.bincount(context[~changed], minlength=6400), np.bincount(context[changed], minlength=6400)], -1)
                places[i] += entropy_of(counts)
                own = np.zeros(before.size, np.int64) if i == 0 else since * 3 + sign + 1
                up = changed & (way > 0)
                signs[i] += entropy_of(np.stack([np.bincount(own[up], minlength=24), np.bincount(own[changed & ~up], minlength=24)], -1))
            changes += int(changed.sum())
        since = np.where(changed, 0, np.minimum(since + 1, 7))
        sign = np.where(changed, way, sign)
        before, level = now, now_level
    figures = [(f"{what} by {name}", round(float(values[i]) / changes, 3), "bits") for what, values in (("place", places), ("sign", signs))
               for i, name in enumerate(names)]
    figures.append(("with the history", share(places[1] + signs[1], places[0] + signs[0]), "%"))
    figures.append(("changed", round(100 * changes / (last - last // 2) / before.size, 2), "%"))
    write(f"exact-delta-history-{rate}", f"the element's own history as a context, bf16 chain, learning rate {rate}",
          f"{arguments.made}; tests/bench/delta_records.py history FOLDER {rate}", figures,
          f"order-0 entropies a changed element, steps {last // 2 + 1} to {last}, no table; level: the base's exponent", folder=folder)


def conditional_bits(symbols, contexts):
    """Bits of symbols of -32768 to 32767, given contexts from 0 on; and how many counts a coder would learn."""
    joint, counts = np.unique(contexts * 65536 + symbols + 32768, return_counts=True)
    totals = np.bincount(joint // 65536, counts)
    return float((counts * np.log2(totals[joint // 65536] / counts)).sum()), len(joint)


def contexts(arguments):
    """Integers of a lossy delta under the activity of rows and columns, which profiles know, and the base beside it."""
    from safetensors.numpy import load_file
    folder, rate = Path(arguments.folder), arguments.rate
    before, after = load_file(folder / "base.f32.safetensors"), load_file(folder / f"rate-{rate}.f32.safetensors")
    figures = []
    for fraction in (0.25, 1.0):
        bits, learned, elements = np.zeros(3), np.zeros(3), 0
        for name, base in before.items():
            if base.ndim != 2:
                continue
            change = after[name].astype(np.float64) - base
            deviation = change.std()
            integers = np.clip(np.rint(change / (deviation * fraction)), -32768, 32767).astype(np.int64)
            rows = np.sqrt(np.square(change).mean(1, keepdims=True))
            columns = np.sqrt(np.square(change / (rows + 1e-30)).mean(0, keepdims=True))
            activity = np.clip(np.floor(2 * np.log2(rows * columns / deviation + 1e-9)), -6, 6).astype(np.int64) + 6
            level = (np.abs(base).view(np.int32) >> 23).astype(np.int64)
            level = np.clip(level - level.max(), -12, 0) + 12
            for i, context in enumerate((activity, activity * 13 + level, (activity * 13 + level) * 2 + (base < 0))):
                found = conditional_bits(integers.ravel(), context.ravel())
                bits[i] += found[0]
                learned[i] += found[1]
            elements += integers.size
        step = f"step {fraction:g} deviations"
        figures += [(f"{step}: activity", round(bits[0] / elements, 4), "bits"), ("with the base's exponent", round(bits[1] / elements, 4), "bits"),
                    ("with its sign too", round(bits[2] / elements, 4), "bits"),
                    ("learning the further counts, 8 bits each", round(8 * (learned[2] - learned[0]) / elements, 4), "bits")]
    write(f"delta-contexts-{rate}", f"the base as a context of lossy deltas, learning rate {rate}",
          f"{arguments.made}; tests/bench/delta_records.py contexts FOLDER {rate}", figures,
          "order-0 entropies a weight of the integers of a lossy delta; activity: root mean squares of row and column, half octaves",
          folder=folder)


def kills(arguments):
    tool = ROOT / "sdk/python/tests/chain_kills.py"
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run([sys.executable, "-B", tool, place, str(arguments.count)], capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    found = json.loads(done.stdout)
    write("faults-chain-kills", "chains: `kill -9` while a step is appended or pruned",
          f"sdk/python/tests/chain_kills.py FOLDER {arguments.count}",
          [("kills", found["kills"], ""), ("lost", found["lost"], ""), ("steps written", found["steps"], "")],
          "after each kill every step of the chain is loaded and compared bit for bit", section="reliability", seed=5,
          model="a matrix and a counter", data="made by the program")


def streams(arguments):
    import torch
    import torch.distributed.checkpoint as dcp
    from gbcompress.distributed import GbzStream, registry
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    folder = Path(arguments.folder)
    figures = []
    for kind, name in (("bf16", "base.safetensors"), ("float32", "base.f32.safetensors")):
        state = load_file(folder / name)
        with tempfile.TemporaryDirectory() as place:
            def save(path, extensions):
                dcp.save(state, storage_writer=dcp.FileSystemWriter(path, sync_files=False, _extensions=extensions))
                return sum(file.stat().st_size for file in Path(path).glob("*.distcp"))

            plain = save(place + "/plain", None)
            start = time.process_time()
            packed = save(place + "/packed", [GbzStream()])
            saving = time.process_time() - start
            blank = {key: torch.zeros_like(value) for key, value in state.items()}
            start = time.process_time()
            dcp.load(blank, storage_reader=dcp.FileSystemReader(place + "/packed", _extension_registry=registry()))
            loading = time.process_time() - start
            if not all(torch.equal(blank[key].view(torch.uint8), state[key].view(torch.uint8)) for key in state):
                raise SystemExit("the checkpoint came back otherwise")
        figures += [(f"{kind}: bytes", packed, ""), ("of the plain ones", share(packed, plain), "%"),
                    ("save", round(plain / 1e6 / saving), "MB/s"), ("load", round(plain / 1e6 / loading), "MB/s")]
    write("exact-dcp-streams", "`torch.distributed.checkpoint` with `GbzStream`", f"{arguments.made}; tests/bench/delta_records.py streams FOLDER",
          figures, "one thread, processor time of dcp.save and dcp.load", section="exact", folder=folder)


def fuzz(arguments):
    write("faults-fuzz-deltas", "fuzzing of delta sections", arguments.command,
          [("executions", arguments.executions, ""), ("findings", arguments.findings, "")],
          "under address and undefined-behavior sanitizers; each input that is read is written and read again", section="reliability",
          model="sections of six element types and four shapes", data="made by the target")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--made", default="tests/bench/delta_models.py FOLDER --every 1 --batch 2", help="how the models were made")
    verbs = parser.add_subparsers(required=True)
    for run, words in ((pairs, ("folder", "bench")), (chain, ("folder", "rate")), (history, ("folder", "rate")), (contexts, ("folder", "rate")), (kills, ("count",)),
                       (streams, ("folder",)), (fuzz, ("executions", "findings", "command"))):
        verb = verbs.add_parser(run.__name__)
        for word in words:
            verb.add_argument(word, **({"type": int} if word in ("count", "executions", "findings") else {}))
        verb.set_defaults(run=run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
