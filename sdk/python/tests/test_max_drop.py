"""prepare(max_drop=...): what is saved is what was measured."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest
from rings import ADAM, F, data, net, nn, torch, train

import gbcompress as gbc

STEPS = 400


def quality(model: nn.Module) -> float:
    """Minus the mean cross-entropy in nats: any change of a parameter or a statistic shows."""
    x, y = data(seed=1)
    model.eval()  # and left so: the training mode comes back by itself
    with torch.no_grad():
        return -float(F.cross_entropy(model(x).double(), y))


def given(norm: bool = True) -> nn.Module:
    """A model that is trained already."""
    model = net(norm=norm)
    train(model, torch.optim.Adam(model.parameters(), **ADAM), 300)
    return model


def drift(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Training on other inputs and labels: statistics, integers and all other parameters go astray."""
    x, y = data()
    for step in range(steps):
        rows = (torch.arange(64) * 7 + step * 13) % 512
        optimizer.zero_grad()
        F.cross_entropy(model(2 * x[rows] + 1), 1 - y[rows]).backward()
        optimizer.step()


class Run:
    """A run whose last part spoils the model, so that the state to be saved is an earlier one."""

    def __init__(self, max_drop: float = 0.05, good: int = 320, **settings: object) -> None:
        self.model = given()
        self.values: list[float] = []
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.given = quality(self.model)
        self.model.train()
        self.c = gbc.prepare(
            self.model, self.optimizer, predictions=512, steps=STEPS, max_drop=max_drop,
            evaluate=self.evaluate, **settings,
        )  # fmt: skip
        train(self.model, self.optimizer, good)
        drift(self.model, self.optimizer, STEPS - good)

    def evaluate(self) -> float:
        self.values.append(quality(self.model))
        return self.values[-1]


@pytest.mark.parametrize("exclude", [[], ["5.*"], ["0.*", "1.*"]])
def test_the_file_has_the_quality_that_was_measured(folder: Path, exclude: list[str]) -> None:
    """Batch norms, and parameters that stay exact but are trained."""
    run = Run(exclude=exclude)
    measured = list(run.values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.c.save(folder / "m.gbz")
    restored = net(seed=5, norm=True)
    gbc.load_into(restored, folder / "m.gbz")
    value = quality(restored)
    assert value >= run.given - 0.05
    assert min(abs(value - other) for other in measured) <= 1e-6
    assert value == pytest.approx(quality(run.model), abs=1e-6)
    assert run.c.quality == pytest.approx(value, abs=1e-6)
    assert run.c.quality_given == pytest.approx(run.given, abs=1e-6)


def test_what_is_kept_is_the_smallest_within_the_drop(folder: Path) -> None:
    run = Run()
    sizes: list[tuple[float, int]] = []
    other = Run.__new__(Run)
    other.model = given()
    other.values = []
    other.optimizer = torch.optim.Adam(other.model.parameters(), lr=2e-3)
    other.model.train()

    def evaluate() -> float:
        value = quality(other.model)
        if hasattr(other, "c"):
            sizes.append((value, other.c.bytes()))
        return value

    other.c = gbc.prepare(
        other.model, other.optimizer, predictions=512, steps=STEPS, max_drop=0.05, evaluate=evaluate
    )
    train(other.model, other.optimizer, 320)
    drift(other.model, other.optimizer, STEPS - 320)
    assert len(sizes) >= 20
    within = [size for value, size in sizes if value >= run.given - 0.05]
    assert run.c.save(folder / "m.gbz") == min(within)


def test_training_goes_on_as_if_nothing_was_measured() -> None:
    """Neither evaluate nor what is rounded for it moves modes, buffers or latents."""
    results = []
    for measures in (False, True):
        model = given()
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

        def evaluate(model: nn.Module = model) -> float:
            model.train()
            model(data(seed=2)[0])  # moves running statistics
            return quality(model)

        settings = {"max_drop": 1e9, "evaluate": lambda: 2e9} if not measures else {
            "max_drop": 9.0, "evaluate": evaluate
        }  # fmt: skip
        c = gbc.prepare(model, optimizer, predictions=512, steps=80, rate_weight=0.05, **settings)
        kept = None if measures else model[1].running_var.clone()
        train(model, optimizer, 60)
        assert model.training and model[1].training
        results.append((model[1].running_var.clone(), c.parts[0].latents.clone(), kept))
    assert torch.equal(results[0][1], results[1][1])
    # evaluate moved the statistics once, before the run; never in it
    assert not torch.equal(results[0][0], results[0][2])
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-2, atol=1e-3)


