"""--statistics: calibration under second-order statistics from a file."""

import json
import struct
import unittest

import harness
from harness import INPUT, USAGE


def moment(n, noise):
    """x = (a, a, ..., a) + noise: errors of neighboring columns can cancel."""
    values = [1.0 + (noise if i == j else 0) for i in range(n) for j in range(n)]
    return "F32", [n, n], struct.pack(f"<{n * n}f", *values)


class Statistics(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.tensors = harness.mlp((64, 48, 40, 10))
        self.model = self.write("m.safetensors", harness.safetensors(self.tensors))

    def statistics(self, tensors, name="s.safetensors"):
        return self.write(name, harness.safetensors(tensors))

    def weights(self, file, name):
        self.succeed("expand", file, "-o", self.path("e.safetensors"), "--force")
        with open(self.path("e.safetensors"), "rb") as expanded:
            length, = struct.unpack("<Q", expanded.read(8))
            entry, data = json.loads(expanded.read(length))[name], expanded.read()
        return struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f",
                             data[slice(*entry["data_offsets"])])

    def row_errors(self, file):
        """Mean square of the sums of a row's errors, which such inputs see."""
        before = struct.unpack("<3072f", self.tensors["0.weight"][2])
        after = self.weights(file, "0.weight")
        sums = [sum(after[r * 64 + j] - before[r * 64 + j] for j in range(64)) for r in range(48)]
        return sum(s * s for s in sums) / 48

    def test_errors_of_a_row_cancel(self):
        file = self.statistics({"0.weight.input_moment": moment(64, 0.05)})
        self.succeed("compress", self.model, "--max-bytes", "4000", "-o", self.path("plain.gbz"))
        self.succeed("compress", self.model, "--max-bytes", "4000", "--statistics", file, "-o", self.path("tuned.gbz"))
        self.assertLess(self.row_errors(self.path("tuned.gbz")), 0.2 * self.row_errors(self.path("plain.gbz")))

    def test_wrong_statistics_are_refused(self):
        out = self.path("x.gbz")
        cases = [
            (USAGE, {"1.weight.input_moment": moment(64, 1)}, "no such tensor"),
            (INPUT, {"0.weight.input_moment": moment(63, 1)}, r"needs \[64, 64\]"),
            (USAGE, {"0.weight": moment(64, 1)}, "is none of NAME.input_moment"),
            (INPUT, {"0.weight.row_importance": ("F32", [48], struct.pack("<48f", *[-1.0] * 48))}, "negative importance"),
        ]
        for status, tensors, words in cases:
            file = self.statistics(tensors)
            self.refused(status, words, "compress", self.model, "--ratio", "8", "--statistics", file, "-o", out)

    def test_needs_a_size(self):
        file = self.statistics({"0.weight.input_moment": moment(64, 1)})
        for options in (["--max-error", "0.01"], ["--lossless"]):
            self.refused(USAGE, "statistics need a size", "compress", self.model, *options, "--statistics", file,
                         "-o", self.path("x.gbz"))


if __name__ == "__main__":
    unittest.main()
