"""Tensors and modules of torch in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import Run

import gbcompress as gbc

torch = pytest.importorskip("torch")
nn = torch.nn


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(60, 32)
        self.norm = nn.BatchNorm1d(32)
        self.head = nn.Linear(32, 60, bias=False)
        self.head.weight = self.embedding.weight


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    made = Tied()
    made.norm(torch.randn(64, 32))
    return made


def test_a_state_dict_is_the_file_of_the_command_line(program: Run, folder: Path) -> None:
    state = model().state_dict()
    torch.save(state, folder / "m.pt")
    size = (folder / "m.pt").stat().st_size // 5
    program("compress", folder / "m.pt", "-o", folder / "theirs.gbz", "--max-bytes", size)
    gbc.save_file(state, folder / "ours.gbz", max_bytes=size)
    assert (folder / "ours.gbz").read_bytes() == (folder / "theirs.gbz").read_bytes()
    assert [t.tied_to for t in gbc.inspect(folder / "ours.gbz").tensors].count(None) == 6


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "uint8"])
def test_every_bit_of_every_type(folder: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    tensor = (torch.randn(40, 50) * 8).abs().to(kind)
    report = gbc.save_file({"w": tensor, "n": tensor[0, 0]}, folder / "m.gbz", lossless=True)
    loaded = gbc.load_file(folder / "m.gbz", framework="torch")
    assert loaded["w"].dtype == kind and loaded["n"].shape == ()
    assert torch.equal(loaded["w"].view(torch.uint8), tensor.view(torch.uint8))
    assert report.error == 0


def test_bfloat16_weights_are_rounded_to_bfloat16(folder: Path) -> None:
    tensor = torch.randn(128, 96).to(torch.bfloat16)
    gbc.save_file({"w": tensor}, folder / "m.gbz", max_error=1e-2)
    loaded = gbc.load_file(folder / "m.gbz", framework="torch")["w"]
    assert loaded.dtype == torch.bfloat16
    error = (loaded.double() - tensor.double()).square().sum() / tensor.double().square().sum()
    assert 1e-3 < error <= 1e-2


def test_a_model_is_loaded_in_place(folder: Path) -> None:
    source, target = model(0), model(1)
    gbc.save_file(source.state_dict(), folder / "m.gbz", lossless=True)
    memory = [p.data_ptr() for p in target.parameters()]
    assert gbc.load_into(target, folder / "m.gbz") == ([], [])
    assert memory == [p.data_ptr() for p in target.parameters()]
    for name, value in target.state_dict().items():
        assert torch.equal(value, source.state_dict()[name]), name
    half = model(2).to(torch.bfloat16)
    gbc.load_into(half, folder / "m.gbz")
    assert torch.equal(half.embedding.weight, source.embedding.weight.to(torch.bfloat16))


def test_a_model_that_does_not_fit_is_not_changed(folder: Path) -> None:
    source = model(0)
    gbc.save_file(source.state_dict(), folder / "m.gbz", lossless=True)
    other = nn.Module()
    other.embedding = nn.Embedding(60, 32)
    other.extra = nn.Linear(2, 2)
    before = other.embedding.weight.clone()
    with pytest.raises(gbc.ShapeMismatch, match="the file lacks extra.weight"):
        gbc.load_into(other, folder / "m.gbz")
    assert torch.equal(other.embedding.weight, before)
    missing, unexpected = gbc.load_into(other, folder / "m.gbz", strict=False)
    assert missing == ["extra.weight", "extra.bias"] and "norm.bias" in unexpected
    assert torch.equal(other.embedding.weight, source.embedding.weight)
    wide = model(1)
    wide.norm = nn.BatchNorm1d(33)
    before = wide.embedding.weight.clone()
    with pytest.raises(gbc.ShapeMismatch, match=r"norm.bias has the shape \[32\] in the file"):
        gbc.load_into(wide, folder / "m.gbz")
    assert torch.equal(wide.embedding.weight, before)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.zeros(4, dtype=torch.complex128), "element type torch.complex128"),
        (lambda: torch.zeros(4, 4).to_sparse(), "sparse, quantized, or on the meta device"),
        (lambda: torch.zeros(4, device="meta"), "sparse, quantized, or on the meta device"),
    ],
)
def test_tensors_that_no_file_holds(folder: Path, make: object, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.save_file({"w": make()}, folder / "m.gbz", lossless=True)  # type: ignore[operator]


def test_numpy_and_torch_read_the_same_bits(folder: Path) -> None:
    gbc.save_file(model().state_dict(), folder / "m.gbz", ratio=6)
    arrays = gbc.load_file(folder / "m.gbz")
    for name, tensor in gbc.iter_file(folder / "m.gbz", framework="torch"):
        np.testing.assert_array_equal(arrays[name], tensor.numpy())
