"""Exact mode gives the files themselves back: safetensors of any writer, PyTorch's zips, folders of shards."""

import glob
import hashlib
import json
import os
import pathlib
import shutil
import struct

import cases
import harness
from harness import INPUT, USAGE, floats, safetensors


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def with_header(text, data):
    return struct.pack("<Q", len(text.encode())) + text.encode() + data


class Files(cases.Given):
    def same(self, model, *options, suffix=None):
        """Compresses a file exactly and expands it: the same bytes. @return the object of `inspect --json`"""
        suffix = os.path.splitext(model)[1] if suffix is None else suffix
        for name in ("m.gbz", "back" + suffix):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        self.succeed("compress", model, "--lossless", *options, "-o", "m.gbz")
        said = self.succeed("expand", "m.gbz", "-o", "back" + suffix)
        self.assertIn("the original file", said.out)
        self.assertEqual(sha256(self.path("back" + suffix)), sha256(self.path(model)), model)
        listing = self.succeed("inspect", "m.gbz", "--json").json
        self.assertEqual([(f["bytes"], f["sha256"]) for f in listing["originals"]],
                         [(os.path.getsize(self.path(model)), sha256(self.path(model)))])
        text = self.succeed("inspect", "m.gbz").out
        self.assertIn("expands to the original file, byte for byte", text)
        self.assertIn(sha256(self.path(model)), text)
        return listing

    def same_folder(self, folder, *options):
        """The same of a folder. @return names of the files"""
        for name in ("packed", "back"):
            shutil.rmtree(self.path(name), ignore_errors=True)
        self.succeed("compress", folder, "--lossless", *options, "-o", "packed/")
        self.succeed("expand", "packed/", "-o", "back/")
        names = self.tree(folder)
        self.assertEqual(self.tree("back"), names)
        for name in names:
            self.assertEqual(sha256(os.path.join(self.path("back"), name)),
                             sha256(os.path.join(self.path(folder), name)), name)
            self.assertFalse(os.path.islink(os.path.join(self.path("back"), name)))
        return names

    def tree(self, folder):
        return sorted(os.path.relpath(os.path.join(root, file), self.path(folder))
                      for root, _, files in os.walk(self.path(folder)) for file in files)


