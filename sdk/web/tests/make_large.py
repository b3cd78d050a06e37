"""Makes what open_test.mjs and browser_test.py decode: a model of 25 MB, and one of ONNX, with the program gbcompress.

    python3 make_large.py GBCOMPRESS FOLDER

large.gbz and large.json: the SHA-256 of each tensor that `expand` writes. model.onnx.gbz and expanded.onnx. odd.gbz: a tensor
without finite values, and one of an unusual name. Standard library only.
"""
import array
import hashlib
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys

SHAPES = {"embed.weight": [9000, 256], "layer.0.weight": [1024, 1024], "layer.0.bias": [1024], "layer.1.weight": [1024, 1024],
          "layer.2.weight": [1920, 1024], "norm.weight": [1024]}


def normal(count, scale, seed):
    """Floats in bytes: quantiles of the normal distribution, drawn."""
    law = statistics.NormalDist(0, scale)
    table = [law.inv_cdf((i + 0.5) / 4096) for i in range(4096)]
    draws = array.array("H", random.Random(seed).randbytes(2 * count))
    return array.array("f", (table[draw >> 4] for draw in draws)).tobytes()


def drawn(shapes):
    for seed, (name, shape) in enumerate(shapes.items()):
        yield name, shape, normal(shape[0] * (shape[1] if len(shape) > 1 else 1), 0.05, seed)


def safetensors(tensors):
    header, data = {}, b""
    for name, shape, values in tensors:
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def digests(content):
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    return {name: hashlib.sha256(content[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]]).hexdigest()
            for name, at in header.items()}


def field(number, value):
    """One field of a protobuf message."""
    def varint(number):
        return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx():
    """y = x W, W [512, 512]."""
    def named(name, sides):
        dims = b"".join(field(1, field(1, side)) for side in sides)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))
    weight = field(1, 512) + field(1, 512) + field(2, 1) + field(8, "w") + field(9, normal(512 * 512, 0.05, 99))
    node = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "MatMul")
    graph = field(1, node) + field(2, "g") + field(5, weight) + field(11, named("x", [1, 512])) + field(12, named("y", [1, 512]))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def main(program, folder):
    folder.mkdir(parents=True, exist_ok=True)

    def run(*words):
        subprocess.run([program, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (folder / "large.safetensors").write_bytes(safetensors(drawn(SHAPES)))
    run("compress", "large.safetensors", "--ratio", "8", "-o", "large.gbz", "--force", "-q")
    run("expand", "large.gbz", "-o", "expanded.safetensors", "--force")
    (folder / "large.json").write_text(json.dumps(digests((folder / "expanded.safetensors").read_bytes())))
    (folder / "model.onnx").write_bytes(onnx())
    run("compress", "model.onnx", "--bits", "6", "-o", "model.onnx.gbz", "--force", "-q")
    run("expand", "model.onnx.gbz", "-o", "expanded.onnx", "--force")
    values, nan = array.array("f", [1.7, -3.1, 0.013]).tobytes(), array.array("f", [float("nan")] * 3).tobytes()
    odd = [("__proto__", [2], array.array("f", [1, 2]).tobytes()), ("nan", [3], values)]
    (folder / "odd.safetensors").write_bytes(safetensors(odd))
    run("compress", "odd.safetensors", "--lossless", "-o", "odd.gbz", "--force", "-q")
    content = (folder / "odd.gbz").read_bytes()[:-16]  # `compress` refuses such values
    assert content.count(values) == 1
    content = content.replace(values, nan)
    (folder / "odd.gbz").write_bytes(content + hashlib.sha256(content).digest()[:16])
    for name in ("large.safetensors", "expanded.safetensors", "odd.safetensors"):
        (folder / name).unlink()


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
