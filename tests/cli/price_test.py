"""What the plain command chooses: the mode, the price of a bit, how it trains, and how long it may take."""

import os
import time

import harness
from harness import DONE, TARGET, USAGE

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "digits",
                      "mlp-64-128-64-10.safetensors")
PLAIN = ("compress", DIGITS, "--arch", "mlp", "--data", "digits")


class DryRun(harness.CliTest):
    def test_it_shows_the_plan_and_writes_nothing(self):
        before = self.snapshot()
        result = self.succeed(*PLAIN, "--dry-run", "-o", self.path("x.gbz"))
        for line in (r"file holds +integers times steps, trained", r"expected bytes +[\d,]+ to [\d,]+",
                     r"memory, about +\d", r"minutes, about +\d", r"held back to judge by +\d{3}",
                     r"epochs of the first +\d", "nothing was trained or written"):
            self.assertRegex(result.out, line)
        self.assertEqual(self.snapshot(), before)
        self.assertEqual(self.succeed(*PLAIN, "--dry-run").status, DONE, "no name is needed for what is not written")
        self.assertEqual(self.snapshot(), before)

    def test_targets_modes_and_json(self):
        plan = self.succeed(*PLAIN, "--dry-run", "--max-bytes", "2000", "--json").json
        self.assertEqual(plan["expected_bytes"], [2000, 2000])
        self.assertEqual(plan["held_back"], 0, "a size is judged by nobody: everything is trained on")
        self.assertGreater(plan["minutes"], 0)
        self.assertGreater(plan["memory_bytes"], 10 << 20)
        self.assertEqual(plan["training"]["loss"], "distill")
        chosen = self.succeed(*PLAIN, "--dry-run", "--json", "--epochs", "3", "--set", "train.batch=50", "--loss", "task").json
        self.assertEqual((chosen["training"]["epochs"], chosen["training"]["batch"], chosen["training"]["loss"]),
                         (3, 50, "task"))
        self.assertRegex(self.succeed(*PLAIN, "--dry-run", "--mode", "generated").out, "g-nets generate weights")
        self.assertRegex(self.succeed("compress", DIGITS, "--dry-run").out, "file holds +integers times steps")


class Time(harness.CliTest):
    def test_minutes_bound_the_run(self):
        began = time.monotonic()
        result = self.succeed(*PLAIN, "--minutes", "0.05", "--force", "-o", self.path("x.gbz"), "--json").json
        # Three seconds, and as many for the start and for a machine that does other things as well.
        self.assertLess(time.monotonic() - began, 3 + 12)
        free = self.succeed(*PLAIN, "--dry-run", "--json").json
        short = self.succeed(*PLAIN, "--dry-run", "--json", "--minutes", "0.002").json
        self.assertLess(short["steps"], free["steps"])
        self.assertLess(short["minutes"], free["minutes"])
        self.assertGreater(result["ratio"], 5)

    def test_minutes_are_above_0(self):
        for minutes in ("0", "-1", "nan"):
            self.refused(USAGE, "train.minutes must be a number above 0", *PLAIN, "--minutes", minutes, "-o",
                         self.path("x.gbz"))


class Rules(harness.CliTest):
    def rules(self, *matches):
        return self.write("rules.toml", "".join(f'[[layer]]\nmatch = "{m}"\nmode = "raw"\n' for m in matches).encode())

    def test_a_rule_that_matches_nothing_is_told_with_the_nearest_names(self):
        model = self.model()
        for more in (("--arch", "mlp"), ()):  # a model, and weights alone
            common = ("compress", model, *more, "--ratio", "2", "--force", "-o", self.path("x.gbz"))
            result = self.succeed(*common, "--config", self.rules("0.weigth", "2.*"))
            warnings = [line for line in result.err.splitlines() if "warning" in line]
            self.assertEqual(len(warnings), 1, result)
            self.assertRegex(warnings[0], r"0\.weigth matches no tensor; the nearest are 0\.weight, ")
            self.assertNotIn("warning", self.succeed(*common, "--config", self.rules("*.bias")).err)
            self.assertEqual(self.succeed(*common, "-q", "--config", self.rules("0.weigth")).err, "")


class Price(harness.CliTest):
    def test_a_small_drop_costs_few_bytes(self):
        result = self.succeed(*PLAIN, "--max-drop", "1", "-o", self.path("x.gbz"))
        self.assertLessEqual(os.path.getsize(self.path("x.gbz")), 1300)
        self.assertRegex(result.err, r"attempt 1: lambda \S+, \d+ bytes, the reference")
        self.assertRegex(result.err, r"attempt 2: lambda \S+, \d+ bytes, \S+ lost on held-back training data")
        self.assertRegex(result.out, r"trained +\d times, lambda 0\.\d+")
        score = self.succeed("eval", self.path("x.gbz"), "--data", "digits", "--json").json["metric"]["value"]
        self.assertGreaterEqual(score, 95)

    def test_without_a_target_nothing_is_lost_that_can_be_measured(self):
        report = self.succeed(*PLAIN, "-o", self.path("x.gbz"), "--json", "-q").json
        self.assertGreater(report["ratio"], 40)
        self.assertLess(report["metric"]["drop"], 1.5)
        again = self.succeed(*PLAIN, "-o", self.path("y.gbz"), "--json", "-q").json
        self.assertEqual(report["identity"], again["identity"])

    def test_a_size_is_met_and_used(self):
        report = self.succeed(*PLAIN, "--max-bytes", "900", "-o", self.path("x.gbz"), "--json", "-q").json
        self.assertLessEqual(report["output_bytes"], 900)
        self.assertGreaterEqual(report["output_bytes"], 864)
        self.assertLess(report["metric"]["drop"], 2)

    def test_a_price_that_is_given_is_kept(self):
        report = self.succeed(*PLAIN, "--set", "rate.lambda=0.05", "--epochs", "10", "-o", self.path("x.gbz"), "--json",
                              "-q").json
        self.assertEqual((report["attempts"], report["lambda"]), (1, 0.05))

    def test_no_size_is_met_by_a_lost_model(self):
        for how in [], ["--epochs", "0"]:
            result = self.run_cli(*PLAIN, *how, "--max-bytes", "130", "--json", "-q", "--force", "-o", self.path("x.gbz"))
            self.assertEqual(result.status, TARGET, result)
            self.assertGreater(os.path.getsize(self.path("x.gbz")), 130)
            self.assertGreater(result.json["metric"]["after"], 45)  # chance is 10 %
            self.assertRegex(result.err, "keeps half of what the original knows above chance")


harness.main()
