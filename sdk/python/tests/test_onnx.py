"""gbcompress.onnx: statistics of a graph's inputs, and files by them."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

import gbcompress as gbc

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from graphs import dense, draw, inputs, network, recurrent, save  # noqa: E402
from onnx import helper  # noqa: E402


def test_moments_are_those_of_the_inputs(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    batches = inputs(8)
    found = gbc.onnx.collect(path, batches, importance=False).tensors
    rows = np.concatenate(batches).astype(np.float64)
    np.testing.assert_allclose(found["w.output_moment"], rows.T @ rows / len(rows), rtol=2e-4, atol=1e-4)
    hidden = np.maximum(rows @ draw(32, 96, seed=1), 0)
    np.testing.assert_allclose(found["v.output_moment"], hidden.T @ hidden / len(rows), rtol=2e-3, atol=1e-3)


def test_moments_are_those_that_torch_measures(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch import nn

    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c1 = nn.Conv2d(3, 16, 3, 2, 1)
            self.c2 = nn.Conv2d(16, 32, 3, groups=4, padding="same", dilation=(2, 1), bias=False)
            self.g = nn.Linear(24, 10)
            for name, seed in (("c1", 1), ("c2", 3), ("g", 5)):
                weight = getattr(self, name).weight
                weight.data = torch.from_numpy(draw(*weight.shape, seed=seed))
            self.c1.bias.data, self.g.bias.data = torch.from_numpy(draw(16, seed=2)), torch.from_numpy(draw(10, seed=6))

        def forward(self, x: object) -> object:
            p = self.c2(self.c1(x).relu()).mean((2, 3))
            return self.g(p @ torch.from_numpy(draw(32, 24, seed=4)))

    batches = [draw(4, 3, 12, 12, seed=30 + k, scale=1) for k in range(3)]
    path = network(tmp_path / "m.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gbc.onnx.collect(path, batches, importance=False).tensors
        wanted = gbc.collect(Same().eval(), [torch.from_numpy(b) for b in batches], importance=False).tensors
    for name in ("c1", "c2", "g"):
        for kind in ("input_moment", "input_mean"):
            a, b = found[f"{name}.{kind}"], wanted[f"{name}.weight.{kind}"]
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4, err_msg=f"{name}.{kind}")
    assert found["m.output_moment"].shape == (32, 32)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("taken", ["1", "2"])
def test_values_in_branches(named: bool, taken: str, tmp_path: Path) -> None:
    path = recurrent(tmp_path / "m.onnx", named)
    batches = [{"q": np.array(taken == "1"), "x": draw(6, 2, 8, seed=k, scale=1)} for k in range(4)]
    with pytest.warns(UserWarning, match="not measured|fewer rows"):
        found = gbc.onnx.collect(path, batches, importance=False).tensors
    moment = found[f"W{taken}|R{taken}.input_moment"]
    rows = np.concatenate([b["x"].reshape(-1, 8) for b in batches]).astype(np.float64)
    np.testing.assert_allclose(moment[:8, :8], rows.T @ rows / len(rows), rtol=1e-3, atol=1e-4)
    # The state before the first step is 0, later ones are not.
    assert 0 < np.trace(moment[8:, 8:]) < 16
    other = "2" if taken == "1" else "1"
    assert f"W{other}|R{other}.input_moment" not in found


def test_a_temporary_graph_computes_the_same(tmp_path: Path) -> None:
    from gbcompress._onnx_session import Model

    model = Model(str(recurrent(tmp_path / "m.onnx")), None, 1)
    session, names = model.tapped([(((0, 1),), "h1"), (((0, 0),), "h2")], {})  # the attribute else_branch comes first
    feeds = {"q": np.array(True), "x": draw(6, 2, 8, seed=1, scale=1)}
    y, first, second = session.run(["y", *names], feeds)
    np.testing.assert_array_equal(y, first)
    assert second.size == 0


@pytest.mark.parametrize("more", [
    {"auto_pad": "SAME_UPPER", "strides": [2, 3]}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, {"auto_pad": "VALID"},
    {"pads": [1, 0, 2, 1], "dilations": [2, 1], "group": 2}, {"strides": [1, 2]},
])  # fmt: skip
def test_rows_of_convolutions(more: dict, tmp_path: Path) -> None:
    """Their product with the weight is what the operator computes."""
    from gbcompress._onnx_graph import Graph
    from gbcompress._onnx_moments import convolution_rows

    groups = more.get("group", 1)
    weight = draw(6, 4 // groups, 3, 2)
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], **more)], {"w": weight},
        {"x": [2, 4, 9, 10]}, {"y": ["n", "c", "h", "w"]},
    )  # fmt: skip
    x = draw(2, 4, 9, 10, seed=1)
    wanted = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    rows = convolution_rows(Graph(path.read_bytes()).node((), 0), weight.shape, x)
    found = [r @ w.reshape(len(w), -1).T for r, w in zip(rows, np.split(weight, groups), strict=True)]
    shape = (2, *wanted.shape[2:], 6)
    np.testing.assert_allclose(np.concatenate(found, 1).reshape(shape).transpose(0, 3, 1, 2), wanted, atol=1e-5)


def output_error(path: Path, file: Path, batches: list[np.ndarray]) -> float:
    back = file.with_suffix(".onnx")
    gbc.onnx.expand(file, back, overwrite=True)
    sessions = [onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (path, back)]
    a, b = ([s.run(None, {s.get_inputs()[0].name: x})[0] for x in batches] for s in sessions)
    a, b = np.concatenate(a), np.concatenate(b)
    return float(np.square(b - a).sum() / np.square(a - a.mean()).sum())


def test_calibrated_files_are_better(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx", 64)
    batches = inputs(40, 16, 64)
    gbc.onnx.compress(path, tmp_path / "free.gbz", ratio=10)
    report = gbc.onnx.calibrate(path, batches[:20], tmp_path / "m.gbz", ratio=10)
    assert report.file.file_bytes <= path.stat().st_size / 10
    assert set(report.candidates) >= {"data-free", "error feedback"} and report.method != "data-free"
    assert report.error == report.candidates[report.method] == min(report.candidates.values())
    free = output_error(path, tmp_path / "free.gbz", batches[20:])
    assert output_error(path, tmp_path / "m.gbz", batches[20:]) < 0.7 * free
    assert sorted(p.name for p in tmp_path.iterdir()) == ["free.gbz", "free.onnx", "m.gbz", "m.onnx"]


def test_statistics_give_the_same_file(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    statistics = gbc.onnx.collect(path, inputs())
    statistics.save(tmp_path / "s.safetensors")
    gbc.onnx.compress(path, tmp_path / "a.gbz", ratio=6, statistics=statistics)
    gbc.onnx.compress(path, tmp_path / "b.gbz", ratio=6, statistics=tmp_path / "s.safetensors")
    assert (tmp_path / "a.gbz").read_bytes() == (tmp_path / "b.gbz").read_bytes()


def test_evaluate_chooses(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    seen: list[int] = []

    def evaluate(model: str) -> float:
        assert onnx.load(model).graph.node
        seen.append(len(seen))
        return 100.0 - abs(len(seen) - 3)  # the second candidate is the best

    report = gbc.onnx.calibrate(path, inputs(), tmp_path / "m.gbz", ratio=6, evaluate=evaluate)
    assert report.method == list(report.candidates)[1]
    assert report.quality == 100 and report.reference == 98


def test_max_drop(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    batches = inputs()
    session = onnxruntime.InferenceSession(str(path))
    wanted = [session.run(None, {"x": x})[0] for x in batches]

    def evaluate(model: str) -> float:
        now = onnxruntime.InferenceSession(model)
        return 100 - 100 * float(np.mean([np.square(now.run(None, {"x": x})[0] - y).mean() / y.var() for x, y in zip(batches, wanted, strict=True)]))

    report = gbc.onnx.calibrate(path, batches, tmp_path / "m.gbz", max_drop=1, evaluate=evaluate)
    assert report.reference == 100 and report.quality is not None and 99 <= report.quality < 100
    assert report.file.target_met and report.file.ratio > 4
    with pytest.warns(gbc.TargetNotMet, match="max_drop=1e-09 is exceeded"):
        gbc.onnx.calibrate(path, batches, tmp_path / "n.gbz", max_drop=1e-9, evaluate=evaluate)


def test_expand_gives_the_original_back(tmp_path: Path) -> None:
    path = network(tmp_path / "m.onnx")
    gbc.onnx.compress(path, tmp_path / "m.gbz", lossless=True)
    assert gbc.onnx.expand(tmp_path / "m.gbz", tmp_path / "back.onnx") == path.stat().st_size
    assert (tmp_path / "back.onnx").read_bytes() == path.read_bytes()
    with pytest.raises(gbc.FileExists):
        gbc.onnx.expand(tmp_path / "m.gbz", tmp_path / "back.onnx")
    gbc.save_file({"a": draw(8, 8)}, tmp_path / "a.gbz", ratio=2)
    with pytest.raises(gbc.UsageError, match="was not made of an ONNX model"):
        gbc.onnx.expand(tmp_path / "a.gbz", tmp_path / "a.onnx")


def test_a_gguf_file_is_no_onnx_model(tmp_path, program):
    # One tensor "w" of eight float32 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 8, 0, 0)
    (tmp_path / "m.gguf").write_bytes(head.ljust(64, b"\0") + draw(8).tobytes())
    program("compress", tmp_path / "m.gguf", "--lossless", "-o", tmp_path / "m.gbz")
    with pytest.raises(gbc.UsageError, match="was not made of an ONNX model but of a GGUF file"):
        gbc.onnx.expand(tmp_path / "m.gbz", tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_external_data(tmp_path: Path) -> None:
    model = onnx.load(dense(tmp_path / "plain.onnx"))
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    report = gbc.onnx.calibrate(path, inputs(), tmp_path / "m.gbz", ratio=6)
    assert report.file.input_bytes > 30_000 and 0 < report.error < 0.5
    (tmp_path / "out").mkdir()
    gbc.onnx.expand(tmp_path / "m.gbz", tmp_path / "out" / "m.onnx")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["m.data", "m.onnx"]
