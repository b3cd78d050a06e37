"""gbcompress.onnx: statistics of a graph's inputs, and files by them."""

from __future__ import annotations

import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import gbcompress as gbc

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from graphs import dense, draw, inputs, network, recurrent, save  # noqa: E402
from onnx import helper  # noqa: E402

from gbcompress._onnx import collect as _onnx_collect
from gbcompress._onnx.session import Held, Model  # noqa: E402
from gbcompress._calibrate.search import Evaluator  # noqa: E402


def test_moments_are_those_of_the_inputs(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    batches = inputs(8)
    found = gbc.onnx.collect(path, batches, importance=False).tensors
    rows = np.concatenate(batches).astype(np.float64)
    np.testing.assert_allclose(found["w.output_moment"], rows.T @ rows / len(rows), rtol=2e-4, atol=1e-4)
    hidden = np.maximum(rows @ draw(32, 96, seed=1), 0)
    np.testing.assert_allclose(found["v.output_moment"], hidden.T @ hidden / len(rows), rtol=2e-3, atol=1e-3)


def test_weights_in_expressions_have_moments(tmp_path: Path) -> None:
    """Other shapes, scales of rows and of columns, norms, masks and products of low rank."""
    rng = np.random.default_rng(3)
    rows, cols = np.exp(draw(32, 1, seed=7, scale=1)), np.exp(draw(1, 48, seed=8, scale=1))
    node = helper.make_node
    plain, folded = draw(32, 48, seed=1), draw(4, 8, 48, seed=1)
    cases = {
        "reshape": ([node("Reshape", ["w", "shape"], ["e"])], folded, {"shape": np.array([32, 48])}, 1),
        "rows": ([node("Mul", ["w", "s"], ["e"])], plain, {"s": rows}, rows),
        "columns": ([node("Div", ["w", "s"], ["e"])], plain, {"s": cols}, 1),
        "norm": ([node("ReduceL2", ["w"], ["n"], axes=[0]), node("Div", ["w", "n"], ["e"])], plain, {}, 1),
        "mask": ([node("Mul", ["w", "s"], ["e"])], plain, {"s": (rng.random((32, 48)) < 0.6).astype(np.float32)}, 1),
        "low rank": (
            [node("MatMul", ["a", "b"], ["l"]), node("Add", ["w", "l"], ["e"])], plain,
            {"a": draw(32, 2, seed=9), "b": draw(2, 48, seed=10)}, 1,
        ),
    }  # fmt: skip
    batches = [draw(64, 32, seed=20 + k, scale=1) for k in range(4)]
    x = np.concatenate(batches).astype(np.float64)
    for name, (nodes, weight, more, factors) in cases.items():
        path = tmp_path / f"{name}.onnx"
        save(path, [*nodes, node("MatMul", ["x", "e"], ["y"])], {"w": weight, **more}, {"x": [64, 32]}, {"y": [64, 48]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = gbc.onnx.collect(path, batches).tensors
        seen = x * np.broadcast_to(factors, (32, 1)).T
        wanted = seen.T @ seen / len(x)
        # Factors are measured by noise of a twentieth.
        np.testing.assert_allclose(found["w.output_moment"], wanted, rtol=2e-2, atol=2e-2 * wanted.max(), err_msg=name)
        assert {key.partition(".")[0] for key in found} == {"w"}, name
        assert gbc.onnx.calibrate(path, batches, tmp_path / f"{name}.gbz", ratio=4, overwrite=True).file.file_bytes


def test_biases_are_not_corrected_for_errors_in_expressions(tmp_path: Path) -> None:
    """A row's error counts twice in its output: what corrects a bias is not known from the row alone."""
    node = helper.make_node
    constants = {"l.weight": draw(48, 32, seed=1), "l.bias": draw(48, seed=2), "two": np.array(2, np.float32)}
    ends = {"x": [16, 32]}, {"y": [16, 48]}
    nodes = [node("Mul", ["l.weight", "two"], ["e"]), node("Gemm", ["x", "e", "l.bias"], ["y"], transB=1)]
    path = save(tmp_path / "twice.onnx", nodes, constants, *ends)
    found = gbc.onnx.collect(path, inputs(4), importance=False).tensors
    assert set(found) == {"l.weight.input_moment"}
    once = save(tmp_path / "once.onnx", [node("Gemm", ["x", "l.weight", "l.bias"], ["y"], transB=1)], constants, *ends)
    assert set(gbc.onnx.collect(once, inputs(4), importance=False).tensors) == {"l.weight.input_moment", "l.weight.input_mean"}


def test_an_expression_that_mixes_a_tensor_has_no_moment(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["turn", "w"], ["e"]), helper.make_node("MatMul", ["x", "e"], ["y"]),
    ]  # fmt: skip
    turn = np.linalg.qr(draw(32, 32, seed=4))[0]
    path = save(tmp_path / "m.onnx", nodes, {"w": draw(32, 48), "turn": turn}, {"x": [16, 32]}, {"y": [16, 48]})
    with pytest.warns(UserWarning, match="the inputs of turn, w were not measured"):
        assert gbc.onnx.collect(path, inputs(2), importance=False).tensors == {}


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
    from gbcompress._onnx.session import Model

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
    from gbcompress._onnx.graph import Graph
    from gbcompress._onnx.moments import convolution_rows

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


@pytest.mark.parametrize("size", [1, 20_000])
def test_values_are_given_in_passes(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded memory: each pass runs the graph up to its last node and gives values of that size, or of one node."""
    path = network(tmp_path / "m.onnx")
    batches = [draw(4, 3, 12, 12, seed=30 + k, scale=1) for k in range(12)]
    wanted = gbc.onnx.collect(path, batches, importance=False).tensors
    ends: list[tuple[int, int]] = []
    original = Model.tapped

    def tapped(self: Model, values: list, named: dict, end: int | None = None, shapes: bool = False) -> tuple:
        if not shapes:
            ends.append((end, len(values)))
        return original(self, values, named, end, shapes)

    monkeypatch.setattr(Model, "tapped", tapped)
    monkeypatch.setattr(_onnx_collect, "_PASS", size)
    found = gbc.onnx.collect(path, batches, importance=False).tensors
    # Inputs of the four weights: 6,912, 9,216, 512 and 384 bytes of a batch.
    assert ends == ([(1, 1), (3, 1), (6, 1), (7, 1)] if size == 1 else [(7, 4)])
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_passes_of_branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recurrent(tmp_path / "m.onnx", False)
    batches = [{"q": np.array(k % 2 == 0), "x": draw(6, 2, 8, seed=k, scale=1)} for k in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = gbc.onnx.collect(path, batches, importance=False).tensors
        monkeypatch.setattr(_onnx_collect, "_PASS", 1)
        found = gbc.onnx.collect(path, batches, importance=False).tensors
    assert {"W1|R1.input_moment", "W2|R2.input_moment"} <= wanted.keys() == found.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_moments_of_sampled_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all rows would take too long, about so many for each column count, spread over all batches."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1])]
    path = save(tmp_path / "m.onnx", nodes, {"w": draw(6, 4, 3)}, {"x": [1, 4, 5000]}, {"y": [1, 6, 5000]})
    batches = [np.cumsum(draw(1, 4, 5000, seed=k), -1) * 0.02 + draw(1, 4, 5000, seed=50 + k) for k in range(5)]
    batches = [batch.astype(np.float32) for batch in batches]
    whole = gbc.onnx.collect(path, batches, importance=False).tensors
    monkeypatch.setattr(_onnx_collect, "_MOMENTS", 1.0)
    rows: list[int] = []
    original = _onnx_collect.add

    def add(sums: dict, node: object, values: np.ndarray, most: int) -> bool:
        rows.append(len(values))
        return original(sums, node, values, most)

    monkeypatch.setattr(_onnx_collect, "add", add)
    found = gbc.onnx.collect(path, batches, importance=False).tensors
    assert len(rows) == 5 and all(0.9 < count * 5 / (12 * _onnx_collect._LEAST) < 1.2 for count in rows)
    error = np.square(found["w.input_moment"] - whole["w.input_moment"]).sum() / np.square(whole["w.input_moment"]).sum()
    assert 0 < error < 0.03
    again = gbc.onnx.collect(path, batches, importance=False).tensors
    assert all(np.array_equal(value, found[name]) for name, value in again.items())


def chain(path: Path, layers: int) -> Path:
    nodes = [helper.make_node("MatMul", ["x" if k == 0 else f"h{k}", f"w{k}"], [f"h{k + 1}" if k + 1 < layers else "y"]) for k in range(layers)]
    return save(path, nodes, {f"w{k}": draw(24, 24, seed=k) for k in range(layers)}, {"x": [16, 24]}, {"y": [16, 24]})


def test_noise_on_several_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pass for each tensor would take too long, tensors that share one count alike, relative to their sizes."""
    path, batches = chain(tmp_path / "m.onnx", 20), inputs(10, 16, 24)
    passes: list[int] = []
    original = Held.error

    def error(self: Held, data: bytes, folder: str | None = None) -> float:
        passes.append(len(self.feeds))
        return original(self, data, folder)

    monkeypatch.setattr(Held, "error", error)
    alone = gbc.onnx.collect(path, batches).tensors
    assert passes == [5] * 20, "of ten batches every second one"
    passes.clear()
    # A batch of 16 rows takes 16 * 24^2 multiply-adds in each of the layers.
    monkeypatch.setattr(_onnx_collect, "_NOISY", 10.0 * 20 * 16 * 24**2)
    found = gbc.onnx.collect(path, batches).tensors
    assert passes == [1] * 10, "ten passes of one batch"
    names = [name for name in sorted(found) if name.endswith(".row_importance")]
    assert len(names) == 20 and names == [name for name in sorted(alone) if name.endswith(".row_importance")]
    weights = {f"w{k}": draw(24, 24, seed=k) for k in range(20)}
    costs = [float(found[name].sum() * np.square(weights[name.split(".")[0]]).mean()) for name in names]
    for first, second in zip(costs[::2], costs[1::2], strict=True):
        assert first == pytest.approx(second, rel=1e-4)
    assert len({round(float(np.log(cost)), 3) for cost in costs[::2]}) > 5
    again = gbc.onnx.collect(path, batches).tensors
    assert all(np.array_equal(value, found[name]) for name, value in again.items())


def test_statistics_that_end_in_time(tmp_path: Path) -> None:
    model = Model(str(chain(tmp_path / "m.onnx", 12)), None, 1)
    batches = inputs(10, 16, 24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _onnx_collect.collected(model, batches, True, 0, _onnx_collect.Ends(0.0, 0.0))
    assert found.samples == 1, "moments are those of one batch at least"
    assert "w3.output_moment" in found.tensors and not [name for name in found.tensors if name.endswith("importance")]
    far = time.monotonic() + 1000
    found = _onnx_collect.collected(model, batches, True, 0, _onnx_collect.Ends(far, far))
    assert found.samples == 10 and sum(name.endswith("importance") for name in found.tensors) == 12


def test_minutes(tmp_path: Path) -> None:
    path = chain(tmp_path / "m.onnx", 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = gbc.onnx.calibrate(path, inputs(10, 16, 24), tmp_path / "m.gbz", ratio=6, minutes=1e-9)
    assert len(report.candidates) == 2 and report.file.target_met and report.file.file_bytes <= path.stat().st_size / 6
    with pytest.raises(gbc.UsageError, match="minutes must be above 0, got 0"):
        gbc.onnx.calibrate(path, inputs(10, 16, 24), tmp_path / "n.gbz", ratio=6, minutes=0)


def test_candidates_that_would_end_late_are_not_begun() -> None:
    now = time.monotonic()
    evaluator = Evaluator(now + 60)
    assert evaluator.time() and evaluator.in_time()
    evaluator._begun = now - 50  # the first one took 50 seconds
    evaluator.tell("a", 1, 0.0)
    assert evaluator.time()
    evaluator._begun = time.monotonic() - 61
    evaluator.tell("b", 1, 0.0)
    assert not evaluator.time()
    evaluator.tell("c", 1, 0.0)  # a short one does not shorten the longest
    assert not evaluator.time() and Evaluator(None).time()


def test_no_two_candidates_are_the_same_file(tmp_path: Path) -> None:
    report = gbc.onnx.calibrate(dense(tmp_path / "m.onnx"), inputs(20), tmp_path / "o.gbz", ratio=4)
    assert len(report.candidates) > 4
    assert not any("steps of tensors" in name for name in report.candidates), "rows of a tensor have one importance"
    # Of few weights, what is derived from two uses may be one file.
    errors = [error for name, error in report.candidates.items() if "shrunk" not in name]
    assert len(set(errors)) == len(errors)
