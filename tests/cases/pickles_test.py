"""Checkpoints as other programs write them: objects of any class beside the weights, whole modules, tensors that are no
plain ones, and names that are used by optimizers too (cases 04, 13, 14, 38, 40, 41)."""

import argparse
import os
import struct
import sys
import types
import zipfile

import cases
from cases import harness


def expanded(test, model, *options):
    """The tensors that come back, and what the program said."""
    out = test.path("x.gbz")
    said = test.succeed("compress", model, "--mode", "exact", "-o", out, "--force", *options).err
    test.succeed("expand", out, "-o", "x.safetensors", "--force")
    from safetensors.torch import load_file
    return load_file(test.path("x.safetensors")), said


@cases.needs("torch", "safetensors")
class Checkpoints(cases.Given):
    def same(self, found, wanted):
        import torch
        self.assertEqual(sorted(found), sorted(wanted))
        for name, value in wanted.items():
            self.assertEqual(found[name].dtype, value.dtype, name)
            self.assertTrue(torch.equal(found[name], value), name)

    def saved(self, name, content, **options):
        import torch
        torch.save(content, self.path(name), **options)
        return self.path(name)

    def test_objects_of_any_package_beside_the_weights(self):
        import torch
        package = types.ModuleType("subprocess_tools")
        package.Setup = type("Setup", (), {"__module__": "subprocess_tools"})
        package.Table = type("Table", (dict,), {"__module__": "subprocess_tools"})
        sys.modules["subprocess_tools"] = package
        self.addCleanup(sys.modules.pop, "subprocess_tools")
        setup = package.Setup()
        setup.parent, setup.again = setup, [setup]
        circle = {}
        circle["self"] = circle
        weights = {"enc": {"deep": {"w": torch.randn(8, 4).half(), "b": torch.randn(4).bfloat16()}}}
        beside = {"args": argparse.Namespace(lr=0.1, nested=argparse.Namespace(x=[1])), "open": open, "sorted": sorted,
                  "setup": setup, "table": package.Table(a=1, b=setup), "circle": circle, "keys": {(1, 2): 3, None: 4},
                  "set": {1, "a"}, "class": argparse.ArgumentParser, "slice": slice(1, 2), "range": range(3)}
        for protocol, old in ((2, False), (2, True), (4, False), (5, True)):
            with self.subTest(protocol=protocol, old=old):
                file = self.saved("some.ckpt", {**beside, "weights": weights, "step": 3}, pickle_protocol=protocol,
                                  _use_new_zipfile_serialization=not old)
                found, said = expanded(self, file)
                self.same(found, weights["enc"]["deep"])  # the innermost dictionary is the model
                self.assertIn("left out", said)

    def test_a_program_in_a_pickle_is_not_run(self):
        import torch

        class Bomb:
            def __reduce__(self):
                return os.system, ("touch " + made,)
        made = self.path("made")
        found, _ = expanded(self, self.saved("bomb.pt", {"state_dict": {"w": torch.ones(3, 3)}, "x": Bomb()}))
        self.same(found, {"w": torch.ones(3, 3)})
        self.refused(harness.INPUT, "an object made by (posix|os).system", "compress", self.saved("only.pt", Bomb()),
                     "-o", "y.gbz", "--mode", "exact")
        self.assertFalse(os.path.exists(made))

    def test_modules_are_read_as_their_state_dicts(self):
        import torch

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.stem = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
                self.register_buffer("cache", torch.zeros(3), persistent=False)
                self.register_buffer("kept", torch.arange(4))
                self.register_parameter("none", None)
                self.list = torch.nn.ParameterList([torch.randn(3, 2)])
                self.head = torch.nn.Linear(4, 5)
                self.tied = self.head
                self.stride = torch.tensor([8.0])
        globals()["Block"] = Block  # found by the pickler
        Block.__qualname__ = "Block"
        model = Block().half()
        wanted = model.state_dict()
        for name, content, options in (
                ("whole.pt", model, ()), ("yolo.pt", {"model": model, "ema": None, "train_args": {"a": 1}}, ()),
                ("old.pt", {"epoch": 1, "net": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1)}, ()),
                ("wrapped.pt", torch.nn.DataParallel(model), ()),
                ("both.pt", {"model": Block(), "ema": model}, ()),
                ("part.pt", {"model": model, "ema": Block()}, ("--part", "model"))):
            with self.subTest(name):
                old = name == "old.pt"
                found, said = expanded(self, self.saved(name, content, _use_new_zipfile_serialization=not old), *options)
                self.same(found, wanted)
                self.assertIn("pickled module", said)
                if name == "both.pt":
                    self.assertIn("read: ema", said)

    def test_tensors_that_are_no_plain_ones_name_the_call(self):
        import torch
        if not hasattr(torch.nested, "nested_tensor"):
            self.skipTest("this torch has no nested tensors")
        nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(1, 3)])
        for name, odd, sentence in (
                ("meta", torch.empty(2, device="meta"), r"block\.k is a meta tensor.*to_empty"),
                ("sparse", torch.eye(3).to_sparse_csc(), r"block\.k is a sparse tensor.*\.to_dense\(\)"),
                ("nested", nested, r"block\.k is a nested tensor.*to_padded_tensor"),
                ("quantized", torch.quantize_per_channel(torch.eye(3), torch.ones(3), torch.zeros(3), 1, torch.quint8),
                 r"block\.k is a quantized tensor.*\.dequantize\(\)"),
                ("wide", torch.eye(2, dtype=torch.complex128), r"block\.k is of the type complex128.*view_as_real"),
                ("conjugate", torch.eye(2, dtype=torch.complex64).conj(), r"block\.k is .*resolve_conj")):
            with self.subTest(name):
                file = self.saved(name + ".pt", {"net": {"a": torch.ones(2, 2), "block": {"k": odd}}})
                self.refused(harness.INPUT, sentence, "compress", file, "--mode", "exact", "-o", "y.gbz")
                self.refused(harness.INPUT, sentence, "inspect", file)

    def test_given_distributed_tensors(self):
        file = os.path.join(self.given("14"), "dt.pt")
        self.refused(harness.INPUT, r"b\.weight is a shard of .*gather it first", "compress", file, "-o", "y.gbz",
                     "--mode", "exact")

    def test_given_objects(self):
        folder = self.given("38")
        for name in sorted(os.listdir(folder)):
            with self.subTest(name):
                self.assertEqual(sorted(expanded(self, os.path.join(folder, name))[0]), ["l.weight"])

    def test_given_module_in_a_dictionary(self):
        found, _ = expanded(self, os.path.join(self.given("40"), "y.pt"))
        self.assertIn("model.0.weight", found)
        self.assertIn("model.1.num_batches_tracked", found)

    def test_bombs_are_bounded(self):
        def archive(program):
            with zipfile.ZipFile(self.path("bomb.pt"), "w") as file:
                file.writestr("a/data.pkl", b"\x80\x02" + program + b".")
                file.writestr("a/byteorder", "little")
                file.writestr("a/version", "3\n")
            return self.path("bomb.pt")

        pairs = b"](" + b"NN\x86" * 100_000 + b"eq\x000ccollections\nOrderedDict\nq\x010"
        names = b"X" + struct.pack("<I", 250) + b"m" * 250 + b"q\x000(" + b"h\x00h\x00\x93" * 200_000 + b"t"
        objects = b"cm\nC\nq\x000](" + b"h\x00)\x81}b" * 1_000_000 + b"e"
        deep = b"]" * 1_000_000 + b"a" * 999_999
        for name, program, words in (("calls", pairs + b"(" + b"h\x01h\x00\x85R0" * 3_000 + b"N0" + b"t", "512 MiB"),
                                     ("names", names, "holds no model"), ("objects", objects, "holds no model"),
                                     ("deep", deep, "holds no model")):
            with self.subTest(name):
                self.refused(harness.INPUT, words, "inspect", archive(program))


