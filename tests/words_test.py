"""The core's messages name options in backticks; the command line has a flag for each."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def literals():
    for path in sorted((ROOT / "core/src").rglob("*.cpp")):
        name = str(path.relative_to(ROOT / "core/src"))
        code = "\n".join(line for line in path.read_text().split("\n") if not re.match(r"\s*(//|#include)", line))
        for text in LITERAL.findall(re.sub(r'"\s*"', "", code)):
            yield name, text


class Words(unittest.TestCase):
    def test_the_core_names_no_flag(self):
        found = {name for name, text in literals() if re.search(r"(?<![\w-])--[a-z]", text)}
        self.assertEqual(found, set())

    def test_every_option_that_is_named_has_a_flag(self):
        rows = dict(re.findall(r'\{"(`[^"]+`|[^"]*`[^"]+`)", "([^"]+)"\}', (ROOT / "cli/flag_words.cpp").read_text()))
        self.assertGreater(len(rows), 15)
        pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
        for flag in rows.values():
            self.assertIn(re.search(r"--[a-z-]+", flag).group(), pages)
        named = set()
        for name, text in literals():
            for option in re.findall(r"`[a-z_]+`", text):
                with self.subTest(file=name, text=text):
                    self.assertIn(option, rows)
                named.add(option)
        self.assertEqual({row for row in rows if " " not in row}, named)


if __name__ == "__main__":
    unittest.main()
