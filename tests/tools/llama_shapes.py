#!/usr/bin/env python3
"""Writes a synthetic checkpoint of Llama-2 shapes, to measure how large models are compressed.

    llama_shapes.py FOLDER --size 1b|7b [--layers N] [--shard-bytes N] [--seed N]

bfloat16, in shards with an index, as Hugging Face writes them. Weights are normal, times a scale of
each row and each column; one column of 512 is an outlier, ten times as large. One shard is in memory
at a time. Shards that are there already are kept, so an interrupted call is continued by the same
call; the same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Shape(NamedTuple):
    hidden: int
    inner: int
    layers: int
    vocabulary: int


#: 0.99 and 6.74 billion weights.
SIZES = {"1b": Shape(2048, 5504, 17, 32000), "7b": Shape(4096, 11008, 32, 32000)}
OUTLIERS = 512  # columns for each of them
ROWS = 1 << 22  # weights that are drawn at a time

Tensors = list[tuple[str, tuple[int, ...]]]


def tensors_of(shape: Shape) -> Tensors:
    """Names and shapes in the order of a Llama-2 checkpoint."""
    hidden, inner = shape.hidden, shape.inner
    tensors: Tensors = [("model.embed_tokens.weight", (shape.vocabulary, hidden))]
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        tensors += [(f"{prefix}self_attn.{name}_proj.weight", (hidden, hidden)) for name in "qkvo"]
        tensors += [(f"{prefix}mlp.{name}_proj.weight", (inner, hidden)) for name in ("gate", "up")]
        tensors += [(f"{prefix}mlp.down_proj.weight", (hidden, inner))]
        tensors += [(f"{prefix}{name}_layernorm.weight", (hidden,)) for name in ("input", "post_attention")]
    return [*tensors, ("model.norm.weight", (hidden,)), ("lm_head.weight", (shape.vocabulary, hidden))]


def shards_of(tensors: Tensors, limit: int) -> list[Tensors]:
    shards: list[Tensors] = [[]]
    size = 0
    for name, shape in tensors:
        own = 2 * int(np.prod(shape))
        if shards[-1] and size + own > limit:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += own
    return shards


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Finite float32 numbers, rounded to nearest even, as the upper halves of their bits."""
    bits = values.view(np.uint32)
    bits += 0x7FFF + ((bits >> 16) & 1)
    return (bits >> 16).astype("<u2")


def pieces_of(name: str, shape: tuple[int, ...], seed: int) -> Iterator[np.ndarray]:
    """The elements of a tensor as bits of bfloat16, some rows at a time."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if len(shape) == 1:
        yield bfloat16(1 + 0.1 * random.standard_normal(shape, np.float32))
        return
    rows, cols = shape
    columns = np.exp(0.3 * random.standard_normal(cols, np.float32)) / np.sqrt(np.float32(cols))
    columns[random.choice(cols, max(1, cols // OUTLIERS), replace=False)] *= 10
    step = max(1, ROWS // cols)
    for first in range(0, rows, step):
        values = random.standard_normal((min(step, rows - first), cols), np.float32)
        values *= columns
        values *= np.exp(0.25 * random.standard_normal((len(values), 1), np.float32))
        yield bfloat16(values)


def write_shard(path: Path, tensors: Tensors, seed: int) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors:
        first, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [first, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors:
            for piece in pieces_of(name, shape, seed):
                file.write(piece.tobytes())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def write_checkpoint(folder: Path, shape: Shape, shard_bytes: int, seed: int) -> int:
    """Returns how many weights the checkpoint has."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensors_of(shape)
    shards = shards_of(tensors, shard_bytes)
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        places.update((tensor, name) for tensor, _ in shard)
        if not (folder / name).exists():
            write_shard(folder / name, shard, seed)
    weights = sum(int(np.prod(sides)) for _, sides in tensors)
    index = {"metadata": {"total_size": 2 * weights}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": shape.hidden, "intermediate_size": shape.inner, "num_hidden_layers": shape.layers,
        "vocab_size": shape.vocabulary, "num_attention_heads": max(1, shape.hidden // 128),
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=sorted(SIZES), default="1b")
    parser.add_argument("--layers", type=int, help="instead of the size's own")
    parser.add_argument("--shard-bytes", type=int, default=1 << 30, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    shape = SIZES[arguments.size]
    if arguments.layers is not None:
        shape = shape._replace(layers=arguments.layers)
    weights = write_checkpoint(arguments.folder, shape, arguments.shard_bytes, arguments.seed)
    print(f"{weights:,} weights in {arguments.folder}")


if __name__ == "__main__":
    main()
