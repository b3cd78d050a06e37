"""The verb bench, and how much memory a step and an expansion take."""

import os
import subprocess

import harness
from harness import USAGE

MIB = 1 << 20


class Bench(harness.CliTest):
    def engine(self, *arguments):
        return self.succeed("bench", "engine", "--seconds", "0.02", "--threads", "1", *arguments)

    def test_json(self):
        report = self.engine("--json", "--shape", "250x120", "--shape", "pnas-layer").json
        self.assertEqual(report["threads"], 1)
        self.assertEqual(report["kernel"], "fused")
        self.assertRegex(report["isa"], r"\A[A-Z][A-Z0-9_]+\Z")
        self.assertGreater(report["fma_per_second"], 1e8)
        self.assertGreater(report["copy_bytes_per_second"], 1e8)
        layer, deep = report["shapes"]
        self.assertEqual((layer["shape"], layer["gnet"], layer["weights"], layer["tiles"], layer["gnet_parameters"]),
                         ("250x120", "14-32-1", 30000, 6, 6 * 513))
        self.assertEqual((deep["shape"], deep["gnet"], deep["tiles"]), ("pnas-layer", "20-30-10-1", 1))
        for row in report["shapes"]:
            for part in ("forward", "backward", "step"):
                self.assertGreater(row[part]["weights_per_second"], 1e4, (row["shape"], part))
                self.assertGreater(row[part]["fma_fraction"], 0)
                self.assertGreater(row[part]["copy_fraction"], 0)

    def test_table(self):
        text = self.engine("--shape", "mnist-mlp").out
        self.assertRegex(text, r"\A1 thread, [A-Z0-9_]+, kernel fused\nmachine: ")
        self.assertRegex(text, r"\nmnist-mlp +14-32-1 +283,264 ")

    def test_wrong_input(self):
        cases = [
            ([], "bench needs engine"),
            (["motor"], "bench has no target named motor"),
            (["engin"], "did you mean engine"),
            (["scaling"], "bench scaling was removed; the page docs/guides/several-machines.md"),
            (["engine", "--shape", "mnist-mpl"], "shape mnist-mpl is not known; did you mean mnist-mlp"),
            (["engine", "--shape", "0x4"], "a layer of 0x4 is not possible"),
            (["engine", "--shape", "2x2"], "smaller than its g-net"),
            (["engine", "--threads", "0"], "--threads must be a number from 1 to 1024, not 0"),
            (["engine", "--threads", "two"], "--threads must be"),
            (["engine", "--seconds", "nan"], "--seconds must be"),
            (["engine", "--seconds", "-1"], "--seconds must be"),
            (["engine", "--isa", "Z80"], "instruction set Z80 is not one of this processor's"),
            (["engine", "--kernel", "quick", "--shape", "100x100"], "kernel quick is not known"),
        ]
        for arguments, pattern in cases:
            with self.subTest(arguments=arguments):
                self.refused(USAGE, pattern, "bench", *arguments)

    def test_a_step_takes_little_memory_at_any_size(self):
        report = self.engine("--json", "--shape", "100x100", "--shape", "1000x1000", "--shape", "4000x4000").json
        for row in report["shapes"]:
            if row["step_extra_bytes"] < 0:
                self.skipTest("the system does not tell the peak of a process")
            self.assertLessEqual(row["step_extra_bytes"], 64 * MIB + row["bank_bytes"], row["shape"])


class Expansion(harness.CliTest):
    def peak(self, layers, rows, cols):
        """Peak resident bytes of the expansion of that many layers."""
        subprocess.run([harness.FIXTURES, self.folder, str(layers), str(rows), str(cols)], check=True)
        child = subprocess.Popen([harness.EXECUTABLE, "expand", self.path("layers.gbz"), "-o", self.path("out"), "-q"],
                                 stdout=subprocess.DEVNULL, env=harness.clean_environment(), cwd=self.folder)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        self.assertGreater(os.path.getsize(self.path("out")), 4 * layers * rows * cols)
        for name in ("layers.gbz", "out"):
            os.remove(self.path(name))
        return usage.ru_maxrss * 1024

    def test_holds_one_layer_at_a_time(self):
        one, many = self.peak(1, 1000, 1000), self.peak(40, 1000, 1000)
        # 39 more layers are 156 MB of weights; what may grow is the file, 2 MB, its view, and freed layers
        # of 4 MB that malloc keeps: three to six of them, as small allocations happen to lie.
        self.assertLess(many - one, 32 * MIB)


harness.main()
