"""Sessions of ONNX models from .gbz files: samples/10_onnx_page in headless Chromium and in Node.js with the sample's stub of
onnxruntime-web, and what decodeOnnxParts() gives in Python's onnxruntime.

GBC_WEB: what scripts/web built. GBCOMPRESS: the program.
"""
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import numpy as np
    import onnx
    import onnxruntime
    import safetensors  # noqa: F401  make_model.py needs it
except ImportError as error:
    print(f"skipped: {error}; run scripts/setup --tests")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import browser

WEB, PROGRAM = pathlib.Path(os.environ["GBC_WEB"]), os.environ["GBCOMPRESS"]
SAMPLE, DIGITS, GOLDEN = ROOT / "samples/10_onnx_page", ROOT / "samples/digits", ROOT / "tests/golden"
CPU = ["CPUExecutionProvider"]
MOST_SECONDS = 60


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


def pixels():
    return np.frombuffer((DIGITS / "test-images-idx3-ubyte").read_bytes()[16:], np.uint8).reshape(-1, 64)


def images():
    return pixels().astype(np.float32) / np.float32(16)


def logits(path):
    return onnxruntime.InferenceSession(path, providers=CPU).run(None, {"images": images()})[0]


def signed(content):
    """The file with the digest of its changed bytes."""
    return content[:-16] + hashlib.sha256(content[:-16]).digest()[:16]


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
                      "": "application/octet-stream"}

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")  # a test changes a file
        super().end_headers()

    def log_message(self, *_):
        pass


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.page = pathlib.Path(cls.folder.name, "page")
        shutil.copytree(SAMPLE, cls.page)
        for path in (*WEB.glob("*.mjs"), *DIGITS.glob("test-*")):
            shutil.copy(path, cls.page)
        cls.model, cls.expanded, cls.original = (cls.page / name for name in ("digits.onnx.gbz", "expanded.onnx", "digits.onnx"))
        run(sys.executable, "-B", SAMPLE / "make_model.py", cls.original)
        run(PROGRAM, "compress", cls.original, "--ratio", "4", "-o", cls.model, "-q")
        run(PROGRAM, "expand", cls.model, "-o", cls.expanded)
        cls.expected = logits(cls.expanded)


