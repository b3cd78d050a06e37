"""What is installed of libgbz: the example is compiled against the prefix, as users compile it.

GBC_CC, GBC_CMAKE, GBC_NM: tools. GBC_BUILD: the build folder. GBC_SANITIZED: sanitizers of the build.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parents[2] / "tests" / "golden"
HEADER = HERE.parent / "include" / "gbz.h"
MOST_BYTES = 272_000  # of them 225 kB of code; blocks of GGUF types and pieces of tensors take 25 kB, and can be left out
FLAGS = ["-std=c99", "-Wall", "-Werror", "-static-libgcc"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.environ.get("GBC_SANITIZED"):
            raise unittest.SkipTest("sanitizers bring libraries of their own")
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        run(os.environ["GBC_CMAKE"], "--install", os.environ["GBC_BUILD"], "--prefix", cls.prefix, "--component", "c")
        cls.lib = next(cls.prefix.glob("lib*/**/libgbz.a")).parent
        cls.program = pathlib.Path(cls.folder.name) / "tensors"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def functions(self):
        return set(re.findall(r"(gbz_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)))

    def compile(self, *libraries):
        run(os.environ["GBC_CC"], *FLAGS, f"-I{self.prefix}/include", HERE.parent / "example" / "tensors.c",
            *libraries, "-o", self.program)

    def test_the_example_runs_against_the_archive(self):
        self.compile(self.lib / "libgbz.a", "-lm")
        output = run(self.program, GOLDEN / "v2" / "coded_lanes.gbz")
        names = json.loads((GOLDEN / "v2" / "digests.json").read_text())["coded_lanes"]
        self.assertEqual({line.split()[0] for line in output.splitlines()}, set(names))
        self.assertRegex(output.splitlines()[0], r"^\S+ F32 \[[\d, ]*\] [0-9a-f]{8}$")
        bad = subprocess.run([self.program, GOLDEN / "errors" / "flipped_bit_in_section.gbz"], capture_output=True)
        self.assertEqual(bad.returncode, 1)
        self.assertIn(b"damaged", bad.stderr)

    def test_the_program_needs_libc_and_libm_alone(self):
        self.compile(self.lib / "libgbz.a", "-lm")
        needed = re.findall(r"NEEDED\)\s+Shared library: \[(\S+?)\.so", run("readelf", "-d", self.program))
        self.assertLessEqual(set(needed), {"libc", "libm", "ld-linux-x86-64"})

    def test_the_code_is_small(self):
        self.compile(self.lib / "libgbz.a", "-lm", "-Wl,--gc-sections")
        run("strip", self.program)
        size = self.program.stat().st_size
        print(f"the example takes {size} bytes, stripped")
        self.assertLessEqual(size, MOST_BYTES)

    def test_only_functions_of_the_header_are_visible(self):
        names = self.functions()
        self.assertGreater(len(names), 20)
        for file, option in (("libgbz.a", "--extern-only"), ("libgbz.so", "--dynamic")):
            lines = run(os.environ["GBC_NM"], option, "--defined-only", self.lib / file).splitlines()
            defined = {line.split()[-1] for line in lines if len(line.split()) == 3}
            self.assertEqual(defined, names, file)
        wanted = run(os.environ["GBC_NM"], "--undefined-only", self.lib / "libgbz.a")
        self.assertNotRegex(wanted, r"\b_Z|__cxa_|_Unwind|gxx_personality")

    def test_pkg_config_and_cmake_find_it(self):
        if shutil.which("pkg-config"):
            environment = dict(os.environ, PKG_CONFIG_PATH=str(self.lib / "pkgconfig"))
            flags = run("pkg-config", "--cflags", "--libs", "gbz", env=environment).split()
            self.compile(*flags, f"-Wl,-rpath,{self.lib}")
            self.assertIn("F32", run(self.program, GOLDEN / "v2" / "tiny.gbz"))
        else:
            print("pkg-config is not installed: gbz.pc is not tried")
        project = pathlib.Path(self.folder.name) / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES C)\nfind_package(gbz REQUIRED)\n"
            f"add_executable(user {HERE.parent}/example/tensors.c)\ntarget_link_libraries(user PRIVATE gbz::static)\n")
        run(os.environ["GBC_CMAKE"], "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(os.environ["GBC_CMAKE"], "--build", project / "build")
        self.assertIn("F32", run(project / "build" / "user", GOLDEN / "v2" / "tiny.gbz"))


if __name__ == "__main__":
    unittest.main()
