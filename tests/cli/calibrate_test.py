"""--data D --epochs 0: what samples say of a model that nothing trains."""

import os
import random
import re
import struct

import harness
from harness import INPUT, USAGE


def data(rows, width, targets=None, poison=None):
    """A file of inputs, and of targets where they are given."""
    raw = harness.floats(rows * width, seed=5, scale=1.0)
    if poison is not None:
        for row in range(0, rows, 5):
            at = 4 * width * row
            raw = raw[:at] + struct.pack("<f", poison) + raw[at + 4:]
    tensors = {"inputs": ("F32", [rows, width], raw)}
    if targets:
        draw = random.Random(1)
        tensors["targets"] = ("I32", [rows], struct.pack(f"<{rows}i", *(draw.randrange(targets) for _ in range(rows))))
    return harness.safetensors(tensors)


def times(path, factor):
    """A file of float32 tensors, each value so many times as large."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    count = (len(content) - start) // 4
    values = struct.unpack(f"<{count}f", content[start:])
    return content[:start] + struct.pack(f"<{count}f", *(factor * value for value in values))


class DryRuns(harness.CliTest):
    def check(self, *arguments):
        """Memory within a factor of two of the run's. Time depends on the machine's load: of the processor time, the
        order of magnitude."""
        plan = self.succeed(*arguments, "--dry-run", "--json", "-q").json
        before = os.times().children_user
        run = self.succeed(*arguments, "-o", self.path("x.gbz"), "--force", "--json", "-q").json
        seconds = os.times().children_user - before
        for expected, actual, factor in ((plan["memory_bytes"], run["peak_memory_bytes"], 2),
                                         (60 * plan["minutes"], seconds, 10)):
            self.assertLess(expected, factor * actual, (plan, seconds))
            self.assertGreater(expected, actual / factor, (plan, seconds))

    def test_of_a_calibrated_run(self):
        model = self.model("net.safetensors", (64, 300, 200, 10))
        self.check("compress", model, "--arch", "mlp", "--data", "digits", "--epochs", "0", "--ratio", "12")

    def test_of_a_trained_run(self):
        model = self.model("net.safetensors", (64, 300, 200, 10))
        self.check("compress", model, "--arch", "mlp", "--data", "digits", "--epochs", "12", "--set", "rate.lambda=1")


class Recurrent(harness.CliTest):
    def test_joint_moments_are_compared_with_the_other_rules(self):
        """Both weights of an LSTM are rounded as one; the best file on the held-out split is kept."""
        draw = random.Random(4)
        words = [[draw.randrange(30) for _ in range(12)] for _ in range(400)]
        tokens = struct.pack("<4800i", *(word for each in words for word in each))
        labels = struct.pack("<400q", *(sum(word < 10 for word in each) // 3 % 3 for each in words))
        self.write("texts.safetensors", harness.safetensors({"inputs": ("I32", [400, 12], tokens), "targets": ("I64", [400], labels)}))
        data = ("--arch", "lstm-classifier:30-64-2-3", "--data", "tensors:" + self.path("texts.safetensors"))
        self.succeed("compress", "--from-scratch", *data, "--mode", "exact", "--epochs", "1", "-o", self.path("net.gbz"))
        self.succeed("expand", self.path("net.gbz"), "-o", self.path("net.safetensors"))
        self.write("net.safetensors", times(self.path("net.safetensors"), 16))
        result = self.succeed("compress", self.path("net.safetensors"), *data, "--epochs", "0", "--ratio", "16", "-v", "--json", "-o",
                              self.path("c.gbz"))  # fmt: skip
        tried = [(float(loss), rule, int(size)) for rule, size, loss in
                 re.findall(r"(?m)^gbcompress: (.*): (\d+) bytes, KL divergence (\S+) nats on the held-out split$", result.err)]  # fmt: skip
        feedback = [each for each in tried if "error feedback" in each[1]]
        self.assertGreater(len(feedback), 4, result.err)
        losses = {rule: loss for loss, rule, _ in tried}
        sizes = {rule: size for _, rule, size in tried}
        chosen = result.json["allocation"].split(", ", 1)[1]
        self.assertEqual(losses[chosen], min(losses.values()), tried)
        self.assertEqual(os.path.getsize(self.path("c.gbz")), sizes[chosen])
        self.assertEqual(result.json["output_bytes"], sizes[chosen])
        other = self.succeed("eval", self.path("c.gbz"), *data, "--json").json
        self.assertEqual(other["metric"]["value"], result.json["metric"]["after"])


class Calibrated(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.net = self.model("net.safetensors", (24, 48, 12))
        self.out = self.path("net.gbz")

    def arguments(self, name, content, kind="features", size=1600):
        return ["compress", self.net, "--arch", "mlp", "--data", f"{kind}:{self.write(name, content)}", "--epochs", "0",
                "--max-bytes", str(size), "-o", self.out, "--force", "-q"]

    def test_outputs_stay_where_there_are_inputs_alone(self):
        words = self.arguments("x.safetensors", data(600, 24))
        found = self.succeed(*words, "--json").json
        self.assertEqual(found["metric"]["name"], "output_error")
        self.assertEqual(found["metric"]["before"], 0)
        self.assertLess(found["metric"]["after"], 0.02)
        self.assertLessEqual(found["output_bytes"], 1600)
        self.succeed("compress", self.net, "--max-bytes", "1600", "-o", self.path("blind.gbz"), "-q")
        of = ["--data", words[5], "--json"]
        measured = [self.succeed("eval", file, "--model", self.net, "--arch", "mlp", *of).json["metric"]["value"]
                    for file in (self.out, self.path("blind.gbz"))]
        self.assertAlmostEqual(measured[0], found["metric"]["after"], places=6)
        self.assertLess(measured[0], measured[1], "samples should tell more than weights alone")
        compared = self.succeed("compare", self.net, self.out, "--arch", "mlp", *of).json
        self.assertEqual(compared["outputs"]["metric"]["a"], 0)
        self.assertAlmostEqual(compared["outputs"]["metric"]["b"], measured[0], places=6)
        self.refused(USAGE, "give it with --model FILE", "eval", self.out, *of[:2])

    def test_the_class_of_the_original_counts_where_outputs_are_scores(self):
        found = self.succeed(*self.arguments("x.safetensors", data(600, 24), kind="tensors"), "--json").json
        self.assertEqual(found["metric"]["name"], "accuracy_percent")
        self.assertEqual(found["metric"]["before"], 100)
        self.assertGreater(found["metric"]["after"], 80)

    def test_inputs_that_are_always_zero_and_rows_that_repeat(self):
        for raw in (bytes(4 * 600 * 24), harness.floats(24, seed=3) * 600):
            content = harness.safetensors({"inputs": ("F32", [600, 24], raw)})
            self.succeed(*self.arguments("zero.safetensors", content))

    def test_data_that_cannot_tell(self):
        self.refused(USAGE, "at least 24 training samples, and these data have 18", *self.arguments("few", data(20, 24)))
        self.refused(USAGE, "takes inputs alone", *self.arguments("labels", data(99, 24, targets=12)))
        self.refused(INPUT, "hold NaN or infinity; leave such rows out",
                     *self.arguments("nan", data(99, 24, poison=float("nan"))))
        weights = self.arguments("inputs", data(99, 24))
        del weights[2:4]  # --arch
        self.refused(USAGE, r"gbcompress\.calibrate\(model, batches, FILE\)", *weights)
        self.refused(INPUT, "are not finite", *self.arguments("huge", data(99, 24, poison=3e38)))


harness.main()
