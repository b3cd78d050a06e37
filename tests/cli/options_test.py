"""Values with units, options without an effect, names of none, help, and the width of tables."""

import os
import re
import shutil
import unittest

import harness
from harness import TARGET, USAGE, floats, safetensors

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
COLUMNS = 100


class Values(harness.CliTest):
    def bytes_of(self, *arguments):
        out = self.path("x.gbz")
        self.succeed("compress", self.model(), "-o", out, "--force", "-q", *arguments)
        return os.path.getsize(out)

    def test_ratios_sizes_and_errors_with_units(self):
        widths = (64, 48, 10)
        model = self.model(widths=widths)
        weights = 64 * 48 + 48 + 48 * 10 + 10
        same = {"ratio": ["8", "8x", "8X", "8:1"], "max-error": ["0.01", "1%", "1e-2"],
                "max-bytes": ["2000", "2k", "2kB", "2KB"], "bits": ["4", "4.0"]}
        for option, values in same.items():
            identities = set()
            for value in values:
                report = self.succeed("compress", model, "-o", self.path("x.gbz"), "--force", "--json", "--" + option,
                                      value).json
                identities.add((report["output_bytes"], report["weight_error"]))
                if option == "bits":
                    self.assertLessEqual(report["output_bytes"], weights * 4 / 8)
                    self.assertGreater(report["output_bytes"], weights * 4 / 8 * 0.95)
            self.assertEqual(len(identities), 1, option)
        binary = self.succeed("compress", model, "-o", self.path("x.gbz"), "--force", "--json", "--max-bytes", "2KiB").json
        self.assertLessEqual(binary["output_bytes"], 2048)
        config = self.write("run.toml", '[target]\nratio = "8x"\n')
        self.succeed("compress", model, "-o", self.path("x.gbz"), "--force", "--config", config)

    def test_lossless(self):
        model, out, back = self.model(), self.path("x.gbz"), self.path("x.safetensors")
        result = self.succeed("compress", model, "-o", out, "--lossless")
        self.assertRegex(result.out, r"exact tensors +4 of 4")
        self.assertNotIn("target", result.out)
        self.succeed("expand", out, "-o", back)
        self.assertEqual(self.succeed("compare", model, back, "--json").json["same"], 4)
        common = ("compress", model, "-o", out, "--lossless", "--force")
        self.succeed(*common, "--max-error", "1%")
        self.succeed(*common, "--ratio", "1.01")
        for target in (["--ratio", "8"], ["--bits", "4"], ["--max-bytes", "2k"]):
            missed = self.run_cli(*common, *target, "--json")
            self.assertEqual(missed.status, TARGET, missed)
            self.assertFalse(missed.json["target_met"])
            self.one_message(missed, "the target is .* bytes, and exact values take .*; use --mode quantized")
        same = self.run_cli("compress", model, "-o", out, "--mode", "exact", "--ratio", "8", "--force")
        self.assertEqual(same.status, TARGET, same)
        for more in (["--mode", "quantized"], ["--mode", "auto"], ["--epochs", "3"], ["--minutes", "1"], ["--set", "train.loss=task"]):
            self.refused(USAGE, f"{more[0]}.* contradicts --lossless", *common, *more)
        rules = self.write("rules.toml", '[[layer]]\nmatch = "0.*"\nmode = "quantized"\n')
        self.refused(USAGE, r"the \[\[layer\]\] rule for 0.\* contradicts --lossless", *common, "--config", rules)

    def test_rules_decide_which_tensors_are_exact(self):
        """The last rule wins, and a mode of exact values is no reason to ignore a rule."""
        rules = self.write("rules.toml", '[[layer]]\nmatch = "*"\nmode = "exact"\n'
                           '[[layer]]\nmatch = "0.weight"\nmode = "quantized"\n')
        for mode in ("exact", "auto"):
            tensors = self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--force", "--json", "--mode", mode,
                                   "--max-bytes", "3500", "--config", rules).json["tensors"]
            self.assertEqual([t["name"] for t in tensors if t["error"] > 0], ["0.weight"])

    def test_the_default_target_is_named(self):
        result = self.succeed("compress", self.model(), "-o", self.path("x.gbz"))
        self.assertRegex(result.out, r"(?m)^target +ratio 10 \(default\)$")
        self.assertRegex(result.out, r"(?m)^test quality +not evaluated \(no data\)$")
        given = self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--force", "--ratio", "10")
        self.assertNotIn("default", given.out)
        with open(os.path.join(os.path.dirname(__file__), "../../docs/reference/compress.md")) as page:
            self.assertIn("`--ratio 10x`", page.read())


