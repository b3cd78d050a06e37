"""`cmake --install` after a build of the targets of scripts/demo alone, in a copy of the build folder that has nothing else.

    demo_prefix_test.py BUILD_DIR SOURCE_DIR CMAKE
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, SOURCE, CMAKE = Path(sys.argv.pop(1)).resolve(), Path(sys.argv.pop(1)), sys.argv.pop(1)


def edges():
    """{output: (its outputs, its inputs)} of build.ninja."""
    made = {}
    text = re.sub(r"\$\n\s*", "", (BUILD / "build.ninja").read_text())
    for line in re.findall(r"^build (.*)$", text, re.M):
        outputs, _, inputs = line.replace("$:", "\0").partition(":")
        words = lambda side: [word.replace("\0", ":").replace("${cmake_ninja_workdir}", "") for word in side.split()
                              if word not in ("|", "||")]
        for output in words(outputs):
            made[output] = (words(outputs), words(inputs)[1:])
    return made


def made_by(targets):
    """Files of the build folder that a build of the targets makes."""
    made, found, waiting = edges(), set(), list(targets)
    while waiting:
        name = waiting.pop()
        if name in found or name not in made or name == "build.ninja":
            continue
        outputs, inputs = made[name]
        found.update(outputs)
        waiting += inputs
    inside = {os.path.relpath(name, BUILD) if os.path.isabs(name) else name for name in found}
    return {name for name in inside if not name.startswith("..")}


class DemoPrefix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="gbc-demo-")
        cls.addClassCleanup(place.cleanup)
        cls.stage, cls.prefix = Path(place.name) / "build", Path(place.name) / "prefix"
        demo = " ".join(re.findall(r"^scripts/build (.*)$", (SOURCE / "scripts/demo").read_text(), re.M)).split()
        files = {name for name in made_by(demo) if (BUILD / name).is_file() and not name.endswith((".o", ".gch"))}
        for name in sorted(files):
            (cls.stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(BUILD / name, cls.stage / name, follow_symlinks=False)
        configured = [*BUILD.glob("*.cmake"), *BUILD.glob("*.pc"), *BUILD.glob("CMakeFiles/Export/**/*.cmake"),
                      *BUILD.glob("CMakeFiles/installed/*"), *BUILD.glob("sdk/c/*.pc"), *BUILD.glob("sdk/c/*.cmake"),
                      *BUILD.glob("sdk/c/CMakeFiles/Export/**/*.cmake"), *BUILD.rglob("cmake_install.cmake")]
        for file in configured:
            copy = cls.stage / file.relative_to(BUILD)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(file.read_text().replace(str(BUILD) + "/", str(cls.stage) + "/"))
        cls.done = subprocess.run([CMAKE, "--install", cls.stage, "--prefix", cls.prefix], capture_output=True, text=True)

    def test_it_is_installed(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)

    def test_it_has_program_documents_and_sdk(self):
        lib = next(self.prefix.glob("lib*/**/gbcompressConfig.cmake")).parents[2].name
        for name in ("bin/gbcompress", "share/man/man1/gbcompress.1", "share/man/man1/gbcompress-plugins.1",
                     "share/bash-completion/completions/gbcompress", "include/gbcompress/plugin.h",
                     "include/gbcompress/bottleneck.h", "share/gbcompress/contract/contract_main.cpp",
                     "share/gbcompress/template/README.md", f"{lib}/libgbcompress.so", f"{lib}/libgbcompress_portable.so",
                     f"{lib}/gbcompress/libgbcompress_verbs.so", f"{lib}/gbcompress/plugins/linear.so",
                     f"{lib}/gbcompress/plugins/linear.so.sha256"):
            with self.subTest(name):
                self.assertTrue((self.prefix / name).is_file())
        config = next(self.prefix.glob("lib*/cmake/gbcompress/gbcompressConfig.cmake")).read_text()
        for name in re.findall(r"CMAKE_CURRENT_LIST_DIR\}/(\w+\.cmake)", config):
            self.assertTrue(next(self.prefix.glob("lib*/cmake/gbcompress")).joinpath(name).is_file(), name)

    def test_what_was_not_built_is_named_and_left_out(self):
        self.assertRegex(self.done.stdout, r"(?m)^-- libgbz for C was not built and is not installed; the targets gbz_static")
        self.assertEqual(list(self.prefix.rglob("*gbz*")), [])
        for plugin in ("al", "dtp", "nets"):
            self.assertIn(f"-- The plugin {plugin} was not built and is not installed; the target {plugin} builds it", self.done.stdout)
            self.assertEqual(list(self.prefix.rglob(plugin + ".so*")), [])

    def test_the_program_runs(self):
        done = subprocess.run([self.prefix / "bin/gbcompress", "plugins", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"linear"', done.stdout)


unittest.main(verbosity=2)
