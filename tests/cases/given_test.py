"""Given scripts whose kinds of input have tests of their own in the other files of this folder."""

import glob
import os

import cases
from cases import harness


@cases.needs("numpy", "safetensors")
class PaddingAndCopies(cases.Given):
    def test_a_row_of_padding_stays_zero_and_copies_stay_equal(self):
        from safetensors.numpy import load_file
        folder = self.given("33")
        model = os.path.join(folder, "m.safetensors")
        before = load_file(model)
        for name, target in (("exact", ("--mode", "exact")), ("lossy", ("--ratio", "8"))):
            with self.subTest(name):
                self.succeed("compress", model, *target, "-o", name + ".gbz")
                self.succeed("expand", name + ".gbz", "-o", name + ".safetensors")
                after = load_file(self.path(name + ".safetensors"))
                self.assertEqual(sorted(before), sorted(after))
                for tensor, values in before.items():
                    for row in (values == 0).all(axis=-1).nonzero()[0] if values.ndim == 2 else ():
                        self.assertTrue((after[tensor][row] == 0).all(), (tensor, row))
                for one in before:
                    for other in before:
                        if before[one].shape == before[other].shape and (before[one] == before[other]).all():
                            self.assertTrue((after[one] == after[other]).all(), (one, other))


@cases.needs("numpy", "safetensors", "torch")
class Others(cases.Given):
    def errors(self, model, *target):
        """{tensor: relative squared error} of what `compress model target` gives back."""
        self.succeed("compress", model, *target, "-o", "m.gbz", "--force")
        return {row["name"]: row["error"] for row in self.succeed("compare", model, "m.gbz", "--json").json["tensors"]}

    def test_04_no_numbers(self):
        model = os.path.join(self.given("04"), "adapter_model.safetensors")
        self.succeed("compress", model, "--mode", "exact", "-o", "e.gbz")
        result = self.succeed("compress", model, "--ratio", "8", "-o", "l.gbz")
        self.assertIn("holds no numbers", result.err)
        self.assertNotIn("target", result.err)

    def test_13_tensors_that_are_not_plain(self):
        for path in sorted(glob.glob(os.path.join(self.given("13"), "*.pt"))):
            with self.subTest(os.path.basename(path)):
                for verb in (("inspect", path), ("compress", path, "--mode", "exact", "-o", "x.gbz")):
                    self.one_message(self.run_cli(*verb), r"odd\.weight.*(to_dense|dequantize|to_empty|materialize|unbind|values\(\))")

    def test_16_long_vectors(self):
        errors = self.errors(os.path.join(self.given("16"), "m.safetensors"), "--ratio", "8")
        for name, error in errors.items():
            if name != "w.weight":
                self.assertLess(error, 2.0 ** -16, name)

    def test_23_values_beyond_float16(self):
        model = os.path.join(self.given("23"), "m.safetensors")
        errors = self.errors(model, "--ratio", "4")
        self.assertLess(max(errors.values()), 0.5)

    def test_41_names_like_optimizers(self):
        folder = self.given("41")
        for name, count in (("m", 4), ("only", 1)):
            errors = self.errors(os.path.join(folder, name + ".safetensors"), "--mode", "exact")
            self.assertEqual((len(errors), set(errors.values())), (count, {0}))

    def test_54_constants_that_are_not_finite(self):
        for path in sorted(glob.glob(os.path.join(self.given("54"), "*.onnx"))):
            for target in (("--mode", "exact"), ("--max-error", "0.001")):
                with self.subTest(os.path.basename(path), target=target[0]):
                    self.assertEqual(self.errors(path, *target)["M"], 0)
                    if target[0] == "--mode":
                        self.succeed("expand", "m.gbz", "-o", "back.onnx", "--force")
                        self.assertEqual(self.read("back.onnx"), self.read(path))

    def test_55_errors_of_bf16(self):
        model = os.path.join(self.given("55"), "m.safetensors")
        for most in (1e-3, 1e-4, 3e-5, 1e-5, 5e-6, 2e-6, 1e-6):
            self.assertLessEqual(max(self.errors(model, "--max-error", str(most)).values()), most)


if __name__ == "__main__":
    harness.main()
