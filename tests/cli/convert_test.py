"""samples/08_reproduce/convert.py on files of the layouts that people download, made here."""

import csv
import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

missing = [name for name in ("numpy", "safetensors") if importlib.util.find_spec(name) is None]
if missing:
    print(f"skipped: this Python lacks {', '.join(missing)}; scripts/setup --tests installs them")
    sys.exit(77)
import numpy as np
from safetensors.numpy import load_file

CONVERT = Path(__file__).resolve().parents[2] / "samples/08_reproduce/convert.py"


class Convert(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def run_it(self, kind, *more):
        out = self.folder / "out.safetensors"
        return out, subprocess.run([sys.executable, "-B", CONVERT, kind, self.folder, "-o", out, *more], capture_output=True, text=True)

    def converted(self, kind, *more):
        out, done = self.run_it(kind, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return load_file(out)

    def refused(self, kind, *words):
        (self.folder / "out.safetensors").unlink(missing_ok=True)
        out, done = self.run_it(kind)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(out.exists())

    def expect_images(self, got, train, labels, test, test_labels):
        """Every training image once, beside its label; mean 0 and deviation 1 a channel."""
        self.assertEqual(got["inputs"].dtype, np.float16)
        mean = train.mean(axis=(0, 2, 3), keepdims=True)
        deviation = train.std(axis=(0, 2, 3), keepdims=True)
        order = [int(np.argmin(np.abs((train - mean) / deviation - image).sum(axis=(1, 2, 3)))) for image in got["inputs"].astype(np.float64)]
        self.assertEqual(sorted(order), list(range(len(train))))
        self.assertEqual(got["targets"].tolist(), labels[order].tolist())
        np.testing.assert_allclose(got["test_inputs"].astype(np.float64), (test - mean) / deviation, atol=4e-3)
        self.assertEqual(got["test_targets"].tolist(), test_labels.tolist())

    def test_cifar100(self):
        draw = np.random.default_rng(1)
        parts = {}
        for name, rows in (("train", 6), ("test", 4)):
            images, labels = draw.integers(0, 256, (rows, 3, 32, 32), np.uint8), draw.integers(0, 100, rows, np.uint8)
            records = np.concatenate([np.full((rows, 1), 7, np.uint8), labels[:, None], images.reshape(rows, -1)], axis=1)
            records.tofile(self.folder / f"{name}.bin")
            parts[name] = images.astype(np.float64), labels
        self.expect_images(self.converted("cifar100"), *parts["train"], *parts["test"])
        (self.folder / "test.bin").write_bytes(b"x" * 3073)
        self.refused("cifar100", "test.bin", "3073 bytes")
        (self.folder / "test.bin").unlink()
        self.refused("cifar100", "test.bin", "does not exist")

    def test_imagenet32(self):
        draw = np.random.default_rng(2)
        images, labels = draw.integers(0, 256, (7, 3072), np.uint8), draw.integers(1, 1001, 7)
        for number, rows in ((1, slice(0, 3)), (2, slice(3, 5))):
            np.savez(self.folder / f"train_data_batch_{number}.npz", data=images[rows], labels=labels[rows])
        np.savez(self.folder / "val_data.npz", data=images[5:], labels=labels[5:])
        pixels = images.reshape(-1, 3, 32, 32).astype(np.float64)
        self.expect_images(self.converted("imagenet32"), pixels[:5], labels[:5] - 1, pixels[5:], labels[5:] - 1)
        (self.folder / "val_data.npz").unlink()
        self.refused("imagenet32", "npz")

    def test_tiny_imagenet(self):
        if importlib.util.find_spec("PIL") is None:
            self.skipTest("Pillow is not installed; scripts/setup --tests installs it")
        from PIL import Image

        (self.folder / "wnids.txt").write_text("n02\nn01\n")
        for number, name in enumerate(("n02", "n01")):
            images = self.folder / "train" / name / "images"
            images.mkdir(parents=True)
            for shade in range(2):
                Image.new("RGB", (64, 64), (40 + 100 * number, 90 * shade, 30)).save(images / f"{name}_{shade}.JPEG", quality=100)
        (self.folder / "val/images").mkdir(parents=True)
        Image.new("RGB", (64, 64), (140, 90, 30)).save(self.folder / "val/images/val_0.JPEG", quality=100)
        (self.folder / "val/val_annotations.txt").write_text("val_0.JPEG\tn01\t0\t0\t62\t62\n")
        got = self.converted("tiny-imagenet")
        self.assertEqual(got["inputs"].shape, (4, 3, 32, 32))
        self.assertEqual(sorted(got["targets"].tolist()), [0, 0, 1, 1])
        self.assertEqual(got["test_targets"].tolist(), [1])
        red = got["inputs"][:, 0].reshape(4, -1).mean(axis=1).astype(np.float64)
        np.testing.assert_allclose(np.sort(red), [-1, -1, 1, 1], atol=0.1)
        self.assertTrue(((red > 0) == (got["targets"] == 1)).all(), "the second class has more red")
        Image.new("RGB", (32, 32)).save(self.folder / "val/images/val_0.JPEG")
        self.refused("tiny-imagenet", "val_0.JPEG", "32 x 32")

    def table(self, name, rows):
        with open(self.folder / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)

    def test_texts_of_tables(self):
        for kind, most in (("ag-news", 4), ("dbpedia", 14)):
            self.table("train.csv", [(1, "b a", 'a "c"\nb'), (most, "a", "d")])
            self.table("test.csv", [(2, "unseen a", "")])
            got = self.converted(kind, "--length", "5")
            # a three times, " and b twice, c and d once; ties in alphabetical order.
            a, quote, b, c, d = 2, 3, 4, 5, 6
            rows = {tuple(row): label for row, label in zip(got["inputs"].tolist(), got["targets"].tolist())}
            self.assertEqual(rows, {(b, a, a, quote, c): 0, (a, d, 0, 0, 0): most - 1})
            self.assertEqual(got["test_inputs"].tolist(), [[1, a, 0, 0, 0]])
            self.assertEqual(got["test_targets"].tolist(), [1])
        few = self.converted("dbpedia", "--length", "5", "--vocabulary", "3")
        self.assertEqual(int(few["inputs"].max()), 2, "padding, unknown and one word")
        self.table("test.csv", [("first", "x")])
        self.refused("dbpedia", "test.csv, line 1")
        self.table("test.csv", [(15, "x")])
        self.refused("dbpedia", "label", "13")

    def test_reviews(self):
        for part in ("train", "test"):
            for kind, text in (("pos", "good<br />film"), ("neg", "bad film")):
                (self.folder / part / kind).mkdir(parents=True, exist_ok=True)
                (self.folder / part / kind / "0_9.txt").write_text(text)
        got = self.converted("imdb", "--length", "4")
        film, bad, good = 2, 3, 4
        self.assertEqual(got["test_inputs"].tolist(), [[bad, film, 0, 0], [good, film, 0, 0]])
        self.assertEqual(got["test_targets"].tolist(), [0, 1])
        self.assertEqual(sorted(got["targets"].tolist()), [0, 1])


if __name__ == "__main__":
    unittest.main()
