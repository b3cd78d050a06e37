#!/usr/bin/env python3
"""Writes matrices and second moments of their inputs, to measure `compress MODEL --statistics FILE` at large sizes.

    layer_moments.py FOLDER --blocks N          blocks of Llama-2 7B: seven matrices each
    layer_moments.py FOLDER --matrix ROWSxCOLS

FOLDER gets model.safetensors in bfloat16 and statistics.safetensors. Weights are normal, times a scale of each row and column;
moments are those of 192 directions and noise, with a scale of each input. Same arguments, same files. Needs torch and safetensors.
"""

import argparse
import os

import torch
from safetensors.torch import save_file

HIDDEN, INNER, DIRECTIONS = 4096, 11008, 192


def weight(rows: int, cols: int) -> torch.Tensor:
    scales = torch.exp(0.3 * torch.randn(cols)) * torch.exp(0.2 * torch.randn(rows, 1))
    return (torch.randn(rows, cols) * scales / cols**0.5).bfloat16()


def moment(size: int) -> torch.Tensor:
    """[size, size]"""
    directions = torch.randn(size, DIRECTIONS) * torch.exp(0.5 * torch.randn(DIRECTIONS))
    scales = torch.exp(0.7 * torch.randn(size))
    result = directions @ directions.T / DIRECTIONS
    result.diagonal().add_(0.3)
    return result * scales[:, None] * scales


def block_of(prefix: str, tensors: dict, statistics: dict) -> None:
    """One block of Llama-2 7B; what matrices have the same inputs have the same moments."""
    attention = [(f"self_attn.{name}_proj", HIDDEN) for name in "qkv"]
    output, gates = [("self_attn.o_proj", HIDDEN)], [("mlp.gate_proj", INNER), ("mlp.up_proj", INNER)]
    for matrices in (attention, output, gates):
        inputs = moment(HIDDEN)
        for name, rows in matrices:
            tensors[f"{prefix}{name}.weight"] = weight(rows, HIDDEN)
            statistics[f"{prefix}{name}.weight.input_moment"] = inputs.clone()
    tensors[f"{prefix}mlp.down_proj.weight"] = weight(HIDDEN, INNER)
    statistics[f"{prefix}mlp.down_proj.weight.input_moment"] = moment(INNER)
    for name in ("input", "post_attention"):
        tensors[f"{prefix}{name}_layernorm.weight"] = torch.ones(HIDDEN).bfloat16()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--blocks", type=int, default=0)
    parser.add_argument("--matrix", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    statistics: dict[str, torch.Tensor] = {}
    for layer in range(args.blocks):
        block_of(f"model.layers.{layer}.", tensors, statistics)
    if args.matrix:
        rows, cols = map(int, args.matrix.split("x"))
        tensors["weight"], statistics["weight.input_moment"] = weight(rows, cols), moment(cols)
    os.makedirs(args.folder, exist_ok=True)
    save_file(tensors, os.path.join(args.folder, "model.safetensors"))
    save_file(statistics, os.path.join(args.folder, "statistics.safetensors"))


if __name__ == "__main__":
    main()
