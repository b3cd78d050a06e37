"""The documentation: scripts/docs builds its site without a network and without a warning; no link of it is dead, and
its pages load nothing from elsewhere. Pages keep the limits that CONTRIBUTING.md names. Ten random paragraphs are
printed, to be read against the style that it asks for (GBC_DOCS_SEED=N: others)."""
import html.parser
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDERS = ("tutorials", "guides", "reference", "explanation", "research", "results")
LONGEST = 200  # lines of a page
LONGEST_OF = {"docs/results/index.md": 150, "README.md": 120}
SEED = int(os.environ.get("GBC_DOCS_SEED", "20261123"))


def pages():
    return sorted(DOCS.rglob("*.md"))


class Page(html.parser.HTMLParser):
    """Names that can be linked to, links, and what a browser loads by itself."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links, self.loads = {""}, [], []
        self.feed(path.read_text(errors="replace"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in ("canonical", "prev", "next"):
            return
        for key in ("src", "href") if tag != "a" else ():
            if values.get(key):
                self.loads.append(values[key])


def dead_links(site):
    """(page, link) of links that lead nowhere in the site, and of everything that is loaded from outside it."""
    parsed = {path: Page(path) for path in site.rglob("*.html")}
    dead = []
    for path, page in parsed.items():
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https", "mailto") or parts.netloc:
                if link in page.loads or parts.scheme == "":
                    dead.append((path, link))
                continue
            if parts.scheme:
                continue  # javascript:, data:
            base = site if parts.path.startswith("/") else path.parent
            target = Path(os.path.normpath(base / urllib.parse.unquote(parts.path.lstrip("/")))) if parts.path else path
            if target.is_dir():
                target /= "index.html"
            name = urllib.parse.unquote(parts.fragment)
            if path.name == "404.html":
                continue  # served for any path, its links are those of the server's root
            if name == "nested-classes" and "cpp" in path.parts:
                continue  # Doxygen 1.9.4 links to a heading that it leaves out
            if not target.is_file() or (target in parsed and name not in parsed[target].names and not name.startswith("__")):
                dead.append((path, link))
    return [(str(path.relative_to(site)), link) for path, link in dead]


class Site(unittest.TestCase):
    def test_builds_offline_without_a_warning_or_a_dead_link(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [ROOT / "scripts/docs", folder]
            if shutil.which("unshare") and subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0:
                command = ["unshare", "-rn", *command]
            else:
                print("docs: the site is built with the network in reach; unshare cannot take it away here")
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 77:
                self.skipTest(done.stderr.strip())
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            site = Path(folder) / "site"
            self.assertGreater(len(list(site.rglob("*.html"))), 300)
            self.assertEqual(dead_links(site), [])

    def test_a_dead_link_and_a_request_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder)
            (site / "a.html").write_text('<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
                                         '<script src="https://elsewhere.example/x.js"></script>'
                                         '<a href="https://elsewhere.example">4</a>')
            (site / "b.html").write_text('<h1 id="there">b</h1>')
            self.assertEqual(dead_links(site), [("a.html", "b.html#gone"), ("a.html", "c.html"),
                                                ("a.html", "https://elsewhere.example/x.js")])


def too_long(root):
    """(page, lines, limit) of pages with more lines than they may have."""
    for page in [*sorted((root / "docs").rglob("*.md")), root / "README.md"]:
        name = page.relative_to(root).as_posix()
        lines, limit = len(page.read_text().splitlines()), LONGEST_OF.get(name, LONGEST)
        if lines > limit:
            yield name, lines, limit


def not_in_navigation(root):
    """Pages without an entry in mkdocs.yml, and entries without a page; decisions (adr/) are listed by a page of theirs."""
    navigation = (root / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    entries = re.findall(r"(?m)^ *- (?:[^:\n]+: )?([\w/-]+\.md)$", navigation)
    there = {page.relative_to(root / "docs").as_posix() for page in (root / "docs").rglob("*.md") if "adr" not in page.parts}
    # scripts/docs_hooks.py brings those of project/ from the root.
    return sorted(there ^ {entry for entry in entries if not entry.startswith("project/")})


class Pages(unittest.TestCase):
    def test_pages_are_short(self):
        self.assertEqual(list(too_long(ROOT)), [])

    def test_every_page_is_in_the_navigation_once(self):
        self.assertEqual(not_in_navigation(ROOT), [])

    def test_long_and_unlisted_pages_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs/results").mkdir(parents=True)
            (root / "docs/a.md").write_text("line\n" * 200)
            (root / "docs/b.md").write_text("line\n" * 201)
            (root / "docs/results/index.md").write_text("line\n" * 151)
            (root / "README.md").write_text("line\n" * 121)
            (root / "mkdocs.yml").write_text("site_name: a\nnav:\n  - A: a.md\n  - results/index.md\n  - C: c.md\n")
            self.assertEqual(list(too_long(root)), [("docs/b.md", 201, 200), ("docs/results/index.md", 151, 150),
                                                    ("README.md", 121, 120)])
            self.assertEqual(not_in_navigation(root), ["b.md", "c.md"])

    def test_every_decision_is_listed(self):
        listing = "".join(page.read_text() for page in (DOCS / "explanation").glob("*.md"))
        for page in (DOCS / "explanation/adr").glob("*.md"):
            self.assertIn(f"(adr/{page.name}", listing)

    def test_every_folder_has_an_index_that_names_its_pages(self):
        for folder in FOLDERS:
            index = (DOCS / folder / "index.md").read_text()
            for page in (DOCS / folder).glob("*.md"):
                if page.name != "index.md":
                    with self.subTest(page=str(page)):
                        self.assertIn(f"({page.name}", index)

    def test_links_of_markdown_lead_to_files(self):
        for page in [*pages(), *ROOT.glob("*.md"), *ROOT.glob("plugins/*/*.md"), *ROOT.glob("sdk/**/*.md")]:
            text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
            for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", text):
                if re.match(r"[a-z]+:", link) or link.startswith(("reference/cpp/", "cpp/")) or "/cpp/" in link:
                    continue
                with self.subTest(page=str(page.relative_to(ROOT)), link=link):
                    self.assertTrue((page.parent / link).exists())

    def test_examples_name_flags_and_settings_that_exist(self):
        cli = "".join(path.read_text() for path in (ROOT / "cli").rglob("*.cpp"))
        flags = set(re.findall(r'(?:add|add_options\(\))\("([a-z-]+)', cli))
        verbs = set(re.findall(r'Verb verb = \{\s*"([a-z]+)"', cli))
        settings = "".join(path.read_text() for path in (ROOT / "core/src/config").rglob("*.cpp"))
        self.assertGreater(len(flags), 50)
        self.assertGreater(len(verbs), 8)
        calls = 0
        for page in [*pages(), ROOT / "README.md"]:
            if "adr" in page.parts or page.parent.name == "records":
                continue
            text = re.sub(r"(?ms)^```sh\n(.*?)^```", lambda block: re.sub(r"(?m)^", "    ", block[1]), page.read_text())
            text = text.replace("\\\n", " ")
            for line in re.findall(r"(?m)^ {4,}(?:\$ )?(?:[A-Z_]+=\S+ )*(?:torchrun .*?|mpirun .*?|srun .*?)?gbcompress ([a-z]+ .*)$", text):
                verb, _, rest = line.split(" #")[0].partition(" ")
                calls += 1
                with self.subTest(page=str(page.relative_to(ROOT)), line=line):
                    self.assertIn(verb, verbs)
                    self.assertEqual(set(re.findall(r"(?<!\S)\[?--([a-z][a-z-]+)", rest)) - flags, set())
                    for key in re.findall(r"--set ([a-z]+\.[a-z_]+)=", rest):
                        self.assertTrue(key.startswith("strategy.") or f'"{key}"' in settings, key)
        self.assertGreater(calls, 60)

    def test_prints_random_paragraphs(self):
        found = []
        for page in pages():
            text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
            for paragraph in re.split(r"\n\s*\n", text):
                if len(paragraph.split()) > 12 and not re.match(r"\s*(#|\||    )", paragraph):
                    found.append((page.relative_to(ROOT), paragraph.strip()))
        self.assertGreater(len(found), 100)
        chosen = random.Random(SEED).sample(found, 10)
        print(f"ten paragraphs, GBC_DOCS_SEED={SEED}:")
        for page, paragraph in chosen:
            print(f"-- {page}\n{paragraph}\n")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main(verbosity=2)
