"""--effort: which method a target size takes."""

import harness
from harness import USAGE

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
        found = self.compress("--ratio", "30", "--effort", "fast", "--json").json
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

    def test_what_has_no_effort_refuses_it(self):
        self.refused(USAGE, "--mode generated always trains", "compress", self.net, *SIZE, "--ratio", "8", "--effort", "fast",
                     "--mode", "generated", "-o", self.out)
        self.refused(USAGE, "fast, balanced, max", "compress", self.net, *SIZE, "--ratio", "8", "--effort", "most", "-o", self.out)
        alone = self.succeed("compress", self.net, "--ratio", "4", "--effort", "fast", "-o", self.out, "--force")
        self.assertIn("--effort has no effect: there are no data", alone.err)


harness.main()
