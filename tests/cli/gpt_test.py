"""--arch gpt: a language model from scratch, in each mode, and what it refuses."""

import unittest

import harness
from harness import INPUT, USAGE

TEXT = "to be, or not to be, that is the question: whether it is nobler in the mind to suffer.\n"
ARCH = "gpt:1-32-2-16:30"


class Gpt(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.text = self.write("text.txt", TEXT * 120)

    def train(self, arch, *more, context=16):
        return ("compress", "--from-scratch", "--arch", arch, "--data", "text:" + self.text, "--set",
                f"data.context={context}", "--epochs", "4", "-o", self.path("g.gbz"), "--force", *more)

    def test_each_mode_learns(self):
        for mode, size in (("exact", ["--max-bytes", "9M"]), ("generated", ["--ratio", "3"]),
                           ("quantized", ["--set", "rate.lambda=0.01"])):
            with self.subTest(mode + " ".join(size)):
                report = self.succeed(*self.train(ARCH, "--mode", mode, *size, "--json")).json
                before, after = (report["metric"][key] for key in ("before", "after"))
                self.assertGreater(before, 3.2)  # ln 30 is 3.4
                self.assertLess(after, 2.6)  # frequencies of characters alone give 2.66

    def test_query_key_and_value_have_g_nets_of_their_own(self):
        self.succeed(*self.train("gpt:1-64-2-16:30", "--mode", "generated", "--ratio", "8"))
        tensors = {t["name"]: t for t in self.succeed("inspect", self.path("g.gbz"), "--json").json["tensors"]}
        fused = tensors["block1.attention.in_proj_weight"]
        self.assertEqual(fused["kind"], "generated")
        self.assertIn("attention", str(fused))

    def test_a_file_opens_without_the_size_of_its_vocabulary(self):
        self.succeed(*self.train(ARCH, "--mode", "exact", "--max-bytes", "9M"))
        model = self.path("g.safetensors")
        self.succeed("expand", self.path("g.gbz"), "-o", model)
        self.succeed("compress", model, "--arch", "gpt:1-32-2-16", "--data", "text:" + self.text, "--set",
                     "data.context=16", "--epochs", "0", "--ratio", "4", "-o", self.path("h.gbz"))

    def test_wrong_shapes(self):
        for arch in ("gpt", "gpt:1-32", "gpt:0-32-2-16", "gpt:1-32-2-16:", "gpt:1-32-2-16:30:4", "gpt:1-32-2-x"):
            self.refused(USAGE, "--arch .*write layers .* as in gpt:4-128-4-128", *self.train(arch))
        self.refused(USAGE, "the width must be a multiple of the heads, got 32 and 3", *self.train("gpt:1-32-3-16"))

    def test_wrong_data(self):
        self.refused(INPUT, "a context of 8 tokens, and the data have windows of 16; set data.context to at most 8",
                     *self.train("gpt:1-32-2-8"))
        self.refused(INPUT, "a vocabulary of 9, and the data have the token", *self.train("gpt:1-32-2-16:9"))
        digits = ("compress", "--from-scratch", "--arch", ARCH, "--data", "digits", "-o", self.path("g.gbz"))
        self.refused(INPUT, "a gpt takes windows of tokens", *digits)
        self.refused(USAGE, "needs a model that declares its stages", *self.train(ARCH, "--strategy", "al"))


if __name__ == "__main__":
    harness.main()