class Node(Case):
    def node(self, model, *words):
        command = ["node", pathlib.Path(__file__).with_name("onnx_parts.mjs"), self.page, model, *words]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)

    def refused(self, content):
        """Why a session of such a file is refused: status and sentence."""
        path = self.page / "bad.gbz"
        path.write_bytes(content)
        done = self.node(path, DIGITS / "test-labels-idx1-ubyte", self.page / "none")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertFalse((self.page / "none").exists())
        return done.stderr

    def test_a_session_computes_what_onnxruntime_does(self):
        given, found = self.page / "images", self.page / "logits"
        given.write_bytes(images().tobytes())
        done = self.node(self.model, given, found)
        self.assertEqual(done.returncode, 0, done.stderr)
        values = np.fromfile(found, np.float32).reshape(-1, 10)
        np.testing.assert_allclose(values, self.expected, rtol=1e-4, atol=1e-4)
        self.assertGreater(np.abs(logits(self.original) - self.expected).max(), 0.01)  # other weights are told apart

    def test_onnxruntime_loads_the_parts(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        done = self.node(self.model, folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        self.assertEqual({name: size for name, size in sizes.items() if name != "model.onnx"},
                         {"gbcompress-0": 4 * 64 * 128, "gbcompress-1": 4 * 128 * 64})
        self.assertLess(sizes["model.onnx"], self.expanded.stat().st_size - 2 * 4 * 64 * 128 + 300)
        self.assertEqual(logits(folder / "model.onnx").tobytes(), self.expected.tobytes())
        found, whole = onnx.load(folder / "model.onnx"), onnx.load(self.expanded)
        for now, then in zip(found.graph.initializer, whole.graph.initializer, strict=True):
            self.assertEqual((now.name, now.dims, now.raw_data), (then.name, then.dims, then.raw_data))
        found.graph.ClearField("initializer")
        whole.graph.ClearField("initializer")
        self.assertEqual(found, whole)

    def test_damaged_files_are_refused(self):
        content = self.model.read_bytes()
        for at in range(40, len(content), len(content) // 25):
            changed = content[:at] + bytes([content[at] ^ 8]) + content[at + 1:]
            self.assertRegex(self.refused(changed), "^(corrupt|truncated|unsupported): .*")
        self.assertRegex(self.refused(content[:-100]), "^truncated: ")

    def test_damage_under_a_valid_digest_names_the_tensor_or_the_graph(self):
        content, named = self.model.read_bytes(), set()
        for at in range(len(content) // 10, len(content) - 16, len(content) // 25):
            changed = signed(content[:at] + bytes([content[at] ^ 8]) + content[at + 1:])
            found = re.match(r"(?:corrupt|truncated): (?:the file: )?([024]\.weight|[024]\.bias|the graph)\b", self.refused(changed))
            self.assertTrue(found, at)
            named.add(found[1])
        self.assertTrue(named & {"0.weight", "2.weight"}, named)  # which have one stream

    def test_files_without_a_model_are_refused(self):
        for name in ("v2/tiny.gbz", "containers/gguf.gbz"):
            self.assertRegex(self.refused((GOLDEN / name).read_bytes()), "^usage: .*not made of an ONNX model")
        self.assertRegex(self.refused((GOLDEN / "containers/external.gbz").read_bytes()), "^unsupported: .*external data")
        plugin = (GOLDEN / "v2/deep_fp32.gbz").read_bytes()
        self.assertIn(b"attention", plugin)
        self.assertRegex(self.refused(signed(plugin.replace(b"attention", b"circulant", 1))), "^(usage|unsupported): ")


class Page(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *words: Handler(*words, directory=str(cls.page)))
        cls.server.daemon_threads = True
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.shutdown)
        cls.origin = f"http://127.0.0.1:{cls.server.server_address[1]}"
        cls.browser = browser.Browser(timeout=240, origin=cls.origin)
        cls.addClassCleanup(cls.browser.close)

    def show(self, address):
        self.browser.open(self.origin + address)
        end = time.monotonic() + MOST_SECONDS
        while not self.browser.run("document.body.dataset.ready === 'yes'"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def text(self, name):
        return self.browser.run(f"document.getElementById('{name}').textContent")

    def test_a_session_in_the_page_computes_what_onnxruntime_does(self):
        self.show("/?runtime=ort_stub.mjs")
        found = self.browser.run("""(async () => {
          const ort = await import("/ort_stub.mjs"), { openSession } = await import("/session.js");
          const session = await openSession(ort, "/digits.onnx.gbz");
          const pixels = new Uint8Array(await (await fetch("/test-images-idx3-ubyte")).arrayBuffer()).subarray(16);
          const images = new ort.Tensor("float32", Float32Array.from(pixels, (pixel) => pixel / 16), [pixels.length / 64, 64]);
          return Array.from((await session.run({ images })).logits.data);
        })()""")
        np.testing.assert_allclose(np.reshape(found, (-1, 10)), self.expected, rtol=1e-4, atol=1e-4)

    def test_the_page_shows_the_predictions(self):
        self.browser.problems.clear()
        self.show("/?runtime=ort_stub.mjs")
        self.assertEqual(self.text("error"), "")
        self.assertIn("stub", self.text("runtime"))
        labels = np.frombuffer((DIGITS / "test-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
        classes = self.expected.argmax(1)
        self.assertEqual(self.text("status"), f"{(classes == labels).sum()} of 360 digits are classified correctly")
        shown = json.loads(self.browser.run(
            "JSON.stringify([...document.querySelectorAll('figcaption')].map((each) => each.textContent))"))
        self.assertEqual([int(each.split(",")[0]) for each in shown], classes[:40].tolist())
        self.assertEqual(self.browser.problems, [])
        if os.environ.get("GBCOMPRESS_SCREENSHOTS"):
            self.browser.screenshot(os.path.join(os.environ["GBCOMPRESS_SCREENSHOTS"], "onnx-page.png"))

    def test_a_damaged_file_is_a_sentence(self):
        content = self.model.read_bytes()
        try:
            self.model.write_bytes(content[:900] + bytes([content[900] ^ 8]) + content[901:])
            self.show("/?runtime=ort_stub.mjs&again")
        finally:
            self.model.write_bytes(content)
        self.assertRegex(self.text("error"), "damaged|digest|corrupt")
        self.assertEqual((self.text("status"), self.browser.run("document.querySelectorAll('figure').length")), ("", 0))


if __name__ == "__main__":
    unittest.main()
