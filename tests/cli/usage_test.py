"""Help, versions, wrong words, wrong settings."""

import harness
from harness import USAGE, QUICK

VERBS = ["compress", "expand", "mount", "inspect", "compare", "rebase", "eval", "plugins", "doctor", "bench", "sweep", "completion",
         "man"]


class Usage(harness.CliTest):
    def test_help_shows_examples_before_options(self):
        general = self.succeed("--help").out
        for verb in VERBS:
            self.assertIn(f"\n  {verb} ", general)
            for flag in ("--help", "-h"):
                text = self.succeed(verb, flag).out
                self.assertLess(text.index("Examples:"), text.index("--help"))
                self.assertIn(f"gbcompress {verb}", text)
        self.assertNotIn("probe", general)

    def test_verbose_help_lists_the_settings(self):
        self.assertNotIn("gnet.hidden", self.succeed("compress", "--help").out)
        self.assertIn("gnet.hidden", self.succeed("compress", "--help", "-v").out)

    def test_version(self):
        self.assertRegex(self.succeed("--version").out, r"\Agbcompress \d+\.\d+\.\d+\n\Z")

    def test_wrong_words(self):
        cases = [
            ([], "no verb was given"),
            (["compres"], "unknown verb compres; did you mean compress"),
            (["xyzzy"], r"unknown verb xyzzy;"),
            (["\x1b[31m"], r"unknown verb \\x1b\[31m"),
            (["--ration", "3"], "unknown option --ration"),
            (["compress", "m", "--ration", "3"], "unknown option --ration; did you mean --ratio"),
            (["compress", "m", "--rati", "3"], "unknown option --rati; did you mean --ratio"),
            (["compress", "m", "-Z"], "unknown option -Z"),
            (["compress", "m", "--ratio"], "option --ratio needs a value"),
            (["compress", "m", "-o", "x", "-o", "y"], "--output was given twice"),
            (["compress", "m", "--force=1"], "--force takes no value"),
            (["compress"], "compress needs MODEL"),
            (["compress", "--from-scratch", "--arch", "mlp:64-10", "--data", "digits"], "name the file to write: -o"),
            (["compress", "m", "-o", ""], "name the file to write: -o OUT.gbz"),
            (["inspect", "a", "b"], "one argument too many: b"),
            (["expand", "m", "-o", "x", "--max-output", "tiny"], "--max-output must be a size"),
            (["eval", "m"], "name what to evaluate on: --data"),
            (["plugins", "lits"], "plugins lits; did you mean list"),
            (["plugins", "verify"], "plugins verify needs FILE"),
            (["plugins", "new"], "plugins new needs NAME"),
            (["doctor", "x"], "one argument too many: x"),
        ]
        for arguments, pattern in cases:
            with self.subTest(arguments=arguments):
                self.refused(USAGE, pattern, *arguments)

    def test_targets_out_of_range(self):
        model = self.model()
        cases = [
            ("--ratio", "0", "--ratio must be a number above 1, such as 8, 8x or 8:1, not 0"),
            ("--ratio", "-5", "--ratio must be a number above 1, such as 8, 8x or 8:1, not -5"),
            ("--ratio", "1e9", "--ratio 1e.?09 gives a file of .* smallest file has 100; use a value of at most"),
            ("--ratio", "nan", "must be a number above 1, such as 8, 8x or 8:1, not nan"),
            ("--ratio", "many", "--ratio must be a number above 1, such as 8, 8x or 8:1, not many"),
            ("--max-bytes", "0", "--max-bytes must be a size"),
            ("--max-bytes", "5 parsecs", "--max-bytes must be a size"),
            ("--max-bytes", "10", "--max-bytes must be at least 100, got 10"),
            ("--bits", "0", "--bits must be a number above 0, at most 64, not 0"),
            ("--bits", "nan", "--bits must be a number above 0, at most 64, not nan"),
            ("--bits", "-4", "--bits must be a number above 0, at most 64, not -4"),
            ("--bits", "1e9", "--bits must be a number above 0, at most 64, not 1e"),
            ("--bits", "0.001", "--bits 0.001 gives a file of .* smallest file has 100; use a value of at least"),
            ("--ratio", "0x", "--ratio must be a number above 1, such as 8, 8x or 8:1, not 0x"),
            ("--ratio", "10:2", "--ratio must be a number above 1, such as 8, 8x or 8:1, not 10:2"),
            ("--max-error", "150%", "--max-error must be a number above 0 and below 1, such as 0.001 or 0.1%, not 150%"),
            ("--max-drop", "-1", "--max-drop must be a number of at least 0, not -1"),
            ("--max-drop", "1", "give --data"),
            ("--epochs", "-1", "--epochs must be an integer from 0 to 1000000, not -1"),
            ("--seed", "1.5", "--seed must be an integer of at least 0, not 1.5"),
            ("--set", "train.loss=taks", "must be one of task, distill, weights, not \"taks\"; did you mean task"),
            ("--set", "train.loss=task", "give --data"),
            ("--timeout", "3", "unknown option --timeout; use --set ranks.timeout=VALUE"),
        ]
        for flag, value, pattern in cases:
            with self.subTest(flag=flag, value=value):
                self.refused(USAGE, pattern, "compress", model, "--arch", "mlp", "-o", self.path("x.gbz"), flag, value)
        self.refused(USAGE, "--max-bytes contradicts --ratio", "compress", model, "-o", self.path("x.gbz"), "--ratio",
                  "2", "--max-bytes", "5k")

    def test_unknown_architecture_and_data(self):
        model = self.model()
        common = ("compress", model, "-o", self.path("x.gbz"), *QUICK)
        self.refused(USAGE, "resnet20", *common, "--arch", "resnet2")
        self.refused(USAGE, "minst", *common, "--arch", "mlp", "--data", "minst:" + self.folder)

    def test_settings_come_from_everywhere(self):
        model = self.model()
        config = self.write("run.toml", "[gnet]\n  hiden = 3\n")
        common = ("compress", model, "--arch", "mlp", "-o", self.path("x.gbz"))
        self.refused(USAGE, r"run\.toml:2:3: unknown key gnet\.hiden; did you mean gnet\.hidden\?", *common, "--config",
                  config)
        self.refused(USAGE, r"--set: unknown key gnet\.hiden", *common, "--set", "gnet.hiden=3")
        self.refused(USAGE, "GBCOMPRESS_GNET_HIDEN: no such setting", *common, environment={"GBCOMPRESS_GNET_HIDEN": "3"})
        self.refused(harness.INPUT, "none.toml does not exist", *common, "--config", self.path("none.toml"))

    def test_later_layers_of_settings_win(self):
        model = self.model()
        config = self.write("run.toml", "[train]\nepochs = 3\nbatch = 3\nseed = 3\nshift = 3\n[target]\nratio = 2\n")
        result = self.succeed("compress", model, "--arch", "mlp", "-o", self.path("x.gbz"), "--json", "-q", "--config",
                              config, "--set", "train.seed=5", "--set", "train.epochs=5", "--epochs", "6",
                              "--max-bytes", "50kB",
                              environment={"GBCOMPRESS_TRAIN_BATCH": "4", "GBCOMPRESS_TRAIN_SEED": "4"})
        settings = result.json["settings"]
        self.assertEqual([settings["train"][key] for key in ("shift", "batch", "seed", "epochs")], [3, 4, 5, 6])
        self.assertEqual(settings["target"], {"ratio": None, "max_bytes": 50000, "bits": None, "max_drop": None,
                                               "max_error": None})
        self.assertEqual(settings["train"]["loss"], "weights")

    def test_errors_are_json_too(self):
        result = self.run_cli("compress", "m", "--ration", "3", "--json")
        self.assertEqual(result.status, USAGE, result)
        self.assertEqual(result.json["error"]["code"], "usage")
        self.assertIn("--ration", result.json["error"]["message"])
        result = self.run_cli("inspect", self.path("none"), "--json")
        self.assertEqual((result.status, result.json["error"]["code"]), (harness.INPUT, "not_found"), result)


harness.main()
