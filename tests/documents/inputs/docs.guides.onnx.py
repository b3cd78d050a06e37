import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

draw = np.random.default_rng(6)


def weights(name, *shape):
    return numpy_helper.from_array(draw.normal(0, 0.08, shape).astype(np.float32), name)


graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
     helper.make_node("MatMul", ["r", "b"], ["y"])],
    "two_layers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 96])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])], [weights("a", 96, 256), weights("b", 256, 32)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, "model.onnx")
quantize_dynamic("model.onnx", "model-int8.onnx", weight_type=QuantType.QInt8)
os.mkdir("llm")
onnx.save(model, "llm/model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=64)
batches = [draw.normal(size=(16, 96)).astype(np.float32) for _ in range(8)]
