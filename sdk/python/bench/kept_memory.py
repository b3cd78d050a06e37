"""Memory and seconds of a language model whose weights are kept compressed, beside the decoded model.

    kept_memory.py PACKED [--keep compressed,integers] [--runs 5] [--dtypes bfloat16,float32] [--prompt 512]
    kept_memory.py PACKED --sentences          a sentence encoder: batches of 32 sentences of 64 tokens
    kept_memory.py PACKED --make               makes PACKED first: random weights in the shapes of Gemma 3 270M, 4 bits each

PACKED is a packed folder. The ways take turns, so that the load of the machine is the same for all, and the minimum of each is
printed as JSON: a prefill of random tokens (logits of the last one), one further token, memory in MB. "held": the compressed
file, integers, buffers, cached rows, other parameters; "rss": growth of the resident memory over that before the model was opened."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from typing import Any

import torch
from transformers import AutoModel, AutoModelForCausalLM

import gbcompress as gbc
from gbcompress.huggingface import GbcompressConfig


def make(folder: str) -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=262144, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
        num_key_value_heads=1, head_dim=256,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Gemma3ForCausalLM(config).bfloat16()
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        gbc.compress_folder(plain, folder, ratio=4)


def resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def held(model: Any) -> float:
    """MB of what the model's weights need."""
    kept = [value for value in model.parameters() if hasattr(value, "kept_key")]
    memory = sum(kept[0]._source.store.memory().values()) if kept else 0
    plain = [value for value in (*model.parameters(), *model.buffers()) if not hasattr(value, "kept_key")]
    return (memory + sum(value.numel() * value.element_size() for value in plain)) / 1e6


def measure(model: Any, ids: torch.Tensor, sentences: bool, seconds: dict[str, float], name: str) -> None:
    def timed(what: str, function: Any) -> Any:
        start = time.perf_counter()
        result = function()
        key = f"{name}, {what}"
        seconds[key] = min(seconds.get(key, 1e9), time.perf_counter() - start)
        return result

    with torch.inference_mode():
        if sentences:
            timed("batch", lambda: model(ids))
            return
        made = timed("prefill", lambda: model(ids, use_cache=True, logits_to_keep=1))
        cache = made.past_key_values
        for _ in range(3):
            made = timed("token", lambda: model(ids[:, :1], past_key_values=cache, use_cache=True, logits_to_keep=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed")
    parser.add_argument("--keep", default="compressed")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    if args.make:
        make(args.packed)
    cls = AutoModel if args.sentences else AutoModelForCausalLM
    memory: dict[str, dict[str, float]] = {}
    models: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    # The kept model comes first: memory that others freed would hide its own.
    for dtype in args.dtypes.split(","):
        for keep in (*args.keep.split(","), ""):
            before = resident()
            name = f"{keep or 'decoded'} {dtype}"
            config = {"quantization_config": GbcompressConfig(keep=keep)} if keep else {}
            models[name] = cls.from_pretrained(args.packed, dtype=dtype, **config).eval()
            torch.manual_seed(0)
            shape = (32, 64) if args.sentences else (1, args.prompt)
            ids = torch.randint(5, models[name].config.vocab_size, shape)
            measure(models[name], ids, args.sentences, {}, name)
            memory[name] = {"held": round(held(models[name]), 1), "rss": round(resident() - before, 1)}
    for _ in range(args.runs):
        for name, model in models.items():
            measure(model, ids, args.sentences, seconds, name)
    print(json.dumps({"memory": memory, "seconds": {name: round(each, 4) for name, each in seconds.items()}}, indent=1))


main()
