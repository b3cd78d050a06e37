"""GenomicBottleneck in one process: gradients, files, settings, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

import gbcompress as gbc

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  # after the check


def mlp(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 30))


def step(model: nn.Module, gnets: gbc.GenomicBottleneck, seed: int = 1) -> float:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(32, 40, generator=generator)
    gnets.zero_grad()
    gnets.predict_weights()
    loss = model(x).square().mean()
    loss.backward()
    gnets.backward()
    gnets.step()
    return loss.item()


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden": 8},
        {"hidden": [8, 5], "row_code": "gray", "col_code": "fourier:3"},
        {"hidden": 6, "row_code": "latent:2"},
        {"generator": "low_rank", "rank": 3},
        {"generator": "xox", "rank": 3},
        {"generator": "stochastic", "hidden": 8},
    ],
)
def test_gradients_are_those_of_finite_differences(settings: dict[str, Any]) -> None:
    model = nn.Sequential(nn.Linear(40, 33, bias=False))
    gnets = gbc.GenomicBottleneck(model, tile_weights=400, seed=3, kernel="reference", **settings)
    layer = gnets._layers[0]
    weight, core = layer.parameter, layer.gnets
    assert core is not None
    target = torch.randn(33, 40, generator=torch.Generator().manual_seed(1))
    # Away from the first values, whose biases of 0 put kinks of ReLU where the differences are taken.
    theta = np.random.default_rng(2).normal(0, 0.4, core.theta().size).astype(np.float32)
    core.restore(theta, layer.generated.spec.output_scale)

    def loss() -> torch.Tensor:
        gnets.predict_weights()
        return (weight.double() * target).sum()

    gnets.zero_grad()
    loss().backward()
    gnets.backward()
    gradient = core.gradient()
    scale = layer.generated.spec.output_scale
    # torchGB's factor: 1 over the positions of a tile and the variance of the weights.
    factor = layer.generated.spec.tile_rows * layer.generated.spec.tile_cols * (scale / 2) ** 2
    places = np.arange(0, theta.size, max(theta.size // 60, 1))
    slopes = []
    for i in places:
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[i] += sign * 2.0**-11
            core.restore(moved, scale)
            ends.append(loss().item())
        slopes.append((ends[0] - ends[1]) / 2.0**-10)
    error = np.linalg.norm(gradient[places] * factor - slopes)
    assert error < 0.03 * np.linalg.norm(slopes) > 0


@pytest.mark.parametrize("coding", ["fp32", "fp16", "int8"])
def test_a_file_comes_back(tmp_path: Path, coding: str) -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, hidden=4)
    for i in range(3):
        step(model, gnets, i)
    path = tmp_path / "m.gbz"
    size = gnets.save(path, coding=coding)
    assert size == path.stat().st_size
    other = mlp(seed=5)
    loaded = gbc.GenomicBottleneck(other, hidden=4, seed=9)
    loaded.load(path)
    kinds = {tensor.name: tensor.kind for tensor in gbc.inspect(path).tensors}
    assert kinds["0.weight"] == kinds["3.weight"] == "generated" and kinds["0.bias"] == "exact"
    expanded = gbc.load_file(path, framework="torch")
    for name, value in other.state_dict().items():
        assert torch.equal(value, expanded[name]), name
    assert torch.equal(other[0].bias, model[0].bias)
    again = tmp_path / "again.gbz"
    loaded.save(again, coding=coding)
    assert again.read_bytes() == path.read_bytes()
    if coding == "fp32":  # and training continues from the same g-nets
        before = [layer.gnets.theta() for layer in gnets._layers if layer.gnets]
        after = [layer.gnets.theta() for layer in loaded._layers if layer.gnets]
        assert all((a == b).all() for a, b in zip(before, after, strict=True))


def test_half_precision_and_transposed_parameters() -> None:
    model = nn.Sequential(nn.Linear(40, 64, bias=False), nn.Linear(64, 30, bias=False).bfloat16())
    model[0].weight = nn.Parameter(model[0].weight.detach().t().contiguous().t())
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    direct = nn.Sequential(nn.Linear(40, 64, bias=False))
    direct[0].weight = nn.Parameter(model[0].weight.detach().contiguous())
    plain = gbc.GenomicBottleneck(direct, hidden=8)
    gnets.predict_weights()
    plain.predict_weights()
    assert torch.equal(model[0].weight, direct[0].weight)
    model[1](model[0](torch.randn(4, 40)).bfloat16()).sum().backward()
    gnets.backward()
    gnets.step()
    assert model[1].weight.dtype == torch.bfloat16


def test_tied_parameters_are_generated_once(tmp_path: Path) -> None:
    model = nn.ModuleDict({"a": nn.Linear(64, 64, bias=False), "b": nn.Linear(64, 64, bias=False)})
    model["b"].weight = model["a"].weight
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    assert [layer.name for layer in gnets._layers] == ["a.weight"]
    gnets.save(tmp_path / "m.gbz")
    assert gbc.inspect(tmp_path / "m.gbz").tensors[1].tied_to == "a.weight"
    gnets.load(tmp_path / "m.gbz")
    assert gnets.compression() == pytest.approx(4096 / gnets.get_num_params_gnet())


def test_numbers_and_table() -> None:
    gnets = gbc.GenomicBottleneck(mlp(), local_rank_dict={0: "cpu"}, hidden_dim=8, gnet_batchsize=10_000)
    # 40 and 64 positions: 6 bits each; 64 and 30: 6 and 5.
    assert gnets.get_num_params_gnet() == (12 * 8 + 8 + 8 + 1) + (11 * 8 + 8 + 8 + 1)
    assert gnets.get_num_params_no_gnet() == 64 + 64 + 64 + 30
    assert gnets.compression() == pytest.approx((40 * 64 + 64 * 30 + 222) / (218 + 222 - 0), rel=1e-6)
    lines = repr(gnets).splitlines()
    assert lines[0].split()[-1] == "rank" and lines[1].split() == [
        "0.weight", "64x40", "linear", "1", "12-8-1", "113", "22.7", "0"
    ]


def test_layers_choose_types_generators_and_plain() -> None:
    model = nn.Sequential(nn.Embedding(100, 32), nn.Linear(32, 64), nn.Linear(64, 64), nn.LSTM(32, 32))
    gnets = gbc.GenomicBottleneck(
        model,
        hidden=4,
        layers={"0.*": {"type": "embedding"}, "1.*": {"type": "plain"}, "2.*": {"generator": "xox", "rank": 2}},
    )
    assert [(layer.name, layer.generated.spec.type_id, layer.generated.spec.generator) for layer in gnets._layers] == [
        ("0.weight", "embedding", "gnet"),
        ("2.weight", "linear", "xox"),
        ("3.weight_ih_l0", "recurrent", "gnet"),
        ("3.weight_hh_l0", "recurrent", "gnet"),
    ]
    without = gbc.GenomicBottleneck(model, hidden=4, ignore_layers=["2.", "LSTM"])
    assert [layer.name for layer in without._layers] == ["1.weight"]


def test_stochastic_weights_are_drawn_in_training_alone() -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, generator="stochastic", hidden=8)
    gnets.predict_weights()
    drawn = model[0].weight.detach().clone()
    gnets.predict_weights()
    assert torch.equal(model[0].weight, drawn)  # of the same step
    step(model, gnets)
    gnets.predict_weights()
    assert not torch.equal(model[0].weight, drawn)
    gnets.eval().predict_weights()
    mean = model[0].weight.detach().clone()
    gnets.train().predict_weights()
    assert not torch.equal(model[0].weight, mean)


def test_schedules_end() -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, 4, schedule="one_cycle", hidden=8, weight_decay=0)
    moved = []
    for i in range(6):
        before = gnets._layers[0].gnets.theta()  # type: ignore[union-attr]
        step(model, gnets, i)
        moved.append(float(abs(gnets._layers[0].gnets.theta() - before).max()))  # type: ignore[union-attr]
    assert moved[0] > 100 * moved[4] > 0


class Mirror(nn.Module):
    """Rows of the second half repeat the first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, 40))


