"""--effort: which method a target size takes."""

import os
import unittest

import harness
from harness import USAGE

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data")

SIZE = ("--data", "digits", "--arch", "mlp")


class Effort(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.net = self.model("net.safetensors", (64, 32, 10))
        self.out = self.path("net.gbz")

    def compress(self, *words):
        return self.succeed("compress", self.net, *SIZE, "-o", self.out, "--force", *words)

    def test_the_method_and_its_reason_are_said(self):
        done = self.compress("--ratio", "2")
        self.assertRegex(done.out, r"\nmethod +data-free\n")
        self.assertRegex(done.out, r"\ndata-free: quality (drop|gain) .* on the held-out split, within one standard error "
                         r"\([0-9.]+ points\)\n")
        found = self.compress("--ratio", "2", "--json").json
        self.assertEqual(found["method"], "data-free")
        self.assertEqual(found["attempts"], 0)
        self.assertIn("within one standard error", found["method_reason"])
        self.assertEqual(found["settings"]["train"].get("effort"), None)

    def test_fast_never_trains(self):
        # Of a model that knows the digits: one at chance may count as collapsed at any size.
        trained, self.net = self.path("trained.gbz"), self.path("trained.safetensors")
        self.succeed("compress", "--from-scratch", "--arch", "mlp:64-32-10", "--data", "digits", "--mode", "exact", "--epochs", "12", "-o", trained)
        self.succeed("expand", trained, "-o", self.net)
        found = self.compress("--ratio", "16", "--effort", "fast", "--json").json
        self.assertIn(found["method"], ("data-free", "calibrated"))
        self.assertEqual(found["attempts"], 0)
        noted = self.compress("--ratio", "2", "--effort", "fast", "--epochs", "3")
        self.assertIn("--epochs has no effect: nothing is trained", noted.err)

    def test_the_plan_names_the_methods(self):
        plan = self.succeed("compress", self.net, *SIZE, "--ratio", "8", "--dry-run", "--json").json
        self.assertEqual(plan["effort"], "balanced")
        self.assertIn("data-free, calibrated or trained", plan["method"])
        self.assertGreater(plan["attempts"], 0)
        for effort in "balanced", "fast":
            table = self.succeed("compress", self.net, *SIZE, "--ratio", "8", "--effort", effort, "--dry-run").out
            self.assertRegex(table, r"\nmethod +data-free, .* quality drop\n")
            self.assertNotIn("...", table)
        plan = self.succeed("compress", self.net, *SIZE, "--ratio", "8", "--effort", "fast", "--dry-run", "--json").json
        self.assertEqual((plan["effort"], plan["attempts"]), ("fast", 0))
        plan = self.succeed("compress", self.net, *SIZE, "--dry-run", "--json").json
        self.assertEqual(plan["effort"], "max")

    def test_the_report_repeats_the_plan(self):
        """Of a run of one method with all that was chosen, of several methods the methods."""
        given = ("compress", self.net, *SIZE, "--epochs", "2", "--max-drop", "5", "--json")
        planned = self.succeed(*given, "--dry-run").json["plan"]
        self.assertEqual((planned["epochs"], planned["methods"]), (2, ["trained"]))
        self.assertGreater(planned["held_out"], 0)
        self.assertEqual(self.succeed(*given, "-o", self.out).json["plan"], planned)
        planned = self.succeed("compress", self.net, *SIZE, "--ratio", "2", "--dry-run", "--json").json["plan"]
        found = self.compress("--ratio", "2", "--json").json["plan"]
        for key in "holds", "methods", "effort":
            self.assertEqual(found[key], planned[key])
        self.assertRegex(self.compress("--ratio", "2").out, r"\nplan +data-free, calibrated or trained, ")

    def test_what_has_no_effort_refuses_it(self):
        self.refused(USAGE, "--mode generated always trains", "compress", self.net, *SIZE, "--ratio", "8", "--effort", "fast",
                     "--mode", "generated", "-o", self.out)
        self.refused(USAGE, "fast, balanced, max", "compress", self.net, *SIZE, "--ratio", "8", "--effort", "most", "-o", self.out)
        alone = self.succeed("compress", self.net, "--ratio", "4", "--effort", "fast", "-o", self.out, "--force")
        self.assertIn("--effort has no effect: there are no data", alone.err)


class EasyTargets(harness.CliTest):
    """A twentieth of the size is reached without training, at the quality of the given model."""

    def setUp(self):
        super().setUp()
        self.mnist = os.path.join(SHARED, "mnist")
        if not os.path.isdir(self.mnist):
            raise unittest.SkipTest("no MNIST at ../shared/data/mnist")

    def check(self, model, arch):
        out = self.path(arch + ".gbz")
        found = self.succeed("compress", model, "--arch", arch, "--data", "mnist:" + self.mnist, "--ratio", "20", "-o", out,
                             "--json", "-q").json
        self.assertIn(found["method"], ("data-free", "calibrated"))
        self.assertEqual(found["attempts"], 0)
        self.assertLessEqual(20 * os.path.getsize(out), os.path.getsize(model))
        self.assertLessEqual(found["metric"]["drop"], 0.1)

    def test_lenet_300_100(self):
        self.check(os.path.join(SHARED, "models/lenet-300-100-mnist.safetensors"), "lenet-300-100")

    def test_lenet_5_trained_here(self):
        trained, model = self.path("trained.gbz"), self.path("lenet5.safetensors")
        self.succeed("compress", "--from-scratch", "--arch", "lenet5", "--mode", "exact", "--data", "mnist:" + self.mnist,
                     "--epochs", "1", "--set", "train.batch=128", "-o", trained, "-q")
        self.succeed("expand", trained, "-o", model, "-q")
        self.check(model, "lenet5")


harness.main()
