"""Copies of equal weights and rows of padding (case 33), as the given script writes them."""

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


if __name__ == "__main__":
    harness.main()
