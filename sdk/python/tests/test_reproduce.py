"""gnets_curve.py and gnets_transfer.py of samples/08_reproduce on the digits of samples/digits and on made data: what they
report is what their files hold, computed again here in NumPy."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import gbcompress as gbc

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]
FOLDER, DIGITS = ROOT / "samples" / "08_reproduce", ROOT / "samples" / "digits"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def values(report: dict[str, object]) -> dict[str, float]:
    figures = report["figures"]
    assert isinstance(figures, list)
    return {figure["name"]: figure["value"] for figure in figures}


def digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    images = np.frombuffer((DIGITS / f"{split}-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 64)
    labels = np.frombuffer((DIGITS / f"{split}-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    return images.astype(np.float32) / images.max(), labels.astype(np.int64)


def accuracy(weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> float:
    hidden = np.maximum(images @ weights["0.weight"].T + weights["0.bias"], 0)
    return float(100 * ((hidden @ weights["2.weight"].T + weights["2.bias"]).argmax(1) == labels).mean())


def of_file(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".pt":
        return {name: tensor.numpy() for name, tensor in torch.load(path, weights_only=True).items()}
    return gbc.load_file(path)


def test_curve(program, folder: Path) -> None:  # type: ignore[no-untyped-def]
    words = ["mnist", str(DIGITS), "--ratios", "10", "--epochs", "15", "--seeds", "1", "--keep", str(folder)]
    found = values(program("gnets_curve").main(words))
    images, labels = digits("test")
    whole = 4 * (64 * 800 + 800 + 800 * 10 + 10)
    names = {"plain": "plain-0.pt", "g-nets 10x": "g-nets-10-0.gbz", "MLP g-nets 10x": "MLP-g-nets-10-0.gbz",
             "quantized 10x": "quantized-10-0.gbz"}  # fmt: skip
    for name, file in names.items():
        path = folder / file
        assert found[f"{name}: bytes"] == path.stat().st_size
        assert found[f"{name}: accuracy"] == pytest.approx(accuracy(of_file(path), images, labels), abs=0.3)
        assert found[f"{name}: accuracy"] > 60  # chance: 10
        if name != "plain":
            assert path.stat().st_size <= whole / 10
    assert found["quantized 10x: bytes"] <= found["g-nets 10x: bytes"]


def test_curve_leaves_out_what_cannot_exist(program, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    words = ["mnist", str(DIGITS), "--ratios", "5000", "--epochs", "1", "--seeds", "1", "--keep", str(folder)]
    found = values(program("gnets_curve").main(words))
    assert {name.split(":")[0] for name in found} == {"plain"}
    assert "quantized 5000x: no file of that size" in capsys.readouterr().err


def test_curve_of_convolutions(program, folder: Path) -> None:  # type: ignore[no-untyped-def]
    random = np.random.default_rng(0)
    for split, rows in (("train", 256), ("test", 100)):
        labels = random.integers(0, 2, rows)
        images = random.integers(0, 128, (rows, 3072)) + 100 * labels[:, None]
        (folder / f"{split}.bin").write_bytes(np.hstack([labels[:, None], images]).astype(np.uint8).tobytes())
    found = values(program("gnets_curve").main(["cifar10", str(folder), "--ratios", "10", "--epochs", "10", "--seeds", "1"]))
    assert found["g-nets 10x: ratio"] >= 10
    assert min(value for name, value in found.items() if name.endswith("accuracy")) > 80  # chance: 50


@pytest.mark.parametrize("coded", [(), ("--coded",)])
def test_mnist_reports_what_its_file_holds(program, folder: Path, capsys: pytest.CaptureFixture[str], coded: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    for ours, theirs in (("train", "train"), ("test", "t10k")):
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte"):
            (folder / f"{theirs}-{name}").write_bytes((DIGITS / f"{ours}-{name}").read_bytes())
    path = folder / "m.gbz"
    program("gnets_mnist").main([str(folder), str(path), "--widths", "64", "96", "10", "--ratio", "8", "--epochs", "60", *coded])
    words = capsys.readouterr().out.split()
    whole = 4 * (64 * 96 + 96 + 96 * 10 + 10)
    assert int(words[0]) == path.stat().st_size <= whole / 8
    # The program divides by 255, whatever the largest pixel is.
    images = np.frombuffer((DIGITS / "test-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 64) / np.float32(255)
    right = accuracy(of_file(path), images, digits("test")[1])
    assert float(words[4]) == pytest.approx(right, abs=0.3)
    assert right > 80  # chance: 10
    assert gbc.inspect(path).tensors[0].kind == "generated"


def test_transfer_begins_at_the_expanded_file(program, folder: Path) -> None:  # type: ignore[no-untyped-def]
    words = ["mnist", str(DIGITS), "--ratio", "10", "--epochs", "15", "--seeds", "1", "--keep", str(folder)]
    found = values(program("gnets_transfer").main(words))
    images, labels = digits("test")
    for start, suffix in (("plain", "pt"), ("g-nets", "gbz")):
        weights = of_file(folder / f"permuted labels-0.{suffix}")
        assert found[f"permuted labels, source, {start}"] == pytest.approx(accuracy(weights, images, labels), abs=0.3)
        assert found[f"permuted labels, source, {start}"] > 80
        assert found[f"permuted labels, {start}, 0 steps"] == pytest.approx(
            accuracy(weights, images, (labels + 1) % 10), abs=0.3
        )
        weights = of_file(folder / f"other classes-0.{suffix}")
        rest = labels >= 5
        assert found[f"other classes, {start}, 0 steps"] == pytest.approx(
            accuracy(weights, images[rest], labels[rest] - 5), abs=0.6
        )
    assert found["permuted labels, source, ratio of g-nets"] >= 10
    assert min(value for name, value in found.items() if name.endswith(" 300 steps")) > 80


def test_transfer_of_text(program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    transfer = program("gnets_transfer")
    monkeypatch.setattr(transfer, "MOMENTS", (0, 20))
    (folder / "text").write_text("to be, or not to be: that is the question. " * 300)
    (folder / "other").write_text("def main(x): return x + 1\n" * 500)
    words = ["text", str(folder / "text"), "--other", str(folder / "other"), "--ratio", "5", "--epochs", "10", "--seeds", "1"]
    found = values(transfer.main(words))
    chance = np.log(96)
    assert found["same author, source, plain"] < chance / 2 and found["same author, source, g-nets"] < chance / 2
    assert found["same author, plain, 0 steps"] < chance / 2 < found["same author, random, 0 steps"]
    assert found["other text, plain, 20 steps"] < found["other text, plain, 0 steps"] / 2