def spec_of_half(parameter: gbc.ParameterInfo, options: gbc.GNetOptions) -> gbc.GNetSpec | None:
    return gbc.make_spec(parameter, options, shape=[parameter.shape[0] // 2, parameter.shape[1]])


def build_half(spec: gbc.GNetSpec, tiles: torch.Tensor) -> torch.Tensor:
    return tiles[0, :, :, 0].repeat(2, 1)


def test_registered_types_are_built_and_trained() -> None:
    gbc.register_gnet_type(Mirror, spec_of_half, build_half)
    model = Mirror()
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    assert gnets._layers[0].generated.spec.type_id == "mirror"
    losses = []
    target = torch.randn(24, 40).repeat(2, 1)
    for _ in range(30):
        gnets.zero_grad()
        gnets.predict_weights()
        loss = (model.weight - target).square().sum()
        loss.backward()
        gnets.backward()
        gnets.step()
        losses.append(float(loss))
    assert torch.equal(model.weight[:24], model.weight[24:])
    assert losses[-1] < losses[0]


def _raise(*_: Any) -> Any:
    raise KeyError("nothing there")


@pytest.mark.parametrize(
    ("init", "build", "words"),
    [
        (_raise, build_half, "layer type mirror, tensor weight: init raised KeyError: 'nothing there'"),
        (lambda *_: 5, build_half, "layer type mirror, tensor weight: init returned an int; return make_spec"),
        (spec_of_half, None, r"init returned a specification of shape \[24, 40\] for a parameter of shape \[48, 40\]"),
        (spec_of_half, _raise, "layer type mirror, tensor weight: build raised KeyError: 'nothing there'"),
        (spec_of_half, lambda p, t: t, r"build returned shape \[1, 24, 40, 1\], the parameter has shape \[48, 40\]"),
        (spec_of_half, lambda p, t: None, "build returned None, not a tensor"),
        (spec_of_half, lambda p, t: build_half(p, t).double(), "build returned torch.float64 on cpu"),
        (spec_of_half, lambda p, t: build_half(p, t).detach(), "does not follow from its tiles"),
    ],
)
def test_registered_types_that_fail_are_named(init: Callable[..., Any], build: Any, words: str) -> None:
    gbc.register_gnet_type(Mirror, init, build)
    with pytest.raises(gbc.GbzError, match=words) as caught:
        gbc.GenomicBottleneck(Mirror(), hidden=8).predict_weights()
    assert caught.value.code == "plugin_failed" and "\n" not in str(caught.value)


def test_registering_is_checked() -> None:
    with pytest.raises(gbc.UsageError, match="module_class must be a class of torch.nn.Module, got a torch module"):
        gbc.register_gnet_type(Mirror(), spec_of_half)  # type: ignore[arg-type]
    with pytest.raises(gbc.UsageError, match="init must be a function, got None"):
        gbc.register_gnet_type(Mirror, None)  # type: ignore[arg-type]
    with pytest.raises(gbc.UsageError, match="layer type linear without a build of its own; give another type_id"):
        gbc.register_gnet_type(nn.Linear, spec_of_half, build_half)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"hidden": "32"}, "hidden must be a width or a list of widths, got the text '32'"),
        ({"hiden_dim": 3}, "there is no setting 'hiden_dim' of g-nets; did you mean hidden"),
        ({"generator": "magic"}, "there is no generator magic; use gnet, stochastic, low_rank or xox"),
        ({"row_code": "morse"}, "there is no position code morse; use binary, gray"),
        ({"tile_weights": 1.5}, "tile_weights must be an integer, got 1.5"),
        ({"ratio": -1}, "ratio must be above 0, got -1"),
        ({"lr": -1}, "the optimizer's learning rate is -1.0+; it must be 0 or more"),
        ({"betas": (0.9, 1)}, "the optimizer's beta2 is 1.0+; it must be at least 0 and below 1"),
        ({"betas": 0.9}, "betas must be two numbers, got 0.9"),
        ({"layers": ["0.*"]}, "layers must map names to settings"),
        ({"layers": {"0.*": 5}}, "layers must map names to settings"),
        ({"schedule": "step"}, "schedule must be 'constant', 'cosine' or 'one_cycle', got 'step'"),
        ({"schedule": "cosine"}, "the schedule cosine needs the number of steps; give num_batches"),
        ({"num_batches": -1}, "num_batches must be at least 0, got -1"),
        ({"kernel": "cuda"}, "kernel must be 'fused' or 'reference', got 'cuda'"),
        ({"ignore_layers": "bias"}, "ignore_layers must be a list of names, got 'bias'"),
        ({"layers": {"9.*": {"hidden": 4}}}, r"the entry '9.\*' of layers matches no parameter"),
        ({"layers": {"0.*": {"width": 4}}}, r"no setting 'width' of g-nets in layers\['0.\*'\]"),
        ({"layers": {"0.bias": {"type": "linear"}}}, "layer type linear does not take 0.bias"),
        ({"group": 5}, "group must be a process group of torch.distributed, got 5"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words) as caught:
        gbc.GenomicBottleneck(mlp(), **settings)
    assert "\n" not in str(caught.value)


