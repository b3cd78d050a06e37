"""A small Hugging Face transformer with Trainer: the next letter of sentences that a grammar makes.

    python transformer.py gpt2.gbz FOLDER_FOR_CHECKPOINTS [--rate-weight 0.1]

Configuration and data are made here; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import gbcompress as gbc
from gbcompress.huggingface import GbzCallback

LETTERS = " abcdefghijklmnopqrstuvwxyz."
LENGTH = 64


def text(letters: int, seed: int) -> str:
    """Subject, verb and object agree: there is something to learn beyond words."""
    choose = random.Random(seed).choice
    made = ""
    while len(made) < letters:
        noun, many = choose(["fox", "hen", "owl", "cat", "dog"]), choose([True, False])
        verb, thing = choose(["see", "hear", "find"]), choose(["a river", "the moon", "an old road"])
        made += f"{'all' if many else 'the'} {noun}{'s' if many else ''} {verb}{'' if many else 's'} {thing}. "
    return made


class Windows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, letters: int, seed: int) -> None:
        codes = torch.tensor([LETTERS.index(c) for c in text(letters, seed)])
        self.rows = codes[: len(codes) // LENGTH * LENGTH].view(-1, LENGTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def new_model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(LETTERS), n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def nats(model: torch.nn.Module, data: Windows) -> float:
    """Mean cross-entropy of a character."""
    model.eval()
    with torch.no_grad():
        return float(model(input_ids=data.rows, labels=data.rows).loss)


def main(arguments: list[str] | None = None) -> tuple[int, float, int]:
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate-weight", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args(arguments)

    data, model = Windows(60_000, 0), new_model()
    callback = GbzCallback(
        options.output, rate_weight=options.rate_weight, predictions=data.rows.numel(), overwrite=True,
        step_speed=6,
    )  # fmt: skip
    training = TrainingArguments(
        output_dir=str(options.folder), max_steps=options.steps, per_device_train_batch_size=16,
        learning_rate=3e-3, lr_scheduler_type="cosine", warmup_steps=20, logging_strategy="no",
        save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, seed=0,
    )  # fmt: skip
    Trainer(model=model, args=training, train_dataset=data, callbacks=[callback]).train()

    restored = new_model()
    gbc.load_into(restored, options.output)
    size, loss = options.output.stat().st_size, nats(restored, Windows(10_000, 1))
    before = sum(p.numel() * p.element_size() for p in model.parameters())
    print(f"{options.output}: {before} bytes became {size}, {loss:.3f} nats per character of new text")
    return size, loss, before


if __name__ == "__main__":
    main()
