"""--report: one page that says what --json says, whatever the names in it are, and asks nothing of the network.

GBCOMPRESS_SCREENSHOTS=DIR keeps pictures of the pages at two widths, to be looked at."""

import base64
import hashlib
import html.parser
import json
import math
import os
import re
import struct
import unittest

import browser
import harness
from harness import FAILED, INPUT, USAGE

PORTABLE = os.environ.get("GBCOMPRESS_PORTABLE") == "1"
PICTURES = os.environ.get("GBCOMPRESS_SCREENSHOTS")
HOSTILE = ["</script><script>document.title='owned'</script>", "<img src=x onerror=document.title='owned'>",
           "a\"'&amp;b", "\u202egpj.exe", "<!--", "\u2028\u2029", "]]>", "${1}`"]


class Parser(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.open:
            tag, attributes = self.open[-1]
            self.texts.setdefault((tag, attributes.get("id")), []).append(data)

    def text(self, tag, name=None):
        return "".join(self.texts[tag, name])


def page_of(text):
    return json.loads(Parser(text).text("script", "data"))


class Pages(harness.CliTest):
    def hostile(self):
        tensors = {name: ("F32", [4, 4], harness.floats(16, seed=i)) for i, name in enumerate(HOSTILE)}
        return self.write("<b>&'x.safetensors", harness.safetensors(tensors))

    def report(self, *arguments):
        """The page, and the verb's object; the page has names of files in place of paths."""
        path = self.path("page.html")
        found = self.succeed(*arguments, "--json", "-q", "--report", path, "--force").json
        text = self.read("page.html").decode()
        self.assertEqual(page_of(text)["result"], json.loads(json.dumps(found).replace(self.folder + "/", "")))
        self.assertNotIn(os.path.basename(self.folder), text)
        return text, found

    def test_a_page_holds_what_json_says(self):
        model, out = self.model(), self.path("x.gbz")
        text, _ = self.report("compress", model, "-o", out, "--ratio", "8")
        page = page_of(text)
        self.assertEqual(page["verb"], "compress")
        self.assertIn("--ratio 8", page["command"])
        self.assertEqual({h["name"] for h in page["histograms"]}, {"0.weight", "0.bias", "2.weight", "2.bias"})
        for h in page["histograms"]:
            self.assertEqual((len(h["file"]), len(h["original"])), (32, 32))
            self.assertEqual(max(h["file"] + h["original"]), 100)
        for command in (["inspect", out, "--against", model], ["inspect", out], ["inspect", model]):
            with self.subTest(command=command):
                self.assertEqual(page_of(self.report(*command)[0])["verb"], "inspect")

    def test_nothing_leaves_the_page_and_nothing_else_runs_in_it(self):
        text, _ = self.report("inspect", self.hostile())
        parsed = Parser(text)
        scripts = [a for tag, a in parsed.elements if tag == "script"]
        self.assertEqual([a.get("type") for a in scripts], ["application/json", None])
        for tag, attributes in parsed.elements:
            self.assertFalse({"src", "href", "style", "action"} & set(attributes), tag)
            self.assertFalse([name for name in attributes if name.startswith("on")], tag)
            self.assertNotIn(tag, ("img", "link", "iframe", "object", "base", "form"))
        self.assertEqual(re.findall(r"https?://[^\"]+", text), ["http://www.w3.org/2000/svg"])
        policy = next(a["content"] for tag, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        self.assertEqual(rules["default-src"], "'none'")
        self.assertEqual((rules["base-uri"], rules["form-action"]), ("'none'", "'none'"))
        for rule, tag in (("style-src", "style"), ("script-src", "script")):
            inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.S)[1]
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            self.assertEqual(rules[rule], f"'sha256-{digest}'")
        self.assertNotIn("unsafe", policy)

    def test_files_are_named_without_their_folders(self):
        os.makedirs(self.path("my secret project/runs"))
        names = {"encoder/w": ("F32", [8, 8], harness.floats(64)), "/conv/out": ("F32", [8, 8], harness.floats(64, seed=1))}
        model = self.write("my secret project/runs/m.safetensors", harness.safetensors(names))
        inside = "my secret project/runs/"
        commands = [["compress", model, "--ratio", "2", "-o", self.path(inside + "a.gbz")],
                    ["compress", inside + "m.safetensors", "--ratio=2", "-o", "./" + inside + "b.gbz"],
                    ["compress", "my secret project/../" + inside + "m.safetensors", "--ratio=2", f"--output={inside}/c.gbz"],
                    ["inspect", self.path(inside + "a.gbz"), "--against", model], ["inspect", inside + "m.safetensors"]]
        for command in commands:
            with self.subTest(command=command):
                page = self.path("page.html")
                self.succeed(*command, "--report", page, "--force", "-q")
                text = self.read("page.html").decode()
                found = page_of(text)
                for word in ("secret", "runs", os.path.basename(self.folder), "/tmp"):
                    self.assertNotIn(word, json.dumps(found))
                self.assertNotIn(self.folder, text)
                self.assertIn(found["subject"], ("m.safetensors", "a.gbz"))
                self.assertEqual({t["name"] for t in found["result"]["tensors"]}, set(names))
                self.assertTrue(found["command"].endswith("--report page.html --force -q"), found["command"])
        page = self.path("page.html")
        self.succeed(*commands[0], "--report", page, "--force", "-q")
        self.assertEqual(page_of(self.read("page.html").decode())["command"], "gbcompress compress m.safetensors --ratio 2 -o a.gbz "
                         "--report page.html --force -q")

    def test_the_words_of_a_page_are_the_fields(self):
        text, _ = self.report("compress", self.model(), "-o", self.path("x.gbz"), "--ratio", "8")
        for words in ("Asked", "without data nothing", "times smaller", "a number", "price of a bit", "Price of a bit",
                      "held-back", "lost most", "all told", "colour"):
            self.assertNotIn(words, text)
        for words in ("bits per weight", "x smaller", "Weight error", "relative squared error"):
            self.assertIn(words, text)

    def test_names_of_strangers_stay_names(self):
        model = self.hostile()
        for command in (["inspect", model], ["compress", model, "--ratio", "2", "-o", self.path("h.gbz")]):
            text, _ = self.report(*command)
            self.assertEqual(text.count("</script"), 2)
            self.assertNotIn("<img", text)
            self.assertEqual({t["name"] for t in page_of(text)["result"]["tensors"]}, set(HOSTILE))
            self.assertIn("<b>&'x.safetensors", Parser(text).text("title"))

    def test_a_thousand_tensors_take_less_than_a_megabyte(self):
        tensors = {f"encoder.layers.{i}.attention.self.query.weight": ("F32", [16, 16], harness.floats(256, seed=i))
                   for i in range(1000)}
        model = self.write("big.safetensors", harness.safetensors(tensors))
        text, _ = self.report("compress", model, "-o", self.path("big.gbz"), "--ratio", "6")
        self.assertEqual(len(page_of(text)["histograms"]), 1000)
        self.assertLess(len(text.encode()), 1_000_000)

    def test_a_hundred_thousand_tensors_are_shortened_and_counted(self):
        count = 100_000
        tensors = {f"t{i:06}": ("U8", [1 + (i % 50 == 0) * 9], b"x" * (1 + (i % 50 == 0) * 9)) for i in range(count)}
        path = self.path("page.html")
        self.succeed("inspect", self.write("many.safetensors", harness.safetensors(tensors)), "--report", path, "-q")
        page = page_of(self.read("page.html").decode())
        self.assertLess(os.path.getsize(path), 1_000_000)
        listed = page["result"]["tensors"]
        self.assertEqual(page["left_out"]["tensors"] + len(listed), count)
        self.assertEqual(page["left_out"]["bytes"] + sum(t["bytes"] for t in listed), sum(len(t[2]) for t in tensors.values()))
        self.assertGreaterEqual(sum(t["bytes"] == 10 for t in listed), 500)

    def test_values_that_are_no_numbers(self):
        values = [1.0, -2.0, math.nan, math.inf, -math.inf, 0.5]
        tensors = {"some": ("F32", [6], struct.pack("<6f", *values)), "none": ("F32", [2], struct.pack("<2f", math.nan, math.nan)),
                   "same": ("F32", [3], struct.pack("<3f", 7, 7, 7)), "whole": ("I64", [2], struct.pack("<2q", 1, 2))}
        text, _ = self.report("inspect", self.write("n.safetensors", harness.safetensors(tensors)))
        shown = {h["name"]: h for h in page_of(text)["histograms"]}
        self.assertEqual(set(shown), {"some", "same"})
        self.assertEqual((shown["some"]["not_finite"], shown["some"]["low"], shown["some"]["high"]), (3, -2, 1))
        self.assertEqual(sum(h > 0 for h in shown["some"]["file"]), 3)
        self.assertEqual(sum(h > 0 for h in shown["same"]["file"]), 1)

    def test_paths_that_cannot_be_written(self):
        model, there = self.model(), self.write("there.html", b"precious")
        os.mkdir(self.path("folder"))
        places = [(USAGE, there, "there.html exists; use --force"), (FAILED, self.path("folder"), "is a folder"),
                  (FAILED, self.path("none/x.html"), "its folder does not exist"), (USAGE, "", "--report needs the name"),
                  (USAGE, model, "is both an input and the output; name another output")]
        for status, place, pattern in places:
            for command in (["inspect", model], ["compress", model, "--ratio", "4", "-o", self.path("o.gbz")]):
                with self.subTest(place=place, verb=command[0]):
                    self.refused(status, pattern, *command, "--report", place)
        self.refused(USAGE, "--report names o.gbz, which -o names too", "compress", model, "-o", self.path("o.gbz"), "--ratio", "4",
                     "--report", "o.gbz")
        self.refused(USAGE, "--report contradicts --plan", "inspect", model, "--plan", "--report", self.path("p"))
        self.refused(INPUT, "none", "inspect", self.path("none"), "--report", self.path("p.html"))
        self.succeed("inspect", model, "--report", there, "--force", "-q")
        self.assertTrue(self.read("there.html").startswith(b"<!doctype html>"))

    @unittest.skipIf(PORTABLE, "this program was built without LibTorch")
    def test_runs_have_curves_and_sweeps_their_points(self):
        scratch = ["--from-scratch", "--arch", "mlp:64-16-10", "--data", "digits", "--epochs", "2"]
        text, found = self.report("compress", *scratch, "--max-bytes", "700", "-o", self.path("d.gbz"))
        page = page_of(text)
        curves = {(c["name"], c["run"]): c for c in page["curves"]}
        self.assertEqual({name for name, _ in curves}, {"loss", "bits", "lambda"})
        self.assertEqual(len({run for _, run in curves}), found["attempts"])
        for c in curves.values():
            self.assertEqual(len(c["x"]), len(c["y"]))
            self.assertGreater(len(c["x"]), 5)
            self.assertEqual(c["x"], sorted(c["x"]))
        self.assertEqual(len(page["attempts"]), found["attempts"])
        self.assertTrue(all(a["bytes"] > 0 and a["lambda"] > 0 for a in page["attempts"]))
        text, found = self.report("compress", *scratch, "--max-drop", "3", "-o", self.path("h.gbz"))
        lost = [a.get("held_out_drop") for a in page_of(text)["attempts"]]
        self.assertGreater(len(lost), 1)
        self.assertIsNone(lost[0], "what the others lose is beside it")
        self.assertTrue(all(map(math.isfinite, lost[1:])), lost)
        self.tells_what_was_lost()
        text, found = self.report("sweep", *scratch, "--lambdas", "0.3", "-o", self.path("curve"))
        self.assertGreater(len(found["points"]), 4)
        self.assertEqual(page_of(text)["settings"]["train"]["epochs"], 2)
        self.assertEqual(page_of(text)["versions"], page["versions"])
        text, found = self.report("eval", self.path("d.gbz"), "--data", "digits")
        self.assertEqual(len(page_of(text)["tensors"]), 4)
        self.tells_its_versions(page_of(text)["versions"])

    def tells_what_was_lost(self):
        pass

    def tells_its_versions(self, versions):
        """Those that `doctor` and `plugins list` say."""
        checks = {check["name"]: check["value"] for check in self.succeed("doctor", "--json").json["checks"]}
        self.assertTrue(checks["LibTorch"].endswith("library " + versions["LibTorch"]), checks["LibTorch"])
        self.assertEqual((checks["LibTorch's instructions"], checks["LibTorch's threads"]), (versions["processor"], str(versions["threads"])))
        for name, version in versions["plugins"].items():
            self.assertTrue(checks["plugin " + name].startswith(version + ", "), checks["plugin " + name])
        self.assertIn("linear", versions["plugins"])


class InTheBrowser(Pages):
    """The same pages, opened."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def report(self, *arguments):
        made = super().report(*arguments)
        self.opened("page.html", arguments[0])
        return made

    def tells_what_was_lost(self):
        heads = self.browser.run("[...document.querySelectorAll('svg')].map(s => s.getAttribute('aria-label')).join('|')")
        self.assertIn("Quality drop on the held-out split", heads)

    def tells_its_versions(self, versions):
        super().tells_its_versions(versions)
        self.assertIn(f"with LibTorch {versions['LibTorch']}, instructions {versions['processor']}, 1 thread; plugins: ",
                      self.browser.run("document.querySelector('main, body').textContent"))

    def opened(self, name, picture=None):
        for width, dark in ((1200, False), (390, True)):
            self.browser.problems.clear()
            self.browser.open(self.path(name), width, dark=dark)
            self.assertEqual(self.browser.run("document.documentElement.dataset.ready"), "yes", self.browser.problems)
            self.assertEqual(self.browser.problems, [])
            self.assertNotEqual(self.browser.run("document.title"), "owned")
            # Nothing is wider than the page but what scrolls by itself.
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
            if PICTURES and picture:
                self.browser.screenshot(os.path.join(PICTURES, f"{self._testMethodName}-{picture}-{width}.png"))

    def test_sorting_and_filtering(self):
        model, out = self.model(), self.path("x.gbz")
        _, found = self.report("compress", model, "-o", out, "--ratio", "8")
        names = "[...document.querySelectorAll('#tensors ~ .scroll tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent)"
        click = "[...document.querySelectorAll('#tensors ~ .scroll th button')].find(b => b.textContent === '%s').click()"
        worst = [t["name"] for t in sorted(found["tensors"], key=lambda t: -t["error"])]
        self.assertEqual(self.browser.run(names), worst)
        self.browser.run(click % "error")
        self.assertEqual(self.browser.run(names), worst[::-1])
        self.browser.run(click % "tensor")
        self.assertEqual(self.browser.run(names), sorted(worst, reverse=True))
        self.assertEqual(self.browser.run("document.querySelectorAll('#tensors ~ .scroll [aria-sort=descending]').length"), 1)
        self.browser.run("{const f = document.getElementById('filter'); f.value = 'BIAS'; f.dispatchEvent(new Event('input'))}")
        self.assertEqual(self.browser.run(names), ["2.bias", "0.bias"])
        self.assertEqual(self.browser.run("document.querySelector('[role=status]').textContent"), "2 of 4")

    def test_areas_are_bytes(self):
        model, out = self.model(), self.path("x.gbz")
        _, found = self.report("compress", model, "-o", out, "--ratio", "8")
        areas = self.browser.run("Object.fromEntries([...document.querySelectorAll('.map rect')].map(r => "
                                 "[r.textContent.split(':')[0], r.getAttribute('width') * r.getAttribute('height')]))")
        total = sum(t["bytes"] for t in found["tensors"])
        for tensor in found["tensors"]:
            self.assertAlmostEqual(areas[tensor["name"]] / sum(areas.values()), tensor["bytes"] / total, places=3)

    def test_everything_can_be_reached_and_is_named(self):
        text, _ = self.report("compress", self.model(), "-o", self.path("x.gbz"), "--ratio", "8")
        self.assertEqual(self.browser.run("document.documentElement.lang"), "en")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('svg')].filter(s => s.getAttribute('role') !== 'img' || "
                                          "!s.getAttribute('aria-label')).length"), 0)
        self.assertEqual(self.browser.run("[...document.querySelectorAll('input, select')].filter(i => !i.labels.length).length"), 0)
        self.assertEqual(self.browser.run("[...document.querySelectorAll('h1, h2, h3')].filter(h => !h.textContent).length"), 0)
        self.assertGreater(self.browser.run("[...document.querySelectorAll('button, input, summary, [tabindex]')].length"), 8)
        # On paper everything is there: no table scrolls, settings are open.
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        self.browser.run("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('.scroll')].filter(s => s.scrollHeight > s.clientHeight + 1).length"), 0)
        self.assertEqual(self.browser.run("document.querySelectorAll('details:not([open])').length"), 0)
        self.browser.call("Emulation.setEmulatedMedia", media="")


if __name__ == "__main__":
    harness.main()
