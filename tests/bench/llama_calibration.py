#!/usr/bin/env python3
"""Calibration of a Llama-style language model beside GPTQ: next-token loss on held-out text over bytes on disk.

    llama_calibration.py FOLDER [--width 640] [--layers 11] [--steps 300] [--batch 16] [--bits 4,3,2.5] [--blocks]

The net of delta_models.py is trained from scratch on nine tenths of Python's standard library, as tokens, and kept in bfloat16 in
FOLDER, so that a further call continues there. Calibrated with 96 sequences of 128 training tokens; the loss is that of 256
sequences of the last tenth, in float32. GPTQ is written here from the paper (arXiv 2210.17323): columns in order, damping of
0.01, inputs of the quantized blocks before, groups of 128 columns with a scale and a zero point, weights packed and the file
compressed by zstd -19. It keeps 8 bits in the embedding and the last matrix, which cost it no loss. Prints one line a file; the
divergence is that of its predictions from the original's (Kullback-Leibler, nats), which says more where a loss hardly changes.
The interpreter needs gbcompress, torch, safetensors and zstandard or the program zstd.
"""

import argparse
import collections
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from delta_models import LENGTH, VOCABULARY, Llama, tokens_of
from safetensors.torch import load_file, save_file
from torch import nn

import gbcompress as gbc

GROUP, DAMPING = 128, 0.01


def parts() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of nine tenths of the text, and of the rest."""
    words = tokens_of("all")
    number = {word: i for i, (word, _) in enumerate(collections.Counter(words).most_common(VOCABULARY - 1), 1)}
    tokens = torch.tensor([number.get(word, 0) for word in words])
    cut = len(tokens) * 9 // 10
    return tokens[:cut], tokens[cut:]


def sequences(tokens: torch.Tensor, count: int, seed: int) -> torch.Tensor:
    first = torch.randint(len(tokens) - LENGTH - 1, (count,), generator=torch.Generator().manual_seed(seed))
    return torch.stack([tokens[i:i + LENGTH + 1] for i in first])


def trained(args: argparse.Namespace, tokens: torch.Tensor) -> Llama:
    """The net of the folder, or a new one."""
    torch.manual_seed(0)
    model, path = Llama(args.width, args.layers), os.path.join(args.folder, "model.safetensors")
    if not os.path.exists(path):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
        rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, args.steps, pct_start=0.1)
        draw = sequences(tokens, args.steps * args.batch, 1).split(args.batch)
        for step, batch in enumerate(draw, 1):
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            rates.step()
            if step % 20 == 0:
                print(f"step {step}: loss {loss.item():.3f}", flush=True)
        os.makedirs(args.folder, exist_ok=True)
        save_file({k: v.detach().bfloat16().contiguous() for k, v in model.state_dict().items()}, path)
    model.load_state_dict(load_file(path))
    return model.requires_grad_(True).eval()


@torch.no_grad()
def predictions(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Logarithms of probabilities, [predictions, vocabulary]."""
    return torch.cat([model(part[:, :-1]).flatten(0, 1).log_softmax(-1) for part in batch.split(16)])


