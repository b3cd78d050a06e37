"""Verbs that need no LibTorch do not load it, and start in no time. GBCOMPRESS_PORTABLE=1: the program was built
without LibTorch."""

import os
import re
import resource
import subprocess
import unittest

import harness
from harness import FAILED

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
SANITIZED = os.environ.get("GBCOMPRESS_SANITIZED") == "1"
ROWS = 4740  # of 4740 x 4740 float32: 90 MB


class Startup(harness.CliTest):
    def loaded(self, *arguments, status=harness.DONE):
        """Names of all libraries that the dynamic linker opened."""
        log = self.path("ld")
        result = self.run_cli(*arguments, environment={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": log})
        self.assertEqual(result.status, status, result)
        names = set()
        for name in os.listdir(self.folder):
            if name.startswith("ld."):
                with open(self.path(name), errors="replace") as file:
                    names |= set(re.findall(r"file=(?:\S*/)?([^/\s]+\.so[.0-9]*)", file.read()))
                os.remove(self.path(name))
        self.assertIn("libgbcompress_portable.so.0", names, "the linker's log was not understood")
        return names

    def light(self, *arguments, **more):
        names = self.loaded(*arguments, **more)
        heavy = {name for name in names if re.match(r"lib(torch|c10|gbcompress(_verbs)?\.so)", name)}
        self.assertEqual(heavy, set(), arguments)

    def big_model(self):
        entry = '{"w":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}' % (ROWS, ROWS, 4 * ROWS * ROWS)
        path = self.write("big.safetensors", len(entry).to_bytes(8, "little") + entry.encode())
        os.truncate(path, 8 + len(entry) + 4 * ROWS * ROWS)
        return path

    def test_light_verbs_do_not_load_libtorch(self):
        model = self.model()
        subprocess.run([harness.FIXTURES, self.folder], check=True)
        coded = self.path("coded.gbz")
        for arguments in (["--help"], ["--version"], ["compress", "--help"], ["eval", "-h"],
                          ["compress", "--help", "-v"], ["inspect", model], ["inspect", model, "--json"],
                          ["inspect", coded], ["compare", coded, coded], ["completion", "bash"],
                          ["man"], ["plugins", "new", "my_layer", "-o", self.path("mine")],
                          ["expand", coded, "-o", self.path("x.safetensors")]):
            with self.subTest(arguments=arguments):
                self.light(*arguments)
        self.light("inspect", self.path("none"), status=harness.INPUT)
        self.light("compres", status=harness.USAGE)

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_heavy_verbs_do(self):
        names = self.loaded("doctor")
        for name in ("libtorch_cpu.so", "libc10.so", "libgbcompress.so.0", "libgbcompress_verbs.so"):
            self.assertIn(name, names)
        self.assertIn("libtorch_cpu.so", self.loaded("inspect", self.model(), "--plan"))

    @unittest.skipUnless(PORTABLE, "this program was built with LibTorch")
    def test_heavy_verbs_say_what_is_missing(self):
        self.refused(FAILED, "this needs LibTorch.*built without", "eval", self.model(), "--data", "digits")
        self.refused(FAILED, "this needs LibTorch.*built without", "inspect", self.model(), "--plan")

    def test_a_type_of_a_plugin_is_no_light_work(self):
        subprocess.run([harness.FIXTURES, self.folder], check=True)
        status, message = (FAILED, "LibTorch") if PORTABLE else (harness.PLUGIN, "ghost")
        self.refused(status, message, "expand", self.path("ghost.gbz"), "-o", self.path("ghost.safetensors"))

    @unittest.skipIf(SANITIZED, "a sanitizer's start is not ours")
    def test_starting_takes_little_processor_time(self):
        model = self.big_model()
        for arguments in (["inspect", model], ["--help"]):
            with self.subTest(arguments=arguments):
                seconds = []
                for _ in range(12):
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    self.succeed(*arguments)
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
                print(f"{arguments[0]}: {1000 * min(seconds):.1f} ms of processor time at best", flush=True)
                # The least of many: a busy machine adds to the others.
                self.assertLess(min(seconds), 0.030, seconds)


if __name__ == "__main__":
    harness.main()
