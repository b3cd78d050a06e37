"""doctor: in every installation, with LibTorch and without. GBCOMPRESS_PORTABLE=1: the program was built without."""

import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import DONE, FAILED

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
EVERYWHERE = ("gbcompress", "compiler", "Boost", "zstd", "processor", "threads", "temporary files", "works here")


class Doctor(harness.CliTest):
    def checks(self, result):
        for name in EVERYWHERE:
            self.assertIn(name, [check["name"] for check in result.json["checks"]])
        return {check["name"]: check for check in result.json["checks"]}

    def without_its_module(self, environment=None, content=None):
        """doctor of a copy of the program that lies apart from its module."""
        os.makedirs(self.path("apart/bin"), exist_ok=True)
        shutil.copy(harness.EXECUTABLE, self.path("apart/bin/gbcompress"))
        libraries = subprocess.run(["ldd", harness.EXECUTABLE], capture_output=True, text=True, check=True).stdout
        folder = os.path.dirname(re.search(r"=> (\S*libgbcompress_portable\S*)", libraries)[1])
        if content is not None:
            os.makedirs(self.path("apart/lib/gbcompress"), exist_ok=True)
            self.write("apart/lib/gbcompress/libgbcompress_verbs.so", content)
        done = subprocess.run([self.path("apart/bin/gbcompress"), "doctor", "--json"], capture_output=True, text=True, timeout=60,
                              env=harness.clean_environment({"LD_LIBRARY_PATH": folder, **(environment or {})}))
        return harness.Result(done.returncode, done.stdout, done.stderr)

    def test_the_machine(self):
        checks = self.checks(self.run_cli("doctor", "--json"))
        self.assertRegex(checks["gbcompress"]["value"], r"\A\d+\.\d+\.\d+\Z")
        usable = len(os.sched_getaffinity(0))
        self.assertTrue(checks["threads"]["value"].startswith(f"{usable} of "), checks["threads"])
        with open("/proc/cpuinfo") as file:
            flags = file.read()
        for name, flag in (("AVX2", "avx2"), ("AVX-512F", "avx512f"), ("FMA", "fma")):
            self.assertEqual(re.search(rf"\b{flag}\b", flags) is not None,
                             re.search(rf"{name}\b", checks["processor"]["value"]) is not None, checks["processor"])
        self.assertIn("expand", checks["works here"]["value"])

    def test_lines_are_short(self):
        for line in self.run_cli("doctor").out.splitlines():
            # A value with a path is not broken.
            self.assertTrue(len(line) <= 100 or "/" in line, line)

    def test_a_broken_folder(self):
        environment = {"TMPDIR": self.path("none")}
        result = self.run_cli("doctor", "--json", environment=environment)
        self.assertEqual(result.status, FAILED, result)
        self.assertFalse(result.json["ok"])
        check = self.checks(result)["temporary files"]
        self.assertEqual((check["state"], check["ok"]), ("broken", False))
        self.assertIn("none", check["problem"])
        self.assertRegex(self.run_cli("doctor", environment=environment).out, "BROKEN +temporary files")

    @unittest.skipUnless(PORTABLE, "this program was built with LibTorch")
    def test_without_libtorch_it_says_what_is_missing(self):
        result = self.run_cli("doctor", "--json")
        self.assertEqual((result.status, result.err), (DONE, ""), result)
        self.assertTrue(result.json["ok"])
        checks = self.checks(result)
        self.assertEqual((checks["LibTorch"]["state"], checks["LibTorch"]["ok"]), ("missing", False))
        self.assertIn("scripts/build", checks["LibTorch"]["install"])
        for verb in ("eval", "sweep", "bench"):
            self.assertIn(verb, checks["training"]["value"])
            self.assertNotIn(verb, checks["works here"]["value"])
        self.assertRegex(self.run_cli("doctor").out, r"(?m)^missing +LibTorch +not part of this build$")

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_with_libtorch(self):
        result = self.run_cli("doctor", "--json")
        self.assertEqual((result.status, result.json["ok"]), (DONE, True), result)
        checks = self.checks(result)
        self.assertTrue({check["state"] for check in result.json["checks"]} == {"ok"}, result)
        self.assertEqual(checks["LibTorch's threads"]["value"], "1")  # as OMP_NUM_THREADS says
        self.assertIn("plugin linear", checks)

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_a_module_that_cannot_be_opened(self):
        for content in (None, b"not a library", b"\x7fELF"):
            with self.subTest(content=content):
                result = self.without_its_module(content=content)
                self.assertEqual((result.status, result.err), (FAILED, ""), result)
                self.assertFalse(result.json["ok"])
                checks = self.checks(result)
                self.assertEqual(checks["LibTorch"]["state"], "broken")
                self.assertIn("libgbcompress_verbs.so cannot be loaded", checks["LibTorch"]["problem"])
                self.assertEqual(checks["training"]["state"], "missing")
                self.assertIn("eval", checks["training"]["value"])

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_another_libtorch(self):
        os.mkdir(self.path("torch"))
        self.write("torch/version.py", "__version__ = '2.10.0'\n")
        result = self.run_cli("doctor", "--json", environment={"GBCOMPRESS_TORCH": self.path("torch")})
        self.assertEqual((result.status, result.err), (FAILED, ""), result)
        self.assertIn("is 2.10.0", self.checks(result)["LibTorch"]["problem"])


if __name__ == "__main__":
    harness.main()
