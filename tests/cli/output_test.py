"""Where results go: what exists, what cannot be written, what is full, and what is printed."""

import os
import resource
import subprocess
import unittest

import harness
from harness import DONE, FAILED, TARGET, USAGE, QUICK


class Outputs(harness.CliTest):
    def commands(self):
        """Each with its output still to be given."""
        model = self.model()
        gbz = self.compressed("in.gbz")
        return [("compress", model, "--arch", "mlp", "--ratio", "2", "-q", *QUICK, "-o"), ("expand", gbz, "-o")]

    def test_existing_files_need_force(self):
        for command in self.commands():
            with self.subTest(verb=command[0]):
                out = self.write("out", b"precious")
                self.refused(USAGE, "out exists; use --force", *command, out)
                self.assertEqual(self.read("out"), b"precious")
                self.succeed(*command, out, "--force")
                self.assertNotEqual(self.read("out"), b"precious")

    def test_places_that_cannot_be_written(self):
        file = self.write("file", b"x")
        places = [(file + "/", "is a file; name a folder"), (self.path("none/out"), "its folder does not exist"), (os.path.join(file, "out"), "cannot be written"),
                  (self.path("o" * 300), "cannot be written")]
        if os.path.isdir("/sys/kernel"):
            places.append(("/sys/kernel/out", "cannot be written"))
        for command in self.commands():
            for place, pattern in places:
                with self.subTest(verb=command[0], place=place[-40:]):
                    self.refused(FAILED, pattern, *command, place)
                    self.refused(FAILED, pattern, *command, place, "--force")

    def test_a_limit_on_file_size_leaves_nothing(self):
        limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))}
        for command in self.commands():
            with self.subTest(verb=command[0]):
                self.refused(FAILED, "out cannot be written: File too large", *command, self.path("out"), **limited)
                kept = self.write("out", b"precious")
                self.refused(FAILED, "File too large", *command, kept, "--force", **limited)
                self.assertEqual(self.read("out"), b"precious")
                os.remove(kept)

    def test_a_full_disk_leaves_nothing(self):
        mount = self.path("small")
        os.mkdir(mount)
        tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", mount], capture_output=True)
        if tried.returncode != 0:
            raise unittest.SkipTest("a tmpfs cannot be mounted here")
        try:
            model = self.model(widths=(64, 100, 10))
            for command in (("compress", model, "--ratio", "2", "-q", *QUICK), ("expand", self.compressed("in.gbz"))):
                with self.subTest(verb=command[0]):
                    self.refused(FAILED, "No space left", *command, "-o", os.path.join(mount, "out"))
        finally:
            subprocess.run(["umount", mount], check=True)

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([harness.EXECUTABLE, "inspect", self.model()], stdout=full, stderr=subprocess.PIPE,
                                  text=True, env=harness.clean_environment(), timeout=harness.TIMEOUT)
        self.assertEqual(done.returncode, FAILED, done)
        self.assertRegex(done.stderr, "could not be written to standard output")


