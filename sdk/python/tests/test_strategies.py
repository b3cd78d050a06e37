"""gbc.strategies: the program's weights for the same data and seed, what is measured, and what is refused."""

from __future__ import annotations

import copy
import itertools
import json
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

import gbcompress as gbc

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  # after the check

ROWS, CLASSES = 160, 4
PROGRAM = os.environ.get("GBCOMPRESS")

needs_program = pytest.mark.skipif(not PROGRAM, reason="GBCOMPRESS does not name the program")


def flat(seed: int = 0, rows: int = ROWS) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes that a linear map tells apart."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, 12, generator=generator)
    return inputs, (inputs[:, :CLASSES] + 0.3 * inputs[:, 4 : 4 + CLASSES]).argmax(1)


def maps(rows: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, labels = flat(3, rows)
    return inputs.reshape(rows, 1, 3, 4).repeat(1, 1, 4, 3), labels


def mlp(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def convolutions() -> nn.Sequential:
    """Stages as nested Sequentials and as bare layers, with statistics and pairs of unequal sizes."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 6, (3, 5), padding="same", bias=False), nn.BatchNorm2d(6, eps=1e-4), nn.ReLU()),
        nn.Conv2d(6, 8, 3, stride=(2, 1), padding=1),
        nn.ELU(0.5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 3 * 6, CLASSES),
    )


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> Path:
    from safetensors.torch import save_file

    save_file(tensors, str(path))
    return path


def directly(program: Run, folder: Path, model: nn.Module, data: Any, *more: object) -> dict[str, torch.Tensor]:
    """Weights of a run of the program on the same model and data, expanded by the program."""
    weights = write_safetensors(folder / "in.safetensors", {k: v.clone() for k, v in model.state_dict().items()})
    inputs, labels = data
    tensors = {"inputs": inputs, "targets": labels, "test_inputs": inputs[:1].clone(), "test_targets": labels[:1].clone()}
    samples = write_safetensors(folder / "samples.safetensors", tensors)
    program("compress", weights, "--data", f"tensors:{samples}", "--mode", "exact", "-o", folder / "out.gbz", "--force", *more)
    program("expand", folder / "out.gbz", "-o", folder / "out.safetensors", "--force")
    from safetensors.torch import load_file

    return load_file(str(folder / "out.safetensors"))


@needs_program
@pytest.mark.parametrize(
    ("strategy", "options", "told"),
    [
        ("dtp", {"K": [2, 3], "sigma": 0.1}, ["--set", "strategy.options=K=2,3 sigma=0.1"]),
        ("al", {"widths": 8, "bridge": 0}, ["--set", "strategy.widths=8", "--set", "strategy.bridge=0"]),
    ],
)
def test_weights_are_those_of_the_program(
    program: Run, tmp_path: Path, strategy: str, options: dict[str, Any], told: list[str]
) -> None:
    """Beside the architecture mlp, which the command line spells in another way."""
    model, data = mlp(), flat()
    expected = directly(
        program, tmp_path, model, data, "--arch", "mlp:12-24-16-4", "--strategy", strategy, "--epochs", 3, "--seed", 5,
        "--set", "train.batch=32", "--set", "optim.plain_lr=0.01", "--set", "train.threads=1", *told,
    )  # fmt: skip
    before = copy.deepcopy(model.state_dict())
    result = getattr(gbc.strategies, strategy)(
        model, data, epochs=3, batch=32, lr=0.01, seed=5, threads=1, program=PROGRAM, **options
    )
    for name, value in model.state_dict().items():
        assert torch.equal(value, expected[name]), name
        assert not torch.equal(value, before[name]), name
    assert result.accuracy is None and result.accuracy_before is None
    assert result.arch == (
        "sequential:12/Linear(12,24,bias=True),ReLU()/Linear(24,16,bias=True),ReLU()/Linear(16,4,bias=True)"
    )


@needs_program
@pytest.mark.parametrize("strategy", ["dtp", "al"])
def test_convolutions_come_back_under_their_names(program: Run, tmp_path: Path, strategy: str) -> None:
    model, data = convolutions(), maps()
    before = copy.deepcopy(model)
    given = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train = getattr(gbc.strategies, strategy)
        result = train(model, data, validation=data, epochs=2, batch=16, program=PROGRAM, threads=1)
    flattened = nn.Sequential(*given[0], *list(given)[1:])
    expected = directly(
        program, tmp_path, flattened, data, "--arch", result.arch, "--strategy", strategy, "--epochs", 2,
        "--set", "train.batch=16", "--set", "train.shift=0", "--set", "train.flip=no", "--set", "train.threads=1",
    )  # fmt: skip
    for ours, theirs in zip(model.state_dict(), flattened.state_dict(), strict=True):
        assert torch.equal(model.state_dict()[ours], expected[theirs]), ours
    assert not torch.equal(model[0][1].running_mean, before[0][1].running_mean)
    assert list(result.layers) == (["0.0", "1", "5"] if strategy == "dtp" else ["0.0", "1"])

    def accuracy(net: nn.Module) -> float:
        with torch.no_grad():
            return 100 * (net.eval()(data[0]).argmax(1) == data[1]).float().mean().item()

    assert result.accuracy == pytest.approx(accuracy(model), abs=1e-4)
    assert result.accuracy_before == pytest.approx(accuracy(before), abs=1e-4)


@needs_program
def test_the_validation_set_is_measured_while_training() -> None:
    """Of more than five classes labels among the five highest scores, too."""
    torch.manual_seed(0)
    inputs = torch.randn(96, 12)
    data = inputs, inputs[:, :7].argmax(1)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 7))
    result = gbc.strategies.dtp(model, data, validation=data, epochs=4, batch=32, K=1, program=PROGRAM,
                                settings={"train.measure_epochs": 2})  # fmt: skip
    with torch.no_grad():
        scores = model(inputs)
    rank = (scores > scores.gather(1, data[1].unsqueeze(1))).sum(1)
    assert result.top5 == pytest.approx(100 * (rank < 5).float().mean().item(), abs=1e-4)
    for name, after in (("test_accuracy_percent", result.accuracy), ("test_top5_percent", result.top5)):
        curve = result.curves[name]
        assert list(curve.steps) == [6, 12] and curve.values[-1] == pytest.approx(after, abs=1.1), name
    with pytest.raises(gbc.UsageError, match="measure_epochs measures the validation set while training; give validation"):
        gbc.strategies.dtp(model, data, program=PROGRAM, settings={"train.measure_epochs": 2})


def test_default_rates_train_convolutions_with_batch_norms(program: Run, tmp_path: Path) -> None:
    """Fresh convolutions have small outputs, which batch norms divide by their deviations: the way back is that steep. With
    rates chosen without the statistics of a batch the loss of such nets is not finite after a few steps."""
    stages = [f"Conv2d({i},{o},3,padding=1),BatchNorm2d({o}),ReLU()" for i, o in ((1, 16), (16, 16), (16, 32))]
    stages[1] += ",MaxPool2d(2)"
    arch = "/".join(["sequential:1x8x8", *stages, "Flatten(),Linear(512,10)"])
    run = program("compress", "--from-scratch", "--arch", arch, "--data", "digits", "--strategy", "dtp", "--mode", "exact", "--epochs", 3,
                  "--set", "train.batch=64", "-o", tmp_path / "m.gbz", "--json")  # fmt: skip
    told = json.loads(run.stdout)
    (losses,) = (np.array(curve["y"]) for curve in told["curves"] if curve["name"] == "feedback_loss")
    assert len(losses) == 3 * 23 and np.abs(losses).max() < 10
    assert losses[-10:].mean() < losses[:10].mean()
    assert told["metric"]["after"] > 60


@needs_program
def test_learns_and_measures_each_layer() -> None:
    result = gbc.strategies.dtp(
        mlp(), flat(), validation=flat(7), epochs=40, batch=32, lr=0.01, K=3, diagnose=1, program=PROGRAM
    )
    assert result.accuracy is not None and result.accuracy > 65
    assert set(result.curves) == {"loss", "delta", "feedback_loss", "train_accuracy_percent", "train_top5_percent"}
    assert set(result.layers) == {"0", "2", "4"}
    assert set(result.layers["0"]) == {"target_loss", "cosine"}
    assert set(result.layers["2"]) == {"target_loss", "feedback_loss", "cosine", "angle", "distance"}
    steps = 40 * ROWS // 32
    curve = result.curves["loss"]
    assert curve.steps.shape == curve.values.shape == (steps,) and curve.steps[-1] == steps
    assert curve.values[-1] < curve.values[0]
    total = sum(result.layers[name]["feedback_loss"].values for name in ("2", "4"))
    np.testing.assert_allclose(total, result.curves["feedback_loss"].values, rtol=1e-3, atol=1e-4)
    assert (result.curves["train_top5_percent"].values == 100).all(), "there are four classes"
    assert result.top5 is None

    result = gbc.strategies.al(mlp(), flat(), validation=flat(7), epochs=40, batch=32, lr=0.01, exits=1, split=[2],
                               program=PROGRAM, settings={"strategy.lr": 0.01})  # fmt: skip
    assert result.accuracy is not None and result.accuracy > 65
    assert set(result.layers) == {"0"} and set(result.layers["0"]) == {"bridge_loss", "code_loss", "exit_accuracy"}
    assert result.layers["0"]["bridge_loss"].values[-1] < result.layers["0"]["bridge_loss"].values[0]


def deep() -> nn.Sequential:
    torch.manual_seed(2)
    sizes = [12, 16, 14, 10, 8]
    layers = [layer for pair in itertools.pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(8, CLASSES))


@needs_program
@pytest.mark.parametrize(
    ("given", "first"),
    [
        ({"split": [2, 1, 1]}, ["0", "4", "6"]),
        ({"split": "1,3"}, ["0", "2"]),
        ({"settings": {"strategy.split": [2, 1, 1]}}, ["0", "4", "6"]),
        ({"settings": {"strategy.split": "1,3"}}, ["0", "2"]),
        ({"settings": {"strategy.options": "split=3,1 bridge=8"}}, ["0", "6"]),
        ({"settings": {"strategy.split": 4}}, ["0"]),
        ({"bridge": 8}, ["0", "2", "4", "6"]),
    ],
)
def test_components_are_those_of_the_split(given: dict[str, Any], first: list[str]) -> None:
    """However it is given."""
    result = gbc.strategies.al(deep(), flat(), epochs=1, exits=1, program=PROGRAM, threads=1, **given)
    assert list(result.layers) == first
    assert all(set(found) == {"bridge_loss", "code_loss", "exit_accuracy"} for found in result.layers.values())
    assert set(result.curves) == {"loss", "train_accuracy_percent", "train_top5_percent"}


@needs_program
def test_a_measure_of_another_version_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a component, of the model, and of what the package does not know."""
    run = gbc.strategies.run_program

    def more(*arguments: Any) -> dict[str, Any]:
        told = run(*arguments)
        told["curves"] += [{"name": name, "x": [1], "y": [2.5]} for name in ("spread.2", "spread", "spread.99")]
        return told

    monkeypatch.setattr(gbc.strategies, "run_program", more)
    result = gbc.strategies.al(mlp(), flat(), epochs=1, program=PROGRAM, threads=1)
    assert result.layers["2"]["spread"].values.tolist() == [2.5]
    assert {"spread", "spread.99"} <= set(result.curves) and set(result.layers) == {"0", "2"}


@needs_program
def test_warnings_and_errors_are_the_programs() -> None:
    with pytest.warns(UserWarning, match=r"codes=sigmoid with linear outputs \(decoder=none\) learns slowly"):
        gbc.strategies.al(mlp(), flat(), epochs=1, codes="sigmoid", program=PROGRAM)
    model = mlp()
    before = copy.deepcopy(model.state_dict())
    for call, words in (
        (lambda: gbc.strategies.dtp(model, flat(), program=PROGRAM, width=3), "strategy dtp takes no option width"),
        (lambda: gbc.strategies.dtp(model, flat(), program=PROGRAM, K=[1, 2, 3]), "K"),
        (lambda: gbc.strategies.al(model, flat(), program=PROGRAM, split=[7]), "split names 7 stages"),
        (lambda: gbc.strategies.al(model, flat(), program=PROGRAM, settings={"train.colour": 1}), "colour"),
        (lambda: gbc.strategies.al(model, flat(), program=PROGRAM, optimizer="lion"), "plain_optimizer"),
        (lambda: gbc.strategies.dtp(nn.Sequential(nn.Linear(12, 4)), flat(), program=PROGRAM), "one stage"),
    ):
        with pytest.raises(gbc.UsageError, match=words):
            call()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def frozen() -> nn.Sequential:
    model = mlp()
    model[2].bias.requires_grad_(False)
    return model


def hooked() -> nn.Sequential:
    model = mlp()
    model[1].register_forward_hook(lambda *_: None)
    return model


def shared() -> nn.Sequential:
    layer = nn.Linear(12, 12)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(12, CLASSES))


class Doubling(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: nn.Linear(12, 4), r"must be a torch.nn.Sequential of layers, got a torch module \(Linear\)"),
        (lambda: Doubling(nn.Linear(12, 4)), r"must be a torch.nn.Sequential of layers, got a torch module \(Doubling\)"),
        (lambda: nn.Sequential(*mlp(), nn.Hardtanh()), r"layer 5 \(Hardtanh\) is none of the layers"),
        (lambda: nn.Sequential(nn.Sequential(nn.Linear(12, 8), nn.GELU()), nn.Linear(8, 4)), r"layer 0.1 \(GELU\)"),
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 4, 3, padding_mode="circular")), r"layer 0 \(Unfl"),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding_mode="circular")), r"layer 0 \(Conv2d\) has padding_mode='circ"),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 2, padding="same")), r"layer 0 \(Conv2d\) has padding='same'"),
        (lambda: nn.Sequential(nn.BatchNorm1d(12, momentum=None), *mlp()), r"layer 0 \(BatchNorm1d\) has momentum=None"),
        (lambda: nn.Sequential(nn.Flatten(0), *mlp()), r"layer 0 \(Flatten\) has start_dim=0"),
        (lambda: nn.Sequential(nn.ReLU()), "no Linear and no Conv2d"),
        (frozen, "2.bias is frozen"),
        (hooked, r"layer 1 \(ReLU\) has hooks"),
        (shared, "2.weight and 0.weight are the same parameter"),
        (lambda: mlp().double(), "0.weight is torch.float64; .* use model.float"),
        (lambda: nn.Sequential(nn.Linear(13, 4), nn.Linear(4, 4)), r"cannot take inputs of shape \[12\]"),
        (lambda: nn.Sequential(nn.BatchNorm2d(12), *mlp()), r"cannot take inputs of shape \[12\]: expected 4D input"),
        (lambda: nn.Sequential(nn.Linear(12, 4), nn.Linear(4, 3)), "a label of data is 3; the model has 3 classes"),
    ],
)
def test_models_are_refused_by_their_layers(model: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.strategies.dtp(model(), flat(), program=PROGRAM)  # type: ignore[arg-type]


@pytest.mark.parametrize("validation", [None, flat(7), flat(7, 1)])
def test_statistics_of_a_batch_are_accepted(validation: Any, tmp_path: Path) -> None:
    """A BatchNorm without running statistics takes them from the rows; the program is reached, with two rows or more."""
    model = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24, track_running_stats=False), nn.ReLU(), nn.Linear(24, CLASSES))
    text = f'for each; do case $each in tensors:*) cp "${{each#tensors:}}" {tmp_path}/; esac; done'
    copies = script(tmp_path / "program", text)
    with pytest.raises(gbc.GbzError, match="did not print a JSON object"):
        gbc.strategies.dtp(model, flat(), validation=validation, program=copies)
    from safetensors.torch import load_file

    data = load_file(str(tmp_path / "data.safetensors"))
    assert len(data["test_inputs"]) == len(data["test_targets"]) == (2 if validation is None else len(validation[0]))
    if validation is None:
        assert torch.equal(data["test_targets"], flat()[1][[0, -1]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": flat()[0]}, r"data must be inputs and labels, got a torch tensor"),
        ({"data": (flat()[0].double(), flat()[1])}, r"inputs of data must be float32 \[rows, ...\], got float64"),
        ({"data": (flat()[0], flat()[1].float())}, r"labels of data must be integers \[rows\], got float32"),
        ({"data": (flat()[0], flat()[1][:5])}, "data has 160 inputs and 5 labels"),
        ({"data": (flat()[0], flat()[1] - 1)}, "a label of data is -1"),
        ({"validation": (flat()[0][:, :5], flat()[1])}, r"inputs of validation have shape \[5\], those of data have \[12\]"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"batch": 2.5}, "batch must be an integer"),
        ({"lr": "fast"}, "lr must be a number"),
        ({"optimizer": 3}, "optimizer must be a text"),
        ({"settings": {"train.epochs": 3}}, "settings has train.epochs; epochs= sets it"),
        ({"settings": {"strategy.K": 3}, "K": 2}, "K is given twice"),
        ({"K": object()}, "K must be a number"),
        ({"program": "/nowhere/gbcompress"}, "program /nowhere/gbcompress is not there"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(gbc.UsageError, match=words):
        gbc.strategies.dtp(**({"model": mlp(), "data": flat(), "program": PROGRAM or "/bin/true"} | arguments))


@pytest.mark.parametrize("strategy", ["dtp", "al"])
def test_each_argument_reaches_the_program(strategy: str, tmp_path: Path) -> None:
    program = script(tmp_path / "program", f'printf "%s\\n" "$@" > {tmp_path}/call; exit 3')
    with pytest.raises(gbc.GbzError, match="ended with status 3"):
        getattr(gbc.strategies, strategy)(
            mlp(), flat(), validation=flat(7, 9), epochs=2, batch=3, lr=0.25, weight_decay=0.5, optimizer="sgd",
            schedule="step", seed=11, threads=5, settings={"train.flip": True}, program=program, verbose=True, first=[4, 6.5],
        )  # fmt: skip
    call = (tmp_path / "call").read_text().splitlines()
    named = dict(itertools.pairwise(call))
    assert (named["--strategy"], named["--epochs"], named["--seed"]) == (strategy, "2", "11")
    assert {value for word, value in itertools.pairwise(call) if word == "--set"} == {
        "train.loss=task", "train.shift=0", "train.flip=yes", "train.batch=3", "train.threads=5", "optim.plain_lr=0.25",
        "optim.plain_weight_decay=0.5", "optim.plain_optimizer=sgd", "optim.schedule=step", "strategy.first=4,6.5",
    }  # fmt: skip


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_program_that_is_missing_or_fails_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = json.dumps({"error": {"code": "io", "message": "no room", "status": 1}})
    for text, words in (
        (f"echo '{error}'; exit 1", "^no room$"),
        ("echo gbcompress: went away >&2; exit 9", "^the program gbcompress failed: went away$"),
        ("exit 9", "ended with status 9"),
        ("echo no object", "did not print a JSON object"),
    ):
        with pytest.raises(gbc.GbzError, match=words):
            gbc.strategies.dtp(mlp(), flat(), program=script(tmp_path / "program", text))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(gbc.UsageError, match="install the wheel gbcompress_train"):
        gbc.strategies.dtp(mlp(), flat())
