"""An installed prefix where there is no LibTorch: what find_package() and pkg-config give, the sample that
decodes, the headers, the libraries that are needed, the Debian package.

    portable_prefix_test.py BUILD CMAKE COMPILER    BUILD may have LibTorch; it is then out of sight"""

import json
import math
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from bare import BareRoot

COMPILER, CMAKE, BUILD = sys.argv.pop(), sys.argv.pop(), Path(sys.argv.pop())
ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples/09_decode"
MODEL = ROOT / "samples/digits/mlp-64-128-64-10.safetensors"
CACHE = (BUILD / "CMakeCache.txt").read_text()
PORTABLE = re.search(r"^GBCOMPRESS_PORTABLE_ONLY:\w+=(ON|1|TRUE)$", CACHE, re.M) is not None
# Debian's, and what every C++ program has. Nothing else may be asked of who links the library.
NEEDED = {"libzstd.so.1", "libz.so.1", "libhwy.so.1", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)


def portable_headers():
    text = (ROOT / "cmake/Install.cmake").read_text()
    return {name + ".h" for name in re.search(r"set\(portable_headers ([^)]+)\)", text)[1].split()}


def norms(file):
    """What the sample prints of these tensors, by other code."""
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    lines = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + length + begin:8 + length + end])
        shape = "".join(f" {side}" for side in entry["shape"])
        lines[name] = f"{name}{shape}: {len(values)} float32 values, norm {math.sqrt(sum(v * v for v in values)):.6g}"
    return set(lines.values())


