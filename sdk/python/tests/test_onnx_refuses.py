"""gbcompress.onnx: what is refused, unusual outputs, and packages that are not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gbcompress as gbc

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from graphs import dense, draw, inputs, save  # noqa: E402
from onnx import helper  # noqa: E402


def one_sentence(text: str) -> bool:
    return "\n" not in text and ";" in text and not text.endswith(".")


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        (lambda: iter(()), "batches is empty"),
        (lambda: draw(16, 32), r"batches must be a list.* write \[batch\]"),
        (lambda: [draw(16, 32), draw(16, 31)], r"batch 1 \(x: float32 \[16, 31\]\) does not fit the model"),
        (lambda: [{"z": draw(16, 32)}], "batch 0 has the input 'z', which the model lacks; its inputs are x"),
        (lambda: [{}], "batch 0 lacks the input 'x'"),
        (lambda: [(draw(16, 32), draw(16, 32))], r"batch 0 has 2 inputs, and the model has 1 \(x\)"),
        (lambda: [draw(16, 32).astype(np.int64)], r"batch 0 \(x: int64 \[16, 32\]\) does not fit"),
        (lambda: ["text"], "batch 0 must be a dict of arrays, a tuple of arrays, or one array, got the text"),
        (lambda: [["text"]], "the input 'x' of batch 0 must be a NumPy array or a torch tensor, got the text"),
    ],
)
def test_wrong_batches(batches: Callable[[], object], words: str, tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    for call in (
        lambda: gbc.onnx.collect(path, batches()),
        lambda: gbc.onnx.calibrate(path, batches(), tmp_path / "m.gbz", ratio=8),
    ):
        with pytest.raises(gbc.UsageError, match=words) as caught:
            call()
        assert one_sentence(str(caught.value)), caught.value
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_inputs_that_are_not_finite(value: float, tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    bad = draw(16, 32)
    bad[3, 4] = value
    with pytest.raises(gbc.GbzError, match="the inputs of w are not finite in batch 1;") as caught:
        gbc.onnx.calibrate(path, [draw(16, 32), bad, draw(16, 32)], tmp_path / "m.gbz", ratio=8)
    assert caught.value.code == "non_finite"
    assert not (tmp_path / "m.gbz").exists()


def test_wrong_targets(tmp_path: Path) -> None:
    path, file = dense(tmp_path / "m.onnx"), tmp_path / "m.gbz"
    for words, more in (
        ("give one of ratio, max_bytes and max_drop; got none", {}),
        ("give one of ratio, max_bytes and max_drop; got ratio and max_drop", {"ratio": 8, "max_drop": 1}),
        ("max_drop needs evaluate", {"max_drop": 1}),
        ("max_drop must be at least 0", {"max_drop": -1, "evaluate": lambda m: 1.0}),
        ("evaluate must return a number, got a list", {"ratio": 8, "evaluate": lambda m: []}),
        ("evaluate must return a finite number, got nan", {"ratio": 8, "evaluate": lambda m: float("nan")}),
        ("evaluate returned 0 for the model as given", {"max_drop": 1, "evaluate": lambda m: 0.0}),
        ("statistics must be those of collect", {"ratio": 8, "statistics": "s.safetensors"}),
        ("the statistics name other", {"ratio": 8, "statistics": gbc.Statistics({"other.row_importance": np.ones(4, np.float32)})}),
        ("every model is within it", {"max_drop": 5, "evaluate": lambda m: 2.0}),
    ):
        with pytest.raises(gbc.UsageError, match=words) as caught:
            gbc.onnx.calibrate(path, inputs(), file, **more)
        assert "\n" not in str(caught.value)
        assert not file.exists()


def test_wrong_models(tmp_path: Path) -> None:
    with pytest.raises(gbc.NotFound):
        gbc.onnx.calibrate(tmp_path / "none.onnx", inputs(), tmp_path / "m.gbz", ratio=8)
    plain = save(tmp_path / "p.onnx", [helper.make_node("Relu", ["x"], ["y"])], {}, {"x": [4]}, {"y": [4]})
    with pytest.raises(gbc.GbzError, match="holds no weights") as caught:
        gbc.onnx.calibrate(plain, [draw(4)], tmp_path / "m.gbz", ratio=8)
    assert caught.value.code == "unsupported"
    gbc.save_file({"a": draw(64, 64)}, tmp_path / "a.gbz", ratio=2)
    with pytest.raises(gbc.GbzError, match="no ONNX model"):
        gbc.onnx.collect(tmp_path / "a.gbz", inputs())
    with pytest.raises(gbc.UsageError, match="model must be a path, got a dict"):
        gbc.onnx.compress({}, tmp_path / "m.gbz", ratio=8)  # type: ignore[arg-type]
    path = dense(tmp_path / "m.onnx")
    before = path.read_bytes()
    with pytest.raises(gbc.UsageError, match="the output .* is the model itself; write another file"):
        gbc.onnx.calibrate(path, inputs(), path, ratio=8, overwrite=True)
    with pytest.raises(gbc.GbzError, match="cannot be written: its folder does not exist"):
        gbc.onnx.calibrate(path, iter([draw(16, 31)]), tmp_path / "none" / "m.gbz", ratio=8)
    assert path.read_bytes() == before


def test_outputs_with_a_mask(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "mask"], ["y"])]
    mask = np.where(np.arange(64) % 4 == 0, -np.inf, 0).astype(np.float32)
    path = save(tmp_path / "m.onnx", nodes, {"w": draw(32, 64), "mask": mask}, {"x": [16, 32]}, {"y": [16, 64]})
    report = gbc.onnx.calibrate(path, inputs(), tmp_path / "m.gbz", ratio=5)
    assert 0 < report.error < 0.1


def test_an_output_that_is_the_input(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Identity", ["x"], ["same"])]
    path = save(tmp_path / "m.onnx", nodes, {"w": draw(32, 64)}, {"x": [16, 32]}, {"y": [16, 64], "same": [16, 32]})
    report = gbc.onnx.calibrate(path, inputs(), tmp_path / "m.gbz", ratio=5)
    assert 0 < report.error < 0.1


def test_without_onnxruntime(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    code = (
        "import sys; sys.modules['onnxruntime'] = None; sys.modules['onnx'] = None; sys.modules['torch'] = None\n"
        "import gbcompress as gbc\n"
        f"gbc.onnx.compress({str(path)!r}, {str(tmp_path / 'm.gbz')!r}, ratio=8)\n"
        "try: gbc.onnx.collect(%r, [1])\n"
        "except gbc.GbzError as error: print(error.code, error)\n" % str(path)
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("unsupported ") and "pip install onnxruntime" in done.stdout


def test_onnx_itself_is_not_imported(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.stack(inputs()))
    code = (
        "import sys; sys.modules['onnx'] = None; sys.modules['torch'] = None\n"
        "import numpy as np, gbcompress as gbc\n"
        f"x = np.load({str(tmp_path / 'x.npy')!r})\n"
        f"print(gbc.onnx.calibrate({str(path)!r}, list(x), {str(tmp_path / 'm.gbz')!r}, ratio=8).method)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_held_out_inputs_that_are_not_finite(value: float, tmp_path: Path) -> None:
    path, batches = dense(tmp_path / "m.onnx"), inputs()
    batches[-1][3, 4] = value
    with pytest.raises(gbc.GbzError, match="the inputs of w are not finite in batch 9;") as caught:
        gbc.onnx.calibrate(path, batches, tmp_path / "m.gbz", ratio=8)
    assert caught.value.code == "non_finite" and not (tmp_path / "m.gbz").exists()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_outputs_that_are_nan(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Log", ["h"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"w": draw(32, 64)}, {"x": [16, 32]}, {"y": [16, 64]})
    report = gbc.onnx.calibrate(path, inputs(), tmp_path / "m.gbz", ratio=5)
    assert all(0 < error < 1 for error in report.candidates.values())
    path = save(tmp_path / "n.onnx", nodes, {"w": np.full((32, 64), np.nan, np.float32)}, {"x": [16, 32]}, {"y": [16, 64]})
    with pytest.raises(gbc.GbzError, match="no output of the model is finite .*; leave such samples out"):
        gbc.onnx.calibrate(path, inputs(), tmp_path / "n.gbz", ratio=5)
