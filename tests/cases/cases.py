"""What tests of cases share: the program's harness, and the inputs of public bug reports where a checkout has them.

A test of this folder makes its own inputs; `Given` runs the scripts of the folder ../shared/cases beside the repository as
well, each of which writes its input into a folder, and skips where it is absent."""

import glob
import os
import subprocess
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import harness  # noqa: E402

GIVEN = os.path.join(os.path.dirname(ROOT), "shared", "cases")


def needs(*modules):
    """Skips a test class or function where a Python module is missing, and names it."""
    missing = []
    for name in modules:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return unittest.skipIf(missing, f"{sys.executable} has no {', '.join(missing)}: scripts/setup --tests installs it")


class Given(harness.CliTest):
    """Runs one script of the given cases."""

    def given(self, number, *arguments):
        """The folder that script `number` ("24") has written its input into."""
        found = glob.glob(os.path.join(GIVEN, number + "_*.py"))
        if not found:
            self.skipTest(f"{GIVEN} has no script {number}_*.py")
        folder = self.path("case")
        done = subprocess.run([sys.executable, "-B", found[0], folder, *arguments], capture_output=True, text=True,
                              timeout=harness.TIMEOUT)
        if done.returncode and "ModuleNotFoundError" in done.stderr:
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder
