"""gbz.mjs and samples/06_browser in headless Chromium, served by a server of this file's own.

GBC_WEB: what scripts/web built. GBC_LARGE: what make_large.py made. GBCOMPRESS_SCREENSHOTS=DIR keeps pictures of the page.
"""
import hashlib
import http.server
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import browser

GOLDEN, WEB, LARGE = ROOT / "tests/golden", pathlib.Path(os.environ["GBC_WEB"]), pathlib.Path(os.environ["GBC_LARGE"])
FOLDERS = {"golden": GOLDEN, "large": LARGE}
PICTURES = os.environ.get("GBCOMPRESS_SCREENSHOTS")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
         ".wasm": "application/wasm"}
MOST_SECONDS = 60
#: Tensors of half a terabyte and more: a 32-bit decoder refuses the size before it looks at the bytes.
OTHER_VERDICTS = {"originals_no_zstd": "ok", "planes_of_a_terabyte": "memory", "section_zstd_bomb": "memory"}


class Handler(http.server.BaseHTTPRequestHandler):
    """/FILE of the page; /golden/FILE and /large/FILE; before it /whole: no ranges, /cut: half of the bytes."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        words = self.path.split("?")[0].strip("/").split("/")
        fault = words.pop(0) if words[0] in ("whole", "cut") else ""
        folder = FOLDERS.get(words[0])
        path = folder.joinpath(*words[1:]) if folder else WEB / "demo" / (words[0] or "index.html")
        if not path.is_file():
            return self.send_error(404)
        content, status = path.read_bytes(), 200
        total = len(content)
        headers = {"Content-Type": TYPES.get(path.suffix, "application/octet-stream"), "ETag": f'"{total}"'}
        ranged = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if not fault else None
        if ranged:
            first, last = int(ranged[1]), min(int(ranged[2]), total - 1)
            content, status = content[first:last + 1], 206
            headers["Content-Range"] = f"bytes {first}-{last}/{total}"
        self.send_response(status)
        for name, value in (*headers.items(), ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[:total // 2] if fault == "cut" else content)
        self.close_connection = fault == "cut"
        return None

    def log_message(self, *_):
        pass


DIGESTS = """
const hex = async (v) => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", v)), (b) => b.toString(16).padStart(2, "0")).join("");
const digests = async (tensors) => Object.fromEntries(await Promise.all(Array.from(tensors, async ([n, v]) => [n, await hex(v)])));
const bytes = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
const gbz = await import("/gbz.mjs");
"""


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.server.daemon_threads = True
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.origin = f"http://127.0.0.1:{cls.server.server_address[1]}"
        try:
            cls.browser = browser.Browser(timeout=240, origin=cls.origin)
        except unittest.SkipTest:
            cls.server.shutdown()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.shutdown()

    def setUp(self):
        self.show()
        self.browser.problems.clear()

    def show(self, **more):
        self.browser.open(self.origin + "/", **more)
        self.wait("document.body.dataset.ready === 'yes'")

    def script(self, text):
        return self.browser.run("(async () => {" + DIGESTS + text + "})()")

    def text(self, name):
        return self.browser.run(f"document.getElementById('{name}').textContent")

    def wait(self, condition):
        end = time.monotonic() + MOST_SECONDS
        while not self.browser.run(condition):
            self.assertLess(time.monotonic(), end, f"{condition}; error: {self.text('error')}; status: {self.text('status')}")
            time.sleep(0.05)

    def load(self, address):
        self.browser.run(f"document.getElementById('url').value = {json.dumps(address)}; document.querySelector('#fetch button').click()")
        self.wait("!document.body.hasAttribute('aria-busy')")

    # The module.

    def test_every_tensor_has_its_recorded_digest(self):
        expected = json.loads((GOLDEN / "v2/digests.json").read_text())
        found = self.script(f"""
          const found = {{}};
          for (const name of {json.dumps(list(expected))})
            found[name] = await digests(await gbz.decode(await bytes(`/golden/v2/${{name}}.gbz`)));
          return found;""")
        self.assertEqual(found, expected)
        self.assertEqual(self.browser.problems, [])

    def test_the_form_with_a_file_of_webassembly_decodes_the_same(self):
        expected = json.loads((GOLDEN / "v2/digests.json").read_text())
        names = ["coded_lanes", "exact_lanes", "coded_small", "tiny"]
        found = self.script(f"""
          const other = await import("/gbz-wasm.mjs"), found = {{}};
          for (const name of {json.dumps(names)}) found[name] = await digests(await other.decode(await bytes(`/golden/v2/${{name}}.gbz`)));
          return found;""")
        self.assertEqual(found, {name: expected[name] for name in names})
        large = self.script("""
          const other = await import("/gbz-wasm.mjs");
          return await digests(await (await other.open("/large/large.gbz")).readAll({ workers: 2 }));""")
        self.assertEqual(large, json.loads((LARGE / "large.json").read_text()))
        self.assertEqual(self.browser.problems, [])

    def test_every_damaged_file_has_its_recorded_verdict(self):
        expected = json.loads((GOLDEN / "errors/codes.json").read_text()) | OTHER_VERDICTS
        found = self.script(f"""
          const found = {{}};
          for (const name of {json.dumps(list(expected))})
            try {{ await gbz.decode(await bytes(`/golden/errors/${{name}}.gbz`)); found[name] = "ok"; }}
            catch (error) {{ found[name] = error.status ?? String(error); }}
          return found;""")
        self.assertEqual(found, expected)

    def test_the_large_model_is_that_of_expand(self):
        expected = json.loads((LARGE / "large.json").read_text())
        found = self.script("""
          const data = await bytes("/large/large.gbz"), results = {};
          const timed = async (name, body) => { const t = performance.now(), v = await body(); results[name] = [performance.now() - t, await digests(v)]; };
          await timed("memory", () => gbz.decode(data));
          const file = await gbz.open(data);
          await timed("workers", () => file.readAll({ workers: 2 }));
          await timed("ranges", async () => (await gbz.open("/large/large.gbz")).readAll({ workers: 1 }));
          await timed("one stream", async () => (await gbz.open("/whole/large/large.gbz")).readAll({ workers: 1 }));
          const streamed = [];
          for await (const tensor of gbz.stream("/whole/large/large.gbz")) streamed.push(tensor);
          await timed("stream", () => streamed);
          return results;""")
        for name, (milliseconds, digests) in found.items():
            print(f"{name}: {milliseconds:.0f} ms")
            self.assertEqual(digests, expected, name)
        self.assertEqual(self.browser.problems, [])

    def test_a_page_that_may_not_start_workers_decodes_itself(self):
        expected = json.loads((LARGE / "large.json").read_text())
        found = self.script("""
          globalThis.Worker = class { constructor() { throw new Error("refused"); } };
          return digests(await (await gbz.open("/large/large.gbz")).readAll({ workers: 2 }));""")
        self.assertEqual(found, expected)

    def test_a_truncated_download_is_an_error(self):
        found = self.script("""
          try { await gbz.open("/cut/large/large.gbz"); } catch (error) { return [error.name, error.status]; }""")
        self.assertEqual(found, ["GbzError", "truncated"])

    def test_memory_stays_bounded(self):
        used = []
        for _ in range(2):
            self.script("""
              const good = await bytes("/golden/v2/coded_lanes.gbz"), bad = await bytes("/golden/errors/stream_cut.gbz");
              for (let i = 0; i < 200; ++i) {
                await gbz.decode(good);
                try { await gbz.decode(bad); } catch {}
                if (i % 20 === 0) await new Promise((done) => setTimeout(done, 1));
              }""")
            self.browser.call("HeapProfiler.collectGarbage")
            heap = self.browser.call("Runtime.getHeapUsage")
            used.append(heap["usedSize"] + heap.get("backingStorageSize", 0))
        self.assertLess(used[1] - used[0], 30e6)

    # The page.

    def test_the_page_shows_tensors_and_a_histogram(self):
        self.load("large/large.gbz")
        self.assertEqual(self.text("error"), "")
        self.assertEqual(self.browser.run("document.querySelectorAll('#rows tr').length"), 6)
        self.assertIn("6 tensors", self.text("status"))
        self.browser.run("document.querySelector('#rows button').click()")
        self.wait("document.querySelectorAll('#histogram rect').length === 64")
        self.assertRegex(self.text("caption"), r"^\S+: 2,304,000 values from -0\.\d+ to 0\.\d+, mean .*, standard deviation 0\.0[45]")
        self.assertEqual(self.browser.run("document.querySelector('#rows button').getAttribute('aria-pressed')"), "true")
        self.assertTrue(self.browser.run("document.getElementById('onnx').hidden"))
        self.assertEqual(self.browser.problems, [])

    def test_a_damaged_file_is_a_sentence(self):
        self.load("golden/errors/flipped_bit_in_section.gbz")
        self.assertIn("damaged", self.text("error"))
        self.load("golden/errors/version_newer.gbz")
        self.assertIn("upgrade", self.text("error"))
        self.load("golden/none.gbz")
        self.assertIn("404", self.text("error"))
        self.assertTrue(self.browser.run("document.getElementById('found').hidden"))

    def test_an_address_that_is_none_is_a_sentence(self):
        self.load("http://[")
        self.assertIn("URL", self.text("error"))
        self.assertEqual(self.browser.problems, [])

    def test_values_that_are_not_finite_have_no_histogram(self):
        self.load("large/odd.gbz")
        self.browser.run("[...document.querySelectorAll('#rows button')].find((b) => b.textContent === 'nan').click()")
        self.wait("document.getElementById('caption').textContent.startsWith('nan: ')")
        self.assertIn("none of them finite", self.text("caption"))
        self.assertEqual(self.browser.run("document.querySelectorAll('#histogram rect').length"), 0)
        self.assertEqual(self.browser.problems, [])

    def test_a_download_holds_tensors_of_every_name(self):
        header = self.script("""
          const { safetensors } = await import("/tensors.js"), file = await gbz.open("/large/odd.gbz"), values = await file.readAll();
          const [head] = safetensors([...file.tensors.values()].map((tensor) => [tensor, values.get(tensor.name)]));
          return new TextDecoder().decode(head.subarray(8));""")
        self.assertEqual(sorted(json.loads(header)), ["__proto__", "nan"])

    def test_downloads_hold_what_expand_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
            for given, button, made in (("large/large.gbz", "safetensors", "large.safetensors"), ("large/model.onnx.gbz", "onnx", "model.onnx.onnx")):
                self.load(given)
                self.browser.run(f"document.getElementById('{button}').click()")
                self.wait("document.getElementById('status').textContent.endsWith('is ready')")
                path, end = pathlib.Path(folder, made), time.monotonic() + MOST_SECONDS
                while not path.exists():
                    self.assertLess(time.monotonic(), end, os.listdir(folder))
                    time.sleep(0.1)
                content = path.read_bytes()
                if button == "onnx":
                    self.assertEqual(content, (LARGE / "expanded.onnx").read_bytes())
                    continue
                size, = struct.unpack("<Q", content[:8])
                found = {name: hashlib.sha256(content[8 + size + at["data_offsets"][0]:8 + size + at["data_offsets"][1]]).hexdigest()
                         for name, at in json.loads(content[8:8 + size]).items()}
                self.assertEqual(found, json.loads((LARGE / "large.json").read_text()))
        self.assertEqual(self.browser.problems, [])

    def press(self, key, code, text=None):
        given = {"key": key, "code": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", **given)
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def test_a_keyboard_is_enough(self):
        self.load("large/model.onnx.gbz")
        self.browser.run("document.activeElement.blur(); window.focus()")
        reached = []
        for _ in range(14):
            self.press("Tab", 9)
            reached.append(self.browser.run("document.activeElement.id || document.activeElement.textContent.trim()"))
            if reached[-1] == "w":
                break
        self.assertEqual([name for name in reached if name in ("file", "url", "Load", "safetensors", "onnx", "w")],
                         ["file", "url", "Load", "safetensors", "onnx", "w"], reached)
        self.press("Enter", 13, "\r")
        self.wait("document.querySelectorAll('#histogram rect').length === 64")
        outline = self.browser.run("getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")

    def test_a_screen_reader_finds_names(self):
        self.load("large/model.onnx.gbz")
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        named = {}
        for node in nodes:
            if not node.get("ignored"):
                named.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
        for role in ("button", "textbox", "heading", "columnheader", "rowheader", "region"):
            self.assertTrue(named.get(role), f"no {role}: {sorted(named)}")
            self.assertNotIn("", named[role], role)
        self.assertIn("Download ONNX", named["button"])
        self.assertTrue({"status", "alert"} & set(named))
        self.assertEqual(self.browser.run("document.documentElement.lang"), "en")

    def test_the_page_fits_both_widths_and_colors(self):
        for width in (390, 1200):
            for dark in (False, True):
                self.show(width=width, height=900, dark=dark)
                self.load("large/large.gbz")
                self.browser.run("document.querySelectorAll('#rows button')[1].click()")
                self.wait("document.querySelectorAll('#histogram rect').length === 64")
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                paper, ink = self.browser.run("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
                self.assertEqual(int(re.search(r"\d+", paper)[0]) < int(re.search(r"\d+", ink)[0]), dark, (paper, ink))
                if PICTURES:
                    self.browser.screenshot(os.path.join(PICTURES, f"page-{width}-{'dark' if dark else 'light'}.png"))
                    self.load("golden/errors/flipped_bit_in_section.gbz")
                    self.browser.screenshot(os.path.join(PICTURES, f"error-{width}-{'dark' if dark else 'light'}.png"))
        self.assertEqual(self.browser.problems, [])


if __name__ == "__main__":
    unittest.main()
