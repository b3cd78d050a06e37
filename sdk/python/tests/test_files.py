"""save_file, load_file, iter_file, inspect: against the command line's files and by themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Run, some_tensors
from safetensors.numpy import load_file as load_safetensors
from safetensors.numpy import save_file as save_safetensors

import gbcompress as gbc


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"ratio": 8}, ["--ratio", "8"]),
        ({"ratio": 4.5}, ["--ratio", "4.5"]),
        ({"max_bytes": 30000}, ["--max-bytes", "30000"]),
        ({"max_error": 1e-3}, ["--max-error", "1e-3"]),
        ({"max_error": 2.5e-5}, ["--max-error", "2.5e-5"]),
    ],
)
def test_bytes_are_those_of_the_command_line(
    program: Run, folder: Path, settings: dict, flags: list[str]
) -> None:
    tensors = some_tensors(size=256)
    save_safetensors(tensors, folder / "m.safetensors")
    program("compress", folder / "m.safetensors", "-o", folder / "theirs.gbz", *flags)
    report = gbc.save_file(tensors, folder / "ours.gbz", **settings)
    assert (folder / "ours.gbz").read_bytes() == (folder / "theirs.gbz").read_bytes()
    assert report.input_bytes == (folder / "m.safetensors").stat().st_size
    assert report.file_bytes == (folder / "ours.gbz").stat().st_size


def test_lossless_files_differ_by_the_file_that_the_program_was_given(program: Run, folder: Path) -> None:
    tensors = some_tensors(size=256)
    save_safetensors(tensors, folder / "m.safetensors")
    program("compress", folder / "m.safetensors", "-o", folder / "theirs.gbz", "--lossless")
    gbc.save_file(tensors, folder / "ours.gbz", lossless=True)
    ours, theirs = gbc.load_file(folder / "ours.gbz"), gbc.load_file(folder / "theirs.gbz")
    assert ours.keys() == theirs.keys() == tensors.keys()
    for name, values in tensors.items():
        assert ours[name].tobytes() == theirs[name].tobytes() == values.tobytes()
    program("expand", folder / "theirs.gbz", "-o", folder / "back.safetensors")
    assert (folder / "back.safetensors").read_bytes() == (folder / "m.safetensors").read_bytes()
    assert (folder / "ours.gbz").stat().st_size < (folder / "theirs.gbz").stat().st_size + 1


def test_exact_names_are_the_rules_of_the_command_line(program: Run, folder: Path) -> None:
    tensors = some_tensors(size=256)
    save_safetensors(tensors, folder / "m.safetensors")
    (folder / "c.toml").write_text('[[layer]]\nmatch = "layers.1.*"\nmode = "exact"\n')
    program(
        "compress", folder / "m.safetensors", "-o", folder / "theirs.gbz", "--ratio", "4",
        "--config", folder / "c.toml",
    )  # fmt: skip
    gbc.save_file(tensors, folder / "ours.gbz", ratio=4, exact=["layers.1.*"])
    assert (folder / "ours.gbz").read_bytes() == (folder / "theirs.gbz").read_bytes()
    loaded = gbc.load_file(folder / "ours.gbz")
    np.testing.assert_array_equal(loaded["layers.1.conv"], tensors["layers.1.conv"])
    assert np.any(loaded["layers.0.weight"] != tensors["layers.0.weight"])


def test_layers_are_the_rules_of_the_command_line(program: Run, folder: Path) -> None:
    tensors = some_tensors(size=256)
    save_safetensors(tensors, folder / "m.safetensors")
    (folder / "c.toml").write_text(
        '[[layer]]\nmatch = "layers.1.*"\nmax_error = 0.0001\n[[layer]]\nmatch = "layers.0.*"\nbits = 6.5\n'
    )
    program(
        "compress", folder / "m.safetensors", "-o", folder / "theirs.gbz", "--ratio", "4",
        "--config", folder / "c.toml",
    )  # fmt: skip
    layers = {"layers.1.*": {"max_error": 1e-4}, "layers.0.*": {"bits": 6.5}}
    report = gbc.save_file(tensors, folder / "ours.gbz", ratio=4, layers=layers)
    assert (folder / "ours.gbz").read_bytes() == (folder / "theirs.gbz").read_bytes()
    stored = {tensor.name: tensor for tensor in report.tensors}
    assert 0 < stored["layers.1.conv"].error <= 1e-4
    assert stored["layers.0.weight"].bits == pytest.approx(6.5, rel=0.05)
    other = {tensor.name: tensor for tensor in gbc.save_file(tensors, folder / "other.gbz", ratio=4).tensors}
    assert abs(other["layers.0.weight"].bits - 6.5) > 0.4


@pytest.mark.parametrize(
    ("layers", "options", "words"),
    [
        ([("a", 4)], {}, "layers must map names"),
        ({"nothing.*": {"bits": 4}}, {}, "matches no tensor"),
        ({"layers.0.*": {"bits": 40}}, {}, "must be from 0.1 to 32, got 40"),
        ({"layers.0.*": {"bits": 4, "max_error": 0.1}}, {}, "must be {.bits.: B} or"),
        ({"layers.0.*": {"step": 4}}, {}, "must be {.bits.: B} or"),
        ({"layers.0.*": {"max_error": 1.5}}, {}, "above 0 and below 1"),
        ({"layers.0.*": {"bits": 4}}, {"exact": ["layers.*"]}, "exact keeps bit for bit"),
        ({"layers.0.*": {"bits": 4}}, {"ratio": None, "lossless": True}, "no effect with lossless"),
        ({"layers.0.*": {"bits": 4}}, {"base": "base.gbz"}, "no effect on the change since a base"),
    ],
)
def test_layers_that_have_no_effect(folder: Path, layers: object, options: dict, words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.save_file(some_tensors(size=256), folder / "x.gbz", **({"ratio": 4, "layers": layers} | options))
    assert not (folder / "x.gbz").exists()


def test_loading_is_what_expand_makes(program: Run, folder: Path, tensors: dict) -> None:
    gbc.save_file(tensors, folder / "m.gbz", max_error=1e-3)
    program("expand", folder / "m.gbz", "-o", folder / "m.safetensors")
    theirs = load_safetensors(folder / "m.safetensors")
    ours = gbc.load_file(folder / "m.gbz")
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == tensors[name].dtype
        assert array.shape == tensors[name].shape
        assert array.tobytes() == theirs[name].tobytes(), name


def test_an_error_is_kept_and_lossless_is_exact(folder: Path, tensors: dict) -> None:
    report = gbc.save_file(tensors, folder / "a.gbz", max_error=1e-3)
    for name, array in gbc.load_file(folder / "a.gbz").items():
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(array, tensors[name])
        elif array.size:
            before = tensors[name].astype(np.float64)
            error = ((array - before) ** 2).sum() / (before**2).sum()
            assert error <= 1e-3, name
    assert {t.stored for t in report.tensors} >= {"integers", "short floats", "exact", "constant"}
    assert any(t.error > 0 for t in report.tensors)
    gbc.save_file(tensors, folder / "b.gbz", lossless=True)
    for name, array in gbc.load_file(folder / "b.gbz").items():
        assert array.tobytes() == tensors[name].tobytes(), name


def test_a_size_is_met_or_said(folder: Path, tensors: dict) -> None:
    report = gbc.save_file(tensors, folder / "a.gbz", max_bytes=20000)
    assert report.target_met and 19000 < report.file_bytes <= 20000
    assert report.ratio == report.input_bytes / report.file_bytes
    with pytest.warns(gbc.TargetNotMet, match="bytes"):
        report = gbc.save_file(tensors, folder / "b.gbz", max_bytes=200)
    assert not report.target_met and (folder / "b.gbz").stat().st_size == report.file_bytes


def test_arrays_of_one_memory_are_stored_once(folder: Path) -> None:
    weight = some_tensors()["layers.0.weight"]
    gbc.save_file({"a": weight, "b": weight}, folder / "m.gbz", max_error=1e-3)
    info = gbc.inspect(folder / "m.gbz")
    assert [t.tied_to for t in info.tensors] == [None, "a"]
    loaded = gbc.load_file(folder / "m.gbz")
    assert loaded["a"] is loaded["b"]
    for name, array in gbc.iter_file(folder / "m.gbz"):
        np.testing.assert_array_equal(array, loaded[name])


def test_metadata_is_kept(folder: Path, tensors: dict) -> None:
    metadata = {"format": "np", "who": "Zoë"}
    gbc.save_file(tensors, folder / "m.gbz", ratio=4, metadata=metadata)
    info = gbc.inspect(folder / "m.gbz")
    assert info.metadata == metadata
    assert info.settings["target"] == {"ratio": 4.0}
    tiny = {"w": tensors["scale"]}
    gbc.save_file(tiny, folder / "tiny.gbz", lossless=True, metadata=metadata)
    assert gbc.inspect(folder / "tiny.gbz").metadata == metadata


def test_inspect_tells_bits(folder: Path, tensors: dict) -> None:
    gbc.save_file(tensors, folder / "m.gbz", ratio=8)
    info = gbc.inspect(folder / "m.gbz")
    by_name = {t.name: t for t in info.tensors}
    assert info.file_bytes == (folder / "m.gbz").stat().st_size
    assert info.output_bytes == sum(a.nbytes for a in tensors.values())
    assert 0.5 < by_name["layers.0.weight"].bits < 8
    assert by_name["layers.0.weight"].step is not None
    assert by_name["norm.weight"].kind == "constant"
    total = sum(t.bits * np.prod(t.shape) for t in info.tensors) / 8
    assert info.file_bytes - 400 < total < info.file_bytes


def test_iteration_is_in_order_and_one_at_a_time(folder: Path, tensors: dict) -> None:
    gbc.save_file(tensors, folder / "m.gbz", ratio=4)
    whole = gbc.load_file(folder / "m.gbz")
    names = []
    for name, array in gbc.iter_file(folder / "m.gbz"):
        names.append(name)
        np.testing.assert_array_equal(array, whole[name])
    assert names == list(whole)


def test_bfloat16_needs_something_that_has_it(folder: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = some_tensors()["layers.0.weight"].astype(ml_dtypes.bfloat16)
    gbc.save_file({"w": array}, folder / "m.gbz", lossless=True)
    loaded = gbc.load_file(folder / "m.gbz")["w"]
    assert loaded.dtype == array.dtype and loaded.tobytes() == array.tobytes()


def test_without_torch_and_without_ml_dtypes(folder: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
sys.modules["ml_dtypes"] = None
import numpy as np, gbcompress as gbc
w = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
gbc.save_file({{"w": w}}, {str(folder / "m.gbz")!r}, max_error=1e-3)
assert gbc.load_file({str(folder / "m.gbz")!r})["w"].shape == (64, 64)
try:
    from gbcompress._files.arrays import to_numpy
    to_numpy("w", "BF16", (2,), np.zeros(4, np.uint8))
except gbc.GbzError as error:
    assert error.code == "unsupported" and "framework='torch'" in str(error), error
else:
    raise AssertionError("bfloat16 without a type for it")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_change_no_bit(folder: Path) -> None:
    tensors = some_tensors(size=300)
    gbc.save_file(tensors, folder / "a.gbz", ratio=6, threads=1)
    gbc.save_file(tensors, folder / "b.gbz", ratio=6, threads=3)
    assert (folder / "a.gbz").read_bytes() == (folder / "b.gbz").read_bytes()


def test_a_stop_is_heard(folder: Path) -> None:
    code = f"""
