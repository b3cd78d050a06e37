"""Models whose weights are integers of a fixed width in memory: keep_compressed(keep="integers")."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._keep.integers import IntegerSource  # noqa: E402
from gbcompress._keep.tensor import TOKENS  # noqa: E402
from gbcompress._keep.tensor import KeptTensor  # noqa: E402


def kept_of(model: nn.Module, path: Path, dtype: Any = None, **settings: Any) -> Any:
    """The model with the values of a file, and one that keeps the file's integers."""
    gbc.save_file(model.state_dict(), path, **(settings or {"ratio": 9}))
    gbc.load_into(model, path)
    kept = copy.deepcopy(model)
    for value in kept.parameters():
        value.data.fill_(1)  # what the file does not give would show
    if dtype is not None:
        model.to(dtype), kept.to(dtype)
    return gbc.keep_compressed(kept, path, keep="integers")


def sources(model: nn.Module) -> list[Any]:
    return [value._source for value in model.parameters() if isinstance(value, KeptTensor)]


def close(got: Any, x: Any, weight: Any, bias: Any = None) -> None:
    """Within the rounding of sums in float32, which follows the magnitudes of the terms."""
    x, weight = x.double(), weight.detach().double()
    wanted = x @ weight.T + (0 if bias is None else bias.detach().double())
    size = x.abs() @ weight.abs().T + (0 if bias is None else bias.detach().double().abs())
    assert got.shape == wanted.shape
    assert bool(((got.double() - wanted).abs() <= 1e-6 * size + 1e-30).all())


@pytest.mark.parametrize("ratio", [8, 10, 14])
@pytest.mark.parametrize("shape", [(64, 127), (200, 128), (33, 370), (8, 1025), (300, 111), (24, 700), (37, 384)])
def test_products_are_those_of_the_decoded_weights(shape: tuple[int, int], ratio: float, folder: Path) -> None:
    torch.manual_seed(sum(shape))
    model = nn.Sequential(nn.Linear(shape[1], shape[0]))
    with torch.no_grad():
        model[0].weight.mul_(torch.rand(shape[0], 1) * 2 + 0.1)
        model[0].weight[0, 5] = 9 * model[0].weight.abs().max()  # an integer beyond the width
    kept = kept_of(model, folder / "m.gbz", ratio=ratio)
    [source] = sources(kept)
    assert isinstance(source, IntegerSource) and 4 <= source.matrix.bits <= 6
    weight = kept[0].weight
    assert torch.equal(weight.dequantize(), model[0].weight) and torch.equal(weight + 0, model[0].weight)
    for size in [(1,), (2,), (TOKENS,), (2, 3), ()]:
        x = torch.randn(*size, shape[1])
        for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
            with mode:
                close(kept(x), x, model[0].weight, model[0].bias)
    x = torch.randn(TOKENS + 1, shape[1])
    assert torch.equal(kept(x), model(x)), "more tokens take the decoded weight"


