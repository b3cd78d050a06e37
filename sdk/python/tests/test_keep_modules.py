"""Modules beside linear layers, convolutions and embeddings that stay compressed: GPT-2's Conv1D, recurrent layers, experts."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._keep.keep import kept_state, release  # noqa: E402
from gbcompress._keep.tensor import KeptTensor  # noqa: E402

KEEPS = pytest.mark.parametrize("keep", ["compressed", "integers"])


def pair(model: nn.Module, path: Path, keep: str, ratio: float = 5) -> tuple[Any, Any]:
    """The decoded model and the kept one."""
    gbc.save_file(model.state_dict(), path, ratio=ratio)
    gbc.load_into(model, path)
    kept = copy.deepcopy(model)
    for value in kept.parameters():
        value.data.fill_(1)  # what the file does not give would show
    return model.eval(), gbc.keep_compressed(kept.eval(), path, keep=keep)


def kept_names(model: nn.Module) -> set[str]:
    return {name for name, value in model.named_parameters() if isinstance(value, KeptTensor)}


def matrices(model: nn.Module) -> set[str]:
    return {name for name, value in model.named_parameters() if value.dim() > 1}


def gradients(model: Any, x: Any) -> list[Any]:
    x = x.clone().requires_grad_()
    made = model(x)
    (made[0] if isinstance(made, tuple) else made).square().sum().backward()
    return [x.grad, *(value.grad for value in model.parameters() if value.dim() == 1)]


class Transposed(nn.Module):
    """y = x @ W + b, in one of the ways to write that."""

    def __init__(self, inputs: int, outputs: int, way: str) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(inputs, outputs) * torch.linspace(0.1, 2, inputs)[:, None])
        self.offset, self.way = nn.Parameter(torch.randn(outputs)), way

    def forward(self, x: Any) -> Any:
        if self.way == "addmm":
            return torch.addmm(self.offset, x.reshape(-1, x.shape[-1]), self.kernel).reshape(*x.shape[:-1], -1)
        if self.way == "method":
            return x.matmul(self.kernel) + self.offset
        if self.way == "einsum":  # no operation that has buffers: the weight is decoded into new memory
            return torch.einsum("...i,io->...o", x, self.kernel) + self.offset
        return x @ self.kernel + self.offset


@KEEPS
@pytest.mark.parametrize("way", ["addmm", "method", "operator", "einsum"])
def test_transposed_products(way: str, keep: str, folder: Path) -> None:
    torch.manual_seed(1)
    model, kept = pair(nn.Sequential(Transposed(200, 96, way), nn.Tanh(), Transposed(96, 40, way)), folder / "m.gbz", keep)
    assert kept_names(kept) == matrices(model) and len(matrices(model)) == 2
    for size in [(3,), (2, 30)]:
        x = torch.randn(*size, 200)
        with torch.no_grad():
            assert torch.equal(kept(x), model(x))
        assert all(torch.equal(a, b) for a, b in zip(gradients(kept, x), gradients(model, x), strict=True))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(kept(x), model(x))


def test_products_use_shared_buffers(folder: Path) -> None:
    """However many layers there are; and none of them is held for the backward pass."""
    torch.manual_seed(1)
    model, kept = pair(nn.Sequential(*(Transposed(128, 128, "addmm") for _ in range(9))), folder / "m.gbz", "compressed")
    store = kept[0].kernel._source.store
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda value: saved.append(value.numel()) or value, lambda value: value):
        kept(torch.randn(2, 128, requires_grad=True)).sum().backward()
    assert 0 < store.buffers.bytes <= 3 * 128 * 128 * 4
    assert max(saved, default=0) < 128 * 128


@KEEPS
@pytest.mark.parametrize("make", [
    lambda: nn.LSTM(40, 48, num_layers=2, bidirectional=True, batch_first=True),
    lambda: nn.LSTM(40, 48, proj_size=24),
    lambda: nn.GRU(40, 48, bias=False),
    lambda: nn.RNN(40, 48, nonlinearity="relu"),
])  # fmt: skip
def test_recurrent_layers(make: Any, keep: str, folder: Path) -> None:
    torch.manual_seed(2)
    made = make()
    for value in made.parameters():
        value.requires_grad_(value.dim() < 2)  # torch computes those of frozen weights otherwise, which shows in the last bit
    model, kept = pair(made, folder / "m.gbz", keep)
    assert kept_names(kept) == matrices(model)
    x = torch.randn(3, 5, 40)
    with torch.no_grad():
        assert torch.equal(kept(x)[0], model(x)[0])
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2, 1, 1, 1][:3]), batch_first=True)
    assert torch.equal(kept(packed)[0].data, model(packed)[0].data)
    for got, wanted in zip(gradients(kept, x), gradients(model, x), strict=True):
        assert torch.equal(got, wanted)
    assert torch.equal(pickle.loads(pickle.dumps(kept))(x)[0], model(x)[0])
    assert torch.equal(copy.deepcopy(kept)(x)[0], model(x)[0])
    torch.testing.assert_close(kept.double()(x.double())[0], model.double()(x.double())[0], rtol=1e-12, atol=1e-14)


def test_a_released_recurrent_layer_is_a_plain_one(folder: Path) -> None:
    """Also of a copy; where one weight is released, the others stay kept."""
    torch.manual_seed(2)
    model, kept = pair(nn.LSTM(40, 48), folder / "m.gbz", "compressed")
    copied, x = copy.deepcopy(kept), torch.randn(3, 5, 40)
    release(copied, lambda module, name: name == "weight_ih_l0")
    assert kept_names(copied) == {"weight_hh_l0"} and torch.equal(copied(x)[0], model(x)[0])
    assert "flatten_parameters" in vars(copied), "it would ask a kept weight for its memory"
    for each in (copied, kept):
        release(each)
        for made in (each, copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
            assert not kept_names(made) and vars(made).keys() == vars(model).keys()
            assert made.flatten_parameters.__func__ is nn.LSTM.flatten_parameters
            assert torch.equal(made(x)[0], model(x)[0])
    assert b"gbcompress" not in pickle.dumps(kept)


def test_recurrent_weights_are_decoded_once_a_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    _, kept = pair(nn.LSTM(40, 48), folder / "m.gbz", "compressed")
    store = kept.weight_ih_l0._source.store
    decoded: list[int] = []
    original = store.fresh
    monkeypatch.setattr(store, "fresh", lambda index, dtype: decoded.append(index) or original(index, dtype))
    kept(torch.randn(50, 1, 40))
    assert len(decoded) == 2


def test_cells_and_normed_weights(folder: Path) -> None:
    torch.manual_seed(3)
    cell, kept_cell = pair(nn.GRUCell(30, 40), folder / "cell.gbz", "compressed")
    x = torch.randn(4, 30)
    assert len(kept_names(kept_cell)) == 2 and torch.equal(kept_cell(x), cell(x))
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(30, 40))
    normed, kept = pair(normed, folder / "normed.gbz", "compressed")
    assert kept_names(kept) and torch.equal(kept(x), normed(x))


class Experts(nn.Module):
    """A stack of matrices [experts, out, in], of which a token uses one."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.act = nn.Parameter(torch.randn(6, 64, 32) * torch.randn(6, 64, 1).exp()), nn.ReLU()

    def forward(self, x: Any) -> Any:
        hit = torch.tensor([4, 1])
        made = nn.functional.linear(x, self.up[hit[0]]) + nn.functional.linear(x, self.up[-5])
        return self.act(made) @ self.up[hit[1]]


