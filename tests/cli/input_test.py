"""Model files, artifacts and data that are wrong: a sentence, status 3, nothing written."""

import hashlib
import json
import math
import os
import random
import struct
import subprocess
import unittest

import harness
from harness import INPUT, PLUGIN, USAGE, safetensors, floats


def entry(dtype="F32", shape=(2, 2), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


GOOD = {"a": ("F32", [2, 2], floats(4))}
BAD_SAFETENSORS = {
    "header length 0": safetensors(GOOD, length=0),
    "header longer than the file": safetensors(GOOD, length=10_000),
    "header length 2^63": safetensors(GOOD, length=1 << 63),
    "cut in the length": safetensors(GOOD)[:5],
    "cut in the header": safetensors(GOOD)[:20],
    "cut in the data": safetensors(GOOD)[:-1],
    "bytes left over": safetensors(GOOD) + b"\0",
    "not JSON": safetensors(GOOD, header="{nonsense"),
    "a list": safetensors(GOOD, header="[1, 2]"),
    "overlap": safetensors(GOOD, header=json.dumps({"a": entry(), "b": entry(offsets=(8, 24))})) + bytes(8),
    "hole": safetensors(GOOD, header=json.dumps({"a": entry(offsets=(16, 32))})) + bytes(16),
    "offsets past the end": safetensors(GOOD, header=json.dumps({"a": entry(offsets=(0, 1600))})),
    "offsets backwards": safetensors(GOOD, header=json.dumps({"a": entry(offsets=(16, 0))})),
    "size does not fit the shape": safetensors(GOOD, header=json.dumps({"a": entry(shape=(3, 3))})),
    "shape overflows": safetensors(GOOD, header=json.dumps({"a": entry(shape=(1 << 40, 1 << 40))})),
    "negative side": safetensors(GOOD, header=json.dumps({"a": entry(shape=(-2, -2))})),
    "nine dimensions": safetensors(GOOD, header=json.dumps({"a": entry(shape=(1, 1, 1, 1, 1, 1, 1, 2, 2))})),
    "unknown dtype": safetensors(GOOD, header=json.dumps({"a": entry(dtype="F33")})),
    "duplicate name": safetensors(
        GOOD, header='{"a":%s,"a":%s}' % (json.dumps(entry(shape=(1, 2), offsets=(0, 8))),
                                          json.dumps(entry(shape=(1, 2), offsets=(8, 16))))),
    "deep JSON": safetensors(GOOD, header="[" * 100_000),
}


class Models(harness.CliTest):
    def test_missing_and_empty(self):
        out = self.path("x")
        empty = self.write("empty", b"")
        text = self.write("text", "hello, this is no model\n" * 10)
        for verb in (["inspect"], ["compress", "-o", out], ["expand", "-o", out], ["eval", "--data", "digits"]):
            with self.subTest(verb=verb[0]):
                self.refused(INPUT, "none does not exist", *verb, self.path("none"))
                self.refused(INPUT, "empty", *verb, empty)
                self.refused(INPUT, "text", *verb, text)
        self.refused(INPUT, "is a folder|holds no", "expand", self.folder, "-o", out)
        self.refused(INPUT, "holds no .safetensors", "inspect", self.folder)

    def test_bad_safetensors(self):
        for what, content in BAD_SAFETENSORS.items():
            with self.subTest(what):
                file = self.write("bad.safetensors", content)
                self.refused(INPUT, "bad.safetensors", "inspect", file)
        file = self.write("bad.safetensors", BAD_SAFETENSORS["overlap"])
        self.refused(INPUT, "bad.safetensors", "compress", file, "-o", self.path("x.gbz"))

    def test_architecture_that_does_not_fit(self):
        model = self.model(widths=(64, 32, 10))
        result = self.refused(INPUT, "lenet-300-100", "compress", model, "--arch", "lenet-300-100", "-o",
                           self.path("x.gbz"))
        self.assertRegex(result.err, r"0\.weight \[32, 64\] should be \[300, 784\]")
        self.refused(INPUT, "lenet5", "eval", model, "--arch", "lenet5", "--data", "digits")

    def test_data_that_does_not_fit(self):
        model = self.model(widths=(50, 32, 10))
        common = ("compress", model, "--arch", "mlp", "-o", self.path("x.gbz"), "-q", *harness.QUICK)
        self.refused(INPUT, "64", *common, "--data", "digits")
        self.refused(INPUT, "none", *common, "--data", "mnist:" + self.path("none"))
        few = self.model("few.safetensors", widths=(64, 32, 3))
        self.refused(INPUT, "class", "eval", few, "--arch", "mlp", "--data", "digits", "-q")

    def test_numbers_that_are_none(self):
        for poison in (math.nan, math.inf, -math.inf):
            model = self.model(poison=poison)
            with self.subTest(poison=poison):
                for more in (("--max-error", "0.01"), ("--mode", "exact")):
                    done = self.succeed("compress", model, *more, "-o", self.path("x.gbz"), "--force")
                    self.assertEqual(done.err.count("NaN or infinity"), 1, done)
                    self.assertIn("0.weight (1 value, row 0)", done.err)
        mask = struct.pack("<3f", 0, -math.inf, 0)
        many = dict(harness.mlp((64, 32, 10)), mask=("F32", [3], mask))
        self.succeed("compress", self.write("m.safetensors", safetensors(many)), "-o", self.path("x.gbz"),
                     "--ratio", "4", "--force")

    def test_names_are_escaped(self):
        file = self.write("m.safetensors", safetensors({"caf\u00e9": ("F32", [1], floats(1))}))
        self.assertIn("caf\u00e9", self.succeed("inspect", file).out)
        file = self.write("m.safetensors", safetensors({"\x1b[31mred": ("F32", [1], floats(1))}))
        result = self.run_cli("inspect", file)
        self.assertEqual(result.status, INPUT, result)
        self.assertNotIn("\x1b", result.out + result.err)


class Artifacts(harness.CliTest):
    def test_flipped_bits(self):
        whole = self.read(self.compressed())
        draw = random.Random(1)
        places = sorted({0, 3, 4, 8, 12, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(10))})
        for place in places:
            with self.subTest(byte=place):
                content = bytearray(whole)
                content[place] ^= 1 << draw.randrange(8)
                file = self.write("flipped.gbz", content)
                self.refused(INPUT, "flipped.gbz", "expand", file, "-o", self.path("x.safetensors"))
                if place % 3 == 0:
                    self.refused(INPUT, "flipped.gbz", "inspect", file)

    def test_truncated(self):
        whole = self.read(self.compressed())
        for length in (1, 3, 4, 7, 8, 20, len(whole) // 2, len(whole) - 33, len(whole) - 1):
            with self.subTest(length=length):
                file = self.write("cut.gbz", whole[:length])
                self.refused(INPUT, "cut.gbz", "expand", file, "-o", self.path("x.safetensors"))
        file = self.write("long.gbz", whole + b"\0")
        self.refused(INPUT, "long.gbz", "expand", file, "-o", self.path("x.safetensors"))

    def test_other_versions(self):
        whole = bytearray(self.read(self.compressed()))
        self.assertEqual(whole[:4], b"GBZ2")
        for version, advice in ((b"1", "compress the model again"), (b"3", "upgrade gbcompress")):
            whole[3:4] = version
            whole[-16:] = hashlib.sha256(whole[:-16]).digest()[:16]
            file = self.write("other.gbz", whole)
            sentence = f"version {version.decode()} .*{advice}"
            self.refused(INPUT, sentence, "inspect", file)
            self.refused(INPUT, sentence, "expand", file, "-o", self.path("x.safetensors"))

    def test_missing_plugin(self):
        subprocess.run([harness.FIXTURES, self.folder], check=True)
        ghost = self.path("ghost.gbz")
        self.refused(PLUGIN, "ghost", "expand", ghost, "-o", self.path("x.safetensors"))
        self.refused(PLUGIN, "ghost", "eval", ghost, "--arch", "mlp", "--data", "digits")
        listed = self.succeed("inspect", ghost, "--json").json
        self.assertEqual([t.get("type") for t in listed["tensors"]], ["ghost"])

    def test_inspect_shows_every_kind(self):
        subprocess.run([harness.FIXTURES, self.folder], check=True)
        file = self.path("coded.gbz")
        listed = self.succeed("inspect", file, "--json").json
        kinds = {t["name"]: t["kind"] for t in listed["tensors"]}
        self.assertEqual(kinds, {name: {"coded": "quantized"}.get(name, name) for name in kinds})
        self.assertEqual(set(kinds), {"coded", "predicted", "generated", "constant", "tied"})
        tensors = {t["name"]: t for t in listed["tensors"]}
        self.assertEqual(listed["profile"], "small")
        self.assertEqual(tensors["coded"]["step"], 0.0625)
        self.assertGreater(tensors["coded"]["bits_per_weight"], 0.1)
        self.assertLess(tensors["coded"]["bits_per_weight"], 8)
        self.assertEqual(tensors["constant"]["stored_bytes"], 0)
        self.assertEqual(tensors["generated"]["coding"], "coded")
        text = self.succeed("inspect", file).out
        for words in ("step 0.0625", "linear predicted", "bits per weight"):
            self.assertIn(words, text)
        self.succeed("expand", file, "-o", self.path("x.safetensors"))

    def test_expansion_is_bounded(self):
        file = self.compressed()
        self.refused(INPUT, "100", "expand", file, "-o", self.path("x.safetensors"), "--max-output", "100")
        self.succeed("expand", file, "-o", self.path("x.safetensors"), "--max-output", "10MB")

    def test_eval_says_what_it_lacks(self):
        model = self.model()
        bare = self.path("bare.gbz")
        self.succeed("compress", model, "-o", bare, "-q", "--ratio", "2", *harness.QUICK)
        self.refused(USAGE, "--arch NAME", "eval", bare, "--data", "digits")
        self.succeed("eval", bare, "--data", "digits", "--arch", "mlp", "-q")
        self.refused(USAGE, "no program that can be run", "eval", model, "--data", "digits")

    def test_data_for_weights_alone_names_the_python_call(self):
        exported = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/inputs/exported.pt2")
        output = self.path("calibrated.gbz")
        for model in (self.model(), exported):
            result = self.run_cli("compress", model, "--data", "digits", "-o", output)
            self.assertEqual(result.status, USAGE, result)
            self.assertIn("gbcompress.calibrate(model, batches, FILE)", result.err)
            self.assertFalse(os.path.exists(output), result)

    def test_torchscript_brings_its_own_code(self):
        shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data/models")
        script = os.path.join(shared, "lenet-300-100-mnist.torchscript.pt")
        if not os.path.exists(script):
            raise unittest.SkipTest("no TorchScript file at ../shared/data/models")
        listed = self.succeed("inspect", script, "--json").json
        self.assertEqual(listed["format"], "torchscript")
        self.assertEqual({tuple(t["shape"]) for t in listed["tensors"] if t["module"] == "Linear"},
                         {(300, 784), (300,), (100, 300), (100,), (10, 100), (10,)})
        self.refused(USAGE, "leave out --arch", "compress", script, "--arch", "lenet-300-100", "-o",
                     self.path("x.gbz"))
        out = self.path("x.gbz")
        self.succeed("compress", script, "-o", out, "-q", "--ratio", "10", *harness.QUICK)
        self.refused(USAGE, "came from TorchScript.* --model", "eval", out, "--data", "digits")
        self.refused(INPUT, "64", "eval", out, "--data", "digits", "--model", script)
        self.refused(INPUT, "do not fit", "eval", out, "--data", "digits", "--arch", "lenet5")

    @unittest.skipUnless(os.path.exists("/dev/zero"), "no /dev/zero")
    def test_devices_are_no_files(self):
        self.refused(INPUT, "not an ordinary file", "inspect", "/dev/zero")


harness.main()
