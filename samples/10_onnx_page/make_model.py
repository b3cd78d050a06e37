"""Writes digits.onnx: the network of samples/digits, 64-128-64-10 with ReLU.

    python3 make_model.py [DIGITS.onnx]

Needs NumPy and the packages onnx and safetensors."""

import pathlib
import sys

import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits"


def model(weights):
    nodes, value = [], "images"
    for layer in (0, 2, 4):
        result = "logits" if layer == 4 else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [value, f"{layer}.weight", f"{layer}.bias"], [result], transB=1))
        value = f"r{layer}"
        nodes.append(helper.make_node("Relu", [result], [value]))
    graph = helper.make_graph(
        nodes[:-1], "digits",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["digits", 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["digits", 10])],
        [numpy_helper.from_array(values, name) for name, values in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    made = model(load_file(DIGITS / "mlp-64-128-64-10.safetensors"))
    onnx.checker.check_model(made)
    onnx.save(made, sys.argv[1] if len(sys.argv) > 1 else "digits.onnx")


if __name__ == "__main__":
    main()
