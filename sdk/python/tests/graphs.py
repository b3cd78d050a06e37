"""Small ONNX models that several tests share, and inputs for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT = TensorProto.FLOAT


def draw(*shape: int, seed: int = 0, scale: float = 0.2) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def save(path: Path, nodes: list, constants: dict, inputs: dict, outputs: dict, opset: int = 17) -> Path:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(n, FLOAT if s[0] != "bool" else TensorProto.BOOL, [x for x in s if x != "bool"])
         for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def network(path: Path) -> Path:
    """Convolution, grouped convolution, both orientations of a dense layer."""
    nodes = [
        helper.make_node("Conv", ["x", "c1", "b1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "c2"], ["d"], group=4, pads=[2, 1, 2, 1], dilations=[2, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["h"]),
        helper.make_node("Gemm", ["h", "g", "gb"], ["y"], transB=1),
    ]
    constants = {
        "c1": draw(16, 3, 3, 3, seed=1), "b1": draw(16, seed=2), "c2": draw(32, 4, 3, 3, seed=3),
        "m": draw(32, 24, seed=4), "g": draw(10, 24, seed=5), "gb": draw(10, seed=6),
    }  # fmt: skip
    return save(path, nodes, constants, {"x": [4, 3, 12, 12]}, {"y": [4, 10]})


def dense(path: Path, width: int = 32) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]  # fmt: skip
    constants = {"w": draw(width, 96, seed=1), "v": draw(96, 48, seed=2)}
    return save(path, nodes, constants, {"x": [16, width]}, {"y": [16, 48]})


def recurrent(path: Path, named: bool = True) -> Path:
    """An LSTM in a branch of an If, whose first output has a name or not."""
    def value(name: str, array: np.ndarray) -> object:
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, name))

    def branch(tag: str, seed: int) -> object:
        names = [f"{letter}{tag}" for letter in "WRB"]
        arrays = [draw(1, 64, 8, seed=seed), draw(1, 64, 16, seed=seed + 1), draw(1, 128, seed=seed + 2)]
        outputs = [f"s{tag}" if named else "", f"h{tag}"]
        return helper.make_graph(
            [*map(value, names, arrays), helper.make_node("LSTM", ["x", *names], outputs, hidden_size=16)],
            f"branch{tag}", [], [helper.make_tensor_value_info(f"h{tag}", FLOAT, [1, 2, 16])],
        )  # fmt: skip

    nodes = [helper.make_node("If", ["q"], ["y"], then_branch=branch("1", 1), else_branch=branch("2", 5))]
    return save(path, nodes, {}, {"q": ["bool"], "x": [6, 2, 8]}, {"y": [1, 2, 16]})


def inputs(count: int = 10, *shape: int) -> list[np.ndarray]:
    """Inputs whose elements depend on each other."""
    shape = shape or (16, 32)
    mix = draw(shape[-1], shape[-1], seed=9, scale=1) * np.linspace(3, 0.02, shape[-1], dtype=np.float32)
    return [draw(*shape, seed=20 + k, scale=1) @ mix for k in range(count)]
