"""Stopping, and what is shown meanwhile."""

import os
import pty
import re
import signal
import subprocess

import harness
from harness import QUICK


LONG = harness.fit_steps(20_000)


class Signals(harness.CliTest):
    def stop(self, sent, data=()):
        model = self.model()
        before = self.snapshot()
        command = [harness.EXECUTABLE, "compress", model, "--arch", "mlp", "--ratio", "2", "-o", self.path("out.gbz"),
                   "--mode", "generated", *data]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=harness.clean_environment(harness.fit_steps(100_000_000)), cwd=self.folder)
        seen = ""
        try:
            for line in child.stderr:
                seen += line
                if line.startswith("fit "):
                    break
            child.send_signal(sent)
            out, rest = child.communicate(timeout=harness.TIMEOUT)
        finally:
            child.kill()
            child.wait()
        result = harness.Result(child.returncode, out, seen + rest)
        self.assertEqual(result.status, 128 + sent, result)
        self.one_message(result, "stopped on request")
        self.assertEqual(result.out, "", result)
        # The output is not there; a checkpoint is, and says how to go on.
        after = self.snapshot()
        kept = {name: facts for name, facts in after.items() if not name.startswith("out.gbz.checkpoints")}
        self.assertEqual(kept, before, result)
        self.assertTrue(any(name.endswith("/manifest") for name in after), after)
        self.assertIn(" --resume " + self.path("out.gbz.checkpoints"), result.err)

    def interrupted(self, *command):
        """Ctrl-C once the run computes. @return the result"""
        child = subprocess.Popen([harness.EXECUTABLE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=harness.clean_environment(LONG), cwd=self.folder)
        seen = ""
        try:
            for line in child.stderr:
                seen += line
                if re.match(r"fit |train ", line):
                    break
            child.send_signal(signal.SIGINT)
            out, rest = child.communicate(timeout=harness.TIMEOUT)
        finally:
            child.kill()
            child.wait()
        return harness.Result(child.returncode, out, seen + rest)

    def shell(self, command):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=harness.TIMEOUT,
                              env=harness.clean_environment(LONG), cwd=self.folder, stdin=subprocess.DEVNULL)
        return harness.Result(done.returncode, done.stdout, done.stderr)

    def test_the_message_is_the_command_that_continues(self):
        model = self.model("it's a model.safetensors")
        run = ("--arch", "mlp", "--ratio", "2", "--mode", "generated", "-q")
        self.succeed("compress", model, *run, "-o", "whole.gbz", environment=LONG)
        out = "it's $out.gbz"
        run = run[:-1]
        result = self.interrupted("compress", *run, "-o", out, model)
        self.assertEqual(result.status, 128 + signal.SIGINT, result)
        said = re.search(r"(?m)^gbcompress: stopped on request; this continues the run: (.*)$", result.err)
        self.assertIsNotNone(said, result)
        self.assertTrue(said[1].endswith(" --resume 'it'\\''s $out.gbz.checkpoints'"), said[1])
        # The same call says the same, and changes nothing.
        before = self.snapshot()
        again = self.run_cli("compress", *run, "-o", out, model, environment=LONG)
        self.assertEqual(again.status, harness.USAGE, again)
        self.one_message(again, "holds checkpoints of an earlier run; delete the folder, or continue that run: ")
        self.assertIn(said[1], again.err)
        self.assertEqual(self.snapshot(), before)
        self.assertEqual(self.shell(said[1]).status, 0)
        self.assertEqual(self.read(out), self.read("whole.gbz"))
        self.assertFalse(os.path.exists(self.path(out + ".checkpoints")))

    def test_one_of_several_inputs_is_continued_alone(self):
        models = [self.model("a.safetensors"), self.model("b.safetensors")]
        result = self.interrupted("compress", *models, "--arch", "mlp", "--ratio", "2", "--mode", "generated",
                                  "-o", "out/")
        self.assertEqual(result.status, 128 + signal.SIGINT, result)
        self.one_message(result, "this continues the run: .* -o out/a.gbz --resume out/a.gbz.checkpoints\n")
        self.assertIn("0 of 2 files written; failed: ", result.out)
        said = re.search(r"continues the run: (.*)$", result.err, re.M)
        self.assertEqual(self.shell(said[1]).status, 0)
        self.assertEqual(os.listdir(self.path("out")), ["a.gbz"])

    def test_the_same_command_continues_a_sweep(self):
        result = self.interrupted("sweep", self.model(), "--arch", "mlp", "--data", "digits", "--epochs", "2", "--lambdas",
                                  "1", "-o", "a curve")
        self.assertEqual(result.status, 128 + signal.SIGINT, result)
        said = re.search(r"(?m)^gbcompress: stopped on request; this continues the sweep: (.*)$", result.err)
        self.assertIsNotNone(said, result)
        self.assertTrue(said[1].endswith("--lambdas 1 -o 'a curve'"), said[1])
        self.assertEqual(self.shell(said[1]).status, 0)
        self.assertIn("sweep.csv", os.listdir(self.path("a curve")))

    def test_interrupt(self):
        self.stop(signal.SIGINT)

    def test_terminate(self):
        self.stop(signal.SIGTERM, ("--data", "digits"))


class Progress(harness.CliTest):
    def on_terminal(self, **environment):
        """What a terminal is sent."""
        try:
            leader, follower = pty.openpty()
        except OSError as error:
            self.skipTest(f"this machine gives no pseudo-terminal: {error}")
        model = self.model()
        child = subprocess.Popen(
            [harness.EXECUTABLE, "compress", model, "--ratio", "2", "-o", self.path("out.gbz"), "--force", *QUICK],
            stdout=subprocess.PIPE, stderr=follower, env=harness.clean_environment({**harness.FEW_STEPS, **environment}), cwd=self.folder)
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        child.communicate(timeout=harness.TIMEOUT)
        os.close(leader)
        self.assertEqual(child.returncode, 0, shown)
        return shown.decode()

    def test_a_terminal_gets_a_bar(self):
        shown = self.on_terminal(TERM="xterm", NO_COLOR="", CLICOLOR="1")
        self.assertRegex(shown, r"\r\x1b\[Kfit +100 % +\[\x1b\[32m#{24}\x1b\[0m\] +20/20 +\S+/s")
        # It is gone before the end, and before what is said of the file.
        self.assertRegex(shown, r"\r\x1b\[K(gbcompress: warning: [^\r\n]*\r\n)*\Z")

    def test_colour_can_be_refused(self):
        for refusal in ({"NO_COLOR": "1"}, {"CLICOLOR": "0"}):
            shown = self.on_terminal(TERM="xterm", **refusal)
            self.assertIn("[" + "#" * 24 + "]", shown)
            self.assertNotIn("\x1b[32m", shown)
        shown = self.on_terminal(TERM="dumb")
        self.assertNotIn("\x1b", shown)
        self.assertRegex(shown, r"(?m)^fit +100 %")

    def test_plain_lines_name_rate_and_remaining_time(self):
        result = self.succeed("compress", self.model(), "--ratio", "2", "-o", self.path("x.gbz"), "--mode", "generated",
                              environment=harness.fit_steps(1000))
        lines = [line for line in result.err.splitlines() if line.startswith("fit ")]
        self.assertLessEqual(len(lines), 12, result)
        self.assertTrue(re.match(r"fit +100 % +1,000/1,000 +[\d.,]+/s +loss \S+$", lines[-1]), lines[-1])


harness.main()
