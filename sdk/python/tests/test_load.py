"""load_file(dtype=) and load_into() of arrays: element types, memory that is there already, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import some_tensors

import gbcompress as gbc

BF16 = "bfloat16"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of profile lanes: more than four million weights, several stripes, every element type."""
    random = np.random.default_rng(3)
    tensors = {
        "a": random.standard_normal((1600, 2600)).astype(np.float32),
        "b": random.standard_normal((700, 900)).astype(np.float16),
        "c": random.standard_normal((50, 70)).astype(np.float64),
        **some_tensors(),
    }
    path = tmp_path_factory.mktemp("large") / "m.gbz"
    gbc.save_file(tensors, path, max_error=1e-2)
    assert gbc.inspect(path).profile == "lanes"
    return path


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """To nearest even, by another way than the core's; bfloat16 as its bits."""
    if dtype != BF16:
        return array.astype(dtype)
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("dtype", ["float32", "float16", BF16])
@pytest.mark.parametrize("threads", [1, 3])
def test_real_tensors_have_the_dtype(large: Path, dtype: str, threads: int) -> None:
    if dtype == BF16:
        pytest.importorskip("ml_dtypes")
    own = gbc.load_file(large)
    asked = gbc.load_file(large, dtype=dtype, threads=threads)
    assert list(asked) == list(own)
    for name, array in asked.items():
        assert array.shape == own[name].shape
        if own[name].dtype.kind != "f":
            assert array.dtype == own[name].dtype
            np.testing.assert_array_equal(array, own[name])
            continue
        assert array.dtype.name == dtype, name
        bits = array.view(np.uint16) if dtype == BF16 else array
        assert bits.tobytes() == rounded(own[name], dtype).tobytes(), name
    for name, array in gbc.iter_file(large, dtype=dtype):
        assert array.tobytes() == asked[name].tobytes()


def test_spellings_of_a_dtype(large: Path) -> None:
    torch = pytest.importorskip("torch")
    for value in ("float16", np.float16, np.dtype("float16"), torch.float16):
        assert gbc.load_file(large, dtype=value)["a"].dtype == np.float16
        assert gbc.load_file(large, dtype=value, framework="torch")["a"].dtype == torch.float16
    assert gbc.load_file(large, dtype=torch.bfloat16, framework="torch")["a"].dtype == torch.bfloat16
    for wrong in ("int8", "half", np.int32, torch.float64, 16, float):
        with pytest.raises(gbc.UsageError, match="dtype must be float32, float16 or bfloat16, got"):
            gbc.load_file(large, dtype=wrong)


def test_tied_tensors_stay_one(folder: Path) -> None:
    array = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    gbc.save_file({"a": array, "b": array}, folder / "m.gbz", max_error=1e-2)
    loaded = gbc.load_file(folder / "m.gbz", dtype="float16")
    assert loaded["a"] is loaded["b"]


def blank(large: Path, dtype: str | None = None) -> dict[str, np.ndarray]:
    own = gbc.load_file(large)
    return {
        name: np.full(value.shape, 1, dtype if dtype and value.dtype.kind == "f" else value.dtype)
        for name, value in own.items()
    }


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
def test_arrays_are_filled_in_their_own_memory(large: Path, dtype: str | None) -> None:
    arrays = blank(large, dtype)
    memory = {name: array.__array_interface__["data"][0] for name, array in arrays.items()}
    assert gbc.load_into(arrays, large) == ([], [])
    expected = gbc.load_file(large, dtype=dtype)
    for name, array in arrays.items():
        assert array.__array_interface__["data"][0] == memory[name]
        assert array.tobytes() == expected[name].tobytes(), name


