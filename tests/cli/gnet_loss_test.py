"""What g-nets of a given model learn where the user does not say: the model's outputs."""

import os

import harness

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "digits",
                      "mlp-64-128-64-10.safetensors")
GIVEN = ("compress", DIGITS, "--arch", "mlp", "--data", "digits", "--mode", "generated", "--ratio", "10")
NEW = ("compress", "--from-scratch", "--arch", "mlp:64-128-64-10", "--data", "digits", "--mode", "generated", "--ratio", "10")


class GnetLoss(harness.CliTest):
    def planned(self, *arguments):
        return self.succeed(*arguments, "--dry-run", "--json").json["training"]

    def test_the_plan_names_the_loss(self):
        self.assertEqual(self.planned(*GIVEN)["loss"], "distill")
        self.assertEqual(self.planned(*GIVEN, "--minutes", "0.1")["loss"], "distill")
        self.assertEqual(self.planned(*GIVEN, "--set", "train.loss=task")["loss"], "task")
        self.assertEqual(self.planned(*NEW)["loss"], "task", "a new model has no outputs to learn")
        self.assertEqual(self.planned(*GIVEN, "--strategy", "al")["loss"], "task", "a strategy takes labels")

    def test_the_run_follows_the_plan(self):
        """The default gives the weights of the loss and the part of the labels that it stands for."""
        def made(name, *arguments):
            out = self.path(name)
            self.succeed(*GIVEN, "-o", out, "-q", "--epochs", "2", "--set", "train.threads=1", *arguments)
            return out

        default = made("default.gbz")
        said = made("said.gbz", "--set", "train.loss=distill", "--set", "train.labels=0.4")
        labels = made("labels.gbz", "--set", "train.loss=task")
        self.assertEqual(self.succeed("compare", default, said, "--json").json["differ"], 0)
        self.assertGreater(self.succeed("compare", default, labels, "--json").json["differ"], 0)


harness.main()
