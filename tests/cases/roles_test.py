"""Which form each tensor of an untrained file gets: what is no weight stays as it is, by its values and its neighbors
(cases 16, 18, 24, 25, 26, 28, 32), through every file format."""

import os
import subprocess
import sys

import cases
from cases import harness

try:
    import numpy as np
    from safetensors.numpy import load_file, save_file
except ImportError:
    np = None


def normals(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def windows(tokens, size):
    """0 within a window, -100 between them."""
    part = np.arange(tokens) // size
    return np.where(part[:, None] == part[None, :], 0, -100).astype(np.float32)


def mel_like(bands, bins):
    edges = np.geomspace(2, bins - 1, bands + 2)
    k = np.arange(bins)
    rise = (k - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - k) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall)).astype(np.float32)


def structure():
    """Tables that are no parameters, under names that say nothing."""
    angles = np.outer(np.arange(200), 1 / 500 ** (np.arange(16) / 16))
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 24), np.linspace(0, 1, 20), indexing="ij"), -1)
    odd = np.tril(np.ones((64, 64), np.float32))
    odd[3, 60] = 0.37
    tail = np.arange(35) - 17
    return {
        "u.a": np.tril(np.ones((1, 1, 96, 96), np.float32)), "u.b": windows(98, 49).astype(np.float16), "u.c": odd,
        "u.d": grid.astype(np.float32), "u.e": np.geomspace(1, 900, 41).astype(np.float32), "u.f": mel_like(24, 161),
        "u.g": (np.sinc(tail * 0.21) * np.hamming(35)).astype(np.float32), "u.h": np.hanning(320).astype(np.float32),
        "u.i": np.eye(40, dtype=np.float32), "u.j": np.random.default_rng(3).integers(0, 12, (30, 50)).astype(np.float32),
        "u.k": np.cos(angles).astype(np.float32), "u.l": np.sin(angles).astype(np.float16)[None, None],
        "u.m": np.where(np.tri(70) > 0, 0, np.finfo(np.float32).min).astype(np.float32),
    }


class Roles(cases.Given):
    def back(self, model, *options, status=0, suffix=".safetensors"):
        """Compresses and expands. The tensors by name, and the error stream."""
        done = self.run_cli("compress", model, *options, "-o", "m.gbz", "--force")
        self.assertEqual(done.status, status, done)
        self.succeed("expand", "m.gbz", "-o", "back" + suffix, "--force")
        return (load_file(self.path("back.safetensors")) if suffix == ".safetensors" else None), done.err

    def same(self, before, after, names=None):
        changed = [n for n in names or before if before[n].tobytes() != after[n].tobytes()]
        self.assertEqual(changed, [])

    def save(self, name, tensors):
        save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, self.path(name))
        return self.path(name)


@cases.needs("numpy", "safetensors")
class Structure(Roles):
    def test_tables_that_no_list_names_come_back_bit_for_bit(self):
        tables = structure()
        model = self.save("m.safetensors", dict(tables, **{"w.weight": normals(1, 300, 256)}))
        for target in ("4", "8"):
            after, _ = self.back(model, "--ratio", target)
            self.same(tables, after)
            self.assertNotEqual(after["w.weight"].tobytes(), normals(1, 300, 256).tobytes())

    def test_masks_and_position_tables_of_the_given_cases(self):
        for number, prefixes in (("24", ("h.",)), ("32", ("rotary", "freqs", "pos_encoder"))):
            with self.subTest(number):
                model = os.path.join(self.given(number), "m.safetensors")
                before = load_file(model)
                after, _ = self.back(model, "--ratio", "8")
                self.same(before, after, [name for name in before if name.startswith(prefixes)])

    def test_lines_are_precise_at_every_length(self):
        tensors = {"a.g": 1 + 0.1 * normals(2, 16383), "b.g": 1 + 0.1 * normals(2, 16384), "c.bias": normals(3, 40001),
                   "d.SCB": np.abs(normals(4, 1, 18944)), "w.weight": normals(5, 512, 512)}
        after, _ = self.back(self.save("m.safetensors", tensors), "--ratio", "8")
        for name, values in tensors.items():
            if name != "w.weight":
                self.assertLess(((after[name] - values) ** 2).sum() / (values ** 2).sum(), 2.0 ** -16, name)