class Prefix(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.bare = BareRoot()
        cls.addClassCleanup(cls.bare.close)
        print("in a root of its own" if cls.bare.mounts else "in this machine's root: it allows no mounts", flush=True)
        cls.prefix = cls.bare.folder / "opt/gbcompress"
        run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, check=True)
        cls.package = next(cls.prefix.glob("lib*/**/cmake/gbcompress"))
        cls.library = cls.package.parents[1]
        if not cls.bare.mounts:  # the LibTorch of the build is in sight
            config = cls.package / "gbcompressConfig.cmake"
            config.write_text(re.sub(r'"[^"]*(?=/lib/libtorch_cpu\.so")', '"/nonexistent', config.read_text()))
        program = cls.prefix / "bin/gbcompress"
        cls.file, cls.back = cls.bare.folder / "model.gbz", cls.bare.folder / "back.safetensors"
        run(program, "compress", MODEL, "--ratio", "8", "-q", "-o", cls.file, check=True)
        run(program, "expand", cls.file, "-q", "-o", cls.back, check=True)

    def project(self, text, name="project"):
        """The folder of a project whose CMakeLists.txt has these lines."""
        folder = Path(tempfile.mkdtemp(prefix=name + "-", dir=self.bare.folder))
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\n" + text)
        return folder

    def configure(self, folder, *options):
        done = self.bare.run(CMAKE, "-S", self.bare.inside(folder), "-B", self.bare.inside(folder / "build"),
                             "-DCMAKE_PREFIX_PATH=" + self.bare.inside(self.prefix), "-DGBC_PYTHON=/bin/false",
                             "-DCMAKE_CXX_COMPILER=" + COMPILER, *options)
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)

    def decodes(self, program):
        done = self.bare.run(self.bare.inside(program), self.bare.inside(self.file))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(done.stdout.splitlines()), norms(self.back))
        (self.bare.folder / "cut.gbz").write_bytes(self.file.read_bytes()[:500])
        done = self.bare.run(self.bare.inside(program), self.bare.inside(self.bare.folder / "cut.gbz"))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)

    def test_the_sample_is_short(self):
        self.assertLessEqual(len((SAMPLE / "main.cpp").read_text().splitlines()), 40)

    def test_the_sample_by_find_package(self):
        folder = self.bare.folder / "by_cmake"
        shutil.copytree(SAMPLE, folder)
        status, said = self.configure(folder)
        self.assertEqual(status, 0, said)
        done = self.bare.run(CMAKE, "--build", self.bare.inside(folder / "build"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.decodes(folder / "build/decode")

    def test_the_sample_by_pkg_config(self):
        folder = self.bare.folder / "by_pkg_config"
        shutil.copytree(SAMPLE, folder)
        path = {"PKG_CONFIG_PATH": self.bare.inside(self.library / "pkgconfig")}

        def say(*options):
            done = self.bare.run("pkg-config", *options, "gbcompress-portable", **path)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.split()

        libraries = say("--variable=libdir")[0]
        done = self.bare.run(COMPILER, "-std=c++20", self.bare.inside(folder / "main.cpp"), *say("--cflags", "--libs"),
                             "-Wl,-rpath," + libraries, "-o", self.bare.inside(folder / "decode"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.decodes(folder / "decode")

    def test_nothing_but_these_libraries_is_needed(self):
        library = next(self.library.glob("libgbcompress_portable.so.*.*"))
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library).stdout))
        self.assertIn("libzstd.so.1", needed)
        self.assertLessEqual(needed, NEEDED)

    def test_plain_find_package_gives_what_there_is(self):
        status, said = self.configure(self.project(
            "find_package(gbcompress REQUIRED)\nif(NOT TARGET gbcompress::portable OR TARGET gbcompress::gbcompress "
            'OR gbcompress_gbcompress_FOUND)\nmessage(FATAL_ERROR "other targets")\nendif()\n'))
        self.assertEqual(status, 0, said)
        self.assertRegex(said, "gbcompress::portable alone. gbcompress::gbcompress needs LibTorch")

    def test_the_component_portable_says_nothing_of_libtorch(self):
        status, said = self.configure(self.project("find_package(gbcompress 0.2 REQUIRED COMPONENTS portable)\n"))
        self.assertEqual(status, 0, said)
        self.assertNotIn("LibTorch", said)

    def test_the_whole_library_says_what_to_do(self):
        todo = "scripts/build" if PORTABLE else "-DGBCOMPRESS_TORCH=DIR"
        status, said = self.configure(self.project("find_package(gbcompress REQUIRED COMPONENTS gbcompress)\n"))
        self.assertNotEqual(status, 0)
        self.assertIn("gbcompress::gbcompress needs LibTorch", said)
        self.assertIn(todo, said)
        status, said = self.configure(self.project(
            "find_package(gbcompress REQUIRED)\ngbcompress_add_plugin(NAME mine SOURCES mine.cpp)\n"))
        self.assertNotEqual(status, 0)
        self.assertIn("gbcompress_add_plugin needs gbcompress::gbcompress", said)
        self.assertIn(todo, said)
        status, said = self.configure(self.project(
            "find_package(gbcompress REQUIRED COMPONENTS portable)\ngbcompress_add_plugin(NAME mine SOURCES mine.cpp)\n"))
        self.assertNotEqual(status, 0)
        self.assertIn("find_package(gbcompress REQUIRED COMPONENTS gbcompress)", said)

    def test_unknown_components_and_other_versions_are_refused(self):
        status, said = self.configure(self.project("find_package(gbcompress REQUIRED COMPONENTS portabel)\n"))
        self.assertNotEqual(status, 0)
        self.assertIn('no component "portabel"; there are portable and gbcompress', said)
        for version in ("0.1", "0.3", "1.0"):
            status, said = self.configure(self.project(f"find_package(gbcompress {version} REQUIRED)\n"))
            self.assertNotEqual(status, 0, version)

    def test_headers_compile_alone(self):
        folder = self.prefix / "include/gbcompress"
        installed = {path.name for path in folder.glob("*.h")}
        self.assertGreater(len(portable_headers()), 8)
        if PORTABLE:
            self.assertEqual(installed, portable_headers())
        self.assertLessEqual(portable_headers(), installed)
        for name in sorted(portable_headers()):
            with self.subTest(header=name):
                file = self.bare.folder / "one.cpp"
                file.write_text(f"#include <gbcompress/{name}>\n")
                done = self.bare.run(COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I",
                                     self.bare.inside(folder.parent), self.bare.inside(file))
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_documents_mark_the_same_headers(self):
        page = next(ROOT.glob("docs/**/library.md")).read_text()
        marked = re.findall(r"^\| `([a-z_]+\.h)` †", page[page.index("## Headers"):], re.M)
        self.assertEqual(set(marked), portable_headers())


@unittest.skipUnless(PORTABLE, "the Debian package is made of a build without LibTorch")
@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "dpkg-dev is not installed")
class DebianPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="gbc-deb-")
        cls.addClassCleanup(cls.place.cleanup)
        done = run(Path(CMAKE).with_name("cpack"), "-G", "DEB", "-B", cls.place.name, "--config", BUILD / "CPackConfig.cmake")
        assert done.returncode == 0, done.stdout + done.stderr
        cls.file = next(Path(cls.place.name).glob("*.deb"))

    def field(self, name):
        return run("dpkg-deb", "-f", self.file, name, check=True).stdout.strip()

    def test_it_has_what_programs_are_built_with(self):
        files = {line.split()[5].removeprefix("./usr/") for line in run("dpkg-deb", "-c", self.file, check=True).stdout.splitlines()}
        lib = next(name for name in files if name.endswith("/libgbcompress_portable.so")).rsplit("/", 1)[0]
        for name in (*(f"include/gbcompress/{header}" for header in portable_headers()), f"{lib}/pkgconfig/gbcompress-portable.pc",
                     f"{lib}/cmake/gbcompress/gbcompressConfig.cmake", "bin/gbcompress", "share/doc/gbcompress/NOTICE"):
            self.assertIn(name, files)
        self.assertEqual({name for name in files if name.startswith("include/") and name.endswith(".h")},
                         {f"include/gbcompress/{header}" for header in portable_headers()})

    def test_what_it_unpacks_builds_the_sample(self):
        bare = BareRoot()
        self.addCleanup(bare.close)
        run("dpkg-deb", "-x", self.file, bare.folder / "unpacked", check=True)
        shutil.copytree(SAMPLE, bare.folder / "sample")
        prefix, sample = bare.inside(bare.folder / "unpacked/usr"), bare.inside(bare.folder / "sample")
        for command in ([CMAKE, "-S", sample, "-B", sample + "/build", "-DCMAKE_PREFIX_PATH=" + prefix,
                         "-DCMAKE_CXX_COMPILER=" + COMPILER], [CMAKE, "--build", sample + "/build"]):
            done = bare.run(*command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("usage: decode", bare.run(sample + "/build/decode").stderr)

    def test_it_needs_few_packages(self):
        packages = {word.split()[0] for word in self.field("Depends").split(",")}
        self.assertLessEqual(packages, {"libboost-program-options1.74.0", "libboost-program-options1.83.0", "libc6",
                                        "libfuse3-3", "libfuse3-4", "libgcc-s1", "libhwy1", "libhwy1t64", "libstdc++6", "libzstd1", "zlib1g"})
        self.assertIn("libzstd1", packages)

    def test_its_version_is_the_projects(self):
        self.assertEqual(self.field("Version"), re.search(r"^CMAKE_PROJECT_VERSION:\w+=(.*)$", CACHE, re.M)[1])


if __name__ == "__main__":
    unittest.main()
