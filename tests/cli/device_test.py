"""--device: the verbs on a device that the host may not touch give the processor's results; what is refused.

The device is tests/plugin/fake_device: its memory is protected, so that an access of the host ends the process."""

import os
import random
import struct
import unittest

import harness
from harness import DONE, QUICK, TARGET, USAGE

#: The file of the device, or with GBC_DEVICE the name of a real one: tests/cuda/on_device.
DEVICE, REAL = os.environ.get("GBC_FAKE_DEVICE"), os.environ.get("GBC_DEVICE")
FAKE = ("--device", REAL) if REAL else ("--plugin", DEVICE, "--device", "fake:0")
EXACT = ("--mode", "exact", "--epochs", "1")


def images():
    """Bytes of 48 images of three channels and 16 of a test set, labeled by their brightness."""
    draw = random.Random(3)

    def part(rows):
        labels = [draw.randrange(2) for _ in range(rows)]
        pixels = b"".join(struct.pack("<3072f", *(draw.gauss(label - 0.5, 1) for _ in range(3072))) for label in labels)
        return ("F32", [rows, 3, 32, 32], pixels), ("I64", [rows], struct.pack(f"<{rows}q", *labels))

    (a, b), (c, d) = part(48), part(16)
    return harness.safetensors({"inputs": a, "targets": b, "test_inputs": c, "test_targets": d})


