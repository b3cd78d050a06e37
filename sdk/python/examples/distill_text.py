"""A given character transformer, distilled on its own text into a small file, in a plain loop.

    python distill_text.py char-transformer.safetensors text.txt char.gbz --rate-weight 0.42 --epochs 2

The safetensors file has the names of torch.nn.TransformerEncoder (norm first, GELU, 4 heads).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gbcompress as gbc


class CharTransformer(nn.Module):
    def __init__(self, letters: int, width: int, context: int, layers: int) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(letters, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)
        self.register_buffer("mask", torch.full((context, context), -torch.inf).triu(1))
        self.register_buffer("idx", torch.arange(context))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.encoder(self.tok(x) + self.pos(self.idx), self.mask)
        out: Tensor = self.head(self.norm(hidden))
        return out


def windows(codes: Tensor, context: int, stride: int) -> tuple[Tensor, Tensor]:
    """Rows of `context` letters and of those that follow each."""
    return codes[:-1].unfold(0, context, stride), codes[1:].unfold(0, context, stride)


def nats(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Mean cross-entropy of a character."""
    total = 0.0
    with torch.no_grad():
        for rows in torch.arange(len(x)).split(64):
            logits = model(x[rows]).flatten(0, 1)
            total += float(cross_entropy(logits, y[rows].flatten(), reduction="sum"))
    return total / y.numel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rate-weight", type=float, default=0.42)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()

    torch.manual_seed(0)
    state = load_file(options.model)
    letters, width = state["tok.weight"].shape
    context = state["pos.weight"].shape[0]
    layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("encoder.layers"))
    model, teacher = (CharTransformer(letters, width, context, layers).eval() for _ in range(2))
    for net in (model, teacher):
        net.load_state_dict(state)

    data = np.frombuffer(options.text.read_bytes(), np.uint8)
    codes = torch.from_numpy(np.unique(data, return_inverse=True)[1].astype(np.int64))
    kept = len(codes) // 10 * 9 + len(codes) % 10 * 9 // 10
    x, y = windows(codes[:kept], context, context // 2)
    test = windows(codes[kept:], context, context)
    before = nats(teacher, *test)

    steps = options.epochs * -(-len(x) // options.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 1e-3, total_steps=steps + 1, cycle_momentum=False
    )
    compression = gbc.prepare(
        model, optimizer, rate_weight=options.rate_weight, predictions=y.numel(), steps=steps, step_speed=10
    )
    start = time.perf_counter()
    for _ in range(options.epochs):
        for rows in torch.randperm(len(x)).split(options.batch):
            with torch.no_grad():
                wanted = teacher(x[rows]).flatten(0, 1).softmax(1)
            logits = model(x[rows]).flatten(0, 1)
            loss = cross_entropy(logits, wanted) + cross_entropy(logits, y[rows].flatten())
            optimizer.zero_grad()
            (loss / 2).backward()
            optimizer.step()
            schedule.step()
            if compression.updates % 100 == 0:
                took = time.perf_counter() - start
                print(f"step {compression.updates} of {steps}, {took:.0f} s", flush=True)
    size = compression.save(options.output, overwrite=True)
    gbc.load_into(model, options.output)
    after = nats(model, *test)
    print(f"{options.output}: {options.model.stat().st_size} bytes became {size}")
    print(f"{before:.4f} nats per character of the last tenth became {after:.4f} ({after - before:+.4f})")


if __name__ == "__main__":
    main()
