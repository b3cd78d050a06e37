"""A pretrained voice detector (Silero VAD) distilled to a small file on synthetic sounds.

    pip download --no-deps silero-vad && unzip silero_vad-*.whl silero_vad/data/silero_vad_16k.safetensors
    python distill_vad.py silero_vad/data/silero_vad_16k.safetensors vad.gbz

For comparison: the data-free file that is 8x smaller than the model.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, pad

import gbcompress as gbc

#: Samples of a frame (32 ms at 16 kHz), and of the one before that it begins with.
FRAME, CONTEXT = 512, 64


class Detector(nn.Module):
    """Logits of speech, one a frame: [n, frames * FRAME] -> [n, frames]."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, 1, 1)
        self.conv2 = nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3 = nn.Conv1d(64, 64, 3, 2, 1)
        self.conv4 = nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell = nn.LSTM(128, 128, batch_first=True)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, sound: Tensor) -> Tensor:
        n = len(sound)
        x = pad(sound, (CONTEXT, 0)).unfold(1, CONTEXT + FRAME, FRAME).flatten(0, 1)
        x = self.stft_conv(pad(x, (0, 64), "reflect")[:, None])
        x = (x[:, :129].square() + x[:, 129:].square() + 1e-12).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        hidden, _ = self.lstm_cell(x.view(n, -1, 128))
        out: Tensor = self.final_conv(hidden.relu().transpose(1, 2))[:, 0]
        return out


def pretrained(path: Path) -> Detector:
    model = Detector().eval()
    names = {f"lstm_cell.{p}": f"lstm_cell.{p}_l0" for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}  # fmt: skip
    model.load_state_dict({names.get(k, k): v for k, v in load_file(path).items()})
    return model


def held(n: int, frames: int, least: int, most: int, g: torch.Generator) -> Tensor:
    """Which of many choices holds at each frame; each lasts from `least` to `most` of them: [n, frames]."""
    lengths = torch.randint(least, most + 1, (n, frames), generator=g).cumsum(1)
    return torch.searchsorted(lengths, torch.arange(frames).expand(n, -1).contiguous(), right=True)


def between(low: float, high: float, shape: tuple[int, ...], g: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=g)


def voices(n: int, frames: int, g: torch.Generator) -> Tensor:
    """Syllables of a throat with three formants, hisses and pauses: [n, frames * FRAME], and one in
    eight a chord that does not speak."""
    control = 4 * frames  # every 8 ms
    syllable = held(n, control, 8, 40, g)

    def each(low: float, high: float) -> Tensor:
        """A number for each syllable, smoothed: [n, 1, control]."""
        drawn = between(low, high, (n, control), g).gather(1, syllable)
        kernel = torch.ones(1, 1, 9) / 9
        return torch.conv1d(pad(drawn[:, None], (4, 4), mode="replicate"), kernel)

    def fine(slow: Tensor) -> Tensor:
        return nn.functional.interpolate(slow, frames * FRAME, mode="linear")

    speaks = torch.rand(n, 1, 1, generator=g) < 0.875
    pitch = between(80, 260, (n, 1, 1), g) * torch.where(speaks, each(0.8, 1.25), 1.0)
    voiced = (each(0, 1) > 0.35).float()
    loud = (each(0, 1) > 0.3).float() * each(0.2, 1)
    phase = (fine(pitch) / 16000).cumsum(2)
    formants = [(each(280, 850), 80.0), (each(800, 2300), 120.0), (each(2200, 3300), 200.0)]
    sound = torch.zeros(n, 1, frames * FRAME)
    for k in range(1, 26):
        at = k * pitch
        spectrum = sum(1 / (1 + ((at - f) / width) ** 2) for f, width in formants)
        spectrum = torch.where(speaks, spectrum, 1.0 / k) * (at < 7500) / k**0.5
        sound += fine(spectrum * voiced) * (6.283185 * k * phase).sin()
    hiss = torch.randn(sound.shape, generator=g).diff(dim=2, prepend=torch.zeros(n, 1, 1))
    sound = (sound + 0.15 * fine((1 - voiced) * speaks) * hiss) * fine(loud)
    return (sound / sound.square().mean(2, keepdim=True).sqrt().clamp_min(1e-3))[:, 0]