def losses(logarithms: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Of each prediction, in nats."""
    return F.nll_loss(logarithms, batch[:, 1:].flatten(), reduction="none")


class Grid:
    """Integers of `bits` bits, with a scale and a zero point for each row of a group of columns."""

    def __init__(self, bits: int, group: torch.Tensor):
        self.most = 2**bits - 1
        low, high = group.amin(1, keepdim=True).clamp(max=0), group.amax(1, keepdim=True).clamp(min=0)
        self.scale = ((high - low) / self.most).clamp(min=1e-8).half().float()
        self.zero = (-low / self.scale).round()

    def integers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x / self.scale).round() + self.zero).clamp(0, self.most)

    def values(self, q: torch.Tensor) -> torch.Tensor:
        return (q - self.zero) * self.scale


def packed(integers: torch.Tensor, grids: list, bits: int) -> bytes:
    spread = (integers.to(torch.uint8).numpy().reshape(-1, 1) >> np.arange(bits, dtype=np.uint8)) & 1
    zeros = torch.cat([grid.zero for grid in grids]).to(torch.uint8).numpy().tobytes()
    return np.packbits(spread).tobytes() + torch.cat([grid.scale for grid in grids]).half().numpy().tobytes() + zeros


def gptq(weight: torch.Tensor, moment: torch.Tensor, bits: int) -> tuple[torch.Tensor, bytes]:
    """The values of a matrix after column feedback, and what a file holds of it."""
    w, n = weight.clone(), weight.size(1)
    moment = moment + DAMPING * moment.diagonal().mean() * torch.eye(n)
    factor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(moment)), upper=True).float()
    values, integers, grids = torch.empty_like(w), torch.empty_like(w), []
    for first in range(0, n, GROUP):
        end = min(first + GROUP, n)
        grids.append(Grid(bits, w[:, first:end]))
        errors = torch.zeros(w.size(0), end - first)
        for i in range(first, end):
            q = grids[-1].integers(w[:, i:i + 1])
            integers[:, i:i + 1], values[:, i:i + 1] = q, grids[-1].values(q)
            errors[:, i - first] = (w[:, i] - values[:, i]) / factor[i, i]
            w[:, i:end] -= errors[:, i - first:i - first + 1] * factor[i:i + 1, i:end]
        w[:, end:] -= errors @ factor[first:end, end:]
    return values, packed(integers, grids, bits)


def nearest(weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, bytes]:
    grids = [Grid(bits, part) for part in weight.split(GROUP, 1)]
    integers = [grid.integers(part) for grid, part in zip(grids, weight.split(GROUP, 1), strict=True)]
    values = torch.cat([grid.values(q) for grid, q in zip(grids, integers, strict=True)], 1)
    return values, packed(torch.cat(integers, 1), grids, bits)


@torch.no_grad()
def quantize_by_gptq(model: Llama, batch: torch.Tensor, bits: int) -> bytes:
    """Quantizes a model in place, block by block."""
    content = []
    for matrix in (model.embed_tokens, model.lm_head):
        values, part = nearest(matrix.weight, 8)
        matrix.weight.copy_(values)
        content.append(part)
    x = model.embed_tokens(batch[:, :-1])
    for layer in model.layers:
        moments: dict[str, torch.Tensor] = {}

        def seen(name: str, rows: torch.Tensor, moments: dict = moments) -> None:
            rows = rows.flatten(0, -2).double()
            moments[name] = moments.get(name, 0) + rows.T @ rows

        linears = {name: part for name, part in layer.named_modules() if isinstance(part, nn.Linear)}
        hooks = [part.register_forward_pre_hook(lambda _, given, name=name: seen(name, given[0])) for name, part in linears.items()]
        layer(x)
        for hook in hooks:
            hook.remove()
        for name, part in linears.items():
            values, stored = gptq(part.weight.float(), moments[name], bits)
            part.weight.copy_(values)
            content.append(stored)
        content += [v.bfloat16().view(torch.int16).numpy().tobytes() for k, v in layer.named_parameters() if v.dim() == 1]
        x = layer(x)
    return b"".join(content)


def zstd_bytes(content: bytes) -> int:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return len(subprocess.run(["zstd", "-19", "-q", "-c", file.name], check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    for name, value in (("width", 640), ("layers", 11), ("steps", 300), ("batch", 16)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--bits", default="4,3,2.5")
    parser.add_argument("--blocks", action="store_true", help="calibrate block by block")
    args = parser.parse_args()
    tokens, other = parts()
    model = trained(args, tokens)
    weights = sum(p.numel() for p in model.parameters())
    held_out, batch = sequences(other, 256, 3), sequences(tokens, 96, 2)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    original = predictions(model, held_out)
    print(f"{weights:,} weights, held-out loss {losses(original, held_out).mean():.4f}", flush=True)

    def tell(what: str, size: int, begun: float) -> None:
        seconds = time.monotonic() - begun
        now = predictions(model, held_out)
        more = losses(now, held_out) - losses(original, held_out)
        by_sequence = more.view(len(held_out), -1).mean(1)
        divergence = sum(F.kl_div(a, b, log_target=True, reduction="sum").item()
                         for a, b in zip(now.split(4096), original.split(4096), strict=True)) / len(now)
        line = {"file": what, "bytes": size, "bits": round(8 * size / weights, 3), "loss_increase": round(more.mean().item(), 5),
                "standard_error": round((by_sequence.std() / len(held_out) ** 0.5).item(), 5), "divergence": round(divergence, 6), "seconds": round(seconds, 1)}
        print(json.dumps(line), flush=True)
        model.load_state_dict(start)

    def ours(size: int, what: str) -> None:
        path = os.path.join(args.folder, "m.gbz")
        begun = time.monotonic()
        exact = {name: value.bfloat16() for name, value in start.items()}
        gbc.save_file(exact, path, max_bytes=size, overwrite=True)
        model.load_state_dict({k: v.float() for k, v in gbc.load_file(path, framework="pt").items()})
        tell(f"data-free, {what}", os.path.getsize(path), begun)
        begun = time.monotonic()
        report = gbc.calibrate(model, [part[:, :-1] for part in batch.split(8)], path, max_bytes=size, overwrite=True,
                               blocks=args.blocks)
        model.load_state_dict({k: v.float() for k, v in gbc.load_file(path, framework="pt").items()})
        tell(f"calibrated, {what}: {getattr(report, 'method', '')}", os.path.getsize(path), begun)

    for bits in map(float, args.bits.split(",")):
        ours(int(bits * weights / 8), f"{bits:g} bits")
    for bits in (4, 3):
        begun = time.monotonic()
        size = zstd_bytes(quantize_by_gptq(model, batch, bits))
        tell(f"GPTQ, {bits} bits", size, begun)
        ours(size * 3 // 4, f"75 % of GPTQ's {bits} bits")


if __name__ == "__main__":
    main()