@KEEPS
def test_a_matrix_of_a_stack(keep: str, folder: Path) -> None:
    torch.manual_seed(4)
    model, kept = pair(nn.Sequential(Experts()), folder / "m.gbz", keep)
    assert kept_names(kept) == {"0.up"}
    one = kept[0].up[3]
    assert isinstance(one, KeptTensor) and one.shape == (64, 32) and torch.equal(one.dequantize(), model[0].up[3])
    assert torch.equal(kept[0].up[1:3], model[0].up[1:3]) and not isinstance(kept[0].up[1:3], KeptTensor)
    assert torch.equal(kept[0].up[torch.tensor([5, 0])], model[0].up[torch.tensor([5, 0])])
    x = torch.randn(7, 32)
    assert torch.equal(kept(x), model(x))
    assert all(torch.equal(a, b) for a, b in zip(gradients(kept, x), gradients(model, x), strict=True))
    with pytest.raises(IndexError):
        kept[0].up[6]
    with pytest.raises(gbc.UsageError, match=r"0.up\[2\] is kept compressed"):
        kept[0].up[2].zero_()


@KEEPS
def test_members_of_members(keep: str, folder: Path) -> None:
    """Indices of weights of 4 and 5 dimensions, one after the other; and of stacks that a loader joins."""
    torch.manual_seed(4)
    model, kept = pair(nn.Sequential(nn.Conv2d(8, 12, 3), nn.Conv3d(12, 6, 3)), folder / "m.gbz", keep)
    for layer, wanted in zip((kept[0].weight, kept[1].weight), (model[0].weight, model[1].weight), strict=True):
        for i, j, k in [(0, 0, 0), (3, 1, 2), (5, 7, 0), (-1, -2, -3), (2, 5, 1)]:
            part = layer[i][j]
            assert isinstance(part, KeptTensor) and part.shape == wanted.shape[2:]
            assert torch.equal(part.dequantize(), wanted[i][j]) and torch.equal(_plain(part[k]), wanted[i][j][k])
            assert torch.equal(part[1:], wanted[i][j][1:])
        assert torch.equal(layer[1:4][2][5], wanted[3][5]) and torch.equal(layer[2][3:6][1], wanted[2][4])
    part, wanted = kept[0].weight[3][1], model[0].weight[3][1].detach()
    x, seen = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    nn.functional.linear(x, part).square().sum().backward()
    with torch.no_grad():
        seen.copy_(x)
    nn.functional.linear(seen, wanted).square().sum().backward()
    assert torch.equal(x.grad, seen.grad)

    stack = {"a": torch.randn(4, 3, 40, 20), "b": torch.randn(4, 3, 40, 20)}
    gbc.save_file(stack, folder / "stack.gbz", ratio=3)
    decoded = gbc.load_file(folder / "stack.gbz", framework="torch")
    with kept_state(str(folder / "stack.gbz"), keep) as state:
        for dim in (1, 2):
            joined = torch.cat([state["a"][...], state["b"][...]], dim)
            assert isinstance(joined, KeptTensor)
            wanted = torch.cat([decoded["a"], decoded["b"]], dim)
            assert all(torch.equal(_plain(joined[i][j]), wanted[i][j]) for i in range(4) for j in range(3))


