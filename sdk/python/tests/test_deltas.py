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
    assert len(info.bases[0]) == 64 and "layers.0.bias" in changed and "norm.weight" not in changed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_errors_of_a_full_fine_tune(program: Run, folder: Path, dtype: str) -> None:
    """Every parameter of a network trained on, stored as a delta: errors as NumPy measures them."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Embedding(200, 48), torch.nn.LayerNorm(48), torch.nn.Linear(48, 96),
        torch.nn.GELU(), torch.nn.Linear(96, 200),
    )  # fmt: skip
    words = torch.randint(0, 200, (40, 64))

    def train(steps: int, lr: float) -> dict[str, torch.Tensor]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        for step in range(steps):
            x = words[step % 40]
            loss = torch.nn.functional.cross_entropy(model(x), (7 * x + 3) % 200)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {k: v.detach().clone() for k, v in model.state_dict().items()}

    train(200, 3e-3)
    model.to(getattr(torch, dtype))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    after = train(60, 3e-4)
    save_torch(before, folder / "base.safetensors")
    save_torch(after, folder / "tuned.safetensors")

    def double(array: torch.Tensor) -> np.ndarray:
        return array.to(torch.float64).numpy()

    for most in (0.1, 0.001):
        report = gbc.save_file(
            after, folder / "d.gbz", max_error=most, base=folder / "base.safetensors", overwrite=True
        )
        assert report.target_met
        got = gbc.load_file(folder / "d.gbz", framework="torch", base=folder / "base.safetensors")
        error_sum = change_sum = 0.0
        for tensor in report.tensors:
            new, old = double(after[tensor.name]), double(before[tensor.name])
            error = np.sum((double(got[tensor.name]) - new) ** 2)
            change = np.sum((new - old) ** 2)
            assert error <= most * change, tensor
            share = error / change if change > 0 else 0.0  # bfloat16 swallows small changes
            assert tensor.change_error == pytest.approx(share, rel=1e-6, abs=1e-12)
            assert tensor.error == pytest.approx(error / np.sum(new**2), rel=1e-5, abs=1e-12)
            error_sum, change_sum = error_sum + error, change_sum + change
        assert report.change_error == pytest.approx(error_sum / change_sum, rel=1e-6)
        assert 0.001 * most < report.change_error <= most
        done = program(
            "compress", folder / "tuned.safetensors", "--base", folder / "base.safetensors",
            "--max-error", most, "-o", folder / "theirs.gbz", "--force",
        )  # fmt: skip
        assert (folder / "theirs.gbz").read_bytes() == (folder / "d.gbz").read_bytes()
        row = next(line for line in done.stdout.splitlines() if "of the change" in line)
        assert float(row.split()[-1]) == pytest.approx(error_sum / change_sum, rel=6e-3)


def test_a_base_that_saves_nothing_opens(folder: Path, base: Path) -> None:
    tensors = {"new": np.ones((3, 4), np.float32), "norm.weight": np.zeros(96, np.float32)}
    with pytest.warns(UserWarning, match="the base saves nothing: 0 of 2 tensors"):
        gbc.save_file(tensors, folder / "m.gbz", lossless=True, base=base)
    assert gbc.inspect(folder / "m.gbz").bases == ()
    for named in (None, base):
        assert (gbc.load_file(folder / "m.gbz", base=named)["new"] == 1).all()


def test_an_empty_change(folder: Path, base: Path) -> None:
    for more in ({"max_error": 0.01}, {"ratio": 9}, {"lossless": True}):
        with pytest.warns(UserWarning, match="the change is empty"):
            report = gbc.save_file(
                load_safetensors(base), folder / "m.gbz", base=base, overwrite=True, **more
            )
        assert report.change_error == 0 and report.target_met
        loaded = gbc.load_file(folder / "m.gbz", base=base)
        assert all(loaded[k].tobytes() == v.tobytes() for k, v in load_safetensors(base).items())


def test_a_packed_folder_may_be_the_base(program: Run, folder: Path, base: Path) -> None:
    (folder / "model").mkdir()
    base.rename(folder / "model" / "model.safetensors")
    program("compress", folder / "model", "-o", f"{folder}/packed/", "--max-error", "1e-3")
    known = gbc.load_file(folder / "packed" / "model.gbz")
    report = gbc.save_file(
        tuned(known), folder / "m.gbz", max_error=1e-2, base=folder / "packed"
    )
    assert report.change_error is not None and report.change_error <= 1e-2
    loaded = gbc.load_file(folder / "m.gbz", base=folder / "packed")
    assert loaded["norm.weight"].tobytes() == known["norm.weight"].tobytes()


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
    save_safetensors(some_tensors(seed=1), folder / "other.safetensors")
    out = folder / "out.safetensors"
    for file, wrong in {
        "m.gbz": None, **dict.fromkeys(["m.gbz "], folder / "other.safetensors"),
    }.items():  # fmt: skip
        path = folder / file.strip()
        for load in (gbc.load_file, gbc.iter_file):
            with pytest.raises(gbc.UsageError) as caught:
                load(path, base=wrong)
        named = [] if wrong is None else ["--base", wrong]
        done = program("expand", path, "-o", out, *named, status=2)
        assert str(caught.value).replace("base=FILE", "--base FILE") in done.stderr
    with pytest.raises(gbc.UsageError, match="another base"):
        gbc.load_file(folder / "m.gbz", base=folder / "m.gbz")
    with pytest.raises(gbc.NotFound):
        gbc.load_file(folder / "m.gbz", base=folder / "none.gbz")
    wide = {**some_tensors(), "norm.weight": np.ones(97, np.float32)}
    gbc.save_file(wide, folder / "wide.gbz", ratio=9, base=base)  # the tensor of another shape is stored whole
    assert np.array_equal(gbc.load_file(folder / "wide.gbz", base=base)["norm.weight"], wide["norm.weight"])
    assert not out.exists()


def test_the_base_is_found_beside_a_file_of_an_archive(program: Run, folder: Path) -> None:
    random = np.random.default_rng(5)
    first = {"w": random.normal(size=(64, 256)).astype(np.float32)}
    second = {"w": first["w"] * np.where(random.random((64, 256)) < 0.05, np.float32(1.001), np.float32(1))}
    save_safetensors(first, folder / "first.safetensors")
    save_safetensors(second, folder / "second.safetensors")
    program("compress", "--lossless", folder / "first.safetensors", folder / "second.safetensors", "-o", f"{folder}/archive/")
    assert gbc.inspect(folder / "archive" / "second.gbz").bases
    np.testing.assert_array_equal(gbc.load_file(folder / "archive" / "second.gbz")["w"], second["w"])
    with gbc.open(folder / "archive" / "second.gbz") as file:
        np.testing.assert_array_equal(file.get_slice("w")[3:9], second["w"][3:9])
    (folder / "archive" / "first.gbz").unlink()
    with pytest.raises(gbc.UsageError, match="no file beside it is; name that one: base=FILE"):
        gbc.load_file(folder / "archive" / "second.gbz")
