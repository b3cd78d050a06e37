"""The output is never an input: under its own name, through links, and as any option names it."""

import os

import harness
from harness import USAGE, safetensors

LOSSLESS = ("--mode", "exact", "--max-bytes", "100k")
SAME = r"is both an input and the output; name another output|is the same file as the input .*; name another output"


class Overwrites(harness.CliTest):
    def packed(self, name="m.gbz", *more):
        """A .gbz, and the model that it was made of."""
        model = self.model(name + ".safetensors", widths=(8, 4, 2))
        self.succeed("compress", model, "-o", self.path(name), *LOSSLESS, *more)
        return self.path(name), model

    def linked(self, file):
        """Other names of a file."""
        names = [self.path("symbolic"), self.path("hard"), self.path("far")]
        os.symlink(file, names[0])
        os.link(file, names[1])
        os.symlink(names[0], names[2])
        os.mkdir(self.path("sub"))
        return [file, os.path.join(self.folder, "sub", "..", os.path.basename(file)), os.path.basename(file), *names]

    def test_of_compress_and_expand(self):
        packed, model = self.packed()
        for command, file in ((("compress", model, *LOSSLESS), model), (("expand", packed), packed)):
            content = self.read(file)
            for name in self.linked(file):
                for force in ((), ("--force",)):
                    with self.subTest(verb=command[0], name=name, force=force):
                        self.refused(USAGE, SAME, *command, "-o", name, *force)
            self.assertEqual(self.read(file), content)
            for name in ("symbolic", "hard", "far"):
                os.remove(self.path(name))
            os.rmdir(self.path("sub"))

    def test_the_input_through_a_link(self):
        packed, model = self.packed()
        os.link(model, self.path("hard"))
        self.refused(USAGE, SAME, "compress", self.path("hard"), *LOSSLESS, "-o", model, "--force")
        os.symlink(packed, self.path("link.gbz"))
        self.refused(USAGE, SAME, "expand", self.path("link.gbz"), "-o", packed, "--force")
        # Another file of the same bytes is another file.
        self.write("copy.safetensors", self.read(model))
        self.succeed("compress", model, *LOSSLESS, "-o", self.path("copy.safetensors"), "--force")

    def test_bases(self):
        packed, model = self.packed()
        base = self.model("base.safetensors", widths=(8, 4, 2))
        for place in (base, model):
            self.refused(USAGE, SAME, "compress", model, "--base", base, *LOSSLESS, "-o", place, "--force")
        self.refused(USAGE, SAME, "compress", model, "--base", packed, *LOSSLESS, "-o", packed, "--force")
        delta = self.path("delta.gbz")
        self.succeed("compress", model, "--base", base, *LOSSLESS, "-o", delta)
        for place in (base, delta):
            self.refused(USAGE, SAME, "expand", delta, "--base", base, "-o", place, "--force")

    def test_of_rebase(self):
        packed, model = self.packed()
        onto = self.model("onto.safetensors", widths=(8, 4, 2))
        for place in (packed, onto):
            for name in self.linked(place):
                self.refused(USAGE, SAME, "rebase", packed, "--onto", onto, "-o", name, "--force")
            for name in ("symbolic", "hard", "far"):
                os.remove(self.path(name))
            os.rmdir(self.path("sub"))

    def test_settings_data_and_plugins(self):
        _, model = self.packed()
        config = self.write("run.toml", "[train]\nseed = 3\n")
        text = self.write("corpus.txt", "abc" * 100)
        for option, value, file in (("--config", config, config), ("--data", "text:" + text, text),
                                    ("--plugin", config, config)):
            with self.subTest(option=option):
                self.refused(USAGE, SAME, "compress", model, option, value, *LOSSLESS, "-o", file, "--force")
        os.mkdir(self.path("mnist"))
        images = self.write("mnist/train-images-idx3-ubyte", b"x")
        self.refused(USAGE, SAME, "compress", model, "--data", "mnist:" + self.path("mnist"), *LOSSLESS, "-o", images,
                     "--force")

    def test_reports_logs_and_checkpoints(self):
        packed, model = self.packed()
        out = ("-o", self.path("x.gbz"))
        self.refused(USAGE, SAME, "inspect", packed, "--report", packed, "--force")
        self.refused(USAGE, SAME, "inspect", packed, "--against", model, "--report", model, "--force")
        os.symlink(model, self.path("page.html"))
        self.refused(USAGE, SAME, "compress", model, *LOSSLESS, *out, "--report", self.path("page.html"), "--force")
        os.mkdir(self.path("hf"))
        self.write("hf/model.safetensors", self.read(model))
        for option in ("--tensorboard", "--checkpoint"):
            self.refused(USAGE, SAME, "compress", self.path("hf"), *LOSSLESS, *out, option, self.path("hf"))
            self.refused(USAGE, SAME, "compress", model, *LOSSLESS, *out, option, model)
            self.refused(USAGE, f"{option} names .*, which -o names too", "compress", model, *LOSSLESS, *out, option,
                         self.path("x.gbz"))
        self.refused(USAGE, "--report names .*, which -o names too", "compress", model, *LOSSLESS, *out, "--report",
                     os.path.join(self.folder, ".", "x.gbz"))

    def test_folders(self):
        os.mkdir(self.path("hf"))
        self.write("hf/model.safetensors", safetensors(harness.mlp((8, 4, 2))))
        self.write("hf/config.json", "{}")
        folder = self.path("hf")
        os.symlink(folder, self.path("link"))
        for name in (folder, folder + "/", self.path("link"), os.path.join(folder, "..", "hf/")):
            self.refused(USAGE, SAME, "compress", folder, *LOSSLESS, "-o", name, "--force")
        self.refused(USAGE, SAME, "compress", folder, *LOSSLESS, "-o", self.path("hf/model.safetensors"), "--force")
        self.refused(USAGE, SAME, "compress", folder, *LOSSLESS, "-o", self.path("hf/config.json"), "--force")
        # A file of its own in the model's folder is no input, also the second time.
        for force in ((), ("--force",)):
            self.succeed("compress", folder, *LOSSLESS, "-o", self.path("hf/model.gbz"), *force)
        self.succeed("compress", folder, *LOSSLESS, "-o", self.path("packed/"))
        packed = self.path("packed")
        self.refused(USAGE, SAME, "expand", packed, "-o", packed + "/", "--force")
        self.refused(USAGE, SAME, "expand", packed, "-o", self.path("packed/model.gbz"), "--force")
        for force in ((), ("--force",)):
            self.succeed("expand", packed, "-o", self.path("packed/model.safetensors"), *force)

    def test_shards_of_an_index(self):
        tensors = harness.mlp((8, 4, 2))
        self.write("1.safetensors", safetensors({n: tensors[n] for n in ("0.weight", "0.bias")}))
        self.write("2.safetensors", safetensors({n: tensors[n] for n in ("2.weight", "2.bias")}))
        files = {"0.weight": "1", "0.bias": "1", "2.weight": "2", "2.bias": "2"}
        listed = ",".join(f'"{name}":"{file}.safetensors"' for name, file in files.items())
        index = self.write("model.safetensors.index.json", '{"weight_map":{%s}}' % listed)
        for file in ("1.safetensors", "2.safetensors", "model.safetensors.index.json"):
            self.refused(USAGE, SAME, "compress", index, *LOSSLESS, "-o", self.path(file), "--force")
        self.refused(USAGE, SAME, "compress", os.path.basename(index), *LOSSLESS, "-o", "2.safetensors", "--force")

    def test_names_that_are_not_given(self):
        """The name that stands for a missing -o is an input, too."""
        _, model = self.packed()
        os.symlink(model, self.path("other.gbz"))
        os.link(model, self.path("other.safetensors"))
        self.refused(USAGE, SAME, "compress", self.path("other.safetensors"), *LOSSLESS, "--force")

    def test_sweeps(self):
        if harness.PORTABLE:
            self.skipTest("sweep needs LibTorch")
        _, model = self.packed()
        os.mkdir(self.path("hf"))
        self.write("hf/model.safetensors", self.read(model))
        self.refused(USAGE, SAME, "sweep", self.path("hf"), "--ratios", "2", "-o", self.path("hf"))
        os.mkdir(self.path("curve"))
        for name in ("ratio-2.gbz", "points.jsonl", "sweep.csv"):
            os.link(model, self.path("curve/" + name))
            self.refused(USAGE, SAME, "sweep", model, "--ratios", "2", "-o", self.path("curve"))
            os.remove(self.path("curve/" + name))


if __name__ == "__main__":
    harness.main()
