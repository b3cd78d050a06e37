"""Synthetic checkpoints of Llama-2 shapes (tests/tools/llama_shapes.py): what they hold, that an interrupted
one is continued, and that a small one goes through compress and expand."""

import importlib.util
import json
import sys
from pathlib import Path

import harness

TOOL = Path(__file__).resolve().parents[1] / "tools" / "llama_shapes.py"


def load_tool():
    spec = importlib.util.spec_from_file_location("llama_shapes", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


try:
    import numpy as np
    tool = load_tool()
except ModuleNotFoundError as missing:
    print(f"skipped: this Python lacks {missing.name}")
    sys.exit(77)


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def values_of(content):
    return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)


class LlamaShapes(harness.CliTest):
    SHAPE = tool.Shape(hidden=64, inner=96, layers=2, vocabulary=100)

    def made(self, name):
        folder = Path(self.path(name))
        self.assertEqual(tool.write_checkpoint(folder, self.SHAPE, 60_000, 7), self.weights())
        return folder

    def weights(self):
        return sum(int(np.prod(shape)) for _, shape in tool.tensors_of(self.SHAPE))

    def test_the_sizes_are_those_of_their_names(self):
        for size, billions in (("1b", 0.99), ("7b", 6.74)):
            weights = sum(int(np.prod(shape)) for _, shape in tool.tensors_of(tool.SIZES[size]))
            self.assertAlmostEqual(weights / 1e9, billions, delta=0.01)

    def test_shards_hold_all_tensors_with_scales_and_outliers(self):
        folder = self.made("model")
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        shards = sorted(folder.glob("*.safetensors"))
        self.assertGreater(len(shards), 2)
        found = {}
        for shard in shards:
            self.assertLess(shard.stat().st_size, 64_000)
            for name, tensor in read_safetensors(shard).items():
                self.assertEqual(index["weight_map"][name], shard.name)
                found[name] = tensor
        self.assertEqual({name: tuple(shape) for name, (_, shape, _) in found.items()}, dict(tool.tensors_of(self.SHAPE)))
        self.assertEqual(index["metadata"]["total_size"], 2 * self.weights())
        dtype, shape, content = found["model.layers.1.mlp.gate_proj.weight"]
        self.assertEqual(dtype, "BF16")
        matrix = values_of(content).reshape(shape)
        columns, rows = np.sqrt((matrix ** 2).mean(0)), np.sqrt((matrix ** 2).mean(1))
        self.assertGreater(columns.max(), 3 * np.median(columns))
        self.assertGreater(rows.max(), 1.3 * rows.min())

    def test_rounding_is_to_nearest_even(self):
        values = np.array([1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, -1.5], np.float32)
        expected = [1, 1, 1 + 2 ** -6, 1 + 2 ** -7, -1.5]
        self.assertEqual(values_of(tool.bfloat16(values.copy()).tobytes()).tolist(), expected)

    def test_an_interrupted_one_is_continued_with_the_same_bytes(self):
        folder = self.made("whole")
        other = self.made("cut")
        shards = sorted(path.name for path in folder.glob("*.safetensors"))
        (other / shards[1]).unlink()
        (other / shards[1]).with_suffix(".unfinished").write_bytes(b"half of it")
        kept = (other / shards[0]).stat().st_mtime_ns
        self.made("cut")
        self.assertEqual((other / shards[0]).stat().st_mtime_ns, kept)
        for name in shards:
            self.assertEqual((other / name).read_bytes(), (folder / name).read_bytes())
        self.assertEqual(list(other.glob("*.unfinished")), [])

    def test_it_goes_through_the_program(self):
        folder = self.made("model")
        out, back = self.path("packed.gbz"), self.path("back.safetensors")
        self.succeed("compress", str(folder), "-o", out, "--max-error", "0.01", "--set", "rate.quantizer=nearest")
        self.succeed("expand", out, "-o", back)
        expanded = read_safetensors(Path(back))
        for shard in folder.glob("*.safetensors"):
            for name, (dtype, shape, content) in read_safetensors(shard).items():
                self.assertEqual(expanded[name][:2], (dtype, shape))
                before, after = values_of(content).astype(float), values_of(expanded[name][2]).astype(float)
                self.assertLessEqual(((before - after) ** 2).sum(), 0.0101 * (before ** 2).sum(), name)


harness.main()
