#!/usr/bin/env python3
"""Seconds of from_pretrained() of a packed folder beside that of the same model's float32 safetensors.

    from_pretrained.py [--runs 9]

A BERT of 109 million random weights, packed at 8x, in a temporary folder. Every parameter is read once after loading, because
safetensors maps its file. Both ways take turns, with the files in the page cache (warm) and without (cold). Prints one JSON line
with the minimum of each."""
import argparse
import json
import os
import pathlib
import tempfile
import time

import torch
from transformers import BertConfig, BertModel

from gbcompress.huggingface import save_pretrained
from page_cache import forget


def touched(model: BertModel) -> float:
    return sum(float(p.detach().reshape(-1)[::256].sum()) for p in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = os.path.join(folder, "plain"), os.path.join(folder, "packed")
        torch.manual_seed(0)
        model = BertModel(BertConfig())
        weights = sum(p.numel() for p in model.parameters())
        model.save_pretrained(plain)
        save_pretrained(model, packed, ratio=8)
        del model
        ways = {"packed": (packed, lambda: BertModel.from_pretrained(packed)),
                "plain": (plain, lambda: BertModel.from_pretrained(plain))}
        seconds = {}
        for _ in range(args.runs):
            for cold in True, False:
                for name, (place, load) in ways.items():
                    for path in pathlib.Path(place).iterdir() if cold else ():
                        forget(str(path))
                    start = time.perf_counter()
                    touched(load())
                    key = f"{name}, {'cold' if cold else 'warm'}"
                    seconds[key] = min(seconds.get(key, 1e9), time.perf_counter() - start)
    print(json.dumps({"weights": weights, "seconds": {name: round(value, 4) for name, value in seconds.items()},
                      "warm": round(seconds["packed, warm"] / seconds["plain, warm"], 3)}))


main()