def test_models_that_cannot_be() -> None:
    with pytest.raises(gbc.UsageError, match="the model must be a torch.nn.Module, got a dict"):
        gbc.GenomicBottleneck({})  # type: ignore[arg-type]
    with pytest.raises(gbc.UsageError, match=r"the model \(ReLU\) has no trainable parameters"):
        gbc.GenomicBottleneck(nn.ReLU())
    with pytest.raises(gbc.UsageError, match=r"no parameter of the model \(LayerNorm\) gets g-nets"):
        gbc.GenomicBottleneck(nn.LayerNorm(5000))


def test_a_model_that_changes_is_refused() -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    kept = model[0].weight
    model[0].weight = nn.Parameter(kept.detach().clone())
    with pytest.raises(gbc.UsageError, match="0.weight is another tensor than when the bottleneck was made"):
        gnets.predict_weights()
    model[0].weight = kept
    gnets.predict_weights()
    model.to("meta")
    for call in (gnets.predict_weights, gnets.backward):
        with pytest.raises(gbc.UsageError, match="0.weight has moved from cpu to meta; move the model before"):
            call()


@pytest.mark.parametrize("settings", [{"hidden": 8}, {"generator": "stochastic", "hidden": 8}, {"generator": "xox"}])
def test_a_run_is_resumed_with_the_same_bits(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Through torch.save, in a schedule, with a model of other values; and not without the moments."""

    def start() -> tuple[nn.Sequential, torch.optim.Adam, gbc.GenomicBottleneck]:
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        return model, optimizer, gbc.GenomicBottleneck(model, 8, schedule="one_cycle", lr=1e-2, **settings)

    def run(parts: tuple[Any, ...], steps: range) -> None:
        model, optimizer, gnets = parts
        for i in steps:
            optimizer.zero_grad()
            step(model, gnets, i)
            optimizer.step()

    def bits(parts: tuple[Any, ...], name: str) -> bytes:
        parts[2].save(tmp_path / name, coding="fp32", overwrite=True)
        return (tmp_path / name).read_bytes()

    whole = start()
    run(whole, range(8))
    first = start()
    run(first, range(4))
    keys = ("model", "optimizer", "gnets")
    torch.save({key: part.state_dict() for key, part in zip(keys, first, strict=True)}, tmp_path / "run.pt")
    run(first, range(4, 6))  # what was saved are copies
    second = start()
    run(second, range(20, 23))
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    for key, part in zip(keys, second, strict=True):
        part.load_state_dict(saved[key])
    run(second, range(4, 8))
    assert bits(second, "second.gbz") == bits(whole, "whole.gbz")
    for value in saved["gnets"]["gnets"].values():
        value["second_moment"].zero_()
    for key, part in zip(keys, first, strict=True):
        part.load_state_dict(saved[key])
    run(first, range(4, 8))
    assert bits(first, "first.gbz") != bits(whole, "whole.gbz")


def test_a_state_before_the_first_step_and_after_a_load(tmp_path: Path) -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    state = gnets.state_dict()
    assert state["steps"] == 0 and not any(entry["first_moment"].any() for entry in state["gnets"].values())
    step(model, gnets)
    gnets.load_state_dict(state)
    assert torch.equal(gnets.state_dict()["gnets"]["0.weight"]["theta"], state["gnets"]["0.weight"]["theta"])
    gnets.save(tmp_path / "m.gbz")
    other = mlp(seed=3)  # of another output scale
    loaded = gbc.GenomicBottleneck(other, hidden=8)
    loaded.load(tmp_path / "m.gbz")
    state = loaded.state_dict()
    assert state["exact"] and state["gnets"]["0.weight"]["output_scale"] == gnets._layers[0].generated.spec.output_scale
    third = gbc.GenomicBottleneck(mlp(seed=4), hidden=8)
    third.load_state_dict(state)
    third.predict_weights()
    assert torch.equal(third.model[0].weight, gbc.load_file(tmp_path / "m.gbz", framework="torch")["0.weight"])


def test_states_of_other_gnets_are_refused() -> None:
    gnets = gbc.GenomicBottleneck(mlp(), hidden=8)
    before = gnets.state_dict()["gnets"]["0.weight"]["theta"]
    for state, words in (
        (3, "must be what state_dict.. returned, got an int"),
        ({"model": {}}, "must be what state_dict.. returned, got a dict of 'model'"),
    ):
        with pytest.raises(gbc.UsageError, match=words):
            gnets.load_state_dict(state)  # type: ignore[arg-type]
    for other, words in (
        (gbc.GenomicBottleneck(mlp(), hidden=9), "0.weight is linear 12-9-1 64x40 in 1 tiles there and linear 12-8-1 64x40"),
        (gbc.GenomicBottleneck(mlp(), hidden=8, ignore_layers=["3"]), "it lacks 3.weight"),
        (gbc.GenomicBottleneck(nn.Sequential(*mlp(), nn.Linear(30, 64)), hidden=8), "it has 4.weight"),
    ):
        with pytest.raises(gbc.ShapeMismatch, match=words):
            gnets.load_state_dict(other.state_dict())
    assert torch.equal(gnets.state_dict()["gnets"]["0.weight"]["theta"], before)


def test_states_of_wrong_content_change_nothing() -> None:
    """Whatever is wrong in the last parameter's entry, or beside the entries."""
    gnets = gbc.GenomicBottleneck(mlp(), hidden=8)
    step(gnets.model, gnets)
    other = gbc.GenomicBottleneck(mlp(seed=3), hidden=8)
    for i in range(3):
        step(other.model, other, i)
    good, before = other.state_dict(), gnets.state_dict()
    last = list(good["gnets"])[-1]
    entry = good["gnets"][last]
    scales = [layer.generated.spec.output_scale for layer in gnets._layers]

    def within(**more: Any) -> dict[str, Any]:
        return good | {"gnets": good["gnets"] | {last: entry | more}}

    wrong = "the state of a bottleneck must be what state_dict.. returned, got "
    for state, words in (
        (good | {"steps": -1}, "steps of the state must be at least 0, got -1"),
        (good | {"steps": 1.5}, "steps of the state must be an integer, got 1.5"),
        (good | {"steps": "3"}, "steps of the state must be a number, got '3'"),
        (good | {"steps": None}, "steps of the state must be a number, got None"),
        (good | {"exact": "no"}, f"{wrong}'no' as exact"),
        (good | {"gnets": [1]}, f"{wrong}a list as gnets"),
        (good | {"gnets": {3: entry}}, f"{wrong}a dict of 3 as gnets"),
        (good | {"gnets": good["gnets"] | {last: None}}, f"{wrong}None for {last}"),
        (good | {"gnets": good["gnets"] | {last: {"spec": "linear"}}}, f"{wrong}a dict of 'spec' for {last}"),
        (within(more=1), f"{wrong}a dict of .*'more' for {last}"),
        (within(spec=3), f"{wrong}an int as specification of {last}"),
        (within(output_scale="1"), f"output_scale of {last} must be a number, got '1'"),
        (within(output_scale=math.nan), f"output_scale of {last} must be finite, got nan"),
        (within(theta=entry["theta"].tolist()), f"{wrong}a list as theta of {last}"),
        (within(first_moment=entry["first_moment"].long()), f"{wrong}a torch tensor as first_moment of {last}"),
        (within(second_moment=entry["second_moment"].to("meta")), f"{wrong}a torch tensor as second_moment of {last}"),
        (within(second_moment=entry["second_moment"].to_sparse()), f"{wrong}a torch tensor as second_moment of {last}"),
    ):
        with pytest.raises(gbc.UsageError, match=words) as caught:
            gnets.load_state_dict(state)
        assert "\n" not in str(caught.value)
    with pytest.raises(gbc.ShapeMismatch, match=f"{last} is"):
        gnets.load_state_dict(within(theta=entry["theta"][:-1]))
    after = gnets.state_dict()
    assert (after["steps"], after["exact"]) == (before["steps"], before["exact"])
    assert scales == [layer.generated.spec.output_scale for layer in gnets._layers]
    for name, values in before["gnets"].items():
        for key in ("theta", "first_moment", "second_moment"):
            assert torch.equal(after["gnets"][name][key], values[key]), (name, key)
            assert not torch.equal(values[key], good["gnets"][name][key]), (name, key)
    gnets.load_state_dict(good)
    assert torch.equal(gnets.state_dict()["gnets"][last]["theta"], entry["theta"])


def test_calls_in_a_wrong_order() -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    with pytest.raises(gbc.UsageError, match="call backward.. once before each step"):
        gnets.step()
    step(model, gnets)
    with pytest.raises(gbc.UsageError, match="call backward.. once before each step"):
        gnets.step()


def test_gradients_that_are_not_finite_are_named() -> None:
    model = mlp()
    gnets = gbc.GenomicBottleneck(model, hidden=8)
    gnets.predict_weights()
    model[3].weight.grad = torch.full((30, 64), float("nan"))
    with pytest.raises(gbc.GbzError, match="the gradient of 3.weight is not finite at step 1; lower the learning rate"):
        gnets.backward()


def test_a_file_is_replaced_by_the_object_that_saved_it(tmp_path: Path) -> None:
    """torchGB's save() replaces its files; files of others stay."""
    gnets, path = gbc.GenomicBottleneck(mlp(), hidden=8), tmp_path / "m.gbz"
    gnets.save(path)
    first = path.read_bytes()
    with torch.no_grad():
        gnets.model[0].bias += 1
    gnets.save(path)
    assert path.read_bytes() != first
    gnets.save(path, coding="fp32")
    assert gbc.load_file(path)["0.bias"].tolist() == gnets.model[0].bias.tolist()
    with pytest.raises(gbc.UsageError, match="overwrite must be True or False, got None"):
        gnets.save(path, overwrite=None)  # type: ignore[arg-type]

    other = gbc.GenomicBottleneck(mlp(), hidden=8)
    with pytest.raises(gbc.FileExists):
        other.save(path)
    other.save(path, overwrite=True)
    with pytest.raises(gbc.FileExists):  # the file is the other's now
        gnets.save(path)
    path.write_bytes(b"of another program")
    for one in (gnets, other):
        with pytest.raises(gbc.FileExists):
            one.save(path)
    assert path.read_bytes() == b"of another program"
    path.unlink()
    gnets.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["m.gbz"]


def test_a_file_of_the_command_line_is_loaded(tmp_path: Path, program: Run) -> None:
    path, settings = tmp_path / "m.gbz", ("--epochs", 2, "--seed", 1, "--set", "train.threads=1", "-q")
    program("compress", "--from-scratch", "--arch", "mlp:64-128-64-10", "--data", "digits", "--mode", "generated",
            "--ratio", 12, "-o", path, *settings)  # fmt: skip
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    gnets = gbc.GenomicBottleneck(model, 10, target_ratio=12)
    gnets.load(path)
    weights = gbc.load_file(path, framework="torch")
    for name, value in model.state_dict().items():
        assert torch.equal(value, weights[name]), name
    # Training continues from it.
    x = torch.randn(8, 64)
    before = model(x).detach()
    gnets.predict_weights()
    assert torch.equal(model(x), before)
    gnets.zero_grad()
    model(x).square().mean().backward()
    gnets.backward()
    gnets.step()
    gnets.predict_weights()
    assert not torch.equal(model(x), before)

    other = gbc.GenomicBottleneck(model, 10, target_ratio=20)
    with pytest.raises(gbc.ShapeMismatch, match="0.weight has g-nets low_rank .* there and low_rank .* here"):
        other.load(path)


def test_files_of_other_models_are_refused(tmp_path: Path) -> None:
    gnets = gbc.GenomicBottleneck(mlp(), hidden=8)
    path = tmp_path / "m.gbz"
    gnets.save(path)
    with pytest.raises(gbc.UsageError, match="coding must be .fp32., .fp16., .int8. or .coded., got .int4."):
        gnets.save(tmp_path / "n.gbz", coding="int4")
    other = gbc.GenomicBottleneck(mlp(), hidden=9)
    before = other._layers[0].gnets.theta()  # type: ignore[union-attr]
    with pytest.raises(gbc.ShapeMismatch, match="0.weight has g-nets 12-8-1 there and 12-9-1 here"):
        other.load(path)
    assert (other._layers[0].gnets.theta() == before).all()  # type: ignore[union-attr]
    small = gbc.GenomicBottleneck(nn.Sequential(nn.Linear(40, 64)), hidden=8)
    with pytest.raises(gbc.ShapeMismatch, match="it holds 9 tensors, the model has 2"):
        small.load(path)
    with pytest.raises(gbc.NotFound):
        gnets.load(tmp_path / "missing.gbz")


def learned(gnets: gbc.GenomicBottleneck, model: nn.Sequential, steps: int) -> None:
    for i in range(steps):
        step(model, gnets, i)


@pytest.mark.parametrize("ratio", [6, 9.5])
def test_the_recipe_makes_a_file_of_the_target_ratio(tmp_path: Path, ratio: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 30))
    gnets = gbc.GenomicBottleneck(model, 5, target_ratio=ratio)
    assert all(layer.generated.spec.generator == "low_rank" for layer in gnets._layers)
    assert gnets._schedule == "one_cycle"
    learned(gnets, model, 5)
    path = tmp_path / "m.gbz"
    whole = 4 * sum(p.numel() for p in model.parameters())
    assert whole / ratio * 0.6 < gnets.save(path) <= whole / ratio + 16
    bias = model[0].bias.detach().clone()
    gnets.load(path)
    rounded = model[0].bias.detach()
    assert not torch.equal(bias, rounded)
    assert ((bias - rounded).abs() <= bias.abs() / 32 + 1e-7).all()
    expanded = gbc.load_file(path, framework="torch")
    for name, value in model.state_dict().items():
        assert torch.equal(value, expanded[name]), name


