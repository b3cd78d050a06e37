"""What prepare() takes and says beside training: sizes as ratios, tables, warnings."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from rings import ADAM, net, nn, prepared, torch, train
from safetensors.torch import save as safetensors

import gbcompress as gbc


def test_a_ratio_is_a_size(folder: Path) -> None:
    model, optimizer, c = prepared(ratio=8, steps=300)
    before = len(safetensors(model.state_dict()))
    train(model, optimizer, 300)
    size = c.save(folder / "m.gbz")
    assert 0.9 * before / 8 < size <= before / 8
    other, optimizer, c = prepared(max_bytes=before // 8, steps=300)
    train(other, optimizer, 300)
    c.save(folder / "n.gbz")
    assert (folder / "m.gbz").read_bytes() == (folder / "n.gbz").read_bytes()


@pytest.mark.parametrize("settings", [{"max_bytes": 60}, {"ratio": 1000}])
def test_a_size_that_is_out_of_reach_is_a_warning(folder: Path, settings: dict) -> None:
    model, optimizer, c = prepared(steps=20, exclude=["0.*"], **settings)
    train(model, optimizer, 20)
    with pytest.warns(gbc.TargetNotMet, match="bytes are out of reach: the smallest file of this model has"):
        size = c.save(folder / "m.gbz")
    assert size == (folder / "m.gbz").stat().st_size > 60
    loaded = gbc.load_file(folder / "m.gbz", framework="torch")
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded[name]), name


def test_metadata_counts_for_the_size(folder: Path) -> None:
    model, optimizer, c = prepared(max_bytes=700, steps=200)
    train(model, optimizer, 200)
    size = c.save(folder / "m.gbz", metadata={"license": "apache " * 30})
    assert size <= 700
    assert gbc.inspect(folder / "m.gbz").metadata["license"].startswith("apache")


def test_a_report_is_a_list_that_prints_a_table() -> None:
    class Long(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a_module_of_a_transformer_block = nn.ModuleDict(
                {"an_attention_output_projection": net(norm=True)}
            )
            self.scalar = nn.Parameter(torch.tensor(0.5))

    model = Long()
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    c = gbc.prepare(model, optimizer, rate_weight=0.1, predictions=512, steps=50, exclude=["*.5.*"])
    report = c.report()
    assert isinstance(report, list) and isinstance(report, gbc.Report)
    assert {t.name for t in report} == set(model.state_dict()) and report[0].name == "scalar"
    lines = str(report).splitlines()
    assert lines[0].split() == ["tensor", "shape", "stored", "as", "step", "zeros", "bits/weight", "bytes"]
    assert set(lines[1]) == {"-"} and len(lines) == len(report) + 3
    assert max(map(len, lines)) <= 100
    assert "scalar" in lines[2] and all("..." in line for line in lines[3:-1])
    assert "integers" in lines[3] and "%" in lines[3] and "32x2" in lines[3]
    assert report.file_bytes == c.bytes() and f"file: {c.bytes()} bytes" in lines[-1]
    assert report.input_bytes == len(safetensors(model.state_dict()))
    assert f"{report.input_bytes / report.file_bytes:.1f}x smaller" in lines[-1]
    total = sum(t.bytes for t in report)
    assert 0.7 * c.bytes() < total < c.bytes()


def test_more_steps_than_given_are_one_warning() -> None:
    model, optimizer, _ = prepared(steps=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, 10)
    with pytest.warns(gbc.StepsExceeded, match="steps=10, and the optimizer continues") as caught:
        train(model, optimizer, 3)
    assert len(caught) == 1 and caught[0].filename.endswith("rings.py")


def test_parameters_that_were_changed_since_the_last_step(folder: Path) -> None:
    """Of a loaded checkpoint, an average, or training without the hooks the file would hold nothing."""
    for change in ("load", "train"):
        model, optimizer, c = prepared(steps=20)
        train(model, optimizer, 10)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        if change == "load":
            model.load_state_dict(net(seed=3).state_dict())
        else:
            c.remove()
            train(model, optimizer, 1)
        with pytest.raises(gbc.UsageError, match="0.weight no longer holds the values of the last step"):
            c.save(folder / "m.gbz")
        assert not (folder / "m.gbz").exists()
        model.load_state_dict(before)
        c.save(folder / "m.gbz", overwrite=True)
        (folder / "m.gbz").unlink()


def test_latents_that_are_not_finite(folder: Path) -> None:
    model, optimizer, c = prepared(steps=20)
    train(model, optimizer, 2)
    c.parts[0].entries[2].latent[0, 0] = float("nan")
    with pytest.raises(gbc.GbzError, match="2.weight holds NaN or infinity") as caught:
        c.save(folder / "m.gbz")
    assert caught.value.code == "non_finite" and not (folder / "m.gbz").exists()