class Results(harness.CliTest):
    def test_printed_bytes_are_those_on_disk(self):
        model, out = self.model(), self.path("x.gbz")
        result = self.succeed("compress", model, "--arch", "mlp", "--data", "digits", "--ratio", "2", "-o", out, *QUICK)
        size, original = os.path.getsize(out), os.path.getsize(model)
        self.assertRegex(result.out, rf"bytes on disk +{original:,} +{size:,}\n")
        self.assertRegex(result.out, rf"ratio +1.00 +{original / size:.2f}\n")
        self.assertRegex(result.out, r"test accuracy +\d+\.\d\d % +\d+\.\d\d %\n")
        self.assertIn("written to " + out, result.out)
        result = self.succeed("expand", out, "-o", self.path("x.safetensors"))
        self.assertIn(f"4 tensors, {os.path.getsize(self.path('x.safetensors')):,} bytes", result.out)

    def test_json_is_one_object(self):
        model, out = self.model(), self.path("x.gbz")
        done = self.succeed("compress", model, "--arch", "mlp", "--data", "digits", "--ratio", "2", "-o", out, "--json",
                            *QUICK).json
        self.assertEqual(done["output_bytes"], os.path.getsize(out))
        self.assertEqual(done["input_bytes"], os.path.getsize(model))
        self.assertEqual(done["metric"]["name"], "accuracy_percent")
        self.assertAlmostEqual(done["metric"]["drop"], done["metric"]["before"] - done["metric"]["after"])
        self.assertEqual(done["settings"]["schema"], 1)
        listed = self.succeed("inspect", out, "--json").json
        self.assertEqual((listed["arch"], listed["identity"], listed["file_bytes"]),
                         ("mlp", done["identity"], done["output_bytes"]))
        # The file remembers what differs from the defaults, under the same names.
        kept = {k: v for k, v in listed["settings"].items() if k != "version"}
        self.assertEqual(kept["train"]["epochs"], 1)
        self.assertNotIn("optim", kept)
        for section, keys in kept.items():
            for key, value in keys.items():
                self.assertEqual(done["settings"][section][key], value)
        self.assertEqual({t["name"]: t["shape"] for t in listed["tensors"]},
                         {"0.weight": [32, 64], "0.bias": [32], "2.weight": [10, 32], "2.bias": [10]})
        self.assertEqual(sum(t.get("parameters", 0) for t in listed["tensors"]), listed["gnet_parameters"])
        measured = self.succeed("eval", out, "--data", "digits", "--json").json
        self.assertEqual(measured["metric"], {"name": "accuracy_percent", "value": done["metric"]["after"],
                                              "top5": done["metric"]["top5_after"]})
        expanded = self.succeed("expand", out, "-o", self.path("x.safetensors"), "--json").json
        self.assertEqual(expanded["output_bytes"], os.path.getsize(self.path("x.safetensors")))
        measured = self.succeed("eval", self.path("x.safetensors"), "--arch", "mlp", "--data", "digits", "--json").json
        self.assertEqual(measured["metric"]["value"], done["metric"]["after"])
        for more in (["inspect", model], ["plugins"], ["doctor"]):
            self.assertIsInstance(self.run_cli(*more, "--json").json, dict)

    def test_inspect_says_what_every_tensor_lost(self):
        model, out = self.model(), self.path("x.gbz")
        made = self.succeed("compress", model, "-o", out, "--ratio", "8", "--json").json["tensors"]
        seen = self.succeed("inspect", out, "--against", model, "--json").json["tensors"]
        for key in ("name", "shape", "error", "energy"):
            self.assertEqual([t[key] for t in seen], [t[key] for t in made], key)
        self.assertGreater(max(t["error"] for t in seen), 0.001)
        self.assertRegex(self.succeed("inspect", out, "--against", model).out, r"bits per weight +error\n")
        self.assertNotIn("error", self.succeed("inspect", out, "--json").json["tensors"][0])
        self.refused(USAGE, "--against compares a .gbz", "inspect", model, "--against", model)

    def test_what_lost_its_energy_is_told_before_anything_is_written(self):
        model, out = self.model(), self.path("x.gbz")
        # One step of fitting leaves a g-net where it began, next to zero.
        made = ("--arch", "mlp", "--data", "digits", "--epochs", "0", "--force", "-o", out, "--max-bytes", "2k",
                "--mode", "generated", "--set", "gnet.generator=gnet")
        result = self.succeed("compress", model, *made, "--json", environment=harness.fit_steps(1))
        self.assertRegex(result.err, r"warning: 1 of 4 tensors keep less than half of their energy \(sum of "
                         r"squares\): 0\.weight keeps \d+ %")
        least = min(result.json["tensors"], key=lambda t: t["energy"])
        self.assertEqual(least["name"], "0.weight")
        self.assertLess(least["energy"], 0.5)
        self.assertNotIn("warning", self.succeed("compress", model, *made, "-q").err)
        exact = ("--arch", "mlp", "--data", "digits", "--force", "-o", out, "--epochs", "0", "--max-bytes", "4k")
        self.assertNotIn("warning", self.succeed("compress", model, *exact).err)

    def test_trained_files_say_how_every_tensor_is_stored(self):
        model, out = self.model(), self.path("x.gbz")
        common = ("--data", "digits", "--epochs", "1", "--max-bytes", "2k", "-q", "-o", out, "--force")
        trained = self.succeed("compress", model, "--arch", "mlp", *common, "--json").json["tensors"]
        seen = self.succeed("inspect", out, "--against", model, "--json").json["tensors"]
        self.assertEqual([(t["name"], t["error"]) for t in trained], [(t["name"], t["error"]) for t in seen])
        self.assertLessEqual(sum(t["bytes"] for t in trained), os.path.getsize(out))
        self.assertRegex(self.succeed("compress", model, "--arch", "mlp", *common, "-v").out,
                         r"tensor +shape +stored +profile +step +bits +bytes +seconds +error\n")
        scratch = self.succeed("compress", "--from-scratch", "--arch", "mlp:64-32-10", *common, "--json").json
        self.assertEqual([t["error"] for t in scratch["tensors"]], [None] * 4)

    def test_without_data_nothing_is_evaluated(self):
        result = self.succeed("compress", self.model(), "-o", self.path("x.gbz"), "--ratio", "2", *QUICK)
        self.assertRegex(result.out, r"test quality +not evaluated \(no data\)")
        self.assertRegex(result.err, r"(?m)^fit +100 %")
        self.assertNotRegex(result.err, r"\r|\x1b")

    def test_a_missed_target_still_writes_the_file(self):
        out = self.path("x.gbz")
        result = self.run_cli("compress", self.model(), "-o", out, "--ratio", "60", "-q", *QUICK)
        self.assertEqual(result.status, TARGET, result)
        self.one_message(result, "the target was not reached: the target is \\d+ bytes")
        self.assertRegex(result.out, rf"bytes on disk +\S+ +{os.path.getsize(out):,}\n")
        self.succeed("expand", out, "-o", self.path("x.safetensors"))

    def test_the_same_call_gives_the_same_bytes(self):
        model = self.model()
        common = ("compress", model, "--arch", "mlp", "--data", "digits", "--ratio", "2", "-q", *QUICK)
        for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
            self.succeed(*common, "--seed", seed, "-o", self.path(name))
        self.assertEqual(self.read("a"), self.read("b"))
        self.assertNotEqual(self.read("a"), self.read("c"))
        for name in ("d", "e"):
            self.succeed("expand", self.path("a"), "-o", self.path(name))
        self.assertEqual(self.read("d"), self.read("e"))

    def test_folders_and_shards_count_all_their_bytes(self):
        os.mkdir(self.path("m"))
        tensors = harness.mlp((64, 32, 10))
        sizes = 0
        for part, names in (("1", ["0.weight", "0.bias"]), ("2", ["2.weight", "2.bias"])):
            file = self.write(f"m/{part}.safetensors", harness.safetensors({n: tensors[n] for n in names}))
            sizes += os.path.getsize(file)
        result = self.succeed("compress", self.path("m"), "--arch", "mlp", "--ratio", "2", "-q", "--json", "-o",
                              self.path("x.gbz"), *QUICK)
        self.assertEqual(result.json["input_bytes"], sizes)
        self.assertEqual(self.succeed("inspect", self.path("m"), "--json").json["file_bytes"], sizes)


harness.main()
