"""Wrong archives and folders: names that lead elsewhere, files that are none, bases that are missing or others, changes meanwhile."""

import hashlib
import os
import shutil
import socket

import cases
import harness
from families_test import brain, tuned
from harness import INPUT, USAGE, safetensors
from originals_test import Files, sha256


class Archives(Files):
    def setUp(self):
        super().setUp()
        base = brain(64 * 128, 1)
        self.models = {"a": base, "b": tuned(base, 2, 0.05), "other": brain(64 * 128, 3)}
        for name, raw in self.models.items():
            self.write(name + ".safetensors", safetensors({"w": ("BF16", [64, 128], raw)}))

    def forged(self, name, old, new):
        """A .gbz with other bytes in it and a digest that fits."""
        data = self.read(name)
        self.assertEqual((data.count(old), len(old)), (1, len(new)))
        content = data[:-16].replace(old, new)
        self.write(name, content + hashlib.sha256(content).digest()[:16])

    def test_names_that_lead_elsewhere(self):
        shutil.copy(self.path("a.safetensors"), self.path("model.safetensors"))
        for bad in "../../evil.tensor", "/abs/evil.tensors", "a/../../evil.tens", "a\\b\\evil.tensors", "model\n.evil.names":
            self.succeed("compress", "model.safetensors", "--lossless", "--force", "-o", "m.gbz", "-q")
            self.forged("m.gbz", b"model.safetensors", bad.ljust(17, "x")[:17].encode())
            for out in "x.safetensors", "out/":
                self.refused(INPUT, "which is not allowed", "expand", "m.gbz", "-o", out)

    def test_what_is_no_file(self):
        """Pipes, sockets and links that leave the folder are named and left out; the rest comes back."""
        os.mkdir(self.path("m"))
        shutil.copy(self.path("a.safetensors"), self.path("m/model.safetensors"))
        self.write("m/config.json", b"{}")
        os.mkfifo(self.path("m/pipe"))
        os.symlink("/etc/passwd", self.path("m/secret.txt"))
        with socket.socket(socket.AF_UNIX) as bound:
            os.chdir(self.path("m"))  # a socket's path is short
            bound.bind("socket")
            os.chdir("/")
            said = self.succeed("compress", "m", "--lossless", "-o", "packed/")
        for name in "pipe", "secret.txt", "socket":
            self.assertIn(name + " (not an ordinary file)", said.err)
        self.succeed("expand", "packed/", "-o", "back/")
        self.assertEqual(self.tree("back"), ["config.json", "model.safetensors"])

    def test_another_base_in_the_place_of_its_own(self):
        self.succeed("compress", "a.safetensors", "b.safetensors", "--lossless", "-o", "archive/", "-q")
        self.succeed("compress", "other.safetensors", "--lossless", "--force", "-o", "archive/a.gbz", "-q")
        self.refused(USAGE, "which no file beside it is; name that one", "expand", "archive/b.gbz", "-o", "x.safetensors")
        self.refused(USAGE, "this is another base", "expand", "archive/b.gbz", "--base", "archive/a.gbz", "-o", "x.safetensors")
        # Its own one as a file of another name.
        self.succeed("expand", "archive/b.gbz", "--base", "a.safetensors", "-o", "x.safetensors")
        self.assertEqual(sha256(self.path("x.safetensors")), sha256(self.path("b.safetensors")))


del Files  # its own tests are those of another file
if __name__ == "__main__":
    harness.main()
