"""Folders of Hugging Face's libraries, there and back, opened by the libraries themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

os.environ["HF_HUB_OFFLINE"] = "1"
SENTENCES = ["a tree by the river", "the river and a stone", "stone tree", "by the"]


def bert(folder: Path) -> Path:
    """A tiny BERT with random weights, its tokenizer beside it."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(" ".join(SENTENCES).split()))]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=40,
    )  # fmt: skip
    transformers.BertModel(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def there_and_back(program: Run, folder: Path, *target: str) -> Path:
    packed, back = folder.parent / "packed", folder.parent / "back"
    program("compress", folder, "-o", f"{packed}/", "--force", *target)
    program("expand", packed, "-o", f"{back}/", "--force")
    return back


def test_transformers(program: Run, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    source = bert(folder / "bert")
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "tool.jinja").write_text("{{ messages }}")
    back = there_and_back(program, source, "--mode", "exact")
    before, after = (
        transformers.AutoModel.from_pretrained(path).eval() for path in (source, back)
    )
    tokens = [
        transformers.AutoTokenizer.from_pretrained(path)(SENTENCES, padding=True, return_tensors="pt")
        for path in (source, back)
    ]
    assert tokens[0]["input_ids"].tolist() == tokens[1]["input_ids"].tolist()
    with torch.no_grad():
        a, b = before(**tokens[0]), after(**tokens[1])
    assert torch.equal(a.last_hidden_state, b.last_hidden_state)
    assert (back / "additional_chat_templates" / "tool.jinja").read_text() == "{{ messages }}"


def test_sentence_transformers(program: Run, folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules as models

    transformer = models.Transformer(str(bert(folder / "bert")), max_seq_length=20)
    width = transformer.get_embedding_dimension()
    whole = library.SentenceTransformer(
        modules=[transformer, models.Pooling(width), models.Dense(width, 16), models.Normalize()],
        device="cpu",
    )
    source = folder / "sentences"
    whole.save(str(source))
    subfolders = {p.relative_to(source).as_posix() for p in source.rglob("*") if len(p.relative_to(source).parts) > 1}
    assert "1_Pooling/config.json" in subfolders
    assert any(name.startswith("2_Dense/") and name.endswith(".safetensors") for name in subfolders)
    wanted = whole.encode(SENTENCES)

    back = there_and_back(program, source, "--mode", "exact")
    # Empty folders (of modules without settings) are made where the library looks for nothing.
    kept = {p.relative_to(back).as_posix() for p in back.rglob("*") if p.is_file()}
    assert kept >= {name for name in subfolders if (source / name).is_file()}
    assert json.loads((back / "modules.json").read_text()) == json.loads((source / "modules.json").read_text())
    got = library.SentenceTransformer(str(back), device="cpu").encode(SENTENCES)
    assert np.array_equal(got, wanted)

    back = there_and_back(program, source, "--ratio", "4")
    got = library.SentenceTransformer(str(back), device="cpu").encode(SENTENCES)
    assert (np.sum(got * wanted, axis=1) > 0.9).all()
