"""Seconds that gbc.onnx.calibrate() takes for a text-to-speech network of 63 MB, which is made here.

    onnx_calibration.py [--sentences 64] [--phonemes 100] [--ratio 8] [--minutes M] [--collect] [--profile]

The network has the layers of a VITS voice: a text encoder (attention and convolutions), a flow of dilated convolutions with gates,
and a decoder that raises 4 frames of each phoneme to 256 samples each by transposed convolutions and residual blocks. Its weights are
random, scaled so that no layer's outputs vanish or grow. A batch is one sentence. Prints JSON: wall and processor seconds, the largest
resident memory, the candidates and their errors."""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import tempfile
import time
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import gbcompress as gbc

#: Channels of encoder and flow, of the encoder's inner layers, and of the decoder's stages; factors of the stages.
WIDTH, INNER = 192, 768
STAGES, FACTORS = (256, 128, 64, 32), (8, 8, 4)
LAYERS, FLOWS, GATES, FRAMES, SYMBOLS = 6, 4, 4, 4, 256


class Builder:
    """Nodes and constants of a graph; methods return the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self._random = np.random.default_rng(0)

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def draw(self, *shape: int, fan: int) -> str:
        """Weights whose outputs have the variance of their inputs; some channels are larger than others, as in trained models."""
        sizes = np.exp(0.5 * self._random.standard_normal((shape[0], *(1,) * (len(shape) - 1))))
        values = self._random.standard_normal(shape) * sizes / np.sqrt(1.6 * fan)
        return self.constant(values.astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def zeros(self, count: int) -> str:
        return self.constant(np.zeros(count, np.float32))

    def conv(self, x: str, rows: int, columns: int, kernel: int = 1, gap: int = 1) -> str:
        pad = gap * (kernel - 1) // 2
        weight = self.draw(rows, columns, kernel, fan=columns * kernel)
        return self.add("Conv", x, weight, self.zeros(rows), pads=[pad, pad], dilations=[gap])

    def norm(self, x: str, channels: int) -> str:
        turned = self.add("Transpose", x, perm=[0, 2, 1])
        scaled = self.add("LayerNormalization", turned, self.constant(np.ones(channels, np.float32)), self.zeros(channels))
        return self.add("Transpose", scaled, perm=[0, 2, 1])

    def attention(self, x: str) -> str:
        """Two heads, over all positions."""
        heads = self.constant(np.array([1, 2, WIDTH // 2, -1]))
        q, k, v = (self.add("Reshape", self.conv(x, WIDTH, WIDTH), heads) for _ in range(3))
        scores = self.add("MatMul", self.add("Transpose", q, perm=[0, 1, 3, 2]), k)
        scaled = self.add("Mul", scores, self.constant(np.float32((WIDTH // 2) ** -0.5)))
        shares = self.add("Softmax", scaled, axis=-1)
        mixed = self.add("MatMul", v, self.add("Transpose", shares, perm=[0, 1, 3, 2]))
        return self.conv(self.add("Reshape", mixed, self.constant(np.array([1, WIDTH, -1]))), WIDTH, WIDTH)

    def gated(self, x: str, gap: int) -> tuple[str, str]:
        both = self.conv(x, 2 * WIDTH, WIDTH, 5, gap)
        first, second = self.halves(both, WIDTH)
        mixed = self.add("Mul", self.add("Tanh", first), self.add("Sigmoid", second))
        residual, skip = self.halves(self.conv(mixed, 2 * WIDTH, WIDTH), WIDTH)
        return self.add("Mul", self.add("Add", x, residual), self.constant(np.float32(0.7))), skip

    def halves(self, x: str, size: int) -> tuple[str, str]:
        one = self.constant(np.array([1]))
        ends = [self.constant(np.array([end])) for end in (0, size, 2 * size)]
        return self.add("Slice", x, ends[0], ends[1], one), self.add("Slice", x, ends[1], ends[2], one)


def encoded(b: Builder) -> str:
    x = b.add("Transpose", b.add("Gather", b.draw(SYMBOLS, WIDTH, fan=1), "phonemes"), perm=[0, 2, 1])
    for _ in range(LAYERS):
        x = b.norm(b.add("Add", x, b.attention(x)), WIDTH)
        inner = b.add("Relu", b.conv(x, INNER, WIDTH, 3))
        x = b.norm(b.add("Add", x, b.conv(inner, WIDTH, INNER, 3)), WIDTH)
    sizes = b.constant(np.array([1, 1, FRAMES], np.float32))
    return b.add("Resize", x, "", sizes, mode="nearest")


def flowed(b: Builder, x: str) -> str:
    for _ in range(FLOWS):
        h = b.conv(x, WIDTH, WIDTH)
        skips = []
        for gate in range(GATES):
            h, skip = b.gated(h, 2**gate if gate < 2 else 1)
            skips.append(skip)
        x = b.add("Mul", b.add("Add", x, b.conv(b.add("Sum", *skips), WIDTH, WIDTH)), b.constant(np.float32(0.6)))
    return x


def decoded(b: Builder, x: str) -> str:
    x = b.conv(x, STAGES[0], WIDTH, 7)
    for before, after, factor in zip(STAGES, STAGES[1:], FACTORS, strict=False):
        weight = b.draw(before, after, 2 * factor, fan=2 * before)
        x = b.add(
            "ConvTranspose", b.add("LeakyRelu", x, alpha=0.1), weight, b.zeros(after), strides=[factor],
            pads=[factor // 2, factor // 2],
        )  # fmt: skip
        blocks = []
        for kernel in (3, 5, 7):
            h = x
            for gap in (1, 3):
                h = b.add("Add", h, b.conv(b.add("LeakyRelu", h, alpha=0.1), after, after, kernel, gap))
            blocks.append(h)
        x = b.add("Mul", b.add("Sum", *blocks), b.constant(np.float32(0.3)))
    return b.add("Tanh", b.conv(b.add("LeakyRelu", x, alpha=0.1), 1, STAGES[-1], 7))


def build(path: str) -> None:
    b = Builder()
    speech = decoded(b, flowed(b, encoded(b)))
    graph = helper.make_graph(
        b.nodes, "speech", [helper.make_tensor_value_info("phonemes", TensorProto.INT64, [1, "phonemes"])],
        [helper.make_tensor_value_info(speech, TensorProto.FLOAT, [1, 1, "samples"])],
        [numpy_helper.from_array(values, name) for name, values in b.constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--phonemes", type=int, default=100)
    parser.add_argument("--ratio", type=float, default=8)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--collect", action="store_true", help="statistics alone")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    random = np.random.default_rng(1)
    sizes = random.integers(args.phonemes // 2, args.phonemes * 3 // 2, args.sentences)
    batches = [random.integers(0, SYMBOLS, (1, size)) for size in sizes]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "speech.onnx")
        build(path)
        profile = cProfile.Profile()
        wall, processor = time.perf_counter(), time.process_time()
        if args.profile:
            profile.enable()
        result: dict[str, Any] = {"bytes": os.path.getsize(path)}
        if args.collect:
            gbc.onnx.collect(path, batches)
        else:
            report = gbc.onnx.calibrate(path, batches, os.path.join(folder, "m.gbz"), ratio=args.ratio, minutes=args.minutes)
            result |= {"method": report.method, "candidates": report.candidates}
        profile.disable()
        result |= {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - processor}
        result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    if args.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