@cases.needs("numpy", "safetensors")
class FewLevels(Roles):
    def bits(self, tensors, *options):
        """Bits a value of the file, and what comes back."""
        after, _ = self.back(self.save("m.safetensors", tensors), *options)
        return 8 * os.path.getsize(self.path("m.gbz")) / sum(v.size for v in tensors.values()), after

    def levels(self):
        weights = normals(7, 256, 384)
        scale = np.abs(weights).mean(1, keepdims=True)
        ternary = (np.clip(np.round(weights / scale), -1, 1) * scale + 0).astype(np.float32)
        groups = weights.reshape(256, 3, 128)
        top = np.abs(groups).max(2, keepdims=True) / 7
        four = (np.clip(np.round(groups / top), -8, 7) * top).reshape(256, 384).astype(np.float32) + 0
        return ternary, four

    def test_exact_sizes_are_near_the_entropy(self):
        ternary, four = self.levels()
        for values, most in ((ternary, 1.75), (four, 3.75), (np.sign(normals(8, 256, 384)).astype(np.float16), 1.05)):
            bits, after = self.bits({"w": values}, "--mode", "exact")
            self.assertEqual(after["w"].tobytes(), values.tobytes())
            self.assertLess(bits, most)

    def test_files_with_losses_hold_them_exactly(self):
        ternary, four = self.levels()
        outlier = np.sign(ternary)
        outlier[7, 9] = 1e4
        tensors = {"a.weight": ternary, "b.weight": four, "c.weight": outlier.astype(np.float64)}
        for options in (("--ratio", "12"), ("--max-error", "1e-6")):
            _, after = self.bits(tensors, *options)
            for name, values in tensors.items():
                self.assertTrue((after[name] == values).all(), (options, name))

    def test_zeros_keep_their_signs_in_exact_files(self):
        values = (np.round(normals(9, 128, 128)) * np.abs(normals(10, 128, 1))).astype(np.float32)
        self.assertTrue(np.signbit(values[values == 0]).any())
        _, after = self.bits({"w": values}, "--mode", "exact")
        self.assertEqual(after["w"].tobytes(), values.tobytes())


@cases.needs("numpy", "safetensors")
class NotFinite(Roles):
    def model(self):
        table = normals(11, 256, 64)
        table[255, 3] = np.frombuffer(b"\x01\x00\xa0\x7f", "<f4")[0]  # a signaling NaN with a payload
        half = normals(12, 40, 30).astype(np.float16)
        half[4, 0] = np.inf
        double = normals(13, 50).astype(np.float64)
        double[9] = np.nan
        return {"e.weight": table, "h.weight": half, "d.var": double, "n.nan": np.full((20, 20), np.nan, np.float32),
                "w.weight": normals(14, 400, 256)}

    def test_every_mode_keeps_them_with_one_note(self):
        tensors = self.model()
        model = self.save("m.safetensors", tensors)
        self.write("exact.toml", b'schema = 1\n[[layer]]\nmatch = "e.weight"\nmode = "exact"\n')
        for options in (("--ratio", "4"), ("--max-error", "0.01"), ("--mode", "exact"), ("--ratio", "4", "--keep", "all"),
                        ("--ratio", "4", "--config", self.path("exact.toml"))):
            with self.subTest(options):
                after, said = self.back(model, *options)
                self.same(tensors, after, [name for name in tensors if name != "w.weight"])
                self.assertEqual(said.count("NaN or infinity"), 1, said)
                self.assertIn("4 tensors", said)
                self.assertIn("d.var (1 value, row 9), e.weight (1 value, row 255)", said)

    def test_json_has_the_note(self):
        made = self.succeed("compress", self.save("m.safetensors", self.model()), "--ratio", "4", "-o", "m.gbz", "--json").json
        self.assertEqual(len(made["notes"]), 1)
        self.assertIn("4 tensors with NaN or infinity are stored exactly", made["notes"][0])

    def test_deltas_keep_them(self):
        base = self.model()
        base["e.weight"][255, 3] = 0
        tuned = dict(self.model(), **{"w.weight": base["w.weight"] + 1e-3 * normals(15, 400, 256)})
        self.save("base.safetensors", base)
        for options in (("--mode", "exact"), ("--max-error", "0.01")):
            self.succeed("compress", self.save("t.safetensors", tuned), "--base", self.path("base.safetensors"), *options,
                         "-o", "d.gbz", "--force")
            self.succeed("expand", "d.gbz", "--base", self.path("base.safetensors"), "-o", "t2.safetensors", "--force")
            after = load_file(self.path("t2.safetensors"))
            self.same(tuned, after, [name for name in tuned if name != "w.weight"])

    def test_the_given_cases(self):
        for number, names in (("25", ("model.future_mask",)), ("26", ("embed.weight", "bn.running_var"))):
            folder = self.given(number)
            model = os.path.join(folder, "m.safetensors")
            before = load_file(model)
            for options in (("--ratio", "2"), ("--mode", "exact"),
                            ("--ratio", "2", "--config", os.path.join(folder, "exact.toml"))):
                after, said = self.back(model, *options)
                self.same(before, after, names)
                self.assertIn("NaN or infinity", said)