class WithoutEffect(harness.CliTest):
    """What was given and changes nothing is named, in one warning."""

    def warnings(self, *arguments, **more):
        result = self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--force", *arguments, **more)
        self.assertEqual(self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--force", "-q", *arguments,
                                      **more).err, "")
        return [line for line in result.err.splitlines() if "warning" in line]

    def test_each_is_named(self):
        cases = [
            (["--epochs", "3"], "--epochs has no effect: there are no data to train on (--data)"),
            (["--minutes", "3"], "--minutes has no effect: there are no data to train on (--data)"),
            (["--seed", "3"], "--seed has no effect: data-free quantization draws no random numbers"),
            (["--set", "ranks.timeout=3", "--set", "ranks.backend=gloo"],
             "ranks.backend and ranks.timeout have no effect: there is one process"),
            (["--set", "ranks.placement=owner"], "ranks.placement has no effect: no parameter is generated by a g-net in this mode"),
            (["--set", "gnet.hidden=8"], "gnet.hidden has no effect: no parameter is generated by a g-net"),
            (["--set", "artifact.coding=fp16"], "artifact.coding has no effect: no parameter is generated"),
            (["--set", "data.context=8"], "data.context has no effect: there are no data (--data)"),
            (["--mode", "exact", "--set", "rate.quantizer=nearest"],
             "rate.quantizer has no effect: no quantized weights remain untrained"),
        ]
        for arguments, text in cases:
            with self.subTest(arguments):
                (warning,) = self.warnings(*arguments)
                self.assertIn("warning: " + text, warning)

    def test_g_nets_of_a_size_follow_the_recipe_unless_they_are_given(self):
        def made(*more):
            out = self.path("g.gbz")
            self.succeed("compress", self.model(widths=(96, 128, 64, 10)), "-o", out, "--force", "-q", "--mode", "generated",
                         "--ratio", "7", *more, environment=harness.fit_steps(5))
            return {t["name"]: t for t in self.succeed("inspect", out, "--json").json["tensors"]}
        usual = made()
        self.assertIn("low_rank", str(usual["0.weight"]))
        self.assertEqual(usual["0.bias"]["kind"], "quantized")
        rule = self.write("exact.toml", '[[layer]]\nmatch = "0.bias"\nmode = "exact"\n')
        exact = made("--config", rule)
        self.assertEqual(exact["0.bias"]["kind"], "exact")
        for more in (["gnet.generator=gnet"], ["gnet.hidden=9"], ["gnet.row_code=gray"]):
            self.assertNotIn("low_rank", str(made("--set", *more)["0.weight"]), more)
        config = self.write("run.toml", '[[layer]]\nmatch = "0.weight"\nhidden = [7]\n')
        self.assertNotIn("low_rank", str(made("--config", config)["0.weight"]))
        self.refused(USAGE, "layer.rank must be an integer from 1 to 65536, not 0", "compress", self.model(), "-o", self.path("x.gbz"), "--force",
                     "--mode", "generated", "--config",
                     self.write("rank.toml", '[[layer]]\nmatch = "0.weight"\ntile_weights = 64\nrank = 0\ngenerator = "low_rank"\n'))

    def test_tiles_beside_a_size(self):
        warning, *others = self.warnings("--mode", "generated", "--max-bytes", "100k", "--set", "gnet.tile_weights=900")
        self.assertIn("gnet.tile_weights has no effect: the recipe chooses the tiles for the target size; a [[layer]] rule", warning)
        self.assertFalse([each for each in others if "no effect" in each])

    def test_all_of_them_in_one_line(self):
        (warning,) = self.warnings("--epochs", "3", "--minutes", "1", "--set", "gnet.hidden=8")
        self.assertIn("--epochs and --minutes have no effect: there are no data to train on (--data)", warning)
        self.assertIn("gnet.hidden has no effect: no parameter is generated", warning)
        (warning,) = self.warnings(environment={"GBCOMPRESS_OPTIM_LR": "0.1"})
        self.assertIn("optim.lr has no effect", warning)

    def test_a_layer_type_needs_gnets(self):
        config = self.write("run.toml", '[[layer]]\nmatch = "0.weight"\ntype = "plain"\n')
        (warning,) = self.warnings("--config", config)
        self.assertIn('layer.type has no effect: a layer type shapes g-nets, and this mode has none; use mode = "exact"',
                      warning)

    def test_what_has_an_effect_is_not_named(self):
        for arguments in (["--ratio", "8"], ["--epochs", "0"], ["--set", "rate.quantizer=nearest"], ["--arch", "mlp:64-32-10"],
                          ["--set", "rate.measure=total", "--max-error", "0.01"], ["--deterministic"]):
            with self.subTest(arguments):
                if "--deterministic" in arguments and PORTABLE:
                    continue
                self.assertEqual(self.warnings(*arguments), [])

    def test_other_verbs(self):
        model, out = self.model(), self.path("m.gbz")
        self.succeed("compress", model, "-o", out, "-q")
        result = self.succeed("inspect", out, "--keep", "all", "--plugin", "none.so")
        self.assertIn("--plugin has no effect", result.err)
        self.assertIn("--keep has no effect: a .gbz or TorchScript file has no parts", result.err)
        self.assertIn("--plugin has no effect", self.succeed("compare", model, out, "--plugin", "none.so").err)

    def test_other_verbs_name_what_changes_nothing(self):
        model, out = self.model(), self.path("m.gbz")
        self.succeed("compress", model, "-o", out, "-q")
        cases = [
            (["inspect", model], ["--force"], "it replaces a report, and there is no --report"),
            (["inspect", model], ["--plugin", "none.so"], "inspect runs no layer types"),
            (["inspect", out], ["--part", "a"], "a .gbz or TorchScript file has no parts"),
            (["compare", out, out], ["--part", "a"], "a .gbz or TorchScript file has no parts"),
            (["compare", model, model], ["--plugin", "none.so"], "these files hold no layer types of plugins"),
            (["rebase", out, "-o", self.path("r.gbz"), "--force"], ["--plugin", "none.so"], "rebase runs no layer types"),
            (["plugins", "new", "a_layer", "-o", self.path("layer")], ["--plugin", "none.so"], "plugins new loads no other"),
            (["completion", "bash"], ["--json", "--plugin", "none.so"], "this verb prints one text"),
            (["man", "compress"], ["--json"], "this verb prints one text"),
        ]
        if PORTABLE:
            cases.append((["doctor"], ["--plugin", "none.so"], "plugins need LibTorch"))
        for command, options, why in cases:
            with self.subTest(command + options):
                result = self.succeed(*command, *options)
                names = " and ".join(option for option in options if option.startswith("-"))
                have = "have" if " and " in names else "has"
                self.one_message(result, f"warning: {names} {have} no effect: {why}")
                shutil.rmtree(self.path("layer"), ignore_errors=True)
                self.assertEqual(self.succeed(*command, *options, "-q").err, "")
        self.refused(USAGE, "--against contradicts --plan", "inspect", model, "--plan", "--against", model)

    def test_a_call_with_several_inputs_says_it_once(self):
        first, second = self.model("a.safetensors"), self.model("b.safetensors")
        result = self.succeed("compress", first, second, "-o", self.path("out/"), "--seed", "3")
        self.assertEqual(result.err.count("--seed has no effect"), 1, result)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["a.gbz", "b.gbz"])

    def test_every_option_is_known_here(self):
        """An option is obeyed in every call of its verb, or a test shows what names it where it is not."""
        everywhere = {"help", "json", "quiet", "verbose", "plugin"}
        model = {"part", "keep"}
        settings = {"config", "set"}
        run = model | settings | {"arch", "from-scratch", "data", "strategy", "epochs", "seed", "device"}
        known = {
            "compress": run | {"output", "mode", "lossless", "layers", "ratio", "max-bytes", "bits", "max-drop", "max-error",
                                       "base", "effort", "statistics", "requantize", "minutes", "dry-run", "force", "report",
                                       "tensorboard", "resume", "checkpoint", "deterministic"},
            "expand": {"output", "max-output", "base", "draft", "only", "force"},
            "mount": {"cache"},
            "inspect": model | settings | {"plan", "against", "draft", "world", "arch", "report", "force"},
            "compare": model | settings | {"data", "arch", "model"},
            "eval": model | settings | {"data", "arch", "model", "exit", "device", "report", "force"},
            "sweep": run | {"output", "lambdas", "ratios", "errors", "tensorboard", "report", "force"},
            "bench": {"shape", "threads", "seconds", "kernel", "isa"},
            "plugins": {"output"},
            "rebase": {"output", "onto", "base", "force"},
            "doctor": set(), "completion": set(), "man": set(),
        }
        for verb, options in known.items():
            text = self.succeed(verb, "--help").out
            found = set(re.findall(r"(?m)^ +(?:-\w, )?--([a-z-]+)", text))
            self.assertEqual(found, options | everywhere, verb)
        verbs = re.findall(r"(?m)^  ([a-z]+)  ", self.succeed("--help").out.split("Verbs:")[1])
        self.assertEqual(set(verbs), set(known))


