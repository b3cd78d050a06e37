"""page.py finds the blocks of a page, and a difference between what is printed and what happens."""

import unittest

import page

TEXT = """# A page

    first --command
    second

- a list
  that goes on

<!-- not executed: needs a GPU -->

```sh
third
```

```text
three words  7
```
"""


class Blocks(unittest.TestCase):
    def test_blocks(self):
        found = page.blocks(TEXT)
        self.assertEqual([(b.kind, b.line, b.reason) for b in found],
                         [("sh", 3, ""), ("sh", 11, "needs a GPU"), ("text", 15, "")])
        self.assertEqual(found[0].text, "first --command\nsecond\n")

    def test_what_a_block_needs(self):
        found = page.blocks("<!-- needs node -->\n\n```js\nf()\n```\n\n    after\n")
        self.assertEqual([(b.kind, b.reason, b.needs) for b in found], [("js", "", "node"), ("sh", "", "")])

    def test_faults(self):
        for text in ("```sh\nnever ends\n", "<!-- not executed: why -->\n\nno block\n", "<!-- needs node -->\n\nno block\n"):
            with self.assertRaises(ValueError):
                page.blocks(text)

    def test_sessions(self):
        self.assertEqual(page.session("$ a \\\n  -b\nout\n$ c\n"), [("a \\\n  -b", "out"), ("c", "")])
        self.assertEqual(page.session("a\n$ b\n"), [])

    def test_figures_may_differ_and_words_may_not(self):
        real = "bytes on disk  1,234   56\nratio 1.00  8.06\nmethod  trained\n"
        self.assertEqual(page.missing("bytes on disk 9 8\n...\nmethod trained\n", real), "")
        self.assertEqual(page.missing("method trained\n...\nratio 1 2\n", real), "ratio N N")
        self.assertNotEqual(page.missing("bytes on disk 9 8\nmethod trained\n", real), "")
        self.assertNotEqual(page.missing("bytes on disc 9 8\n", real), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
