"""Runs of the program on several ranks, for tests."""

import hashlib
import json
import os
import random
import shutil
import struct
import tempfile
import unittest

import ranks

PROGRAM = os.environ["GBCOMPRESS"]
GIVEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples/digits/mlp-64-128-64-10.safetensors")


def labelled(shape, vocabulary=0, rows=32):
    """Bytes of a file of `inputs` and `targets`: pictures, or texts where there is a vocabulary."""
    draw, each = random.Random(7), 1
    for size in shape:
        each *= size
    labels = [draw.randrange(4) for _ in range(rows)]
    if vocabulary:
        inputs = struct.pack(f"<{rows * each}q", *(draw.randrange(vocabulary) for _ in range(rows * each)))
    else:
        inputs = struct.pack(f"<{rows * each}f", *(draw.gauss(label, 1) for label in labels for _ in range(each)))
    targets = struct.pack(f"<{rows}q", *labels)
    header = json.dumps({"inputs": {"dtype": "I64" if vocabulary else "F32", "shape": [rows, *shape], "data_offsets": [0, len(inputs)]},
                         "targets": {"dtype": "I64", "shape": [rows], "data_offsets": [len(inputs), len(inputs) + len(targets)]}}).encode()
    return struct.pack("<Q", len(header)) + header + inputs + targets


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gbc_strategies_")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    # In the mode exact every bit of every weight is in the file.
    def start(self, world, name, *arguments, net=("mlp:64-48-32-10", "digits"), mode="exact", epochs=2, said=({},)):
        port = ranks.free_port()
        path = os.path.join(self.folder, name)
        model = [net[0], "--arch", "mlp"] if net[0] == GIVEN else ["--from-scratch", "--arch", net[0]]
        command = ["compress", *model, "--data", net[1], "--mode", mode, "--max-bytes", "30M",
                   "--epochs", str(epochs), "--set", "ranks.timeout=60", "-q", "-o", path, *arguments]
        environment = ranks.torchrun_environment if world > 1 else (lambda r, w, p: ranks.clean_environment())
        return self.run_program(command, [environment(r, world, port) | said[r % len(said)] for r in range(world)]), path

    def run_program(self, command, environments):
        """One process of the program for each environment -> the finished job."""
        kept, ranks.WORKER = ranks.WORKER, PROGRAM
        try:
            job = ranks.Job(0)
            job.ranks = [ranks.Rank(command, environment) for environment in environments]
        finally:
            ranks.WORKER = kept
        return job.finish()

    def file(self, world, name, *arguments, **more):
        job, path = self.start(world, name, *arguments, **more)
        self.assertEqual(job.statuses, [0] * world, job.text())
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
