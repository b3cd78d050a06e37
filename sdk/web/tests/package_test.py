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
PACKAGE = next(WEB.glob("gbcompress-*.tgz"), None)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class Package(unittest.TestCase):
    def test_it_holds_the_module_its_types_and_the_license(self):
        with tarfile.open(PACKAGE) as archive:
            names = archive.getnames()
            self.assertEqual(names, [f"package/{name}" for name in ("LICENSE", "README.md", "gbz-scalar.mjs", "gbz.d.ts", "gbz.mjs", "package.json")])
            described = json.load(archive.extractfile("package/package.json"))
            self.assertEqual(archive.extractfile("package/gbz.mjs").read(), (WEB / "gbz.mjs").read_bytes())
        self.assertEqual(f"{described['name']}-{described['version']}.tgz", PACKAGE.name)

    def test_it_is_the_same_when_it_is_made_again(self):
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, "-B", HERE.parent / "pack.py", WEB / "wasm", folder)
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
            pathlib.Path(folder, "app.mjs").write_text(
                "import { readFileSync } from 'node:fs';\nimport { decode } from 'gbcompress';\n"
                f"console.log(decode(readFileSync({json.dumps(str(golden))})).size);\n")
            self.assertEqual(run(shutil.which("node"), pathlib.Path(folder, "app.mjs")).strip(), "2")

    def test_the_types_are_checked(self):
        if not shutil.which("tsc"):
            self.skipTest("tsc is not installed; scripts/setup --web installs it")
        options = ("--noEmit", "--strict", "--target", "es2020", "--lib", "es2021,dom", "--moduleResolution", "node")
        run("tsc", *options, HERE / "types.ts")


if __name__ == "__main__":
    unittest.main()
