"""The callbacks of Hugging Face's Trainer and of Lightning: logs, settings, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rings import data, net, nn, torch

import gbcompress as gbc

TAGS = {"gbcompress/rate_weight", "gbcompress/bits", "gbcompress/bytes"}


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Of all event files below a folder, as TensorBoard reads them."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, list[tuple[int, float]]] = {}
    for run in {path.parent for path in folder.rglob("events.out.tfevents.*")}:
        events = EventAccumulator(str(run), size_guidance={"scalars": 0})
        events.Reload()
        for tag in events.Tags()["scalars"]:
            found[tag] = [(event.step, event.value) for event in events.Scalars(tag)]
    return found


class Rings(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.x, self.y = data()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.x[index], "labels": self.y[index]}


class Classifier(nn.Module):
    """As the Trainer wants a model: it computes its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net(norm=True)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.net(x)
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}


def trainer(folder: Path, callback: Any, **settings: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    arguments = transformers.TrainingArguments(**{
        "output_dir": str(folder / "run"), "max_steps": 40, "per_device_train_batch_size": 32,
        "learning_rate": 5e-3, "logging_steps": 10, "save_strategy": "no", "report_to": [],
        "disable_tqdm": True, "use_cpu": True, "seed": 0, "remove_unused_columns": False, **settings,
    })  # fmt: skip
    return transformers.Trainer(
        model=Classifier(), args=arguments, train_dataset=Rings(), eval_dataset=Rings(),
        callbacks=[callback],
    )  # fmt: skip


def test_the_trainers_tensorboard_shows_the_rate(folder: Path) -> None:
    pytest.importorskip("transformers")
    from gbcompress.huggingface import GbzCallback

    made = trainer(folder, GbzCallback(folder / "m.gbz", rate_weight=0.05), report_to=["tensorboard"])
    made.train()
    found = scalars(folder / "run")
    assert {f"train/{tag}" for tag in TAGS} | {"train/loss"} <= found.keys()
    weights = found["train/gbcompress/rate_weight"]
    assert [step for step, _ in weights] == [10, 20, 30, 40]
    assert weights[0][1] == pytest.approx(0.05 * 11 / 20) and weights[-1][1] == pytest.approx(0.05)
    sizes = [value for _, value in found["train/gbcompress/bytes"]]
    assert sizes[0] > sizes[-1] > 100
    assert found["train/gbcompress/bits"][-1][1] > 100
    logged = [entry for entry in made.state.log_history if "loss" in entry]
    assert len(logged) == 4 and all(entry.keys() >= TAGS for entry in logged)


def test_the_trainers_best_checkpoint_is_what_is_saved(folder: Path) -> None:
    """load_best_model_at_end puts back parameters: the file is that of the same moment."""
    transformers = pytest.importorskip("transformers")
    from gbcompress.huggingface import GbzCallback

    class Spoil(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def on_step_begin(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            if state.global_step >= 20:
                for group in kwargs["optimizer"].param_groups:
                    group["lr"] = 1.0

    made = trainer(
        folder, GbzCallback(folder / "m.gbz", rate_weight=0.05), save_strategy="steps", save_steps=10,
        eval_strategy="steps", eval_steps=10, load_best_model_at_end=True,
    )  # fmt: skip
    made.add_callback(Spoil())
    made.train()
    assert made.state.best_model_checkpoint.endswith(("-10", "-20"))
    restored = Classifier()
    gbc.load_into(restored, folder / "m.gbz")
    for name, value in made.model.state_dict().items():
        torch.testing.assert_close(value.cpu(), restored.state_dict()[name], rtol=0, atol=0)
    best = next(e["eval_loss"] for e in made.state.log_history
                if f"-{e['step']}" == made.state.best_model_checkpoint[-3:] and "eval_loss" in e)  # fmt: skip
    x, y = data()
    loss = float(restored.eval()(x, y)["loss"])
    assert loss == pytest.approx(best, abs=0.02)


def test_the_trainer_does_not_begin_what_it_cannot_save(folder: Path) -> None:
    pytest.importorskip("transformers")
    from gbcompress.huggingface import GbzCallback

    (folder / "m.gbz").write_bytes(b"mine")
    made = trainer(folder, GbzCallback(folder / "m.gbz", rate_weight=0.05))
    with pytest.raises(gbc.FileExists):
        made.train()
    assert made.state.global_step == 0 and (folder / "m.gbz").read_bytes() == b"mine"
    made = trainer(folder, GbzCallback(folder / "none" / "m.gbz", rate_weight=0.05))
    with pytest.raises(gbc.GbzError, match="none"):
        made.train()
    assert made.state.global_step == 0


def test_the_trainer_resumes_only_with_the_state(folder: Path) -> None:
    pytest.importorskip("transformers")
    from gbcompress.huggingface import STATE_NAME, GbzCallback

    def made() -> Any:
        callback = GbzCallback(folder / "m.gbz", rate_weight=0.05, overwrite=True)
        return trainer(folder, callback, save_strategy="steps", save_steps=20)

    made().train()
    checkpoint = folder / "run" / "checkpoint-20"
    state = (checkpoint / STATE_NAME).read_bytes()
    (checkpoint / STATE_NAME).unlink()
    with pytest.raises(gbc.NotFound, match="made without this callback"):
        made().train(resume_from_checkpoint=str(checkpoint))
    (checkpoint / STATE_NAME).write_bytes(state[: len(state) // 2])
    with pytest.raises(Exception):  # torch's own
        made().train(resume_from_checkpoint=str(checkpoint))
    (checkpoint / STATE_NAME).write_bytes(state)
    made().train(resume_from_checkpoint=str(checkpoint))


@pytest.mark.parametrize("framework", ["huggingface", "lightning"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "no target; give one of rate_weight"),
        ({"prise": 0.1}, "there is no setting prise; prepare\\(\\) takes rate_weight, max_bytes"),
        ({"rate_weight": 1, "steps": 10}, "steps comes from the trainer"),
        ({"rate_weight": 1, "filename": None}, "filename must be a path, got None"),
    ],
)
def test_settings_are_checked_at_once(framework: str, settings: dict, words: str) -> None:
    pytest.importorskip("transformers" if framework == "huggingface" else "lightning")
    if framework == "huggingface":
        from gbcompress.huggingface import GbzCallback
    else:
        from gbcompress.lightning import GbzCallback  # type: ignore[assignment]
    with pytest.raises(gbc.UsageError, match=words):
        GbzCallback(**{"filename": "m.gbz", **settings})


def test_lightnings_loggers_show_the_rate(folder: Path) -> None:
    pl = pytest.importorskip("lightning.pytorch")
    pytest.importorskip("tensorboard")
    from gbcompress.lightning import GbzCallback

    class Module(pl.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = net(norm=True)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=5e-3)

    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(*data()), batch_size=32)
    logger = pl.loggers.TensorBoardLogger(folder / "logs")
    made = pl.Trainer(
        max_epochs=3, accelerator="cpu", logger=logger, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=8,
        callbacks=[GbzCallback(folder / "m.gbz", rate_weight=0.05)],
    )  # fmt: skip
    made.fit(Module(), loader)
    found = scalars(folder / "logs")
    assert TAGS | {"gbcompress/loss"} <= found.keys()
    assert [step for step, _ in found["gbcompress/bytes"]] == [8, 16, 24, 32, 40, 48]
    losses = [value for _, value in found["gbcompress/loss"]]
    assert 0 < losses[-1] < losses[0] < 5
    assert found["gbcompress/rate_weight"][-1][1] == pytest.approx(0.05)


def test_lightning_without_an_end(folder: Path) -> None:
    pl = pytest.importorskip("lightning.pytorch")
    from gbcompress.lightning import GbzCallback

    class Two(pl.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self, optimizers: int) -> None:
            super().__init__()
            self.net, self.optimizers_made = net(), optimizers
            self.automatic_optimization = optimizers == 1

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(self.parameters(), 0.1) for _ in range(self.optimizers_made)]

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=64)
    for optimizers, epochs, words in ((2, 1, "2 optimizers"), (1, -1, "the trainer has no end")):
        made = pl.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[GbzCallback(folder / "m.gbz", rate_weight=0.05)],
        )  # fmt: skip
        with pytest.raises(gbc.UsageError, match=words):
            made.fit(Two(optimizers), loader)
