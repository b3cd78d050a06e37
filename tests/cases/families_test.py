"""Exact files of several related models in one folder: changes since each other, chosen without a word."""

import json
import os
import random
import shutil
import struct

import cases
import harness
from harness import INPUT, USAGE, floats, safetensors
from originals_test import Files, sha256


def tuned(raw, seed, share):
    """bf16 elements of which some are the next number."""
    numbers, values = random.Random(seed), bytearray(raw)
    for i in range(0, len(values), 2):
        if numbers.random() < share:
            values[i:i + 2] = struct.pack("<H", struct.unpack("<H", values[i:i + 2])[0] ^ 1)
    return bytes(values)


def brain(count, seed):
    wide = floats(count, seed=seed)
    return b"".join(wide[i + 2:i + 4] for i in range(0, len(wide), 4))


class Families(Files):
    def setUp(self):
        super().setUp()
        base = brain(64 * 512, 1)
        self.models = {
            "a-base": base,
            "b-other": brain(64 * 512, 2),
            "c-tuned": tuned(base, 3, 0.05),
            "d-tuned-on": tuned(tuned(base, 3, 0.05), 4, 0.01),
        }
        for name, raw in self.models.items():
            self.write(name + ".safetensors", safetensors({"w": ("BF16", [64, 512], raw), "norm": ("F32", [512], floats(512))}))
        self.files = [name + ".safetensors" for name in self.models]

    def same(self, folder):
        for name in self.files:
            self.assertEqual(sha256(os.path.join(self.path(folder), name)), sha256(self.path(name)), name)

    def test_an_archive_of_files(self):
        said = self.succeed("compress", *self.files, "--lossless", "-o", "archive/")
        self.assertIn("c-tuned.safetensors is stored as the change since a-base.safetensors", said.err)
        self.assertIn("d-tuned-on.safetensors is stored as the change since c-tuned.safetensors", said.err)
        self.assertNotIn("b-other.safetensors is stored as", said.err)
        sizes = {name: os.path.getsize(os.path.join(self.path("archive"), name + ".gbz")) for name in self.models}
        self.assertLess(sizes["c-tuned"], 0.4 * sizes["a-base"])
        self.assertLess(sizes["d-tuned-on"], 0.2 * sizes["a-base"])
        self.succeed("expand", "archive/", "-o", "back/")
        self.same("back")
        # One of them, to a file, to a folder, and by its own name.
        self.succeed("expand", "archive/", "--only", "d-tuned-on", "-o", "one.safetensors")
        self.assertEqual(sha256(self.path("one.safetensors")), sha256(self.path("d-tuned-on.safetensors")))
        self.succeed("expand", "archive/c-tuned.gbz", "-o", "two.safetensors")
        self.assertEqual(sha256(self.path("two.safetensors")), sha256(self.path("c-tuned.safetensors")))
        chain = self.succeed("inspect", "archive/d-tuned-on.gbz", "--json").json["chain"]
        self.assertEqual([os.path.basename(link["file"]) for link in chain], ["c-tuned.gbz", "a-base.gbz"])

    def test_an_archive_of_folders(self):
        for name in self.models:
            os.makedirs(self.path(os.path.join("models", name)))
            shutil.copy(self.path(name + ".safetensors"), self.path(os.path.join("models", name, "model.safetensors")))
            self.write(os.path.join("models", name, "config.json"), json.dumps({"model_type": name}).encode())
        folders = [os.path.join("models", name) for name in self.models]
        said = self.succeed("compress", *folders, "--lossless", "-o", "archive/")
        self.assertIn("models/c-tuned is stored as the change since models/a-base", said.err)
        self.succeed("expand", "archive/", "-o", "back/")
        self.assertEqual(self.tree("back"), self.tree("models"))
        for name in self.tree("models"):
            self.assertEqual(sha256(os.path.join(self.path("back"), name)), sha256(os.path.join(self.path("models"), name)), name)
        self.succeed("expand", "archive/", "--only", "c-tuned", "-o", "one/")
        self.assertEqual(self.tree("one"), ["config.json", "model.safetensors"])

    def test_files_and_folders(self):
        os.makedirs(self.path("folder"))
        shutil.copy(self.path(self.files[2]), self.path("folder/model.safetensors"))
        self.succeed("compress", self.files[0], "folder", self.files[3], "--lossless", "-o", "archive/", "-q")
        self.succeed("expand", "archive/", "-o", "all/")
        self.assertEqual(self.tree("all"), [self.files[0], self.files[3], "folder/model.safetensors"])
        self.succeed("expand", "archive/folder", "-o", "back/")
        self.assertEqual(sha256(self.path("back/model.safetensors")), sha256(self.path(self.files[2])))
        self.succeed("expand", "archive/d-tuned-on.gbz", "-o", "back.safetensors")
        self.assertEqual(sha256(self.path("back.safetensors")), sha256(self.path(self.files[3])))

    @cases.needs("torch")
    def test_checkpoints_of_which_everything_is_kept(self):
        """A base has the tensors that --keep chose."""
        import torch

        torch.manual_seed(0)
        weights = torch.randn(128, 128)
        optimizer = {"state": {0: {"exp_avg": torch.randn(128, 128)}}}
        for name, moved in ("a", 0), ("b", 1e-4):
            changed = weights + moved * (torch.rand(128, 128) < 0.1)
            torch.save({"model": {"l.weight": changed}, "optimizer": optimizer}, self.path(name + ".ckpt"))
        said = self.succeed("compress", "a.ckpt", "b.ckpt", "--lossless", "--keep", "all", "-o", "archive/")
        self.assertIn("b.ckpt is stored as the change since a.ckpt", said.err)
        self.succeed("expand", "archive/b.gbz", "-o", "back.ckpt")
        self.assertEqual(sha256(self.path("back.ckpt")), sha256(self.path("b.ckpt")))

    def test_what_makes_no_family(self):
        """Lossy files, files beside their inputs and a base that was named."""
        self.succeed("compress", *self.files, "--ratio", "4", "-o", "lossy/")
        for name in self.models:
            self.assertEqual(self.succeed("inspect", f"lossy/{name}.gbz", "--json").json["bases"], [])
        self.succeed("compress", *self.files, "--lossless")
        for name in self.models:
            self.assertEqual(self.succeed("inspect", f"{name}.gbz", "--json").json["bases"], [])
        said = self.succeed("compress", *self.files[1:], "--lossless", "--base", self.files[0], "-o", "named/")
        self.assertNotIn("is stored as the change since", said.err)

    def test_equal_models(self):
        shutil.copy(self.path("a-base.safetensors"), self.path("e-copy.safetensors"))
        self.succeed("compress", "a-base.safetensors", "e-copy.safetensors", "--lossless", "-o", "archive/")
        self.assertLess(os.path.getsize(self.path("archive/e-copy.gbz")), 1500)
        self.succeed("expand", "archive/", "-o", "back/")
        self.assertEqual(sha256(self.path("back/e-copy.safetensors")), sha256(self.path("a-base.safetensors")))

    def test_wrong_calls(self):
        self.succeed("compress", *self.files, "--lossless", "-o", "archive/", "-q")
        self.refused(USAGE, "--only nothing names none of the models: a-base, b-other, c-tuned, d-tuned-on",
                     "expand", "archive/", "--only", "nothing", "-o", "x.safetensors")
        os.remove(self.path("archive/a-base.gbz"))
        self.refused(USAGE, "which no file beside it is; name that one: --base FILE", "expand", "archive/c-tuned.gbz",
                     "-o", "x.safetensors")
        said = self.run_cli("expand", "archive/", "-o", "back/")
        self.assertEqual(said.status, USAGE, said)
        self.assertEqual(self.tree("back"), ["b-other.safetensors"])  # the others are done

    def test_neighbors_that_are_none(self):
        """Damaged files and other models in folders beside it concern nobody."""
        self.succeed("compress", *self.files, "--lossless", "-o", "archive/", "-q")
        os.makedirs(self.path("beside"))
        self.write("beside/damaged.gbz", b"GBZ2" + bytes(400))
        self.succeed("compress", self.files[1], "--ratio", "4", "-o", "beside/other.gbz", "-q")
        os.makedirs(self.path("archive/closed"), mode=0)
        os.remove(self.path("archive/a-base.gbz"))
        self.refused(USAGE, "which no file beside it is", "expand", "archive/c-tuned.gbz", "-o", "x.safetensors")
        said = self.succeed("inspect", "archive/c-tuned.gbz")
        self.assertIn("no file", said.out)
        self.succeed("compress", self.files[0], self.files[2], "--lossless", "-o", "beside/", "-q")
        # Folders beside one of several files are others' business, unless they are named.
        self.refused(USAGE, "which no file beside it is", "expand", "archive/c-tuned.gbz", "-o", "x.safetensors")
        self.succeed("expand", "archive/c-tuned.gbz", "--base", "beside", "-o", "x.safetensors")
        self.assertEqual(sha256(self.path("x.safetensors")), sha256(self.path(self.files[2])))

    def test_a_damaged_link(self):
        self.succeed("compress", *self.files, "--lossless", "-o", "archive/", "-q")
        with open(self.path("archive/a-base.gbz"), "r+b") as file:
            file.seek(4000)
            file.write(b"damage")
        self.refused(INPUT, "a-base.gbz", "expand", "archive/a-base.gbz", "-o", "x.safetensors")
        self.refused(USAGE, "which no file beside it is", "expand", "archive/c-tuned.gbz", "-o", "x.safetensors")


del Files  # its own tests are those of another file
if __name__ == "__main__":
    harness.main()
