"""The wheels of scripts/wheel: what is in them, and the command with no torch, the right one and another beside it.

    wheel_test.py WHEELS PYTHON    PYTHON has numpy, pip, and torch where training is to be tried"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

WHEELS, PYTHON = Path(sys.argv.pop(1)), sys.argv.pop(1)
ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "samples/digits/mlp-64-128-64-10.safetensors"
MOST = 3_000_000
# Of the system, as manylinux allows them, and of an installed torch.
SYSTEM = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
TORCH = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1"}
OWN = re.compile(r"libgbcompress(_portable)?\.so\.\d+|libgbcompress_core\.so|libhwy\.so\.1|libboost_program_options\.so\.[\d.]+")


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)


def needed(file):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file).stdout))


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheels = sorted(WHEELS.glob("gbcompress-*.whl"))
        cls.train = next(WHEELS.glob("gbcompress_train-*-py3-none-*.whl"))
        cls.place = tempfile.TemporaryDirectory(prefix="gbc-wheel-")
        cls.addClassCleanup(cls.place.cleanup)
        cls.folder = Path(cls.place.name)
        tag = run(PYTHON, "-c", "import sys; print('cp3%d' % sys.version_info[1])").stdout.strip()
        cls.wheel = next(w for w in cls.wheels if f"-{tag}-" in w.name or tag > "cp311" and "abi3" in w.name)
        cls.site = Path(run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        cls.light = cls.environment("light", cls.wheel)
        cls.whole = cls.environment("whole", cls.wheel, cls.train)

    @classmethod
    def environment(cls, name, *wheels):
        venv = cls.folder / name
        run(PYTHON, "-m", "venv", "--without-pip", venv, check=True)
        run(PYTHON, "-m", "pip", "--python", venv / "bin/python", "install", "-q", "--no-deps", "--no-index", *wheels, check=True)
        return venv

    def use(self, venv, *folders):
        """The command of this environment, whose Python finds these folders too."""
        self.command = venv / "bin/gbcompress"
        self.own = next(venv.glob("lib/python*/site-packages"))
        (self.own / "beside.pth").write_text("".join(f"{folder}\n" for folder in folders))

    def numpy(self):
        folder = self.folder / "numpy"
        if not folder.exists():
            folder.mkdir()
            for part in self.site.glob("numpy*"):
                (folder / part.name).symlink_to(part)
        return folder

    def gbcompress(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GBCOMPRESS") and k != "PYTHONPATH"}
        return run(self.command, *arguments, env=environment | {"OMP_NUM_THREADS": "1"})

    def light_verbs_work(self):
        out = self.folder / "m.gbz"
        done = self.gbcompress("compress", MODEL, "--ratio", "8", "--force", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(out.stat().st_size, 9000)
        for words in (("expand", out, "--force", "-o", self.folder / "back.safetensors"), ("inspect", out), ("compare", MODEL, out)):
            done = self.gbcompress(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def refused(self, *words):
        done = self.gbcompress("eval", self.light_verbs_work(), "--data", "digits")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_sizes_and_tags(self):
        for wheel in self.wheels:
            self.assertLessEqual(wheel.stat().st_size, MOST, wheel)
        for wheel in (*self.wheels, self.train):
            self.assertRegex(wheel.name, r"-manylinux_2_\d+_(x86_64|aarch64)\.whl$")
        for wheel in self.wheels:  # CPython 3.12 and later share one
            self.assertRegex(wheel.name, "-(cp311-cp311|cp312-abi3)-")

    def test_no_library_but_the_systems_and_torch(self):
        for wheel in (*self.wheels, self.train):
            folder = self.folder / wheel.stem
            zipfile.ZipFile(wheel).extractall(folder)
            libraries = [f for f in folder.rglob("*") if f.is_file() and f.read_bytes()[:4] == b"\x7fELF"]
            self.assertGreater(len(libraries), 10 if wheel == self.train else 2)
            for file in libraries:
                self.assertFalse(re.search("torch|c10|cuda", file.name), file)
                others = {name for name in needed(file) if not OWN.fullmatch(name)} - SYSTEM
                trains = file.parent.name == "plugins" or re.match(r"libgbcompress(_verbs)?\.so", file.name)
                self.assertLessEqual(others, TORCH if trains else set(), file)
                paths = re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", run("readelf", "-d", file).stdout)
                self.assertTrue(all(p.startswith("$ORIGIN") for path in paths for p in path.split(":") if p), (file, paths))

    def test_manifests_are_of_the_plugins(self):
        self.use(self.whole)
        folder = self.own / "gbcompress_train/lib/gbcompress/plugins"
        done = run("sha256sum", "-c", *(f.name for f in folder.glob("*.sha256")), cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_needs_no_torch_alone(self):
        self.use(self.light, self.numpy())
        own = self.wheel.name.split("-")[1]
        self.refused("needs LibTorch", f"pip install gbcompress_train-{own}-*.whl")
        done = self.gbcompress("doctor")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^missing +LibTorch")
        self.assertIn(f"gbcompress_train-{own}-*.whl", done.stdout)

    def test_without_torch(self):
        self.use(self.whole, self.numpy())
        self.refused("needs LibTorch 2.11.0", "no torch is installed", "pip install torch==2.11.0")
        done = self.gbcompress("doctor")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, r"(?m)^BROKEN +LibTorch")
        self.assertIn("pip install torch==2.11.0", done.stdout)

    def test_the_torch_it_needs_is_what_pip_installs(self):
        names = zipfile.ZipFile(self.train)
        metadata = names.read(next(n for n in names.namelist() if n.endswith(".dist-info/METADATA"))).decode()
        own = self.wheel.name.split("-")[1]
        self.assertEqual(set(re.findall("^Requires-Dist: (.*)$", metadata, re.M)), {"torch==2.11.0", f"gbcompress=={own}"})

    def test_another_torch(self):
        other = self.folder / "other/torch"
        other.mkdir(parents=True)
        (other / "__init__.py").write_text("raise RuntimeError('nobody imports it')\n")
        (other / "version.py").write_text("__version__ = '2.10.1+cpu'\n")
        self.use(self.whole, self.numpy(), other.parent)
        self.refused("needs LibTorch 2.11.0", "is 2.10.1", "pip install torch==2.11.0")

    def test_trains_with_the_installed_torch(self):
        version = self.site / "torch/version.py"
        if not version.exists() or "'2.11.0" not in version.read_text():
            self.skipTest(f"{PYTHON} has no torch 2.11.0")
        self.use(self.whole, self.site)
        done = self.gbcompress("doctor")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for mode in ("quantized", "generated"):
            out = self.folder / f"{mode}.gbz"
            done = self.gbcompress("compress", "--from-scratch", "--arch", "mlp:64-16-10", "--data", "digits", "--epochs", "2",
                                   "--mode", mode, "--max-bytes", "2k", "--force", "-q", "-o", out)
            self.assertIn(done.returncode, (0, 4), done.stderr)
            done = self.gbcompress("eval", out, "--data", "digits", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)


for part in ("gbcompress", "gbcompress_train"):
    if not list(WHEELS.glob(f"{part}-*.whl")):
        print(f"skipped: there is no wheel of {part} in {WHEELS}; scripts/wheel builds both")
        sys.exit(77)
unittest.main()
