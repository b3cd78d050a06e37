"""Sounds made here, chirps and noise, at 16 kHz; mel spectrograms of any sound."""

import numpy as np
import torch

from voices import RATE

def tones(seed, seconds):
    """Notes, chirps and hums between 60 and 1000 Hz: float32 [seconds * RATE]."""
    draw = np.random.default_rng(seed)
    parts, length = [], 0
    while length < seconds * RATE:
        count = int(draw.uniform(0.2, 0.5) * RATE)
        start, end = 60 * 2 ** draw.uniform(0, 4, 2)
        hertz = start * (end / start) ** (np.linspace(0, draw.choice([0.0, 0.3, 1.0]), count))
        phase = 2 * np.pi * np.cumsum(hertz) / RATE
        fall = draw.uniform(0.5, 2.5)
        wave = sum(np.sin(k * phase + draw.uniform(0, 6)) / k ** fall for k in range(1, 13) if k * hertz.max() < 7800)
        parts.append(np.hanning(count) ** 0.3 * wave / np.abs(wave).max())
        length += count
    wave = np.concatenate(parts)[: int(seconds * RATE)]
    return (0.4 * wave + 10 ** draw.uniform(-4, -2) * draw.standard_normal(len(wave))).astype(np.float32)


def noise(seed, seconds):
    """Coloured noise that comes and goes, without a voice: float32 [seconds * RATE]."""
    draw = np.random.default_rng(seed)
    count = int(seconds * RATE)
    spectrum = np.fft.rfft(draw.standard_normal(count)) / np.maximum(np.arange(count // 2 + 1), 30) ** draw.uniform(0, 1)
    wave = np.fft.irfft(spectrum, count)
    swell = np.interp(np.arange(count), np.linspace(0, count, 12), draw.uniform(0, 1, 12))
    return (draw.uniform(0.02, 0.3) * swell * wave / np.abs(wave).max()).astype(np.float32)


def mel_filters(bands, fft):
    """Slaney's mel filters, areas normalised: float32 [bands, fft / 2 + 1] from 0 to RATE / 2."""
    linear, log_step = 200 / 3, np.log(6.4) / 27
    to_mel = lambda f: np.where(f < 1000, f / linear, 15 + np.log(np.maximum(f, 1) / 1000) / log_step)
    to_hertz = lambda m: np.where(m < 15, m * linear, 1000 * np.exp(log_step * (m - 15)))
    edges = to_hertz(np.linspace(0, to_mel(np.float64(RATE / 2)), bands + 2))
    bins = np.linspace(0, RATE / 2, fft // 2 + 1)[None, :]
    low, mid, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    weights = np.maximum(0, np.minimum((bins - low) / (mid - low), (high - bins) / (high - mid)))
    return torch.from_numpy((weights * 2 / (high - low)).astype(np.float32))


def mel(wave, bands, fft, hop, power):
    """Mel spectrogram of float32 [samples]: [frames, bands], magnitudes to the power `power`."""
    window = torch.hann_window(fft)
    spectrum = torch.stft(torch.as_tensor(wave), fft, hop, fft, window, center=True, pad_mode="constant",
                          return_complex=True).abs() ** power
    return (mel_filters(bands, fft) @ spectrum).T
