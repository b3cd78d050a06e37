"""One version everywhere: version.h has it, and whatever else says a version of this project says the same.

    version_test.py BUILD PROGRAM"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

PROGRAM, BUILD = sys.argv.pop(), Path(sys.argv.pop())
ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "core/include/gbcompress/version.h").read_text()
PARTS = [re.search(rf"define GBC_VERSION_{part} (\d+)", HEADER)[1] for part in ("MAJOR", "MINOR", "PATCH")]
VERSION, MINOR = ".".join(PARTS), ".".join(PARTS[:2])
PYTHON = [ROOT / "sdk/python/pyproject.toml", ROOT / "sdk/python/train/pyproject.toml"]


def text(name):
    return (ROOT / name).read_text()


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False)


class Version(unittest.TestCase):
    def test_the_top_heading_of_the_changes(self):
        self.assertEqual(re.search(r"^## (\S+)", text("CHANGELOG.md"), re.M)[1], VERSION)

    def test_cmake_and_find_package(self):
        self.assertIn(f"\nCMAKE_PROJECT_VERSION:STATIC={VERSION}\n", (BUILD / "CMakeCache.txt").read_text())
        self.assertIn(f'set(PACKAGE_VERSION "{VERSION}")', (BUILD / "gbcompressConfigVersion.cmake").read_text())
        self.assertIn(f"\nVersion: {VERSION}\n", (BUILD / "gbcompress-portable.pc").read_text())

    def test_the_program(self):
        self.assertEqual(run(PROGRAM, "--version").stdout, f"gbcompress {VERSION}\n")
        found = json.loads(run(PROGRAM, "doctor", "--json").stdout)
        self.assertEqual(found["version"], VERSION)
        self.assertEqual(found["checks"][0]["value"], VERSION)
        # The plugins that ship with the program have no versions of their own.
        shipped = {path.parent.name for path in ROOT.glob("plugins/*/README.md")}
        for check in found["checks"]:
            if check["name"].removeprefix("plugin ") in shipped:
                self.assertTrue(check["value"].startswith(VERSION + ", "), check)

    def test_the_manual(self):
        self.assertIn(f'"gbcompress {VERSION}"', run(PROGRAM, "man").stdout)

    def test_the_debian_package(self):
        config = BUILD / "CPackConfig.cmake"
        if not config.exists():
            self.skipTest("the Debian package is made of a build without LibTorch")
        self.assertIn(f'set(CPACK_PACKAGE_VERSION "{VERSION}")', config.read_text())

    def test_the_wheels_read_the_header(self):
        for file in PYTHON:
            project = tomllib.loads(file.read_text())
            rule = project["tool"]["scikit-build"]["metadata"]["version"]
            header = (file.parent / rule["input"]).read_text()
            self.assertEqual(rule["result"].format(**re.search(rule["regex"], header).groupdict()), VERSION)
        self.assertIn(f"gbcompress=={VERSION}", tomllib.loads(PYTHON[1].read_text())["project"]["dependencies"])

    def test_the_wheels_that_were_built(self):
        wheels = sorted((ROOT / "build/wheels").glob("gbcompress*.whl"))
        if not wheels:
            self.skipTest("scripts/wheel has built none")
        for wheel in wheels:
            if wheel.stat().st_mtime < (ROOT / "core/include/gbcompress/version.h").stat().st_mtime:
                self.skipTest(f"{wheel.name} was built before version.h was written")
            metadata = next(name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
            self.assertIn(f"\nVersion: {VERSION}\n", zipfile.ZipFile(wheel).read(metadata).decode())

    def test_projects_ask_for_this_version(self):
        files = [*ROOT.glob("samples/*/CMakeLists.txt"), *ROOT.glob("sdk/template/CMakeLists.txt"),
                 *ROOT.glob("tests/plugin/*/CMakeLists.txt"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
        asked = {(str(file.relative_to(ROOT)), version) for file in files
                 for version in re.findall(r"find_package\(gbcompress (\d[\d.]*)", file.read_text())}
        self.assertGreater(len(asked), 4)
        self.assertEqual({(name, version) for name, version in asked if version != MINOR}, set())

    def test_the_bill_of_materials(self):
        with tempfile.NamedTemporaryFile() as file:
            done = run(sys.executable, "-B", ROOT / "scripts/sbom", file.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(Path(file.name).read_text())["metadata"]["component"]["version"], VERSION)


def sources():
    """(name, text) of everything that tells users what to do."""
    for pattern in ("README.md", "CHANGELOG.md", "docs/**/*.md", "sdk/**/*.md", "samples/**/*.md", "cli/*.cpp", "core/src/*/*.cpp",
                    "core/include/**/*.h", "sdk/**/*.py", "sdk/**/*.cpp", "cmake/*.cmake", "sdk/**/*.cmake*"):
        for path in sorted(ROOT.glob(pattern)):
            if "results" not in path.parts:
                joined = re.sub(r'"\s*GBC_VERSION_STRING\s*"', VERSION, path.read_text())
                yield str(path.relative_to(ROOT)), re.sub(r'"\n *"', "", joined)


class Hints(unittest.TestCase):
    """Commands that messages and documents name can be run."""

    def test_pip_installs_what_can_be_had(self):
        found = [(name, command) for name, text in sources() for command in re.findall(r"pip install ([^`\n]*)", text)]
        self.assertGreater(len(found), 6)
        for name, command in found:
            with self.subTest(file=name, command=command):
                for word in re.findall(r"\S*gbcompress\S*", command.split("#")[0]):
                    # This project is not on PyPI: only files can be installed.
                    self.assertRegex(word, r"\.whl|^\.?/")

    def test_scripts_are_there(self):
        found = {(name, script) for name, text in sources() for script in re.findall(r"(?<![\w/.-])scripts/[a-z][a-z-]*", text)}
        self.assertGreater(len(found), 10)
        self.assertEqual({(name, script) for name, script in found if not (ROOT / script).is_file()}, set())

    def test_verbs_are_there(self):
        found = {(name, verb) for name, text in sources() if name != "CHANGELOG.md"
                 for verb in re.findall(r"`gbcompress ([a-z][a-z-]*)", text)}
        self.assertGreater(len(found), 5)
        verbs = {verb for _, verb in found}
        there = {verb for verb in verbs if run(PROGRAM, verb, "--help").returncode == 0}
        self.assertEqual({(name, verb) for name, verb in found if verb not in there}, set())

    def test_debian_packages_are_those_of_the_setup(self):
        known = set(re.findall(r"[a-z0-9][a-z0-9.+-]+", text("scripts/setup"))) | {"python3-dev"}
        found = {(name, package) for name, said in sources()
                 for command in re.findall(r"apt-get install ((?:[a-z0-9][a-z0-9.+-]*[ ,]*)+)", said)
                 for package in re.findall(r"[a-z0-9.+-]+", command)}
        self.assertGreater(len(found), 5)
        self.assertEqual({(name, package) for name, package in found if package not in known}, set())


if __name__ == "__main__":
    unittest.main()
