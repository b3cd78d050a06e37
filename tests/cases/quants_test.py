"""Exact GGUF files of quantized tensors: smaller than by general compressors, and of some bytes beside their original."""

import os
import struct
import subprocess
import sys
import unittest
import zlib

import cases
import harness
from harness import USAGE
from originals_test import Files, sha256

try:
    import gguf
    import numpy as np
    from gguf import GGMLQuantizationType as Type
except ImportError:
    gguf = None

READER = os.path.join(cases.ROOT, "tests", "golden", "gbz_reader.py")
SIMPLE = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")


def weights(rows, cols, seed):
    """Of rows of other scales, as bf16 has them."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((rows, cols)) * np.exp(0.4 * random.standard_normal((rows, 1))) * 0.02
    return (values.astype(np.float32).view(np.uint32) & 0xffff0000).view(np.float32)


def as_type(values, name):
    if name == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if name in ("F16", "F32"):
        return values.astype({"F16": np.float16, "F32": np.float32}[name])
    return gguf.quants.quantize(values, Type[name])


@unittest.skipIf(gguf is None, f"{sys.executable} has no gguf: scripts/setup --tests installs it")
class Quants(Files):
    def write_gguf(self, name, tensors, **keys):
        """Of {name: (values or bytes, type)}."""
        writer = gguf.GGUFWriter(self.path(name), "llama")
        writer.add_name("test")
        for key, value in keys.items():
            writer.add_uint32(key, value)
        for tensor, (values, kind) in tensors.items():
            data = values if values.dtype == np.uint8 else as_type(values, kind)
            writer.add_tensor(tensor, data, raw_dtype=None if kind in ("F16", "F32") else Type[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return self.path(name)

    def make(self, name, kind, seed=1):
        layers = {f"blk.{i}.ffn_up.weight": (weights(96, 512, seed + i), kind) for i in range(3)}
        # A row that has no whole blocks of 256 keeps another type.
        layers["blk.0.attn_k.weight"] = (weights(64, 160, seed + 9), kind)
        layers["output_norm.weight"] = (weights(1, 512, seed + 10)[0], "F32")
        return self.write_gguf(name, layers)

    def size(self, name):
        return os.path.getsize(self.path(name))

    def same(self, *names):
        for name in names:
            self.assertEqual(sha256(self.path(os.path.join("back", name))), sha256(self.path(name)), name)

    def test_alone_they_are_smaller_than_zlib_makes_them(self):
        for kind in SIMPLE:
            with self.subTest(kind=kind):
                path = self.make(kind + ".gguf", kind)
                self.succeed("compress", "--lossless", path, "-o", kind + ".gbz")
                with open(path, "rb") as file:
                    best = len(zlib.compress(file.read(), 9))
                # Of 8 bits little is left.
                self.assertLess(self.size(kind + ".gbz"), (0.998 if kind == "Q8_0" else 0.985) * best)
                self.succeed("expand", kind + ".gbz", "-o", "again.gguf", "--force")
                self.assertEqual(sha256(self.path("again.gguf")), sha256(path))

    def test_any_bytes_of_k_types_come_back(self):
        random = np.random.default_rng(5)
        tensors = {}
        for kind in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "Q8_0"):
            block, size = gguf.GGML_QUANT_SIZES[Type[kind]]
            raw = random.integers(0, 256, (40, 512 // block * size), dtype=np.uint8) & random.integers(0, 256, dtype=np.uint8)
            tensors["w." + kind] = (raw, kind)
        path = self.write_gguf("k.gguf", tensors)
        self.succeed("compress", "--lossless", path, "-o", "k.gbz")
        subprocess.run([sys.executable, "-B", READER, self.path("k.gbz"), self.path("k.npz")], check=True)
        with np.load(self.path("k.npz")) as made:
            for name, (raw, _) in tensors.items():
                self.assertEqual(made[name].tobytes(), raw.tobytes(), name)
        self.succeed("expand", "k.gbz", "-o", "again.gguf")
        self.assertEqual(sha256(self.path("again.gguf")), sha256(path))

    def test_beside_their_original_they_take_some_bytes(self):
        for original in ("F16", "BF16", "F32"):
            with self.subTest(original=original):
                names = [f"{original}-a-{kind}.gguf" for kind in SIMPLE] + [f"{original}-z-original.gguf"]
                for kind, name in zip((*SIMPLE, original), names):
                    self.make(name, kind)
                # The original is named last, and stored first.
                said = self.succeed("compress", "--lossless", *names, "-o", f"archive-{original}/")
                self.assertIn(f"{names[0]} is stored as the change since {names[-1]}", said.err)
                for name in names[:-1]:
                    self.assertLess(self.size(os.path.join(f"archive-{original}", name[:-5] + ".gbz")), 1500, name)
                self.succeed("expand", f"archive-{original}/", "-o", "back/", "--force")
                self.same(*names)

    def test_a_base_that_is_named(self):
        original, quants = self.make("m-bf16.gguf", "BF16"), self.make("m-q5_0.gguf", "Q5_0")
        self.succeed("compress", "--lossless", quants, "--base", original, "-o", "q.gbz")
        self.assertLess(self.size("q.gbz"), 1500)
        listed = self.succeed("inspect", "q.gbz", "--json").json
        kinds = {each["name"]: each["kind"] for each in listed["tensors"]}
        self.assertEqual(kinds["blk.0.ffn_up.weight"], "blocks")
        self.assertEqual(kinds["output_norm.weight"], "base")
        self.succeed("expand", "q.gbz", "--base", original, "-o", "again.gguf")
        self.assertEqual(sha256(self.path("again.gguf")), sha256(quants))
        # The independent reader makes the same bytes, of a base without metadata.
        self.succeed("compress", "--lossless", original, "-o", "o.gbz")
        self.succeed("expand", "o.gbz", "-o", "o.safetensors")
        self.succeed("compress", "--lossless", quants, "--base", "o.safetensors", "-o", "s.gbz")
        self.succeed("expand", "s.gbz", "--base", "o.safetensors", "-o", "again.safetensors")
        done = subprocess.run([sys.executable, "-B", READER, self.path("s.gbz"), self.path("s.npz"), "--base", self.path("o.safetensors"),
                               "--compare", self.path("again.safetensors")], capture_output=True, text=True, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "gbz.container" not in line]
        self.assertEqual(said, [])
        with np.load(self.path("s.npz")) as made:
            tensor = next(t for t in gguf.GGUFReader(self.path("m-q5_0.gguf")).tensors if t.name == "blk.0.ffn_up.weight")
            self.assertEqual(made["blk.0.ffn_up.weight"].tobytes(), tensor.data.tobytes())
        # Another model is refused.
        self.make("other.gguf", "BF16", seed=77)
        self.refused(USAGE, "another base", "expand", "q.gbz", "--base", "other.gguf", "-o", "never.gguf")

    def test_changed_scales_and_single_blocks(self):
        values = weights(128, 512, 3)
        original = self.write_gguf("o.gguf", {"w": (values, "F32")})
        raw = as_type(values, "Q8_0").copy()
        raw[::9, 3] ^= 1
        path = self.write_gguf("q.gguf", {"w": (raw, "Q8_0")})
        self.succeed("compress", "--lossless", path, "--base", original, "-o", "q.gbz")
        self.assertLess(self.size("q.gbz"), 2000)
        self.succeed("expand", "q.gbz", "--base", original, "-o", "again.gguf")
        self.assertEqual(sha256(self.path("again.gguf")), sha256(path))

    def test_pieces_of_a_large_tensor(self):
        values = weights(4200, 4096, 4)
        original = self.write_gguf("o.gguf", {"token_embd.weight": (values, "BF16")})
        path = self.write_gguf("q.gguf", {"token_embd.weight": (values, "Q8_0")})
        self.succeed("compress", "--lossless", path, "--base", original, "-o", "q.gbz")
        self.assertLess(self.size("q.gbz"), 2000)
        self.succeed("expand", "q.gbz", "--base", original, "-o", "again.gguf")
        self.assertEqual(sha256(self.path("again.gguf")), sha256(path))

    def test_chains(self):
        """A quantized file on a fine-tune that is a change since its base."""
        base = self.make("a-base.gguf", "BF16")
        with open(base, "rb") as file:
            raw = bytearray(file.read())
        for at in range(len(raw) - 4000, len(raw) - 3000, 40):
            raw[at] ^= 1
        self.write("b-tuned.gguf", bytes(raw))
        tuned = {t.name: t for t in gguf.GGUFReader(self.path("b-tuned.gguf")).tensors}
        tensors = {}
        for name, tensor in tuned.items():
            if tensor.tensor_type == Type.F32:
                tensors[name] = (np.array(tensor.data), "F32")
                continue
            bits = np.array(tensor.data).view(np.uint16).astype(np.uint32) << 16
            tensors[name] = (bits.view(np.float32), "Q4_0")
        self.write_gguf("c-tuned-q4_0.gguf", tensors)
        names = ["a-base.gguf", "b-tuned.gguf", "c-tuned-q4_0.gguf"]
        self.succeed("compress", "--lossless", *names, "-o", "archive/")
        self.assertLess(self.size("archive/c-tuned-q4_0.gbz"), 1500)
        self.succeed("expand", "archive/", "-o", "back/")
        self.same(*names)
        self.succeed("expand", "archive/", "--only", "c-tuned-q4_0", "-o", "one.gguf")
        self.assertEqual(sha256(self.path("one.gguf")), sha256(self.path("c-tuned-q4_0.gguf")))
        self.succeed("rebase", "archive/c-tuned-q4_0.gbz", "-o", "alone.gbz")
        self.succeed("expand", "alone.gbz", "-o", "two.gguf")
        self.assertEqual(sha256(self.path("two.gguf")), sha256(self.path("c-tuned-q4_0.gguf")))

    def test_damage(self):
        original, quants = self.make("m-f16.gguf", "F16"), self.make("m-q4_1.gguf", "Q4_1")
        self.succeed("compress", "--lossless", quants, "--base", original, "-o", "q.gbz")
        with open(self.path("q.gbz"), "rb") as file:
            raw = file.read()
        for at in range(8, len(raw), 37):
            self.write("bad.gbz", raw[:at] + struct.pack("B", raw[at] ^ 16) + raw[at + 1:])
            done = self.run_cli("expand", "bad.gbz", "--base", original, "-o", "never.gguf")
            self.assertNotEqual(done.status, 0)
            self.assertFalse(os.path.exists(self.path("never.gguf")))


del Files  # its own tests are those of another file
if __name__ == "__main__":
    harness.main()