@KEEPS
@pytest.mark.parametrize("tokens", [3, 100])
def test_joined_rows_under_autocast(tokens: int, keep: str, folder: Path) -> None:
    """A linear weight of several tensors of the file, with a bias: of the same element type as a plain one."""
    torch.manual_seed(4)
    gbc.save_file({"a": torch.randn(40, 24), "b": torch.randn(20, 24)}, folder / "m.gbz", ratio=3)
    decoded = gbc.load_file(folder / "m.gbz", framework="torch")
    weight, bias = torch.cat([decoded["a"], decoded["b"]]), torch.randn(60)
    x = torch.randn(tokens, 24)
    with kept_state(str(folder / "m.gbz"), keep) as state:
        joined = torch.cat([state["a"][...], state["b"][...]])
    assert isinstance(joined, KeptTensor)
    for kind in (torch.bfloat16, torch.float32):
        found = []
        for each in (joined, weight):
            trained = bias.clone().requires_grad_()
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == torch.bfloat16):
                made = nn.functional.linear(x, each, trained)
            made.float().square().sum().backward()
            found.append((made, trained.grad))
        assert found[0][0].dtype == found[1][0].dtype == kind
        bound = 2e-2 if kind == torch.bfloat16 else 1e-5
        for got, wanted in zip(*found, strict=True):
            torch.testing.assert_close(got, wanted, rtol=bound, atol=5 * bound)


def _plain(value: Any) -> Any:
    return value.dequantize() if isinstance(value, KeptTensor) else value


