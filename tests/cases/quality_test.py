"""Public ONNX models without data lose no more than their records say.

The models, their inputs and the scorer are those of ../shared; the records onnx-data-free-* hold errors of the outputs and
bytes. What makes files better passes; then take the records again, so that the next change is measured from there."""

import json
import os
import subprocess
import sys

from cases import ROOT, harness, needs

SHARED = os.path.join(os.path.dirname(ROOT), "shared")
MODELS = os.path.join(SHARED, "data", "onnx", "models")
SCORER = os.path.join(SHARED, "reference", "onnx", "score_onnx.py")
RATIOS = (8, 12)
# Squared errors differ by some percent between processors, since rounding decides among equal bits.
MOST_ERROR, MOST_BYTES = 1.2, 1.01


def recorded(name):
    """{"12x: file": 19083, "12x: error of logits": 0.27, ...}"""
    with open(os.path.join(ROOT, "docs", "results", "records", f"onnx-data-free-{name}.json"), encoding="utf-8") as file:
        return {figure["name"]: figure["value"] for figure in json.load(file)["figures"]}


@needs("numpy", "onnxruntime", "PIL")
class Quality(harness.CliTest):
    def held(self, name, path):
        original = os.path.join(MODELS, path)
        if not os.path.exists(original) or not os.path.exists(SCORER):
            self.skipTest(f"{MODELS} or {SCORER} is absent")
        known = recorded(name)
        sizes, expanded = {}, []
        for ratio in RATIOS:
            small, back = self.path(f"{ratio}.gbz"), self.path(f"{ratio}.onnx")
            self.succeed("compress", original, "--ratio", str(ratio), "-o", small)
            self.succeed("expand", small, "-o", back)
            sizes[ratio] = os.path.getsize(small)
            expanded.append(back)
        done = subprocess.run([sys.executable, "-B", SCORER, original, *expanded, "--json"], capture_output=True, text=True,
                              timeout=harness.TIMEOUT)
        if done.returncode and "ModuleNotFoundError" in done.stderr:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), len(RATIOS))
        for ratio, line in zip(RATIOS, lines):
            self.assertLessEqual(sizes[ratio], MOST_BYTES * known[f"{ratio}x: file"], f"{name}, {ratio}x")
            for output, error in line["error"].items():
                self.assertLessEqual(error, MOST_ERROR * known[f"{ratio}x: error of {output}"], f"{name}, {ratio}x, {output}")

    def test_basic_pitch(self):
        self.held("basic-pitch", "basic-pitch/nmp.onnx")

    def test_magika(self):
        self.held("magika", "magika-v3_3/model.onnx")

    def test_mnist(self):
        self.held("mnist", "mnist/mnist.onnx")

    def test_silero(self):
        self.held("silero", "silero/silero_vad.onnx")

    @needs("onnxruntime_extensions")  # the model decodes and encodes images
    def test_superres(self):
        self.held("superres", "superres/superres_prepost_op18.onnx")

    def test_ultraface(self):
        self.held("ultraface", "ultraface/version-RFB-320.onnx")


if __name__ == "__main__":
    harness.main()
