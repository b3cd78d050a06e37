"""The curve of a model: its table, its files, and going on after an end at any moment."""

import csv
import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as xml

import harness
from harness import INPUT, QUICK, USAGE

FAST = (*QUICK, "--lambdas", "1,0.1")
METHODS = {"quantized": 2, "g-nets alone": 2, "rounding + zstd": 2, "truncated SVD, fp16 + zstd": 2}


class Sweeps(harness.CliTest):
    def sweep(self, *more):
        return ("sweep", self.path("model.safetensors"), "--arch", "mlp", "-o", self.path("curve"), *more)

    def points(self):
        lines = self.read("curve/points.jsonl").decode().splitlines()
        return [json.loads(line) for line in lines[1:]]

    def test_table_and_files(self):
        self.model()
        result = self.succeed(*self.sweep("--data", "digits", *FAST))
        points = self.points()
        self.assertEqual(len(points), 8)
        for method, count in METHODS.items():
            self.assertEqual(sum(point["method"] == method for point in points), count, result)
            self.assertEqual(len(re.findall(rf"(?m)^{re.escape(method)} .* %", result.out)), count, result)
        for point in points:
            self.assertIn(f"{point['bytes']:,}", result.out)
            if point["file"]:
                self.assertEqual(os.stat(self.path("curve/" + point["file"])).st_size, point["bytes"])
                measured = self.succeed("eval", self.path("curve/" + point["file"]), "--data", "digits", "--json").json
                self.assertEqual(measured["metric"]["value"], point["metric"])
        with open(self.path("curve/sweep.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(sorted(int(row["bytes"]) for row in rows), sorted(point["bytes"] for point in points))
        self.assertEqual(len(json.loads(self.read("curve/sweep.json"))["points"]), 8)
        picture = xml.fromstring(self.read("curve/sweep.svg"))
        name = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(picture.findall(f".//{name}circle/{name}title")), 8, "a point says what it is")
        self.assertEqual(len(picture.findall(f".//{name}polyline")), 4)
        again = self.succeed(*self.sweep("--data", "digits", "--json", *FAST)).json
        self.assertEqual(again["computed"], 0)
        self.assertEqual(self.points(), points)

    def test_without_data(self):
        self.model()
        result = self.succeed(*self.sweep("--ratios", "4,8", *QUICK))
        self.assertIn("not evaluated", result.out)
        self.assertEqual([point["metric"] for point in self.points()], [None] * 8)
        self.assertEqual([point["target_met"] for point in self.points()[:2]], [True] * 2)
        self.assertLessEqual(self.points()[1]["bytes"], os.stat(self.path("model.safetensors")).st_size / 8)

    def end(self, sent, after):
        """Ends a sweep once `after` points were told; gives the files' times."""
        child = subprocess.Popen([harness.EXECUTABLE, *self.sweep("--data", "digits", *FAST)], cwd=self.folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=harness.clean_environment(harness.FEW_STEPS))
        told = 0
        for line in child.stderr:
            told += bool(re.match(r"gbcompress: .*: [\d,]+ bytes$", line))
            if told == after:
                break
        child.send_signal(sent)
        child.communicate(timeout=harness.TIMEOUT)
        return child.returncode

    def goes_on(self, done):
        before = {point["file"]: os.stat(self.path("curve/" + point["file"])).st_mtime_ns
                  for point in self.points() if point["file"]}
        self.assertGreaterEqual(len(self.points()), done)
        held = len(self.points())
        again = self.succeed(*self.sweep("--data", "digits", "--json", *FAST)).json
        self.assertEqual(again["computed"], 8 - held)
        self.assertEqual(len(again["points"]), 8)
        for file, time in before.items():
            self.assertEqual(os.stat(self.path("curve/" + file)).st_mtime_ns, time, file)
        for file in os.listdir(self.path("curve")):
            self.assertNotIn(".tmp", file)

    def test_goes_on_after_a_kill(self):
        self.model()
        self.assertEqual(self.end(signal.SIGKILL, 2), -signal.SIGKILL)
        self.goes_on(2)

    def test_goes_on_after_an_interrupt(self):
        self.model()
        self.assertEqual(self.end(signal.SIGINT, 1), 130)
        for point in self.points():
            if point["file"]:
                self.succeed("expand", self.path("curve/" + point["file"]), "-o", self.path("x.safetensors"), "--force")
        self.goes_on(1)

    def test_wrong_input(self):
        self.model()
        self.refused(USAGE, "sweep needs MODEL", "sweep", "-o", self.path("curve"))
        self.refused(USAGE, "name the folder", "sweep", self.path("model.safetensors"))
        self.refused(USAGE, "unknown option --lambda; use --lambdas, or --set rate.lambda=VALUE", *self.sweep("--lambda", "1"))
        self.refused(USAGE, "--ratios takes numbers above 0", *self.sweep("--ratios", "4,,8"))
        self.refused(USAGE, "--ratios takes numbers above 0", *self.sweep("--ratios", "-4"))
        self.refused(USAGE, "--ratios takes numbers above 0", *self.sweep("--ratios", "4,nan"))
        self.refused(USAGE, "--ratios must be above 1", *self.sweep("--ratios", "4,0.5"))
        self.refused(USAGE, "needs data to train on", *self.sweep("--lambdas", "1"))
        self.refused(USAGE, "one list", *self.sweep("--ratios", "4", "--errors", "0.1"))
        self.refused(INPUT, "absent", "sweep", self.path("absent.safetensors"), "-o", self.path("curve"))
        self.write("plain", "a file")
        self.refused(harness.FAILED, "is no folder", "sweep", self.path("model.safetensors"), "-o", self.path("plain"),
                     "--ratios", "4")

    def test_other_settings_are_named(self):
        self.model()
        self.succeed(*self.sweep("--ratios", "4", *QUICK))
        self.refused(USAGE, r"optim\.beta2 \(0\.95 there, 0\.5 here\)",
                     *self.sweep("--ratios", "4", "-q", *QUICK, "--set", "optim.beta2=0.5"))
        self.model(widths=(64, 16, 10))
        self.refused(USAGE, "points of another sweep; they differ in model", *self.sweep("--ratios", "4", "-q", *QUICK))
        self.write("curve/points.jsonl", "no json\n")
        self.refused(INPUT, "is not what a sweep writes", *self.sweep("--ratios", "4", "-q", *QUICK))


harness.main()
