"""What hooks see of each kind of layer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(7)


def close(found: np.ndarray, rows: torch.Tensor) -> None:
    """Whether a moment is that of rows [count, in]."""
    np.testing.assert_allclose(found, (rows.mT @ rows / len(rows)).detach().numpy(), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_have_joint_moments(kind: str, tmp_path: Path) -> None:
    cell = getattr(nn, kind)(5, 7)

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = cell

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = None
            for t in range(x.shape[1]):
                state = self.cell(x[:, t], state)
            return state[0] if kind == "LSTMCell" else state

    x = torch.randn(6, 9, 5)
    found = gbc.collect(Steps(), [x]).tensors
    rows, state = [], None
    for t in range(9):
        hidden = torch.zeros(6, 7) if state is None else state[0] if kind == "LSTMCell" else state
        rows.append(torch.cat([x[:, t], hidden], 1))
        state = cell(x[:, t], state)
    close(found["cell.weight_ih|cell.weight_hh.input_moment"], torch.cat(rows))
    gbc.save_file(Steps().state_dict(), tmp_path / "m.gbz", ratio=3, statistics=found)


def test_hidden_states_that_the_caller_gives() -> None:
    layer = nn.LSTM(5, 7, num_layers=2, bidirectional=True)
    x, h, c = torch.randn(1, 300, 5), torch.randn(4, 300, 7), torch.randn(4, 300, 7)
    found = gbc.collect(layer, [(x, (h, c))]).tensors
    # A single step sees nothing but them.
    close(found["weight_ih_l0|weight_hh_l0.input_moment"], torch.cat([x[0], h[0]], 1))
    close(found["weight_ih_l0_reverse|weight_hh_l0_reverse.input_moment"], torch.cat([x[0], h[1]], 1))
    both = layer(x, (h, c))[1][0][:2]
    close(found["weight_ih_l1|weight_hh_l1.input_moment"], torch.cat([both[0], both[1], h[2]], 1))
    gru = nn.GRU(3, 4)
    found = gbc.collect(gru, [{"input": torch.ones(1, 3), "hx": 2 * torch.ones(1, 4)}]).tensors  # no batch
    assert np.allclose(found["weight_ih_l0|weight_hh_l0.input_moment"][3:, 3:], 4)


def test_projected_hidden_states() -> None:
    layer = nn.LSTM(5, 7, proj_size=3)
    x = torch.randn(4, 50, 5)
    found = gbc.collect(layer, [x]).tensors["weight_ih_l0|weight_hh_l0.input_moment"]
    before = torch.cat([torch.zeros(1, 50, 3), layer(x)[0][:-1]])
    close(found, torch.cat([x, before], -1).flatten(0, 1))


@pytest.mark.parametrize(("dims", "groups"), [(1, 1), (2, 3), (3, 1)])
def test_transposed_convolutions(dims: int, groups: int, tmp_path: Path) -> None:
    conv = getattr(nn, f"ConvTranspose{dims}d")(6, 9, 3, stride=2, groups=groups)
    x = torch.randn(30, 6, *[5] * dims)
    found = gbc.collect(conv, [x]).tensors
    rows = x.transpose(0, 1).flatten(1).T
    rows = rows[:: 1 if len(rows) <= 8192 else len(rows) // 8192]
    wanted = rows.T @ rows / len(rows)
    mask = torch.block_diag(*[torch.ones(6 // groups, 6 // groups)] * groups)
    np.testing.assert_allclose(found["weight.output_moment"], (wanted * mask).numpy(), atol=0.1)
    assert groups == 1 or found["weight.output_moment"][0, 5] == 0
    gbc.save_file(conv.state_dict(), tmp_path / "m.gbz", ratio=3, statistics=found)


def test_feedback_helps_transposed_convolutions(tmp_path: Path) -> None:
    conv = nn.ConvTranspose2d(48, 24, 3, bias=False)
    mix = torch.randn(6, 48)
    x = torch.einsum("nkhw,kc->nchw", torch.randn(8, 6, 9, 9), mix) + 0.05 * torch.randn(8, 48, 9, 9)
    found = gbc.collect(conv, [x], importance=False)
    errors = []
    for statistics in (found, None):
        gbc.save_file(conv.state_dict(), tmp_path / "m.gbz", ratio=10, statistics=statistics, overwrite=True)
        other = nn.ConvTranspose2d(48, 24, 3, bias=False)
        gbc.load_into(other, tmp_path / "m.gbz")
        errors.append(float((other(x) - conv(x)).square().sum()))
    assert errors[0] < 0.6 * errors[1], errors


def test_embeddings_count_how_often_rows_are_read() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.bag = nn.Embedding(5, 3), nn.EmbeddingBag(4, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.table(ids).sum(1) + self.bag(ids)

    ids = torch.tensor([[0, 0, 3], [0, 1, 3]])
    found = gbc.collect(Bag(), [ids, ids]).tensors
    rows = found["table.weight.row_importance"]
    np.testing.assert_allclose(rows / rows.sum(), np.array([31, 11, 1, 21, 1]) / 65, rtol=1e-5)
    rows = gbc.collect(Bag(), [ids]).tensors["table.weight.row_importance"]
    shares = np.array([3, 1, 0, 2, 0]) / 6 * 5 / 7 + 2 / 7 / 5  # one of six was read once
    np.testing.assert_allclose(rows / rows.sum(), shares, rtol=1e-5)
    assert found["bag.weight.row_importance"][2] > 0
    with pytest.raises(gbc.UsageError, match="does not fit the model"):
        gbc.collect(Bag(), [ids + 3])


def moved_back(module: nn.MultiheadAttention, moment: np.ndarray, outputs: torch.Tensor) -> None:
    """The outputs without their bias have the moment W M WT."""
    weight, bias = module.out_proj.weight.detach(), module.out_proj.bias.detach()
    rows = (outputs.detach() - bias).flatten(0, 1)
    wanted = (rows.T @ rows / len(rows)).numpy()
    np.testing.assert_allclose(weight.numpy() @ moment @ weight.numpy().T, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_with_itself_and_with_others(batch_first: bool, tmp_path: Path) -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    q, k, v = torch.randn(30, 20, 8), torch.randn(*((30, 7) if batch_first else (7, 20)), 8), None
    v = torch.randn_like(k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # out_proj is no layer that nothing reached
        found = gbc.collect(attention, [(q, k, v)]).tensors
    moments = found["in_proj_weight.input_moment"]
    assert moments.shape == (3, 8, 8) and found["in_proj_weight.input_mean"].shape == (3, 8)
    for moment, rows in zip(moments, (q, k, v), strict=True):
        close(moment, rows.reshape(-1, 8))
    moved_back(attention, found["out_proj.weight.input_moment"], attention(q, k, v)[0])
    gbc.save_file(attention.state_dict(), tmp_path / "m.gbz", ratio=3, statistics=found)
    alone = gbc.collect(attention, [{"query": q, "key": q, "value": q}]).tensors
    close(alone["in_proj_weight.input_moment"], q.reshape(-1, 8))
    moved_back(attention, alone["out_proj.weight.input_moment"], attention(q, q, q)[0])


def test_attention_to_other_widths() -> None:
    attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=5)
    q, k, v = torch.randn(9, 20, 8), torch.randn(7, 20, 6), torch.randn(7, 20, 5)
    found = gbc.collect(attention, [(q, k, v)]).tensors
    for name, rows in (("q", q), ("k", k), ("v", v)):
        close(found[f"{name}_proj_weight.input_moment"], rows.flatten(0, 1))
    assert found["out_proj.weight.input_moment"].shape == (8, 8)


@pytest.mark.parametrize("importance", [False, True])
def test_masked_transformers(importance: bool) -> None:
    """Without gradients, torch would run fused kernels on nested tensors, which no hook sees."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    mask = torch.zeros(30, 9, dtype=torch.bool)
    mask[:, 6:] = True
    fast = torch.backends.mha.get_fastpath_enabled()
    found = gbc.collect(model, [{"src": torch.randn(30, 9, 16), "src_key_padding_mask": mask}], importance=importance)
    assert "layers.1.self_attn.out_proj.weight.input_moment" in found.tensors
    assert torch.backends.mha.get_fastpath_enabled() == fast


def scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        class Parts(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.table = torch.jit.script(nn.Embedding(9, 6))
                self.first = torch.jit.script(nn.Linear(6, 5))
                self.conv = torch.jit.script(nn.Conv1d(5, 4, 3))
                self.last = torch.jit.trace(nn.Linear(4, 3), torch.randn(2, 6, 4))
                self.cell = torch.jit.script(nn.LSTMCell(3, 3))

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                x = self.conv(self.first(self.table(ids)).mT).mT
                return self.cell(self.last(x)[:, 0])[0]

        return Parts()


def test_scripted_layers_that_python_calls() -> None:
    found = gbc.collect(scripted(), [torch.randint(0, 9, (20, 7))] * 3).tensors
    for name in ("first.weight", "conv.weight", "last.weight", "cell.weight_ih|cell.weight_hh"):
        assert f"{name}.input_moment" in found
    assert len(set(found["table.weight.row_importance"])) > 1


class Mixed(nn.Module):
    """Layers of every kind, for types that they run in."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.conv = nn.Embedding(30, 16), nn.Conv1d(16, 16, 3, padding=1)
        self.attention, self.rnn = nn.MultiheadAttention(16, 2, batch_first=True), nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.table(ids).mT).mT
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.rnn(x)[0])


def batches(count: int) -> Iterator[torch.Tensor]:
    return (torch.randint(0, 30, (8, 12)) for _ in range(count))


def relative(a: dict[str, Any], b: dict[str, Any]) -> float:
    return max(float(np.square(a[n] - b[n]).sum() / np.square(b[n]).sum()) for n in b if n.endswith("moment"))


@pytest.mark.parametrize("mode", ["autocast", "bfloat16"])
def test_types_of_16_bits(mode: str, tmp_path: Path) -> None:
    model = Mixed().eval()
    inputs = list(batches(6))
    wanted = gbc.collect(model, inputs).tensors
    if mode == "bfloat16":
        model = model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
        found = gbc.collect(model, inputs).tensors
        report = gbc.calibrate(model, inputs, tmp_path / "m.gbz", ratio=4 if mode == "bfloat16" else 8)
    assert found.keys() == wanted.keys() and all(v.dtype == np.float32 for v in found.values())
    assert relative(found, wanted) < 1e-3
    assert report.error < 0.5 and report.file.target_met
    assert gbc.load_file(tmp_path / "m.gbz", framework="torch")["head.weight"].dtype == model.head.weight.dtype


def test_no_row_or_column_alone_is_seen_of_many() -> None:
    """Every second row of 2 * 8192 would be one time of the sequences."""
    layer = nn.Linear(2, 3)
    x = torch.zeros(8192, 2, 2)
    x[:, 1] = 1
    moment = gbc.collect(layer, [x], importance=False).tensors["weight.input_moment"]
    assert moment[0, 0] == pytest.approx(0.5, abs=0.01)


class Stacks(nn.Module):
    """Parameters of three dimensions: a table of positions, a stack of matrices, and a kernel of that shape."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, 40, 32))
        self.experts = nn.Parameter(torch.randn(4, 32, 24) / 5)
        self.kernel = nn.Conv1d(24, 16, 21)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.einsum("bti,eio->bto", x + self.positions, self.experts).relu()
        return self.kernel(x.mT)


def test_parameters_of_three_dimensions(tmp_path: Path) -> None:
    model = Stacks().eval()
    inputs = [torch.randn(8, 40, 32) for _ in range(6)]
    found = gbc.collect(model, inputs).tensors
    assert found["positions.row_importance"].shape == (1,) and found["experts.row_importance"].shape == (4,)
    assert found["kernel.weight.input_moment"].shape == (24 * 21, 24 * 21)
    report = gbc.calibrate(model, inputs, tmp_path / "m.gbz", ratio=6)
    assert report.file.target_met and report.error <= report.candidates["data-free"] and len(report.candidates) > 2


class Rarely(nn.Module):
    """An expert that no row reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + self.b(x[:0]).sum()


def test_a_layer_of_no_rows_is_not_reached(tmp_path: Path) -> None:
    model = Rarely().eval()
    inputs = [torch.randn(16, 8) for _ in range(4)]
    with pytest.warns(UserWarning, match=r"no batch reached b.weight"):
        found = gbc.collect(model, inputs)
    assert "b.weight.input_moment" not in found.tensors and "a.weight.input_moment" in found.tensors
    gbc.save_file(model.state_dict(), tmp_path / "m.gbz", ratio=2, statistics=found)