def recorded(clean: Tensor, g: torch.Generator) -> Tensor:
    """With noise, white or dark, and at some level; one in ten is noise alone."""
    n = len(clean)
    noise = torch.randn(clean.shape, generator=g)
    dark = torch.conv1d(pad(noise[:, None], (15, 0)), torch.full((1, 1, 16), 0.25))[:, 0]
    noise = torch.where(torch.rand(n, 1, generator=g) < 0.5, noise, dark)
    share = 10 ** between(-2.2, 0.2, (n, 1), g)
    mixed = clean * (torch.rand(n, 1, generator=g) > 0.1) + share * noise
    return mixed * 10 ** between(-2.5, -0.7, (n, 1), g)


def agreement(model: nn.Module, teacher: nn.Module, sounds: Tensor) -> tuple[float, float]:
    """Share of frames in which both say speech, or both none; the correlation of their probabilities."""
    with torch.no_grad():
        ours, theirs = (torch.cat([net(x).sigmoid() for x in sounds.split(50)]) for net in (model, teacher))
    both = torch.stack([ours.flatten(), theirs.flatten()])
    return float(((ours > 0.5) == (theirs > 0.5)).float().mean()), float(torch.corrcoef(both)[0, 1])


def main(arguments: list[str] | None = None) -> list[tuple[int, float, float]]:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--max-bytes", type=int, help="unset: a twentieth of the model")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--clips", type=int, default=1500, help="of two seconds, to train on")
    options = parser.parse_args(arguments)

    teacher = pretrained(options.weights)
    before = options.weights.stat().st_size
    max_bytes = options.max_bytes or before // 20
    g = torch.Generator().manual_seed(1)
    test = recorded(voices(300, 64, g), g)
    with torch.no_grad():
        speech = float((teacher(test) > 0).float().mean())
    print(f"the model says speech in {speech:.0%} of the test frames", flush=True)

    plain = copy.deepcopy(teacher)
    free = options.output.with_suffix(".free.gbz")
    gbc.save_file(teacher.state_dict(), free, max_bytes=before // 8, overwrite=True)
    gbc.load_into(plain, free)

    model = copy.deepcopy(teacher)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.rate, total_steps=options.steps + 1, cycle_momentum=False
    )
    compression = gbc.prepare(
        model, optimizer, max_bytes=max_bytes, rate_weight=0.1, predictions=1_000_000,
        steps=options.steps, step_speed=10,
    )  # fmt: skip
    g, start = torch.Generator().manual_seed(0), time.perf_counter()
    clips = torch.cat([voices(100, 64, g) for _ in range(-(-options.clips // 100))])
    for step in range(options.steps):
        sounds = recorded(clips[torch.randint(len(clips), (16,), generator=g)], g)
        with torch.no_grad():
            wanted = teacher(sounds)
        optimizer.zero_grad()
        said = model(sounds)
        # Near the threshold a part of a logit counts; far from it both only have to be sure.
        loss = binary_cross_entropy_with_logits(said, wanted.sigmoid())
        loss = loss + 0.02 * (said.clamp(-6, 6) - wanted.clamp(-6, 6)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 199:
            took = time.perf_counter() - start
            print(f"step {step + 1}, {took:.0f} s, loss {loss.item():.4f}, "
                  f"rate weight {compression.rate_weight:.3f}, {compression.bytes()} bytes", flush=True)  # fmt: skip
    compression.save(options.output, overwrite=True)
    gbc.load_into(model, options.output)
    results = []
    for name, net, path in (("without training", plain, free), ("distilled", model, options.output)):
        size, (same, alike) = path.stat().st_size, agreement(net, teacher, test)
        print(f"{name}: {size} bytes, {before / size:.1f}x smaller, the same answer in "
              f"{same:.2%} of frames, correlation of outputs {alike:.4f}")  # fmt: skip
        results.append((size, same, alike))
    return results


if __name__ == "__main__":
    main()
