"""English spoken by eSpeak NG, which the package espeakng-loader brings as a shared library."""

import ctypes
import functools
import os
import subprocess
import sys

import numpy as np

import texts

RATE = 16000

SYNCHRONOUS, CHARACTERS, UTF8 = 2, 1, 1     # espeak_AUDIO_OUTPUT, espeak_POSITION_TYPE, text flags of speak_lib.h
SPEED, PITCH, RANGE = 1, 3, 4               # espeak_PARAMETER
ACCENTS = ("en-us", "en")
VARIANTS = ("m1", "f2", "m3", "f4", "m5", "f1", "m7", "f5", "m2", "f3", "m4", "m6")


def library(site):
    """(the library, the rate in Hz of what it says)."""
    folder = os.path.join(site, "espeakng_loader")
    espeak = ctypes.CDLL(os.path.join(folder, "libespeak-ng.so"))
    rate = espeak.espeak_Initialize(SYNCHRONOUS, 200, os.path.join(folder, "espeak-ng-data").encode(), 0)
    if rate <= 0:
        raise RuntimeError("eSpeak NG does not start")
    espeak.espeak_ng_SetRandSeed(ctypes.c_long(1))
    ctypes.CDLL(None).srand(1)
    return espeak, rate


def say(site, text, voice, speed, pitch, spread):
    """Waveform of a text: [samples] at 16 kHz, in -1..1. speed in words a minute, pitch and spread in 0..100."""
    espeak, rate = library(site)
    parts = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def keep(samples, count, _):
        if samples and count:
            parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    espeak.espeak_SetSynthCallback(keep)
    if espeak.espeak_SetVoiceByName(voice.encode()):
        raise RuntimeError(f"eSpeak NG has no voice {voice}")
    for parameter, value in ((SPEED, speed), (PITCH, pitch), (RANGE, spread)):
        espeak.espeak_SetParameter(parameter, int(value), 0)
    raw = text.encode()
    espeak.espeak_Synth(raw, ctypes.c_size_t(len(raw) + 1), 0, CHARACTERS, 0, UTF8, None, None)
    wave = np.concatenate(parts) / 32768
    spectrum = np.fft.rfft(wave)
    spectrum[np.arange(len(spectrum)) * rate / len(wave) > 7600] = 0    # what the lower rate cannot hold
    count = int(len(wave) * RATE / rate)
    return np.interp(np.arange(count) * rate / RATE, np.arange(len(wave)), np.fft.irfft(spectrum, len(wave)))


@functools.cache
def speech(site, speaker, seconds, pauses=True):
    """A speaker of that number saying sentences, with pauses between: float32 [seconds * RATE], a little noise below.

    In a process of its own: what eSpeak NG says depends on what it said before."""
    done = subprocess.run([sys.executable, __file__, site, *map(str, (speaker, seconds, int(pauses)))],
                          check=True, stdout=subprocess.PIPE)
    return np.frombuffer(done.stdout, np.float32).copy()


def speak(site, speaker, seconds, pauses):
    draw = np.random.default_rng(speaker)
    voice = f"{ACCENTS[speaker % len(ACCENTS)]}+{VARIANTS[speaker % len(VARIANTS)]}"
    pitch, speed, spread = draw.integers(20, 80), draw.integers(130, 200), draw.integers(30, 70)
    sentences, parts, length = texts.sentences(), [], 0
    while length < seconds * RATE:
        wave = say(site, sentences[draw.integers(len(sentences))], voice, speed, pitch, spread)
        parts.append(wave if not pauses else np.concatenate([wave, np.zeros(int(draw.uniform(0.2, 1.2) * RATE))]))
        length += len(parts[-1])
    wave = np.concatenate(parts)[: int(seconds * RATE)]
    wave = 0.5 * wave / np.abs(wave).max() * draw.uniform(0.4, 1)
    return (wave + 10 ** draw.uniform(-4, -2.5) * draw.standard_normal(len(wave))).astype(np.float32)


if __name__ == "__main__":
    sys.stdout.buffer.write(speak(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), bool(int(sys.argv[4]))).tobytes())
