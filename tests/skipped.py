#!/usr/bin/env python3
"""Says which tests of ctest's log were skipped, and why, those inside passing test programs too.

tests/skipped.py LastTest.log        Standard library only.
"""

import re
import sys

# ctest's own frame around what a test prints.
START = re.compile(r"^\d+/\d+ Test: (.*)$")
OUTPUT, END = "Output:", "<end of output>"
# test_name (__main__.Class.test_name) ... skipped 'reason'    [unittest, verbosity=2]; a docstring stands between
UNITTEST_NAME = re.compile(r"^ *(\w+) \(.*\)")
UNITTEST_SKIP = re.compile(r"""\.\.\. skipped (['"])(.*)\1$""")
# file:line: Skipped / reason, on lines of its own / [  SKIPPED ] Suite.Name    [GoogleTest]
GTEST_BEGIN = re.compile(r"^\S+:\d+: Skipped$")
GTEST_END = re.compile(r"^\[  SKIPPED \] (\S+)")
# skipped: reason, or part: skipped, reason, or part: figures; what is missing skipped, reason     [scripts]
SCRIPT = re.compile(r"^(?:([\w-]+): )?(?:.* )?skipped[:,] (.*)$")
# SKIPPED [1] tests/test_files.py:12: reason                  [pytest -rs]
PYTEST = re.compile(r"^SKIPPED \[\d+\] (\S+?\.py)(?::\d+)?: (.*)$")


def outputs(lines):
    """-> (test, lines that it printed). A test that was repeated comes once, with its last run."""
    tests, name, inside = {}, None, False
    for line in lines:
        line = line.rstrip("\n")
        started = START.match(line)
        if not inside and started:
            name = started.group(1)
            tests[name] = []
        elif name and not inside and line == OUTPUT:
            inside = True
        elif inside and line.endswith(END):
            inside = False
        elif inside:
            tests[name].append(line)
    return tests.items()


def skips(lines):
    """-> (part, reason) of what one test program printed; part: "" where it does not say"""
    part, reason = "", None
    for line in lines:
        if GTEST_BEGIN.match(line):
            reason = []
        elif (end := GTEST_END.match(line)) and reason is not None:
            yield end.group(1), " ".join(reason) or "no reason given"
            reason = None
        elif reason is not None:
            reason += [line.strip()] if line.strip() else []
        else:
            if named := UNITTEST_NAME.match(line):
                part = named.group(1)
            if skipped := UNITTEST_SKIP.search(line):
                yield part, skipped.group(2)
            elif pytest := PYTEST.match(line):
                yield pytest.group(1), pytest.group(2)
            elif script := SCRIPT.match(line):
                yield script.group(1) or "", script.group(2)


def report(lines):
    reasons = {}
    for test, printed in outputs(lines):
        for part, reason in skips(printed):
            # ctest knows a test of GoogleTest by the same name, or its suite behind the name of the program.
            program, _, suite = test.partition(".")
            if part.startswith(suite + "."):
                name = f"{program}.{part}"
            else:
                name = test if part in ("", test) else f"{test} {part}"
            reasons.setdefault(reason, []).append(name)
    count = sum(map(len, reasons.values()))
    text = f"{count or 'No'} test{'' if count == 1 else 's'} skipped{':' if count else ''}\n"
    for reason, names in sorted(reasons.items(), key=lambda item: item[1]):
        text += f"  {reason}\n"
        text += "".join(f"    {name}\n" for name in sorted(set(names)))
    return text


if __name__ == "__main__":
    with open(sys.argv[1], errors="replace") as log:
        print("\n" + report(log), end="")
