"""What is refused, and in which words."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

import gbcompress as gbc


@pytest.fixture
def saved(folder: Path, tensors: dict) -> Path:
    gbc.save_file(tensors, folder / "m.gbz", ratio=4)
    return folder / "m.gbz"


def test_damage_is_told_as_the_program_tells_it(program: Run, saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    for what, damaged in {
        "flipped": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "cut": data[:-10],
        "short": data[:3],
        "strange": b"PK\3\4" + data[4:],
        "newer": b"GBZ3" + data[4:-16] + hashlib.sha256(b"GBZ3" + data[4:-16]).digest()[:16],
    }.items():
        path = saved.with_name(f"{what}.gbz")
        path.write_bytes(damaged)
        with pytest.raises(gbc.GbzError) as caught:
            gbc.load_file(path)
        with pytest.raises(gbc.GbzError):
            gbc.inspect(path)
        with pytest.raises(gbc.GbzError):
            gbc.iter_file(path)
        done = program("expand", path, "-o", saved.with_name("x.safetensors"), status=3)
        assert done.stderr.removeprefix("gbcompress: ").strip() in str(caught.value), what
    assert caught.value.code == "unsupported" and "upgrade" in str(caught.value)


def test_a_missing_file_and_a_large_one(saved: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist") as caught:
        gbc.load_file(saved.with_name("none.gbz"))
    assert isinstance(caught.value, gbc.NotFound) and caught.value.code == "not_found"
    with pytest.raises(gbc.GbzError) as limit:
        gbc.load_file(saved, max_output=1000)
    assert limit.value.code == "limit"


def test_a_layer_type_that_needs_its_plugin(folder: Path) -> None:
    import os
    import subprocess

    fixtures = os.environ.get("GBCOMPRESS_FIXTURES")
    if not fixtures:
        pytest.skip("GBCOMPRESS_FIXTURES does not name the program that writes such a file")
    subprocess.run([fixtures, str(folder)], check=True, capture_output=True)
    path = folder / "ghost.gbz"
    with pytest.raises(gbc.GbzError, match="whose plugin is needed") as caught:
        gbc.load_file(path)
    assert caught.value.code == "unsupported"
    plugin = next(t.plugin for t in gbc.inspect(path).tensors if t.plugin)
    assert plugin in str(caught.value)


def test_an_existing_file_stays(saved: Path, tensors: dict) -> None:
    before = saved.read_bytes()
    with pytest.raises(FileExistsError, match="exists; give overwrite=True"):
        gbc.save_file(tensors, saved, ratio=9)
    assert saved.read_bytes() == before
    gbc.save_file(tensors, saved, ratio=9, overwrite=True)
    assert len(saved.read_bytes()) < len(before)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "there is no target; give one of ratio"),
        ({"ratio": 4, "max_bytes": 10}, "ratio and max_bytes contradict each other"),
        ({"lossless": True, "max_error": 0.1}, "max_error and lossless contradict each other"),
        ({"ratio": 0}, "above 1"),
        ({"ratio": 1}, "ratio must be above 1, got 1; save_file"),
        ({"ratio": 0.5}, "ratio must be above 1, got 0.5; save_file"),
        ({"ratio": float("nan")}, "ratio must be finite, got nan"),
        ({"max_bytes": 0}, "max_bytes must be at least 1, got 0"),
        ({"max_error": 1.5}, "max_error must be above 0 and below 1, got 1.5"),
        ({"max_error": 0.0}, "max_error must be above 0 and below 1, got 0.0"),
        ({"ratio": 4, "metadata": {"a": 1}}, "metadata must map text to text, got 'a': 1"),
    ],
)
def test_settings(folder: Path, tensors: dict, settings: dict, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.save_file(tensors, folder / "m.gbz", **settings)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(4, np.complex128), "w has the element type complex128"),
        (np.array(["a"]), "w has the element type"),
        (np.zeros(4, ">f4"), "w is big-endian"),
        ([1.0, 2.0], "w is a list; pass a NumPy array or a torch tensor"),
    ],
)
def test_tensors(folder: Path, value: object, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.save_file({"w": value}, folder / "m.gbz", lossless=True)  # type: ignore[dict-item]


def test_names(folder: Path) -> None:
    array = np.zeros(4, np.float32)
    with pytest.raises(gbc.UsageError, match="names of tensors must be text, got 3"):
        gbc.save_file({3: array}, folder / "m.gbz", lossless=True)  # type: ignore[dict-item]
    with pytest.raises(gbc.GbzError):
        gbc.save_file({"a\nb": array}, folder / "m.gbz", lossless=True)
    with pytest.raises(gbc.GbzError) as caught:
        gbc.save_file({"a" * 600: array}, folder / "m.gbz", lossless=True)
    assert caught.value.code == "limit"


def test_numbers_that_are_not_finite(folder: Path) -> None:
    mask = np.triu(np.full((32, 32), -np.inf, np.float32), 1)
    gbc.save_file({"mask": mask}, folder / "mask.gbz", ratio=4)
    assert gbc.load_file(folder / "mask.gbz")["mask"].tobytes() == mask.tobytes()
    broken = np.ones((32, 32), np.float32)
    broken[3, 4] = np.nan
    for target in ({"ratio": 1.5}, {"max_error": 0.01}, {"lossless": True}):
        with pytest.warns(UserWarning, match=r"w \(1 value, row 3\)"):
            report = gbc.save_file({"w": broken}, folder / "m.gbz", overwrite=True, **target)
        assert len(report.notes) == 1
        assert gbc.load_file(folder / "m.gbz")["w"].tobytes() == broken.tobytes()


def test_a_framework_that_is_none(saved: Path) -> None:
    with pytest.raises(gbc.UsageError, match="'numpy' or 'torch'"):
        gbc.load_file(saved, framework="jax")  # type: ignore[call-overload]
