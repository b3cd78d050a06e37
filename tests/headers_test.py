"""Every public header compiles alone, those without LibTorch where there is none; and no type of the
core has two definitions."""
import os
import re
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILER = os.environ["GBC_CXX"]
TORCH = [path for path in os.environ.get("GBC_TORCH_INCLUDES", "").split(":") if path]
FOLDERS = [ROOT / "core/include", ROOT / "sdk/include"]
HEADERS = {path.name: path for folder in FOLDERS for path in sorted((folder / "gbcompress").glob("*.h"))}
LIBTORCH = {"associated.h", "bottleneck.h", "compress.h", "data.h", "device.h", "model.h", "noise.h", "optimizer.h", "plugin.h",
            "strategy.h", "train.h"}


def compile_alone(name, torch):
    """What the compiler says of the header, seen twice and by nobody else; "" where it is content."""
    source = f'#include "gbcompress/{name}"\n#include "gbcompress/{name}"\n'
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++"]
    command += [f"-I{folder}" for folder in FOLDERS]
    command += [f"-isystem{path}" for path in TORCH] if torch else []
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(source)
        file.flush()
        run = subprocess.run([*command, file.name], capture_output=True, text=True, check=False)
    return run.stderr or ("" if run.returncode == 0 else f"exit status {run.returncode}")


class Headers(unittest.TestCase):
    def check(self, names, torch):
        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(lambda name: compile_alone(name, torch), names))
        for name, text in zip(names, said):
            with self.subTest(header=name):
                self.assertEqual(text, "")

    def test_headers_without_libtorch_compile_alone(self):
        self.check(sorted(set(HEADERS) - LIBTORCH), torch=False)

    def test_headers_of_libtorch_compile_alone(self):
        if not TORCH:
            self.skipTest("this build has no LibTorch")
        self.check(sorted(LIBTORCH), torch=True)

    def test_no_type_is_defined_twice(self):
        """Two types of one name share std's functions for it between the libraries, whose sizes differ."""
        places = {}
        for path in sorted(ROOT.glob("core/**/*.h")):
            text = re.sub(r"(?ms)^#ifdef GBC_FREESTANDING\b.*?^#else$", "", path.read_text())  # libgbz's alone
            text = re.sub(r"(?ms)^namespace \{\n.*?^\}  // namespace$", "", text)
            space = re.search(r"(?m)^namespace (gbcompress\S*)", text)
            for name in re.findall(r"(?m)^(?:class|struct|enum class) (\w+)(?: final)?(?: :[^;{]*)? \{", text):
                places.setdefault(f"{space and space.group(1)}::{name}", []).append(str(path.relative_to(ROOT)))
        self.assertGreater(len(places), 200)
        self.assertEqual({name: found for name, found in places.items() if len(found) > 1}, {})

    def test_an_error_is_found(self):
        self.assertIn("no_such_header.h", compile_alone("no_such_header.h", torch=False))

    def test_documents_have_a_row_for_every_header(self):
        page = (ROOT / "docs/reference/library.md").read_text()
        named = set(re.findall(r"`([a-z_]+\.h)`", page[page.index("## Headers"):]))
        self.assertGreater(len(HEADERS), 10)
        self.assertEqual(named, set(HEADERS))


if __name__ == "__main__":
    unittest.main()
