"""The folders that `gbcompress compress FOLDER -o OUT/` writes, as files and as bases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import Run, some_tensors
from safetensors.numpy import save_file as save_safetensors
from test_deltas import tuned

import gbcompress as gbc


@pytest.fixture
def packed(program: Run, folder: Path) -> Path:
    (folder / "model").mkdir()
    save_safetensors(some_tensors(), folder / "model" / "model.safetensors", {"format": "pt"})
    (folder / "model" / "config.json").write_text("{}")
    program("compress", folder / "model", "-o", f"{folder}/packed/", "--max-error", "1e-2")
    assert {p.name for p in (folder / "packed").iterdir()} == {"model.gbz", "config.json"}
    return folder / "packed"


def test_packed_folders_are_loaded(packed: Path) -> None:
    whole = gbc.load_file(packed / "model.gbz")
    for loaded in (gbc.load_file(packed), gbc.load_file(f"{packed}/"), dict(gbc.iter_file(packed))):
        assert loaded.keys() == whole.keys()
        for name, array in loaded.items():
            assert array.tobytes() == whole[name].tobytes(), name
    assert gbc.inspect(packed) == gbc.inspect(packed / "model.gbz")
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 2)
    path = packed.parent / "torch"
    path.mkdir()
    gbc.save_file(model.state_dict(), path / "any-name.gbz", lossless=True)
    other = torch.nn.Linear(3, 2)
    gbc.load_into(other, path)
    assert torch.equal(other.weight, model.weight)


def test_packed_folders_are_bases(packed: Path, folder: Path) -> None:
    loaded = gbc.load_file(packed)
    tensors = tuned(loaded)
    gbc.save_file(tensors, folder / "a.gbz", max_error=1e-3, base=packed)
    gbc.save_file(tensors, folder / "b.gbz", max_error=1e-3, base=packed / "model.gbz")
    assert (folder / "a.gbz").read_bytes() == (folder / "b.gbz").read_bytes()
    back = gbc.load_file(folder / "a.gbz", base=packed / "model.gbz")
    for name, array in gbc.load_file(folder / "b.gbz", base=packed).items():
        assert array.tobytes() == back[name].tobytes(), name


def test_folders_that_are_no_models(packed: Path, folder: Path) -> None:
    (folder / "empty").mkdir()
    for read in (gbc.load_file, gbc.iter_file, gbc.inspect):
        with pytest.raises(gbc.NotFound, match="empty is a folder that holds no .gbz file"):
            read(folder / "empty")
    (packed / "other.gbz").write_bytes((packed / "model.gbz").read_bytes())
    for read in (gbc.load_file, gbc.iter_file, gbc.inspect):
        with pytest.raises(gbc.UsageError, match="several .gbz files; name one"):
            read(packed)
    (packed / "other.gbz").unlink()
    data = (packed / "model.gbz").read_bytes()
    (packed / "model.gbz").write_bytes(data[: len(data) // 2])
    for read in (gbc.load_file, gbc.iter_file, gbc.inspect):
        with pytest.raises(gbc.GbzError, match="model.gbz"):
            read(packed)


def test_a_delta_without_its_own_base_is_no_base(packed: Path, folder: Path) -> None:
    (folder / "delta").mkdir()
    tensors = tuned(gbc.load_file(packed))
    gbc.save_file(tensors, folder / "delta" / "model.gbz", max_error=1e-3, base=packed)
    with pytest.raises(gbc.NotFound, match="model.gbz needs the model with the digest"):
        gbc.save_file(tensors, folder / "m.gbz", max_error=1e-3, base=folder / "delta")
    assert not (folder / "m.gbz").exists()
    for name, array in gbc.load_file(folder / "delta", base=packed).items():
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(array, tensors[name])


@pytest.mark.parametrize("overwrite", [False, True])
def test_no_file_of_a_packed_base_is_replaced(packed: Path, overwrite: bool) -> None:
    before = (packed / "model.gbz").read_bytes()
    with pytest.raises(gbc.UsageError, match="is the base, which is read"):
        gbc.save_file(
            some_tensors(), packed / "model.gbz", max_error=1e-3, base=packed, overwrite=overwrite
        )
    assert (packed / "model.gbz").read_bytes() == before


def test_names_of_weights_are_kept(program: Run, folder: Path) -> None:
    (folder / "lora").mkdir()
    save_safetensors(some_tensors(), folder / "lora" / "adapter_model.safetensors", {"format": "pt"})
    (folder / "lora" / "adapter_config.json").write_text("{}")
    gbc.compress_folder(folder / "lora", folder / "packed", lossless=True)
    assert {p.name for p in (folder / "packed").iterdir()} == {"adapter_model.gbz", "adapter_config.json"}
    for name, array in gbc.load_file(folder / "packed").items():
        assert array.tobytes() == some_tensors()[name].tobytes(), name
    program("expand", folder / "packed", "-o", f"{folder}/back/")
    assert {p.name for p in (folder / "back").iterdir()} == {"adapter_model.safetensors", "adapter_config.json"}


def test_pipelines_name_their_components(program: Run, folder: Path) -> None:
    for part in ("unet", "vae"):
        (folder / "pipe" / part).mkdir(parents=True)
        save_safetensors(some_tensors(), folder / "pipe" / part / "diffusion_pytorch_model.safetensors")
    with pytest.raises(gbc.NotFound, match="its subfolders do: unet, vae"):
        gbc.compress_folder(folder / "pipe", folder / "packed", lossless=True)
    program("compress", folder / "pipe", "--lossless", "-o", f"{folder}/packed/")
    assert gbc.load_file(folder / "packed" / "vae").keys() == some_tensors().keys()
    with pytest.raises(gbc.NotFound, match="its subfolders hold models: unet, vae"):
        gbc.load_file(folder / "packed")
