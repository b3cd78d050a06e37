"""Models with a container: GGUF files whose tensors are large, split, or no weights (cases 45, 47, 53), and ONNX files whose
external data have no length, whose constants are not finite, or which are too small to shrink (cases 42, 54, 57)."""

import os
import re
import shutil
import struct
import sys

import cases
from cases import harness
from harness import INPUT, TARGET

sys.path.insert(0, os.path.join(cases.ROOT, "tests", "cli"))
import gguf_test  # noqa: E402
from gguf_test import F16, F32, Q4_K, Q8_0, STRING, UINT32, key, text  # noqa: E402

Q5_0, Q6_K, UINT16, INT32, NEW = 6, 14, 2, 5, 999


def split_keys(part, parts):
    return [key("split.no", UINT16, struct.pack("<H", part)), key("split.count", UINT16, struct.pack("<H", parts)),
            key("split.tensors.count", INT32, struct.pack("<i", 4))]


def part_tensors(part):
    return [(f"blk.{part}.{name}", F16, [64, 48], gguf_test.halves(64 * 48, 10 * part + n))
            for n, name in enumerate(("attn_q.weight", "ffn_up.weight"))]


class GgufCase(cases.Given):
    def back_of(self, model, *options):
        self.succeed("compress", model, "-o", self.path("m.gbz"), "--force", "-q", *options)
        self.succeed("expand", self.path("m.gbz"), "-o", self.path("back.gguf"), "--force")
        return self.read("back.gguf")