@unittest.skipIf(PORTABLE, "built without LibTorch")
class WithTorch(harness.CliTest):
    def test_settings_that_a_verb_does_not_read(self):
        model = self.model()
        for verb in (["eval", model, "--arch", "mlp", "--data", "digits"], ["compare", model, model, "--arch", "mlp", "--data",
                                                                            "digits"]):
            self.assertIn("warning: rate.lambda has no effect on " + verb[0],
                          self.succeed(*verb, "--set", "rate.lambda=1").err)
            self.assertNotIn("warning", self.succeed(*verb, "--set", "train.threads=1").err)
        self.assertIn("rate.lambda has no effect on a list of g-nets",
                      self.succeed("inspect", model, "--arch", "mlp", "--plan", "--set", "rate.lambda=1").err)
        err = self.succeed("sweep", model, "-o", self.path("curve"), "--ratios", "4", "--set", "target.ratio=3", "--epochs",
                           "2", environment=harness.fit_steps(2)).err
        self.assertIn("target.ratio has no effect on sweep", err)
        self.assertIn("--epochs has no effect: there are no data", err)

    def test_options_that_need_another_file(self):
        model, out = self.model(), self.path("m.gbz")
        self.succeed("compress", model, "-o", out, "-q", "--arch", "mlp")
        data = ["--data", "digits"]
        cases = [
            (["compare", model, model, "--arch", "mlp", *data], ["--model", model], "it serves a .gbz, and neither file is one"),
            (["eval", out, *data], ["--keep", "all"], "a .gbz or TorchScript file has no parts"),
            (["eval", out, *data], ["--force"], "it replaces a report, and there is no --report"),
            (["inspect", model, "--plan"], ["--force"], "it replaces a report, and there is no --report"),
            (["sweep", model, "-o", self.path("curve"), "--ratios", "4"], ["--force"],
             "it replaces a report, and there is no --report"),
            (["compress", "--from-scratch", "--arch", "mlp:64-16-10", *data, "--epochs", "1", "--set", "rate.lambda=1", "-o",
              self.path("new.gbz"), "--force"], ["--keep", "all"], "no model file is read"),
        ]
        for command, options, why in cases:
            with self.subTest(command + options):
                said = [line for line in self.succeed(*command, *options, environment=harness.fit_steps(2)).err.splitlines()
                        if "warning" in line]
                self.assertEqual(len(said), 1, said)
                self.assertIn(f"warning: {options[0]} has no effect: {why}", said[0])

    @unittest.skipIf(PORTABLE, "built without LibTorch")
    def test_g_nets_of_small_files_are_coded(self):
        out = self.path("x.gbz")
        for ratio, coding in (("60", "coded"), ("20", "int8")):
            self.succeed("compress", "--from-scratch", "--arch", "mlp:64-512-256-10", "--data", "digits", "--mode", "generated",
                         "--ratio", ratio, "--epochs", "1", "-o", out, "--force", "-q")
            tensors = {t["name"]: t for t in self.succeed("inspect", out, "--json").json["tensors"]}
            self.assertIn(coding, str(tensors["2.weight"]), ratio)
            self.assertEqual(tensors["2.bias"]["kind"], "quantized")

    @unittest.skipIf(PORTABLE, "built without LibTorch")
    def test_sigmoid_codes_with_linear_outputs_warn(self):
        run = ("compress", "--from-scratch", "--arch", "mlp:64-16-12-10", "--data", "digits", "--mode", "exact", "--max-bytes",
               "9M", "--epochs", "1", "--strategy", "al", "-o", self.path("x.gbz"), "--force")
        warning = "warning: strategy al: codes=sigmoid with linear outputs"
        self.assertIn(warning, self.succeed(*run, "--set", "strategy.codes=sigmoid").err)
        for more in ([], ["--set", "strategy.codes=sigmoid", "--set", "strategy.decoder=codes"]):
            self.assertNotIn(warning, self.succeed(*run, *more).err)

    def test_a_strategy_needs_data(self):
        config = self.write("run.toml", '[strategy]\nname = "dtp"\n')
        for more in (["--strategy", "dtp"], ["--config", config]):
            for mode in ([], ["--mode", "exact"], ["--arch", "mlp"]):
                self.refused(USAGE, "--strategy dtp needs data to train on; give --data", "compress", self.model(), "-o",
                             self.path("x.gbz"), *more, *mode)
        self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--strategy", "backprop")

    def test_data_only_evaluate_a_lossless_file(self):
        model, out = self.model(), self.path("x.gbz")
        report = self.succeed("compress", model, "--arch", "mlp", "--data", "digits", "--lossless", "-o", out, "--json").json
        self.assertEqual(report["metric"]["before"], report["metric"]["after"])
        self.assertEqual(report["attempts"], 0)
        self.assertEqual({t["error"] for t in report["tensors"]}, {0})
        missed = self.run_cli("compress", model, "--arch", "mlp", "--data", "digits", "--lossless", "-o", out, "--force",
                              "--ratio", "8")
        self.assertEqual(missed.status, TARGET, missed)

    def test_exact_values_of_a_trained_model(self):
        """No word of g-nets, the size of a plan, and what reaches a target that exact values exceed."""
        command = ("compress", self.model(), "--arch", "mlp", "--data", "digits", "--mode", "exact", "--epochs", "2", "-o",
                   self.path("x.gbz"), "--force")
        made = self.succeed(*command, "--json").json
        self.assertEqual(made["method"], "trained")
        for target in ([], ["--ratio", "8"]):
            least, most = self.succeed(*command, *target, "--dry-run", "--json").json["expected_bytes"]
            self.assertTrue(least <= made["output_bytes"] <= most, (least, most))
        missed = self.run_cli(*command, "--ratio", "8")
        self.assertEqual(missed.status, TARGET, missed)
        self.assertRegex(missed.err, "the target is [0-9]+ bytes, and exact values take [0-9]+; use --mode quantized")
        self.assertNotIn("g-net", missed.err)

    def test_bits_in_every_mode(self):
        model = self.model()
        weights = 64 * 32 + 32 + 32 * 10 + 10
        for bits, more in ((6, ["--data", "digits", "--epochs", "1"]), (6, ["--data", "digits", "--epochs", "0"]),
                           (30, ["--mode", "generated"])):
            report = self.succeed("compress", model, "--arch", "mlp", "-o", self.path("x.gbz"), "--force", "--json", "--bits",
                                  str(bits), *more, environment=harness.fit_steps(2)).json
            self.assertLessEqual(report["output_bytes"], weights * bits / 8)

    def test_the_attempt_taken_and_why(self):
        out = self.path("x.gbz")
        scratch = ("compress", "--from-scratch", "--arch", "mlp:64-16-10", "--data", "digits", "--epochs", "4", "--force", "-o",
                   out)
        sized = self.succeed(*scratch, "--max-bytes", "900")
        self.assertRegex(sized.out, r"(?m)^attempt \d of \d taken: lambda \S+, \d+ bytes, the lowest loss of the files of at "
                                    r"most 900 bytes$")
        kept = self.succeed(*scratch, "--max-drop", "3")
        self.assertRegex(kept.out, r"(?m)^attempt \d of \d taken: lambda \S+, \d+ bytes, the smallest file with a quality drop "
                                   r"\S+ points at most on the held-out split; it has a quality (drop|gain) \S+ points$")

    def test_a_plugin_without_use_is_named(self):
        plugins = os.path.join(os.path.dirname(harness.EXECUTABLE), "plugins")
        found = [name for name in sorted(os.listdir(plugins)) if name.endswith(".so")] if os.path.isdir(plugins) else []
        if "linear.so" not in found:
            self.skipTest("no plugins beside the program")
        row = os.path.join(plugins, "linear.so")
        common = ("compress", self.model(), "--arch", "mlp", "-o", self.path("x.gbz"), "--force", "--plugin", row)
        self.assertRegex(self.succeed(*common, "--ratio", "8").err, r"warning: plugin \S+ has no effect: this mode has no g-nets")
        self.assertNotIn("has no effect",
                         self.succeed(*common, "--ratio", "2", "--mode", "generated", environment=harness.fit_steps(2)).err)


