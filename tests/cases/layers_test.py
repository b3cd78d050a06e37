"""Files with layers: a draft and the exact rest; cut, damaged, of every format, and what contradicts them."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

import cases
import harness
from harness import FAILED, INPUT, USAGE, floats, safetensors
from originals_test import Files, sha256


def brain(count, seed, deviation=0.02):
    import numpy as np
    values = np.random.default_rng(seed).normal(0, deviation, count).astype(np.float32)
    return values, (values.view(np.uint32) >> 16).astype("<u2").tobytes()


@cases.needs("numpy")
class Layers(Files):
    def setUp(self):
        super().setUp()
        wide, half = brain(96 * 640, 1)
        self.write("m.safetensors", safetensors({
            "half": ("BF16", [96, 640], half), "same.half": ("BF16", [96, 640], half),
            "full": ("F32", [320, 192], wide.tobytes()), "norm": ("F32", [512], floats(512)),
            "steps": ("I64", [2], bytes(16))}))
        self.size = os.path.getsize(self.path("m.safetensors"))

    def layered(self, *options, model="m.safetensors"):
        """@return the bytes of the draft"""
        target = options or ("--ratio", "6")
        self.succeed("compress", model, "--lossless", "--layers", *target, "-o", "m.gbz", "--force", "-q")
        layers = self.succeed("inspect", "m.gbz", "--json").json["layers"]
        self.assertEqual(sum(layers.values()), os.path.getsize(self.path("m.gbz")))
        return layers["draft_bytes"]

    def cut(self, size, name="cut.gbz"):
        return self.write(name, self.read(self.path("m.gbz"))[:size])

    def test_both_values_come_back(self):
        for target in (("--ratio", "6"), ("--max-bytes", "50k"), ("--max-error", "0.02"), ("--bits", "3"), ("--ratio", "3")):
            with self.subTest(target=target):
                draft = self.layered(*target)
                self.succeed("expand", "m.gbz", "-o", "back.safetensors", "--force")
                self.assertEqual(sha256(self.path("back.safetensors")), sha256(self.path("m.safetensors")))
                self.succeed("expand", "m.gbz", "--draft", "-o", "draft.safetensors", "--force")
                self.succeed("compress", "m.safetensors", *target, "-o", "alone.gbz", "--force", "-q")
                self.assertLessEqual(abs(draft - os.path.getsize(self.path("alone.gbz"))), 0.01 * self.size)
                compared = self.succeed("compare", "m.safetensors", "draft.safetensors", "--json").json
                self.assertGreater(compared["error"], 0)
                self.assertEqual(self.succeed("compare", "m.safetensors", "m.gbz", "--json").json["differ"], 0)
                # Whoever has the first bytes alone has the draft.
                self.cut(draft)
                self.succeed("expand", "cut.gbz", "--draft", "-o", "again.safetensors", "--force")
                self.assertEqual(sha256(self.path("again.safetensors")), sha256(self.path("draft.safetensors")))
                same = self.succeed("compare", "draft.safetensors", "cut.gbz", "--json").json
                self.assertEqual((same["differ"], same["only_a"], same["only_b"]), (0, 0, 0))

    def test_reported_figures_are_those_on_disk(self):
        said = self.succeed("compress", "m.safetensors", "--lossless", "--layers", "--ratio", "6", "-o", "m.gbz", "--json").json
        size, layers = os.path.getsize(self.path("m.gbz")), said["layers"]
        self.assertEqual(said["output_bytes"], size)
        self.assertEqual(layers["draft_bytes"] + layers["exact_bytes"], size)
        self.assertLessEqual(layers["draft_bytes"], self.size / 6)
        self.assertEqual(said["weight_error"], 0)
        self.assertEqual(said["identity"], self.succeed("inspect", "m.gbz", "--json").json["identity"])
        self.cut(layers["draft_bytes"])
        draft = self.succeed("inspect", "cut.gbz", "--json", "--against", "m.safetensors").json
        self.assertEqual(draft["identity"], layers["draft_identity"])
        self.assertEqual(draft["layers"], {"draft_bytes": layers["draft_bytes"], "exact_bytes": None})
        self.assertEqual([t["error"] for t in draft["tensors"]], [t["error"] for t in layers["draft_tensors"]])
        again = self.succeed("inspect", "m.gbz", "--draft", "--json", "--against", "m.safetensors").json
        self.assertEqual(again["tensors"], draft["tensors"])
        table = self.succeed("compress", "m.safetensors", "--lossless", "--layers", "-o", "m.gbz", "--force").out
        self.assertRegex(table, r"draft, bytes +[\d,]+, ratio \d+\.\d\d\n *exact part, bytes +[\d,]+\n *error of the draft")
        self.assertRegex(self.succeed("inspect", "m.gbz").out, r"layers: a draft, the first [\d,]+ bytes, and the exact part")
        self.assertIn("layers: the draft alone", self.succeed("inspect", "cut.gbz").out)

    def test_a_few_points_more_than_exact(self):
        self.succeed("compress", "m.safetensors", "--lossless", "-o", "exact.gbz")
        for ratio in ("4", "8"):
            self.layered("--ratio", ratio)
            more = os.path.getsize(self.path("m.gbz")) - os.path.getsize(self.path("exact.gbz"))
            self.assertLess(more, 0.03 * self.size, ratio)

    def test_cut_files(self):
        draft = self.layered()
        size = os.path.getsize(self.path("m.gbz"))
        self.cut(draft)
        self.refused(INPUT, "cut.gbz ends behind its draft: the exact part is missing; get the whole file, or give --draft",
                     "expand", "cut.gbz", "-o", "x.safetensors")
        for bytes_left in (draft + 1, draft + 4, draft + 40, size - 1):
            self.cut(bytes_left)
            self.refused(INPUT, "cut.gbz: its exact part.*, or read its draft alone, which is whole, with --draft", "expand",
                         "cut.gbz", "-o", "x.safetensors")
            self.succeed("expand", "cut.gbz", "--draft", "-o", "draft.safetensors", "--force")
        self.cut(draft - 1)
        for options in ((), ("--draft",)):
            self.refused(INPUT, "cut.gbz is damaged: it lacks 1 bytes at its end; copy it again$", "expand", "cut.gbz", "-o",
                         "x.safetensors", *options)
        self.assertFalse(os.path.exists(self.path("x.safetensors")))

    def test_damaged_files(self):
        draft, content = self.layered(), self.read(self.path("m.gbz"))
        for at in (draft // 2, draft - 1, draft + 100, (draft + len(content)) // 2, len(content) - 1):
            damaged = bytearray(content)
            damaged[at] ^= 16
            self.write("bad.gbz", bytes(damaged))
            advice = "or read its draft alone, which is whole, with --draft" if at >= draft else "copy it again$"
            self.refused(INPUT, f"bad.gbz is damaged: its digest does not fit.*{advice}", "expand", "bad.gbz", "-o",
                         "x.safetensors")
            if at >= draft:
                self.succeed("expand", "bad.gbz", "--draft", "-o", "draft.safetensors", "--force")
            else:
                self.refused(INPUT, "bad.gbz is damaged", "expand", "bad.gbz", "--draft", "-o", "x.safetensors")
        self.assertFalse(os.path.exists(self.path("x.safetensors")))

    def test_what_contradicts(self):
        common = ("compress", "m.safetensors", "-o", "x.gbz")
        both = (*common, "--lossless", "--layers")
        self.refused(USAGE, "--layers puts exact values behind a draft; give --lossless, too", *common, "--layers")
        self.refused(USAGE, "--base contradicts --layers", *both, "--base", "m.safetensors")
        self.refused(USAGE, "--requantize contradicts --lossless", *both, "--requantize")
        self.refused(USAGE, "--dry-run estimates one part", *both, "--dry-run")
        self.refused(USAGE, "the draft of --layers is quantized, and the mode is exact", *both, "--mode", "exact")
        self.succeed("compress", "m.safetensors", "--lossless", "-o", "plain.gbz")
        self.refused(USAGE, "plain.gbz has no draft", "expand", "plain.gbz", "--draft", "-o", "x.safetensors")
        self.refused(USAGE, "plain.gbz has no draft", "inspect", "plain.gbz", "--draft")
        self.refused(USAGE, "--draft inspects the draft of a .gbz", "inspect", "m.safetensors", "--draft")
        missed = self.run_cli(*both, "--max-bytes", "900")
        self.assertEqual(missed.status, harness.TARGET)
        self.succeed("expand", "x.gbz", "-o", "back.safetensors")
        self.assertEqual(sha256(self.path("back.safetensors")), sha256(self.path("m.safetensors")))

    def test_several_models_are_files_of_their_own(self):
        shutil.copy(self.path("m.safetensors"), self.path("n.safetensors"))
        said = self.succeed("compress", "m.safetensors", "n.safetensors", "--lossless", "--layers", "-o", "all/")
        self.assertNotIn("is stored as the change since", said.err)
        self.succeed("expand", "all/", "-o", "back/")
        for name in ("m.safetensors", "n.safetensors"):
            self.assertEqual(sha256(self.path("back/" + name)), sha256(self.path("m.safetensors")))

    def test_as_a_base_and_as_a_chain(self):
        self.layered()
        self.succeed("compress", "m.safetensors", "--base", "m.gbz", "--lossless", "-o", "delta.gbz")
        self.assertLess(os.path.getsize(self.path("delta.gbz")), 2000)
        self.succeed("expand", "delta.gbz", "--base", "m.gbz", "-o", "back.safetensors")
        self.succeed("rebase", "m.gbz", "-o", "whole.gbz")
        self.assertEqual(self.succeed("compare", "m.safetensors", "whole.gbz", "--json").json["differ"], 0)

    def test_a_folder_of_shards(self):
        _, half = brain(96 * 640, 7)
        names = {}
        os.makedirs(self.path("folder"))
        for i in (1, 2):
            name = f"model-0000{i}-of-00002.safetensors"
            self.write(os.path.join("folder", name), safetensors({f"w{i}": ("BF16", [96, 640], half)}))
            names[f"w{i}"] = name
        self.write("folder/model.safetensors.index.json", json.dumps({"weight_map": names}).encode())
        self.write("folder/config.json", b"{}")
        self.succeed("compress", "folder", "--lossless", "--layers", "--ratio", "4", "-o", "packed/")
        self.succeed("expand", "packed/", "-o", "back/")
        self.assertEqual(self.tree("back"), self.tree("folder"))
        for name in self.tree("folder"):
            self.assertEqual(sha256(os.path.join(self.path("back"), name)), sha256(os.path.join(self.path("folder"), name)))
        self.succeed("expand", "packed/", "--draft", "-o", "drafts/")
        self.assertEqual(self.tree("drafts"), self.tree("folder"))

    @cases.needs("torch")
    def test_a_file_of_pytorch(self):
        import torch
        torch.manual_seed(1)
        torch.save({"w": torch.randn(200, 300).T, "b": torch.randn(64, 80, dtype=torch.float16)}, self.path("m.pt"))
        self.layered(model="m.pt")
        self.succeed("expand", "m.gbz", "-o", "back.pt")
        self.assertEqual(sha256(self.path("back.pt")), sha256(self.path("m.pt")))
        shutil.move(self.path("m.gbz"), self.path("torch.gbz"))
        self.succeed("expand", "torch.gbz", "--draft")
        self.assertTrue(os.path.exists(self.path("torch.safetensors")))

    @cases.needs("gguf")
    def test_a_gguf_model(self):
        import gguf
        import numpy as np
        writer = gguf.GGUFWriter(self.path("m.gguf"), "llama")
        writer.add_tensor("blk.0.attn_q.weight", np.random.default_rng(3).normal(0, 0.02, (128, 256)).astype(np.float16))
        writer.add_tensor("output_norm.weight", np.ones(256, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.layered(model="m.gguf")
        self.succeed("expand", "m.gbz", "-o", "back.gguf")
        self.assertEqual(sha256(self.path("back.gguf")), sha256(self.path("m.gguf")))
        self.succeed("expand", "m.gbz", "--draft", "-o", "draft.gguf")
        self.assertNotEqual(sha256(self.path("draft.gguf")), sha256(self.path("m.gguf")))

    def test_weights_that_were_pruned(self):
        import numpy as np
        numbers = np.random.default_rng(5)
        values = numbers.normal(0, 0.02, (256, 512)).astype(np.float32)
        values *= numbers.random((256, 512)) < 0.3  # 0, and -0 of negative weights
        self.write("m.safetensors", safetensors({"w": ("F32", [256, 512], values.tobytes())}))
        self.succeed("compress", "m.safetensors", "--lossless", "-o", "exact.gbz")
        self.layered("--ratio", "8")
        more = os.path.getsize(self.path("m.gbz")) - os.path.getsize(self.path("exact.gbz"))
        self.assertLess(more, 0.03 * values.nbytes)
        self.succeed("expand", "m.gbz", "-o", "back.safetensors")
        self.assertEqual(sha256(self.path("back.safetensors")), sha256(self.path("m.safetensors")))

    def test_a_full_disk_leaves_nothing(self):
        draft = self.layered()
        kept = sha256(self.path("m.gbz"))
        for most in (draft // 2, draft + 1000):
            limited = {"preexec_fn": lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))}
            before = sorted(os.listdir(self.path(".")))
            self.refused(FAILED, "m.gbz cannot be written: File too large", "compress", "m.safetensors", "--lossless", "--layers",
                         "--ratio", "6", "-o", "m.gbz", "--force", **limited)
            self.assertEqual(sorted(os.listdir(self.path("."))), before)
        self.assertEqual(sha256(self.path("m.gbz")), kept)

    def test_an_interrupt_leaves_nothing(self):
        _, half = brain(2048 * 4096, 9)
        self.write("large.safetensors", safetensors({"w": ("BF16", [2048, 4096], half)}))
        run = subprocess.Popen([harness.EXECUTABLE, "compress", self.path("large.safetensors"), "--lossless", "--layers", "-o",
                                self.path("large.gbz"), "-q"], env=harness.clean_environment(), stderr=subprocess.PIPE)
        time.sleep(0.7)
        run.send_signal(signal.SIGINT)
        self.addCleanup(run.stderr.close)
        run.wait(harness.TIMEOUT)
        self.assertEqual(run.returncode, 128 + signal.SIGINT)
        self.assertEqual([name for name in os.listdir(self.path(".")) if "large" in name], ["large.safetensors"])


del Files  # its own tests are those of another file
if __name__ == "__main__":
    harness.main()
