"""The examples run, and their files are as small and as good as they say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gbcompress as gbc

torch = pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[1] / "examples"
DIGITS = Path(__file__).parents[3] / "samples" / "digits"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_digits(folder: Path) -> None:
    size, accuracy = example("digits").main(
        [str(DIGITS), str(folder / "m.gbz"), "--rate-weight", "0.03"]
    )
    assert size < 800 and accuracy > 0.94


def test_lstm(folder: Path) -> None:
    size, accuracy, before = example("lstm").main([str(folder / "m.gbz")])
    assert before > 50 * size and accuracy > 0.93


def test_hugging_face_trainer(folder: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    size, loss, before = example("transformer").main(
        [str(folder / "m.gbz"), str(folder / "checkpoints"), "--steps", "300"]
    )
    assert before > 40 * size and loss < 0.7
    assert any(t.name == "lm_head.weight" and t.tied_to for t in gbc.inspect(folder / "m.gbz").tensors)


def test_hugging_face_resumes(folder: Path) -> None:
    """Stopped after half the steps and gone on from the Trainer's checkpoint: the same file."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    module = example("transformer")
    from gbcompress.huggingface import GbzCallback

    class Stop(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            control.should_training_stop = state.global_step == 10

    data = module.Windows(4000, 0)
    for name, runs in {"whole": [False], "halves": [True, False]}.items():
        for stops in runs:
            arguments = transformers.TrainingArguments(
                output_dir=str(folder / name), max_steps=20, per_device_train_batch_size=4,
                save_steps=10, logging_strategy="no", report_to=[], disable_tqdm=True,
                use_cpu=True, seed=0,
            )  # fmt: skip
            callback = GbzCallback(
                folder / f"{name}.gbz", rate_weight=0.1, predictions=data.rows.numel(), overwrite=True
            )
            trainer = transformers.Trainer(
                model=module.new_model(), args=arguments, train_dataset=data,
                callbacks=[callback, *([Stop()] if stops else [])],
            )  # fmt: skip
            trainer.train(resume_from_checkpoint=runs[0] and not stops)
    assert (folder / "whole.gbz").read_bytes() == (folder / "halves.gbz").read_bytes()


def test_lightning(folder: Path) -> None:
    pytest.importorskip("lightning")
    size, accuracy, before = example("lightning_classifier").main([str(folder / "m.gbz")])
    assert before > 12 * size and accuracy > 0.9
    kinds = {t.name: t.kind for t in gbc.inspect(folder / "m.gbz").tensors}
    assert kinds["net.1.running_mean"] == kinds["net.1.weight"] == "quantized"


def test_distilled_voice_detector(folder: Path) -> None:
    """A short form: weights that were never trained, some steps."""
    from safetensors.torch import save_file

    module = example("distill_vad")
    torch.manual_seed(0)
    state = module.Detector().state_dict()
    save_file({k.removesuffix("_l0"): v for k, v in state.items()}, folder / "w.safetensors")
    (free, *_), (size, same, alike) = module.main(
        [str(folder / "w.safetensors"), str(folder / "m.gbz"), "--steps", "30", "--clips", "100"]
    )
    assert 100_000 < free < 155_000 and 50_000 < size < 62_000
    assert same > 0.5 and alike > 0.2
    assert {t.name for t in gbc.inspect(folder / "m.gbz").tensors} == set(state)
