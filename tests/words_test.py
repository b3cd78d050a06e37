"""The words of documents, help texts and messages: the field's own, in American spelling (vocabulary.py has those that are
not used, codespell the misspelled ones). The core's messages name options in backticks, and the command line has a flag
for each."""
import ast
import fnmatch
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from vocabulary import EXCEPTIONS, NAMES, PLANS, VAGUE_TYPES, WORDS

ROOT = Path(__file__).resolve().parents[1]
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
PATTERNS = [(re.compile(r"(?<![\w-])(?:" + pattern + ")", re.IGNORECASE), instead) for pattern, instead in WORDS]
# Where codespell looks: tests hold misspelled words on purpose.
SPELLED = ("docs", "cli", "core", "sdk", "plugins", "samples", "scripts", "cmake", "README.md", "CHANGELOG.md",
           "CONTRIBUTING.md", "SECURITY.md")
CODESPELL = shutil.which("codespell", path=f"{ROOT / '.deps/venv/bin'}:{os.environ.get('PATH', '')}")


def markdown(path):
    """(line, text) of a document; of the changes, those of the newest version."""
    text = path.read_text()
    if path.name == "CHANGELOG.md":
        text = text[:[found.start() for found in re.finditer(r"(?m)^## ", text)][1]]
    yield from enumerate(text.split("\n"), 1)


def literals_of_cpp(path):
    """(line, text) of string literals; what the compiler joins is one."""
    lines = ["" if re.match(r"\s*(//|#include)", line) else line for line in path.read_text().split("\n")]
    joined = re.sub(r'"(\s*)"', lambda gap: "\0" * gap[1].count("\n"), "\n".join(lines))
    for found in LITERAL.finditer(joined):
        line = joined.count("\n", 0, found.start()) + joined.count("\0", 0, found.start()) + 1
        yield line, found[1].replace("\0", "")


def literals_of_python(path):
    """(line, text) of string literals, docstrings among them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for i, text in enumerate(node.value.split("\n")):
                yield node.lineno + i, text


def comments_of_cpp(path):
    """(line, text) of the comments of a header: users read those of the public ones, and Doxygen's pages of them."""
    for line, text in enumerate(path.read_text().split("\n"), 1):
        found = re.search(r"//+<?\s*(.*)", text)
        if found:
            yield line, found[1]


def sources(root=ROOT):
    """(path, what yields its texts) of everything that users read."""
    pages = [path for path in (root / "docs").rglob("*.md") if "records" not in path.parts]
    pages += [*root.glob("*.md"), *root.glob("plugins/*/*.md"), *root.glob("sdk/**/*.md"), *root.glob("cli/report/*.html")]
    code = [path for folder in ("cli", "core", "plugins", "sdk") for kind in ("cpp", "h", "cu", "in")
            for path in (root / folder).rglob("*." + kind)]
    yield from ((path, markdown) for path in sorted(pages))
    yield from ((path, literals_of_cpp) for path in sorted(code))
    yield from ((path, comments_of_cpp) for folder in ("core/include", "sdk") for path in sorted((root / folder).rglob("*.h")))
    yield from ((path, literals_of_python) for path in sorted((root / "sdk/python/src").rglob("*.py*"))
                if path.suffix in (".py", ".pyi"))


def found_words(path, read, root=ROOT):
    """Each word of vocabulary.py in the texts of a file, less its exceptions: "file:line: word; write this: text"."""
    name = path.relative_to(root).as_posix()
    allowed = [re.compile(pattern) for file, pattern, _ in EXCEPTIONS if fnmatch.fnmatch(name, file)]
    for line, text in read(path):
        for pattern, instead in PATTERNS:
            for word in pattern.finditer(text):
                if any(each.start() <= word.start() and word.end() <= each.end()
                       for exception in allowed for each in exception.finditer(text)):
                    continue
                yield f"{name}:{line}: {word[0]}; write {instead}: {text.strip()[:120]}"


CODE = {".cpp", ".h", ".cu", ".c", ".py", ".pyi", ".js", ".mjs"}
CODE_FOLDERS = ("cli", "core", "plugins", "samples", "scripts", "sdk", "tests")
# What the vocabulary is written with; sentences that a language model is calibrated with.
OTHER_WORDS = ("tests/vocabulary.py", "tests/words_test.py", "tests/cli/report_test.py", "tests/real/texts.py")
FORBIDDEN = {word: instead for instead, words in NAMES.items() for word in words}
TYPE = re.compile(r"^(?P<indent>[ \t]*)(?:struct|class|using|enum class)\s+(?:GBC_\w+\s+)?_?(?P<name>\w+)", re.MULTILINE)


def words_in_names(text):
    """(position, word) of each word of NAMES: of snake_case, CamelCase and CAPITALS."""
    for word in FORBIDDEN:
        for form, before in ((word, str.isalpha), (word.title(), str.isupper), (word.upper(), str.isalpha)):
            at = text.find(form)
            while at >= 0:
                after = text[at + len(form):at + len(form) + 1]
                if not before(text[at - 1:at]) and not (after.isupper() if form.isupper() else after.islower()):
                    yield at, form
                at = text.find(form, at + 1)