def test_torch_tensors_and_models_are_filled_too(large: Path, folder: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {
        name: torch.zeros_like(value)
        for name, value in gbc.load_file(large, framework="torch").items()
    }
    tensors["a"] = torch.zeros(tensors["a"].shape, dtype=torch.bfloat16)
    gbc.load_into(tensors, large)
    for name, value in gbc.load_file(large, framework="torch").items():
        assert torch.equal(tensors[name], value.to(tensors[name].dtype)), name
    # A tensor that a graph has saved is known to be another one now.
    model = torch.nn.Linear(30, 30)
    gbc.save_file(model.state_dict(), folder / "m.gbz", lossless=True)
    squares = (model.weight * model.weight).sum()
    gbc.load_into(model, folder / "m.gbz")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()
    # Memory that cannot be decoded into is converted by a copy.
    turned = torch.nn.Linear(30, 30).double()
    turned.weight = torch.nn.Parameter(turned.weight.detach().t())
    gbc.load_into(turned, folder / "m.gbz")
    assert torch.equal(turned.weight, model.weight.double())


def test_of_tied_parameters_one_name_suffices(folder: Path) -> None:
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(20, 6), torch.nn.Linear(6, 20, bias=False)
            self.head.weight = self.embed.weight

    model = Tied()
    value = torch.randn(20, 6)
    for name in ("embed.weight", "head.weight"):
        gbc.save_file({name: value}, folder / f"{name}.gbz", lossless=True)
        with torch.no_grad():
            model.head.weight.zero_()
        assert gbc.load_into(model, folder / f"{name}.gbz") == ([], [])
        assert torch.equal(model.embed.weight, value)
    model.head.weight = torch.nn.Parameter(value.clone())
    with pytest.raises(gbc.ShapeMismatch, match=r"the file lacks embed\.weight"):
        gbc.load_into(model, folder / "head.weight.gbz")


def test_a_part_of_a_file(large: Path) -> None:
    arrays = {"b": np.zeros((700, 900), np.float32)}
    with pytest.raises(gbc.ShapeMismatch, match=r"the dict lacks a \(and \d+ more names differ\)"):
        gbc.load_into(arrays, large)
    missing, unexpected = gbc.load_into(arrays, large, strict=False)
    assert missing == [] and "a" in unexpected
    np.testing.assert_array_equal(arrays["b"], gbc.load_file(large, dtype="float32")["b"])


def unaligned(shape: tuple[int, ...]) -> np.ndarray:
    size = 4 * int(np.prod(shape))
    raw = np.zeros(size + 8, np.uint8)
    first = 1 - raw.__array_interface__["data"][0] % 2
    return raw[first : first + size].view(np.float32).reshape(shape)


def read_only(shape: tuple[int, ...]) -> np.ndarray:
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda s: np.zeros(s[::-1], np.float32), gbc.ShapeMismatch, r"a has the shape \[1600, 2600\]"),
        (lambda s: np.zeros(s, np.float64), gbc.UsageError, "a has the element type float64, and the file's is F32"),
        (lambda s: np.zeros(s, np.int32), gbc.UsageError, "a has the element type int32"),
        (lambda s: np.zeros(s, ">f4"), gbc.UsageError, "a is big-endian"),
        (lambda s: np.zeros(s, np.float32, order="F"), gbc.UsageError, "a is not contiguous"),
        (read_only, gbc.UsageError, "a is read-only"),
        (unaligned, gbc.UsageError, "the memory for a is not aligned"),
        (lambda s: [0.0], gbc.UsageError, "a is a list; pass a NumPy array or a torch tensor"),
    ],
)  # fmt: skip
def test_memory_that_cannot_be_filled(large: Path, make: object, error: type, words: str) -> None:
    arrays = blank(large)
    before = arrays["b"].copy()
    arrays["a"] = make((1600, 2600))  # type: ignore[operator]
    with pytest.raises(error, match=words):
        gbc.load_into(arrays, large)
    np.testing.assert_array_equal(arrays["b"], before)


def test_damage_is_refused_before_anything_is_written(large: Path, folder: Path) -> None:
    content = bytearray(large.read_bytes())
    content[len(content) // 2] ^= 4
    (folder / "m.gbz").write_bytes(content)
    arrays = blank(large)
    with pytest.raises(gbc.GbzError, match="its digest does not fit"):
        gbc.load_into(arrays, folder / "m.gbz")
    assert all((array == 1).all() for array in arrays.values())


def test_damage_is_named_where_it_lies(folder: Path) -> None:
    """Three matrices of equal size, each of two whole stripes, take a third of the file each."""
    random = np.random.default_rng(0)
    gbc.save_file(
        {name: random.standard_normal((2048, 1024), np.float32) for name in ("a", "b", "c")}, folder / "m.gbz", ratio=4
    )
    content = (folder / "m.gbz").read_bytes()
    digest = "bad.gbz is damaged: its digest does not fit"
    for place, name in enumerate("abc"):
        damaged, middle = bytearray(content), (2 * place + 1) * len(content) // 6
        damaged[middle : middle + 4000] = bytes(4000)  # a single bit may leave the values decodable
        (folder / "bad.gbz").write_bytes(damaged)
        for load in (gbc.load_file, gbc.iter_file, lambda file: gbc.open(file, verify=True)):
            with pytest.raises(gbc.GbzError, match=rf"\A{name} cannot be decoded: \S*{digest}"):
                load(folder / "bad.gbz")


def test_damage_of_a_header_and_of_a_base(folder: Path) -> None:
    random = np.random.default_rng(0)
    base = {"a": random.standard_normal((300, 400)).astype(np.float32)}
    gbc.save_file(base, folder / "base.gbz", lossless=True)
    tuned = {"a": base["a"] + np.float32(1e-3) * (random.random((300, 400)) < 0.01)}
    gbc.save_file(tuned, folder / "delta.gbz", lossless=True, base=folder / "base.gbz")
    content = bytearray((folder / "base.gbz").read_bytes())
    content[-1] ^= 1
    (folder / "base.gbz").write_bytes(content)
    with pytest.raises(gbc.GbzError, match=r"\A\S*base.gbz is damaged: its digest does not fit; copy it again\Z"):
        gbc.load_file(folder / "delta.gbz", base=folder / "base.gbz")
    named = set()
    for at in range(8, 100):
        content[at] ^= 0x20
        (folder / "bad.gbz").write_bytes(content)
        content[at] ^= 0x20
        with pytest.raises(gbc.GbzError) as caught:
            gbc.load_file(folder / "bad.gbz")
        named.add(str(caught.value).partition("; no tensor can be named, since ")[2])
    assert "the header cannot be read" in named, named