class Safetensors(Files):
    W, B = floats(32 * 16), bytes(range(40))

    def entries(self, names=("w", "b"), extra=""):
        sizes = {"w": ("F32", [32, 16], self.W), "b": ("U8", [40], self.B)}
        entries, at = [], 0
        for name in names:
            dtype, shape, raw = sizes[name]
            entries.append(f'"{name}":{{"dtype":"{dtype}","shape":{json.dumps(shape, separators=(",", ":"))},'
                           f'"data_offsets":[{at},{at + len(raw)}]}}')
            at += len(raw)
        return entries, b"".join(sizes[name][2] for name in names)

    def test_headers_of_any_writer(self):
        (w, b), data = self.entries()
        compact = "{" + w + "," + b + "}"
        headers = {
            "reference": compact + " " * (-len(compact) % 8),
            "unpadded": compact,
            "padded to 64 and more": compact + " " * (64 - len(compact) % 64 + 640),
            "blanks": "{ " + w.replace(":", " : ") + " ,\n\t" + b + "\r\n}",
            "entries in another order": "{" + b + "," + w + "}",
            "metadata first": '{"__metadata__":{"format":"pt","z":"1","a":"2"},' + w + "," + b + "}",
            "metadata last": "{" + w + "," + b + ',"__metadata__":{"format":"pt"}}',
            "metadata empty": '{"__metadata__":{},' + w + "," + b + "}",
            "metadata of odd text": '{"__metadata__":{"":"","\\u00e9\\n":"\\ud83d\\ude00 \U0001f600"},' + w + "," + b + "}",
            "keys in another order": '{"w":{"data_offsets":[0,2048],"shape":[32,16],"dtype":"F32"},' + b + "}",
            "escaped name": compact.replace('"w"', '"\\u0077"'),
        }
        for name, header in headers.items():
            with self.subTest(name):
                self.write("m.safetensors", with_header(header, data))
                self.same("m.safetensors")

    def test_empty_tensors_and_files(self):
        self.write("m.safetensors", with_header("{}", b""))
        self.same("m.safetensors")
        self.write("m.safetensors", with_header('{"__metadata__":{"format":"pt"}}      ', b""))
        self.same("m.safetensors")
        self.write("m.safetensors", safetensors({"a": ("F32", [0, 4], b""), "w": ("F32", [4], floats(4)),
                                                 "b": ("U8", [0], b""), "c": ("F32", [0], b"")}))
        self.same("m.safetensors")

    def test_the_usual_header_costs_some_bytes(self):
        tensors = {f"model.layers.{i}.mlp.down_proj.weight": ("F32", [8, 8], floats(64, seed=i)) for i in range(500)}
        text = json.dumps({name: {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * i, 256 * i + 256]}
                           for i, name in enumerate(sorted(tensors))}, separators=(",", ":"))
        data = b"".join(tensors[name][2] for name in sorted(tensors))
        sizes = {}
        for name, header in (("usual", text), ("another", " ".join(text.split(",")).replace(" ", " ,"))):
            self.write("m.safetensors", with_header(header + " " * (-len(header) % 8), data))
            self.same("m.safetensors")
            sizes[name] = os.path.getsize(self.path("m.gbz"))
        self.assertLess(sizes["usual"] + 500, sizes["another"])

    def test_equal_tensors_are_stored_once(self):
        one, other = floats(64 * 64, seed=1), floats(64 * 64, seed=2)
        shape = ("F32", [64, 64])
        self.write("m.safetensors", safetensors({"a": (*shape, one), "b": (*shape, other), "c": (*shape, one),
                                                 "d": ("F32", [4096], one), "e": ("I32", [64, 64], one)}))
        listing = self.same("m.safetensors")
        self.assertEqual({t["name"]: t.get("tied_to") for t in listing["tensors"]},
                         {"a": None, "b": None, "c": "a", "d": None, "e": None})
        self.succeed("compress", "m.safetensors", "--ratio", "3", "-o", "lossy.gbz")
        self.succeed("expand", "lossy.gbz", "-o", "lossy.safetensors")
        listing = self.succeed("inspect", "lossy.gbz", "--json").json
        self.assertEqual(listing["originals"], [])
        self.assertEqual([t.get("tied_to") for t in listing["tensors"]], [None, None, "a", None, None])

    def test_tensors_that_differ_in_one_place_are_not_equal(self):
        one = floats(64 * 64, seed=1)
        for at in (0, 5000, 9000, len(one) - 1):
            other = bytearray(one)
            other[at] ^= 1
            self.write("m.safetensors", safetensors({"a": ("F32", [64, 64], one), "b": ("F32", [64, 64], bytes(other))}))
            listing = self.same("m.safetensors")
            self.assertEqual([t["kind"] for t in listing["tensors"]], ["exact", "exact"], at)

    def test_a_rule_that_keeps_one_copy_exact(self):
        one = floats(64 * 64, seed=1)
        self.write("m.safetensors", safetensors({"a": ("F32", [64, 64], one), "b": ("F32", [64, 64], one)}))
        self.write("rules.toml", 'schema = 1\n[[layer]]\nmatch = "b"\nmode = "exact"\n')
        self.succeed("compress", "m.safetensors", "--ratio", "2", "--config", "rules.toml", "-o", "m.gbz")
        errors = {t["name"]: t["error"] for t in self.succeed("compare", "m.safetensors", "m.gbz", "--json").json["tensors"]}
        self.assertEqual(errors["b"], 0)
        self.assertGreater(errors["a"], 0)

    def test_other_outputs_are_as_before(self):
        (w, b), data = self.entries()
        self.write("m.safetensors", with_header("{ " + w + "," + b + "}", data))
        self.succeed("compress", "m.safetensors", "--lossless", "-o", "m.gbz")
        self.succeed("expand", "m.gbz", "-o", "back.npz")
        self.assertTrue(self.read("back.npz").startswith(b"PK"))
        self.refused(USAGE, "are not written", "expand", "m.gbz", "-o", "back.pt")
        self.refused(USAGE, "not made of", "expand", "m.gbz", "-o", "back.onnx")
        # A part has another content.
        self.write("p.safetensors", safetensors({"x.w": ("F32", [32, 16], self.W), "y.w": ("U8", [40], self.B)}))
        self.succeed("compress", "p.safetensors", "--lossless", "--part", "x", "-o", "p.gbz")
        self.assertEqual(self.succeed("inspect", "p.gbz", "--json").json["originals"], [])
        said = self.succeed("expand", "p.gbz", "-o", "x.safetensors")
        self.assertNotIn("original", said.out)

    def test_names_by_default_and_in_folders(self):
        self.write("net.safetensors", safetensors({"w": ("F32", [32, 16], self.W)}))
        before = self.read("net.safetensors")
        self.succeed("compress", "net.safetensors", "--lossless", "-o", "other.gbz")
        self.succeed("expand", "other.gbz")
        self.assertEqual(self.read("other.safetensors"), before)
        os.mkdir(self.path("into"))
        self.succeed("expand", "other.gbz", "-o", "into/")
        self.assertEqual(self.tree("into"), ["other.safetensors"])
        self.assertEqual(self.read("into/other.safetensors"), before)

    def test_a_delta_comes_back_too(self):
        base, changed = floats(128 * 128), bytearray(floats(128 * 128))
        changed[100] ^= 1
        self.write("base.safetensors", safetensors({"w": ("F32", [128, 128], base)}))
        self.write("m.safetensors", with_header('{ "w":{"dtype":"F32","shape":[128,128],"data_offsets":[0,65536]}}', bytes(changed)))
        self.succeed("compress", "base.safetensors", "--lossless", "-o", "base.gbz")
        for given in ("base.safetensors", "base.gbz"):
            self.succeed("compress", "m.safetensors", "--lossless", "--base", given, "-o", "m.gbz", "--force")
            self.assertLess(os.path.getsize(self.path("m.gbz")), 1000)
            self.succeed("expand", "m.gbz", "--base", "base.gbz", "-o", "back.safetensors", "--force")
            self.assertEqual(self.read("back.safetensors"), self.read("m.safetensors"))
        self.succeed("rebase", "m.gbz", "--base", "base.gbz", "-o", "whole.gbz")
        self.succeed("expand", "whole.gbz", "-o", "whole.safetensors")
        self.assertEqual(self.read("whole.safetensors"), self.read("m.safetensors"))

    def test_damage_is_refused_and_leaves_nothing(self):
        (w, b), data = self.entries()
        self.write("m.safetensors", with_header("{ " + w + "," + b + "}", data))
        self.succeed("compress", "m.safetensors", "--lossless", "-o", "m.gbz")
        good = self.read("m.gbz")
        for at in range(len(good) - 200, len(good), 3):
            bad = bytearray(good)
            bad[at] ^= 16
            self.write("bad.gbz", bytes(bad))
            for verb in (("expand", "bad.gbz", "-o", "x.safetensors"), ("inspect", "bad.gbz")):
                self.refused(INPUT, "is damaged|do not|does not|digest", *verb)

    @cases.needs("safetensors", "numpy")
    def test_the_safetensors_package(self):
        import numpy as np
        from safetensors.numpy import save_file
        draw = np.random.default_rng(0)
        tensors = {"x.weight": draw.standard_normal((64, 32)).astype(np.float16), "a": np.arange(7), "s": np.array(3, np.float32),
                   "mask": np.ones((5, 3), bool), "e": np.zeros((0, 4), np.float32), "ü\"\\": draw.standard_normal(9).astype(np.float32)}
        for metadata in (None, {"format": "np"}, {"z": "1", "a": "ü\n\"", "m": "x" * 3000}):
            save_file(tensors, self.path("m.safetensors"), metadata)
            self.same("m.safetensors")