class Unknown(harness.CliTest):
    def test_a_typing_error_leads_to_the_name(self):
        common = ("compress", self.model(), "-o", self.path("x.gbz"))
        for key, present in (("train.flp", "train.flip"), ("train.epoch", "train.epochs"), ("rate.quantizr", "rate.quantizer")):
            self.refused(USAGE, f"--set: unknown key {key}; did you mean {present}", *common, "--set", key + "=1")
        self.refused(USAGE, r'--mode must be one of auto, quantized, generated, exact, not "quantised"; did you mean quantized',
                     *common, "--mode", "quantised")

    def test_an_option_with_the_name_of_a_setting_leads_to_it(self):
        common = ("compress", self.model(), "-o", self.path("x.gbz"))
        for option, text in (("--timeout", r"unknown option --timeout; use --set ranks\.timeout=VALUE; see"),
                             ("--listen", r"unknown option --listen; use --set ranks\.listen=VALUE; see"),
                             ("--backend", r"unknown option --backend; use --set ranks\.backend=VALUE; see"),
                             ("--placement", r"unknown option --placement; use --set ranks\.placement=VALUE; see"),
                             ("--loss", r"unknown option --loss; use --set train\.loss=VALUE; see"),
                             ("--lr", r"unknown option --lr; use --set optim\.lr=VALUE or --set rate\.lr=VALUE; see")):
            self.refused(USAGE, text, *common, option, "1")
        self.refused(USAGE, "unknown option --worlds; see", *common, "--worlds", "2")

    def test_a_removed_name_leads_to_what_to_use(self):
        common = ("compress", self.model(), "-o", self.path("x.gbz"))
        for arguments, text in ((("--world", "2"), "--world was removed; set the environment variable WORLD_SIZE; see"),
                                (("--rank", "0"), "--rank was removed; set the environment variable RANK; see"),
                                (("--master", "a:1"), "--master was removed; set the environment variables MASTER_ADDR and MASTER_PORT"),
                                (("--set", "optim.eps=1"), r"--set: optim\.eps was removed; Adam's epsilon is 1e-8$"),
                                (("--set", "train.mirror=yes"), r"--set: train\.mirror was removed; use train\.flip$"),
                                (("--mode", "raw"), 'exact, not "raw"; use exact$'),
                                (("--mode", "fast"), 'exact, not "fast"; use --effort fast$')):
            self.refused(USAGE, text, *common, *arguments)
        self.refused(USAGE, "GBCOMPRESS_TRAIN_MIRROR: train.mirror was removed; use train.flip", *common,
                     environment={"GBCOMPRESS_TRAIN_MIRROR": "1"})
        self.refused(USAGE, "--simulate was removed; the page", "inspect", self.model(), "--plan", "--simulate")


