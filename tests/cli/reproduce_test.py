"""The published experiments of samples/08_reproduce: each file, shortened, runs to its end on data made here."""

import random
import shlex
import struct
import tomllib
import unittest
from pathlib import Path

import harness

FOLDER = Path(__file__).resolve().parents[2] / "samples/08_reproduce"
ROWS, HELD = 3, 2


def command(path):
    """Arguments of gbcompress in the comment of a file."""
    lines = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#   ")]
    words = shlex.split(lines[0])
    return words[words.index("gbcompress") + 1 :]


def data(arch):
    """Bytes of a file of images or, for a net of texts, of tokens."""
    draw = random.Random(5)
    texts = "lstm" in arch
    shape = [12] if texts else [3, 32, 32]
    count = 12 if texts else 3 * 32 * 32

    def inputs(rows):
        if texts:
            return "I32", [rows, *shape], struct.pack(f"<{rows * count}i", *(draw.randrange(30000) for _ in range(rows * count)))
        return "F32", [rows, *shape], struct.pack(f"<{rows * count}f", *(draw.gauss(0, 1) for _ in range(rows * count)))

    def targets(rows):
        return "I64", [rows], struct.pack(f"<{rows}q", *(draw.randrange(2) for _ in range(rows)))

    return harness.safetensors({"inputs": inputs(ROWS), "targets": targets(ROWS), "test_inputs": inputs(HELD), "test_targets": targets(HELD)})


#: Learning rate and weight decay of f_optim in conf/reproduce/*.yaml of amoudgl/distributed-dtp at 04faaaa.
PUBLISHED = {
    "cifar10-simple-vgg-dtp.toml": (0.08, 1e-4),
    "cifar10-simple-vgg-distributed-dtp.toml": (0.05, 1e-4),
    "imagenet32-simple-vgg-dtp.toml": (0.01, 1e-4),
    "imagenet32-simple-vgg-distributed-dtp.toml": (0.01, 1e-4),
}


class Reproduce(harness.CliTest):
    def test_rates_of_target_propagation_are_the_published_numbers(self):
        self.assertEqual(set(PUBLISHED), {path.name for path in FOLDER.glob("*-dtp.toml")})
        for name, (rate, decay) in PUBLISHED.items():
            optim = tomllib.loads((FOLDER / name).read_text())["optim"]
            self.assertEqual((optim["plain_optimizer"], optim["plain_lr"], optim["plain_weight_decay"]), ("sgd", rate, decay), name)

    def test_every_file_runs(self):
        files = sorted(FOLDER.glob("*.toml"))
        self.assertGreaterEqual(len(files), 11)
        for path in files:
            with self.subTest(path.name):
                words = command(path)
                arch, config = words[words.index("--arch") + 1], words[words.index("--config") + 1]
                self.assertEqual(config, path.name, "the command names its own file")
                self.write("data.safetensors", data(arch))
                words[words.index("--config") + 1] = str(path)
                words[words.index("--data") + 1] = "tensors:" + self.path("data.safetensors")
                words[words.index("-o") + 1] = self.path("out.gbz")
                report = self.succeed(*words, "--epochs", "1", "--force", "--json").json
                self.assertEqual(report["method"], "trained")
                self.assertGreater(report["output_bytes"], 1_000_000)
                self.assertEqual("last_exit" in report["metric"], arch.startswith("exits:"))
                if arch.startswith("exits:"):
                    last = str(arch.split("split=")[1].split(",")[0].count("+") + 1)
                    tested = self.succeed("eval", self.path("out.gbz"), "--data", words[words.index("--data") + 1], "--exit", last, "--json").json
                    self.assertEqual(tested["exits"][0]["exit"], last)


if __name__ == "__main__":
    unittest.main()
