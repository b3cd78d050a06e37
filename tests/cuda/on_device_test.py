"""tests/cuda/on_device where there is no GPU: one sentence, a status of its own, nothing built or written."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_device")


class OnDevice(unittest.TestCase):
    def run_with(self, tools):
        """In a folder of its own; PATH holds nothing but `tools`, {name: shell script}."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bin")
            os.mkdir(path)
            for name, script in tools.items():
                with open(os.path.join(path, name), "w") as file:
                    file.write("#!/bin/sh\n" + script)
                os.chmod(file.name, 0o755)
            environment = {k: v for k, v in os.environ.items() if k != "NVCC"} | {"PATH": path}
            done = subprocess.run([sys.executable, "-B", SCRIPT, "--build", os.path.join(folder, "build")], cwd=folder,
                                  env=environment, capture_output=True, text=True)
            self.assertEqual(os.listdir(folder), ["bin"])
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.returncode, done.stderr

    def test_without_a_driver(self):
        status, said = self.run_with({})
        self.assertEqual(status, 77)
        self.assertIn("no GPU here: there is no nvidia-smi", said)

    def test_with_a_driver_that_finds_none(self):
        status, said = self.run_with({"nvidia-smi": "echo No devices were found\nexit 6\n"})
        self.assertEqual(status, 77)
        self.assertIn("no GPU here: nvidia-smi says No devices were found", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