def test_gradients_by_inputs(folder: Path) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(250, 120), nn.Tanh(), nn.Linear(120, 30))
    kept = kept_of(model, folder / "m.gbz")
    assert len(sources(kept)) == 2
    for tokens in (3, 40):
        gradients = []
        for each in (model, kept):
            each.zero_grad()
            x = torch.linspace(-1, 1, tokens * 250).reshape(tokens, 250).requires_grad_()
            each(x).square().sum().backward()
            gradients.append([x.grad, each[0].bias.grad, each[2].bias.grad])
        for wanted, got in zip(*gradients, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


class Tied(nn.Module):
    """An embedding that is the head too, of a size whose head is decoded in pieces, and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(24000, 256)
        self.conv = nn.Conv1d(256, 256, 3, padding=1)
        self.head = nn.Linear(256, 24000, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any) -> Any:
        return self.head(torch.tanh(self.conv(self.embed(ids).transpose(1, 2)).transpose(1, 2)))


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    torch.manual_seed(5)
    model = Tied().bfloat16()
    path = tmp_path_factory.mktemp("tied") / "m.gbz"
    return model, kept_of(model, path, ratio=4), path


def test_embeddings_convolutions_and_tied_heads(tied: tuple[Any, Any, Path]) -> None:
    model, kept, _ = tied
    assert kept.head.weight is kept.embed.weight and all(isinstance(source, IntegerSource) for source in sources(kept))
    ids = torch.tensor([[5, 23999, 0, 5], [7, 7, 4096, 4095]])
    with torch.no_grad():
        assert torch.equal(kept.embed(ids), model.embed(ids)), "rows are rounded to the file's element type"
        x = torch.randn(2, 256, 9, dtype=torch.bfloat16)
        assert torch.equal(kept.conv(x), model.conv(x))
        wanted = model(ids)
        torch.testing.assert_close(kept(ids), wanted, rtol=0.02, atol=0.02 * float(wanted.abs().max()))
        x = torch.randn(30, 256, dtype=torch.bfloat16)
        torch.testing.assert_close(kept.head(x), model.head(x))
    with pytest.raises(IndexError, match="24000 is out of range in (embed|head).weight"):
        kept.embed(torch.tensor([24000]))


def test_memory(tied: tuple[Any, Any, Path]) -> None:
    """Six bits and the steps of rows are far below 16 bits; tied weights are held once, the file not at all."""
    model, kept, _ = tied
    with torch.no_grad():
        kept(torch.arange(4)[None])
    memory = sources(kept)[0].store.memory()
    weights = sum(value.numel() for value in model.parameters())
    assert memory["file"] == memory["rows"] == 0
    assert weights * 4 / 8 < memory["integers"] < weights * 6.5 / 8
    assert memory["buffers"] <= 3 * 2**21 * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_element_types(dtype: Any, folder: Path) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Embedding(60, 250), nn.Linear(250, 128), nn.Linear(128, 8))
    kept = kept_of(model, folder / "m.gbz", dtype)
    assert len(sources(kept)) == 3 and kept[1].weight.dtype == dtype
    assert torch.equal(kept[1].weight.dequantize(), model[1].weight)
    for ids in (torch.arange(5), torch.arange(50)):
        wanted, got = model(ids), kept(ids)
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted, rtol=0.02, atol=0.02 * float(wanted.detach().abs().max()))


def test_autocast_and_inputs_of_other_types(folder: Path) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(250, 40))
    kept = kept_of(model, folder / "m.gbz")
    x = torch.randn(3, 250)
    with torch.autocast("cpu", torch.bfloat16):
        got = kept(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), model(x), rtol=0.02, atol=0.02)
    for wrong in (torch.randn(3, 249), torch.randn(3, 250).double(), torch.ones(3, 250, dtype=torch.long)):
        with pytest.raises(RuntimeError):
            kept(wrong)
    assert kept(torch.empty(0, 250)).shape == (0, 40)


def test_copies_and_pickles(folder: Path) -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(250, 128), nn.Linear(128, 30))
    kept = kept_of(model, folder / "m.gbz")
    (folder / "m.gbz").unlink()
    x = torch.randn(2, 250)
    wanted = kept(x)
    copied, pickled = copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))
    assert sources(copied)[0].matrix is sources(kept)[0].matrix and torch.equal(copied(x), wanted)
    assert sources(pickled) == [] and torch.equal(pickled(x), model(x))
    with pytest.raises(gbc.UsageError, match="0.weight is kept compressed"):
        kept[0].weight.zero_()


@pytest.mark.parametrize("settings", [{"lossless": True}, {"max_error": 1e-9}])
def test_other_tensors_stay_compressed(settings: dict[str, Any], folder: Path) -> None:
    """Exact floats are no integers times steps; integers of many bits would take more than a byte each."""
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(250, 128), nn.Linear(128, 30))
    kept = kept_of(model, folder / "m.gbz", **settings)
    assert len(sources(kept)) == 2 and not any(isinstance(source, IntegerSource) for source in sources(kept))
    memory = sources(kept)[0].store.memory()
    assert memory["integers"] == 0 and memory["file"] == (folder / "m.gbz").stat().st_size
    x = torch.randn(2, 250)
    assert torch.equal(kept(x), model(x))


def test_wrong_input(tied: tuple[Any, Any, Path], folder: Path) -> None:
    _, _, path = tied
    with pytest.raises(gbc.UsageError, match="keep must be 'compressed' or 'integers', got 'ints'"):
        gbc.keep_compressed(Tied(), path, keep="ints")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    (folder / "damaged.gbz").write_bytes(content)
    with pytest.raises(gbc.GbzError, match="embed.weight") as caught:
        gbc.keep_compressed(Tied().bfloat16(), folder / "damaged.gbz", keep="integers")
    assert caught.value.code == "corrupt"