@cases.needs("numpy", "safetensors")
class Packed(Roles):
    def model(self, weights=True):
        draw = np.random.default_rng(16)
        tensors = {"norm.weight": normals(17, 512), "up.lora.weight": normals(18, 64, 512)}
        for i, (name, of) in enumerate((("zoom", (8, 32)), ("weight_scale_inv", (8, 32)), ("lookup", (16,)))):
            module = f"layers.{i}.proj."
            if weights:
                tensors[module + "packed"] = draw.integers(0, 256, (64, 128)).astype(np.uint8)
            tensors[module + name] = np.exp(normals(19 + i, *of)).astype(np.float32)
        tensors["layers.9.proj.qweight"] = draw.integers(-2**31, 2**31, (32, 64)).astype(np.int32)
        tensors["layers.9.proj.s"] = np.abs(normals(30, 4, 64)).astype(np.float16)
        return tensors

    def test_what_scales_packed_weights_is_exact_under_any_name(self):
        tensors = self.model()
        after, said = self.back(self.save("m.safetensors", tensors), "--ratio", "2")
        self.same(tensors, after, [name for name in tensors if "layers." in name])
        self.assertIn("quantized already: 4 tensors", said)
        self.assertNotEqual(after["up.lora.weight"].tobytes(), tensors["up.lora.weight"].tobytes())

    def test_without_its_weights_a_module_is_ordinary(self):
        tensors = {name: values for name, values in self.model(False).items() if "layers.9" not in name}
        _, said = self.back(self.save("m.safetensors", tensors), "--max-error", "0.01")
        self.assertNotIn("quantized already", said)

    def test_the_given_case(self):
        folder = self.given("18")
        done = self.run_cli("compress", os.path.join(folder, "m.safetensors"), "--max-error", "0.01", "--json", "-o", "m.gbz")
        self.assertEqual(done.status, 0, done)
        self.assertEqual([t["name"] for t in done.json["tensors"] if t["error"] > 0], [])


@cases.needs("numpy", "safetensors")
class Formats(Roles):
    @cases.needs("torch")
    def test_pickles(self):
        code = ("import sys, torch\n"
                "g = torch.Generator().manual_seed(1)\n"
                "m = torch.tril(torch.ones(80, 80)); v = torch.ones(64); v[5] = float('nan')\n"
                "torch.save({'b.q': m, 'b.v': v, 'b.w': torch.randn(200, 200, generator=g)}, sys.argv[1])\n")
        subprocess.run([sys.executable, "-c", code, self.path("m.pt")], check=True)
        after, said = self.back(self.path("m.pt"), "--ratio", "6")
        self.assertTrue((after["b.q"] == np.tril(np.ones((80, 80)))).all())
        self.assertEqual(list(np.isnan(after["b.v"]).nonzero()[0]), [5])
        self.assertIn("b.v (1 value, row 5)", said)

    @cases.needs("onnx")
    def test_onnx(self):
        import onnx
        from onnx import helper, numpy_helper
        mask = np.where(np.tri(48) > 0, 0, -100).astype(np.float32)
        broken = np.where(np.tri(48) > 0, 1, -np.inf).astype(np.float32)
        values = {"m": mask, "n": broken, "w": normals(31, 48, 48)}
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "m"], ["z"]),
                 helper.make_node("Add", ["z", "n"], ["o"])]
        info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [48, 48]) for n in ("x", "o")]
        graph = helper.make_graph(nodes, "g", info[:1], info[1:],
                                  [numpy_helper.from_array(v, k) for k, v in values.items()])
        onnx.save(helper.make_model(graph), self.path("m.onnx"))
        for options in (("--max-error", "0.001"), ("--mode", "exact")):
            _, said = self.back(self.path("m.onnx"), *options, suffix=".onnx")
            after = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.path("back.onnx")).graph.initializer}
            self.same({"m": mask, "n": broken}, after)
            self.assertIn("NaN or infinity", said)


if __name__ == "__main__":
    harness.main()
