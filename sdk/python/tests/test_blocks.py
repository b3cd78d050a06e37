"""Calibration block by block."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._calibrate import pieces as _pieces  # noqa: E402

VOCABULARY = 48


def llama(layers: int = 3, **changes: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(11)
    settings = {
        "vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": layers, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 64,
    }  # fmt: skip
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**settings, **changes}))


def text(n: int, seed: int) -> torch.Tensor:
    """Sequences of a Markov chain: most letters follow from the two before."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, VOCABULARY, (n, 24), generator=generator)
    for i in range(2, 24):
        sure = torch.rand(n, generator=generator) < 0.85
        rows[:, i] = torch.where(sure, (3 * rows[:, i - 1] + 5 * rows[:, i - 2]) % VOCABULARY, rows[:, i])
    return rows


@pytest.fixture(scope="module")
def trained() -> Any:
    model = llama().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(60):
        batch = text(48, step)
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


BATCHES = [{"input_ids": text(12, 1000 + i)} for i in range(10)]


def lost(model: Any, file: Path) -> float:
    """KL divergence of the predictions on other text, in nats per token; the model gets its weights back."""
    state = {k: v.clone() for k, v in model.state_dict().items()}
    ids = text(64, 5000)
    with torch.no_grad():
        before = model(ids).logits.log_softmax(-1)
        gbc.load_into(model, file)
        now = model(ids).logits.log_softmax(-1)
        model.load_state_dict(state)
    return float((before.exp() * (before - now)).sum(-1).mean())


def test_blocks_are_better_than_without_data(trained: Any, tmp_path: Path) -> None:
    state = {k: v.clone() for k, v in trained.state_dict().items()}
    report = gbc.calibrate(trained, BATCHES, tmp_path / "b.gbz", ratio=9, blocks=True)
    gbc.save_file(trained.state_dict(), tmp_path / "d.gbz", ratio=9)
    sizes = [(tmp_path / name).stat().st_size for name in ("b.gbz", "d.gbz")]
    assert report.file.file_bytes == sizes[0] <= 1.01 * sizes[1]
    assert sizes[0] >= 0.95 * sizes[1]
    ours, theirs = lost(trained, tmp_path / "b.gbz"), lost(trained, tmp_path / "d.gbz")
    assert ours < 0.7 * theirs, (ours, theirs)
    assert report.error == pytest.approx(ours, rel=1)
    names = [block.name for block in report.blocks]
    assert names == ["before", "model.layers.0", "model.layers.1", "model.layers.2", "after"]
    assert all(block.error is not None and block.error < 0.5 for block in report.blocks[1:4])
    assert all(torch.equal(state[k], v) for k, v in trained.state_dict().items())
    assert trained.config.use_cache and not list(tmp_path.glob(".gbcompress*"))
    assert {t.name for t in report.file.tensors} == set(gbc.load_file(tmp_path / "b.gbz")) == set(state)


def test_a_killed_run_resumes(trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {"ratio": 9, "blocks": "model.layers"}
    gbc.calibrate(trained, BATCHES, tmp_path / "whole.gbz", **arguments)
    saves = 0
    save = _pieces.save

    def dies(*args: Any, **kwargs: Any) -> Any:
        nonlocal saves
        saves += 1
        if saves == 5:  # the allocation, what is before the blocks, two uses of the first block
            raise KeyboardInterrupt
        return save(*args, **kwargs)

    state = {k: v.clone() for k, v in trained.state_dict().items()}
    monkeypatch.setattr(_pieces, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        gbc.calibrate(trained, BATCHES, tmp_path / "killed.gbz", state=tmp_path / "state", **arguments)
    assert not (tmp_path / "killed.gbz").exists()
    assert all(torch.equal(state[k], v) for k, v in trained.state_dict().items())
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "state").glob("piece-*.gbz")}
    assert {"piece-0000.gbz", "piece-0001.gbz"} <= set(done)
    monkeypatch.setattr(_pieces, "save", save)
    report = gbc.calibrate(trained, BATCHES, tmp_path / "killed.gbz", state=tmp_path / "state", **arguments)
    for name in ("piece-0000.gbz", "piece-0001.gbz"):
        assert (tmp_path / "state" / name).stat().st_mtime_ns == done[name]
    assert (tmp_path / "killed.gbz").read_bytes() == (tmp_path / "whole.gbz").read_bytes()
    assert len(report.blocks) == 5
    # Another calibration does not take it.
    for batches, ratio in ((BATCHES[1:], 9), (BATCHES, 10)):
        with pytest.raises(gbc.UsageError, match="holds the state of another model, other batches or another target"):
            gbc.calibrate(
                trained, batches, tmp_path / "x.gbz", ratio=ratio, blocks=True, state=tmp_path / "state"
            )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(gbc.UsageError, match="is not empty and holds no state"):
        gbc.calibrate(trained, BATCHES, tmp_path / "x.gbz", ratio=9, blocks=True, state=tmp_path / "other")


