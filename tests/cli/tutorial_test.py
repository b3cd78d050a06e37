"""Every command of docs/tutorials/tutorial.md as it is written there, one after another in one shell and one folder.

Where a block of output follows a block of commands, the last command's output looks like it: the same words, other
numbers."""

import os
import re
import subprocess
import unittest

import harness

TUTORIAL = os.path.join(os.path.dirname(__file__), "../../docs/tutorials/tutorial.md")


def blocks():
    """(kind, text) of every fenced block."""
    with open(TUTORIAL) as file:
        return re.findall(r"(?m)^```(\w+)\n(.*?)^```$", file.read(), re.S)


def shape(text):
    """Words in their order, numbers and gaps alike."""
    return " ".join(re.sub(r"[-+]?\d[\d.,]*(e-?\d+)?", "N", text).split())


class Tutorial(harness.CliTest):
    def test_every_command_as_written(self):
        programs = self.path("bin")
        os.mkdir(programs)
        os.symlink(os.path.abspath(harness.EXECUTABLE), os.path.join(programs, "gbcompress"))
        environment = harness.clean_environment({"PATH": programs + os.pathsep + os.environ["PATH"]})
        commands = shown = 0
        last = ""
        for kind, text in blocks():
            if kind == "text":
                self.assertIn(shape(text), shape(last))
                shown += 1
                continue
            self.assertEqual(kind, "sh", text)
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True,
                                  cwd=self.folder, env=environment, timeout=harness.TIMEOUT)
            self.assertEqual(done.returncode, 0, (text, done.stderr))
            last = done.stdout
            commands += len(re.findall(r"(?m)^gbcompress", text))
        self.assertGreater(commands, 7)
        self.assertGreater(shown, 2)
        for made in ("small.gbz", "best.gbz", "report.html", "back.safetensors"):
            self.assertTrue(os.path.getsize(self.path(made)) > 0, made)


if __name__ == "__main__":
    harness.main()
