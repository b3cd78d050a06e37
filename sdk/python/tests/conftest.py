"""What the tests share. GBCOMPRESS names the command line's program, GBCOMPRESS_FIXTURES the one
that writes files which need a plugin."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def program() -> Run:
    """Runs the command line's program; its exit status is checked."""
    path = os.environ.get("GBCOMPRESS")
    if not path:
        pytest.skip("GBCOMPRESS does not name the program")

    def run(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [path, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done

    return run


def some_tensors(seed: int = 0, size: int = 96) -> dict[str, np.ndarray]:
    """Matrices, vectors, whole numbers, constants and a scalar."""
    random = np.random.default_rng(seed)
    return {
        "layers.0.weight": random.standard_normal((size, 2 * size)).astype(np.float32) * 0.1,
        "layers.0.bias": random.standard_normal(size).astype(np.float32),
        "layers.1.weight": random.laplace(size=(40, size)).astype(np.float16),
        "layers.1.conv": random.standard_normal((16, 8, 3, 3)).astype(np.float64),
        "norm.weight": np.ones(size, np.float32),
        "tokens": random.integers(-5, 5, (300,)).astype(np.int64),
        "mask": np.arange(70) % 3 == 0,
        "empty": np.empty((0, 4), np.float32),
        "scale": np.array(0.125, np.float32),
    }


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    return some_tensors()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
