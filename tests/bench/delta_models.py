#!/usr/bin/env python3
"""Makes the models of delta_bench.cpp: a Llama-style net, trained, then fine-tuned at several learning rates.

    delta_models.py FOLDER [--width 320] [--layers 6] [--train 200] [--steps 50] [--rates 1e-7,1e-6,1e-5,1e-4] [--every 0]
                           [--batch 8]

The net is trained from scratch on tokens of Python's own standard library and fine-tuned on its documentation strings.
AdamW works on float32 master weights; what is saved is bfloat16, as training in mixed precision saves it, and the float32
weights beside it. FOLDER gets base.safetensors, rate-R-stepN.safetensors (bf16) for N = 1 and the last step, with
--every N also each N-th step, and base.f32.safetensors and rate-R.f32.safetensors in float32. The interpreter needs torch and safetensors. Same
interpreter and options, same files.
"""

import argparse
import collections
import os
import re
import sysconfig

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

VOCABULARY, LENGTH = 4096, 128


def tokens_of(part: str) -> list:
    """Words and signs of the standard library's files, or of their documentation strings alone."""
    root, found = sysconfig.get_paths()["stdlib"], []
    for name in sorted(os.listdir(root)):
        if not name.endswith(".py"):
            continue
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            text = file.read()
        if part == "strings":
            text = "\n".join(re.findall(r'\"\"\"(.*?)\"\"\"', text, re.S))
        found += re.findall(r"\w+|[^\w\s]|\n", text)
    return found


class Norm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x: torch.Tensor) -> torch.Tensor:
    half = x.size(-1) // 2
    angles = torch.arange(x.size(-2))[:, None] * (10000 ** (-torch.arange(half) / half))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        inner, self.heads = width * 8 // 3 // 32 * 32, heads
        self.input_layernorm, self.post_attention_layernorm = Norm(width), Norm(width)
        self.self_attn = nn.ModuleDict({name: nn.Linear(width, width, bias=False)
                                        for name in ("q_proj", "k_proj", "v_proj", "o_proj")})
        self.mlp = nn.ModuleDict({"gate_proj": nn.Linear(width, inner, bias=False),
                                  "up_proj": nn.Linear(width, inner, bias=False),
                                  "down_proj": nn.Linear(inner, width, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at, h = self.self_attn, self.input_layernorm(x)
        split = [at[name](h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("q_proj", "k_proj", "v_proj")]
        mixed = F.scaled_dot_product_attention(rotated(split[0]), rotated(split[1]), split[2], is_causal=True)
        x = x + at["o_proj"](mixed.transpose(1, 2).flatten(2))
        h = self.post_attention_layernorm(x)
        return x + self.mlp["down_proj"](F.silu(self.mlp["gate_proj"](h)) * self.mlp["up_proj"](h))


class Llama(nn.Module):
    def __init__(self, width: int, layers: int):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width, width // 64) for _ in range(layers))
        self.norm = Norm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def train(model: Llama, data: torch.Tensor, steps: int, batch_size: int, rate: float, seed: int,
          seen=lambda step: None) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
    draw = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        first = torch.randint(len(data) - LENGTH - 1, (batch_size,), generator=draw)
        batch = torch.stack([data[i:i + LENGTH + 1] for i in first])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen(step)
        if step % 20 == 0 or step == steps:
            print(f"rate {rate:g}, step {step}: loss {loss.item():.3f}", flush=True)


def save(model: Llama, path: str, dtype: torch.dtype) -> None:
    save_file({name: value.detach().to(dtype).contiguous() for name, value in model.state_dict().items()}, path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    for name, value in (("width", 320), ("layers", 6), ("train", 200), ("steps", 50), ("every", 0), ("batch", 8)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--rates", default="1e-7,1e-6,1e-5,1e-4")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    words = tokens_of("all")
    number = {word: i for i, (word, _) in enumerate(collections.Counter(words).most_common(VOCABULARY - 1), 1)}
    data = {part: torch.tensor([number.get(word, 0) for word in (words if part == "all" else tokens_of(part))])
            for part in ("all", "strings")}
    model = Llama(args.width, args.layers)
    print(f"{sum(p.numel() for p in model.parameters()):,} weights")
    train(model, data["all"], args.train, args.batch, 1e-3, 1)
    os.makedirs(args.folder, exist_ok=True)
    save(model, os.path.join(args.folder, "base.safetensors"), torch.bfloat16)
    save(model, os.path.join(args.folder, "base.f32.safetensors"), torch.float32)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    for rate in args.rates.split(","):
        model.load_state_dict(start)

        def seen(step: int, rate: str = rate) -> None:
            if step in (1, args.steps) or (args.every and step % args.every == 0):
                save(model, os.path.join(args.folder, f"rate-{rate}-step{step}.safetensors"), torch.bfloat16)

        train(model, data["strings"], args.steps, args.batch, float(rate), 2, seen)
        save(model, os.path.join(args.folder, f"rate-{rate}.f32.safetensors"), torch.float32)


if __name__ == "__main__":
    main()
