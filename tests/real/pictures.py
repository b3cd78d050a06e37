"""Pictures made here: simple faces on textured grounds, and textures without a face."""

import numpy as np
import torch


def texture(draw, side):
    """Smooth coloured noise with a few bars: float64 [3, side, side] in 0..255."""
    spectrum = np.fft.fft2(draw.standard_normal((3, side, side)))
    f = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None, :]) + 1 / side
    wave = np.fft.ifft2(spectrum / f ** draw.uniform(0.5, 2)).real
    wave = wave / wave.std()
    picture = 128 + draw.uniform(15, 60) * wave + draw.uniform(-60, 60, (3, 1, 1))
    for _ in range(draw.integers(0, 3)):
        a, b = np.sort(draw.integers(0, side, 2))
        picture[:, :, a:b] = picture[:, :, a:b] * 0.5 + draw.uniform(0, 128)
    return picture


def face(draw, side):
    """A face of ellipses (head, hair, eyes, brows, nose, mouth) on a texture: float64 [3, side, side] in 0..255."""
    picture = texture(draw, side)
    y, x = np.mgrid[0:side, 0:side] / side
    turn = draw.uniform(-0.2, 0.2)
    cx, cy = 0.5 + draw.uniform(-0.06, 0.06), 0.5 + draw.uniform(-0.06, 0.06)
    u = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn)
    v = (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)
    light = 1 + draw.uniform(-0.7, 0.7) * u + draw.uniform(-0.4, 0.4) * v
    skin = np.array([draw.uniform(120, 235), 0, 0])
    skin[1], skin[2] = skin[0] * draw.uniform(0.72, 0.85), skin[0] * draw.uniform(0.55, 0.75)
    soft = 1.5 / side

    def paint(du, dv, ru, rv, colour, strength=1.0):
        distance = (np.hypot((u - du) / ru, (v - dv) / rv) - 1) * min(ru, rv)
        cover = strength * np.clip(0.5 - distance / (2 * soft), 0, 1)
        picture[:] = picture * (1 - cover) + np.asarray(colour)[:, None, None] * light * cover

    wide, tall = draw.uniform(0.33, 0.42), draw.uniform(0.44, 0.52)
    hair = draw.uniform(10, 120) * np.array([1, 0.8, 0.6])
    paint(0, -0.08, wide * 1.1, tall * 1.05, hair)
    paint(0, 0.04, wide, tall * 0.92, skin)
    eye, dark = draw.uniform(0.15, 0.19), skin * draw.uniform(0.2, 0.45)
    for side_of in (-1, 1):
        paint(side_of * eye, -0.08, 0.085, 0.055, skin * 0.75, 0.7)
        paint(side_of * eye, -0.075, 0.065, 0.03, (225, 225, 225), 0.7)
        paint(side_of * eye, -0.075, 0.03, 0.032, dark * 0.5)
        paint(side_of * eye, -0.15, 0.09, 0.016, hair * 0.8, 0.8)
        paint(side_of * 0.035, 0.095, 0.018, 0.012, dark)
    paint(0.02, 0.02, 0.03, 0.09, skin * 1.12, 0.6)
    paint(0, 0.22, draw.uniform(0.09, 0.14), draw.uniform(0.02, 0.045), (skin[0] * 0.75, skin[1] * 0.45, skin[2] * 0.5))
    return picture + draw.uniform(1, 6) * draw.standard_normal(picture.shape)


def crops(seed, count, side):
    """Half faces, half textures, scaled as the face detectors want: float32 [count, 3, side, side] in -1..1."""
    draw = np.random.default_rng(seed)
    large = [face(draw, 2 * side) if i % 2 == 0 else texture(draw, 2 * side) for i in range(count)]
    small = np.stack(large).clip(0, 255).reshape(count, 3, side, 2, side, 2).mean((3, 5))
    return torch.from_numpy(((small - 127.5) / 128).astype(np.float32))