class Help(harness.CliTest):
    def test_groups_and_order(self):
        text = self.succeed("compress", "--help").out
        self.assertTrue(text.startswith("Usage: gbcompress compress MODEL"), text)
        order = ["Target:", "--output FILE", "--ratio R", "--max-drop P", "Data:", "--data KIND:PATH", "--epochs E", "Other:",
                 "-h, --help", "--dry-run", "--deterministic"]
        places = [text.index(each) for each in order]
        self.assertEqual(places, sorted(places))
        for phrase in ("quantized: integers times a", "generated: g-nets", "exact: every value"):
            self.assertIn(phrase, " ".join(text.split()))

    def test_lines_fit_a_terminal(self):
        for verb in ("", "compress", "expand", "inspect", "compare", "eval", "sweep", "plugins", "bench"):
            for line in self.succeed(*([verb] if verb else []), "--help").out.splitlines():
                self.assertLessEqual(len(line), COLUMNS, line)

    def test_a_missing_word_is_named(self):
        self.refused(USAGE, "compare needs A and B;", "compare")
        self.refused(USAGE, "compare needs B;", "compare", "a")
        self.refused(USAGE, "expand needs IN.gbz", "expand")


class Width(harness.CliTest):
    def test_long_names_are_cut_in_the_middle(self):
        name = "model." + "decoder.layers.0.self_attention_and_more." * 4 + "output.weight"
        model = self.write("long.safetensors", safetensors({name: ("F32", [64, 48], floats(64 * 48)),
                                                            name + "é" * 40: ("F32", [48], floats(48, seed=2))}))
        out = self.path("x.gbz")
        shown = [self.succeed("compress", model, "-o", out, "-v", "--ratio", "8").out,
                 self.succeed("inspect", model).out, self.succeed("inspect", out, "--against", model).out,
                 self.succeed("compare", model, out).out]
        if not PORTABLE:
            shown.append(self.succeed("inspect", model, "--plan", "--world", "4").out)
            shown.append(self.succeed("bench", "engine", "--seconds", "0.01", "--threads", "1", "--shape", "llama-block",
                                      "--shape", "pnas-layer").out)
        digits = os.path.join(os.path.dirname(__file__), "../../samples/digits/mlp-64-128-64-10.safetensors")
        self.succeed("compress", digits, "--base", digits, "-o", self.path("delta.gbz"))
        shown += [self.succeed("inspect", self.path("delta.gbz")).out, self.succeed("compare", digits, model).out]
        for text in shown:
            for line in text.splitlines():
                if "/" not in line and not re.search("[0-9a-f]{64}", line):  # paths and digests are not broken
                    self.assertLessEqual(len(line), COLUMNS, text)
        for text in shown[:4]:
            tables = [line for line in text.splitlines() if "..." in line]
            self.assertTrue(tables, text)
            for line in tables:
                self.assertLessEqual(len(line), COLUMNS, text)
                self.assertIn("model.", line)
        self.assertIn(name, self.succeed("inspect", model, "--json").out)


harness.main()
