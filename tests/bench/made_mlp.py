"""Makes NAME.safetensors, an mlp with random hidden layers and a fitted last one, and NAME-data.safetensors for it.

    python3 tests/bench/made_mlp.py NAME 784-1536-1536-10        needs NumPy

Square layers are near the identity, so that what comes in is not lost in deep ones.
"""
import json
import struct
import sys

import numpy as np

SAMPLES, TEST = 6000, 1000


def save(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": {"float32": "F32", "int64": "I64"}[str(values.dtype)], "shape": list(values.shape),
                        "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values).tobytes())


def main(name, widths):
    random = np.random.default_rng(0)
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)
    classes = widths[-1]
    centres = normal(classes * 3, widths[0])
    which = random.integers(0, classes * 3, SAMPLES + TEST)
    x = centres[which] + 1.5 * normal(SAMPLES + TEST, widths[0])
    y = (which % classes).astype(np.int64)
    save(name + "-data.safetensors", {"inputs": x[:SAMPLES], "targets": y[:SAMPLES], "test_inputs": x[SAMPLES:],
                                      "test_targets": y[SAMPLES:]})
    tensors, hidden = {}, x
    for i, (n, m) in enumerate(zip(widths[:-2], widths[1:-1])):
        weight = normal(m, n) * np.float32((2 / n) ** 0.5 * (0.3 if n == m else 1))
        if n == m:
            weight += 0.9 * np.eye(n, dtype=np.float32)
        hidden = np.maximum(hidden @ weight.T, 0)
        tensors[f"{2 * i}.weight"], tensors[f"{2 * i}.bias"] = weight, np.zeros(m, np.float32)
    seen, wanted = hidden[:SAMPLES], np.eye(classes, dtype=np.float32)[y[:SAMPLES]] * 8 - 4
    mean = seen.mean(0)
    moments = (seen - mean).T @ (seen - mean)
    moments[np.diag_indices_from(moments)] += 0.02 * moments.trace() / len(moments)
    weight = np.linalg.solve(moments, (seen - mean).T @ (wanted - wanted.mean(0))).T.astype(np.float32)
    last = 2 * (len(widths) - 2)
    tensors[f"{last}.weight"] = weight
    tensors[f"{last}.bias"] = (wanted.mean(0) - weight @ mean).astype(np.float32)
    save(name + ".safetensors", tensors)


if __name__ == "__main__":
    main(sys.argv[1], [int(width) for width in sys.argv[2].split("-")])
