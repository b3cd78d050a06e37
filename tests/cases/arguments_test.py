"""Targets that are no compression, misspelled keys, outputs that are links or devices, and what is said of a run before and
after it."""

import os
import resource
import stat
import subprocess
import threading
import unittest

import cases  # noqa: F401  (finds the harness)
from cases import harness

DIGITS = os.path.join(cases.ROOT, "samples/digits/mlp-64-128-64-10.safetensors")
EXACT = "use --mode exact and no target to keep every bit"


class Targets(harness.CliTest):
    def brain(self):
        """A bfloat16 matrix."""
        raw = b"".join(harness.floats(1, seed=i)[2:] for i in range(4096))
        return self.write("brain.safetensors", harness.safetensors({"w": ("BF16", [64, 64], raw)}))

    def test_a_ratio_of_one_or_less_is_refused_and_names_the_exact_mode(self):
        model = self.model()
        for ratio in ("1", "0.5", "1x", "1:1", "0.999"):
            shown = ratio.removesuffix("x").removesuffix(":1") if ratio != "1:1" else "1"
            self.refused(harness.USAGE, f"--ratio must be a number above 1, .*, not {shown}.*; {EXACT}", "compress", model,
                         "--ratio", ratio, "-o", self.path("m.gbz"))
        self.refused(harness.USAGE, f"--set: target.ratio must be a number above 1.*; {EXACT}", "compress", model, "--set",
                     "target.ratio=0.75", "-o", self.path("m.gbz"))
        self.write("r.toml", "[target]\nratio = 1.0\n")
        self.refused(harness.USAGE, f"r.toml:2:9: target.ratio must be .* above 1.*; {EXACT}", "compress", model, "--config",
                     self.path("r.toml"), "-o", self.path("m.gbz"))
        self.refused(harness.USAGE, EXACT, "compress", model, "-o", self.path("m.gbz"),
                     environment={"GBCOMPRESS_TARGET_RATIO": "0.9"})

    def test_bits_of_the_model_itself_are_refused(self):
        for model, most in ((self.model(widths=(64, 48, 16)), 32), (self.brain(), 16)):
            for bits in (most, most + 0.5, 64):
                self.refused(harness.USAGE, f"--bits must be below the {most} bits .*, got {bits}; {EXACT}", "compress",
                             model, "--bits", str(bits), "-o", self.path("m.gbz"))
            self.succeed("compress", model, "--bits", str(most / 2 - 1), "-o", self.path(f"of-{most}.gbz"))

    @unittest.skipIf(harness.PORTABLE, "needs LibTorch")
    def test_data_do_not_change_what_a_target_is(self):
        self.refused(harness.USAGE, "--bits must be below the 32 bits", "compress", DIGITS, "--arch", "mlp", "--data", "digits",
                     "--epochs", "0", "--bits", "32", "-o", self.path("m.gbz"))


class Keys(harness.CliTest):
    def test_unknown_keys_are_named_together(self):
        self.write("k.toml", "[rate]\nmeasur = 'mse'\nlambda = 1\n[train]\nepoch = 3\n")
        result = self.refused(
            harness.USAGE, "4 keys are unknown:", "compress", self.model(), "--config", self.path("k.toml"), "--set", "lamda=3",
            "--set", "train.batch=8", "--set", "seeed=1", "-o", self.path("m.gbz"))
        lines = result.err.splitlines()
        self.assertRegex(lines[1], r"^  .*k\.toml:2:1: unknown key rate\.measur; did you mean rate\.measure\?$")
        self.assertRegex(lines[2], r"^  .*k\.toml:5:1: unknown key train\.epoch; did you mean train\.epochs\?$")
        self.assertEqual(lines[3], "  --set: unknown key lamda; did you mean rate.lambda?")
        self.assertEqual(lines[4], "  --set: unknown key seeed; did you mean train.seed?")


