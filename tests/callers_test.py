"""Every public function has a caller outside the tests: in the libraries, the program, a plugin, the SDK or a sample.

By text: a name of a public header is called where it stands before a parenthesis, or alone as a value, in a line that
neither declares nor defines it. Overloads and members of the same name are one. A function that only programs of others
call is named in a page of the documents.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADERS = sorted((ROOT / "core/include/gbcompress").glob("*.h")) + [ROOT / "sdk/include/gbcompress/plugin.h"]
CODE = ("core/src", "core/include", "cli", "plugins", "sdk", "samples")
PAGES = ("docs/explanation", "docs/guides", "docs/reference", "docs/tutorials", "README.md")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
#: A function at the level of a namespace, or a member: a type, the name, a parenthesis; not a call.
DECLARED = re.compile(r"^ {0,2}(?:virtual |static |constexpr |inline |explicit |\[\[nodiscard\]\] )*"
                      r"(?!return\b|throw\b|if\b|for\b|while\b|switch\b|using\b|namespace\b|else\b|operator\b)"
                      r"[A-Za-z_][\w:<>,.&* ]*[ &*>](\w+)\(", re.M)


def declared(text):
    """Names of the functions that a header declares."""
    found = set(DECLARED.findall(COMMENT.sub("", text)))
    return {name for name in found if not re.match(r"operator|GBC_|[A-Z]", name)}


def used(text):
    """Names in the lines of a source or header that neither declare nor define them."""
    names = set()
    for line in COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text).splitlines():
        own = re.match(r"(?:\S.*[ &*>:])?(\w+)\(", line) if line[:1].strip() else DECLARED.match(line)
        words = re.findall(r"\w+", line)
        if own:
            words.remove(own.group(1))
        names.update(words)
    return names


def without_caller(headers, sources, pages=""):
    """Functions of the headers' texts that no source's text uses and no page shows."""
    names = set().union(*map(declared, headers))
    for text in sources:
        names -= used(text)
    return {name for name in names if not re.search(rf"\b{name}\b", pages)}


def texts(folders, suffixes):
    for folder in folders:
        path = ROOT / folder
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in suffixes and "tests" not in file.relative_to(ROOT).parts:
                yield file.read_text()


class Callers(unittest.TestCase):
    def test_the_reader_finds_functions_and_their_callers(self):
        header = "/// text\nint one(int x);\nstd::vector<int> two(const A& a,\n                     int b);\nclass C {\n  int three() const;\n};\n"
        self.assertEqual(declared(header), {"one", "two", "three"})
        definitions = "int one(int x) { return x; }\nstd::vector<int> two(const A& a) {\n}\nint C::three() const {\n}\n"
        self.assertEqual(without_caller([header], [header, definitions]), {"one", "two", "three"})
        callers = "void f() {\n  const int a = one(3);\n  each(two);\n}\n"
        self.assertEqual(without_caller([header], [header, definitions, callers]), {"three"})
        self.assertEqual(without_caller([header], [definitions, callers], "Call `three()`."), set())
        self.assertEqual(without_caller([header], [definitions, callers, "// three()\n"]), {"three"})

    def test_every_public_function_has_one(self):
        headers = [path.read_text() for path in HEADERS]
        self.assertGreater(len(set().union(*map(declared, headers))), 300)
        found = without_caller(headers, texts(CODE, {".h", ".cpp", ".cu", ".c"}), "\n".join(texts(PAGES, {".md"})))
        self.assertEqual(sorted(found), [], "remove them, or move what a test compares with to tests/support")


if __name__ == "__main__":
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