class LargeTensors(GgufCase):
    """Tensors of more elements than are coded at a time."""

    ROWS, COLUMNS = 17_000, 1024

    def blocks(self, rows):
        """A few rows of Q8_0 again and again."""
        some = gguf_test.q8_0(self.COLUMNS * 8, 5)
        return (some * (rows // 8 + 1))[: rows * self.COLUMNS // 32 * 34]

    def test_a_large_tensor_is_identical_in_bounded_memory_and_its_rules_hold(self):
        tensors = [("token_embd.weight", Q8_0, [self.COLUMNS, self.ROWS], self.blocks(self.ROWS)),
                   ("blk.0.w", F32, [64, 64], harness.floats(64 * 64, 2))]
        model = self.write("large.gguf", gguf_test.gguf_bytes(gguf_test.KEYS, tensors))
        told = self.succeed("compress", model, "--mode", "exact", "-o", "m.gbz", "--json").json
        self.assertLess(told["peak_memory_bytes"], 400 << 20)
        self.succeed("expand", "m.gbz", "-o", "back.gguf")
        self.assertEqual(self.read("back.gguf"), self.read(model))
        names = [each["name"] for each in self.succeed("inspect", model, "--json").json["tensors"]]
        self.assertEqual(names, ["blk.0.w", "token_embd.weight[0:8500]", "token_embd.weight[8500:17000]"])
        rule = self.write("rule.toml", '[[layer]]\nmatch = "token_embd.weight"\nmode = "exact"\n')
        result = self.succeed("compress", model, "--requantize", "--max-error", "0.01", "--config", rule, "-o", "r.gbz")
        self.assertNotIn("match", result.err)
        self.succeed("expand", "r.gbz", "-o", "r.gguf")
        start = len(self.read(model)) - 64 * 64 * 4 - len(tensors[0][3])
        self.assertEqual(self.read("r.gguf")[start:start + len(tensors[0][3])], tensors[0][3])
        self.assertNotEqual(self.read("r.gguf"), self.read(model))


class SplitModels(GgufCase):
    def parts(self, folder="set", first_empty=True, count=3):
        os.makedirs(self.path(folder), exist_ok=True)
        paths = []
        for part in range(count):
            tensors = [] if first_empty and part == 0 else part_tensors(part)
            keys = [*split_keys(part, count), *(gguf_test.KEYS if part == 0 else [])]
            paths.append(self.write(f"{folder}/m-{part + 1:05}-of-{count:05}.gguf", gguf_test.gguf_bytes(keys, tensors)))
        return paths

    def all_come_back(self, paths, folder):
        for path in paths:
            self.assertEqual(self.read(os.path.join(folder, os.path.basename(path))), self.read(path), path)

    def test_the_first_part_stands_for_the_set(self):
        for first_empty in (True, False):
            with self.subTest(first_empty=first_empty):
                paths = self.parts(f"set{first_empty}", first_empty)
                self.succeed("compress", paths[0], "--mode", "exact", "-o", f"{first_empty}.gbz")
                out = self.path(f"out{first_empty}")
                os.mkdir(out)
                self.succeed("expand", f"{first_empty}.gbz", "-o", os.path.join(out, "m-00001-of-00003.gguf"))
                self.all_come_back(paths, out)
                self.succeed("expand", f"{first_empty}.gbz", "-o", os.path.join(out, "other-00001-of-00003.gguf"))
                for n in (1, 2, 3):
                    self.assertEqual(self.read(os.path.join(out, f"other-0000{n}-of-00003.gguf")), self.read(paths[n - 1]))
        told = self.succeed("inspect", paths[0], "--json").json
        self.assertEqual(len(told["tensors"]), 6)

    def test_the_parts_taken_together(self):
        paths = self.parts()
        for name, target in {"exact": ("--mode", "exact"), "lossy": ("--ratio", "2")}.items():
            with self.subTest(name):
                self.succeed("compress", *paths, *target, "-o", f"{name}/")
                packed = [os.path.join(self.path(name), each) for each in sorted(os.listdir(self.path(name)))]
                self.succeed("expand", *packed, "-o", f"{name}-back/")
                sizes = [os.path.getsize(os.path.join(self.path(name + "-back"), os.path.basename(p))) for p in paths]
                self.assertEqual(sizes, [os.path.getsize(p) for p in paths])
        self.all_come_back(paths, self.path("exact-back"))
        self.assertNotEqual(self.read("lossy-back/" + os.path.basename(paths[1])), self.read(paths[1]))

    def test_each_part_alone(self):
        paths = self.parts()
        for path in paths:
            with self.subTest(path):
                alone = self.write("alone/" + os.path.basename(path), self.read(path)) if os.path.isdir(
                    self.path("alone")) else None
                if alone is None:
                    os.mkdir(self.path("alone"))
                    alone = self.write("alone/" + os.path.basename(path), self.read(path))
                for target in (("--mode", "exact"), ("--ratio", "2")):
                    result = self.succeed("compress", alone, *target, "-o", "p.gbz", "--force")
                    self.assertIn("of a model", result.err)
                    self.succeed("expand", "p.gbz", "-o", "p.gguf", "--force")
                    self.assertEqual(len(self.read("p.gguf")), len(self.read(path)))
                    if target[1] == "exact":
                        self.assertEqual(self.read("p.gguf"), self.read(path))
                os.remove(alone)

    def test_damaged_sets(self):
        paths = self.parts()
        os.rename(paths[2], self.path("kept"))
        result = self.succeed("compress", paths[0], "--mode", "exact", "-o", "p.gbz")
        self.assertIn("m-00003-of-00003.gguf is not beside it", result.err)
        shutil.copy(paths[1], paths[2])
        self.refused(INPUT, "m-00003-of-00003.gguf is part 3 of 3 by its name and part 2 of 3 by its metadata", "compress",
                     paths[0], "-o", "q.gbz")
        self.write("set/m-00003-of-00003.gguf", gguf_test.gguf_bytes(split_keys(2, 4), part_tensors(2)))
        self.refused(INPUT, "part 3 of 3 by its name and part 3 of 4 by its metadata", "compress", paths[0], "-o", "q.gbz")
        self.write("set/m-00003-of-00003.gguf", gguf_test.gguf_bytes(split_keys(2, 3), part_tensors(1)))
        self.refused(INPUT, "holds tensor blk.1.attn_q.weight twice", "compress", paths[0], "-o", "q.gbz")
        self.write("set/m-00003-of-00003.gguf", self.read("kept")[:-100])
        self.refused(INPUT, "m-00003-of-00003.gguf.*load the file again", "compress", paths[0], "-o", "q.gbz")
        self.write("set/m-00001-of-00003.gguf", gguf_test.gguf_bytes(split_keys(0, 2), []))
        self.refused(INPUT, "part 1 of 3 by its name and part 1 of 2 by its metadata", "compress", paths[0], "-o", "q.gbz")

    def test_the_given_set(self):
        folder = self.given("45")
        paths = sorted(os.path.join(folder, each) for each in os.listdir(folder))
        self.succeed("compress", *paths, "--mode", "exact", "-o", "p/")
        self.succeed("expand", *[os.path.join("p", each) for each in os.listdir(self.path("p"))], "-o", "back/")
        self.all_come_back(paths, self.path("back"))


class NoWeights(GgufCase):
    def test_statistics_and_adapters_are_exact_with_a_note(self):
        tensors = [("blk.0.ffn_down.weight.in_sum2", F32, [64, 64], harness.floats(64 * 64, 3, 10)),
                   ("blk.0.ffn_down.weight.counts", F32, [1, 64], harness.floats(64, 4, 100)),
                   ("blk.0.attn_q.weight.lora_a", F16, [64, 16], gguf_test.halves(1024, 5))]
        for kind in ("imatrix", "adapter", "something new"):
            model = self.write("x.gguf", gguf_test.gguf_bytes([key("general.type", STRING, text(kind))], tensors))
            for target in (("--max-error", "0.01"), ("--ratio", "8"), ("--mode", "exact")):
                with self.subTest(kind=kind, target=target):
                    result = self.run_cli("compress", model, *target, "-o", "x.gbz", "--force")
                    self.assertIn(result.status, (0, TARGET) if "--ratio" in target else (0,), result)
                    self.assertIn(f"general.type is {kind}", result.err)
                    self.succeed("expand", "x.gbz", "-o", "x-back.gguf", "--force")
                    self.assertEqual(self.read("x-back.gguf"), self.read(model))
        model = self.write("m.gguf", gguf_test.gguf_bytes([key("general.type", STRING, text("mmproj"))], tensors[2:]))
        self.assertNotEqual(self.back_of(model, "--bits", "5"), self.read(model))

    def test_blocks_of_other_types_are_exact(self):
        tensors = [(f"blk.0.{kind}", kind, [256, 16], harness.floats(16 * size // 4, kind))
                   for kind, size in {Q5_0: 176, Q6_K: 420, Q4_K: 144, 39: 136, 40: 144, NEW: 128}.items()]
        tensors = [(n, k, s, raw[: len(raw) // 32 * 32]) if k == NEW else (n, k, s, self.sized(k, raw)) for n, k, s, raw in tensors]
        model = self.write("b.gguf", gguf_test.gguf_bytes(gguf_test.KEYS, tensors))
        for target in (("--mode", "exact"), ("--max-error", "0.1")):
            self.assertEqual(self.back_of(model, *target), self.read(model))

    @staticmethod
    def sized(kind, raw):
        size = {Q5_0: 22 * 8, Q6_K: 210, Q4_K: 144, 39: 17 * 8, 40: 36 * 4}[kind] * 16
        return (raw * (size // len(raw) + 1))[:size]

    def test_tensors_that_are_not_finite_are_exact(self):
        hole = gguf_test.halves(64 * 48, 7)[:-2] + struct.pack("<e", float("nan"))
        tensors = [("a.weight", F16, [64, 48], hole), ("b.weight", F16, [64, 48], gguf_test.halves(64 * 48, 8))]
        model = self.write("n.gguf", gguf_test.gguf_bytes(gguf_test.KEYS, tensors))
        result = self.run_cli("compress", model, "--max-error", "0.01", "-o", "n.gbz")
        if "repair or retrain" in result.err:
            self.skipTest("this build refuses values that are not finite")
        self.assertEqual(result.status, 0, result)
        self.assertIn("NaN or infinity", result.err)
        self.succeed("expand", "n.gbz", "-o", "n-back.gguf")
        self.assertIn(hole, self.read("n-back.gguf"))
        self.assertNotIn(tensors[1][3], self.read("n-back.gguf"))

    def test_a_vocabulary_is_stored(self):
        model = self.write("v.gguf", gguf_test.gguf_bytes(gguf_test.KEYS, []))
        for target in ((), ("--mode", "exact"), ("--ratio", "1.5")):
            result = self.succeed("compress", model, *target, "-o", "v.gbz", "--force")
            self.assertIn("holds no weights", result.err)
            self.succeed("expand", "v.gbz", "-o", "v-back.gguf", "--force")
            self.assertEqual(self.read("v-back.gguf"), self.read(model))

    def test_the_given_files(self):
        folder = self.given("47")
        for name in os.listdir(folder):
            model = os.path.join(folder, name)
            result = self.run_cli("compress", model, "--ratio", "8", "-o", "g.gbz", "--force")
            self.assertIn(result.status, (0, TARGET), result)
            self.succeed("expand", "g.gbz", "-o", "g.gguf", "--force")
            self.assertEqual(self.read("g.gguf"), self.read(model), name)


@cases.needs("numpy", "onnx")
class Onnx(cases.Given):
    def setUp(self):
        super().setUp()
        import numpy
        import onnx
        self.np, self.onnx = numpy, onnx
        self.draw = numpy.random.default_rng(3)

    def save(self, name, nodes, initializers, width=48, inputs=("x",)):
        from onnx import helper
        value = lambda each, shape: helper.make_tensor_value_info(each, self.onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(nodes, "g", [value(each, [2, width]) for each in inputs], [value("y", None)], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return self.write(name, model.SerializeToString())

    def weight(self, name="W", rows=48, columns=48):
        return self.onnx.numpy_helper.from_array(self.draw.normal(0, 0.1, (rows, columns)).astype("f"), name)

    def back_of(self, model, *options):
        self.succeed("compress", model, "-o", "o.gbz", "--force", *options)
        self.succeed("expand", "o.gbz", "-o", "back/o.onnx", "--force")
        return self.read("back/o.onnx")

    def external(self, name, shape, offset, length, location="data/w.bin", kind=None):
        tensor = self.onnx.TensorProto(name=name, data_type=kind or self.onnx.TensorProto.FLOAT, dims=shape,
                                       data_location=self.onnx.TensorProto.EXTERNAL)
        for word, value in (("location", location), ("offset", offset), ("length", length)):
            if value is not None:
                tensor.external_data.add(key=word, value=str(value))
        return tensor

    def test_external_data_without_a_length_in_any_order(self):
        from onnx import helper
        os.makedirs(self.path("back"))
        os.makedirs(self.path("data"))
        raw = self.draw.normal(0, 0.1, 3 * 2304).astype("f").tobytes()
        self.write("data/w.bin", b"head" * 16 + raw + b"tail")
        nodes = [helper.make_node("MatMul", ["x", "C"], ["a"]), helper.make_node("MatMul", ["a", "A"], ["b"]),
                 helper.make_node("MatMul", ["b", "B"], ["c"]), helper.make_node("MatMul", ["c", "A2"], ["y"])]
        for length in (0, None, 9216):
            with self.subTest(length=length):
                places = {"B": 64 + 2 * 9216, "A": 64 + 9216, "C": 64, "A2": 64 + 9216}
                model = self.save("e.onnx", nodes, [self.external(n, [48, 48], at, length) for n, at in places.items()])
                self.assertEqual(self.back_of(model, "--mode", "exact"), self.read(model))
                self.assertEqual(self.read("back/data/w.bin"), self.read("data/w.bin"))
                self.assertEqual(self.back_of(model, "--max-error", "0.001"), self.read(model))
                after = self.np.frombuffer(self.read("back/data/w.bin")[64:-4], "f")
                before = self.np.frombuffer(raw, "f")
                self.assertLess(((after - before) ** 2).sum() / (before ** 2).sum(), 0.0011)
                self.assertEqual(self.read("back/data/w.bin")[:64], b"head" * 16)

    def test_wrong_external_data(self):
        from onnx import helper
        nodes = [helper.make_node("MatMul", ["x", "W"], ["y"])]
        self.write("short.bin", bytes(100))
        os.makedirs(self.path("elsewhere"))
        self.write("elsewhere/w.bin", bytes(9216))
        os.makedirs(self.path("model"))
        os.symlink(self.path("elsewhere/w.bin"), self.path("model/link.bin"))
        for name, (location, offset, length, status, words) in {
                "cut": ("../short.bin", 0, 0, INPUT, "leaves the model's folder"),
                "absolute": (self.path("short.bin"), 0, 0, INPUT, "leaves the model's folder"),
                "link": ("link.bin", 0, 0, INPUT, "a link that leaves the model's folder"),
                "absent": ("none.bin", 0, 0, INPUT, "which is not beside it"),
                "behind": ("own.bin", 64, 0, INPUT, "ends at byte 9280 of own.bin, which has 9216"),
                "other length": ("own.bin", 0, 9212, INPUT, "has 9212 bytes, and its shape requires 9216"),
                "no number": ("own.bin", 0, "many", INPUT, "length of external data is no number"),
        }.items():
            with self.subTest(name):
                self.write("model/own.bin", bytes(9216))
                model = self.save("model/w.onnx", nodes, [self.external("W", [48, 48], offset, length, location)])
                self.refused(status, words, "compress", model, "--mode", "exact", "-o", "w.gbz")

    def test_other_kinds_of_initializers_are_identical(self):
        from onnx import helper, numpy_helper
        os.makedirs(self.path("back"))
        kind = self.onnx.TensorProto
        sparse = helper.make_sparse_tensor(numpy_helper.from_array(self.np.arange(1, 41, dtype="f"), "S"),
                                           numpy_helper.from_array(self.np.arange(0, 80, 2, dtype="i8"), "S_i"), [48, 48])
        branch = lambda n, value: helper.make_graph(
            [helper.make_node("Constant", [], [n], value=numpy_helper.from_array(value, n)),
             helper.make_node("Add", ["m", n], [n + "_out"])], n + "_graph", [],
            [helper.make_tensor_value_info(n + "_out", kind.FLOAT, None)])
        table = self.draw.normal(0, 1, (48, 48)).astype("f")
        nodes = [helper.make_node("MatMul", ["x", "W"], ["m"]),
                 helper.make_node("If", ["c"], ["y"], then_branch=branch("t", table), else_branch=branch("e", 2 * table))]
        extra = [kind(name=n, data_type=t, dims=[48, 48], raw_data=self.draw.bytes(size)) for n, t, size in (
            ("f8", kind.FLOAT8E4M3FN, 2304), ("f8b", kind.FLOAT8E5M2FNUZ, 2304), ("i4", kind.INT4, 1152), ("u4", kind.UINT4, 1152),
            ("f4", kind.FLOAT4E2M1, 1152), ("half", kind.FLOAT16, 4608), ("b", kind.BOOL, 2304))]
        extra[-2].raw_data = self.np.full((48, 48), 0.5, "e").tobytes()
        model = self.onnx.ModelProto.FromString(self.read(self.save("k.onnx", nodes, [
            self.weight(), numpy_helper.from_array(self.np.array(True), "c"), *extra])))
        model.graph.sparse_initializer.append(sparse)
        path = self.write("k.onnx", model.SerializeToString())
        self.assertEqual(self.back_of(path, "--mode", "exact"), self.read(path))
        after = self.onnx.ModelProto.FromString(self.back_of(path, "--max-error", "1e-4"))
        kept = {each.name: each for each in after.graph.initializer}
        for each in extra:
            self.assertEqual(kept[each.name], each, each.name)
        self.assertEqual(after.graph.sparse_initializer[0], sparse)

    def test_constants_that_are_not_finite_are_exact(self):
        from onnx import helper, numpy_helper
        os.makedirs(self.path("back"))
        np, kind = self.np, self.onnx.TensorProto
        place = np.arange(48.0)
        slopes = np.where(place[:, None] < place, -np.inf, place - place[:, None]) / 8
        holes = np.where(self.draw.random((48, 48)) < 0.1, np.nan, self.draw.normal(0, 1, (48, 48)))
        bounds = np.where(self.draw.random((48, 48)) < 0.5, np.inf, 3.0)
        branch = lambda name, value: helper.make_graph(
            [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name)),
             helper.make_node("Min", ["m", name], [name + "_out"])], name + "_graph", [],
            [helper.make_tensor_value_info(name + "_out", kind.FLOAT, None)])
        nodes = [helper.make_node("MatMul", ["x", "W"], ["m"]), helper.make_node("Cast", ["H"], ["h"], to=kind.FLOAT),
                 helper.make_node("Add", ["m", "S"], ["a"]), helper.make_node("Mul", ["a", "h"], ["b"]),
                 helper.make_node("If", ["c"], ["t"], then_branch=branch("t1", bounds.astype("f")),
                                  else_branch=branch("t2", -bounds.astype("f"))),
                 helper.make_node("Add", ["b", "t"], ["y"])]
        model = self.save("n.onnx", nodes, [self.weight(), numpy_helper.from_array(slopes.astype("f"), "S"),
                                            numpy_helper.from_array(holes.astype("e"), "H"),
                                            numpy_helper.from_array(np.array(True), "c")])
        probe = self.run_cli("compress", model, "--mode", "exact", "-o", "probe.gbz")
        if "repair or retrain" in probe.err:
            self.skipTest("this build refuses values that are not finite")
        self.assertEqual(self.back_of(model, "--mode", "exact"), self.read(model))
        for target in (("--max-error", "0.001"), ("--ratio", "2")):
            result = self.run_cli("compress", model, *target, "-o", "o.gbz", "--force")
            self.assertEqual(result.status, harness.DONE, result)
            self.assertEqual(len(re.findall("NaN or infinity", result.err)), 1, result)
            self.succeed("expand", "o.gbz", "-o", "back/o.onnx", "--force")
            raw = self.read("back/o.onnx")
            for value in (slopes.astype("f"), holes.astype("e"), bounds.astype("f"), -bounds.astype("f")):
                self.assertIn(value.tobytes(), raw)
            self.assertNotEqual(raw, self.read(model))

    def test_models_too_small_to_shrink_are_written(self):
        from onnx import helper
        os.makedirs(self.path("back"))
        model = self.save("s.onnx", [helper.make_node("MatMul", ["x", "W"], ["y"])], [self.weight(rows=8, columns=5)], 8)
        self.assertLess(os.path.getsize(model), 600)
        result = self.succeed("compress", model, "-o", "s.gbz")
        self.assertIn("no target was given", result.err)
        self.succeed("compare", model, "s.gbz")
        told = self.run_cli("compress", model, "--ratio", "10", "-o", "t.gbz")
        self.assertEqual(told.status, harness.USAGE, told)
        self.assertRegex(told.err, "hardly shrinks; leave the target out, or give --max-error 0.01")
        self.back_of(model, "--max-error", "0.01")
        self.assertEqual(self.back_of(model, "--mode", "exact"), self.read(model))

    def test_the_given_external_data(self):
        folder = self.given("42")
        os.makedirs(self.path("back"))
        for name in ("zero.onnx", "order.onnx"):
            model = os.path.join(folder, name)
            self.assertEqual(self.back_of(model, "--mode", "exact"), self.read(model), name)
            self.assertEqual(self.read("back/w.bin"), self.read(os.path.join(folder, "w.bin")), name)
            self.assertEqual(self.back_of(model, "--ratio", "4"), self.read(model), name)

    def test_the_given_small_models(self):
        folder = self.given("56")
        for name in ("conv2d.onnx", "conv3d.onnx"):
            self.succeed("compress", os.path.join(folder, name), "-o", name + ".gbz")


if __name__ == "__main__":
    harness.main()
