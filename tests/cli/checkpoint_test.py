"""Files as PyTorch saves them: which model is taken, what is said about the rest."""

import json
import os
import pathlib
import struct
import unittest
import zipfile

import harness
from harness import FAILED, INPUT, TARGET, USAGE, floats, safetensors

INPUTS = pathlib.Path(__file__).resolve().parent.parent / "golden" / "inputs"
LEFT = r"left out: optimizer \(15 tensors, 212 B\), loss \(1 tensor, 4 B\), epoch, scheduler"
LOSSLESS = ("--mode", "exact", "--max-bytes", "100k")


def tensors_of(content):
    """{name: bytes} of a safetensors file."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    return {name: data[slice(*entry["data_offsets"])] for name, entry in header.items() if name != "__metadata__"}


class Checkpoints(harness.CliTest):
    def expanded(self, file, *options):
        """What compress without loss and expand give, and what compress said."""
        out, back = self.path("x.gbz"), self.path("x.safetensors")
        said = self.succeed("compress", file, "-o", out, *LOSSLESS, "--force", *options).err
        self.succeed("expand", out, "-o", back, "--force")
        return tensors_of(self.read("x.safetensors")), said

    def test_every_format_gives_the_same_tensors(self):
        plain, _ = self.expanded(str(INPUTS / "zip.pt"))
        self.assertIn("fc.weight", plain)
        for name in ("old.pth", "protocol4.pt", "checkpoint.pth.tar", "parallel.pt", "lightning.ckpt"):
            with self.subTest(name):
                self.assertEqual(self.expanded(str(INPUTS / name))[0], plain)
        plain["norm.num_batches_tracked"] = bytes(8)  # of the same net, never trained
        self.assertEqual(self.expanded(str(INPUTS / "exported.pt2"))[0], plain)

    def test_what_is_left_out_is_said_in_one_line(self):
        file = str(INPUTS / "checkpoint.pth.tar")
        self.assertRegex(self.expanded(file)[1], "gbcompress: " + LEFT + "\n")
        self.assertNotIn("left out", self.expanded(file, "-q")[1])
        self.assertRegex(self.succeed("inspect", file).out, LEFT)
        listed = self.succeed("inspect", file, "--json").json
        self.assertEqual(len(listed["notes"]), 1)
        self.assertEqual(listed["file_bytes"], sum(t["bytes"] for t in listed["tensors"]) - 48, "tied once")

    def test_keep_all(self):
        kept, _ = self.expanded(str(INPUTS / "checkpoint.pth.tar"), "--keep", "all")
        self.assertEqual(kept["epoch"], struct.pack("<q", 3))
        self.assertEqual(kept["loss"], struct.pack("<f", 0.5))
        self.assertIn("optimizer.state.0.exp_avg", kept)
        self.assertIn("model.fc.weight", kept)

    def test_parts(self):
        file = str(INPUTS / "gan.pt")
        out = self.path("x.gbz")
        self.refused(USAGE, "2 candidates for the model: generator and discriminator; .*--part NAME",
                     "compress", file, "-o", out)
        self.refused(INPUT, "no part critic; it has generator and discriminator", "inspect", file, "--part", "critic")
        self.refused(USAGE, "contradicts", "inspect", file, "--part", "generator", "--keep", "all")
        self.refused(USAGE, "word all", "inspect", file, "--keep", "some")
        part, said = self.expanded(file, "--part", "generator")
        self.assertEqual(len(part), 9)
        self.assertIn("left out: discriminator", said)
        self.assertEqual(len(self.expanded(file, "--keep", "all")[0]), 18)

    def test_what_holds_no_model(self):
        out = self.path("x.gbz")
        for name, sentence in (("optimizer.pt", "holds no model, only optimizer .*epoch"),
                               ("quantised.pt", "a quantized tensor")):
            with self.subTest(name):
                self.refused(INPUT, sentence, "compress", str(INPUTS / name), "-o", out)
                self.refused(INPUT, sentence, "inspect", str(INPUTS / name))

    def test_archives_of_another_kind(self):
        for name, inside, sentence in (
                ("aoti.pt2", "m/data/aotinductor/model/x.so", "AOTInductor package: compiled code, not weights"),
                ("bare.pt2", "m/models/model.json", "without weights of torch.export"),
                ("other.pt2", "m/data.txt", "neither safetensors nor a PyTorch state dict")):
            with self.subTest(name):
                with zipfile.ZipFile(self.path(name), "w") as file:
                    file.writestr(inside, b"{}")
                    if name != "other.pt2":
                        file.writestr("m/archive_format", b"pt2")
                for verb in (("inspect",), ("compress", "-o", self.path("x.gbz"))):
                    self.refused(INPUT, sentence, *verb, self.path(name))

    def test_a_size_below_what_keeps_tensors_alive(self):
        file = self.write("m.safetensors", safetensors(harness.mlp((64, 32, 10))))
        result = self.run_cli("compress", file, "-o", self.path("x.gbz"), "--max-bytes", "200", "--json")
        self.assertEqual(result.status, TARGET, result)
        self.one_message(result, "the target is 200 bytes, and the file has .*, the smallest that keeps half")
        self.assertFalse(result.json["target_met"])
        for tensor in result.json["tensors"]:
            self.assertLessEqual(tensor["error"], 0.5, tensor)
        self.succeed("expand", self.path("x.gbz"), "-o", self.path("y.safetensors"))

    def test_half_a_download(self):
        whole = (INPUTS / "old.pth").read_bytes()
        file = self.write("half.pth", whole[:len(whole) - 100])
        self.refused(INPUT, r"half.pth is cut off: it ends after \d+ bytes, within its storage", "inspect", file)

    def test_folders(self):
        os.mkdir(self.path("hf"))
        self.refused(INPUT, "holds no .safetensors file, no pytorch_model.bin", "inspect", self.path("hf"))
        shard = safetensors({"a": ("F32", [2], floats(2))})
        self.write("hf/1.safetensors", shard)
        self.write("secret.safetensors", shard)
        index = "hf/model.safetensors.index.json"
        self.write(index, '{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}')
        self.refused(INPUT, "1 does not exist beside it: 2.safetensors", "inspect", self.path("hf"))
        self.write(index, '{"weight_map":{"a":"../secret.safetensors"}}')
        self.refused(INPUT, "a plain name ending in .safetensors was expected", "inspect", self.path("hf"))
        self.write(index, '{"weight_map":{"a":"1.safetensors"}}')
        self.assertEqual(self.succeed("inspect", self.path("hf"), "--json").json["format"], "folder")

    def test_a_folder_gives_a_folder(self):
        os.mkdir(self.path("hf"))
        self.write("hf/model.safetensors", safetensors(harness.mlp((8, 4, 2))))
        for name in ("config.json", "vocab.txt"):
            self.write("hf/" + name, name)
        packed, back = self.path("packed/"), self.path("back/")
        self.succeed("compress", self.path("hf"), "-o", packed, *LOSSLESS)
        self.assertEqual(sorted(os.listdir(packed)), ["config.json", "model.gbz", "vocab.txt"])
        self.refused(USAGE, "exists", "compress", self.path("hf"), "-o", packed, *LOSSLESS)
        self.assertIn("2 files copied beside it", self.succeed("expand", packed, "-o", back).out)
        self.assertEqual(sorted(os.listdir(back)), ["config.json", "model.safetensors", "vocab.txt"])
        self.assertEqual(self.read("back/vocab.txt"), b"vocab.txt")
        self.assertEqual(tensors_of(self.read("back/model.safetensors")),
                         tensors_of(self.read("hf/model.safetensors")))
        said = self.succeed("compress", self.path("hf"), "-o", self.path("x.gbz"), *LOSSLESS).err
        self.assertNotIn("only the weights are written", said)
        self.succeed("expand", self.path("x.gbz"), "-o", self.path("all/"))
        self.assertEqual(sorted(os.listdir(self.path("all"))), ["config.json", "model.safetensors", "vocab.txt"])
        self.assertEqual(self.read("all/vocab.txt"), b"vocab.txt")

    def test_a_folder_appears_whole_or_not_at_all(self):
        os.mkdir(self.path("hf"))
        self.write("hf/model.safetensors", safetensors(harness.mlp((8, 4, 2))))
        self.write("hf/config.json", "{}")
        packed = self.path("packed/")
        self.refused(INPUT, "neither safetensors", "compress", self.write("none.pt", b"x"), "-o", packed, *LOSSLESS)
        self.succeed("compress", self.path("hf"), "-o", packed, *LOSSLESS)
        broken = bytearray(self.read("packed/model.gbz"))
        broken[-1] ^= 1
        self.write("packed/model.gbz", bytes(broken))
        self.refused(INPUT, "digest|damaged|corrupt", "expand", packed, "-o", self.path("back/"))
        self.refused(INPUT, "holds no .gbz", "expand", self.path("hf"), "-o", self.path("back/"))
        os.mkdir(self.path("there"))
        self.write("secret", "secret")
        os.symlink(self.path("secret"), self.path("there/config.json"))
        self.refused(FAILED, "symbolic link", "compress", self.path("hf"), "-o", self.path("there"), "--force",
                     *LOSSLESS)
        self.assertEqual(self.read("secret"), b"secret")
        self.refused(FAILED, "cannot be written", "compress", self.path("hf"), "-o", self.path("no/where/"),
                     *LOSSLESS)
        # With data the other path writes: the folder goes when the run fails after it was made.
        wrong = ("--arch", "mlp", "--data", "digits", "--max-bytes", "3k", *harness.QUICK)
        self.refused(INPUT, "64", "compress", self.path("hf"), "-o", self.path("new/"), *wrong)

    def test_a_folder_from_training(self):
        os.mkdir(self.path("hf"))
        self.write("hf/model.safetensors", safetensors(harness.mlp((64, 8, 10))))
        self.write("hf/config.json", "{}")
        self.succeed("compress", self.path("hf"), "-o", self.path("out/"), "--arch", "mlp", "--data", "digits",
                     "--max-bytes", "3k", *harness.QUICK)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["config.json", "model.gbz"])


if __name__ == "__main__":
    harness.main()
