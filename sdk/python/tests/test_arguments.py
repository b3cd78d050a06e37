"""Arguments of the wrong kind, without effect, or that name an input as the output: each is refused
with a sentence that says what to pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import some_tensors
from safetensors.numpy import save_file as save_safetensors

import gbcompress as gbc

W = {"w": np.ones((4, 4), np.float32)}


class Strange:
    pass


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ("m.safetensors", "got the text 'm.safetensors'; pass the tensors first"),
        (Path("m.pt"), "got the path 'm.pt'; pass the tensors first"),
        ([np.ones(3)], "got a list; give each tensor its name"),
        (iter([]), "give each tensor its name"),
        (np.ones(3), 'got a ndarray; pass {"name": tensor}|got an ndarray; pass {"name": tensor}'),
        (None, "got None; pass a dict"),
        (Strange(), "got a Strange; pass a dict"),
        (3, "got an int; pass a dict"),
    ],
)
def test_save_file_takes_a_dict(folder: Path, tensors: object, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.save_file(tensors, folder / "m.gbz", ratio=4)  # type: ignore[arg-type]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("filename", [None, 3, b"m.gbz", W, "", "a\0b", "m\udcff.gbz"])
def test_names_of_files(folder: Path, filename: object) -> None:
    for call in (
        lambda: gbc.save_file(W, filename, ratio=4),  # type: ignore[arg-type]
        lambda: gbc.load_file(filename),  # type: ignore[arg-type]
        lambda: gbc.iter_file(filename),  # type: ignore[arg-type]
        lambda: gbc.inspect(filename),  # type: ignore[arg-type]
    ):
        with pytest.raises(gbc.UsageError, match="filename (must be a path, got|is empty|is not UTF-8|contains)"):
            call()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ratio": "8"}, "ratio must be a number, got '8'"),
        ({"ratio": True}, "ratio must be a number, got True"),
        ({"ratio": float("inf")}, "ratio must be finite, got inf"),
        ({"max_bytes": 1000.5}, "max_bytes must be an integer, got 1000.5"),
        ({"max_bytes": 1e30}, "max_bytes must be below 2\\^63"),
        ({"max_error": [1e-3]}, "max_error must be a number"),
        ({"lossless": "yes"}, "lossless must be True or False, got 'yes'"),
        ({"ratio": 4, "exact": "w"}, r"exact must be a list of names, got 'w'; write exact=\['w'\]"),
        ({"ratio": 4, "exact": ["head.*"]}, "exact='head.\\*' matches no tensor"),
        ({"ratio": 4, "exact": [3]}, "exact must be a list of names, got an int in it"),
        ({"ratio": 4, "threads": -1}, "threads must be at least 0, got -1"),
        ({"ratio": 4, "metadata": "pt"}, "metadata must be a dict of text, got the text 'pt'"),
        ({"ratio": 4, "base": W}, "base must be a path, got a dict"),
        ({"ratio": 4, "overwrite": 1}, "overwrite must be True or False, got 1"),
    ],
)
def test_settings_of_save_file(folder: Path, settings: dict, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.save_file(W, folder / "m.gbz", **settings)
    assert list(folder.iterdir()) == []


def test_a_whole_number_may_be_written_as_a_float(folder: Path) -> None:
    tensors = some_tensors()
    gbc.save_file(tensors, folder / "a.gbz", max_bytes=2e4)
    gbc.save_file(tensors, folder / "b.gbz", max_bytes=np.int64(20000))
    assert (folder / "a.gbz").read_bytes() == (folder / "b.gbz").read_bytes()


def test_settings_of_load_file(folder: Path) -> None:
    gbc.save_file(W, folder / "m.gbz", lossless=True)
    for settings, words in (
        ({"device": "cpu"}, "device has no effect on NumPy arrays; give framework='torch'"),
        ({"max_output": 0}, "max_output must be at least 1, got 0"),
        ({"max_output": "1GB"}, "max_output must be a number, got '1GB'"),
        ({"threads": 1.5}, "threads must be an integer, got 1.5"),
        ({"base": 3}, "base must be a path, got an int"),
    ):
        with pytest.raises(gbc.UsageError, match=words):
            gbc.load_file(folder / "m.gbz", **settings)  # type: ignore[arg-type]


def test_modules_and_dicts_in_place_of_each_other(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 4)
    path = folder / "m.gbz"
    with pytest.raises(gbc.UsageError, match=r"got a torch module \(Linear\); pass model.state_dict\(\)"):
        gbc.save_file(model, path, ratio=4)
    with pytest.raises(gbc.UsageError, match='got a torch tensor; pass {"name": tensor}'):
        gbc.save_file(model.weight.detach(), path, ratio=4)
    gbc.save_file(model.state_dict(), path, lossless=True)
    for wrong, words in (
        (path, "pass the model first and the file to read second"),
        (str(path), "pass the model first and the file to read second"),
        ([model], "got a list; pass the model"),
        (None, "got None; pass the model"),
    ):
        with pytest.raises(gbc.UsageError, match=words):
            gbc.load_into(wrong, path)
    with pytest.raises(gbc.UsageError, match=r"filename must be a path, got a torch module"):
        gbc.load_into(model, model)


# The output is never an input.


def other_names(folder: Path, path: Path) -> dict[str, str]:
    """Names of the same file."""
    os.symlink(path, folder / "symbolic")
    os.link(path, folder / "hard")
    (folder / "below").mkdir()
    os.symlink(folder, folder / "below" / "up")
    return {
        "itself": str(path),
        "relative": os.path.relpath(path),
        "through ..": str(folder / "below" / ".." / path.name),
        "symbolic link": str(folder / "symbolic"),
        "hard link": str(folder / "hard"),
        "folder link": str(folder / "below" / "up" / path.name),
    }


@pytest.mark.parametrize("kind", ["safetensors", "gbz"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_is_never_the_base(folder: Path, kind: str, overwrite: bool) -> None:
    tensors = some_tensors()
    base = folder / f"base.{kind}"
    if kind == "gbz":
        gbc.save_file(tensors, base, lossless=True)
    else:
        save_safetensors(tensors, base)
    before = base.read_bytes()
    for what, name in other_names(folder, base).items():
        with pytest.raises(gbc.UsageError, match="is the base, which is read; write another file"):
            gbc.save_file(tensors, name, max_error=1e-3, base=base, overwrite=overwrite)
        assert base.read_bytes() == before, what
    assert sorted(p.name for p in folder.iterdir()) == sorted(["below", base.name, "hard", "symbolic"])


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_is_not_the_statistics(folder: Path, overwrite: bool) -> None:
    tensors = some_tensors()
    path = folder / "statistics.safetensors"
    save_safetensors({"x.input_mean": np.ones(3, np.float32)}, path)
    before = path.read_bytes()
    for name in other_names(folder, path).values():
        with pytest.raises(gbc.UsageError, match="holds the statistics, which are read; write another file"):
            gbc.save_file(tensors, name, ratio=4, statistics=path, overwrite=overwrite)
    assert path.read_bytes() == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_is_no_file_of_the_bases_folder(folder: Path, overwrite: bool) -> None:
    tensors = some_tensors()
    (folder / "model").mkdir()
    save_safetensors(tensors, folder / "model" / "model.safetensors")
    (folder / "out").symlink_to(folder / "model")
    before = (folder / "model" / "model.safetensors").read_bytes()
    for name in ("model", "out"):
        with pytest.raises(gbc.UsageError, match="is the base"):
            gbc.save_file(
                tensors, folder / name / "model.safetensors", ratio=4, base=folder / "model",
                overwrite=overwrite,
            )  # fmt: skip
    assert (folder / "model" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_is_no_file_that_arrays_are_mapped_from(folder: Path, overwrite: bool) -> None:
    path = folder / "weights.npy"
    np.save(path, np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    before = path.read_bytes()
    mapped = np.load(path, mmap_mode="r")
    for name in other_names(folder, path).values():
        for array in (mapped, mapped[:32]):
            with pytest.raises(gbc.UsageError, match="is the file that w is mapped from"):
                gbc.save_file({"w": np.asarray(array)}, name, ratio=4, overwrite=overwrite)
    assert path.read_bytes() == before
    gbc.save_file({"w": mapped}, folder / "m.gbz", ratio=4)


def test_the_output_is_no_file_that_tensors_are_mapped_from(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file as load_torch
    from safetensors.torch import save_file as save_torch

    model = torch.nn.Linear(32, 32)
    torch.save(model.state_dict(), folder / "m.pt")
    before = (folder / "m.pt").read_bytes()
    os.link(folder / "m.pt", folder / "hard")
    state = torch.load(folder / "m.pt", mmap=True, weights_only=True)
    for name in ("m.pt", "hard"):
        with pytest.raises(gbc.UsageError, match="is the file that weight is mapped from"):
            gbc.save_file(state, folder / name, ratio=4, overwrite=True)
    save_torch(model.state_dict(), folder / "m.safetensors")
    tensors = load_torch(folder / "m.safetensors")
    with pytest.raises(gbc.UsageError, match="is the file that (weight|bias) is mapped from"):
        gbc.save_file(tensors, folder / "m.safetensors", ratio=4, overwrite=True)
    model.load_state_dict(state, assign=True)
    model.bias.requires_grad_(True)
    optimizer = torch.optim.Adam(model.parameters())
    c = gbc.prepare(model, optimizer, rate_weight=0.1, predictions=10, steps=10)
    for name in ("m.pt", "hard"):
        with pytest.raises(gbc.UsageError, match="is mapped from; write another file"):
            c.save(folder / name, overwrite=True)
    assert (folder / "m.pt").read_bytes() == before
    c.save(folder / "m.gbz")


def test_wrong_files(folder: Path) -> None:
    """Missing, empty, cut and folders, for every function that reads one."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 4)
    gbc.save_file(model.state_dict(), folder / "m.gbz", lossless=True)
    whole = (folder / "m.gbz").read_bytes()
    (folder / "empty").mkdir()
    (folder / "none.gbz").write_bytes(b"")
    reads: list[Callable[[Path], object]] = [
        gbc.load_file,
        gbc.iter_file,
        gbc.inspect,
        lambda path: gbc.load_into(model, path),
        lambda path: gbc.load_file(folder / "m.gbz", base=path),
        lambda path: gbc.save_file(W, folder / "out.gbz", ratio=4, base=path),
    ]
    for read in reads:
        for name in ("missing.gbz", "none.gbz", "empty"):
            with pytest.raises(gbc.GbzError):
                read(folder / name)
        for cut in (1, 10, len(whole) // 2, len(whole) - 1):
            (folder / "cut.gbz").write_bytes(whole[:cut])
            with pytest.raises(gbc.GbzError):
                read(folder / "cut.gbz")
    assert not (folder / "out.gbz").exists()
