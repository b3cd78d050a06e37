"""Several ranks on a device that the host may not touch: the bits of one rank on it."""

import json
import os
import unittest

from program import GIVEN, ProgramTest, labelled

#: With GBC_DEVICE a real one: tests/cuda/on_device.
REAL = os.environ.get("GBC_DEVICE")
DEVICE = ["--device", REAL] if REAL else ["--plugin", os.environ["GBC_FAKE_DEVICE"], "--device", "fake"]


class Devices(ProgramTest):
    def same_bits(self, *arguments, world=2, **more):
        files = {count: self.file(count, str(count), *DEVICE, "--force", *arguments, **more) for count in (1, world)}
        if not REAL:  # a GPU's sums may have another order each time
            self.assertEqual(files[1], files[world])

    def test_backpropagation_in_shards(self):
        # Shards add up gradients and buffers, whatever the number of ranks; a given model is on the device as well.
        self.same_bits("--deterministic", net=(GIVEN, "digits"), mode="quantized", epochs=1)
        self.same_bits("--deterministic", mode="generated", epochs=1, world=3)

    def test_averaged_gradients(self):
        """Sums of two parts are not those of the whole: what the file scores is near."""
        scores = []
        for world in (1, 2):
            job, _ = self.start(world, f"{world}.gbz", *DEVICE, "--json", epochs=6)
            self.assertEqual(job.statuses, [0] * world, job.text())
            scores.append(json.loads(job.ranks[0].out)["metric"]["after"])
        self.assertGreater(scores[0], 30, "a net that has learned nothing answers 10 %")
        self.assertAlmostEqual(scores[0], scores[1], delta=3)

    def test_dtp(self):
        for options in ("K=3,2 shards=4", "K=3,2"):
            with self.subTest(options=options):
                self.same_bits("--strategy", "dtp", "--set", "strategy.options=" + options)

    def test_al(self):
        data = os.path.join(self.folder, "data.safetensors")
        with open(data, "wb") as file:
            file.write(labelled((3, 32, 32), rows=64))
        al = ("--strategy", "al", "--set", "train.batch=16", "--set")
        for net in (("mlp:64-48-32-10", "digits"), ("exits:simple-vgg:2", "tensors:" + data)):
            for mode in ("exact", "generated"):
                with self.subTest(net=net[0], mode=mode):
                    self.same_bits(*al, "strategy.options=pipeline=1 exits=4", net=net, mode=mode, epochs=3, world=3)

    def test_a_run_is_taken_up_by_one_rank(self):
        al = ("--strategy", "al", "--set", "strategy.options=pipeline=1")
        whole = self.file(1, "whole", *DEVICE, *al)
        folder = os.path.join(self.folder, "kept")
        files = [self.file(2, "saved", *DEVICE, *al, "--checkpoint", folder, "--set", "checkpoint.every_steps=20"),
                 self.file(1, "resumed", *DEVICE, *al, "--resume", folder)]  # fmt: skip
        if not REAL:
            self.assertEqual(files, [whole, whole])

    @unittest.skipIf(REAL, "this machine has what is refused")
    def test_no_gpu(self):
        job, path = self.start(2, "out.gbz", "--device", "cuda")
        self.assertEqual(job.statuses, [2, 2], job.text())
        for rank in job.ranks:
            self.assertRegex(rank.err, r"`?-?-?device`? cuda: .*GPU.*--device cpu")
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