def vague_types(text):
    """(position, name) of each type that does not say of what it is."""
    if any(name in text for name in ("Plan", *VAGUE_TYPES)):
        for found in TYPE.finditer(text):
            name = found["name"]
            if name.endswith("Plan") and name not in PLANS or name in VAGUE_TYPES and not found["indent"]:
                yield found.start("name"), name


def found_names(root=ROOT):
    """What words_in_names() and vague_types() find in code: "file:line: name; write this"."""
    paths = [path for folder in CODE_FOLDERS for path in (root / folder).rglob("*") if path.suffix in CODE and path.is_file()]
    for path in sorted(paths):
        name = path.relative_to(root).as_posix()
        if name in OTHER_WORDS or "node_modules" in path.parts:
            continue
        text = path.read_text(errors="replace")
        found = [(at, word, FORBIDDEN[word.lower()]) for at, word in words_in_names(text)]
        if not name.startswith("tests/"):  # classes of tests have the names of what is tested
            found += [(at, word, "what is in it") for at, word in vague_types(text)]
        for at, word, instead in sorted(found):
            yield f"{name}:{text.count(chr(10), 0, at) + 1}: {word}; write {instead}"


def messages():
    """(file, literal) of the core."""
    for path in sorted((ROOT / "core/src").rglob("*.cpp")):
        for _, text in literals_of_cpp(path):
            yield str(path.relative_to(ROOT / "core/src")), text


class Words(unittest.TestCase):
    def test_documents_and_messages_use_the_vocabulary(self):
        found, files = [], 0
        for path, read in sources():
            files += 1
            found += found_words(path, read)
        self.assertGreater(files, 500)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_exception_is_used(self):
        for file, pattern, reason in EXCEPTIONS:
            with self.subTest(file=file, reason=reason):
                texts = [text for path, read in sources() if fnmatch.fnmatch(path.relative_to(ROOT).as_posix(), file)
                         for _, text in read(path)]
                self.assertTrue(any(re.search(pattern, text) for text in texts))

    def test_planted_words_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("docs", "cli", "core/include", "sdk/python/src"):
                (root / name).mkdir(parents=True)
            (root / "docs/page.md").write_text("# A page\n\nThe price of a bit.\n")
            (root / "CHANGELOG.md").write_text("# Changes\n## 2\n- Mended a crash.\n## 1\n- Mended others.\n")
            (root / "cli/verb.cpp").write_text('// the goal\nsay("the target was "\n    "not met");\nsay("the colour");\n')
            (root / "core/include/a.h").write_text('int n = 0;  ///< the price\nconstexpr const char* kA = "pictures of it";\n')
            (root / "sdk/python/src/a.py").write_text('"""Normalises whole\nnumbers, and whole numbers."""\nprice = 1\n')
            found = [line.split("; ")[0] for path, read in sources(root) for line in found_words(path, read, root)]
        self.assertEqual(sorted(found), sorted([
            "docs/page.md:3: price", "CHANGELOG.md:3: Mended", "cli/verb.cpp:2: met", "cli/verb.cpp:4: colour",
            "core/include/a.h:1: price", "core/include/a.h:2: pictures", "sdk/python/src/a.py:1: Normalises", "sdk/python/src/a.py:2: whole numbers"]))

    def test_names_in_code_use_the_vocabulary(self):
        found = list(found_names())
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_planted_names_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("core/src", "sdk/python/src"):
                (root / name).mkdir(parents=True)
            (root / "core/src/a.h").write_text("struct BitPrice {};\n  struct Entry {};\nclass GNetPlan {};\nint island, weight;\n")
            (root / "sdk/python/src/a.py").write_text("def land_at(self):\n    pass\n\n\nclass Rule:\n    pass\n")
            found = [line.split("; ")[0] for line in found_names(root)]
        self.assertEqual(found, ["core/src/a.h:1: Price", "core/src/a.h:3: GNetPlan", "sdk/python/src/a.py:1: land",
                                 "sdk/python/src/a.py:5: Rule"])

    @unittest.skipUnless(CODESPELL, "codespell is not installed; run scripts/setup --docs")
    def test_spelling(self):
        there = [name for name in SPELLED if (ROOT / name).exists()]
        self.assertEqual(there, list(SPELLED))
        done = subprocess.run([CODESPELL, *there], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        planted = subprocess.run([CODESPELL, "-"], cwd=ROOT, input="the recieve\n", capture_output=True, text=True)
        self.assertIn("recieve ==> receive", planted.stdout)


class Options(unittest.TestCase):
    def test_the_core_names_no_flag(self):
        found = {name for name, text in messages() if re.search(r"(?<![\w-])--[a-z]", text)}
        self.assertEqual(found, set())

    def test_every_option_that_is_named_has_a_flag(self):
        rows = dict(re.findall(r'\{"(`[^"]+`|[^"]*`[^"]+`)", "([^"]+)"\}', (ROOT / "cli/flag_words.cpp").read_text()))
        self.assertGreater(len(rows), 15)
        pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
        for flag in rows.values():
            self.assertIn(re.search(r"--[a-z-]+|[A-Z_]+", flag).group(), pages)
        named = set()
        for name, text in messages():
            for option in re.findall(r"`[a-z_]+`", text):
                with self.subTest(file=name, text=text):
                    self.assertIn(option, rows)
                named.add(option)
        self.assertEqual({row for row in rows if " " not in row}, named)


if __name__ == "__main__":
    unittest.main()
