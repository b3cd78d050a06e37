"""The package for npm: what is in it, that it is the same when it is made again, and that Node.js and tsc find what it exports."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
WEB = pathlib.Path(os.environ["GBC_WEB"])
sys.path.insert(0, str(HERE.parent))
import pack

PACKAGE = WEB / f"gbcompress-{pack.version()}.tgz"
NAMES = ["LICENSE", "README.md", "THIRD-PARTY.txt", "gbz-all.mjs", "gbz-scalar.mjs", "gbz-wasm.mjs", "gbz.d.ts", "gbz.mjs", "gbz.wasm",
         "package.json"]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


def contents(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


class Package(unittest.TestCase):
    def test_it_holds_the_module_its_types_and_the_license(self):
        files = contents(PACKAGE)
        self.assertEqual(sorted(files), [f"package/{name}" for name in NAMES])
        for name in NAMES:
            self.assertEqual(files[f"package/{name}"], (WEB / name).read_bytes(), name)
        described = json.loads(files["package/package.json"])
        self.assertEqual((described["name"], described["version"]), ("gbcompress", pack.version()))
        for project in (b"xxHash", b"musl", b"wasi-libc", b"Highway"):
            self.assertIn(project, files["package/THIRD-PARTY.txt"])

    def test_it_is_the_only_one(self):
        with tempfile.TemporaryDirectory() as folder:
            old = pathlib.Path(folder, "gbcompress-0.0.1.tgz")
            old.write_bytes(b"")
            run(sys.executable, "-B", HERE.parent / "pack.py", WEB, folder)
            self.assertEqual([path.name for path in pathlib.Path(folder).glob("*.tgz")], [PACKAGE.name])

    def test_npm_packs_the_same(self):
        if not shutil.which("npm"):
            self.skipTest("npm is not installed")
        with tempfile.TemporaryDirectory() as folder:
            run("npm", "pack", "--offline", "--pack-destination", folder, cwd=WEB, env=dict(os.environ, npm_config_cache=folder))
            self.assertEqual(contents(pathlib.Path(folder, PACKAGE.name)), contents(PACKAGE))

    def test_it_is_the_same_when_it_is_made_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, "-B", HERE.parent / "pack.py", WEB, folder)
            again = pathlib.Path(folder, PACKAGE.name).read_bytes()
        self.assertEqual(hashlib.sha256(again).hexdigest(), hashlib.sha256(PACKAGE.read_bytes()).hexdigest())

    def test_a_program_imports_it_by_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            to = pathlib.Path(folder, "node_modules/gbcompress")
            to.mkdir(parents=True)
            with tarfile.open(PACKAGE) as archive:
                for member in archive.getmembers():
                    (to / pathlib.Path(member.name).name).write_bytes(archive.extractfile(member).read())
            golden = HERE.parents[2] / "tests/golden/v2/tiny.gbz"
            for name in ("gbcompress", "gbcompress/wasm"):
                pathlib.Path(folder, "app.mjs").write_text(
                    f"import {{ readFileSync }} from 'node:fs';\nimport {{ decode }} from '{name}';\n"
                    f"console.log((await decode(readFileSync({json.dumps(str(golden))}))).size);\n")
                self.assertEqual(run(shutil.which("node"), pathlib.Path(folder, "app.mjs")).strip(), "2")

    def test_the_types_are_checked(self):
        if not shutil.which("tsc"):
            self.skipTest("tsc is not installed; scripts/setup --web installs it")
        options = ("--noEmit", "--strict", "--target", "es2020", "--lib", "es2021,dom", "--moduleResolution", "node")
        run("tsc", *options, HERE / "types.ts")


if __name__ == "__main__":
    unittest.main()
