"""The wheel: small, self-contained, without torch."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

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


def test_no_library_but_the_systems() -> None:
    module = Path(str(_core.__file__))
    done = subprocess.run(["ldd", module], capture_output=True, text=True, check=True)
    needed = {line.split()[0].rsplit("/", 1)[-1]: line for line in done.stdout.splitlines()}
    inside = {name for name, line in needed.items() if str(module.parent) in line}
    assert inside == {"libhwy.so.1"}
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


def test_version_is_the_programs() -> None:
    header = Path(__file__).parents[3] / "core/include/gbcompress/version.h"
    numbers = [line.split()[2] for line in header.read_text().splitlines() if "#define GBC_VERSION_M" in line or "#define GBC_VERSION_P" in line]
    assert gbc.__version__ == ".".join(numbers)
    assert f"-{gbc.__version__}-" in wheel().name
