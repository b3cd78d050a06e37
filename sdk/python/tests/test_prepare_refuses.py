"""What prepare() and its hooks refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from rings import net, prepared, train

import gbcompress as gbc

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "no target; give one of rate_weight, max_bytes, ratio and max_drop"),
        ({"rate_weight": 0}, "rate_weight must be above 0, got 0"),
        ({"rate_weight": float("nan")}, "rate_weight must be finite, got nan"),
        ({"max_bytes": 0}, "max_bytes must be at least 1"),
        ({"max_bytes": 9, "max_drop": 1}, "max_bytes and max_drop contradict each other"),
        ({"max_drop": 0.1}, "max_drop needs evaluate"),
        ({"max_drop": -1, "evaluate": lambda: 0.0}, "max_drop must be at least 0, got -1"),
        ({"rate_weight": 1, "predictions": 0}, "predictions must be at least 1"),
        ({"rate_weight": 1, "steps": 0}, "steps must be at least 1"),
        ({"rate_weight": 1, "step_speed": 0}, "step_speed must be above 0"),
        ({"rate_weight": "0.1"}, "rate_weight must be a number, got '0.1'"),
        ({"rate_weight": 1, "predictions": 1.5}, "predictions must be an integer, got 1.5"),
        ({"rate_weight": 1, "steps": None}, "steps must be a number, got None"),
        ({"rate_weight": 1, "step_rate": -1}, "step_rate must be above 0, got -1"),
        ({"rate_weight": 1, "seed": -1}, "seed must be at least 0, got -1"),
        ({"ratio": 0}, "ratio must be above 1, got 0"),
        ({"ratio": 4, "max_bytes": 9}, "max_bytes and ratio contradict each other"),
        ({"rate_weight": 1, "evaluate": lambda: 1.0}, "evaluate has no effect without max_drop"),
        ({"max_drop": 0.1, "evaluate": 0.97}, "evaluate must be a function .*, got a float"),
        ({"rate_weight": 1, "exclude": "0.*"}, "exclude must be a list of names, got '0.\\*'"),
        ({"rate_weight": 1, "rules": gbc.LayerRule("*")}, "rules must be a list of gbc.LayerRule, got a LayerRule"),
        ({"rate_weight": 1, "rules": ["0.*"]}, "rules must be a list of gbc.LayerRule, got the text"),
        ({"rate_weight": 1, "rules": [gbc.LayerRule("0.*")]}, "the rule '0.\\*' sets nothing"),
        ({"rate_weight": 1, "rules": [gbc.LayerRule("0.*", "exact", True)]}, "mode='exact' does not have"),
        ({"rate_weight": 1, "rules": [gbc.LayerRule("*.bias", row_steps=True)]}, "parameters of one dimension"),
        ({"rate_weight": 1, "exclude": ["nothing.*"]}, "'nothing.*' matches no parameter"),
        ({"rate_weight": 1, "exclude": ["*"]}, "no parameter to compress"),
        ({"rate_weight": 1, "rules": [gbc.LayerRule("*", mode="generated")]}, "must be 'quantized' or 'exact', got 'generated'"),
    ],
)
def test_settings(settings: dict, words: str) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    before = model[0].weight.clone()
    with pytest.raises(gbc.UsageError, match=words):
        gbc.prepare(model, optimizer, **{"predictions": 10, "steps": 10, **settings})
    assert torch.equal(before, model[0].weight)
    gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)  # nothing stayed behind


def test_rules_for_frozen_parameters() -> None:
    model = net()
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    for rule in (gbc.LayerRule("0.*", row_steps=True), gbc.LayerRule("0.*", mode="quantized")):
        with pytest.raises(gbc.UsageError, match="matches only frozen parameters"):
            gbc.prepare(model, optimizer, predictions=9, steps=9, rate_weight=1, rules=[rule])
    gbc.prepare(model, optimizer, predictions=9, steps=9, rate_weight=1, exclude=["0.*"])


@pytest.mark.parametrize("wrong", [None, {}, "m.pt", [net()]])
def test_models_that_are_none(wrong: object) -> None:
    optimizer = torch.optim.Adam(net().parameters())
    with pytest.raises(gbc.UsageError, match="the model must be a torch module, got"):
        gbc.prepare(wrong, optimizer, predictions=9, steps=9, rate_weight=1)  # type: ignore[arg-type]


def test_two_on_one_optimizer() -> None:
    model, optimizer, _ = prepared()
    with pytest.raises(gbc.UsageError, match="prepared already"):
        gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)


def test_an_optimizer_that_was_stepped_before() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    with pytest.raises(gbc.UsageError, match="stepped before"):
        gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)


def test_a_parameter_in_no_group() -> None:
    model = net()
    optimizer = torch.optim.Adam(model[0].parameters())
    with pytest.raises(gbc.UsageError, match="2.weight is in no group"):
        gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)
    gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1, exclude=["2.*", "4.*"])


def test_optimizers_that_hooks_cannot_serve() -> None:
    model = net()
    with pytest.raises(gbc.UsageError, match="LBFGS"):
        gbc.prepare(
            model, torch.optim.LBFGS(model.parameters()), predictions=10, steps=10, rate_weight=1
        )
    with pytest.raises(gbc.UsageError, match="must be a torch.optim.Optimizer, got an object"):
        gbc.prepare(model, object(), predictions=10, steps=10, rate_weight=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite(value: float) -> None:
    model, optimizer, c = prepared()
    train(model, optimizer, 2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    latent = c.parts[0].entries[2].latent.clone()
    model[2].weight.grad[3, 4] = value
    with pytest.raises(gbc.GbzError, match="gradient of 2.weight is not finite at step 3") as caught:
        optimizer.step()
    assert caught.value.code == "non_finite"
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert torch.equal(latent, c.parts[0].entries[2].latent)
    train(model, optimizer, 1)
    assert c.updates == 3


def test_a_parameter_that_was_replaced() -> None:
    model, optimizer, c = prepared()
    train(model, optimizer, 1)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    weight = model[2].weight
    kept, weight.data = weight.data, torch.zeros(3, 32)
    weight.grad = torch.zeros(3, 32)
    with pytest.raises(gbc.UsageError, match="2.weight was moved or replaced since prepare"):
        optimizer.step()
    weight.data, weight.grad = kept, None
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    train(model, optimizer, 1)
    assert c.updates == 2


def test_a_sparse_gradient() -> None:
    model = torch.nn.Embedding(9, 4, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)
    model(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(gbc.UsageError, match="gradient of weight is sparse"):
        optimizer.step()


def test_weights_that_are_not_finite(folder: Path) -> None:
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    with pytest.raises(gbc.GbzError, match="0.weight holds NaN") as caught:
        gbc.prepare(
            model, torch.optim.Adam(model.parameters()), predictions=10, steps=10, rate_weight=1
        )
    assert caught.value.code == "non_finite"


def test_a_state_of_another_model() -> None:
    _, _, c = prepared()
    model = net()
    model.append(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    other = gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)
    before = other.parts[0].entries[0].latent.clone()
    with pytest.raises(gbc.GbzError) as caught:
        other.load_state_dict(c.state_dict())
    assert caught.value.code == "shape_mismatch"
    with pytest.raises(gbc.GbzError, match="the state has version 2"):
        other.load_state_dict({**c.state_dict(), "version": 2})
    for wrong in ({}, [], None, {"version": 1}, "state.pt"):
        with pytest.raises(gbc.UsageError, match="not one of Compression.state_dict"):
            other.load_state_dict(wrong)  # type: ignore[arg-type]
    _, _, sized = prepared(max_bytes=900)
    with pytest.raises(gbc.UsageError, match="another kind of target"):
        c.load_state_dict(sized.state_dict())
    assert torch.equal(before, other.parts[0].entries[0].latent)
