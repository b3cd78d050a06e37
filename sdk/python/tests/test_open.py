"""gbc.open(): one tensor or some rows of a file at a time."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import some_tensors

import gbcompress as gbc

#: Above four million integers files have the profile lanes, whose stripes hold a million values.
ROWS, COLUMNS = 4200, 1000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    tensors = {
        "big": random.standard_normal((ROWS, COLUMNS)).astype(np.float32),
        "small": random.standard_normal((30, 40)).astype(np.float16),
        "ids": np.arange(50),
    }
    path = tmp_path_factory.mktemp("large") / "large.gbz"
    gbc.save_file(tensors, path, max_error=0.01, exact=["ids"])
    assert gbc.inspect(path).profile == "lanes"
    return path


@pytest.fixture
def small(folder: Path) -> Path:
    tensors = some_tensors()
    tensors["tied"] = tensors["layers.0.weight"]
    gbc.save_file(tensors, folder / "m.gbz", max_error=1e-3, metadata={"format": "np"})
    return folder / "m.gbz"


def test_every_tensor_is_that_of_load_file(small: Path, large: Path) -> None:
    for path in (small, large):
        whole = gbc.load_file(path)
        with gbc.open(path) as file:
            assert file.keys() == list(whole) == list(file)
            assert len(file) == len(whole) and "nothing" not in file
            for name, array in whole.items():
                got, part = file.get_tensor(name), file.get_slice(name)
                assert (got.dtype, got.shape) == (array.dtype, array.shape)
                assert got.tobytes() == array.tobytes() == part[...].tobytes(), name
                assert part.get_shape() == list(array.shape)
                assert name in file


def test_metadata_and_types(small: Path) -> None:
    with gbc.open(small) as file:
        assert file.metadata() == {"format": "np"}
        assert file.get_slice("tokens").get_dtype() == "I64"
        assert file.get_slice("layers.1.weight").get_dtype() == "F16"


@pytest.mark.parametrize(
    "index",
    [
        slice(0, 10), slice(1040, 1060), slice(None), slice(-3, None), slice(5, 4000, 700), slice(7, 7),
        slice(30, 10, -7), 0, -1, 1049, (slice(2, 5), slice(None, 3)), (4, 5), (slice(3, 4), None),
        (Ellipsis, 2), (), slice(ROWS - 1, ROWS + 9),
    ],
)  # fmt: skip
def test_rows_are_those_of_the_tensor(large: Path, index: object) -> None:
    whole = gbc.load_file(large)["big"]
    with gbc.open(large) as file:
        got = file.get_slice("big")[index]
    np.testing.assert_array_equal(got, whole[index])  # type: ignore[index]


def test_rows_of_tensors_that_are_decoded_whole(small: Path) -> None:
    whole = gbc.load_file(small)
    with gbc.open(small) as file:
        for name, array in whole.items():
            if array.ndim == 0:
                assert file.get_slice(name)[...] == array
                continue
            for index in (slice(0, 2), slice(-1, None), slice(1, 1)):
                np.testing.assert_array_equal(file.get_slice(name)[index], array[index])
        with pytest.raises(IndexError, match="row 96 is beyond layers.0.weight, which has 96"):
            file.get_slice("layers.0.weight")[96]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8", "uint8"])
def test_rows_of_exact_tensors(tmp_path: Path, dtype: str) -> None:
    array = (np.random.default_rng(3).normal(0, 40, (900, 700))).astype(dtype)
    gbc.save_file({"w": array}, tmp_path / "exact.gbz", lossless=True)
    with gbc.open(tmp_path / "exact.gbz") as file:
        for index in (slice(0, 2), slice(180, 560), slice(-1, None), 437, (slice(899, 300, -50), 3)):
            np.testing.assert_array_equal(file.get_slice("w")[index], array[index])  # type: ignore[index]


def test_dtype_applies_to_rows_too(large: Path) -> None:
    whole = gbc.load_file(large, dtype="float16")
    with gbc.open(large, dtype="float16") as file:
        rows = file.get_slice("big")[1000:1100]
        assert rows.dtype == np.float16
        np.testing.assert_array_equal(rows, whole["big"][1000:1100])
        np.testing.assert_array_equal(file.get_tensor("small"), whole["small"])
        assert file.get_tensor("ids").dtype == np.int64


def test_torch(large: Path) -> None:
    torch = pytest.importorskip("torch")
    whole = gbc.load_file(large, framework="pt")
    with gbc.open(large, "pt", "cpu") as file:
        assert torch.equal(file.get_tensor("big"), whole["big"])
        assert torch.equal(file.get_slice("big")[1000:1100, ::3], whole["big"][1000:1100, ::3])
        assert file.get_tensor("ids").device.type == "cpu"
    with gbc.open(large, framework="torch", device="meta") as file:
        assert file.get_tensor("big").is_meta and file.get_slice("big")[:3].shape == (3, COLUMNS)


def test_threads_share_a_file(large: Path) -> None:
    whole = gbc.load_file(large)["big"]
    wrong: list[int] = []
    with gbc.open(large, threads=1) as file:

        def read(first: int) -> None:
            if not np.array_equal(file.get_slice("big")[first : first + 500], whole[first : first + 500]):
                wrong.append(first)

        readers = [threading.Thread(target=read, args=(400 * i,)) for i in range(8)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert not wrong


def test_closed_files_say_so(small: Path) -> None:
    file = gbc.open(small)
    part, kept = file.get_slice("layers.0.weight"), file.get_tensor("layers.0.weight")
    file.close()
    file.close()
    for use in (
        file.keys, file.metadata, file.__len__, lambda: "x" in file, file.__enter__, lambda: part[:2],
        part.get_shape, lambda: file.get_tensor("layers.0.weight"), lambda: file.get_slice("layers.0.weight"),
    ):  # fmt: skip
        with pytest.raises(gbc.UsageError, match="m.gbz is closed; open it again"):
            use()
    assert np.isfinite(kept).all()


def test_refuses_what_cannot_be(small: Path, folder: Path) -> None:
    for call, words in [
        (lambda: gbc.open(small, "jax"), "framework must be"),  # type: ignore[arg-type]
        (lambda: gbc.open(small, device="cpu"), "device has no effect"),
        (lambda: gbc.open(small, dtype="float8"), "dtype must be"),
        (lambda: gbc.open(small, verify=1), "verify must be"),  # type: ignore[arg-type]
        (lambda: gbc.open(3), "must be a path"),  # type: ignore[arg-type]
        (lambda: gbc.open(small).get_tensor(3), "must be text"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(gbc.UsageError, match=words):
            call()
    with pytest.raises(gbc.NotFound, match="has no tensor 'nothing'"):
        gbc.open(small).get_tensor("nothing")
    with pytest.raises(gbc.NotFound):
        gbc.open(folder / "none.gbz")


def test_deltas_need_their_base(folder: Path) -> None:
    tensors = some_tensors()
    gbc.save_file(tensors, folder / "base.gbz", lossless=True)
    tensors["layers.0.weight"] = tensors["layers.0.weight"] + np.float32(0.01)
    gbc.save_file(tensors, folder / "delta.gbz", max_error=1e-3, base=folder / "base.gbz")
    with pytest.raises(gbc.UsageError, match="base=FILE"):
        gbc.open(folder / "delta.gbz")
    with gbc.open(folder / "delta.gbz", base=folder / "base.gbz") as file:
        whole = gbc.load_file(folder / "delta.gbz", base=folder / "base.gbz")
        np.testing.assert_array_equal(file.get_slice("layers.0.weight")[3:9], whole["layers.0.weight"][3:9])


def test_damage(small: Path, large: Path, folder: Path) -> None:
    """Small files are verified; large ones on request. Without that, nothing but an error or values."""
    data = bytearray(large.read_bytes())
    for place in (2, 40, len(data) // 2, len(data) - 40):
        broken = folder / "broken.gbz"
        changed = bytearray(data)
        changed[place] ^= 0x55
        broken.write_bytes(changed)
        for verify in (None, True):
            with pytest.raises(gbc.GbzError):
                gbc.open(broken, verify=verify)
        try:
            with gbc.open(broken, verify=False) as file:
                for name in file.keys():
                    file.get_tensor(name)
        except gbc.GbzError as error:
            assert error.code in ("corrupt", "truncated", "unsupported", "limit"), error
    (folder / "short.gbz").write_bytes(data[:-100])
    with pytest.raises(gbc.GbzError) as caught:
        gbc.open(folder / "short.gbz", verify=False)
    assert caught.value.code == "truncated"


def test_layers_are_exact_unless_the_draft_is_requested(folder: Path) -> None:
    golden = Path(__file__).resolve().parents[3] / "tests" / "golden" / "deltas"
    content = (golden / "layers.gbz").read_bytes()
    info = gbc.inspect(golden / "layers.gbz")
    assert 0 < info.draft_bytes < info.file_bytes == len(content) and not info.is_draft
    (folder / "cut.gbz").write_bytes(content[: info.draft_bytes])
    assert gbc.inspect(folder / "cut.gbz").is_draft
    raw = (golden / "now.safetensors").read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end])
    with (
        gbc.open(golden / "layers.gbz") as file,
        gbc.open(golden / "layers.gbz", draft=True) as draft,
        gbc.open(folder / "cut.gbz") as cut,
    ):
        assert set(file.keys()) == set(header) - {"__metadata__"}
        differing = 0
        for name in (name for name in file.keys() if header[name]["dtype"] in ("F32", "F16", "I64", "U16")):
            first, last = header[name]["data_offsets"]
            exact = raw[end + first : end + last]
            assert file.get_tensor(name).tobytes() == exact
            assert draft.get_tensor(name).tobytes() == cut.get_tensor(name).tobytes()
            differing += draft.get_tensor(name).tobytes() != exact
        assert differing > 0
    (folder / "short.gbz").write_bytes(data[:-100])
    with pytest.raises(gbc.GbzError) as caught:
        gbc.open(folder / "short.gbz", verify=False)
    assert caught.value.code == "truncated"


def test_layers_are_exact_unless_the_draft_is_requested(folder: Path) -> None:
    golden = Path(__file__).resolve().parents[3] / "tests" / "golden" / "deltas"
    content = (golden / "layers.gbz").read_bytes()
    info = gbc.inspect(golden / "layers.gbz")
    assert 0 < info.draft_bytes < info.file_bytes == len(content) and not info.is_draft
    (folder / "cut.gbz").write_bytes(content[: info.draft_bytes])
    assert gbc.inspect(folder / "cut.gbz").is_draft
    exact = gbc.load_file(golden / "layers.gbz")
    with (
        gbc.open(golden / "layers.gbz") as file,
        gbc.open(golden / "layers.gbz", draft=True) as draft,
        gbc.open(folder / "cut.gbz") as cut,
    ):
        differing = 0
        for name in file.keys():
            assert np.asarray(file.get_tensor(name)).tobytes() == exact[name].tobytes()
            assert draft.get_tensor(name).tobytes() == cut.get_tensor(name).tobytes()
            differing += draft.get_tensor(name).tobytes() != exact[name].tobytes()
        assert differing > 0
    (folder / "short.gbz").write_bytes(content[:-1])
    with pytest.raises(gbc.GbzError, match="its exact part"):
        gbc.open(folder / "short.gbz")
    gbc.save_file({"a": np.ones(3, np.float32)}, folder / "plain.gbz", max_error=0.1)
    with pytest.raises(gbc.UsageError, match="has no draft"):
        gbc.open(folder / "plain.gbz", draft=True)
    with pytest.raises(gbc.UsageError, match="draft must be True or False"):
        gbc.open(golden / "layers.gbz", draft=1)  # type: ignore[arg-type]
