"""Runs the real executable on inputs made here. Standard library only."""

import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

EXECUTABLE = os.environ["GBCOMPRESS"]
FIXTURES = os.environ.get("GBCOMPRESS_FIXTURES", "")
PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"  # built without LibTorch
TIMEOUT = 240  # seconds; none of these commands comes near

DONE, FAILED, USAGE, INPUT, TARGET, PLUGIN = range(6)
# Of two processes the first; nobody listens.
RANK_0 = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
# G-nets, a little trained; run_cli() lets them be fitted a little beside it.
QUICK = ("--set", "weights.mode=generated", "--set", "train.epochs=1")


def fit_steps(count):
    """Environment of a call that fits g-nets in so many steps."""
    return {"GBCOMPRESS_FIT_STEPS": str(count)}


FEW_STEPS = fit_steps(20)


def safetensors(tensors, header=None, length=None):
    """Bytes of a file: {name: (dtype, shape, bytes)}; `header` or `length` replace the true ones."""
    entries, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = (json.dumps(entries) if header is None else header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def floats(count, seed=0, scale=0.1):
    draw = random.Random(seed)
    return struct.pack(f"<{count}f", *(draw.gauss(0, scale) for _ in range(count)))


def mlp(widths, poison=None):
    """A multilayer perceptron under the names that torch.nn.Sequential gives it."""
    tensors = {}
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        weight = floats(inputs * outputs, seed=i)
        if poison is not None and i == 0:
            weight = struct.pack("<f", poison) + weight[4:]
        tensors[f"{2 * i}.weight"] = ("F32", [outputs, inputs], weight)
        tensors[f"{2 * i}.bias"] = ("F32", [outputs], floats(outputs, seed=100 + i))
    return tensors


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def clean_environment(extra=None):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GBCOMPRESS")}
    kept["XDG_DATA_HOME"] = "/nonexistent"
    kept.update(extra or {})
    return kept


def numbered_folder(prefix):
    """A new folder for temporary files. Its name has digits where mkdtemp() has letters, which a test that searches
    the output for a word finds in a path by chance ("nan" in 1 of 10,000 names)."""
    for number in itertools.count():
        folder = os.path.join(tempfile.gettempdir(), f"{prefix}{os.getpid()}-{number}")
        try:
            os.mkdir(folder, 0o700)
            return folder
        except FileExistsError:
            continue


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = numbered_folder("gbc-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def read(self, name):
        """Of the test's folder, or anywhere where `name` is absolute."""
        with open(self.path(name), "rb") as file:
            return file.read()

    def model(self, name="model.safetensors", widths=(64, 32, 10), **more):
        return self.write(name, safetensors(mlp(widths, **more)))

    def run_cli(self, *arguments, environment=None, **more):
        if QUICK[1] in arguments:
            environment = {**FEW_STEPS, **(environment or {})}
        more.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([EXECUTABLE, *arguments], capture_output=True, text=True, timeout=TIMEOUT,
                              cwd=self.folder, env=clean_environment(environment), **more)
        return Result(done.returncode, done.stdout, done.stderr)

    def succeed(self, *arguments, **more):
        result = self.run_cli(*arguments, **more)
        self.assertEqual(result.status, DONE, result)
        return result

    def refused(self, status, pattern, *arguments, **more):
        """Asserts the status, one message that matches, empty stdout, and no file made or changed."""
        before = self.snapshot()
        result = self.run_cli(*arguments, **more)
        self.assertEqual(result.status, status, result)
        self.one_message(result, pattern)
        self.assertEqual(result.out, "", result)
        self.assertEqual(self.snapshot(), before, result)
        return result

    def one_message(self, result, pattern):
        """Exactly one message, which may list names on indented lines of its own."""
        messages = [line for line in result.err.splitlines() if line.startswith("gbcompress: ")]
        self.assertEqual(len(messages), 1, result)
        self.assertRegex(result.err, pattern)
        for trace in ("terminate called", "Exception raised from", "frame #", "what():", "\x1b"):
            self.assertNotIn(trace, result.err)

    def snapshot(self):
        state = {}
        for root, folders, files in os.walk(self.folder):
            for name in folders + files:
                info = os.lstat(os.path.join(root, name))
                state[os.path.relpath(os.path.join(root, name), self.folder)] = (
                    info.st_mode, info.st_size if name in files else 0, info.st_mtime_ns if name in files else 0)
        return state

    def compressed(self, name="model.gbz", widths=(64, 32, 10), *more):
        model = self.model("of-" + name + ".safetensors", widths)
        self.succeed("compress", model, "--arch", "mlp", "-o", self.path(name), "--max-bytes", "4k", "-q", *QUICK,
                     *more)
        return self.path(name)


def main():
    assert re.match(r"3\.(9|1\d)", sys.version), "Python 3.9 or newer"
    unittest.main(verbosity=2)