class Devices(harness.CliTest):
    def both(self, *command, near=0.02):
        """The same command on the processor and on the device: bytes and quality are nearly equal."""
        found = []
        for where in ((), FAKE):
            result = self.run_cli("compress", *command, "-o", self.path("out.gbz"), "--force", "--json", *where)
            self.assertIn(result.status, (DONE, TARGET), result)
            found.append(result.json)
        host, device = found
        self.assertEqual(host["method"], device["method"])
        self.assertAlmostEqual(device["output_bytes"] / host["output_bytes"], 1, delta=near)
        self.assertAlmostEqual(device["metric"]["after"], host["metric"]["after"], delta=3)
        return device

    def trained(self):
        """A file of an MLP that knows the digits."""
        self.succeed("compress", "--from-scratch", "--arch", "mlp:64-32-10", "--data", "digits", "--mode", "exact", "--epochs", "12",
                     "-o", self.path("digits.gbz"))  # fmt: skip
        self.succeed("expand", self.path("digits.gbz"), "-o", self.path("digits.safetensors"))
        return self.path("digits.safetensors"), "--arch", "mlp", "--data", "digits"

    def test_methods_of_quantization(self):
        model = self.trained()
        self.both(*model, "--ratio", "6")
        self.both(*model, "--ratio", "12", "--effort", "fast")
        self.both(*model, "--ratio", "20", "--epochs", "0")
        self.both(*model, "--set", "rate.lambda=0.2", "--epochs", "2")
        self.both(*model, "--set", "rate.lambda=0.2", "--epochs", "2", "--set", "train.loss=task")

    def test_g_nets_and_exact_values(self):
        model = self.trained()
        self.both(*model, *QUICK, "--ratio", "4")
        self.both(*model, *QUICK, "--set", "artifact.coding=coded", "--ratio", "8", near=0.1)
        self.both("--from-scratch", *model[1:2], "mlp:64-32-10", *model[3:], *EXACT)
        self.both("--from-scratch", *model[1:2], "mlp:64-32-10", *model[3:], *EXACT, "--set", "optim.plain_optimizer=sgd",
                  "--set", "optim.plain_lr=0.1")  # fmt: skip

    def test_shards(self):
        self.both(*self.trained(), "--deterministic", "--set", "rate.lambda=0.2", "--epochs", "1")

    def test_strategies(self):
        for strategy, more in (("dtp", ("--set", "strategy.options=K=2")), ("al", ()), ("al", ("--set", "strategy.options=pipeline=1"))):
            self.both("--from-scratch", "--arch", "mlp:64-32-16-10", "--data", "digits", *EXACT, "--strategy", strategy, *more)

    def test_convolutions_and_texts(self):
        self.write("images.safetensors", images())
        data = ("--data", "tensors:" + self.path("images.safetensors"))
        self.both("--from-scratch", "--arch", "simple-vgg:4", *data, *EXACT, "--set", "train.flip=true", "--set", "train.shift=2")
        self.both("--from-scratch", "--arch", "resnet18:2:plain", *data, *EXACT)
        self.both("--from-scratch", "--arch", "simple-vgg:4", *data, *EXACT, "--strategy", "dtp", "--set",
                  "strategy.options=K=1 inverse=published feedback_lr=0.001")  # fmt: skip
        self.succeed("compress", "--from-scratch", "--arch", "resnet20:2", *data, *EXACT, "-o", self.path("net.gbz"))
        self.succeed("expand", self.path("net.gbz"), "-o", self.path("net.safetensors"))
        # Batch norms are folded, corrected and calibrated.
        self.both(self.path("net.safetensors"), "--arch", "resnet20:2", *data, "--ratio", "8", "--effort", "fast")
        draw = random.Random(4)
        tokens = struct.pack("<288i", *(draw.randrange(30) for _ in range(288)))
        labels = struct.pack("<24q", *(draw.randrange(3) for _ in range(24)))
        self.write("texts.safetensors", harness.safetensors({"inputs": ("I32", [24, 12], tokens), "targets": ("I64", [24], labels)}))
        data = ("--data", "tensors:" + self.path("texts.safetensors"))
        for arch in ("bilstm-classifier:30-8-2-3", "transformer-classifier:30-8-2-3"):
            self.both("--from-scratch", "--arch", arch, *data, *EXACT)
        self.both("--from-scratch", "--arch", "lstm-classifier:30-8-2-3", *data, *EXACT, "--strategy", "al")

    def test_a_checkpoint_is_resumed(self):
        model = self.trained()
        run = ("compress", *model, "--set", "rate.lambda=0.2", "--epochs", "2", "-o", self.path("out.gbz"), "--force", "--checkpoint", self.path("kept"),
               "--set", "checkpoint.every_steps=5")  # fmt: skip
        whole = self.succeed(*run, "--json", *FAKE).json
        again = self.succeed(*run, "--json", *FAKE, "--resume", self.path("kept")).json
        self.assertEqual(whole["identity"], again["identity"])

    def test_eval_sweep_and_plan(self):
        model = self.trained()
        command = ("eval", self.path("digits.gbz"), "--data", "digits", "--json")
        self.assertEqual(self.succeed(*command).json["metric"], self.succeed(*command, *FAKE).json["metric"])
        curve = self.succeed("sweep", *model, "-o", self.path("curve"), *QUICK, "--lambdas", "1", *FAKE, "--json").json
        self.assertGreaterEqual(len(curve["points"]), 4)
        plan = self.succeed("compress", *model, "--ratio", "6", "--dry-run", "--json", *FAKE).json
        self.assertIn("plan", plan)

    def copies(self, *command):
        """Bytes copied to the device and to the host."""
        log = self.path("copies")
        self.succeed("compress", *command, "-o", self.path("out.gbz"), "--force", *FAKE, environment={"GBC_FAKE_DEVICE_LOG": log})
        counts = {line.split()[0]: int(line.split()[2]) for line in self.read("copies").decode().splitlines()}
        return counts["to_device"], counts["to_host"]

    @unittest.skipIf(REAL, "a real device does not count its copies")
    def test_what_is_copied(self):
        """Per step a batch; latents, weights and gradients stay on the device. They are looked at 100 times in a run."""
        model = self.trained()
        epochs, batches = 10, 45  # 1,437 training digits in batches of 32
        up, down = self.copies(*model, "--set", "rate.lambda=0.2", "--epochs", str(epochs))
        weights, batch = 4 * (64 * 32 + 32 + 32 * 10 + 10), 4 * 64 * 32
        steps = epochs * batches
        self.assertGreater(up, steps * batch)
        self.assertLess(up, steps * (batch + weights // 2) + 40 * batch)
        self.assertLess(down, steps * weights // 2)
        # Moments of inputs and gradients come down once for each of eight parts of the samples, weights for each attempt; layer by layer,
        # the original inputs once, and two moments of inputs and two means for each size tried.
        down = self.copies(*model, "--ratio", "20", "--epochs", "0")[1]
        moments = 4 * (64 * 64 + 2 * 32 * 32 + 10 * 10)
        inputs, in_sequence = 4 * 1437 * (64 + 32), 2 * 4 * (64 * 64 + 32 * 32 + 64 + 32)
        self.assertGreater(down, 8 * moments)
        self.assertLess(down, 8 * moments + 30 * weights + inputs + 8 * in_sequence)

    @unittest.skipIf(REAL, "a real device may let the host read")
    def test_an_access_of_the_host_ends_the_process(self):
        command = ("compress", "--from-scratch", "--arch", "host-access", "--data", "digits", *EXACT, "-o", self.path("out.gbz"), "--force",
                   "--plugin", DEVICE)  # fmt: skip
        self.succeed(*command)
        self.assertEqual(self.run_cli(*command, "--device", "fake").status, -11)

    @unittest.skipIf(REAL, "this machine has what is refused")
    def test_refusals(self):
        model = self.trained()
        out = ("-o", self.path("out.gbz"), "--ratio", "6")
        for device, pattern in (("cuda", "GPU.*--device cpu"), ("cuda:1", "GPU.*--device cpu"), ("gpu", "gpu.*cuda:N"), ("meta", "meta.*cuda:N"),
                                ("privateuseone", "no such device")):  # fmt: skip
            self.refused(USAGE, pattern, "compress", *model, *out, "--device", device)
        self.refused(USAGE, "GPU.*--device cpu", "eval", self.path("digits.gbz"), "--data", "digits", "--device", "cuda")
        result = self.succeed("compress", *model[:1], *out, "--force", "--device", "cuda")
        self.assertIn("--device has no effect", result.err)


if __name__ == "__main__":
    unittest.main()
