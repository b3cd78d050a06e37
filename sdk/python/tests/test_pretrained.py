"""Models of Hugging Face's libraries to packed folders, from Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
from test_folders import SENTENCES, bert  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress.huggingface import save_pretrained  # noqa: E402


def llama(**changes: Any) -> Any:
    torch.manual_seed(7)
    settings = {
        "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64,
    }  # fmt: skip
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**settings, **changes})).eval()


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


IDS = torch.arange(20).view(2, 10)


def test_sharded_folders(program: Run, folder: Path) -> None:
    model = llama()
    model.save_pretrained(folder / "shards", max_shard_size="20KB")
    assert (folder / "shards" / "model.safetensors.index.json").exists()
    gbc.compress_folder(folder / "shards", folder / "packed", lossless=True)
    assert files_in(folder / "packed") == {"model.gbz", "config.json", "generation_config.json"}
    back = transformers.AutoModelForCausalLM.from_pretrained(folder / "packed")
    assert all(torch.equal(back.state_dict()[k], v) for k, v in model.state_dict().items())
    # The command line writes the same file.
    gbc.compress_folder(folder / "shards", folder / "python", 6)
    program("compress", folder / "shards", "--ratio", 6, "-o", f"{folder}/program/")
    assert files_in(folder / "python") == files_in(folder / "program")
    assert (folder / "python" / "model.gbz").read_bytes() == (folder / "program" / "model.gbz").read_bytes()


def test_tokenizers_travel_along(folder: Path) -> None:
    source = bert(folder / "bert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.BertModel.from_pretrained(source).eval()
    save_pretrained(model, folder / "packed", 4, tokenizer=tokenizer)
    assert (folder / "packed" / "tokenizer.json").exists()
    after = transformers.AutoTokenizer.from_pretrained(folder / "packed")
    tokens = after(SENTENCES, padding=True, return_tensors="pt")
    assert tokens["input_ids"].tolist() == tokenizer(SENTENCES, padding=True)["input_ids"]
    back = transformers.AutoModel.from_pretrained(folder / "packed")
    with torch.no_grad():
        a, b = model(**tokens).last_hidden_state, back(**tokens).last_hidden_state
    assert 0 < float((a - b).square().sum() / a.square().sum()) < 0.1


def test_data_lowers_the_error(folder: Path) -> None:
    source = bert(folder / "bert")
    words = [" ".join(np.random.default_rng(i).permutation("a tree by the river and stone".split())) for i in range(96)]
    plain = gbc.compress_folder(source, folder / "plain", 8)
    tuned = gbc.compress_folder(source, folder / "tuned", 8, data=words[:64])
    assert tuned.file_bytes <= 1.02 * plain.file_bytes
    model = transformers.AutoModel.from_pretrained(source).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(source)(words[64:], padding=True, return_tensors="pt")
    errors = []
    with torch.no_grad():
        before = model(**tokens).last_hidden_state
        for name in ("tuned", "plain"):
            now = transformers.AutoModel.from_pretrained(folder / name)(**tokens).last_hidden_state
            errors.append(float((now - before).square().sum()))
    assert errors[0] < 0.9 * errors[1], errors
    batches = [dict(tokens)]
    gbc.compress_folder(source, folder / "batches", 8, data=batches)
    assert (folder / "batches" / "model.gbz").exists()


def test_nothing_is_written_beside_files_that_stay(folder: Path) -> None:
    model = llama()
    model.save_pretrained(folder / "own")
    before = files_in(folder / "own")
    for call in (
        lambda: save_pretrained(model, folder / "own", 4),
        lambda: gbc.compress_folder(folder / "own", folder / "own2", 4),
    ):
        (folder / "own2").mkdir(exist_ok=True)
        (folder / "own2" / "config.json").write_text("{}")
        with pytest.raises(gbc.FileExists, match="config.json exists"):
            call()
    assert files_in(folder / "own") == before
    assert files_in(folder / "own2") == {"config.json"}
    save_pretrained(model, folder / "own2", 4, overwrite=True)
    assert "model.gbz" in files_in(folder / "own2")


def test_refuses_what_cannot_be(folder: Path) -> None:
    model = llama()
    save_pretrained(model, folder / "packed", 4)
    for call, words in [
        (lambda: save_pretrained(torch.nn.Linear(3, 3), folder / "x"), "save_file\\(\\) takes the state_dict"),
        (lambda: save_pretrained("model", folder / "x"), "takes a model of Transformers"),
        (lambda: save_pretrained(model, folder / "x", tokenizer=3), "must have save_pretrained"),
        (lambda: save_pretrained(model, folder / "x", 4, max_bytes=10), "contradict"),
        (lambda: gbc.compress_folder(folder / "packed", folder / "packed"), "is the folder that is read"),
    ]:
        with pytest.raises(gbc.UsageError, match=words):
            call()
    with pytest.raises(gbc.NotFound):
        gbc.compress_folder(folder / "none", folder / "x")
    with pytest.raises(gbc.FileExists):
        save_pretrained(model, folder / "packed", 4)
    source = folder / "source"
    model.save_pretrained(source)
    for data, words in [("text", "got one text"), (3, "got an int"), ([], "empty"), (["a", torch.ones(1)], "one kind")]:
        # Text for a folder without a tokenizer: errors of Transformers, in version 4 AttributeError.
        with pytest.raises((gbc.UsageError, OSError, ValueError, AttributeError), match=words if words != "one kind" else ""):
            gbc.compress_folder(source, folder / "x", data=data)
    with pytest.raises(gbc.UsageError, match="data has an effect on a size alone"):
        gbc.compress_folder(source, folder / "x", max_error=0.01, data=[IDS])
    with pytest.raises(gbc.UsageError, match="matches no tensor"):
        gbc.compress_folder(source, folder / "x", exact=["nothing.*"])
    assert not (folder / "x").exists() and sorted(p.name for p in folder.iterdir()) == ["packed", "source"]
