"""compare: tensors of two files, and with data what both answer."""

import os
import struct
import subprocess
import unittest

import harness
from harness import INPUT, USAGE

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"


class Tensors(harness.CliTest):
    def pair(self):
        """A model and one that differs in every way."""
        first = harness.mlp((8, 4, 2))
        second = dict(first)
        second["0.weight"] = ("F32", [4, 8], struct.pack("<f", 9) + first["0.weight"][2][4:])
        second["2.weight"] = ("F32", [4, 2], first["2.weight"][2])
        del second["0.bias"]
        second["extra<b>"] = ("F32", [1], harness.floats(1))
        return (self.write("a.safetensors", harness.safetensors(first)),
                self.write("b.safetensors", harness.safetensors(second)))

    def test_what_is_missing_what_differs_and_by_how_much(self):
        a, b = self.pair()
        found = self.succeed("compare", a, b, "--json").json
        self.assertEqual([found[k] for k in ("same", "differ", "only_a", "only_b", "other_shape", "other_dtype")],
                         [1, 2, 1, 1, 1, 0])
        self.assertIsNone(found["outputs"])
        tensors = {t["name"]: t for t in found["tensors"]}
        before = struct.unpack("<32f", harness.mlp((8, 4, 2))["0.weight"][2])
        error = (9 - before[0]) ** 2 / sum(x * x for x in before)
        self.assertAlmostEqual(tensors["0.weight"]["error"], error, places=5)
        self.assertTrue(tensors["2.bias"]["same"])
        self.assertIsNone(tensors["0.bias"]["b"])
        self.assertIsNone(tensors["2.weight"]["error"])
        text = self.succeed("compare", a, b).out
        self.assertRegex(text, r"2\.weight +2x4 \| 4x2 +F32 +32\.00 +32\.00 +another shape\n")
        self.assertRegex(text, r"0\.bias .* only in A\n")
        self.assertRegex(text, r"extra<b> .* only in B\n")
        self.assertRegex(text, r"1 tensors are equal, 2 differ \(1 in shape, 0 in type\), 1 only in A, 1 only in B")

    def test_a_file_and_what_it_was_made_of(self):
        model, out = self.model(), self.path("x.gbz")
        made = self.succeed("compress", model, "-o", out, "--ratio", "8", "--json").json["tensors"]
        found = self.succeed("compare", model, out, "--json").json
        self.assertEqual({t["name"]: t["b"]["bits"] for t in found["tensors"]}, {t["name"]: t["bits"] for t in made})
        errors = {t["name"]: t["error"] for t in made}
        for tensor in found["tensors"]:  # their sums have another order
            self.assertAlmostEqual(tensor["error"] / errors[tensor["name"]], 1, places=12)
        self.assertEqual(found["b"]["file_bytes"], os.path.getsize(out))
        self.succeed("expand", out, "-o", self.path("back.safetensors"))
        self.assertEqual(self.succeed("compare", out, self.path("back.safetensors"), "--json").json["same"], 4)

    def test_what_cannot_be_compared(self):
        model = self.model()
        self.refused(USAGE, "compare needs B", "compare", model)
        self.refused(USAGE, "one argument too many", "compare", model, model, model)
        self.refused(USAGE, "--arch needs --data", "compare", model, model, "--arch", "mlp")
        self.refused(INPUT, "none", "compare", model, self.path("none"))
        self.refused(INPUT, "text .*not|text is", "compare", model, self.write("text", "no model"))


@unittest.skipIf(PORTABLE, "this program was built without LibTorch")
class Outputs(harness.CliTest):
    def test_a_file_and_its_model_answer_alike(self):
        model, out = self.model(), self.path("x.gbz")
        self.succeed("compress", model, "--arch", "mlp", "-o", out, "--ratio", "4", "-q")
        # The file knows the architecture of both.
        found = self.succeed("compare", model, out, "--data", "digits", "-q", "--json").json["outputs"]
        for side, file in (("a", [model, "--arch", "mlp"]), ("b", [out])):
            alone = self.succeed("eval", *file, "--data", "digits", "--json").json["metric"]
            self.assertAlmostEqual(found["metric"][side], alone["value"], places=9)
        self.assertGreater(found["agreement_percent"], 90)
        self.assertGreater(found["divergence_nats"], 0)
        self.assertLess(found["divergence_nats"], 0.01)
        same = self.succeed("compare", model, model, "--arch", "mlp", "--data", "digits", "-q", "--json").json["outputs"]
        self.assertEqual((same["agreement_percent"], same["divergence_nats"], same["largest_difference"]), (100, 0, 0))
        self.assertRegex(self.succeed("compare", model, out, "--data", "digits", "-q").out, r"same prediction +\d+\.\d\d %")

    def test_no_forward_pass_and_other_classes(self):
        model = self.model()
        self.refused(USAGE, "--arch", "compare", model, model, "--data", "digits", "-q")
        other = self.model("other.safetensors", widths=(64, 32, 12))
        self.refused(INPUT, "10 classes apart, the second 12", "compare", model, other, "--arch", "mlp", "--data",
                     "digits", "-q")

    def test_torchscript_and_types_of_plugins_take_libtorch(self):
        subprocess.run([harness.FIXTURES, self.folder], check=True)
        self.refused(harness.PLUGIN, "ghost", "compare", self.path("ghost.gbz"), self.path("ghost.gbz"))


if __name__ == "__main__":
    harness.main()
