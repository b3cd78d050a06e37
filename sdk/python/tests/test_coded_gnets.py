"""G-nets that are integers while they train: the files of C++, sizes, files, states, and what is refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import trained_gnets  # noqa: E402  # needs torch
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress import _core  # noqa: E402


def trained(steps: int = 12, **more: Any) -> tuple[nn.Module, gbc.GenomicBottleneck]:
    net = trained_gnets.model()
    gnets = trained_gnets.bottleneck(net, "reference", **{**trained_gnets.CODED, **more})
    for number in range(steps):
        trained_gnets.step(net, gnets, number)
    return net, gnets


@pytest.fixture(scope="module")
def of_cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = os.environ.get("GBCOMPRESS_UNIT_BOTTLENECK")
    if not program:
        pytest.skip("GBCOMPRESS_UNIT_BOTTLENECK does not name the unit tests of the bottleneck")
    folder = tmp_path_factory.mktemp("cpp")
    subprocess.run(
        [program, "--gtest_filter=SameBits.CodedGnetsRepeat"],
        check=True,
        capture_output=True,
        env=dict(os.environ, GBC_GNETS_OUT=str(folder)),
    )
    return folder


@pytest.mark.parametrize("max_bytes", [0, 8000, 1000])
@pytest.mark.filterwarnings("ignore::gbcompress.TargetNotMet")
def test_the_file_is_that_of_cpp(of_cpp: Path, tmp_path: Path, max_bytes: int) -> None:
    _, gnets = trained(max_bytes=max_bytes or None)
    gnets.save(tmp_path / "m.gbz")
    assert (tmp_path / "m.gbz").read_bytes() == (of_cpp / f"coded-{max_bytes}.gbz").read_bytes()


def test_bits_are_counted_and_a_rate_weight_makes_files_smaller() -> None:
    sizes = []
    for rate_weight in (0.0, 5.0, 100.0):
        _, gnets = trained(steps=11, rate_weight=rate_weight)
        sizes.append(gnets.bytes())
        assert gnets.bits() > 8 * 100
    assert sizes[0] > sizes[1] > sizes[2]
    net = trained_gnets.model()
    assert trained_gnets.bottleneck(net, "reference").bits() == 0


def test_a_size_is_met_and_training_goes_on(tmp_path: Path) -> None:
    net, gnets = trained(steps=2, max_bytes=5000)
    before = gnets.bytes()
    assert before > 5000  # two steps do not reach it; the choice of integers does
    assert gnets.save(tmp_path / "m.gbz") <= 5000
    assert gnets.bytes() == before  # of the trained integers, not of the chosen ones
    trained_gnets.step(net, gnets, 2)
    _, straight = trained(steps=3, max_bytes=5000)
    assert straight.bytes() == gnets.bytes()


def test_a_size_out_of_reach_is_a_warning(tmp_path: Path) -> None:
    _, gnets = trained(max_bytes=500)
    with pytest.warns(gbc.TargetNotMet, match="500 bytes are out of reach: the smallest file of these g-nets has"):
        gnets.save(tmp_path / "m.gbz")


@pytest.mark.parametrize("coding", ["coded", "fp32"])
def test_weights_of_a_file_are_those_that_load_file_gives(tmp_path: Path, coding: str) -> None:
    if coding == "coded":
        _, gnets = trained()
    else:
        net = trained_gnets.model()
        gnets = trained_gnets.bottleneck(net, "reference", coding=coding)
        trained_gnets.step(net, gnets, 0)
    gnets.save(tmp_path / "m.gbz")
    net, again = trained(steps=2)
    again.load(tmp_path / "m.gbz")
    file = _core.File(str(tmp_path / "m.gbz"))
    for index, entry in enumerate(file.tensors()):
        if entry["name"] != "pair.weight":  # a build makes it
            (values,) = file.read([(index, "F32")])
            parameter = net.get_parameter(entry["name"]).detach()
            assert torch.equal(parameter.flatten(), torch.from_numpy(values.view("float32"))), entry["name"]
    if coding == "coded":
        again.save(tmp_path / "n.gbz")
        assert (tmp_path / "n.gbz").read_bytes() == (tmp_path / "m.gbz").read_bytes()
    trained_gnets.step(net, again, 0)  # training goes on


@pytest.mark.parametrize("interrupted", [0, 5])
@pytest.mark.parametrize("max_bytes", [None, 7000])
def test_a_resumed_run_has_the_bits_of_a_straight_one(tmp_path: Path, interrupted: int, max_bytes: int | None) -> None:
    net, first = trained(steps=interrupted, max_bytes=max_bytes)
    torch.save({"net": net.state_dict(), "gnets": first.state_dict()}, tmp_path / "run.pt")
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    net, second = trained(steps=0, max_bytes=max_bytes)
    net.load_state_dict(saved["net"])
    second.load_state_dict(saved["gnets"])
    for number in range(interrupted, 12):
        trained_gnets.step(net, second, number)
    _, straight = trained(max_bytes=max_bytes)
    assert second.save(tmp_path / "a.gbz") == straight.save(tmp_path / "b.gbz")
    assert (tmp_path / "a.gbz").read_bytes() == (tmp_path / "b.gbz").read_bytes()


def test_a_state_of_another_kind_is_refused() -> None:
    _, coded = trained(steps=1)
    floats = trained_gnets.bottleneck(trained_gnets.model(), "reference")
    with pytest.raises(gbc.UsageError, match="must be what state_dict"):
        floats.load_state_dict(coded.state_dict())
    with pytest.raises(gbc.UsageError, match="must be what state_dict"):
        coded.load_state_dict(floats.state_dict())
    state = coded.state_dict()
    state["gnets"]["fc.weight"]["values"] = state["gnets"]["fc.weight"]["values"][1:]
    with pytest.raises(gbc.ShapeMismatch, match="other g-nets: fc.weight"):
        coded.load_state_dict(state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coding": "int4"}, "coding must be 'fp32', 'fp16', 'int8' or 'coded', got 'int4'"),
        ({"coding": "coded"}, "give predictions, their number in the training data, or rate_weight=0"),
        ({"coding": "coded", "rate_weight": -1, "predictions": 9}, "lambda must be 0 or more"),
        ({"coding": "coded", "predictions": 0}, "predictions must be"),
        ({"coding": "coded", "predictions": 9, "max_bytes": 9}, "give num_batches"),
        ({"coding": "coded", "predictions": 9, "max_bytes": 0, "num_batches": 9}, "max_bytes must be"),
        ({"rate_weight": 0.3}, "rate_weight needs coding='coded'"),
        ({"max_bytes": 900}, "max_bytes needs coding='coded'"),
        ({"coding": "fp32", "predictions": 9}, "predictions needs coding='coded'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(gbc.UsageError, match=message):
        trained_gnets.bottleneck(trained_gnets.model(), "reference", **settings)


def test_a_file_of_another_coding_is_refused(tmp_path: Path) -> None:
    _, coded = trained(steps=1)
    with pytest.raises(gbc.UsageError, match="integers are trained as such"):
        coded.save(tmp_path / "m.gbz", coding="int8")
    floats = trained_gnets.bottleneck(trained_gnets.model(), "reference")
    with pytest.raises(gbc.UsageError, match="give the coding to GenomicBottleneck"):
        floats.save(tmp_path / "m.gbz", coding="coded")
    assert not list(tmp_path.iterdir())
