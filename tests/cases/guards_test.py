"""What no file without training may do: flatten a row, follow an outlier, move a zero, lose a magnitude, miss an error.

Cases 17, 29, 30, 55 and 56 under other names, shapes, element types and file formats."""

import importlib.util
import os

import cases
from cases import harness

try:
    import numpy as np
except ImportError:
    np = None


def share(before, after, axis=None):
    """Squared error over squares; magnitudes of any size."""
    unit = np.abs(before).max() or 1
    before, after = before.astype(np.float64) / unit, after.astype(np.float64) / unit
    squares = (before ** 2).sum(axis)
    return ((after - before) ** 2).sum(axis) / np.where(squares > 0, squares, 1)


def save_safetensors(path, tensors):
    from safetensors.numpy import save_file
    save_file(tensors, path)


def load_safetensors(path):
    from safetensors.numpy import load_file
    return load_file(path)


def save_pickle(path, tensors):
    import torch
    torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, path)


def save_onnx(path, tensors):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes = [helper.make_node("MatMul", [f"x{i}", name], [f"y{i}"]) for i, name in enumerate(tensors)]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [1, values.shape[-2]])
              for i, values in enumerate(tensors.values())]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(len(tensors))]
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(values, name) for name, values in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def load_onnx(path):
    import onnx
    from onnx import numpy_helper
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def save_gguf(path, tensors):
    import gguf
    writer = gguf.GGUFWriter(path, "llama")
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load_gguf(path):
    import gguf
    return {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}


FORMATS = {"safetensors": (save_safetensors, load_safetensors, "safetensors"), "pt": (save_pickle, load_safetensors, "torch"),
           "onnx": (save_onnx, load_onnx, "onnx"), "gguf": (save_gguf, load_gguf, "gguf")}


@cases.needs("numpy", "safetensors")
class Guards(cases.Given):
    def round_trip(self, kind, tensors, *target, statuses=(harness.DONE,)):
        save, load, _ = FORMATS[kind]
        save(self.path("in." + kind), tensors)
        result = self.run_cli("compress", "in." + kind, *target, "--force", "-o", "out.gbz")
        self.assertIn(result.status, statuses, result)
        back = "back." + ("safetensors" if kind == "pt" else kind)
        self.succeed("expand", "out.gbz", "--force", "-o", back)
        back = load(self.path(back))
        self.assertEqual(sorted(tensors), sorted(back))
        return back, result

    def formats(self):
        """The file formats whose Python packages are here."""
        known = [kind for kind, (_, _, module) in FORMATS.items() if importlib.util.find_spec(module)]
        if len(known) < len(FORMATS):
            print("without", *sorted(set(FORMATS) - set(known)), "- scripts/setup --tests installs their packages")
        return known

    def test_rows_of_any_scale_keep_half_of_their_squares(self):
        draw = np.random.default_rng(3)
        scales = 10.0 ** np.linspace(0, -6, 48)[:, None]
        weights = {"dec.bank": (draw.standard_normal((48, 80)) * scales).astype(np.float32),
                   "dec.plain": draw.standard_normal((64, 80)).astype(np.float32)}
        for kind in self.formats():
            for target in (("--ratio", "8"), ("--max-error", "0.02"),
                           ("--ratio", "6", "--set", "rate.quantizer=nearest")):
                back, _ = self.round_trip(kind, weights, *target)
                for name, values in weights.items():
                    self.assertLessEqual(share(values, back[name], 1).max(), 0.5, (kind, name, target))

    def test_matrices_of_a_stack_are_like_those_apart(self):
        draw = np.random.default_rng(4)
        scales = 10.0 ** np.linspace(1, -2, 5)[:, None, None]
        stack = (draw.standard_normal((5, 40, 64)) * scales).astype(np.float32)
        apart = {f"bank.{e}.w": np.ascontiguousarray(stack[e]) for e in range(5)}
        for kind in {"safetensors", "pt"}.intersection(self.formats()):
            together, _ = self.round_trip(kind, {"bank.w_in": stack}, "--ratio", "8")
            others, _ = self.round_trip(kind, apart, "--ratio", "8")
            for e in range(5):
                single = share(stack[e], others[f"bank.{e}.w"])
                self.assertLess(share(stack[e], together["bank.w_in"][e]), 1.3 * single, (kind, e))

    def test_an_outlier_leaves_the_rest_of_its_row(self):
        draw = np.random.default_rng(5)
        values = (draw.standard_normal((96, 128)) * 0.03).astype(np.float32)
        values[5, 60], values[9, [3, 4]], values[20] = 70.0, (-40.0, 40.0), values[20] * 1e-3
        values[20, 7] = 0.02
        for kind in self.formats():
            back = self.round_trip(kind, {"proj.k": values}, "--ratio", "8")[0]["proj.k"]
            rest = values.copy()
            rest[5, 60] = rest[9, [3, 4]] = rest[20, 7] = 0
            after = back.copy()
            after[5, 60] = after[9, [3, 4]] = after[20, 7] = 0
            errors = share(rest, after, 1)
            usual = np.median(errors)
            self.assertLess(errors[[5, 9]].max(), 2 * usual)
            self.assertLess(errors[20], 0.5)
            for at in ((5, 60), (9, 3), (9, 4), (20, 7)):
                self.assertAlmostEqual(back[at] / values[at], 1, delta=0.01)

    def test_zeros_stay_zeros(self):
        draw = np.random.default_rng(6)
        values = draw.standard_normal((72, 96)).astype(np.float32)
        values[draw.random(values.shape) < 0.4] = 0
        values[30:34] = 0
        smooth = np.cos(np.outer(np.arange(64), np.arange(1, 97) / 60)).astype(np.float32) * 0.3
        smooth[::3] = 0
        for kind in self.formats():
            for target in (("--ratio", "9"), ("--max-error", "0.05")):
                tensors = {"pruned.w": values, "waves.w": smooth}
                back, _ = self.round_trip(kind, tensors, *target)
                for name, before in tensors.items():
                    self.assertFalse(back[name][before == 0].any(), (kind, name, target))

    def test_magnitudes_of_float32(self):
        draw = np.random.default_rng(7)
        for kind in self.formats():
            for size in (3e-41, 2e-30, 5e36):
                values = (draw.standard_normal((64, 64)) * size).astype(np.float32)
                usual = (draw.standard_normal((64, 64)) * 0.1).astype(np.float32)
                back, _ = self.round_trip(kind, {"a.w": values, "b.w": usual}, "--ratio", "6")
                self.assertTrue(np.isfinite(back["a.w"]).all())
                self.assertLess(share(values, back["a.w"]), 40 * share(usual, back["b.w"]), (kind, size))

    @cases.needs("torch")
    def test_half_precision_has_the_error_asked_for(self):
        import torch
        from safetensors.torch import load_file, save_file
        for dtype in (torch.bfloat16, torch.float16):
            weights = (torch.randn(80, 112, generator=torch.Generator().manual_seed(8)) * 0.2).to(dtype)
            save_file({"mix.kv": weights}, self.path("h.safetensors"))
            for error in ("2e-3", "2e-5", "7e-6", "1e-7"):
                self.succeed("compress", "h.safetensors", "--max-error", error, "--force", "-o", "h.gbz")
                self.succeed("expand", "h.gbz", "--force", "-o", "h2.safetensors")
                after = load_file(self.path("h2.safetensors"))["mix.kv"]
                self.assertLessEqual(share(weights.float().numpy(), after.float().numpy()), float(error), dtype)

    def test_the_message_says_what_the_file_has(self):
        draw = np.random.default_rng(9)
        values = draw.uniform(-0.3, 0.3, (12, 6, 3, 3)).astype(np.float32)
        back, result = self.round_trip("safetensors", {"stem.kernel": values}, "--max-bytes", "100",
                                       statuses=(harness.TARGET,))
        error = share(values, back["stem.kernel"])
        self.assertIn(f"tensor stem.kernel has the largest relative squared error, {error:.2g}", result.err)
        self.assertLessEqual(share(values.reshape(12, -1), back["stem.kernel"].reshape(12, -1), 1).max(), 0.5)
        size = os.path.getsize(self.path("out.gbz"))
        self.round_trip("safetensors", {"stem.kernel": values}, "--max-error", "0.4")
        self.assertLessEqual(size, os.path.getsize(self.path("out.gbz")))


