"""--base: what changed since another model."""

import os
import struct
import subprocess
import sys
import unittest

import harness
from harness import INPUT, USAGE

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
READER = os.path.join(os.path.dirname(__file__), "..", "golden", "gbz_reader.py")


def moved(tensors, names, scale):
    """The same model with some tensors moved a little."""
    result = dict(tensors)
    for name in names:
        dtype, shape, raw = tensors[name]
        count = len(raw) // 4
        change = struct.unpack(f"<{count}f", harness.floats(count, seed=7, scale=scale))
        values = struct.unpack(f"<{count}f", raw)
        result[name] = (dtype, shape, struct.pack(f"<{count}f", *(v + c for v, c in zip(values, change))))
    return result


class Deltas(harness.CliTest):
    def setUp(self):
        super().setUp()
        first = harness.mlp((64, 48, 40, 10))
        self.first = self.write("first.safetensors", harness.safetensors(first))
        self.next = self.write("next.safetensors",
                               harness.safetensors(moved(first, ("0.weight", "2.weight"), scale=0.001)))
        self.delta = self.path("delta.gbz")

    def compress(self, *more):
        return self.succeed("compress", self.next, "--base", self.first, "--max-error", "0.001", "-o", self.delta,
                            "--force", "-q", *more)

    def test_half_the_bytes_at_equal_error(self):
        delta = self.compress("--json").json
        whole = self.succeed("compress", self.next, "--max-error", "0.001", "-o", self.path("whole.gbz"), "-q",
                             "--json").json
        self.assertLess(delta["output_bytes"], whole["output_bytes"] / 2)
        stored = {t["name"]: (t["stored"], t["error"]) for t in delta["tensors"]}
        self.assertEqual(stored["4.weight"], ("as in the base", 0))
        self.assertEqual(stored["2.weight"][0], "base and integers")
        self.assertLessEqual(max(error for _, error in stored.values()), 0.001)

    def test_expanded_with_its_base_alone(self):
        self.compress()
        out = self.path("out.safetensors")
        self.succeed("expand", self.delta, "--base", self.first, "-o", out)
        found = self.succeed("compare", self.next, out, "--json").json
        self.assertLess(max(t["error"] for t in found["tensors"]), 0.001)
        if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode == 0:
            subprocess.run([sys.executable, "-B", READER, self.delta, "--base", self.first, "--compare", out], check=True)
        digest = self.succeed("inspect", self.delta, "--json").json["base"]
        self.assertRegex(digest, "^[0-9a-f]{64}$")

        again = self.path("again.safetensors")
        self.refused(USAGE, "name that one: --base FILE", "expand", self.delta, "-o", again)
        self.refused(USAGE, "another base .* is not " + digest, "expand", self.delta, "--base", self.next, "-o", again)
        self.refused(INPUT, "does not exist", "expand", self.delta, "--base", self.path("none"), "-o", again)
        self.refused(USAGE, "is a delta itself", "compress", self.next, "--base", self.delta, "-o", self.path("b.gbz"))

    @unittest.skipIf(PORTABLE, "makes a model with LibTorch")
    def test_a_base_for_what_is_no_delta(self):
        self.refused(USAGE, "no delta", "expand", self.compressed(), "--base", self.first, "-o", self.path("again.safetensors"))

    @unittest.skipIf(PORTABLE, "plugins need LibTorch")
    def test_expanded_beside_a_plugin(self):
        self.compress()
        plugin = self.succeed("plugins", "--json").json["loaded"][0]["file"]
        plain, beside = self.path("plain.safetensors"), self.path("beside.safetensors")
        self.succeed("expand", self.delta, "--base", self.first, "-o", plain)
        self.succeed("expand", self.delta, "--base", self.first, "--plugin", plugin, "-o", beside)
        with open(plain, "rb") as a, open(beside, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.refused(USAGE, "name that one: --base FILE", "expand", self.delta, "--plugin", plugin, "-o",
                     self.path("again.safetensors"))

    def test_the_base_may_be_a_gbz(self):
        base = self.path("base.gbz")
        self.succeed("compress", self.first, "--max-error", "0.001", "-o", base, "-q")
        self.succeed("compress", self.next, "--base", base, "--max-error", "0.001", "-o", self.delta, "-q")
        expanded = self.path("base.safetensors")
        self.succeed("expand", base, "-o", expanded)
        for name in base, expanded:
            self.succeed("expand", self.delta, "--base", name, "-o", self.path("out.safetensors"), "--force")

    def test_what_is_no_base(self):
        other = self.model("other.safetensors", (64, 32, 10))
        self.refused(INPUT, "another type or shape in the base", "compress", self.next, "--base", other, "-o", self.delta)
        self.refused(USAGE, "--base is for weights alone", "compress", self.next, "--base", self.first, "--arch", "mlp",
                     "--data", "digits", "-o", self.delta)


harness.main()