def test_a_run_without_memory_resumes(trained: Any, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"ratio": 9, "blocks": "model.layers", "state": tmp_path / "state"}
    state = {k: v.clone() for k, v in trained.state_dict().items()}
    calls = 0

    def full(module: nn.Module, args: Any) -> None:
        nonlocal calls
        calls += len(list((tmp_path / "state").glob("piece-0001.gbz")))
        if calls == 3:  # when the first block is written
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")

    hook = trained.model.layers[1].mlp.register_forward_pre_hook(full)
    with pytest.raises(gbc.GbzError, match="memory ran out: .*state: call again with the same arguments") as caught:
        gbc.calibrate(trained, BATCHES, tmp_path / "m.gbz", **arguments)
    assert caught.value.code == "limit" and "\n" not in str(caught.value)
    hook.remove()
    assert not (tmp_path / "m.gbz").exists()
    assert all(torch.equal(state[k], v) for k, v in trained.state_dict().items())
    done = (tmp_path / "state" / "piece-0001.gbz").stat().st_mtime_ns
    gbc.calibrate(trained, BATCHES, tmp_path / "m.gbz", **arguments)
    assert (tmp_path / "state" / "piece-0001.gbz").stat().st_mtime_ns == done
    arguments.pop("state")
    gbc.calibrate(trained, BATCHES, tmp_path / "whole.gbz", **arguments)
    assert (tmp_path / "m.gbz").read_bytes() == (tmp_path / "whole.gbz").read_bytes()


def test_ties_and_large_files(tmp_path: Path) -> None:
    """Above four million integers the pieces have the profile lanes, as the whole file has."""
    model = llama(2, hidden_size=512, intermediate_size=1024, vocab_size=2048, tie_word_embeddings=True).eval()
    report = gbc.calibrate(
        model, BATCHES[:2], tmp_path / "m.gbz", bits=3, blocks=True, importance=False, state=tmp_path / "state"
    )
    info = gbc.inspect(tmp_path / "m.gbz")
    assert info.profile == "lanes" and report.file.target_met
    kinds = {t.name: t.kind for t in info.tensors}
    assert {kinds["lm_head.weight"], kinds["model.embed_tokens.weight"]} == {"quantized", "tied"}
    assert [block.name for block in report.blocks] == ["before", "model.layers.0", "model.layers.1"]
    whole = gbc.load_file(tmp_path / "m.gbz")
    for number in range(3):
        part = gbc.load_file(tmp_path / "state" / f"piece-{number:04d}.gbz")
        for name, array in part.items():
            assert array.tobytes() == whole[name].tobytes(), name


class Tower(nn.Module):
    """Blocks whose hidden states are keyword arguments and whose results are tuples."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(24, 64), nn.Linear(64, 24)

        def forward(self, *, hidden: torch.Tensor, scale: float) -> tuple[torch.Tensor, None]:
            return hidden + scale * self.down(torch.relu(self.up(hidden))), None

    def __init__(self, between: bool = False, skip: bool = False) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.head = nn.Linear(12, 24), nn.Linear(24, 7)
        self.blocks = nn.ModuleList(Tower.Block() for _ in range(3))
        self.heads = nn.ModuleList([nn.Linear(24, 1), nn.Identity()])
        self.between, self.skip = between, skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        for block in list(self.blocks)[: 2 if self.skip else 3]:
            hidden, _ = block(hidden=2 * hidden if self.between else hidden, scale=0.5)
        return self.head(hidden)


def test_other_signatures(tmp_path: Path) -> None:
    model = Tower().eval()
    x = [torch.randn(64, 12) for _ in range(5)]
    report = gbc.calibrate(model, x, tmp_path / "m.gbz", ratio=5, blocks=True)
    assert [block.name for block in report.blocks] == ["before", "blocks.0", "blocks.1", "blocks.2", "after"]
    assert report.error < 0.05 and report.file.target_met


def test_refuses_what_cannot_be(tmp_path: Path) -> None:
    x = [torch.randn(64, 12) for _ in range(3)]
    model, out = Tower().eval(), tmp_path / "x.gbz"
    for net, arguments, words in [
        (Tower(between=True), {"blocks": True}, "the inputs of blocks.1 are not the outputs of blocks.0"),
        (Tower(skip=True), {"blocks": True}, "batch 0 reaches 2 of the 3 modules of blocks"),
        (model, {"blocks": "layers"}, "blocks='layers' names no ModuleList .* the model has blocks, heads"),
        (nn.Linear(12, 3), {"blocks": True}, "no ModuleList of the model repeats a class"),
        (model, {"blocks": True, "minutes": 3}, "minutes has no effect on blocks"),
        (model, {"state": tmp_path / "s"}, "state belongs to blocks"),
        (model, {"blocks": 3}, "blocks must be True or a path"),
    ]:
        with pytest.raises(gbc.UsageError, match=words):
            gbc.calibrate(net.eval(), x, out, ratio=5, **arguments)
    with pytest.raises(gbc.UsageError, match="evaluate has no effect on blocks"):
        gbc.calibrate(model, x, out, ratio=8, evaluate=lambda net: 1.0, blocks=True)
    with pytest.raises(gbc.UsageError, match="max_drop has no effect on blocks"):
        gbc.calibrate(model, x, out, max_drop=1, evaluate=lambda net: 1.0, blocks=True)
    assert not list(tmp_path.iterdir())
