"""GGUF in, GGUF out: exact round trips, quantized weights, wrong files. Files are written here from the specification
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); the gguf package reads what comes back, where there is one."""

import json
import os
import struct
import subprocess
import sys

import harness
from harness import INPUT, USAGE

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
F32, F16, Q8_0, Q4_K, I32, BF16 = 0, 1, 8, 12, 26, 30
UINT32, STRING, ARRAY = 4, 8, 9

# Prints names, types, shapes, metadata and a digest of every tensor's bytes, as the gguf package reads them.
READER = """
import hashlib, json, sys
import gguf
reader = gguf.GGUFReader(sys.argv[1])
print(json.dumps({
    "keys": {key: str(field.contents()) for key, field in reader.fields.items()},
    "tensors": [[t.name, t.tensor_type.name, [int(n) for n in t.shape], hashlib.sha256(t.data.tobytes()).hexdigest()]
                for t in reader.tensors]}))
"""


def python_with_gguf():
    """An interpreter that has the gguf package; None where there is none."""
    for python in (sys.executable, os.path.join(ROOT, ".deps", "venv", "bin", "python")):
        if os.path.exists(python) and not subprocess.run([python, "-c", "import gguf"], capture_output=True,
                                                         check=False).returncode:
            return python
    return None


PYTHON = python_with_gguf()


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def strings(name, values):
    return key(name, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values)))


def padded(raw, alignment=32):
    return raw + bytes(-len(raw) % alignment)


