"""compress --requantize: models that onnxruntime quantized, and Q8_0 tensors of GGUF files. What comes back is
checked by onnx.checker, onnxruntime and the graph's own scales."""

import os
import struct
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime import quantization
except ImportError:
    python = os.path.join(ROOT, ".deps", "venv", "bin", "python")
    here = os.environ.get("GBCOMPRESS_REQUANTIZE_TEST")
    if here or not os.path.exists(python) or subprocess.run([python, "-c", "import onnx, onnxruntime"],
                                                            capture_output=True, check=False).returncode:
        print("skipped: no onnx or onnxruntime package; scripts/setup --tests installs them")
        sys.exit(0)
    os.environ["GBCOMPRESS_REQUANTIZE_TEST"] = "1"
    os.execv(python, [python, "-B", *sys.argv])

import gguf_test
import harness
from harness import USAGE

FLOAT = TensorProto.FLOAT
INTEGERS = (TensorProto.INT8, TensorProto.UINT8)


def draw(shape, seed=0, scale=0.1):
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def network(path):
    """Convolutions and dense layers; rows of very different sizes."""
    rows = np.linspace(0.2, 3, 32, dtype=np.float32)
    make = lambda name, array: numpy_helper.from_array(array, name)
    initializers = [make("c1", draw((32, 3, 3, 3), 1) * rows[:, None, None, None]), make("c2", draw((64, 32, 3, 3), 2)),
                    make("f1", draw((64, 96), 3)), make("f2", draw((96, 10), 4)), make("b", draw((96,), 5)),
                    make("shape", np.array([0, -1], np.int64))]
    nodes = [helper.make_node("Conv", ["x", "c1"], ["a"]), helper.make_node("Relu", ["a"], ["r"]),
             helper.make_node("Conv", ["r", "c2"], ["d"]), helper.make_node("GlobalAveragePool", ["d"], ["p"]),
             helper.make_node("Reshape", ["p", "shape"], ["f"]), helper.make_node("MatMul", ["f", "f1"], ["g"]),
             helper.make_node("Add", ["g", "b"], ["h"]), helper.make_node("MatMul", ["h", "f2"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2, 3, 8, 8])],
                              [helper.make_tensor_value_info("y", FLOAT, [2, 10])], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Inputs(quantization.CalibrationDataReader):
    def __init__(self):
        self.left = [{"x": draw((2, 3, 8, 8), seed, 1)} for seed in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


def static(**options):
    return lambda source, target: quantization.quantize_static(source, target, Inputs(), **options)


QUANTIZED = {
    "dynamic": quantization.quantize_dynamic,
    "dynamic per channel, signed": lambda source, target: quantization.quantize_dynamic(
        source, target, per_channel=True, weight_type=quantization.QuantType.QInt8),
    "QDQ": static(quant_format=quantization.QuantFormat.QDQ),
    "QDQ per channel, unsigned": static(quant_format=quantization.QuantFormat.QDQ, per_channel=True,
                                        activation_type=quantization.QuantType.QUInt8,
                                        weight_type=quantization.QuantType.QUInt8),
    "operators": static(quant_format=quantization.QuantFormat.QOperator),
}


def outputs(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": draw((2, 3, 8, 8), 77, 1)})[0].astype(np.float64)


def tensors(path):
    return {each.name: each for each in onnx.load(path).graph.initializer}


class Requantize(harness.CliTest):
    def setUp(self):
        super().setUp()
        network(self.path("float.onnx"))

    def quantized(self, make):
        make(self.path("float.onnx"), self.path("q.onnx"))
        return self.path("q.onnx")

    def round_trip(self, model, *options):
        end = os.path.splitext(model)[1]
        result = self.succeed("compress", model, "-o", self.path("m.gbz"), "--force", "--json", *options)
        self.succeed("expand", self.path("m.gbz"), "-o", self.path("back" + end), "--force")
        return self.path("back" + end), result

    def test_integers_of_onnxruntime_change_alone(self):
        for name, make in QUANTIZED.items():
            with self.subTest(name):
                model = self.quantized(make)
                exact = self.round_trip(model, "--lossless")[1].json["output_bytes"]
                back, result = self.round_trip(model, "--requantize", "--max-error", "0.005")
                self.assertNotIn("kept exact", result.err)
                self.assertLess(result.json["output_bytes"], exact * 0.85)
                self.assertEqual(os.path.getsize(back), os.path.getsize(model))
                if name.startswith("QDQ"):  # the checker does not know onnxruntime's own operators
                    onnx.checker.check_model(back, full_check=True)
                before, after = tensors(model), tensors(back)
                changed = {key for key in before if before[key] != after[key]}
                integers = {key for key in changed if before[key].data_type in INTEGERS}
                self.assertIn(len(integers), (4, 5), changed)  # the bias too, where it has integers of its own
                if not name.startswith("dynamic"):  # there, the bias and factors of Mul are float vectors
                    self.assertEqual(changed, integers)
                expected, found = outputs(model), outputs(back)
                self.assertLess(((found - expected) ** 2).sum() / (expected ** 2).sum(), 0.05)
                self.assertEqual([node.SerializeToString() for node in onnx.load(back).graph.node],
                                 [node.SerializeToString() for node in onnx.load(model).graph.node])

    def test_fine_steps_give_the_same_integers(self):
        for name in ("QDQ", "QDQ per channel, unsigned", "dynamic per channel, signed"):
            with self.subTest(name):
                model = self.quantized(QUANTIZED[name])
                before = tensors(model)
                after = tensors(self.round_trip(model, "--requantize", "--max-error", "1e-9")[0])
                for key in ("c1_quantized", "c2_quantized", "f1_quantized", "f2_quantized"):
                    self.assertEqual(after[key].raw_data, before[key].raw_data, key)

    def test_compare_and_inspect_show_the_real_values(self):
        model = self.quantized(QUANTIZED["QDQ per channel, unsigned"])
        self.succeed("compress", model, "--requantize", "--max-error", "0.01", "-o", self.path("m.gbz"))
        compared = self.succeed("compare", model, self.path("m.gbz"), "--json").json
        self.assertEqual((compared["only_a"], compared["only_b"], compared["other_dtype"]), (0, 0, 0))
        self.assertGreater(compared["error"], 1e-4)
        self.assertLess(compared["error"], 0.01)
        self.succeed("inspect", self.path("m.gbz"), "--against", model)

    def test_weights_with_scales_of_the_run_stay_exact(self):
        weight = np.random.default_rng(1).integers(-127, 127, (64, 64), np.int8)
        nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]),
                 helper.make_node("MatMul", ["x", "f"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [1, 64]),
                                               helper.make_tensor_value_info("s", FLOAT, [])],
                                  [helper.make_tensor_value_info("y", FLOAT, [1, 64])],
                                  [numpy_helper.from_array(weight, "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("s.onnx"))
        result = self.run_cli("compress", self.path("s.onnx"), "--requantize", "--bits", "4", "-o", self.path("s.gbz"))
        self.assertIn("--requantize has no effect: no weights are integers with constant scales", result.err)
        self.succeed("expand", self.path("s.gbz"), "-o", self.path("s2.onnx"))
        self.assertEqual(self.read("s2.onnx"), self.read("s.onnx"))

    def test_blocks_of_q8_0(self):
        model = self.write("m.gguf", gguf_test.gguf_bytes(gguf_test.KEYS, gguf_test.mixed()))
        exact = self.round_trip(model, "--lossless")[1].json["output_bytes"]
        back, result = self.round_trip(model, "--requantize", "--max-error", "0.005")
        self.assertLess(result.json["output_bytes"], exact * 0.7)
        self.assertEqual(len(self.read(back)), len(self.read(model)))
        blocks = gguf_test.mixed()[3][3]
        at = self.read(model).index(blocks)
        found = self.read(back)[at:at + len(blocks)]
        self.assertNotEqual(found, blocks)
        values = [np.concatenate([struct.unpack("<e", raw[i:i + 2])[0] *
                                  np.frombuffer(raw[i + 2:i + 34], np.int8).astype(np.float64)
                                  for i in range(0, len(raw), 34)]) for raw in (blocks, found)]
        self.assertLess(((values[1] - values[0]) ** 2).sum() / (values[0] ** 2).sum(), 0.0055)
        self.assertTrue(all(abs(np.frombuffer(found[i + 2:i + 34], np.int8)).max() == 127
                            for i in range(0, len(found), 34)))

    def test_contradictions_and_idle_calls(self):
        model, out = self.quantized(QUANTIZED["dynamic"]), self.path("o.gbz")
        for more in (["--lossless"], ["--mode", "exact"]):
            self.refused(USAGE, "--requantize contradicts --mode exact", "compress", model, "--requantize", "-o", out, *more)
        self.refused(USAGE, "--requantize contradicts --base", "compress", model, "--requantize", "--base", model, "-o", out)
        result = self.succeed("compress", self.model(), "--requantize", "--bits", "4", "-o", out)
        self.assertIn("--requantize has no effect: no input is an ONNX or GGUF model", result.err)


if __name__ == "__main__":
    harness.main()
