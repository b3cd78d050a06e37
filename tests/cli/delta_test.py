"""--base: what changed since another model."""

import json
import math
import os
import struct
import subprocess
import sys
import unittest

import harness
from harness import INPUT, USAGE

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
READER = os.path.join(os.path.dirname(__file__), "..", "golden", "gbz_reader.py")


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


def numbers(tensor):
    dtype, _, raw = tensor
    if dtype == "BF16":
        raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def in_type(tensors, dtype):
    """Of float32; bfloat16 without rounding, as any of its numbers do here."""
    if dtype == "F32":
        return tensors
    return {name: (dtype, shape, b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4)))
            for name, (_, shape, raw) in tensors.items()}


def moved(tensors, names, scale):
    """The same model with some tensors moved a little."""
    result = dict(tensors)
    for name in names:
        dtype, shape, raw = tensors[name]
        count = len(raw) // 4
        change = struct.unpack(f"<{count}f", harness.floats(count, seed=7, scale=scale))
        values = struct.unpack(f"<{count}f", raw)
        result[name] = (dtype, shape, struct.pack(f"<{count}f", *(v + c for v, c in zip(values, change))))
    return result


class Deltas(harness.CliTest):
    def setUp(self):
        super().setUp()
        first = harness.mlp((64, 48, 40, 10))
        self.first = self.write("first.safetensors", harness.safetensors(first))
        self.next = self.write("next.safetensors",
                               harness.safetensors(moved(first, ("0.weight", "2.weight"), scale=0.001)))
        self.delta = self.path("delta.gbz")

    def compress(self, *more):
        return self.succeed("compress", self.next, "--base", self.first, "--max-error", "0.001", "-o", self.delta,
                            "--force", "-q", *more)

    def test_half_the_bytes_at_equal_error(self):
        delta = self.compress("--json").json
        whole = self.succeed("compress", self.next, "--max-error", str(max(t["error"] for t in delta["tensors"])),
                             "-o", self.path("whole.gbz"), "-q", "--json").json
        self.assertLess(delta["output_bytes"], whole["output_bytes"] / 2)
        stored = {t["name"]: (t["stored"], t["error"]) for t in delta["tensors"]}
        self.assertEqual(stored["4.weight"], ("as in the base", 0))
        self.assertEqual(stored["2.weight"][0], "base and integers")
        self.assertEqual(delta["unchanged_tensors"], 4)

    def test_the_error_is_that_of_the_change(self):
        """Both errors of the table against sums over the expanded file, where every tensor was tuned a little."""
        first = harness.mlp((64, 48, 40, 10))
        for dtype, scale, most in ("F32", 0.001, 0.01), ("F32", 1e-6, 0.01), ("BF16", 0.01, 0.01), ("BF16", 0.0005, 0.3):
            with self.subTest(dtype=dtype, scale=scale):
                before = in_type(first, dtype)
                after = in_type(moved(first, first, scale), dtype)
                base = self.write("base.safetensors", harness.safetensors(before))
                model = self.write("tuned.safetensors", harness.safetensors(after))
                out = self.path("out.safetensors")
                command = ("compress", model, "--base", base, "--max-error", str(most), "-o", self.delta, "--force")
                found = self.succeed(*command, "--json").json
                self.succeed("expand", self.delta, "--base", base, "-o", out, "--force")
                decoded = read_safetensors(out)
                errors = changes = 0
                for tensor in found["tensors"]:
                    old, new, got = (numbers(each[tensor["name"]]) for each in (before, after, decoded))
                    error = math.fsum((g - n) ** 2 for g, n in zip(got, new))
                    change = math.fsum((n - o) ** 2 for n, o in zip(new, old))
                    self.assertLessEqual(error, most * change, tensor)
                    self.assertAlmostEqual(tensor["change_error"], error / change, delta=1e-6 * most)
                    self.assertAlmostEqual(tensor["error"], error / math.fsum(n * n for n in new), delta=1e-9)
                    errors, changes = errors + error, changes + change
                self.assertAlmostEqual(found["change_error"], errors / changes, delta=1e-6 * most)
                self.assertTrue(dtype == "BF16" or errors > 0.5 * most * changes, "bytes for nothing")
                table = self.succeed(*command).out
                self.assertRegex(table, rf"error +of the change +{float(f'{errors / changes:.3g}'):g}\n")
                self.assertRegex(table, r" +of the tensors +[0-9.e-]+\n")
                self.assertRegex(table, r"worst tensors.* of its change\n" if errors else "exact tensors +6 of 6")

    def test_a_few_rows_changed(self):
        """As of an embedding that was tuned on a few words: most of the change is 0."""
        rows, width = 2000, 24
        table = harness.floats(rows * width, seed=1)
        tuned = bytearray(table)
        tuned[1501 * 4 * width:1502 * 4 * width] = harness.floats(width, seed=2)
        for shape in [rows, width], [rows * width]:
            base = self.write("base.safetensors", harness.safetensors({"w": ("F32", shape, table)}))
            model = self.write("tuned.safetensors", harness.safetensors({"w": ("F32", shape, bytes(tuned))}))
            for target in ("--max-error", "0.01"), ("--ratio", "100"):
                found = self.succeed("compress", model, "--base", base, *target, "-o", self.delta, "--force", "--json").json
                self.assertLess(found["output_bytes"], 1500)
                self.assertLess(found["change_error"], 0.5)
                self.assertGreater(found["change_error"], 0)

    def test_a_base_that_saves_nothing(self):
        tuned = self.write("all.safetensors", harness.safetensors(
            moved(harness.mlp((64, 48, 40, 10)), harness.mlp((64, 48, 40, 10)), 1000)))
        made = self.succeed("compress", tuned, "--base", self.first, "--mode", "exact", "-o", self.delta)
        self.assertRegex(made.err, "the base saves nothing: 0 of 6 tensors .* stored whole")
        back = self.path("back.safetensors")
        said = self.succeed("expand", self.delta, "--base", self.first, "-o", back)
        self.assertRegex(said.err, "--base is not needed")
        self.assertEqual(read_safetensors(back), read_safetensors(tuned))
        self.assertEqual(self.succeed("expand", self.delta, "-o", back, "--force").err, "")
        self.refused(INPUT, "does not exist", "expand", self.delta, "--base", self.path("none"), "-o", self.path("c"))

    def test_the_base_is_the_model(self):
        for target in ("--max-error", "0.001"), ("--ratio", "20"), ("--mode", "exact"):
            made = self.succeed("compress", self.first, "--base", self.first, *target, "-o", self.delta, "--force")
            self.assertIn("the change is empty: the base has every tensor", made.err)
            self.assertRegex(made.out, r"of the change +0\n")
            self.assertNotRegex(made.out, "nan|inf")
            out = self.path("out.safetensors")
            self.succeed("expand", self.delta, "--base", self.first, "-o", out, "--force")
            self.assertEqual(read_safetensors(out), read_safetensors(self.first))

    def test_packed_folders(self):
        """A folder, its tuned one as a delta of the packed one, and both back."""
        for name, model in ("model", self.first), ("tuned", self.next):
            os.mkdir(self.path(name))
            self.write(f"{name}/model.safetensors", self.read(model))
            self.write(f"{name}/config.json", json.dumps({"name": name}))
        packed, delta = self.path("packed"), self.path("delta")
        self.succeed("compress", self.path("model"), "--max-error", "0.001", "-o", packed + "/", "-q")
        self.succeed("compress", self.path("tuned"), "--base", packed, "--max-error", "0.01", "-o", delta + "/", "-q")
        expanded = self.succeed("expand", delta, "--base", packed, "-o", self.path("back/"))
        self.assertIn(", 1 file copied beside it", expanded.out)
        self.assertEqual(json.loads(self.read("back/config.json")), {"name": "tuned"})
        self.succeed("expand", packed, "-o", self.path("base/"))
        before, after, got = (read_safetensors(path) for path in (
            self.path("base/model.safetensors"), self.next, self.path("back/model.safetensors")))
        for name in after:
            error, change = (math.fsum((x - y) ** 2 for x, y in zip(numbers(other[name]), numbers(after[name])))
                             for other in (got, before))
            self.assertLessEqual(error, 0.01 * change, name)
        # The expanded folder has the same tensors, so that it is the same base.
        self.succeed("expand", delta, "--base", self.path("base"), "-o", self.path("again.safetensors"))

        out = self.path("out.gbz")
        self.refused(INPUT, "delta/model.gbz needs the model with the digest [0-9a-f]{64}, and no file in .*delta has it",
                     "compress", self.path("tuned"), "--base", delta, "--max-error", "0.01", "-o", out, "-q")
        self.refused(USAGE, "another base", "expand", delta, "--base", self.path("model"), "-o", self.path("x.safetensors"))
        self.write("packed/second.gbz", self.read("packed/model.gbz"))
        self.succeed("expand", delta, "--base", packed, "-o", self.path("found.safetensors"))
        os.mkdir(self.path("empty"))
        self.refused(INPUT, "holds no", "expand", delta, "--base", self.path("empty"), "-o", self.path("x.safetensors"))

    def test_expanded_with_its_base_alone(self):
        self.compress()
        out = self.path("out.safetensors")
        self.succeed("expand", self.delta, "--base", self.first, "-o", out)
        found = self.succeed("compare", self.next, out, "--json").json
        self.assertLess(max(t["error"] for t in found["tensors"]), 0.001)
        if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode == 0:
            subprocess.run([sys.executable, "-B", READER, self.delta, "--base", self.first, "--compare", out], check=True)
        digest = self.succeed("inspect", self.delta, "--json").json["bases"][0]["digest"]
        self.assertRegex(digest, "^[0-9a-f]{64}$")

        again = self.path("again.safetensors")
        self.refused(USAGE, "name that one: --base FILE", "expand", self.delta, "-o", again)
        self.refused(USAGE, "another base .* is not " + digest, "expand", self.delta, "--base", self.next, "-o", again)
        self.refused(INPUT, "does not exist", "expand", self.delta, "--base", self.path("none"), "-o", again)
        self.succeed("compress", self.next, "--base", self.delta, "-o", self.path("b.gbz"))

    def test_a_chain_of_exact_deltas(self):
        model, files = harness.mlp((64, 48, 40, 10)), []
        os.mkdir(self.path("run"))
        for step in range(4):
            files.append(self.write(f"ckpt-{step}.safetensors", harness.safetensors(model)))
            before = ["--base", self.path(f"run/{step - 1}.gbz")] if step else []
            report = self.succeed("compress", files[step], *before, "--mode", "exact", "-o",
                                  self.path(f"run/{step}.gbz"), "-q", "--json").json
            self.assertEqual(report["weight_error"], 0)
            model = moved(model, ("0.weight", "2.weight"), scale=0.0001 * (step + 1))
        self.assertIn("base and exact change", {t["stored"] for t in report["tensors"]})
        last, out = self.path("run/3.gbz"), self.path("out.safetensors")
        self.succeed("expand", last, "--base", self.path("run"), "-o", out)
        self.assertEqual(read_safetensors(out), read_safetensors(files[3]))
        chain = self.succeed("inspect", last, "--json").json["chain"]
        self.assertEqual([os.path.basename(link["file"]) for link in chain], ["2.gbz", "1.gbz", "0.gbz"])
        self.assertIn("run/1.gbz, ", self.succeed("inspect", last).out)

        self.succeed("rebase", last, "-o", self.path("rebased-whole.gbz"))
        for onto in [], ["--onto", self.path("run/0.gbz")]:
            self.succeed("rebase", last, *onto, "-o", self.path("rebased.gbz"), "--force")
            self.succeed("expand", self.path("rebased.gbz"), *(["--base", self.path("run/0.gbz")] if onto else []), "-o", out,
                         "--force")
            self.assertEqual(read_safetensors(out), read_safetensors(files[3]))
        made = subprocess.run([harness.EXECUTABLE, "rebase", last, "-o", "-"], capture_output=True, cwd=self.folder)
        self.assertEqual(made.stdout, self.read("rebased-whole.gbz"))
        self.assertIn(b"bytes written to standard output, whole", made.stderr)
        whole = self.succeed("rebase", self.path("rebased-whole.gbz"), "--base", files[0], "-o", self.path("again.gbz"))
        self.assertRegex(whole.err, "--base is not needed: .*rebased-whole.gbz holds every tensor whole")
        self.refused(USAGE, "name it: -o OUT.gbz", "rebase", last)
        self.refused(USAGE, "is no .gbz; make a delta", "rebase", files[0], "-o", self.path("r.gbz"))
        os.rename(self.path("run/1.gbz"), self.path("away"))
        self.refused(INPUT, "2.gbz needs the model with the digest [0-9a-f]{64}, and no file in", "expand", last, "--base",
                     self.path("run"), "-o", self.path("none.safetensors"))
        self.assertIsNone(self.succeed("inspect", last, "--json").json["chain"][-1]["file"])

    @unittest.skipIf(PORTABLE, "plugins need LibTorch")
    def test_expanded_beside_a_plugin(self):
        self.compress()
        plugin = self.succeed("plugins", "--json").json["loaded"][0]["file"]
        plain, beside = self.path("plain.safetensors"), self.path("beside.safetensors")
        self.succeed("expand", self.delta, "--base", self.first, "-o", plain)
        self.succeed("expand", self.delta, "--base", self.first, "--plugin", plugin, "-o", beside)
        with open(plain, "rb") as a, open(beside, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.refused(USAGE, "name that one: --base FILE", "expand", self.delta, "--plugin", plugin, "-o",
                     self.path("again.safetensors"))

    def test_the_base_may_be_a_gbz(self):
        base = self.path("base.gbz")
        self.succeed("compress", self.first, "--max-error", "0.001", "-o", base, "-q")
        self.succeed("compress", self.next, "--base", base, "--max-error", "0.001", "-o", self.delta, "-q")
        expanded = self.path("base.safetensors")
        self.succeed("expand", base, "-o", expanded)
        for name in base, expanded:
            self.succeed("expand", self.delta, "--base", name, "-o", self.path("out.safetensors"), "--force")

    def test_what_is_no_base(self):
        other = self.model("other.safetensors", (64, 32, 12))
        self.refused(INPUT, r"0.bias is F32 \[48\], and F32 \[32\] in the base", "compress", self.next, "--base", other, "-o", self.delta)
        self.refused(USAGE, "--base needs data-free compression", "compress", self.next, "--base", self.first, "--arch", "mlp",
                     "--data", "digits", "-o", self.delta)


harness.main()
