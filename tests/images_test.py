"""The pictures of docs/images: each is what its script draws from the committed records, has its text inside, and is shown on a
page with a text for readers who do not see it."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
FOLDER = ROOT / "tests/images"
sys.path.insert(0, str(FOLDER))
PROGRAM = os.environ.get("GBCOMPRESS")
SHORTEST = 60  # characters of the text in place of a picture
WIDE, WIDE_MONO = 0.54, 0.62  # of a character, in heights of the font


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(FOLDER / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def pages(root):
    return [*sorted((root / "docs").rglob("*.md")), *root.glob("*.md"), *root.glob("sdk/*/*.md")]


def not_shown(root):
    """(picture, reason) of those that no page shows, or that a page shows with a short text."""
    texts = {}
    for page in pages(root):
        for text, link in re.findall(r"!\[([^]]*)\]\(([^)\s]+)\)", page.read_text()):
            texts.setdefault((page.parent / link).resolve(), []).append((page.relative_to(root), text))
    for path in sorted((root / "docs/images").iterdir()):
        shown = texts.get(path.resolve(), [])
        if not shown:
            yield path.name, "no page shows it"
        for page, text in shown:
            if len(text) < SHORTEST:
                yield path.name, f"{page} does not say what is seen: {text!r}"


def texts_outside(svg):
    """Texts that go beyond the sides of a picture, by a bound of their widths."""
    tree = xml.etree.ElementTree.fromstring(svg)
    _, _, width, height = map(float, tree.get("viewBox").split())
    for each in tree.iter("{http://www.w3.org/2000/svg}text"):
        if each.get("transform"):
            continue
        size, text = float(each.get("font-size", tree.get("font-size"))), each.text or ""
        length = len(text) * size * (WIDE_MONO if each.get("font-family") else WIDE)
        left = float(each.get("x")) - length * {"start": 0, "middle": 0.5, "end": 1}[each.get("text-anchor", "start")]
        if left < 0 or left + length > width or not size <= float(each.get("y")) <= height - 4:
            yield text


def chunks(png):
    """(name, content) of the parts of a PNG file."""
    at = 8
    while at < len(png):
        size, name = struct.unpack(">I4s", png[at:at + 8])
        yield name, png[at + 8:at + 8 + size]
        at += size + 12


class Pictures(unittest.TestCase):
    def check(self, *arguments):
        done = subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_they_are_what_the_scripts_draw(self):
        self.check(FOLDER / "draw", "--check")
        self.check(ROOT / "tests/bench/language_picture.py", "--check")
        self.check(ROOT / "tests/bench/experiment_pictures.py", "--check")

    def test_another_picture_is_found(self):
        draw = script("draw")
        with tempfile.TemporaryDirectory() as folder:
            draw.IMAGES = Path(folder)
            sys.argv = ["draw", "trellis", "gnet"]
            self.assertEqual(draw.main(), 0)
            sys.argv = ["draw", "--check", "trellis", "gnet"]
            self.assertEqual(draw.main(), 0)
            path = Path(folder) / "gnet.svg"
            path.write_text(path.read_text().replace("513", "514"))
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(draw.main(), 1)
            self.assertIn("run tests/images/draw gnet", said.getvalue())

    def test_the_report_is_of_the_present_page(self):
        content, report = (IMAGES / "report.png").read_bytes(), script("report")
        self.assertLessEqual(len(content), report.MOST)
        kept = dict(each.split(b"\0", 1) for name, each in chunks(content) if name == b"tEXt")
        self.assertEqual(kept[report.KEY.encode()].decode(), report.source(),
                         "docs/images/report.png shows an earlier page; run .deps/venv/bin/python tests/images/report")

    def test_texts_are_inside(self):
        for path in sorted(IMAGES.glob("*.svg")):
            with self.subTest(picture=path.name):
                self.assertEqual(list(texts_outside(path.read_text())), [])

    def test_a_text_outside_is_found(self):
        from drawing import Drawing
        picture = Drawing("", 100, 50)
        for x, y, text in ((10, 20, "inside"), (80, 20, "too long"), (10, 60, "below")):
            picture.text(x, y, text)
        self.assertEqual(list(texts_outside(picture.svg())), ["too long", "below"])

    def test_every_picture_is_shown_with_a_text(self):
        self.assertEqual(list(not_shown(ROOT)), [])

    def test_pictures_without_a_page_or_a_text_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs/images").mkdir(parents=True)
            for name in ("alone", "short", "good"):
                (root / f"docs/images/{name}.svg").touch()
            (root / "docs/a.md").write_text(f"![short](images/short.svg)\n![{'what is seen ' * 9}](images/good.svg)\n[alone](images/alone.svg)")
            self.assertEqual([name for name, _ in not_shown(root)], ["alone.svg", "short.svg"])


class Content(unittest.TestCase):
    def test_the_states_are_those_of_the_header_but_for_their_number(self):
        import trellis
        header = (ROOT / "core/src/codec/trellis/quantizer_state.h").read_text()
        self.assertIn("return state >> 1 ^ (state & 1 ? kFeedback : 0) ^ (parity ? kParity : 0);", header)
        self.assertIn("return 2 * integer - static_cast<std::int32_t>(quantizer()) * ((integer > 0) - (integer < 0));", header)
        # Each state is reached from two states of one quantizer, with both parities.
        for to in range(trellis.STATES):
            ways = [(state, odd) for state in range(trellis.STATES) for odd in (0, 1) if trellis.after(state, odd) == to]
            self.assertEqual(([odd for _, odd in sorted(ways, key=lambda way: way[1])], len({state & 1 for state, _ in ways})), ([0, 1], 1))

    def test_the_path_has_the_least_error_of_all(self):
        import itertools

        import trellis
        values = (0.62, -1.31, 2.27, 0.18, -0.74, 1.58)

        def error(integers):
            state = total = 0
            for value, k in zip(values, integers):
                total += (value - trellis.value_of(state & 1, k)) ** 2
                state = trellis.after(state, k & 1)
            return total

        every = itertools.product(*([k for k in range(-3, 5) if abs(k - value) < 2] for value in values))
        self.assertAlmostEqual(error(trellis.best_path(values)[0]), min(map(error, every)))

    def test_commands_of_the_flowchart_have_flags_that_exist(self):
        import methods
        flags = set(re.findall(r'(?:add|add_options\(\))\("([a-z-]+)', "".join(path.read_text() for path in (ROOT / "cli").rglob("*.cpp"))))
        for _, _, command, _ in methods.METHODS:
            with self.subTest(command=command):
                self.assertEqual(command.split()[:2], ["gbcompress", "compress"])
                self.assertEqual(set(re.findall(r"--([a-z-]+)", command)) - flags, set())

    def test_the_page_of_the_format_names_the_sizes_of_the_record(self):
        import layout
        page = (ROOT / "docs/reference/artifact-format.md").read_text()
        for parts in layout.sizes(layout.json.loads(layout.RECORD.read_text())).values():
            for size in (sum(parts.values()), max(parts.values())):
                self.assertIn(f"{size:,}", page)

    @unittest.skipUnless(PROGRAM, "GBCOMPRESS does not name the program")
    def test_the_sizes_are_those_of_the_files(self):
        measure = script("measure")
        self.assertEqual(measure.json.loads(measure.RECORD.read_text())["figures"], measure.measured(PROGRAM))


if __name__ == "__main__":
    unittest.main(verbosity=2)
