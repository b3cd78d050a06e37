"""Element types beyond float32 in checkpoints and safetensors files (cases 02 and 03)."""

import os

import cases
from cases import harness


@cases.needs("torch", "safetensors")
class Types(cases.Given):
    def check(self, file, wanted):
        import torch
        from safetensors.torch import load_file
        self.succeed("compress", file, "--mode", "exact", "-o", "m.gbz", "--force")
        self.succeed("expand", "m.gbz", "-o", "b.safetensors", "--force")
        back = load_file(self.path("b.safetensors"))
        self.assertEqual(sorted(back), sorted(wanted))
        for name, value in wanted.items():
            self.assertEqual((back[name].dtype, back[name].shape), (value.dtype, value.shape), name)
            self.assertTrue(torch.equal(back[name].contiguous().view(torch.uint8), value.contiguous().view(torch.uint8)), name)

    def test_narrow_and_wide_types_are_exact(self):
        import torch
        from safetensors.torch import save_file
        tensors = {"w": torch.randn(8, 16)}
        bytes_of = torch.arange(96, dtype=torch.uint8).reshape(6, 16)
        for name in ("uint16", "uint32", "uint64", "complex64", "float8_e8m0fnu", "float8_e5m2", "float8_e4m3fnuz",
                     "float4_e2m1fn_x2"):
            if hasattr(torch, name):
                tensors["t." + name] = bytes_of.clone().view(getattr(torch, name))
        torch.save({"net": tensors}, self.path("m.pt"))
        self.check("m.pt", tensors)
        torch.save(tensors, self.path("old.pt"), _use_new_zipfile_serialization=False)
        self.check("old.pt", tensors)
        save_file(tensors, self.path("m.safetensors"))
        self.check("m.safetensors", tensors)

    def test_a_column_of_pairs(self):
        import torch
        if not hasattr(torch, "float4_e2m1fn_x2"):
            self.skipTest("this torch has no float4")
        whole = torch.arange(64, dtype=torch.uint8).reshape(8, 8)
        torch.save({"w": torch.ones(2, 2), "q": whole.t().view(torch.float4_e2m1fn_x2)}, self.path("m.pt"))
        self.check("m.pt", {"w": torch.ones(2, 2), "q": whole.t().contiguous().view(torch.float4_e2m1fn_x2)})

    def test_given_complex_numbers(self):
        folder = self.given("03")
        self.succeed("compress", os.path.join(folder, "c64.pt"), "--mode", "exact", "-o", "c.gbz")
        for name in ("c128", "c32"):
            self.refused(harness.INPUT, r"freqs_cis is of the type complex.*view_as_real", "compress",
                         os.path.join(folder, name + ".pt"), "--mode", "exact", "-o", "d.gbz")

    def test_given_types(self):
        self.succeed("compress", os.path.join(self.given("02"), "m.pt"), "--mode", "exact", "-o", "c.gbz")


if __name__ == "__main__":
    harness.main()
