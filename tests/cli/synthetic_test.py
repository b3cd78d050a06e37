"""--data synthetic: inputs made from batch norms calibrate a model; what is refused."""

import random
import struct
import unittest

import harness
from harness import USAGE


def images(rows, seed):
    draw = random.Random(seed)
    labels = [draw.randrange(2) for _ in range(rows)]
    pixels = b"".join(struct.pack("<3072f", *(draw.gauss(label - 0.5, 1) for _ in range(3072))) for label in labels)
    return ("F32", [rows, 3, 32, 32], pixels), ("I64", [rows], struct.pack(f"<{rows}q", *labels))


class Synthetic(harness.CliTest):
    def setUp(self):
        super().setUp()
        (a, b), (c, d) = images(64, 3), images(32, 4)
        self.write("images.safetensors", harness.safetensors({"inputs": a, "targets": b, "test_inputs": c, "test_targets": d}))
        self.data = "tensors:" + self.path("images.safetensors")
        self.succeed("compress", "--from-scratch", "--arch", "resnet20:2", "--data", self.data, "--mode", "exact", "--epochs", "15", "--set",
                     "train.batch=8",
                     "-o", self.path("net.gbz"))  # fmt: skip
        self.succeed("expand", self.path("net.gbz"), "-o", self.path("net.safetensors"))

    def output_error(self, name):
        """Against the original, on images."""
        (inputs, _) = images(32, 5)
        self.write("inputs.safetensors", harness.safetensors({"inputs": inputs}))
        result = self.succeed("eval", self.path(name), "--arch", "resnet20:2", "--model", self.path("net.safetensors"), "--data",
                              "features:" + self.path("inputs.safetensors"), "--json")  # fmt: skip
        return result.json["metric"]["value"]

    def test_calibrates_without_data(self):
        with self.subTest("files"):
            self.files()
        with self.subTest("refusals"):
            self.refusals()

    def files(self):
        net = (self.path("net.safetensors"), "--arch", "resnet20:2", "--ratio", "12", "-o")
        report = self.succeed("compress", *net, self.path("made.gbz"), "--data", "synthetic", "--json")
        self.assertEqual(report.json["method"], "calibrated")
        self.assertIn("synthetic inputs", report.err)
        again = self.succeed("compress", *net, self.path("again.gbz"), "--data", "synthetic:3x32x32", "--json").json
        self.assertEqual(report.json["identity"], again["identity"], "the shape is that of the architecture")
        usual = self.succeed("compress", *net[:-3], "-o", self.path("usual.gbz"), "--data", "synthetic", "--dry-run", "--json").json
        self.assertEqual(usual["expected_bytes"][1], report.json["input_bytes"] // 10, "a tenth, as without data")
        self.succeed("compress", *net, self.path("free.gbz"))
        self.assertLess(self.output_error("made.gbz"), self.output_error("free.gbz"))

    def refusals(self):
        net = (self.path("net.safetensors"), "--arch", "resnet20:2", "--data", "synthetic", "-o", self.path("out.gbz"), "--ratio", "12")
        self.refused(USAGE, "--epochs contradicts --data synthetic", "compress", *net, "--epochs", "3")
        self.refused(USAGE, "--effort contradicts --data synthetic", "compress", *net, "--effort", "max")
        self.refused(USAGE, "mode is generated", "compress", *net, "--mode", "generated")
        wrong = [word if word != "synthetic" else "synthetic:3xx" for word in net]
        self.refused(USAGE, "synthetic:3x224x224", "compress", *wrong)
        wrong = [word if word != "synthetic" else "synthetic:5x32x32" for word in net]
        self.assertNotEqual(self.run_cli("compress", *wrong).status, 0)
        self.refused(USAGE, "compress alone", "eval", self.path("net.gbz"), "--data", "synthetic")
        model = self.model()
        self.refused(USAGE, "no batch norm", "compress", model, "--arch", "mlp", "--data", "synthetic", "--ratio", "4", "-o", self.path("out.gbz"))


if __name__ == "__main__":
    unittest.main()