def gguf_bytes(keys, tensors, alignment=32, version=3):
    """Of (name, type, sides with the contiguous one first, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, kind, sides, raw in tensors:
        head += text(name) + struct.pack(f"<I{len(sides)}QIQ", len(sides), *sides, kind, len(data))
        data += padded(raw, alignment)
    return padded(head, alignment) + data


def halves(count, seed):
    values = struct.unpack(f"<{count}f", harness.floats(count, seed))
    return struct.pack(f"<{count}e", *values)


def brains(count, seed):
    raw = harness.floats(count, seed)
    return b"".join(raw[4 * i + 2:4 * i + 4] for i in range(count))


def q8_0(count, seed):
    """Weights as ggml quantizes them: blocks of 32 with a float16 scale."""
    values = struct.unpack(f"<{count}f", harness.floats(count, seed))
    raw = b""
    for first in range(0, count, 32):
        block = values[first:first + 32]
        scale = struct.unpack("<e", struct.pack("<e", max(map(abs, block)) / 127))[0]
        raw += struct.pack("<e32b", scale, *(max(-127, min(127, round(value / scale))) for value in block))
    return raw


KEYS = [key("general.architecture", STRING, text("llama")), key("general.name", STRING, text("Maße ✓")),
        key("general.file_type", UINT32, struct.pack("<I", 7)), key("llama.block_count", UINT32, struct.pack("<I", 1)),
        strings("tokenizer.ggml.tokens", ["<s>", "a", "bc", "ä"])]


def mixed():
    """Every type that is read, and some that are kept."""
    return [("token_embd.weight", F16, [64, 48], halves(64 * 48, 1)),
            ("blk.0.attn_q.weight", F32, [64, 64], harness.floats(64 * 64, 2)),
            ("blk.0.attn_v.weight", BF16, [64, 32], brains(64 * 32, 3)),
            ("blk.0.ffn_up.weight", Q8_0, [64, 96], q8_0(64 * 96, 4)),
            ("blk.0.ffn_down.weight", Q4_K, [256, 8], harness.floats(8 * 36, 5)),
            ("blk.0.attn_norm.weight", F32, [64], harness.floats(64, 6)),
            ("rope_freqs.weight", F32, [16], harness.floats(16, 7)),
            ("ids", I32, [5], struct.pack("<5i", 3, 1, 4, 1, 5)),
            ("output.weight", F16, [64, 48], halves(64 * 48, 1))]



class Gguf(harness.CliTest):
    def made(self, name="model.gguf", tensors=None, **more):
        return self.write(name, gguf_bytes(KEYS, mixed() if tensors is None else tensors, **more))

    def round_trip(self, model, *options):
        self.succeed("compress", model, "-o", self.path("m.gbz"), "--force", "-q", *options)
        self.succeed("expand", self.path("m.gbz"), "-o", self.path("back.gguf"), "--force")
        return self.path("back.gguf")

    def as_read(self, path):
        if PYTHON is None:
            self.skipTest("no gguf package; scripts/setup --tests installs it")
        done = subprocess.run([PYTHON, "-c", READER, path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def tensors_of(self, path):
        """Name, type and bytes of a file that has the list of this one, by the positions of that."""
        raw, found, at = self.read(path), {}, len(gguf_bytes(KEYS, mixed())) - sum(
            len(padded(each[3])) for each in mixed())
        for name, _, _, data in mixed():
            found[name] = raw[at:at + len(data)]
            at += len(padded(data))
        return found

    def test_exact_files_are_identical(self):
        for name, more in {"3": {}, "2": {"version": 2}}.items():
            with self.subTest(name):
                model = self.made(name + ".gguf", **more)
                for options in (("--lossless",), ("--mode", "exact")):
                    self.assertEqual(self.read(self.round_trip(model, *options)), self.read(model))

    def test_other_alignments(self):
        for alignment in (8, 64):
            raw = gguf_bytes([*KEYS, key("general.alignment", UINT32, struct.pack("<I", alignment))], mixed(), alignment)
            self.assertEqual(self.read(self.round_trip(self.write("a.gguf", raw), "--lossless")), raw)

    def test_weights_are_quantized_and_the_rest_is_kept(self):
        model = self.made()
        back = self.round_trip(model, "--bits", "6")
        before, after = {each[0]: each[3] for each in mixed()}, self.tensors_of(back)
        self.assertEqual(len(self.read(back)), len(self.read(model)))
        start = self.read(model).index(before["token_embd.weight"][:64])
        self.assertEqual(self.read(back)[:start], self.read(model)[:start])
        for name in ("blk.0.ffn_up.weight", "blk.0.ffn_down.weight", "rope_freqs.weight", "ids"):
            self.assertEqual(after[name], before[name], name)
        for name, form in (("token_embd.weight", "e"), ("blk.0.attn_q.weight", "f")):
            self.assertNotEqual(after[name], before[name], name)
            values, found = (struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw)
                             for raw in (before[name], after[name]))
            error = sum((a - b) ** 2 for a, b in zip(values, found)) / sum(a * a for a in values)
            self.assertLess(error, 0.01, name)
        self.assertEqual(after["output.weight"], after["token_embd.weight"])

    def test_the_gguf_package_reads_what_comes_back(self):
        model = self.made()
        before = self.as_read(model)
        self.assertEqual(self.as_read(self.round_trip(model, "--lossless")), before)
        after = self.as_read(self.round_trip(model, "--bits", "6"))
        self.assertEqual(after["keys"], before["keys"])
        self.assertEqual([each[:3] for each in after["tensors"]], [each[:3] for each in before["tensors"]])
        self.assertEqual(before["keys"]["general.name"], "Maße ✓")

    def test_files_of_the_gguf_package_come_back(self):
        if PYTHON is None:
            self.skipTest("no gguf package; scripts/setup --tests installs it")
        maker = ("import sys, gguf, numpy as np\n"
                 "w = gguf.GGUFWriter(sys.argv[1], 'llama')\n"
                 "w.add_block_count(2); w.add_tokenizer_model('gpt2'); w.add_token_list(['a', 'b'])\n"
                 "r = np.random.default_rng(1)\n"
                 "for i in range(4): w.add_tensor(f'blk.{i}.w', r.normal(0, .1, (64, 256)).astype(np.float32))\n"
                 "for name in ('Q8_0', 'Q4_0', 'Q5_1'):\n"
                 "  kind = gguf.GGMLQuantizationType[name]\n"
                 "  raw = gguf.quants.quantize(r.normal(0, .1, (64, 256)).astype(np.float32), kind)\n"
                 "  w.add_tensor(name, raw, raw_dtype=kind)\n"
                 "w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()\n")
        subprocess.run([PYTHON, "-c", maker, self.path("p.gguf")], check=True, capture_output=True)
        raw = self.read("p.gguf")
        self.assertEqual(self.read(self.round_trip(self.path("p.gguf"), "--lossless")), raw)
        types = {each["name"]: (each["type"], each["shape"]) for each in
                 self.succeed("inspect", self.path("p.gguf"), "--json").json["tensors"]}
        self.assertEqual(types["Q8_0"], ("Q8_0", [64, 272]))
        self.assertEqual(types["blk.0.w"], ("F32", [64, 256]))

    def test_tensors_alone(self):
        self.succeed("compress", self.made(), "--lossless", "-o", self.path("m.gbz"), "-q")
        self.succeed("expand", self.path("m.gbz"), "-o", self.path("m.safetensors"))
        content = self.read("m.safetensors")
        header = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])
        self.assertNotIn("gbz.container", header)
        self.assertEqual(header["blk.0.attn_v.weight"]["dtype"], "BF16")
        self.assertEqual(header["token_embd.weight"]["shape"], [48, 64])
        self.assertEqual(header["blk.0.ffn_up.weight"]["shape"], [96, 68])
        self.assertIn(mixed()[2][3], content)

    def test_names_of_outputs(self):
        model = self.made()
        self.succeed("compress", model, "--bits", "8", "-q")
        os.remove(model)
        self.succeed("expand", self.path("model.gbz"))
        self.assertTrue(os.path.exists(self.path("model.gguf")))
        self.refused(USAGE, r"not made of an ONNX model; name a \.gguf, \.safetensors or \.npz file", "expand",
                     self.path("model.gbz"), "-o", self.path("x.onnx"))

    def test_inspect_and_compare(self):
        model = self.made()
        listing = self.succeed("inspect", model, "--json").json
        self.assertEqual(listing["format"], "gguf")
        self.assertEqual(listing["metadata"]["general.name"], "Maße ✓")
        self.assertEqual(listing["metadata"]["tokenizer.ggml.tokens"], "4 values")
        self.assertEqual({each["name"]: each["type"] for each in listing["tensors"]}["blk.0.ffn_down.weight"], "Q4_K")
        self.assertEqual(len(listing["tensors"]), len(mixed()))
        self.assertIn("llama.block_count: 1", self.succeed("inspect", model).out)
        self.succeed("compress", model, "--lossless", "-o", self.path("m.gbz"), "-q")
        self.succeed("inspect", self.path("m.gbz"))
        compared = self.succeed("compare", model, self.path("m.gbz"), "--json").json
        self.assertEqual((compared["differ"], compared["only_a"], compared["only_b"]), (0, 0, 0))
        self.assertEqual(compared["a"]["format"], "gguf")

    def test_quantized_models_say_so(self):
        weights = [("a.weight", Q4_K, [256, 16], harness.floats(16 * 36, 1))]
        result = self.run_cli("compress", self.made(tensors=weights), "--ratio", "4", "-o", self.path("m.gbz"))
        self.assertIn("(Q4_K), which is kept exact", result.err)

    def test_wrong_files(self):
        good, out = gguf_bytes(KEYS, mixed()), self.path("o.gbz")
        twice = [("w", F32, [16], harness.floats(16)), ("w", F32, [16], harness.floats(16))]
        cases = {
            "cut.gguf": (good[:len(good) // 2], "lies behind them; load the file again"),
            "head.gguf": (good[:400], "ends at byte 400"), "empty.gguf": (b"", "is empty"),
            "text.gguf": (b"some text", "does not begin with GGUF"),
            "one.gguf": (gguf_bytes(KEYS, mixed(), version=1), "version 1 of GGUF"),
            "big.gguf": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
            "counts.gguf": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0) + bytes(64), "tensors do not fit"),
            "twice.gguf": (gguf_bytes(KEYS, twice), "tensor w twice"),
            "page.gguf": (b"<!DOCTYPE html><html></html>", "a web page"),
            "pointer.gguf": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer")}
        for name, (content, pattern) in cases.items():
            with self.subTest(name):
                self.refused(INPUT, pattern, "compress", self.write(name, content), "-o", out)
        os.mkdir(self.path("folder.gguf"))
        self.refused(INPUT, "folder.gguf", "compress", self.path("folder.gguf"), "-o", out)

    def test_options_that_need_a_forward_pass(self):
        model, out = self.made(), self.path("o.gbz")
        self.refused(USAGE, "is a GGUF model, which is compressed without data", "compress", model, "--data", "digits",
                     "-o", out)
        self.refused(USAGE, "is a GGUF model, which has no parts", "compress", model, "--part", "x", "-o", out)


if __name__ == "__main__":
    harness.main()
