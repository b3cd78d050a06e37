"""Inputs that become shorter while they are read: one sentence and status 1, nothing written."""

import os
import random
import signal
import subprocess
import time

import harness
from checkpoint.saver import Finding, Scratch

from .jobs import TIMEOUT

NUMBERS = 1_000_000  # enough that reading them takes a moment


def big_model(path):
    """Random bits of numbers below 2; made at once, unlike harness.floats()."""
    raw = bytearray(random.Random(1).randbytes(4 * NUMBERS))
    raw[3::4] = bytes(byte & 0x80 | 0x3e for byte in raw[3::4])
    with open(path, "wb") as file:
        file.write(harness.safetensors({"w": ("F32", [NUMBERS // 1000, 1000], bytes(raw))}))


def mapped(process, path):
    try:
        with open(f"/proc/{process.pid}/maps") as maps:
            return path in maps.read()
    except OSError:
        return False


def cut_while_read(command, path, left):
    """@return the ended process, or None where it was too quick"""
    process = subprocess.Popen(command, env=harness.clean_environment(), text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not mapped(process, path):
        pass
    process.send_signal(signal.SIGSTOP)
    hit = mapped(process, path)
    if hit:
        os.truncate(path, left)
    process.send_signal(signal.SIGCONT)
    out, error = process.communicate(timeout=TIMEOUT)
    return (process.returncode, out, error) if hit else None


def campaign(jobs, draw, options):
    program, hits, refusals = options.program, 0, 0
    with Scratch() as folder:
        whole, packed = os.path.join(folder, "whole.safetensors"), os.path.join(folder, "whole.gbz")
        big_model(whole)
        subprocess.run([program, "compress", whole, "--max-error", "0.01", "-o", packed, "-q"], check=True, timeout=TIMEOUT,
                       stdout=subprocess.DEVNULL)
        out = os.path.join(folder, "out")
        commands = {"compress": (whole, lambda path: ["compress", path, "--max-error", "0.01", "-o", out, "-q"]),
                    "expand": (packed, lambda path: ["expand", path, "-o", out]),
                    "compare": (whole, lambda path: ["compare", path, whole])}
        for name, (source, words) in commands.items():
            for _ in range(40 if options.full else 4):
                path = os.path.join(folder, "input" + os.path.splitext(source)[1])
                with open(source, "rb") as read, open(path, "wb") as write:
                    write.write(read.read())
                time.sleep(draw.uniform(0, 0.01))
                ended = cut_while_read([program, *words(path)], path, draw.choice([0, 4096, 8192 + draw.randrange(100_000)]))
                os.remove(path)
                if ended is None:
                    if os.path.exists(out):  # it had ended, with its file
                        os.remove(out)
                    continue
                hits += 1
                status, said, error = ended
                if status == 3 and error.count("\n") == 1 and "is empty" not in error:
                    refusals += 1  # it had asked for the size afterwards, and saw a file that is short
                elif status != 1 or "became shorter" not in error or error.count("\n") != 1:
                    raise Finding(f"{name} of an input that was cut: status {status}, {said!r} {error!r}")
                if os.path.exists(out):
                    raise Finding(f"{name} wrote a file from an input that was cut")
    if not hits:
        raise Finding("no input was cut while it was mapped")
    return f"{hits} inputs cut while they were mapped, {refusals} refused as short; 0 crashes, 0 files written"