def test_the_recipe_keeps_what_is_given(tmp_path: Path) -> None:
    def spec(**given: Any) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 64))
        return gbc.GenomicBottleneck(model, target_ratio=5, **given)._layers[0].generated.spec

    assert spec().generator == "low_rank"
    assert spec(hidden_dim=9).text.split("-")[1] == "9"
    assert spec(generator="gnet").text.split("-")[1] == "12"
    assert spec(layers={"0.*": {"hidden": [7]}}).text.split("-")[1] == "7"
    assert spec(generator="xox", rank=3).rank == 3
    fixed = spec(layers={"0.*": {"tile_weights": 900}})
    assert fixed.generator == "low_rank" and fixed.rank == 8 and fixed.tiles > 1
    without = mlp()
    gnets = gbc.GenomicBottleneck(without, target_ratio=3)
    gnets.predict_weights()
    bias = without[0].bias.detach().clone()
    gnets.save(tmp_path / "m.gbz")
    gnets.load(tmp_path / "m.gbz")
    assert torch.equal(without[0].bias, bias)


def test_the_recipe_refuses_what_it_cannot_do() -> None:
    for ratio in (1, 0.5, -2, float("nan")):
        with pytest.raises(gbc.UsageError):
            gbc.GenomicBottleneck(mlp(), target_ratio=ratio)
    with pytest.raises(gbc.UsageError, match="target_ratio must be a number, got 'x'"):
        gbc.GenomicBottleneck(mlp(), target_ratio="x")  # type: ignore[arg-type]
    with pytest.raises(gbc.UsageError, match="leave out ratio"):
        gbc.GenomicBottleneck(mlp(), target_ratio=5, ratio=5)
    with pytest.raises(gbc.UsageError, match="leave out tile_weights"):
        gbc.GenomicBottleneck(mlp(), target_ratio=5, gnet_batchsize=500)
    with pytest.raises(gbc.UsageError, match="a rank of 0 follows from the ratio"):
        gbc.GenomicBottleneck(mlp(), generator="low_rank", rank=0)
    with pytest.warns(UserWarning, match="the smallest has"):
        gbc.GenomicBottleneck(mlp(), target_ratio=1000)