import os, signal, threading, numpy as np, gbcompress as gbc
w = {{f"w{{i}}": np.random.default_rng(i).standard_normal((1024, 1024)).astype(np.float32)
     for i in range(12)}}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    gbc.save_file(w, {str(folder / "m.gbz")!r}, max_bytes=2_000_000, threads=1)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("not stopped")
gbc.save_file({{"w": w["w0"][:64].copy()}}, {str(folder / "n.gbz")!r}, max_error=0.01)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [f.name for f in folder.iterdir()] == ["n.gbz"]


def test_loading_takes_one_tensor_beyond_the_result(folder: Path) -> None:
    """Of large files; the file itself, which is mapped, and what the allocator keeps come on top."""
    random = np.random.default_rng(0)
    tensors = {
        name: random.standard_normal((rows, 1024)).astype(np.float32)
        for name, rows in {"a": 1024, "b": 10240, "c": 512}.items()
    }
    gbc.save_file(tensors, folder / "m.gbz", max_error=0.2)
    assert gbc.inspect(folder / "m.gbz").profile == "lanes"
    code = f"""
import numpy, gbcompress as gbc
def resident(which):
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines[which].split()[0]) / 1024
gbc.inspect({str(folder / "m.gbz")!r})
before = resident("VmRSS")
loaded = gbc.load_file({str(folder / "m.gbz")!r}, threads=1)
result = sum(array.nbytes for array in loaded.values()) / 2**20
print(resident("VmHWM") - before - result)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 40 + (folder / "m.gbz").stat().st_size / 2**20 + 12
