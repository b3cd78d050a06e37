"""The wheel: small, self-contained, without torch."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gbcompress as gbc
from gbcompress import _core

#: Of the system; everything else travels in the wheel.
SYSTEM = {
    "linux-vdso.so.1", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6",
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libpthread.so.0", "libdl.so.2",
}  # fmt: skip


def wheel() -> Path:
    found = list((Path(gbc.__file__).parents[2] / "wheels").glob("gbcompress-*.whl"))
    if not found:
        pytest.skip("the package was not installed from a wheel in the build tree")
    return found[0]


@pytest.mark.parametrize("what", ["module", "program"])
def test_no_library_but_the_systems(what: str) -> None:
    module = Path(str(_core.__file__))
    file = module if what == "module" else module.parent / "bin/gbcompress"
    done = subprocess.run(["ldd", file], capture_output=True, text=True, check=True)
    needed = {line.split()[0].rsplit("/", 1)[-1]: line for line in done.stdout.splitlines()}
    inside = {name for name, line in needed.items() if str(module.parent) in line}
    assert inside == {"libgbcompress_core.so", "libhwy.so.1"}
    assert set(needed) - inside <= SYSTEM


def test_wheel_is_small_and_typed() -> None:
    path = wheel()
    assert path.stat().st_size <= 3_000_000
    names = zipfile.ZipFile(path).namelist()
    assert "gbcompress/py.typed" in names and "gbcompress/_core.pyi" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tag = "abi3" if sys.version_info >= (3, 12) else f"cp3{sys.version_info.minor}"
    assert tag in path.name


def test_import_loads_no_torch() -> None:
    code = "import sys, gbcompress; assert 'torch' not in sys.modules, 'torch'"
    subprocess.run([sys.executable, "-c", code], check=True)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gbcompress", *map(str, arguments)], capture_output=True, text=True)


def test_the_command_travels_along(tmp_path: Path) -> None:
    names = zipfile.ZipFile(wheel()).namelist()
    assert any(name.endswith("share/man/man1/gbcompress-compress.1") for name in names)
    assert any(name.endswith("share/bash-completion/completions/gbcompress") for name in names)
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert b"gbcompress = gbcompress._command:main" in zipfile.ZipFile(wheel()).read(entry).splitlines()
    values = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    gbc.save_file({"w": values}, tmp_path / "exact.gbz", lossless=True)
    steps = (["expand", tmp_path / "exact.gbz", "-o", tmp_path / "m.safetensors"],
             ["compress", tmp_path / "m.safetensors", "--ratio", 8, "-o", tmp_path / "m.gbz", "-q",
              "--report", tmp_path / "m.html"],
             ["compare", tmp_path / "m.safetensors", tmp_path / "m.gbz"],
             ["inspect", tmp_path / "m.gbz"])  # fmt: skip
    for step in steps:
        done = command(*step)
        assert (done.returncode, done.stderr) == (0, ""), step
    gbc.save_file({"w": values}, tmp_path / "python.gbz", ratio=8)
    assert np.array_equal(gbc.load_file(tmp_path / "m.gbz")["w"], gbc.load_file(tmp_path / "python.gbz")["w"])


def test_the_commands_training_verbs_say_what_to_do() -> None:
    done = command("eval", "m.gbz", "--data", "digits")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "gbcompress.prepare()" in done.stderr
    assert command("compres").returncode == 2


def test_version_is_the_programs() -> None:
    header = Path(__file__).parents[3] / "core/include/gbcompress/version.h"
    numbers = [line.split()[2] for line in header.read_text().splitlines() if "#define GBC_VERSION_M" in line or "#define GBC_VERSION_P" in line]
    assert gbc.__version__ == ".".join(numbers)
    assert f"-{gbc.__version__}-" in wheel().name
    assert command("--version").stdout == f"gbcompress {gbc.__version__}\n"


def test_dir_is_what_the_package_offers() -> None:
    public = {name for name in dir(gbc) if not name.startswith("__")}
    assert public == {name for name in gbc.__all__ if not name.startswith("__")} | {"open"}
    pytest.importorskip("torch")
    for name in public:
        assert getattr(gbc, name) is not None