@cases.needs("numpy", "safetensors")
class GivenGuards(cases.Given):
    def errors(self, model, *target):
        self.succeed("compress", model, *target, "--force", "-o", "g.gbz")
        self.succeed("expand", "g.gbz", "--force", "-o", "g.safetensors")
        before, after = load_safetensors(model), load_safetensors(self.path("g.safetensors"))
        return before, after

    def test_17_experts(self):
        folder = self.given("17")
        before, after = self.errors(os.path.join(folder, "stacked.safetensors"), "--ratio", "8")
        apart, others = self.errors(os.path.join(folder, "apart.safetensors"), "--ratio", "8")
        for e in range(8):
            name = f"mlp.experts.{e}.gate_up_proj.weight"
            self.assertLess(share(before["mlp.experts.gate_up_proj"][e], after["mlp.experts.gate_up_proj"][e]),
                            1.25 * share(apart[name], others[name]))

    def test_29_outliers(self):
        before, after = self.errors(os.path.join(self.given("29"), "m.safetensors"), "--ratio", "8")
        for name, values in before.items():
            values, back = values.astype(np.float64), after[name].astype(np.float64)
            self.assertAlmostEqual(back[7, 100] / values[7, 100], 1, delta=0.01)
            values[7, 100] = back[7, 100] = 0
            values[:, 300] = back[:, 300] = 0
            self.assertLess(share(values, back, 1).max(), 0.5, name)

    def test_30_magnitudes(self):
        folder = self.given("30")
        for target in (("--ratio", "4"), ("--max-error", "0.01")):
            before, after = self.errors(os.path.join(folder, "m.safetensors"), *target)
            for name in ("tiny", "huge", "half", "both"):
                self.assertTrue(np.isfinite(after[name]).all(), name)
                self.assertLess(share(before[name], after[name]), 0.011, (name, target))


if __name__ == "__main__":
    harness.main()
