"""Time and memory of packed models where programs load them, beside the uncompressed files.

    loaded.py prepare WORK --encoder FOLDER --language FOLDER       makes the files that are measured; 1 GB
    loaded.py pretrained WORK [--runs 9] [--model language]  from_pretrained() of the encoder, or the language model, at 8x
                                               and 4x, with and without the page cache
    loaded.py kept WORK [--keep integers]      the language model at 4 bits, kept in memory: a prefill of 512 tokens, one token
    loaded.py sentences WORK                   the encoder kept compressed: batches of 32 sentences of 64 tokens
    loaded.py onnx WORK                        a session of an ONNX file of 63 MB: time, peak memory
    loaded.py mount WORK                       the first read of the language model's safetensors through `mount`

The encoder is a folder of all-MiniLM-L6-v2, as scripts/real-models installs it; the language model has about 270 million weights in
bfloat16. What is compared takes turns in one run. Prints a report for tests/tools/record take: minimum of the runs, ratios of minima."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import gbcompress as gbc

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench"))
from page_cache import forget  # noqa: E402

PROGRAM = os.environ.get("GBCOMPRESS", str(ROOT / "build/release/bin/gbcompress"))


#: Folder, packed folder, ratio.
PACKED = (("encoder", "encoder-8", 8), ("encoder", "encoder-4", 4), ("language", "language-8", 8), ("language", "language-4", 4))


def figures(values: dict[str, tuple[float, str]]) -> dict[str, Any]:
    return {"figures": [{"name": name, "value": float(f"{value:.4g}"), "unit": unit} for name, (value, unit) in values.items()]}


def least(runs: int, ways: dict[str, Callable[[], Any]], before: Callable[[str], Any] = lambda name: None) -> dict[str, float]:
    """Seconds of each; the ways take turns."""
    seconds: dict[str, float] = {}
    for _ in range(runs):
        for name, way in ways.items():
            before(name)
            start = time.perf_counter()
            kept = way()
            seconds[name] = min(seconds.get(name, 1e9), time.perf_counter() - start)
            del kept
    return seconds


def make_onnx(path: pathlib.Path) -> None:
    """16 products of 1,000 x 1,000."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    draw = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i in range(16):
        weights.append(numpy_helper.from_array((draw.standard_normal((1000, 1000)) / 32).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        last = f"r{i}"
    kind = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", kind, ["n", 1000])]
    outputs = [helper.make_tensor_value_info(last, kind, ["n", 1000])]
    graph = helper.make_graph(nodes, "mlp", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def prepare(args: argparse.Namespace) -> None:
    work = args.work
    work.mkdir(parents=True, exist_ok=True)
    for name, source in (("encoder", args.encoder), ("language", args.language)):
        if not (work / name).exists():
            shutil.copytree(source, work / name)
    for source, name, ratio in PACKED:
        if not (work / name).exists():
            gbc.compress_folder(work / source, work / name, ratio=ratio)
    if not (work / "exact").exists():
        (work / "exact").mkdir()
        subprocess.run([PROGRAM, "compress", work / "language", "--lossless", "-o", work / "exact/model.gbz"], check=True)
    if not (work / "mlp.gbz").exists():
        make_onnx(work / "mlp.onnx")
        subprocess.run([PROGRAM, "compress", work / "mlp.onnx", "--ratio", "8", "-o", work / "mlp.gbz"], check=True)


def pretrained(args: argparse.Namespace) -> dict[str, tuple[float, str]]:
    import transformers

    places = {"plain": args.work / args.model, "8x": args.work / f"{args.model}-8", "4x": args.work / f"{args.model}-4"}
    cls = transformers.AutoModelForCausalLM if args.model == "language" else transformers.AutoModel

    def load(place: pathlib.Path) -> float:
        """Every page of every parameter is read once, because safetensors maps its file."""
        model = cls.from_pretrained(place)
        return sum(float(value.detach().reshape(-1)[::256].sum()) for value in model.parameters())

    def drop(name: str) -> None:
        for file in places[name].rglob("*"):
            if file.is_file():
                forget(str(file))

    ways = {name: lambda place=place: load(place) for name, place in places.items()}
    least(1, ways)
    warm = least(args.runs, ways)
    cold = least(args.runs, ways, drop)
    weights = places["plain"] / "model.safetensors"
    forget(str(weights))
    start = time.perf_counter()
    weights.read_bytes()
    made = {"disk": (weights.stat().st_size / 1e6 / (time.perf_counter() - start), "MB/s")}

    def slow(name: str) -> float:
        """Seconds if the file came from a slower disk first, and were loaded then."""
        file = next(each for each in places[name].iterdir() if each.name in ("model.gbz", "model.safetensors"))
        return warm[name] + file.stat().st_size / 1e6 / args.disk

    for ratio in ("8x", "4x"):
        made[f"{ratio}, warm, of uncompressed"] = (warm[ratio] / warm["plain"], "x")
        made[f"{ratio}, cold, of uncompressed"] = (cold[ratio] / cold["plain"], "x")
        made[f"{ratio}, computed for a disk of {args.disk} MB/s, of uncompressed"] = (slow(ratio) / slow("plain"), "x")
    for name in places:
        made |= {f"{name}, warm": (warm[name] * 1e3, "ms"), f"{name}, cold": (cold[name] * 1e3, "ms")}
    return made


def held(model: Any) -> float:
    """MB of the model's weights, of the file that is mapped, and of buffers."""
    kept = [value for value in model.parameters() if hasattr(value, "kept_key")]
    memory = sum(kept[0]._source.store.memory().values()) if kept else 0
    plain = [value for value in (*model.parameters(), *model.buffers()) if not hasattr(value, "kept_key")]
    return (memory + sum(value.numel() * value.element_size() for value in plain)) / 1e6


def kept_ways(cls: Any, place: pathlib.Path, keep: str, dtypes: list[str]) -> dict[str, Any]:
    from gbcompress.huggingface import GbcompressConfig

    kept = {f"kept {dtype}": {"dtype": dtype, "quantization_config": GbcompressConfig(keep=keep)} for dtype in dtypes}
    ways = kept | {f"decoded {dtype}": {"dtype": dtype} for dtype in dtypes}
    return {name: cls.from_pretrained(place, **more).eval() for name, more in ways.items()}


def kept(args: argparse.Namespace) -> dict[str, tuple[float, str]]:
    """Ratios to the faster of both element types in memory."""
    import torch
    from transformers import AutoModelForCausalLM

    models = kept_ways(AutoModelForCausalLM, args.work / "language-4", args.keep, ["bfloat16", "float32"])
    torch.manual_seed(0)
    ids = torch.randint(5, models["kept bfloat16"].config.vocab_size, (1, 512))
    with torch.inference_mode():
        caches = {}

        def prefill(name: str) -> None:
            caches[name] = models[name](ids, use_cache=True, logits_to_keep=1).past_key_values

        def token(name: str) -> None:
            models[name](ids[:, :1], past_key_values=caches[name], use_cache=True, logits_to_keep=1)

        least(1, {name: lambda name=name: (prefill(name), token(name)) for name in models})
        prefills = least(args.runs, {name: lambda name=name: prefill(name) for name in models})
        tokens = least(3 * args.runs, {name: lambda name=name: token(name) for name in models})
    made = {"weights in memory": (held(models["kept bfloat16"]), "MB")}
    for what, seconds in (("prefill of 512 tokens", prefills), ("one token", tokens)):
        fastest = {way: min(value for name, value in seconds.items() if name.startswith(way)) for way in ("kept", "decoded")}
        made[f"{what}, of decoded weights"] = (fastest["kept"] / fastest["decoded"], "x")
        made |= {f"{what}, {name}": (value * 1e3, "ms") for name, value in seconds.items()}
    return made


def sentences(args: argparse.Namespace) -> dict[str, tuple[float, str]]:
    import torch
    from transformers import AutoModel

    models = kept_ways(AutoModel, args.work / "encoder-4", args.keep, ["float32"])
    torch.manual_seed(0)
    ids = torch.randint(5, 30000, (32, 64))
    with torch.inference_mode():
        ways = {name: lambda model=model: model(ids) for name, model in models.items()}
        least(2, ways)
        seconds = least(args.runs, ways)
    made = {"batch, of decoded weights": (seconds["kept float32"] / seconds["decoded float32"], "x")}
    return made | {f"batch, {name}": (value * 1e3, "ms") for name, value in seconds.items()}


SESSION = """
import resource, sys, time
import onnxruntime, gbcompress as gbc, gbcompress.onnx
import numpy as np
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) * 1024
gbc.onnx.session, onnxruntime.InferenceSession
before, start = status("VmRSS:"), time.perf_counter()
made = gbc.onnx.session(sys.argv[1]) if sys.argv[1].endswith(".gbz") else onnxruntime.InferenceSession(sys.argv[1])
seconds, peak = time.perf_counter() - start, status("VmHWM:")
made.run(None, {"x": np.ones((1, 1000), np.float32)})
print(seconds, peak - before)
"""


def onnx(args: argparse.Namespace) -> dict[str, tuple[float, str]]:
    seconds: dict[str, float] = {}
    memory: dict[str, float] = {}
    for run in range(args.runs + 1):
        for name in ("mlp.onnx", "mlp.gbz"):
            done = subprocess.run([sys.executable, "-c", SESSION, args.work / name], check=True, capture_output=True, text=True)
            took, peak = (float(word) for word in done.stdout.split())
            if run:
                seconds[name], memory[name] = min(seconds.get(name, 1e9), took), min(memory.get(name, 1e18), peak)
    return {
        "time, of the ONNX file's": (seconds["mlp.gbz"] / seconds["mlp.onnx"], "x"),
        "peak memory, beyond the ONNX file's": ((memory["mlp.gbz"] - memory["mlp.onnx"]) / 1e6, "MB"),
        **{f"{name}, time": (value * 1e3, "ms") for name, value in seconds.items()},
        **{f"{name}, peak memory": (value / 1e6, "MB") for name, value in memory.items()},
    }


def mount(args: argparse.Namespace) -> dict[str, tuple[float, str]]:
    point = args.work / "point"
    point.mkdir(exist_ok=True)
    (args.work / "exact/model.gbz").read_bytes()
    seconds, size = 1e9, 0
    for _ in range(args.runs):
        mounted = subprocess.Popen([PROGRAM, "mount", args.work / "exact", point, "-q"], stdout=subprocess.DEVNULL)
        try:
            while not (found := list(point.rglob("*.safetensors"))):
                time.sleep(0.01)
            start, size = time.perf_counter(), 0
            with found[0].open("rb", buffering=0) as file:
                buffer = bytearray(1 << 20)
                while got := file.readinto(buffer):
                    size += got
            seconds = min(seconds, time.perf_counter() - start)
        finally:
            mounted.terminate()
            mounted.wait()
    rate = size / 1e9 / seconds
    return {"first read": (rate, "GB/s"), "time": (seconds, "s"), "file": (size / 1e6, "MB")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["prepare", "pretrained", "kept", "sentences", "onnx", "mount"])
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--encoder", type=pathlib.Path)
    parser.add_argument("--language", type=pathlib.Path)
    parser.add_argument("--model", default="encoder", choices=["encoder", "language"])
    parser.add_argument("--keep", default="compressed")
    parser.add_argument("--disk", type=int, default=200, help="MB/s")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    if args.what == "prepare":
        prepare(args)
        return
    ways = {"pretrained": pretrained, "kept": kept, "sentences": sentences, "onnx": onnx, "mount": mount}
    print(json.dumps(figures(ways[args.what](args)), indent=1))


main()
