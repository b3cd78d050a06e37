"""samples/11_onnx_session, built against an installed libgbz as users build it, beside Python's onnxruntime.

GBC_CMAKE, GBC_BUILD, GBC_SANITIZED: as installed_test.py takes them. GBCOMPRESS: the program. GBC_ONNXRUNTIME: a folder with include/ and
lib/ of ONNX Runtime; without headers, what needs them is skipped.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import onnxruntime
    import safetensors  # noqa: F401  make_model.py needs it
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}; run scripts/setup --tests")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAMPLE, DIGITS, GOLDEN = ROOT / "samples/11_onnx_session", ROOT / "samples/digits", ROOT / "tests/golden"
CPU = ["CPUExecutionProvider"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


def compressed(model, to, *options):
    run(os.environ["GBCOMPRESS"], "compress", model, "-o", to, "-q", "--force", *options)
    run(os.environ["GBCOMPRESS"], "expand", to, "-o", to.with_suffix(".onnx"), "--force")
    return onnx.load(to.with_suffix(".onnx"))


def typed(path):
    """Initializers of several types and encodings, a subgraph with constants, and one initializer for each rule that keeps it in the model."""
    random = np.random.default_rng(0)
    half = random.normal(0, 1, (64, 64)).astype(np.float16)
    constants = [
        numpy_helper.from_array(random.normal(0, 1, (64, 64)).astype(np.float32), "raw"),
        helper.make_tensor("floats", TensorProto.FLOAT, [64, 64], random.normal(0, 1, 4096).tolist()),
        helper.make_tensor("halves", TensorProto.FLOAT16, [64, 64], half.reshape(-1).tolist()),
        helper.make_tensor("counts", TensorProto.INT64, [4096], range(-100, 3996)),
        numpy_helper.from_array(np.arange(4096, dtype=np.int8), "bytes"),
        helper.make_tensor("nibbles", TensorProto.INT4, [16384], bytes(8192), raw=True),
        numpy_helper.from_array(np.array([64, 64]), "shape"),
    ]
    inner = numpy_helper.from_array(random.normal(0, 1, (64, 64)).astype(np.float32), "inner")
    branches = [helper.make_graph([helper.make_node("MatMul", ["x", "inner"], [name])], name, [],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64])], [inner]) for name in "ab"]
    nodes = [helper.make_node("If", ["q"], ["y"], then_branch=branches[0], else_branch=branches[1])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64]),
                     helper.make_tensor_value_info("q", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


class Sample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.environ.get("GBC_SANITIZED"):
            raise unittest.SkipTest("sanitizers bring libraries of their own")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        prefix, build, more = cls.folder / "prefix", cls.folder / "build", os.environ.get("GBC_ONNXRUNTIME", "")
        run(os.environ["GBC_CMAKE"], "--install", os.environ["GBC_BUILD"], "--prefix", prefix, "--component", "c")
        run(os.environ["GBC_CMAKE"], "-S", SAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix};{more}", "-DCMAKE_CXX_FLAGS=-Wall -Werror")
        run(os.environ["GBC_CMAKE"], "--build", build)
        cls.programs = build
        run(sys.executable, "-B", ROOT / "samples/10_onnx_page/make_model.py", cls.folder / "digits.onnx")
        cls.model = cls.folder / "packed.gbz"
        compressed(cls.folder / "digits.onnx", cls.model, "--ratio", "4")

    def parts(self, model):
        """The model that write_parts writes, its weights loaded, and what it prints: location, type and shape by name."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        lines = [line.split("\t") for line in run(self.programs / "write_parts", model, folder).splitlines()]
        told = {name: (location, int(kind), [int(side) for side in sides]) for name, location, kind, *sides in lines}
        self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted(["model.onnx", *(each[0] for each in told.values())]))
        return folder, told

    def check(self, model, whole, names):
        folder, told = self.parts(model)
        bare, found = onnx.load(folder / "model.onnx", load_external_data=False), onnx.load(folder / "model.onnx")
        self.assertEqual(set(told), names)
        for left, now, then in zip(bare.graph.initializer, found.graph.initializer, whole.graph.initializer, strict=True):
            self.assertEqual((now.name, now.data_type, list(now.dims)), (then.name, then.data_type, list(then.dims)))
            if then.name in names:
                self.assertEqual(told[then.name][1:], (then.data_type, list(then.dims)))
                self.assertEqual({entry.key: entry.value for entry in left.external_data},
                                 {"location": told[then.name][0], "length": str((folder / told[then.name][0]).stat().st_size)})
                self.assertEqual(numpy_helper.to_array(now).tobytes(), numpy_helper.to_array(then).tobytes(), then.name)
            else:
                self.assertEqual(left, then)
        for each in (found, whole):
            each.graph.ClearField("initializer")
        self.assertEqual(found, whole)
        return folder

    def test_onnxruntime_loads_the_parts(self):
        folder = self.check(self.model, onnx.load(self.model.with_suffix(".onnx")), {"0.weight", "2.weight"})
        results = [onnxruntime.InferenceSession(path, providers=CPU).run(None, {"images": self.images()})[0].tobytes()
                   for path in (folder / "model.onnx", self.model.with_suffix(".onnx"))]
        self.assertEqual(results[0], results[1])

    def test_types_and_encodings(self):
        model, packed = typed(self.folder / "typed.onnx"), self.folder / "t.gbz"
        names = {"raw", "floats", "halves", "counts", "bytes"}
        for options in (("--lossless",), ("--max-error", "1e-3")):
            self.check(packed, compressed(model, packed, *options), names)

    def test_requantized_integers(self):
        integers = np.clip(np.rint(np.random.default_rng(1).normal(0, 40, (64, 80))), -127, 127).astype(np.int8)
        scale, zero = np.linspace(0.004, 0.006, 80, dtype=np.float32), np.zeros(80, np.int8)
        nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=1), helper.make_node("MatMul", ["x", "f"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 80])],
                                  [numpy_helper.from_array(v, n) for n, v in (("w", integers), ("s", scale), ("z", zero))])
        model, packed = self.folder / "integers.onnx", self.folder / "i.gbz"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        whole = compressed(model, packed, "--requantize", "--max-error", "1e-3")
        self.assertNotEqual(numpy_helper.to_array(whole.graph.initializer[0]).tobytes(), integers.tobytes())
        self.check(packed, whole, {"w"})

    def images(self):
        return np.frombuffer((DIGITS / "test-images-idx3-ubyte").read_bytes()[16:], np.uint8).reshape(-1, 64) / np.float32(16)

    def test_a_session_computes_what_pythons_does(self):
        program = self.programs / "onnx_session"
        if not program.exists():
            self.skipTest("onnxruntime_c_api.h is not installed; GBC_ONNXRUNTIME names a folder with it")
        library = os.path.join(os.environ.get("GBC_ONNXRUNTIME", "/usr"), "lib")
        done = subprocess.run([program, self.model], input=self.images().tobytes(), capture_output=True, check=False,
                              env=dict(os.environ, LD_LIBRARY_PATH=library))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        expected = onnxruntime.InferenceSession(self.model.with_suffix(".onnx"), providers=CPU).run(None, {"images": self.images()})[0]
        np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32).reshape(-1, 10), expected, rtol=1e-5, atol=1e-5)

    def test_wrong_files_are_a_sentence(self):
        content = self.model.read_bytes()
        changed = content[:5000] + bytes([content[5000] ^ 8]) + content[5001:-16]
        cases = {
            b"": "ends", content[:-100]: "ends|truncated|bytes", changed + content[-16:]: "digest",
            changed + hashlib.sha256(changed).digest()[:16]: r"([02]\.weight|the graph): a coded stream",
            (GOLDEN / "v2/tiny.gbz").read_bytes(): "not made of an ONNX model",
            (GOLDEN / "containers/gguf.gbz").read_bytes(): "not made of an ONNX model",
            (GOLDEN / "containers/external.gbz").read_bytes(): "external data",
        }
        for bad, why in cases.items():
            (self.folder / "bad.gbz").write_bytes(bad)
            folder = tempfile.mkdtemp(dir=self.folder)
            done = subprocess.run([self.programs / "write_parts", self.folder / "bad.gbz", folder], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, os.listdir(folder)), (1, []))
            self.assertRegex(done.stderr, f"^write_parts: .*bad.gbz: .*({why})")


if __name__ == "__main__":
    unittest.main()
