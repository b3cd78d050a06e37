"""Files that hold what changed since a base."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import Run, some_tensors
from safetensors.numpy import load_file as load_safetensors
from safetensors.numpy import save_file as save_safetensors

import gbcompress as gbc


def tuned(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A matrix moved a little, a vector anew, the rest as it was."""
    random = np.random.default_rng(7)
    moved = dict(tensors)
    weight = tensors["layers.0.weight"]
    moved["layers.0.weight"] = weight + 0.003 * random.standard_normal(weight.shape).astype(np.float32)
    moved["layers.0.bias"] = random.standard_normal(96).astype(np.float32)
    return moved


@pytest.fixture
def base(folder: Path) -> Path:
    save_safetensors(some_tensors(), folder / "base.safetensors")
    return folder / "base.safetensors"


def test_bytes_and_tensors_are_those_of_the_command_line(
    program: Run, folder: Path, base: Path
) -> None:
    tensors = tuned(some_tensors())
    save_safetensors(tensors, folder / "m.safetensors")
    program(
        "compress", folder / "m.safetensors", "-o", folder / "theirs.gbz", "--max-error", "1e-3",
        "--base", base,
    )  # fmt: skip
    report = gbc.save_file(tensors, folder / "ours.gbz", max_error=1e-3, base=base)
    assert (folder / "ours.gbz").read_bytes() == (folder / "theirs.gbz").read_bytes()
    assert {t.stored for t in report.tensors} >= {"as in the base", "base and integers"}
    plain = gbc.save_file(tensors, folder / "plain.gbz", max_error=1e-3)
    assert report.file_bytes < plain.file_bytes
    program("expand", folder / "ours.gbz", "--base", base, "-o", folder / "back.safetensors")
    theirs = load_safetensors(folder / "back.safetensors")
    ours = gbc.load_file(folder / "ours.gbz", base=base)
    for name, array in ours.items():
        assert array.tobytes() == theirs[name].tobytes(), name
    for name, array in gbc.iter_file(folder / "ours.gbz", base=base):
        assert array.tobytes() == theirs[name].tobytes(), name
    info = gbc.inspect(folder / "ours.gbz")
    changed = {t.name for t in info.tensors if not t.on_base}
    assert len(info.base) == 64 and "layers.0.bias" in changed and "norm.weight" not in changed


def test_a_gbz_may_be_the_base(folder: Path) -> None:
    gbc.save_file(some_tensors(), folder / "base.gbz", max_error=1e-2)
    loaded = gbc.load_file(folder / "base.gbz")
    gbc.save_file(loaded, folder / "m.gbz", max_error=1e-3, base=folder / "base.gbz")
    assert (folder / "m.gbz").stat().st_size < (folder / "base.gbz").stat().st_size / 10
    for name, array in gbc.load_file(folder / "m.gbz", base=folder / "base.gbz").items():
        assert array.tobytes() == loaded[name].tobytes(), name


def test_a_model_is_loaded_in_place(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model, other = torch.nn.Linear(40, 30), torch.nn.Linear(40, 30)
    gbc.save_file(model.state_dict(), folder / "base.gbz", lossless=True)
    with torch.no_grad():
        model.weight[3] += 0.25
    gbc.save_file(model.state_dict(), folder / "m.gbz", lossless=True, base=folder / "base.gbz")
    before = other.weight.clone()
    with pytest.raises(gbc.UsageError, match="name that one: base=FILE"):
        gbc.load_into(other, folder / "m.gbz")
    assert torch.equal(other.weight, before)
    gbc.load_into(other, folder / "m.gbz", base=folder / "base.gbz")
    assert torch.equal(other.weight, model.weight) and torch.equal(other.bias, model.bias)


def test_refusals_are_those_of_the_program(program: Run, folder: Path, base: Path) -> None:
    gbc.save_file(tuned(some_tensors()), folder / "m.gbz", ratio=9, base=base)
    gbc.save_file(some_tensors(), folder / "plain.gbz", ratio=9)
    save_safetensors(some_tensors(seed=1), folder / "other.safetensors")
    out = folder / "out.safetensors"
    for file, wrong in {
        "m.gbz": None, "plain.gbz": base, **dict.fromkeys(["m.gbz "], folder / "other.safetensors"),
    }.items():  # fmt: skip
        path = folder / file.strip()
        for load in (gbc.load_file, gbc.iter_file):
            with pytest.raises(gbc.UsageError) as caught:
                load(path, base=wrong)
        named = [] if wrong is None else ["--base", wrong]
        done = program("expand", path, "-o", out, *named, status=2)
        assert str(caught.value).replace("base=FILE", "--base FILE") in done.stderr
    with pytest.raises(gbc.UsageError, match="is a delta itself"):
        gbc.load_file(folder / "m.gbz", base=folder / "m.gbz")
    with pytest.raises(gbc.NotFound):
        gbc.load_file(folder / "m.gbz", base=folder / "none.gbz")
    wide = {**some_tensors(), "norm.weight": np.ones(97, np.float32)}
    with pytest.raises(gbc.ShapeMismatch, match="norm.weight"):
        gbc.save_file(wide, folder / "wide.gbz", ratio=9, base=base)
    assert not out.exists() and not (folder / "wide.gbz").exists()