def test_no_state_within_the_drop_is_a_warning(folder: Path) -> None:
    run = Run(max_drop=1e-9, good=0, rate_weight=2.0)
    with pytest.warns(gbc.TargetNotMet, match=r"max_drop=1e-09 is exceeded.*the nearest") as caught:
        run.c.save(folder / "m.gbz")
    assert Path(caught[0].filename) == Path(__file__)
    restored = net(seed=5, norm=True)
    gbc.load_into(restored, folder / "m.gbz")
    # The file holds the state whose drop is smallest, not the last one.
    assert quality(restored) == pytest.approx(max(run.values[1:]), abs=1e-6)
    assert quality(restored) > min(run.values[1:]) + 0.01
    assert run.c.quality == pytest.approx(quality(restored), abs=1e-6)


def test_an_evaluate_that_changes_its_mind_is_a_warning(folder: Path) -> None:
    model = given()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    answers = iter([0.97, *[0.965] * 40])
    finished: list[float] = []
    c = gbc.prepare(
        model, optimizer, predictions=512, steps=50, max_drop=0.01,
        evaluate=lambda: finished[0] if finished else next(answers),
    )  # fmt: skip
    train(model, optimizer, 50)
    c.finish()
    finished.append(0.5)
    with pytest.warns(gbc.TargetNotMet, match=r"returned 0.965 when this state was kept and 0.5 now"):
        c.save(folder / "m.gbz")
    assert c.quality == 0.5


@pytest.mark.parametrize(
    ("value", "max_drop", "words"),
    [
        (0.97, 1, r"max_drop=1 is in units of evaluate, which returned 0.97"),
        (97.2, 100, r"max_drop=100 is in units of evaluate, which returned 97.2"),
        (0.97, 0.97, "every model is within it; give a smaller one, such as max_drop=0.0097"),
        (0.0, 0.01, "evaluate returned 0 for the model as given.*; train the model first"),
        (math.nan, 0.01, "finite number, got nan"),
        (-math.inf, 0.01, "finite number, got -inf"),
        (None, 0.01, "evaluate must return a number, got None"),
        ("97 %", 0.01, "evaluate must return a number, got"),
    ],
)
def test_drops_that_say_nothing(value: object, max_drop: float, words: str) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    before = model[0].weight.clone()
    with pytest.raises(gbc.UsageError, match=words):
        gbc.prepare(
            model, optimizer, predictions=10, steps=10, max_drop=max_drop, evaluate=lambda: value
        )
    assert torch.equal(before, model[0].weight)
    gbc.prepare(model, optimizer, predictions=10, steps=10, rate_weight=1)  # nothing stayed behind


@pytest.mark.parametrize("value", [-1.7, 97.0, torch.tensor(0.9), 0.5])
def test_drops_that_are_accepted(value: object) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    gbc.prepare(model, optimizer, predictions=9, steps=9, max_drop=0.4, evaluate=lambda: value)


def test_a_resumed_run_keeps_what_was_kept(folder: Path) -> None:
    def begin() -> tuple:
        model = given()
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        c = gbc.prepare(
            model, optimizer, predictions=512, steps=200, max_drop=0.05,
            evaluate=lambda: quality(model),
        )  # fmt: skip
        return model, optimizer, c

    def last(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        drift(model, optimizer, 60)

    whole = begin()
    train(whole[0], whole[1], 140)
    torch.save([x.state_dict() for x in whole], folder / "state.pt")
    last(*whole[:2])
    other = begin()
    for x, state in zip(other, torch.load(folder / "state.pt", weights_only=True), strict=True):
        x.load_state_dict(state)
    last(*other[:2])
    whole[2].save(folder / "a.gbz")
    other[2].save(folder / "b.gbz")
    assert (folder / "a.gbz").read_bytes() == (folder / "b.gbz").read_bytes()
    assert other[2].quality >= other[2].quality_given - 0.05


def test_saving_twice_gives_the_same_file_and_training_goes_on(folder: Path) -> None:
    run = Run()
    run.c.save(folder / "a.gbz")
    run.c.save(folder / "b.gbz")
    assert (folder / "a.gbz").read_bytes() == (folder / "b.gbz").read_bytes()
    updates = run.c.updates
    with pytest.warns(gbc.StepsExceeded):
        train(run.model, run.optimizer, 1)
    assert run.c.updates == updates + 1 == STEPS + 1
