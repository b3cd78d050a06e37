"""gbcompress.onnx.session: sessions of onnxruntime without a file of full size."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

import gbcompress as gbc

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from graphs import FLOAT, dense, draw, network, recurrent  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

CPU = ["CPUExecutionProvider"]


def outputs(session: object, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return session.run(None, feeds)  # type: ignore[attr-defined, no-any-return]


def check(folder: Path, model: Path, feeds: dict[str, np.ndarray], **settings: object) -> object:
    """A session of the compressed model beside one of the expanded file. Returns the first."""
    packed = folder / "packed.gbz"
    gbc.onnx.compress(model, packed, overwrite=True, **(settings or {"lossless": True}))  # type: ignore[arg-type]
    (folder / "back").mkdir(exist_ok=True)
    gbc.onnx.expand(packed, folder / "back" / "m.onnx", overwrite=True)
    before = set(folder.iterdir())
    session = gbc.onnx.session(packed, providers=CPU)
    wanted = onnxruntime.InferenceSession(folder / "back" / "m.onnx", providers=CPU)
    for now, then in zip(outputs(session, feeds), outputs(wanted, feeds), strict=True):
        assert now.tobytes() == then.tobytes()
    assert set(folder.iterdir()) == before
    return session


@pytest.mark.parametrize("settings", [{"lossless": True}, {"ratio": 4}])
def test_sessions_compute_what_the_expanded_file_does(tmp_path: Path, settings: dict[str, object]) -> None:
    session = check(tmp_path, network(tmp_path / "a.onnx"), {"x": draw(4, 3, 12, 12, scale=1)}, **settings)
    assert [each.name for each in session.get_inputs()] == ["x"]  # type: ignore[attr-defined]
    check(tmp_path, dense(tmp_path / "b.onnx"), {"x": draw(16, 32, scale=1)}, **settings)
    for named in (True, False):
        feeds = {"q": np.array(named), "x": draw(6, 2, 8, scale=1)}
        check(tmp_path, recurrent(tmp_path / "c.onnx", named), feeds, **settings)


def typed(path: Path, external: bool = False) -> Path:
    """Initializers of several types and encodings, a constant in a node, a shape that is read while the graph is made."""
    half, wide = draw(64, 40, seed=1).astype(np.float16), draw(64, 64, seed=2)
    brain = helper.make_tensor("brain", TensorProto.BFLOAT16, [40, 64], draw(40 * 64, seed=3).tolist())
    fields = helper.make_tensor("fields", FLOAT, [64, 64], wide.reshape(-1).tolist())  # not raw
    halves = helper.make_tensor("halves", TensorProto.FLOAT16, [64, 40], half.reshape(-1).tolist())  # varints
    table = numpy_helper.from_array(np.arange(-2000, 2096, dtype=np.int64).reshape(64, 64), "table")
    counts = helper.make_tensor("counts", TensorProto.INT64, [4096], list(range(-100, 3996)))  # varints
    inner = numpy_helper.from_array(draw(64, 64, seed=4), "inner")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=inner),
        helper.make_node("Cast", ["halves"], ["h"], to=FLOAT), helper.make_node("Cast", ["brain"], ["b"], to=FLOAT),
        helper.make_node("Cast", ["table"], ["t"], to=FLOAT), helper.make_node("Cast", ["counts"], ["n"], to=FLOAT),
        helper.make_node("Reshape", ["n", "shape"], ["r"]),
        helper.make_node("MatMul", ["x", "fields"], ["1"]), helper.make_node("MatMul", ["1", "c"], ["2"]),
        helper.make_node("MatMul", ["2", "h"], ["3"]), helper.make_node("MatMul", ["3", "b"], ["4"]),
        helper.make_node("MatMul", ["4", "t"], ["5"]), helper.make_node("MatMul", ["5", "r"], ["y"]),
    ]  # fmt: skip
    shape = numpy_helper.from_array(np.array([64, 64], np.int64), "shape")
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [3, 64])],
        [helper.make_tensor_value_info("y", FLOAT, [3, 64])], [fields, halves, brain, table, counts, shape],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if external:
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=64)
    else:
        onnx.save(model, path)
    return path


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("settings", [{"lossless": True}, {"ratio": 3}])
def test_types_and_places_of_elements(tmp_path: Path, external: bool, settings: dict[str, object]) -> None:
    (tmp_path / "source").mkdir()
    model = typed(tmp_path / "source" / "m.onnx", external)
    check(tmp_path, model, {"x": draw(3, 64, scale=1)}, **settings)


def test_integers_are_quantized_again(program: Run, tmp_path: Path) -> None:
    integers = np.clip(np.rint(draw(64, 80, seed=1) * 200), -127, 127).astype(np.int8)
    scale, zero = np.linspace(0.004, 0.006, 80, dtype=np.float32), np.zeros(80, np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=1),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [3, 64])],
        [helper.make_tensor_value_info("y", FLOAT, [3, 80])],
        [numpy_helper.from_array(v, n) for n, v in (("w", integers), ("s", scale), ("z", zero))],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    program("compress", tmp_path / "m.onnx", "--requantize", "--max-error", "1e-3", "-o", tmp_path / "q.gbz")
    gbc.onnx.expand(tmp_path / "q.gbz", tmp_path / "back.onnx")
    feeds = {"x": draw(3, 64, scale=1)}
    wanted = onnxruntime.InferenceSession(tmp_path / "back.onnx", providers=CPU).run(None, feeds)[0]
    assert np.array_equal(outputs(gbc.onnx.session(tmp_path / "q.gbz", providers=CPU), feeds)[0], wanted)


def test_weights_live_as_long_as_the_session(tmp_path: Path) -> None:
    model = dense(tmp_path / "m.onnx", 256)
    gbc.onnx.compress(model, tmp_path / "m.gbz", lossless=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = {"x": draw(16, 256, scale=1)}
    wanted = onnxruntime.InferenceSession(model, providers=CPU).run(None, feeds)[0]
    session = gbc.onnx.session(tmp_path / "m.gbz", options, providers=CPU)
    del options
    for _ in range(20):
        draw(512, 512)
        np.testing.assert_allclose(outputs(session, feeds)[0], wanted, rtol=1e-5, atol=1e-5)


def test_memory_is_that_of_the_weights(tmp_path: Path) -> None:
    """Beside a session of the ONNX file, each in a process of its own."""
    nodes = [helper.make_node("MatMul", [f"h{n}", f"w{n}"], [f"h{n + 1}"]) for n in range(8)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("h0", FLOAT, [1, 1024])],
        [helper.make_tensor_value_info("h8", FLOAT, [1, 1024])],
        [numpy_helper.from_array(draw(1024, 1024, seed=n), f"w{n}") for n in range(8)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    gbc.onnx.compress(tmp_path / "m.onnx", tmp_path / "m.gbz", ratio=8)
    peaks = []
    for call in ("gbcompress.onnx.session('m.gbz')", "onnxruntime.InferenceSession('m.onnx')"):
        text = (
            "import gbcompress, onnxruntime, resource\nx = " + call + "\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[0] < peaks[1] + 20, peaks


def test_wrong_files(tmp_path: Path) -> None:
    gbc.onnx.compress(dense(tmp_path / "m.onnx"), tmp_path / "m.gbz", ratio=4)
    gbc.save_file({"w": draw(8, 8)}, tmp_path / "tensors.gbz", lossless=True)
    with pytest.raises(gbc.NotFound):
        gbc.onnx.session(tmp_path / "none.gbz")
    with pytest.raises(gbc.UsageError, match="not made of an ONNX model"):
        gbc.onnx.session(tmp_path / "tensors.gbz")
    with pytest.raises(gbc.UsageError):
        gbc.onnx.session(3)  # type: ignore[arg-type]
    content = (tmp_path / "m.gbz").read_bytes()
    for at in range(40, len(content), max(1, len(content) // 40)):
        (tmp_path / "bad.gbz").write_bytes(content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :])
        with pytest.raises(gbc.GbzError, match="bad.gbz"):
            gbc.onnx.session(tmp_path / "bad.gbz")
    own = helper.make_graph(
        [helper.make_node("Strange", ["x", "w"], ["y"], domain="some.where")], "g",
        [helper.make_tensor_value_info("x", FLOAT, [8, 64])], [helper.make_tensor_value_info("y", FLOAT, [8, 64])],
        [numpy_helper.from_array(draw(64, 64), "w")],
    )  # fmt: skip
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("some.where", 1)]
    onnx.save(helper.make_model(own, opset_imports=domains, ir_version=8), tmp_path / "own.onnx")
    gbc.onnx.compress(tmp_path / "own.onnx", tmp_path / "own.gbz", lossless=True)
    with pytest.raises(gbc.GbzError, match="does not load .*own.gbz.*options="):
        gbc.onnx.session(tmp_path / "own.gbz")


@pytest.mark.parametrize(
    ("owner", "name"),
    [("SessionOptions", "add_external_initializers"), ("OrtValue", "ortvalue_from_numpy_with_onnx_type")],
)
def test_an_old_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, name: str) -> None:
    """A stub of a version without one of the functions: refused before the file is opened."""
    old = types.ModuleType("onnxruntime")
    vars(old).update(SessionOptions=onnxruntime.SessionOptions, OrtValue=onnxruntime.OrtValue, __version__="1.19.2")
    kept = {each: lambda: None for each in dir(getattr(old, owner)) if each != name and not each.startswith("__")}
    setattr(old, owner, type(owner, (), kept))
    monkeypatch.setitem(sys.modules, "onnxruntime", old)
    with pytest.raises(gbc.GbzError) as caught:
        gbc.onnx.session(tmp_path / "none.gbz")
    assert str(caught.value) == (
        f"a session needs onnxruntime 1.20 or later, and 1.19.2 has no {owner}.{name}; run pip install 'onnxruntime>=1.20'"
    )
    assert caught.value.code == "unsupported"


def test_damaged_containers(tmp_path: Path) -> None:
    """Bytes that are no container end in an error, whatever they are."""
    from gbcompress._onnx.memory import read_container

    good = bytes([1, 4]) + b"onnx" + bytes([1, 0, 6, 1, 0, 3, 0]) + b"abcdef"
    assert read_container(memoryview(good), {0: 8})[1][0].holes[0].place == 3
    random = np.random.default_rng(0)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(int(random.integers(1, 4))):
            data[int(random.integers(len(data)))] = int(random.integers(256))
        try:
            read_container(memoryview(bytes(data[: int(random.integers(len(data) + 1))])), {0: 8})
        except gbc.GbzError as error:
            assert error.code in ("corrupt", "unsupported")
