"""samples/07_model_in_a_wheel: built, installed and imported, with a small model."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gbcompress as gbc

SAMPLE = Path(__file__).parents[3] / "samples" / "07_model_in_a_wheel"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scikit_build_core", reason="builds the sample's wheel")
    place = tmp_path_factory.mktemp("sample") / "model"
    shutil.copytree(SAMPLE, place, ignore=shutil.ignore_patterns("*.gbz", "dist"))
    return place


def run(*arguments: object) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_carries_the_model_and_loads_it(sample: Path) -> None:
    printed = run(sample / "make_model.py", "--width", 96, "--hidden", 160)
    model = sample / "small_embedder" / "model.gbz"
    assert f"in {model.stat().st_size:,}" in printed
    run(
        "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w", sample / "dist", sample
    )  # fmt: skip
    (wheel,) = (sample / "dist").glob("small_embedder-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "small_embedder/model.gbz" in names and "make_model.py" not in names
    fp32 = sum(4 * tensor.size for tensor in gbc.load_file(model).values())
    assert wheel.stat().st_size < fp32 / 8 + 5000  # beside the model: code and metadata
    site = sample / "site"
    run("-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); import numpy, small_embedder; "
        "print(small_embedder.__file__); "
        "numpy.save(sys.argv[1], small_embedder.embed(numpy.eye(4, 96, dtype=numpy.float32)))"
    )
    assert str(site) in run("-c", code, sample / "rows.npy")
    got = np.load(sample / "rows.npy")
    assert got.shape == (4, 96) and np.allclose(np.linalg.norm(got, axis=1), 1, atol=1e-5)
    loaded = gbc.load_file(model)
    hidden = np.maximum(loaded["up.weight"].T[:4] + loaded["up.bias"], 0)
    values = hidden @ loaded["down.weight"].T + loaded["down.bias"]
    np.testing.assert_allclose(got, values / np.linalg.norm(values, axis=1, keepdims=True), rtol=1e-4, atol=1e-5)
