"""Skips of every kind, in a log as ctest writes it."""

import subprocess
import sys
import unittest

import skipped

REAL_SKIPS = '''
import unittest
class Kind(unittest.TestCase):
    def test_passes(self): pass
    def test_in_a_line(self): self.skipTest("there is no 'disk'")
    def test_with_docstring(self):
        """Told in words."""
        self.skipTest("no disk")
    @unittest.skip("never here")
    def test_decorated(self): pass
    def test_prints(self): print("nothing was skipped here")
class Whole(unittest.TestCase):
    def setUp(self): self.skipTest("no disk")
    def test_one(self): pass
unittest.main(verbosity=2)
'''

GTEST = """Note: Google Test filter = Files.AreThere
[ RUN      ] Files.AreThere
/some/where/file_test.cpp:68: Skipped
"../models" is absent

[  SKIPPED ] Files.AreThere (0 ms)
[  PASSED  ] 0 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Files.AreThere"""


def log(**tests):
    text = "Start testing: today\n----\n"
    for i, (name, printed) in enumerate(tests.items(), 1):
        text += (f'{i}/9 Testing: {name}\n{i}/9 Test: {name}\nCommand: "it"\nOutput:\n------\n{printed}\n<end of output>\n'
                 "Test time =   0.10 sec\n------\nTest Passed.\n------\n\n")
    return (text + "End testing: today\n").splitlines(keepends=True)


class Skipped(unittest.TestCase):
    def test_unittest(self):
        printed = subprocess.run([sys.executable, "-c", REAL_SKIPS], capture_output=True, text=True, check=True).stderr
        self.assertEqual(skipped.report(log(disks=printed)), """4 tests skipped:
  never here
    disks test_decorated
  there is no 'disk'
    disks test_in_a_line
  no disk
    disks test_one
    disks test_with_docstring
""")

    def test_googletest_and_scripts(self):
        both = {"Files.AreThere": GTEST, "reader": "skipped: python3 has no numpy",
                "faults": "kills: 3 of 3 (1 s)\ncalls: skipped: strace is missing (0 s)\ndisks: 9 cases; others skipped, no mount",
                "good": "nothing skipped at all"}
        self.assertEqual(skipped.report(log(**both)), """4 tests skipped:
  "../models" is absent
    Files.AreThere
  strace is missing (0 s)
    faults calls
  no mount
    faults disks
  python3 has no numpy
    reader
""")

    def test_a_suite_of_googletest(self):
        two = GTEST.replace("Files.AreThere", "Sets/Files.AreThere/0") + "\n" + GTEST.replace("Files.AreThere", "Sets/Files.AreRead/1")
        self.assertEqual(skipped.report(log(**{"unit_data.Sets/Files": two})), """2 tests skipped:
  "../models" is absent
    unit_data.Sets/Files.AreRead/1
    unit_data.Sets/Files.AreThere/0
""")

    def test_pytest(self):
        printed = "..s  [100%]\n== short test summary info ==\nSKIPPED [2] tests/a_test.py:7: no disk\n3 passed"
        self.assertEqual(skipped.report(log(files=printed)), """1 test skipped:
  no disk
    files tests/a_test.py
""")

    def test_a_repeated_test_counts_once(self):
        self.assertEqual(skipped.report(log(a="skipped: x") + log(a="skipped: x")), "1 test skipped:\n  x\n    a\n")

    def test_none(self):
        self.assertEqual(skipped.report(log(a="[       OK ] A.B (0 ms)")), "No tests skipped\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
