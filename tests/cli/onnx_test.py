"""ONNX in, ONNX out: exact round trips, weights told by the graph, wrong files. Models are made with the onnx package,
and onnx.checker and onnxruntime check what comes back."""

import hashlib
import os
import subprocess
import sys
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHARED = os.path.join(ROOT, "..", "shared", "data", "onnx", "models")
try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    python = os.path.join(ROOT, ".deps", "venv", "bin", "python")
    here = os.environ.get("GBCOMPRESS_ONNX_TEST")
    if here or not os.path.exists(python) or subprocess.run([python, "-c", "import onnx, onnxruntime"],
                                                            capture_output=True, check=False).returncode:
        print("skipped: no onnx or onnxruntime package; scripts/setup --tests installs them")
        sys.exit(0)
    os.environ["GBCOMPRESS_ONNX_TEST"] = "1"
    os.execv(python, [python, "-B", *sys.argv])

import harness
from harness import INPUT, USAGE

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def draw(shape, seed=0, scale=0.1):
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def typed(name, array, data_type):
    """Elements in the field of their type instead of raw_data."""
    return helper.make_tensor(name, data_type, array.shape, array.flatten(), raw=False)


def save(path, nodes, initializers, inputs, outputs, functions=(), opset=17, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("my.domain", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)
    onnx.save(model, path, **more)
    return model


def convolutions(path, dtype=np.float32, **more):
    """A small image network: convolutions, a norm, a dense layer, a constant that must stay exact."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    make = lambda name, array: numpy_helper.from_array(array.astype(dtype), name)
    initializers = [
        make("c1", draw((16, 3, 3, 3), 1)), make("b1", draw((16,), 2)), make("gamma", 1 + draw((16,), 3)),
        make("beta", draw((16,), 4)), make("mean", draw((16,), 5)), make("var", 1 + np.abs(draw((16,), 6))),
        make("c2", draw((32, 16, 3, 3), 7)), make("fc", draw((32, 10), 8)), make("fcb", draw((10,), 9)),
        make("anchors", draw((2, 10), 10)), numpy_helper.from_array(np.array([0, -1], np.int64), "shape")]
    nodes = [helper.make_node("Conv", ["x", "c1", "b1"], ["a"], pads=[1, 1, 1, 1]),
             helper.make_node("BatchNormalization", ["a", "gamma", "beta", "mean", "var"], ["n"]),
             helper.make_node("Relu", ["n"], ["r"]), helper.make_node("Conv", ["r", "c2"], ["d"]),
             helper.make_node("GlobalAveragePool", ["d"], ["p"]), helper.make_node("Reshape", ["p", "shape"], ["f"]),
             helper.make_node("Gemm", ["f", "fc", "fcb"], ["q"]),
             helper.make_node("Mul", ["q", "anchors"], ["y"])]
    return save(path, nodes, initializers, [helper.make_tensor_value_info("x", kind, [2, 3, 8, 8])],
                [helper.make_tensor_value_info("y", kind, [2, 10])], **more)


def branches(path):
    """Recurrent weights in both branches of an If, under the same names."""
    def branch(seed):
        value = lambda name, array: helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))
        return helper.make_graph(
            [value("W" + seed, draw((1, 64, 16), int(seed))), value("R" + seed, draw((1, 64, 16), 5)),
             value("B" + seed, draw((1, 128), 6)),
             helper.make_node("LSTM", ["x", "W" + seed, "R" + seed, "B" + seed], ["y" + seed], hidden_size=16)],
            "b" + seed, [], [helper.make_tensor_value_info("y" + seed, FLOAT, [5, 1, 1, 16])])
    nodes = [helper.make_node("If", ["which"], ["y"], then_branch=branch("1"), else_branch=branch("2"))]
    return save(path, nodes, [], [helper.make_tensor_value_info("which", TensorProto.BOOL, []),
                                  helper.make_tensor_value_info("x", FLOAT, [5, 1, 16])],
                [helper.make_tensor_value_info("y", FLOAT, [5, 1, 1, 16])])


def fields(path):
    """Every kind of place where elements can be."""
    half = draw((8, 8), 3).astype(np.float16)
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(draw((3,), 1), "sparse"),
                                       numpy_helper.from_array(np.array([1, 5, 9], np.int64), "at"), [16])
    initializers = [typed("f32", draw((8, 8), 1), FLOAT), typed("f64", draw((8,), 2).astype(np.float64), TensorProto.DOUBLE),
                    helper.make_tensor("f16", TensorProto.FLOAT16, [8, 8], half.flatten(), raw=False),
                    typed("i64", np.arange(-40, 40), INT64), typed("u8", np.arange(100, dtype=np.uint8), TensorProto.UINT8),
                    helper.make_tensor("i4", TensorProto.INT4, [11, 13], np.arange(143) % 8, raw=False),
                    helper.make_tensor("e4m3", TensorProto.FLOAT8E4M3FN, [8, 8], draw((64,), 4), raw=False),
                    helper.make_tensor("text", TensorProto.STRING, [1], [b"a string"])]
    graph = helper.make_graph([helper.make_node("Identity", ["f32"], ["y"]),
                               helper.make_node("Strange", ["f64", "i4"], ["z"], domain="my.domain")], "g",
                              [helper.make_tensor_value_info("f32", FLOAT, [8, 8])],
                              [helper.make_tensor_value_info("y", FLOAT, [8, 8])], initializers,
                              sparse_initializer=[sparse])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("my.domain", 1)])
    onnx.save(model, path)
    return model


def halves_in_varints(path):
    """float16 weights in int32_data, whose length changes with their values."""
    weight = draw((64, 64), 3, scale=1).astype(np.float16)
    tensor = helper.make_tensor("w", TensorProto.FLOAT16, [64, 64], weight.flatten(), raw=False)
    assert tensor.int32_data
    return save(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor],
                [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 64])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 64])])


def bodies(path):
    """A Loop and a Scan whose bodies have weights of their own and take the outer graph's."""
    value = helper.make_tensor_value_info
    tensor = lambda name, seed: numpy_helper.from_array(draw((64, 64), seed, 0.1), name)
    loop = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("MatMul", ["s", "k"], ["a"]),
         helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("Gemm", ["b", "outer"], ["t"], transB=1)], "loop",
        [value("i", INT64, []), value("go", TensorProto.BOOL, []), value("s", FLOAT, [4, 64])],
        [value("on", TensorProto.BOOL, []), value("t", FLOAT, [4, 64])], [tensor("k", 1)])
    # The input of the body has the name of an outer constant.
    scan = helper.make_graph(
        [helper.make_node("MatMul", ["state", "k"], ["m"]), helper.make_node("Add", ["m", "outer"], ["n"]),
         helper.make_node("Tanh", ["n"], ["o"]), helper.make_node("Identity", ["o"], ["each"])], "scan",
        [value("state", FLOAT, [1, 64]), value("outer", FLOAT, [64])],
        [value("o", FLOAT, [1, 64]), value("each", FLOAT, [1, 64])], [tensor("k", 2)])
    nodes = [helper.make_node("Loop", ["times", "yes", "x"], ["u"], body=loop),
             helper.make_node("Scan", ["start", "u"], ["last", "y"], body=scan, num_scan_inputs=1)]
    return save(path, nodes, [tensor("outer", 3), numpy_helper.from_array(draw((1, 64)), "start"),
                              numpy_helper.from_array(np.int64(3), "times"),
                              numpy_helper.from_array(np.array(True), "yes")],
                [value("x", FLOAT, [4, 64])], [value("y", FLOAT, [4, 1, 64])])