@cases.needs("numpy", "safetensors")
class Names(cases.Given):
    def test_names_alone_leave_nothing_out(self):
        import numpy as np
        from safetensors.numpy import load_file, save_file
        draw = np.random.default_rng(5)
        every = {name: draw.standard_normal((24, 32)).astype(np.float32) for name in (
            "agent.optimizer.core.weight", "optim.0.kernel", "memory.momentum_buffer", "exp_avg", "lr_scheduler.net.w")}
        for tensors in (every, {"optimizer.only.weight": every["exp_avg"]}):
            save_file(tensors, self.path("m.safetensors"))
            for options in (("--mode", "exact"), ("--mode", "exact", "--keep", "all"), ("--max-error", "0.05"), ("--bits", "5")):
                with self.subTest(options):
                    self.succeed("compress", "m.safetensors", *options, "-o", "m.gbz", "--force", "-q")
                    self.succeed("expand", "m.gbz", "-o", "b.safetensors", "--force")
                    back = load_file(self.path("b.safetensors"))
                    self.assertEqual(sorted(back), sorted(tensors))
                    if "exact" in options:
                        for name, value in tensors.items():
                            self.assertTrue((back[name] == value).all(), name)

    def test_a_file_without_numbers_says_so(self):
        import numpy as np
        from safetensors.numpy import save_file
        save_file({f"layer.{i}.lora": np.zeros((0, i), np.float32) for i in range(3)}, self.path("e.safetensors"))
        for options in (("--mode", "exact"), ("--ratio", "4")):
            result = self.succeed("compress", "e.safetensors", *options, "-o", "e.gbz", "--force")
            self.assertIn("holds no numbers", result.err)
            self.assertNotIn("target", result.err)


if __name__ == "__main__":
    harness.main()