def test_experts_are_decoded_by_themselves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    _, kept = pair(nn.Sequential(Experts()), folder / "m.gbz", "compressed")
    store = kept[0].up._source.store
    rows: list[int] = []
    original = store._decode_into
    monkeypatch.setattr(store, "_decode_into", lambda unit, *others: rows.append(unit.rows) or original(unit, *others))
    kept(torch.randn(7, 32))
    assert set(rows) == {1}


def transformers_pair(model: Any, place: Path, keep: str, **more: Any) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers")
    if int(transformers.__version__.split(".")[0]) < 5:
        pytest.skip("Transformers 4 takes no configuration for a packed folder")
    from gbcompress.huggingface import GbcompressConfig, save_pretrained

    save_pretrained(model, place, ratio=5)
    cls = transformers.AutoModelForCausalLM
    config = GbcompressConfig(keep=keep)
    return cls.from_pretrained(place, **more), cls.from_pretrained(place, quantization_config=config, **more)


@KEEPS
@pytest.mark.filterwarnings("ignore:You passed `quantization_config`")
def test_gpt2(keep: str, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.GPT2Config(vocab_size=100, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    model, kept = transformers_pair(transformers.GPT2LMHeadModel(config), folder / "packed", keep)
    assert kept_names(kept) == matrices(model) and "transformer.h.0.attn.c_attn.weight" in kept_names(kept)
    ids = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        wanted, got = model(ids).logits, kept(ids).logits
    assert torch.equal(got, wanted), "20 tokens of each sequence"
    with torch.no_grad():
        torch.testing.assert_close(kept(ids[:1, :4]).logits, model(ids[:1, :4]).logits, rtol=1e-3, atol=1e-3)
    found = []
    for each in (model, kept):
        embedded = each.transformer.wte(ids).detach().requires_grad_()
        each(inputs_embeds=embedded, labels=ids).loss.backward()
        found.append([embedded.grad, each.transformer.h[0].attn.c_attn.bias.grad])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True)) and bool(found[0][0].any())


@KEEPS
@pytest.mark.parametrize("name", ["Qwen3Moe", "Mixtral"])
@pytest.mark.parametrize("experts", ["eager", "batched_mm", "grouped_mm"])
@pytest.mark.filterwarnings("ignore:You passed `quantization_config`")
def test_experts_of_transformers(name: str, experts: str, keep: str, folder: Path) -> None:
    """The file has one tensor for each expert; the loader stacks them."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(6)
    sizes: dict[str, Any] = {"vocab_size": 90, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_experts_per_tok": 2}
    sizes |= {"num_experts": 4, "moe_intermediate_size": 48} if name == "Qwen3Moe" else {"num_local_experts": 4}
    made = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**sizes))
    model, kept = transformers_pair(made, folder / "packed", keep, experts_implementation=experts)
    stacks = {name for name, value in model.named_parameters() if value.dim() == 3}
    assert len(stacks) == 4 and kept_names(kept) == matrices(model) >= stacks
    ids = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        torch.testing.assert_close(kept(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(kept.get_parameter(stack).dequantize(), model.get_parameter(stack)) for stack in stacks)
    kept.save_pretrained(folder / "again")
    assert (folder / "again" / "model.gbz").read_bytes() == (folder / "packed" / "model.gbz").read_bytes()


def test_damaged_files_are_refused(folder: Path) -> None:
    """When they are opened, wherever the damage is; the tensor is named where its values do not decode."""
    torch.manual_seed(7)
    model = nn.Sequential(Transposed(300, 300, "addmm"), nn.LSTM(300, 100), Experts())
    gbc.save_file(model.state_dict(), folder / "m.gbz", ratio=3)
    content = (folder / "m.gbz").read_bytes()
    named = 0
    for place in range(len(content) // 20, len(content), len(content) // 6):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        (folder / "m.gbz").write_bytes(damaged)
        with pytest.raises(gbc.GbzError, match="m.gbz") as caught:
            gbc.keep_compressed(model, folder / "m.gbz")
        assert caught.value.code == "corrupt"
        named += any(f"{name} cannot be decoded" in str(caught.value) for name in matrices(model))
    assert named > 0
