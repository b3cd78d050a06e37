"""--tensorboard: event files, read by a reader of our own and, where it is installed, by TensorBoard's."""

import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

import harness
from harness import FAILED, USAGE

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
# The environment that scripts/setup --tests fills, else this Python.
VENV = os.path.join(os.path.dirname(__file__), "../../.deps/venv/bin/python")
PYTHON = VENV if os.path.exists(VENV) else sys.executable

READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = {}
for run in sys.argv[2:]:
    events = EventAccumulator(sys.argv[1] + "/" + run, size_guidance={"scalars": 0})
    events.Reload()
    found[run] = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
print(json.dumps(found))
"""


def crc32c(data):
    """By long division, a bit at a time: nothing is shared with the program's table."""
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            odd = (crc ^ (byte >> bit)) & 1
            crc = (crc >> 1) ^ (0x82F63B78 if odd else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Events of a file, its checksums verified."""
    while data:
        length, = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8]), "the length's checksum"
        event = data[12:12 + length]
        assert len(event) == length and struct.unpack("<I", data[12 + length:16 + length])[0] == masked(event)
        yield event
        data = data[16 + length:]


def fields(message):
    """(number, value) of a protocol buffer's message."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    at = 0
    while at < len(message):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if size is None else size
        yield key >> 3, message[at:at + size]
        at += size


def scalars(folder):
    """{tag: [[step, value], ...]} of the one event file there."""
    name, = os.listdir(folder)
    assert "tfevents" in name
    with open(os.path.join(folder, name), "rb") as file:
        events = [dict(fields(event)) for event in records(file.read())]
    assert events[0][3] == b"brain.Event:2", events[0]
    found = {}
    for event in events[1:]:
        value = dict(fields(dict(fields(event[5]))[1]))
        found.setdefault(value[1].decode(), []).append([event.get(2, 0), struct.unpack("<f", value[2])[0]])
    return found


class TensorBoard(harness.CliTest):
    def test_checksums_of_this_test(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_a_file_without_training_has_its_bits(self):
        found = self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--ratio", "8", "--json",
                             "--tensorboard", self.path("log"), "-q").json
        told = scalars(self.path("log/result"))
        self.assertEqual(told["bytes"], [[0, os.path.getsize(self.path("x.gbz"))]])
        for tensor in found["tensors"]:
            self.assertAlmostEqual(told["bits/" + tensor["name"]][0][1], tensor["bits"], places=4)

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_a_run_is_told_step_by_step(self):
        found = self.trained()
        self.assertEqual(sorted(os.listdir(self.path("log"))),
                         ["attempts", "result", *(f"train {i + 1}" for i in range(found["attempts"]))])
        for run in (f"train {i + 1}" for i in range(found["attempts"])):
            told = scalars(self.path("log/" + run))
            self.assertEqual(set(told), {"loss", "bits", "lambda"})
            for points in told.values():
                self.assertEqual([step for step, _ in points], list(range(1, len(told["loss"]) + 1)))
            self.assertGreater(told["loss"][0][1], told["loss"][-1][1])
        attempts = scalars(self.path("log/attempts"))
        self.assertEqual(len(attempts["bytes"]), found["attempts"])
        result = scalars(self.path("log/result"))
        self.assertAlmostEqual(result["accuracy_percent"][0][1], found["metric"]["after"], places=3)
        self.assertEqual({tag for tag in result if tag.startswith("bits/")},
                         {"bits/" + t["name"] for t in found["tensors"]})

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_attempts_have_what_they_lose_on_held_back_data(self):
        attempts = self.trained("--max-drop", "3")["attempts"]
        told = scalars(self.path("log/attempts"))
        # The first is what the others are held against.
        self.assertEqual([step for step, _ in told["held_out_drop"]], [step for step, _ in told["bytes"][1:]])
        self.assertEqual((len(told["bytes"]), len(told["lambda"])), (attempts, attempts))

    def trained(self, *target):
        return self.succeed("compress", "--from-scratch", "--arch", "mlp:64-16-10", "--data", "digits", "--epochs", "3",
                            *(target or ("--max-bytes", "700")), "-o", self.path("d.gbz"), "--json", "-q", "--tensorboard",
                            self.path("log")).json

    def read_back(self):
        """{run: {tag: points}}, which TensorBoard's own reader has to find too."""
        if subprocess.run([PYTHON, "-c", "import tensorboard"], capture_output=True).returncode:
            raise unittest.SkipTest("TensorBoard is not installed; scripts/setup --tests installs it")
        log = self.path("log")
        runs = sorted(os.path.relpath(folder, log) for folder, _, files in os.walk(log) if files)
        done = subprocess.run([PYTHON, "-c", READ, log, *runs], capture_output=True, text=True, timeout=harness.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found, {run: scalars(os.path.join(log, run)) for run in runs})
        return found

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_tensorboard_reads_the_same(self):
        self.trained()
        self.assertEqual(set(self.read_back()) & {"attempts", "result", "train 1"}, {"attempts", "result", "train 1"})

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_each_point_of_a_sweep_has_a_folder(self):
        found = self.succeed("sweep", "--from-scratch", "--arch", "mlp:64-16-10", "--data", "digits", "--epochs", "2",
                             "--lambdas", "0.3", "-o", self.path("curve"), "--json", "-q", "--tensorboard",
                             self.path("log")).json
        runs = self.read_back()
        names = {p["file"].removesuffix(".gbz") or f"{p['method']}, {p['setting']}": p for p in found["points"]}
        self.assertEqual({run for run in runs if run.endswith("/result")}, {name + "/result" for name in names})
        for name, point in names.items():
            told = runs[name + "/result"]
            self.assertEqual(told["bytes"], [[0, point["bytes"]]])
            self.assertAlmostEqual(told["accuracy_percent"][0][1], point["metric"], places=3)
            self.assertEqual(any(tag.startswith("bits/") for tag in told), bool(point["file"]))
        for name in ("dense", "lambda-0.3", "gnets-lambda-0.3"):
            self.assertIn("loss", runs[name + "/train 1"])
        self.assertEqual(set(runs["lambda-0.3/train 1"]), {"loss", "bits", "lambda"})

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_the_test_split_is_measured_while_training(self):
        """Without a change of the file, and last as the file itself is."""
        for more in (("--strategy", "backprop", "--set", "rate.lambda=0.3"), ("--strategy", "al", "--mode", "exact")):
            run = ("compress", "--from-scratch", "--arch", "mlp:64-16-16-10", "--data", "digits", "--epochs", "4", "--force", "-o",
                   self.path("m.gbz"), "--json", "--set", "train.batch=100", *more)  # fmt: skip
            with self.subTest(more):
                shutil.rmtree(self.path("log"), ignore_errors=True)
                plain = self.succeed(*run).json
                done = self.succeed(*run, "--set", "train.measure_epochs=2", "--tensorboard", self.path("log"))
                self.assertEqual(done.json["identity"], plain["identity"])
                told = scalars(self.path("log/train 1"))
                points = told["test_accuracy_percent"]
                self.assertEqual([step for step, _ in points], [30, 60], "1,437 training digits")
                self.assertEqual(len(told["loss"]), 60)
                self.assertAlmostEqual(points[-1][1], done.json["metric"]["after"], delta=0.6)
                five = told["test_top5_percent"]
                self.assertEqual([step for step, _ in five], [30, 60])
                self.assertAlmostEqual(five[-1][1], done.json["metric"]["top5_after"], delta=0.6)
                self.assertTrue(all(top1[1] < top5[1] <= 100 for top1, top5 in zip(points, five)), (points, five))
                self.assertIn("step 30: accuracy_percent ", done.err)

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_what_strategies_measure_of_themselves(self):
        rest = ("compress", "--from-scratch", "--arch", "mlp:64-16-16-10", "--data", "digits", "--mode", "exact", "--epochs",
                "1", "--max-bytes", "100k", "--force", "-o", self.path("s.gbz"), "-q", "--tensorboard", self.path("log"))
        stages = ("0", "2", "4")
        for strategy, options, tags in (
                ("dtp", "K=2 diagnose=1", {"feedback_loss", "delta", "train_accuracy_percent", "train_top5_percent",
                                           *(f"{kind}.{s}" for kind in ("cosine", "target_loss") for s in stages),
                                           *("feedback_loss." + s for s in stages[1:]),
                                           *(f"{kind}.{s}" for kind in ("angle", "distance") for s in stages[1:])}),
                ("al", "exits=1", {"train_accuracy_percent", "train_top5_percent",
                                   *(f"{kind}.{i}" for kind in ("bridge_loss", "code_loss", "exit_accuracy") for i in (1, 2))})):
            with self.subTest(strategy):
                shutil.rmtree(self.path("log"), ignore_errors=True)
                self.succeed(*rest, "--strategy", strategy, "--set", "strategy.options=" + options)
                told = self.read_back()["train 1"]
                self.assertEqual(set(told) - {"loss", "bits", "lambda"}, tags)
                for tag in tags:
                    self.assertEqual([step for step, _ in told[tag]], [step for step, _ in told["loss"]], tag)
                for top1, top5 in zip(told["train_accuracy_percent"], told["train_top5_percent"]):
                    self.assertLessEqual(top1[1], top5[1])
                if strategy == "dtp":
                    for total, *parts in zip(told["feedback_loss"], *(told["feedback_loss." + s] for s in stages[1:])):
                        self.assertAlmostEqual(total[1], sum(part[1] for part in parts), delta=1e-4 * abs(total[1]) + 1e-4)
                    # Batches of 64, the last of 29: the distance of the whole batch and the mean over its rows.
                    for delta, loss, rows in zip(told["delta"], told["target_loss.4"], [*[64] * 22, 29]):
                        self.assertAlmostEqual(delta[1] ** 2 / (2 * rows), loss[1], delta=1e-5 * loss[1])
                for tag, (low, high) in {"cosine": (-1, 1), "angle": (0, 180), "exit_accuracy": (0, 100),
                                         "train_": (0, 100)}.items():
                    seen = {value for name in tags if name.startswith(tag) for _, value in told[name]}
                    self.assertTrue(all(low - 1e-6 <= value <= high + 1e-6 for value in seen), (tag, seen))
                self.assertTrue(all(len({value for _, value in told[tag]}) > 1 for tag in tags if tag != "cosine.4"), told)

    def test_places_that_cannot_be_written(self):
        model, file = self.model(), self.write("file", b"x")
        rest = (model, "--ratio", "4", "-o", self.path("o.gbz"))
        self.refused(FAILED, "cannot be made", "compress", *rest, "--tensorboard", file)
        self.refused(FAILED, "cannot be made", "compress", *rest, "--tensorboard", os.path.join(file, "log"))
        self.refused(USAGE, "--tensorboard needs the name", "compress", *rest, "--tensorboard", "")


if __name__ == "__main__":
    harness.main()
