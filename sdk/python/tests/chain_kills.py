"""Kills writers of a chain and counts what they lost.

    chain_kills.py FOLDER [KILLS] [SEED]

Each writer appends steps and prunes, says over a pipe which steps were written, and is killed with SIGKILL some
steps later, at a random moment of a write or a prune. After each kill every step of the chain is loaded and
compared bit for bit. Prints one JSON object: kills, steps that writers said, and "lost", the steps that were said
or listed and are missing or differ. Status 1 where anything was lost.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

import numpy as np

import gbcompress as gbc

KEPT, PRUNED_EVERY = 3, 7


def tensors_of(step: int) -> dict[str, np.ndarray]:
    values = np.full((64, 64), np.float32(1)) + np.arange(64, dtype=np.float32) * np.float32(1e-6) * step
    return {"w": values, "step": np.array(step)}


def write(folder: str, said: int) -> None:
    chain = gbc.Chain(folder)
    steps = chain.steps()
    step = steps[-1] + 1 if steps else 0
    while True:
        chain.append(tensors_of(step), step=step)
        os.write(said, step.to_bytes(8, "little"))
        if step % PRUNED_EVERY == PRUNED_EVERY - 1:
            chain.prune(keep=KEPT)
        step += 1


def kill_once(folder: str, draw: random.Random) -> list[int]:
    """The steps that a writer said were written before it was killed."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        try:
            write(folder, said)
        finally:
            os._exit(3)
    os.close(said)
    with os.fdopen(heard, "rb") as pipe:
        start = time.monotonic()
        words = [pipe.read(8) for _ in range(draw.randrange(1, 2 * PRUNED_EVERY))]
        a_step = (time.monotonic() - start) / len(words)
        time.sleep(draw.uniform(0, 2 * a_step))
        os.kill(child, signal.SIGKILL)
        data = b"".join(words) + pipe.read()
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("a writer ended by itself; see its message above")
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def lost_steps(folder: str, last: int) -> int:
    """Steps that are listed and do not load, or were said and are gone although prune() keeps them."""
    chain = gbc.Chain(folder)
    steps = chain.steps()
    lost = len(set(range(max(0, last - KEPT + 1), last + 1)) - set(steps))
    for step in steps:
        try:
            found, expected = chain.load(step), tensors_of(step)
            lost += any(found[name].tobytes() != expected[name].tobytes() for name in expected)
        except gbc.GbzError as error:
            print(f"step {step}: {error}", file=sys.stderr)
            lost += 1
    return lost


def main() -> int:
    folder, kills, seed = sys.argv[1], int((sys.argv[2:] or ["24"])[0]), int((sys.argv[3:] or ["5"])[0])
    draw, last, said, lost = random.Random(seed), -1, 0, 0
    for _ in range(kills):
        steps = kill_once(folder, draw)
        last, said = max([last, *steps]), said + len(steps)
        lost += lost_steps(folder, last)
    print(json.dumps({"kills": kills, "steps": said, "lost": lost}))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