def integers(path):
    """What onnxruntime's tool makes of a network: QuantizeLinear and DequantizeLinear around int8 weights."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.batches = iter([{"x": draw((2, 3, 8, 8), seed, 1)} for seed in range(4)])

        def get_next(self):
            return next(self.batches, None)

    convolutions(path + ".float.onnx")
    quantize_static(path + ".float.onnx", path, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)
    os.remove(path + ".float.onnx")


def halves(path):
    return convolutions(path, np.float16)


def outputs(path, seed=11):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for each in session.get_inputs():
        kind = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(bool)": bool}[each.type]
        value = draw([side if isinstance(side, int) else 1 for side in each.shape], seed, 1)
        feeds[each.name] = np.asarray(value > 0 if kind is bool else value, kind)
    return session.run(None, feeds)


class Onnx(harness.CliTest):
    def made(self, maker, name="model.onnx", **more):
        maker(self.path(name), **more)
        return self.path(name)

    def round_trip(self, model, *options, back="back.onnx"):
        self.succeed("compress", model, "-o", self.path("m.gbz"), "--force", "-q", *options)
        self.succeed("expand", self.path("m.gbz"), "-o", self.path(back), "--force")
        return self.path(back)

    def close(self, a, b, most):
        for before, after in zip(outputs(a), outputs(b)):
            before, after = before.astype(np.float64), after.astype(np.float64)
            error = float(((after - before) ** 2).sum() / max((before ** 2).sum(), 1e-30))
            self.assertLess(error, most)

    def test_exact_files_are_identical(self):
        for maker in (convolutions, branches, fields, halves, halves_in_varints, bodies, integers):
            with self.subTest(maker.__name__):
                model = self.made(maker, maker.__name__ + ".onnx")
                back = self.round_trip(model, "--mode", "exact")
                self.assertEqual(sha256(back), sha256(model))

    def test_external_data_come_back(self):
        os.mkdir(self.path("in"))
        model = self.path("in/m.onnx")
        convolutions(model, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=512)
        beside = [name for name in os.listdir(self.path("in")) if name != "m.onnx"]
        self.assertGreater(len(beside), 1)
        os.mkdir(self.path("out"))
        back = self.round_trip(model, "--mode", "exact", back="out/m.onnx")
        for name in ["m.onnx", *beside]:
            self.assertEqual(sha256(self.path("in/" + name)), sha256(self.path("out/" + name)), name)
        self.assertEqual(back, self.path("out/m.onnx"))
        self.refused(USAGE, "expands to several files", "expand", self.path("m.gbz"), "-o", "-")

    def test_quantized_models_run(self):
        for maker, most in ((convolutions, 1e-2), (branches, 1e-2), (halves, 1e-2), (halves_in_varints, 2e-2),
                            (bodies, 1e-2)):
            with self.subTest(maker.__name__):
                model = self.made(maker, maker.__name__ + ".onnx")
                back = self.round_trip(model, "--bits", "8")
                onnx.checker.check_model(back, full_check=True)
                self.close(model, back, most)
                self.assertNotEqual(sha256(back), sha256(model))

    def test_what_is_no_weight_stays_exact(self):
        model = self.made(convolutions)
        before = {t.name: numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer}
        after = {t.name: numpy_helper.to_array(t)
                 for t in onnx.load(self.round_trip(model, "--bits", "4")).graph.initializer}
        self.assertEqual(list(before), list(after))
        for name in ("anchors", "shape"):
            self.assertTrue((before[name] == after[name]).all(), name)
        for name in ("gamma", "beta", "mean", "var", "b1", "fcb"):
            np.testing.assert_allclose(after[name], before[name], rtol=0.01, err_msg=name)
        for name in ("c1", "c2", "fc"):
            self.assertFalse((before[name] == after[name]).all(), name)
        self.assertTrue((after["var"] > 0).all())

    def test_tensors_alone(self):
        model = self.made(convolutions)
        self.succeed("compress", model, "--lossless", "-o", self.path("m.gbz"))
        self.succeed("expand", self.path("m.gbz"), "-o", self.path("m.safetensors"))
        with open(self.path("m.safetensors"), "rb") as file:
            content = file.read()
        self.assertNotIn(b"gbz.container", content)
        self.assertIn(numpy_helper.to_array(onnx.load(model).graph.initializer[0]).tobytes(), content)

    def test_names_of_outputs(self):
        model = self.made(convolutions)
        self.succeed("compress", model, "--bits", "8", "-q")
        os.remove(model)
        self.succeed("expand", self.path("model.gbz"))
        onnx.checker.check_model(self.path("model.onnx"))
        self.refused(USAGE, "not made of an ONNX model", "expand", self.compressed_tensors(), "-o", self.path("x.onnx"))

    def compressed_tensors(self):
        source = self.write("t.safetensors", harness.safetensors(harness.mlp((8, 8, 4))))
        self.succeed("compress", source, "--lossless", "-o", self.path("t.gbz"))
        return self.path("t.gbz")

    def test_inspect_and_compare(self):
        model = self.made(convolutions)
        listing = self.succeed("inspect", model, "--json").json
        self.assertEqual(listing["format"], "onnx")
        consumers = {tensor["name"]: tensor["consumers"] for tensor in listing["tensors"]}
        self.assertEqual(consumers["c1"], "Conv")
        self.assertEqual(consumers["var"], "BatchNormalization")
        self.assertEqual(listing["metadata"]["opset"], "ai.onnx 17, my.domain 1")
        self.succeed("compress", model, "--lossless", "-o", self.path("m.gbz"))
        compared = self.succeed("compare", model, self.path("m.gbz"), "--json").json
        self.assertEqual((compared["differ"], compared["only_a"], compared["only_b"]), (0, 0, 0))
        self.assertEqual(compared["a"]["format"], "onnx")

    def test_integers_are_exact(self):
        weight = np.random.default_rng(1).integers(-127, 127, (64, 64), np.int8)
        nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]), helper.make_node("MatMul", ["x", "f"], ["y"])]
        save(self.path("q.onnx"), nodes,
             [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.float32(0.01), "s")],
             [helper.make_tensor_value_info("x", FLOAT, [1, 64])], [helper.make_tensor_value_info("y", FLOAT, [1, 64])])
        result = self.run_cli("compress", self.path("q.onnx"), "--ratio", "8", "-o", self.path("q.gbz"))
        self.assertIn("the weights are quantized integers, which are kept exact", result.err)
        self.succeed("expand", self.path("q.gbz"), "-o", self.path("q2.onnx"))
        self.assertEqual(sha256(self.path("q.onnx")), sha256(self.path("q2.onnx")))

    def test_integers_of_onnxruntime_are_exact(self):
        model = self.made(integers)
        before = {t.name: t for t in onnx.load(model).graph.initializer}
        back = self.round_trip(model, "--max-error", "0.1%")
        onnx.checker.check_model(back, full_check=True)
        after = {t.name: t for t in onnx.load(back).graph.initializer}
        self.assertEqual(list(before), list(after))
        whole = [name for name, t in before.items() if t.data_type in (TensorProto.INT8, TensorProto.INT32)]
        self.assertGreater(len(whole), 5)
        for name in whole:
            self.assertEqual(before[name].SerializeToString(), after[name].SerializeToString(), name)
        self.close(model, back, 1e-3)

    def test_a_report_is_written(self):
        model = self.made(convolutions)
        self.succeed("compress", model, "--ratio", "6", "-o", self.path("m.gbz"), "--report", self.path("m.html"))
        with open(self.path("m.html"), encoding="utf-8") as file:
            page = file.read()
        for word in ("</html>", "model.onnx", "c2"):
            self.assertIn(word, page)

    def test_linked_folders_are_not_written_into(self):
        os.makedirs(self.path("in/sub"))
        convolutions(self.path("in/m.onnx"), save_as_external_data=True, location="sub/w.data", size_threshold=0)
        self.succeed("compress", self.path("in/m.onnx"), "--lossless", "-o", self.path("m.gbz"))
        os.makedirs(self.path("elsewhere"))
        os.mkdir(self.path("out"))
        os.symlink(self.path("elsewhere"), self.path("out/sub"))
        self.refused(INPUT, "sub is a link to another folder", "expand", self.path("m.gbz"), "-o",
                     self.path("out/m.onnx"))
        self.assertEqual(os.listdir(self.path("elsewhere")), [])
        self.assertEqual(os.listdir(self.path("out")), ["sub"])
        os.remove(self.path("out/sub"))
        self.succeed("expand", self.path("m.gbz"), "-o", self.path("out/m.onnx"))
        for name in ("m.onnx", "sub/w.data"):
            self.assertEqual(sha256(self.path("in/" + name)), sha256(self.path("out/" + name)))

    def test_the_model_has_no_name_of_its_data(self):
        convolutions(self.path("m.onnx"), save_as_external_data=True, location="w.onnx", size_threshold=0)
        self.succeed("compress", self.path("m.onnx"), "--lossless", "-o", self.path("m.gbz"))
        os.mkdir(self.path("out"))
        self.refused(USAGE, "a file of the name w.onnx beside the model", "expand", self.path("m.gbz"), "-o",
                     self.path("out/w.onnx"))
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_wrong_files(self):
        with open(self.made(convolutions), "rb") as file:
            good = file.read()
        os.remove(self.path("model.onnx"))
        out = self.path("o.gbz")
        cases = {"cut.onnx": (good[:len(good) // 2], "is damaged"), "empty.onnx": (b"", "is empty"),
                 "m.ort": (b"\0\0\0\0ORTM" + bytes(40), "ORT format"),
                 "noise.onnx": (bytes(range(1, 200)), "is damaged|no graph")}
        for name, (content, pattern) in cases.items():
            with self.subTest(name):
                self.refused(INPUT, pattern, "compress", self.write(name, content), "-o", out)
        save(self.path("none.onnx"), [helper.make_node("Relu", ["x"], ["y"])], [],
             [helper.make_tensor_value_info("x", FLOAT, [1])], [helper.make_tensor_value_info("y", FLOAT, [1])])
        self.refused(INPUT, "holds no weights", "compress", self.path("none.onnx"), "-o", out)
        with open(self.path("large.onnx"), "wb") as file:
            file.write(good[:100])
            file.truncate(3 << 30)
        self.refused(INPUT, "ends at 2 GiB; save the model with external data", "compress", self.path("large.onnx"), "-o",
                     out)

    def test_wrong_external_data(self):
        model = convolutions(self.path("m.onnx"), save_as_external_data=True, location="w.data", size_threshold=0)
        os.truncate(self.path("w.data"), 100)
        self.refused(INPUT, "w.data, which has 100", "compress", self.path("m.onnx"), "-o", self.path("o.gbz"))
        os.remove(self.path("w.data"))
        self.refused(INPUT, "not beside it", "compress", self.path("m.onnx"), "-o", self.path("o.gbz"))
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = "../w.data"
        with open(self.path("m.onnx"), "wb") as file:
            file.write(model.SerializeToString())
        self.refused(INPUT, "leaves the model's folder", "compress", self.path("m.onnx"), "-o", self.path("o.gbz"))

    def test_options_that_need_a_forward_pass(self):
        model = self.made(convolutions)
        self.refused(USAGE, "without data", "compress", model, "--data", "digits", "-o", self.path("o.gbz"))
        self.refused(USAGE, "has no parts", "compress", model, "--part", "x", "-o", self.path("o.gbz"))

    def test_shipped_models_are_identical(self):
        if not os.path.isdir(SHARED):
            self.skipTest("no models in ../shared/data/onnx")
        for folder, _, files in sorted(os.walk(SHARED)):
            for name in sorted(files):
                if name.endswith(".onnx"):
                    with self.subTest(name):
                        model = os.path.join(folder, name)
                        self.assertEqual(sha256(self.round_trip(model, "--lossless")), sha256(model))


if __name__ == "__main__":
    harness.main()