class Outputs(harness.CliTest):
    def test_links_are_followed(self):
        model = self.model()
        os.mkdir(self.path("store"))
        link = self.path("m.gbz")
        os.symlink("store/real.gbz", link)  # nothing is there yet
        self.succeed("compress", model, "--ratio", "4", "-o", link)
        before = self.read("store/real.gbz")
        self.refused(harness.USAGE, "m.gbz exists; use --force", "compress", model, "--ratio", "8", "-o", link)
        self.succeed("compress", model, "--ratio", "8", "-o", link, "--force")
        self.assertTrue(os.path.islink(link))
        self.assertEqual(os.listdir(self.path("store")), ["real.gbz"])
        self.assertLess(len(self.read("store/real.gbz")), len(before))
        os.symlink("around.gbz", self.path("around.gbz"))
        self.refused(harness.FAILED, "around.gbz .*link", "compress", model, "--ratio", "4", "-o", self.path("around.gbz"))

    def test_devices_and_pipes_get_the_bytes(self):
        model = self.model()
        self.succeed("compress", model, "--ratio", "4", "-o", self.path("m.gbz"))
        before = os.stat("/dev/null")
        self.succeed("compress", model, "--ratio", "4", "-o", "/dev/null", "--report", "/dev/null")
        self.succeed("expand", self.path("m.gbz"), "-o", "/dev/null")
        after = os.stat("/dev/null")
        self.assertEqual((before.st_ino, stat.S_IFMT(before.st_mode)), (after.st_ino, stat.S_IFMT(after.st_mode)))
        self.assertEqual([name for name in os.listdir("/dev") if name.startswith("null.")], [])
        pipe, got = self.path("pipe"), []
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: got.append(self.read("pipe")))
        reader.start()
        self.succeed("compress", model, "--ratio", "4", "-o", pipe)
        reader.join(20)
        self.assertEqual(got, [self.read("m.gbz")])

    def test_standard_output_by_its_path(self):
        model = self.model()
        for output in (["-o", "-"], ["-o", "/dev/stdout"], ["--output=/dev/stdout"], ["-o/dev/fd/1"]):
            with self.subTest(output), open(self.path("out"), "wb") as file:
                done = subprocess.run([harness.EXECUTABLE, "compress", model, "--ratio", "4", *output], stdout=file,
                                      stderr=subprocess.PIPE, env=harness.clean_environment(), timeout=harness.TIMEOUT)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.succeed("expand", self.path("out"), "-o", self.path("back.safetensors"), "--force")
            self.assertIn(b"ratio", done.stderr)


@unittest.skipIf(harness.PORTABLE, "needs LibTorch")
class Runs(harness.CliTest):
    MLP = ("compress", DIGITS, "--arch", "mlp", "--data", "digits")

    def planned(self, *arguments):
        result = self.succeed("compress", *arguments, "--data", "digits", "--dry-run", "-o", self.path("m.gbz"))
        return dict(line.rsplit(None, 1) for line in result.out.splitlines() if line.startswith(("learning", "first")))

    def test_a_dry_run_shows_the_learning_rate_that_is_used(self):
        own = ("--from-scratch", "--arch", "mlp:64-32-10", "--epochs", "2")
        gnets = self.planned(DIGITS, "--arch", "mlp", "--mode", "generated", "--ratio", "10", "--set", "optim.lr=0.0123")
        self.assertEqual(gnets, {"learning rate": "0.0123"})
        plain = self.planned(*own, "--mode", "exact", "--strategy", "dtp", "--set", "optim.plain_lr=0.0456")
        self.assertEqual(plain, {"learning rate": "0.0456"})
        trained = self.planned(*own, "--set", "rate.lambda=0.02", "--set", "rate.lr=0.0078")
        self.assertEqual(trained["learning rate"], "0.0078")
        self.assertIn("first lambda", trained)

    def test_errors_of_trained_weights_are_explained(self):
        self.succeed(*self.MLP, "--set", "rate.lambda=0.05", "--epochs", "4", "-o", self.path("t.gbz"))
        result = self.succeed("inspect", self.path("t.gbz"), "--against", DIGITS)
        self.assertRegex(result.out, "errors above 0.5 are those of weights that data moved .*compare MODEL FILE --data D")
        self.assertIn("data moved", self.succeed("inspect", self.path("t.gbz"), "--against", DIGITS, "--json").json["note"])
        self.succeed("compress", DIGITS, "--ratio", "8", "-o", self.path("w.gbz"))
        self.assertNotIn("data moved", self.succeed("inspect", self.path("w.gbz"), "--against", DIGITS).out)

    def test_a_disk_that_takes_no_checkpoint_is_a_warning(self):
        """Files are limited to less than a checkpoint, and to more than the output."""
        run = (*self.MLP, "--set", "rate.lambda=0.02", "--epochs", "2", "--set", "checkpoint.every_steps=10")
        limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))}
        result = self.succeed(*run, "--checkpoint", self.path("kept"), "-o", self.path("m.gbz"), **limited)
        self.assertEqual(result.err.count("no checkpoint could be saved"), 1, result)
        self.assertRegex(result.err, "warning: no checkpoint .*File too large.*; the run continues without it")
        whole = self.succeed(*run, "--checkpoint", self.path("all"), "-o", self.path("whole.gbz"))
        self.assertNotIn("no checkpoint", whole.err)
        self.assertEqual(self.read("m.gbz"), self.read("whole.gbz"))

    def test_a_full_disk_is_a_warning(self):
        place = self.path("disk")
        os.mkdir(place)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no disk can be mounted: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        result = self.succeed(*self.MLP, "--set", "rate.lambda=0.02", "--epochs", "1", "--set", "checkpoint.every_steps=10",
                              "--checkpoint", os.path.join(place, "kept"), "-o", self.path("m.gbz"))
        self.assertRegex(result.err, "warning: no checkpoint .*No space left on device.*; the run continues without it")


if __name__ == "__main__":
    harness.main()
