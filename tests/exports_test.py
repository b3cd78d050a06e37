"""What the libraries export is what the lists in tests/exports say, and every public header says so itself.

    python3 tests/exports_test.py --write LIBRARY...     writes the lists anew

A list has the names that other programs can be linked with: functions and data that are defined once, tables
of virtual functions, and types. Inline functions come and go with the compiler's mind, and are left out.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests/exports"
NM = os.environ.get("GBC_NM", "nm")
HEADERS = [path for path in sorted((ROOT / "core/include/gbcompress").glob("*.h"))
           if path.name != "version.h"]


def exports(library):
    said = subprocess.run([NM, "-D", "--defined-only", "--demangle", str(library)], capture_output=True, text=True, check=True)
    names = set()
    for line in said.stdout.splitlines():
        kind, name = line.split(" ", 2)[1:]
        table = re.match(r"(typeinfo|vtable) for ", name)
        if kind in "TDBR" or (kind == "V" and table):
            name = re.sub(r"\[abi:\w+\]|\(\.\w+\)$", "", name)
            # What std and torch make of their templates for us is theirs.
            if re.match(r"(?:(?:typeinfo|vtable) for )?gbcompress", name):
                names.add(name)
    return sorted(names)


def list_of(library):
    return LISTS / (re.sub(r"^lib|\.so.*$", "", Path(library).name) + ".txt")


class Exports(unittest.TestCase):
    def test_libraries_export_what_the_lists_say(self):
        libraries = os.environ["GBC_LIBRARIES"].split(":")
        for library in libraries:
            with self.subTest(library=library):
                listed = list_of(library).read_text().splitlines()
                found = exports(library)
                self.assertGreater(len(found), 100)
                more, fewer = sorted(set(found) - set(listed)), sorted(set(listed) - set(found))
                self.assertEqual((more, fewer), ([], []), "where that is meant: python3 tests/exports_test.py --write "
                                 + " ".join(libraries))

    def test_every_public_header_exports_its_names(self):
        for header in HEADERS:
            text = header.read_text()
            if re.fullmatch(r"#pragma once\n(///.*\n)*(\n|#include.*\n)*", text):
                continue  # includes others, and declares nothing
            with self.subTest(header=header.name):
                self.assertIn("namespace GBC_API gbcompress {", text)
                self.assertNotRegex(text, r"(?m)^namespace gbcompress")

    def test_private_headers_do_not_declare_public_types_first(self):
        """GCC 12 keeps the visibility of the first declaration, so that such a class would be hidden."""
        public = set()
        for header in HEADERS:
            public |= set(re.findall(r"(?m)^(?:class|struct) (\w+)(?: final)?(?: :[^;{]*)? \{", header.read_text()))
        self.assertGreater(len(public), 100)
        for path in sorted(ROOT.glob("core/src/*/*.h")):
            text = path.read_text()
            before = re.sub(r"(?ms)^namespace GBC_API gbcompress \{.*?^\}", "", text)
            for name in re.findall(r"(?m)^(?:class|struct) (\w+);", before):
                with self.subTest(header=str(path.relative_to(ROOT)), type=name):
                    self.assertTrue(name not in public or "namespace GBC_INTERNAL gbcompress {" in text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for path in sys.argv[2:]:
            list_of(path).write_text("\n".join(exports(path)) + "\n")
    else:
        unittest.main()