@cases.needs("torch", "numpy")
class PyTorch(Files):
    def saved(self, value, name="m.pt", **how):
        import torch
        torch.save(value, self.path(name), **how)
        return name

    def state(self, **more):
        import torch
        torch.manual_seed(0)
        return {"w": torch.randn(64, 32), "h": torch.randn(32, 16).to(torch.bfloat16), "n": torch.arange(9), **more}

    def test_plain_state_dicts_of_both_formats(self):
        import torch
        for how in ({}, {"_use_new_zipfile_serialization": False}):
            listing = self.same(self.saved(self.state(s=torch.tensor(3.5), e=torch.zeros(0, 4), m=torch.ones(4, dtype=torch.bool)), **how))
            self.assertLess(os.path.getsize(self.path("m.gbz")), 0.95 * os.path.getsize(self.path("m.pt")))
            self.assertEqual(len(listing["tensors"]), 6)

    def test_views_of_storages(self):
        import torch
        whole = torch.randn(100, 100)
        for name, tensors in {
                "transposed": {"w": whole.t(), "v": torch.randn(8, 4, 6).permute(2, 0, 1)},
                "channels last": {"c": torch.randn(8, 4, 3, 3).contiguous(memory_format=torch.channels_last),
                                  "one": torch.randn(8, 1, 3, 3).contiguous(memory_format=torch.channels_last)},
                "half of a storage": {"top": whole[:50]},
                "two halves": {"top": whole[:50], "bottom": whole[50:]},
                "columns": {"left": whole[:, :50], "right": whole[:, 50:]},
                "overlapping": {"a": whole[:60], "b": whole[40:], "w": whole},
                "tied": {"a": whole, "b": whole, "t": whole.t()},
                "copies": {"a": whole, "b": whole.clone()},
                "expanded": {"x": torch.randn(1, 9).expand(5, 9)},
                "of other types": {"a": torch.randn(6).to(torch.float16)[1:], "u": torch.arange(7, dtype=torch.uint8)[3:]}}.items():
            with self.subTest(name):
                self.same(self.saved(tensors))

    def test_transposed_tensors_are_stored_once(self):
        import torch
        size = {}
        weight = torch.randn(256, 256)
        for name, tensor in (("plain", weight), ("transposed", weight.t())):
            self.same(self.saved({"w": tensor}))
            size[name] = os.path.getsize(self.path("m.gbz"))
        self.assertLess(size["transposed"], 1.01 * size["plain"] + 100)

    def test_checkpoints(self):
        import torch
        model = torch.nn.Linear(32, 64)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(2, 32)).sum().backward()
        optimizer.step()
        # What is left out is small: bytes of the pickle.
        small = {"model": model.state_dict(), "epoch": 3, "args": {"lr": 1e-3, "name": "x" * 200}}
        self.same(self.saved(small, "m.ckpt"))
        large = {**small, "optimizer": optimizer.state_dict(), "more": torch.randn(300, 300)}
        self.saved(large, "m.ckpt")
        said = self.succeed("compress", "m.ckpt", "--lossless", "--part", "model", "-o", "m.gbz", "--force")
        self.assertEqual(self.succeed("inspect", "m.gbz", "--json").json["originals"], [])
        self.refused(USAGE, "are not written", "expand", "m.gbz", "-o", "x.ckpt")
        self.same("m.ckpt", "--keep", "all")
        self.saved({"model": model.state_dict(), "optimizer": {"state": {0: {"m": torch.randn(300, 300)}}, "param_groups": []}}, "m.ckpt")
        said = self.succeed("compress", "m.ckpt", "--lossless", "-o", "m.gbz", "--force")
        self.assertRegex(said.err, "files themselves do not come back.*--keep all")
        self.same("m.ckpt", "--keep", "all")

    def test_wrapped_names_and_other_suffixes(self):
        state = {"module." + name: value for name, value in self.state().items()}
        for name in ("m.pth", "m.bin", "m.pth.tar", "m.ckpt"):
            self.saved(state, name)
            self.same(name)
            os.remove(self.path("m.gbz"))
            self.succeed("compress", name, "--lossless")
            before = self.read(name)
            os.remove(self.path(name))
            self.succeed("expand", "m.gbz")
            self.assertEqual(self.read(name), before)
            self.succeed("expand", "m.gbz", "-o", "x.safetensors", "--force")
            self.assertEqual(len(self.succeed("inspect", "x.safetensors", "--json").json["tensors"]), 3)

    def test_a_folder_of_pickled_shards(self):
        import torch
        os.makedirs(self.path("m"))
        where = {}
        for i in (1, 2):
            name = f"pytorch_model-0000{i}-of-00002.bin"
            self.saved({f"h.{i}.w": torch.randn(40, 40)}, "m/" + name)
            where[f"h.{i}.w"] = name
        self.write("m/pytorch_model.bin.index.json", json.dumps({"metadata": {}, "weight_map": where}))
        self.write("m/config.json", "{}")
        self.same_folder("m")
        os.makedirs(self.path("one"))
        self.saved({"w": torch.randn(40, 40)}, "one/pytorch_model.bin")
        self.same_folder("one")

    @cases.needs("torch", "safetensors")
    def test_pickled_shards_with_losses_become_shards_of_safetensors(self):
        import torch
        from safetensors.torch import load_file
        os.makedirs(self.path("m"))
        tied = torch.randn(48, 40)
        parts = [{"embed.w": tied, "head.w": tied, "turned.w": torch.randn(30, 50).t()},
                 {"h.w": torch.randn(40, 40).to(torch.bfloat16), "h.n": torch.arange(9)}]
        where = {}
        for i, part in enumerate(parts):
            name = f"pytorch_model-0000{i + 1}-of-00002.bin"
            self.saved(part, "m/" + name)
            where.update({tensor: name for tensor in part})
        self.write("m/pytorch_model.bin.index.json", json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
        self.write("m/config.json", "{}")
        self.succeed("compress", "m/", "--max-error", "0.01", "-o", "packed/")
        self.succeed("expand", "packed/", "-o", "back/")
        shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
        self.assertEqual(self.tree("back"), ["config.json", *shards, "model.safetensors.index.json"])
        index = json.loads(pathlib.Path(self.path("back"), "model.safetensors.index.json").read_text())
        self.assertEqual(index["weight_map"], {tensor: shards["00002-of" in name] for tensor, name in where.items()})
        given = {tensor: value for part in parts for tensor, value in part.items()}
        self.assertEqual(index["metadata"]["total_size"], sum(value.numel() * value.element_size() for value in given.values()))
        back = {}
        for i, shard in enumerate(shards):
            content = load_file(self.path("back/" + shard))
            self.assertEqual(sorted(content), sorted(parts[i]))
            back.update(content)
        self.assertEqual(self.succeed("compare", "packed/model.gbz", "back/", "--json").json["differ"], 0)
        for tensor, value in given.items():
            one, other = value.double(), back[tensor].double()
            self.assertEqual(one.shape, other.shape)
            self.assertLessEqual(float((one - other).square().sum()), 0.011 * float(one.square().sum()), tensor)

    def test_no_pickle_is_run(self):
        import torch

        class Evil:
            def __reduce__(self):
                return os.mkdir, ("made",)
        self.saved({"model": {"w": torch.randn(64, 64)}, "args": [Evil()]})
        if self.run_cli("compress", "m.pt", "--lossless", "-o", "m.gbz").status == harness.DONE:
            self.succeed("expand", "m.gbz", "-o", "back.pt")
            self.assertEqual(self.read("back.pt"), self.read("m.pt"))
        self.assertFalse(os.path.exists(self.path("made")))


class Folders(Files):
    def shards(self, folder, gap=""):
        os.makedirs(self.path(folder))
        where = {}
        for i in (1, 2):
            name = f"model-0000{i}-of-00002.safetensors"
            tensors = {f"h.{i}.w": ("F32", [32, 16], floats(512, seed=i)), f"h.{i}.b": ("F32", [16], floats(16, seed=i))}
            raw = safetensors(tensors)
            self.write(os.path.join(folder, name), raw)
            where.update({tensor: name for tensor in tensors})
        self.write(os.path.join(folder, "model.safetensors.index.json"),
                   json.dumps({"metadata": {"total_size": 1}, "weight_map": where}, indent=2) + gap)
        self.write(os.path.join(folder, "config.json"), "{}")
        self.write(os.path.join(folder, "README.md"), "# Model\n")

    def test_shards_stay_shards(self):
        self.shards("m", gap="\n\n")
        self.assertEqual(len(self.same_folder("m")), 5)
        self.assertEqual(self.tree("packed"), ["README.md", "config.json", "model.gbz"])
        listing = self.succeed("inspect", "packed/", "--json").json
        self.assertEqual(sorted(f["name"] for f in listing["originals"]), ["model-00001-of-00002.safetensors",
                         "model-00002-of-00002.safetensors", "model.safetensors.index.json"])
        self.assertIn("the original files", self.succeed("expand", "packed/", "-o", "again/").out)

    def test_shards_stay_shards_with_losses(self):
        self.shards("m", gap="\n\n")
        self.succeed("compress", "m/", "--max-error", "0.01", "-o", "packed/")
        said = self.succeed("expand", "packed/", "-o", "back/")
        self.assertIn("and 2 more", said.out)
        self.assertNotIn("original", said.out)
        self.assertEqual(self.tree("back"), self.tree("m"))
        for name in self.tree("m"):
            one, other = (pathlib.Path(self.path(folder), name).read_bytes() for folder in ("m", "back"))
            if name.endswith(".safetensors"):
                header = 8 + int.from_bytes(one[:8], "little")
                self.assertEqual(one[:header], other[:header])
                self.assertEqual(len(one), len(other))
                self.assertNotEqual(one, other)
            else:
                self.assertEqual(one, other)
        self.assertEqual(self.succeed("compare", "packed/model.gbz", "back/", "--json").json["differ"], 0)
        listing = self.succeed("inspect", "packed/", "--json").json
        self.assertEqual([file["sha256"] for file in listing["originals"]], [None] * 3)
        self.assertIn("with the values of this file", self.succeed("inspect", "packed/").out)
        self.succeed("expand", "packed/", "-o", "one.safetensors")
        self.assertEqual(self.succeed("compare", "one.safetensors", "back/", "--json").json["differ"], 0)

    def test_one_file_is_an_option(self):
        self.shards("m")
        self.succeed("compress", "m/", "--lossless", "-o", "m.gbz")
        self.succeed("expand", "m.gbz", "-o", "one.safetensors")
        self.succeed("compare", "m/", "one.safetensors")
        self.succeed("expand", "m.gbz", "-o", "many/")
        self.assertEqual(self.tree("many"), self.tree("m"))
        self.succeed("expand", "m.gbz", "-o", "named")
        self.assertEqual(self.tree("named"), self.tree("many"), "a name without a model's suffix is a folder's")

    def test_a_folder_as_one_file(self):
        self.shards("m")
        for name, content in (("1_Pooling/config.json", b'{"pool": 1}'), ("empty.txt", b""), ("logo.png", bytes(range(256)))):
            os.makedirs(os.path.dirname(self.path("m/" + name)), exist_ok=True)
            self.write("m/" + name, content)
        said = self.succeed("compress", "m/", "--lossless", "-o", "m.gbz")
        self.assertNotIn("only the weights", said.err)
        self.assertEqual(self.tree("."), ["m.gbz", *sorted("m/" + name for name in self.tree("m"))])
        self.succeed("expand", "m.gbz", "-o", "back")
        self.assertEqual(self.tree("back"), self.tree("m"))
        for name in self.tree("m"):
            self.assertEqual(sha256(self.path("back/" + name)), sha256(self.path("m/" + name)), name)
        listing = self.succeed("inspect", "m.gbz", "--json").json
        self.assertIn("1_Pooling/config.json", [file["name"] for file in listing["originals"]])
        self.assertEqual(self.succeed("compare", "m/", "m.gbz", "--json").json["differ"], 0)
        self.assertIn("only the weights", self.succeed("compress", "m/", "--max-error", "0.01", "-o", "lossy.gbz").err)

    def test_one_file_in_a_folder_as_one_file(self):
        os.makedirs(self.path("m"))
        self.write("m/model.safetensors", safetensors({"w": ("F32", [16, 64], floats(1024))}))
        self.write("m/config.json", "{}")
        self.succeed("compress", "m", "--lossless", "-o", "m.gbz")
        self.succeed("expand", "m.gbz", "-o", "back/")
        self.assertEqual(self.tree("back"), ["config.json", "model.safetensors"])
        self.succeed("expand", "m.gbz", "-o", "alone.safetensors")
        self.assertEqual(self.succeed("compare", "m/", "alone.safetensors", "--json").json["differ"], 0)

    def test_files_in_the_way(self):
        self.shards("m")
        self.succeed("compress", "m/", "--lossless", "-o", "packed/")
        os.mkdir(self.path("back"))
        self.write("back/model-00002-of-00002.safetensors", "mine")
        self.refused(USAGE, "model-00002-of-00002.safetensors", "expand", "packed/", "-o", "back/")
        self.assertEqual(self.tree("back"), ["model-00002-of-00002.safetensors"])
        self.succeed("expand", "packed/", "-o", "back/", "--force")
        self.assertEqual(self.tree("back"), self.tree("m"))

    def test_links_of_the_hub_become_files(self):
        self.shards("hub/blobs-of")
        snapshot = "hub/snapshots/abc"
        os.makedirs(self.path(snapshot))
        os.makedirs(self.path("hub/blobs"))
        for name in self.tree("hub/blobs-of"):
            blob = sha256(self.path("hub/blobs-of/" + name))
            shutil.move(self.path("hub/blobs-of/" + name), self.path("hub/blobs/" + blob))
            os.symlink("../../blobs/" + blob, self.path(snapshot + "/" + name))
        self.assertEqual(len(self.same_folder(snapshot)), 5)

    def test_an_adapter_and_a_pipeline(self):
        os.makedirs(self.path("lora"))
        self.write("lora/adapter_model.safetensors", safetensors({"q.lora_A.weight": ("F32", [8, 64], floats(512))}))
        self.write("lora/adapter_config.json", "{}")
        self.same_folder("lora")
        for part, name in (("unet", "diffusion_pytorch_model"), ("text_encoder", "model")):
            os.makedirs(self.path("pipe/" + part))
            self.write(f"pipe/{part}/{name}.safetensors", safetensors({"w": ("F32", [16, 64], floats(1024))}))
            self.write(f"pipe/{part}/config.json", "{}")
        self.write("pipe/model_index.json", "{}")
        self.same_folder("pipe")

    def test_every_other_file_goes_along(self):
        self.shards("m")
        for name in (".gitattributes", "figure.png", "optimizer.pt", "tf_model.h5", "spiece.vocab", "onnx/readme", "runs.log", "LICENSE"):
            os.makedirs(os.path.dirname(self.path("m/" + name)), exist_ok=True)
            self.write("m/" + name, name.encode() * 3)
        os.makedirs(self.path("m/.git"))
        self.write("m/.git/config", "not the model's")
        self.succeed("compress", "m", "--lossless", "-o", "packed/")
        self.succeed("expand", "packed/", "-o", "back/")
        self.assertEqual(self.tree("back"), [name for name in self.tree("m") if not name.startswith(".git/")])
        # With losses, as before.
        said = self.succeed("compress", "m", "--ratio", "4", "-o", "lossy/")
        self.assertIn("optimizer.pt", said.err)
        self.assertEqual(self.tree("lossy"), ["LICENSE", "README.md", "config.json", "model.gbz", "spiece.vocab"])

    def test_given_09(self):
        self.assertEqual(len(self.same_folder(os.path.join(self.given("09"), "m"))), 4)

    @cases.needs("torch", "transformers")
    def test_what_transformers_saves(self):
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM
        torch.manual_seed(0)
        config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, vocab_size=512, tie_word_embeddings=True)
        model = LlamaForCausalLM(config).to(torch.bfloat16)
        model.save_pretrained(self.path("m"), max_shard_size="100KB")
        self.assertTrue(glob.glob(self.path("m/model-*-of-*.safetensors")))
        self.same_folder("m")
        again = LlamaForCausalLM.from_pretrained(self.path("back"))
        for (name, one), (_, other) in zip(model.state_dict().items(), again.state_dict().items()):
            self.assertTrue(torch.equal(one, other.to(one.dtype)), name)


class Copies(Files):
    def test_given_33(self):
        model = os.path.join(self.given("33"), "m.safetensors")
        listing = self.same(model)
        embedding = os.path.getsize(model) / 3
        self.assertLess(os.path.getsize(self.path("m.gbz")), 2 * embedding)
        self.assertEqual(sum(tensor["kind"] == "tied" for tensor in listing["tensors"]), 1)


if __name__ == "__main__":
    harness.main()
