"""Models whose weights are kept compressed: keep_compressed()."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._keep import store as _keep_store  # noqa: E402
from gbcompress._keep.tensor import KeptTensor  # noqa: E402


class Mixed(nn.Module):
    """Layers that are kept, and some that are not; tests of others are in test_keep_modules.py."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, 32, padding_idx=0)
        self.conv1 = nn.Conv1d(32, 16, 3, padding=1, groups=2)
        self.conv2 = nn.Conv2d(1, 4, 3, padding="same", padding_mode="circular")
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.norm = nn.BatchNorm1d(16)
        self.first = nn.Linear(16, 48)
        self.rnn = nn.GRU(48, 24, batch_first=True)
        for value in self.rnn.parameters():
            value.requires_grad_(value.dim() < 2)  # torch computes with frozen weights otherwise, which shows in the last bit
        self.last = nn.Linear(24, 32, bias=False)
        self.scale = nn.Parameter(torch.rand(32))

    def after(self, x: Any) -> Any:
        x = self.norm(self.conv1(x.transpose(1, 2))).transpose(1, 2)
        x = self.last(self.rnn(torch.tanh(self.first(x)))[0]) * self.scale
        return self.up(self.conv2(x[:, None])), x @ self.embed.weight.T

    def forward(self, ids: Any) -> Any:
        return self.after(self.embed(ids))


IDS = torch.arange(24).reshape(2, 12) * 2


def pair(folder: Path, make: Callable[[], nn.Module] = Mixed, dtype: Any = None, **settings: Any) -> tuple[Any, Any, Path]:
    """The decoded model, the kept one, and the file."""
    torch.manual_seed(3)
    model = make().eval()
    gbc.save_file(model.state_dict(), folder / "m.gbz", **(settings or {"ratio": 3}))
    gbc.load_into(model, folder / "m.gbz")
    kept = copy.deepcopy(model)
    for value in (*kept.parameters(), *kept.buffers()):
        value.data.fill_(1)  # what the file does not give would show
    if dtype is not None:
        model, kept = model.to(dtype), kept.to(dtype)
    assert gbc.keep_compressed(kept, folder / "m.gbz") is kept
    return model, kept, folder / "m.gbz"


def kept_names(model: nn.Module) -> list[str]:
    return [name for name, value in model.named_parameters() if isinstance(value, KeptTensor)]


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list):
        return all(equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(torch.equal(a, b))


def store_of(model: nn.Module) -> _keep_store.Store:
    return next(value._source.store for value in model.parameters() if isinstance(value, KeptTensor))


@pytest.mark.parametrize("settings", [{"ratio": 3}, {"lossless": True}, {"max_error": 0.01}])
def test_outputs_are_those_of_the_decoded_model(folder: Path, settings: dict[str, Any]) -> None:
    model, kept, _ = pair(folder, **settings)
    assert kept_names(kept) == [name for name, value in model.named_parameters() if value.dim() > 1]
    for _ in range(3):  # the second time weights are decoded ahead
        with torch.no_grad():
            assert equal(model(IDS), kept(IDS))
        with torch.inference_mode():
            assert equal(model(IDS), kept(IDS))
        assert equal(model(IDS), kept(IDS)), "buffers of inference mode serve elsewhere"
    weight = kept.first.weight
    assert not weight.requires_grad and isinstance(weight, nn.Parameter)
    assert (weight.shape, weight.dtype, weight.device) == ((48, 16), torch.float32, torch.device("cpu"))
    assert torch.equal(weight.dequantize(), model.first.weight) and torch.equal(weight + 0, model.first.weight)
    assert "first.weight" in repr(weight) and "48" in repr(weight)


def test_gradients_by_inputs(folder: Path) -> None:
    model, kept, _ = pair(folder)
    model.train(), kept.train()
    gradients = []
    for each in (model, kept):
        x = torch.linspace(-1, 1, 2 * 12 * 32).reshape(2, 12, 32).requires_grad_()
        for _ in range(2):
            image, scores = each.after(x)
            (image.square().sum() + scores.square().sum()).backward()
        others = [value.grad for name, value in each.named_parameters() if name not in kept_names(kept)]
        gradients.append([x.grad, *others])
        assert all(value is not None for value in gradients[-1])
    assert equal(*gradients)
    assert all(value.grad is None for value in kept.parameters() if isinstance(value, KeptTensor))


def test_weights_are_not_held_for_the_backward_pass(folder: Path) -> None:
    """What autograd keeps of a layer has no elements of its weight."""
    _, kept, _ = pair(folder, lambda: nn.Sequential(*(nn.Linear(128, 128, bias=False) for _ in range(6))))
    held: list[int] = []

    def pack(value: Any) -> Any:
        held.append(value.numel())
        return value

    x = torch.ones(1, 128, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        loss = kept(x).sum()
    # Hooks nest: the inner ones take what layers save, and none of it is as large as a weight.
    assert all(size <= 128 for size in held)
    loss.backward()
    assert x.grad is not None and store_of(kept).memory()["buffers"] <= 4 * 128 * 128 * 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_element_types(folder: Path, dtype: Any) -> None:
    model, kept, path = pair(folder, lambda: nn.Sequential(nn.Embedding(60, 32), nn.Linear(32, 40), nn.Linear(40, 8)))
    after = copy.deepcopy(kept).to(dtype)
    assert kept_names(after) == kept_names(kept) and after[1].weight.dtype == dtype
    wanted = model.to(dtype)(IDS)
    assert wanted.dtype == dtype and equal(wanted, after(IDS))
    before = gbc.keep_compressed(copy.deepcopy(model), path)
    assert equal(before(IDS), wanted), "cast before it is kept"
    assert kept[1].weight.dtype == torch.float32, "the copy alone was cast"


def test_autocast(folder: Path) -> None:
    model, kept, _ = pair(folder, lambda: nn.Sequential(nn.Linear(32, 40), nn.Linear(40, 8)))
    gradients = []
    for each in (model, kept):
        x = torch.ones(3, 32, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            y = each(x)
        y.float().sum().backward()
        gradients.append([y, x.grad])
    assert gradients[0][0].dtype == torch.bfloat16 and equal(*gradients)


def test_devices(folder: Path) -> None:
    _, kept, _ = pair(folder, lambda: nn.Sequential(nn.Embedding(60, 32), nn.Linear(32, 40)))
    wanted, bias = kept(IDS), kept[1].bias
    bias = nn.Parameter(bias.detach().clone())
    kept.to("meta")
    assert kept[1].weight.is_meta and kept(IDS.to("meta")).shape == (2, 12, 40)
    kept[1].bias = bias
    kept.to("cpu")
    assert torch.equal(kept(IDS), wanted), "the values come from the file"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu(folder: Path) -> None:
    model, kept, _ = pair(folder)
    model, kept = model.cuda(), kept.cuda()
    with torch.no_grad():
        for _ in range(2):
            for a, b in zip(model(IDS.cuda()), kept(IDS.cuda()), strict=True):
                torch.testing.assert_close(a, b)


class Tied(nn.Module):
    """An embedding that is the head too, of a size whose head is decoded in pieces."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(rows, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, rows, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any) -> Any:
        return self.head(torch.tanh(self.mix(self.embed(ids))))


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    torch.manual_seed(5)
    model = Tied(24000, 256).bfloat16()
    path = tmp_path_factory.mktemp("tied") / "m.gbz"
    gbc.save_file(model.state_dict(), path, ratio=4)
    assert gbc.inspect(path).profile == "lanes"
    gbc.load_into(model, path)
    return model, path


def test_tied_heads_in_pieces(tied: tuple[Any, Path]) -> None:
    model, path = tied
    with torch.device("meta"):
        kept = Tied(24000, 256).bfloat16()
    gbc.keep_compressed(kept, path)
    assert kept.head.weight is kept.embed.weight
    store = store_of(kept)
    units = store.units(store.place("embed.weight"), torch.bfloat16)
    assert len(units) > 2 and all(unit.first % (2**20 // 256) == 0 for unit in units)
    assert sum(unit.rows for unit in units) == 24000
    ids = torch.tensor([[5, 23999, 0, 5], [7, 7, 4096, 4095]])
    for each in range(2):
        x = torch.randn(3, 256, dtype=torch.bfloat16, requires_grad=True)
        pieces = [x @ model.head.weight[unit.first : unit.first + unit.rows].T for unit in units]
        scores = kept.head(x)
        assert torch.equal(scores, torch.cat(pieces, -1))
        [got] = torch.autograd.grad(scores.float().square().sum(), x)
        [wanted] = torch.autograd.grad(model.head(x).float().square().sum(), x)
        torch.testing.assert_close(got, wanted, rtol=0.02, atol=0.02 * float(wanted.abs().max()))
        with torch.no_grad():
            assert torch.equal(kept.embed(ids), model.embed(ids))
            torch.testing.assert_close(kept(ids), model(ids))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_heads_of_few_tokens(tied: tuple[Any, Path], dtype: Any) -> None:
    """Stripes are multiplied one after another in float32; float16 takes the way of more tokens."""
    _, path = tied
    model = gbc.load_file(path, framework="torch")["embed.weight"].double()
    kept = gbc.keep_compressed(Tied(24000, 256).to(dtype), path)
    bias = torch.randn(24000).to(dtype)
    for size in [(1,), (3, 2), (8,), ()]:
        x = torch.randn(*size, 256).to(dtype)
        with torch.no_grad():
            scores = nn.functional.linear(x, kept.head.weight, bias)
        wanted = x.double() @ model.T + bias.double()
        assert scores.dtype == dtype and scores.shape == (*size, 24000)
        torch.testing.assert_close(scores.double(), wanted, rtol=3 * torch.finfo(dtype).eps, atol=3e-3 if dtype != torch.float32 else 1e-5)


def test_weights_of_long_inputs_are_decoded_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, kept, _ = pair(folder, lambda: nn.Sequential(*(nn.Linear(96, 96) for _ in range(6))))
    together: list[int] = []
    original = _keep_store.Store._decode_together

    def count(self: Any, units: Any) -> Any:
        together.append(len(units))
        return original(self, units)

    monkeypatch.setattr(_keep_store.Store, "_decode_together", count)
    x = torch.randn(100, 96)
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.no_grad):
        with mode():
            assert torch.equal(kept(x), model(x))
            assert torch.equal(kept(x[:3]), model(x[:3]))
            assert torch.equal(kept(x), model(x))
    assert together and max(together) == 6, "the order is known from the second run on"
    monkeypatch.setattr(_keep_store, "_TOGETHER", 3 * 96 * 96 * 4)
    together.clear()
    for _ in range(2):
        assert torch.equal(kept(x), model(x))
    assert together and max(together) == 3
    holders = store_of(kept).buffers
    assert holders.bytes <= (_keep_store._AHEAD + 1) * 6 * 96 * 96 * 4 + 4096


def test_memory(tied: tuple[Any, Path]) -> None:
    """The file, three buffers, the rows and small parameters: far below the weights."""
    model, path = tied
    with torch.device("meta"):
        kept = Tied(24000, 256).bfloat16()
    gbc.keep_compressed(kept, path, cache_bytes=1 << 16)
    with torch.no_grad():
        for _ in range(3):
            kept(torch.arange(0, 24000, 100)[None, :8])
    memory = store_of(kept).memory()
    weights = sum(value.numel() * 2 for value in model.parameters())
    assert memory["file"] == path.stat().st_size < weights / 3
    # 2^21 elements of bfloat16 each: the one in use, and two ahead.
    assert 0 < memory["buffers"] <= 3 * 2**21 * 2
    assert 0 < memory["rows"] <= 1 << 16


@pytest.mark.parametrize("cache", [0, 5 * 512, 1 << 20])
def test_cached_rows(tied: tuple[Any, Path], cache: int) -> None:
    """Rows come from memory or from the file, whatever was used before."""
    model, path = tied
    kept: Any = gbc.keep_compressed(Tied(24000, 256).bfloat16(), path, cache_bytes=cache)
    random = np.random.default_rng(0)
    with torch.no_grad():
        for size in (1, 4, 30, 3, 1, 50, 4):
            ids = torch.from_numpy(random.integers(0, 40, size) * 600 % 24000)
            assert torch.equal(kept.embed(ids), model.embed(ids))
        assert kept.embed(torch.empty(0, 3, dtype=torch.long)).shape == (0, 3, 256)


def test_rows_in_memory_are_not_decoded_again(tied: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _, path = tied
    kept = gbc.keep_compressed(Tied(24000, 256), path)
    decoded = []
    original = _keep_store.Store._decode_into

    def count(self: Any, unit: Any, *rest: Any) -> None:
        decoded.append(unit)
        original(self, unit, *rest)

    monkeypatch.setattr(_keep_store.Store, "_decode_into", count)
    for ids in ([3, 9000], [9000, 3, 3]):
        kept.embed(torch.tensor(ids))
    assert len(decoded) == 2 and max(unit.rows for unit in decoded) == 1


def test_indices_beyond_an_embedding(folder: Path) -> None:
    _, kept, _ = pair(folder)
    for wrong in (60, -1):
        with pytest.raises(IndexError, match=f"{wrong} is out of range in embed.weight, which has 60 rows"):
            kept.embed(torch.tensor([3, wrong]))


def test_embedding_with_a_norm_and_encoders(folder: Path) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Embedding(60, 32, max_norm=2.0), nn.TransformerEncoderLayer(32, 4, 48, batch_first=True))

    model, kept, path = pair(folder, make)
    gbc.load_into(model, path)  # rows beyond the norm were changed in place
    with torch.no_grad():
        for a, b in zip(model.eval()(IDS), kept.eval()(IDS), strict=True):
            torch.testing.assert_close(a, b)


def test_nothing_is_trained_or_written(folder: Path) -> None:
    model, kept, _ = pair(folder)
    for each in (model, kept):  # torch takes another kernel for a frozen GRU
        each.requires_grad_(False)
    changes: list[Callable[[], object]] = [
        lambda: kept.first.requires_grad_(True), lambda: setattr(kept.first.weight, "requires_grad", True),
        lambda: kept.first.weight.zero_(), lambda: kept.first.weight.data.add_(1), lambda: nn.init.ones_(kept.first.weight),
        lambda: kept.first.weight.__setitem__(0, 1.0), lambda: setattr(kept.first.weight, "data", torch.zeros(48, 16)),
        lambda: torch.add(model.first.weight, 1, out=kept.first.weight), lambda: kept.first.weight.data_ptr(),
        lambda: nn.Parameter(kept.first.weight),
    ]  # fmt: skip
    for place, change in enumerate(changes):
        with torch.no_grad(), pytest.raises(gbc.UsageError, match="first.weight is kept compressed"):
            change()
            print("not refused:", place)
    with pytest.raises(RuntimeError, match="kept compressed"):
        kept.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert equal(model(IDS), kept(IDS))


def test_adapters_train(folder: Path) -> None:
    class Adapter(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.layer, self.a, self.b = layer, nn.Linear(32, 2, bias=False), nn.Linear(2, 32, bias=False)

        def forward(self, x: Any) -> Any:
            return self.layer(x) + self.b(self.a(x))

    model, kept, path = pair(folder, lambda: nn.Sequential(*(nn.Linear(32, 32) for _ in range(3))))
    before = path.read_bytes()
    for each in (model, kept):
        each.requires_grad_(False)
        for place in range(3):
            each[place] = Adapter(each[place])
        optimizer = torch.optim.SGD([value for value in each.parameters() if value.requires_grad], 0.1)
        for step in range(4):
            optimizer.zero_grad()
            (each(torch.full((5, 32), 0.1 * step)) - 1).square().mean().backward()
            optimizer.step()
    assert equal([each.a.weight for each in model], [each.a.weight for each in kept])
    assert path.read_bytes() == before


def test_copies_pickles_and_state_dicts(folder: Path) -> None:
    model, kept, path = pair(folder)
    wanted = model(IDS)
    copied = copy.deepcopy(kept)
    assert store_of(copied) is store_of(kept) and kept_names(copied) == kept_names(kept) and equal(copied(IDS), wanted)
    state = kept.state_dict()
    assert isinstance(state["first.weight"], KeptTensor), "decoded when it is used"
    fresh = Mixed().eval()
    fresh.load_state_dict(state)
    assert equal(fresh(IDS), wanted)
    memory = io.BytesIO()
    torch.save(state, memory)
    gbc.save_file(state, folder / "again.gbz", lossless=True)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in gbc.load_file(folder / "again.gbz", framework="pt").items())
    pickled = pickle.loads(pickle.dumps(kept))
    path.unlink()
    memory.seek(0)
    fresh.load_state_dict(torch.load(memory))
    assert equal(fresh(IDS), wanted) and kept_names(pickled) == [] and equal(pickled(IDS), wanted)
    assert equal(kept(IDS), wanted), "the mapping outlives the name"


def test_weights_are_decoded_ahead_by_other_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a layer computes, here: waits, the next weight is decoded, and the layer that uses it decodes nothing."""
    decoded: dict[int, list[str]] = {}
    done = threading.Condition()
    original = _keep_store.Store._decode_into

    def noted(self: Any, unit: Any, *rest: Any) -> None:
        original(self, unit, *rest)
        with done:
            decoded.setdefault(unit.tensor, []).append(threading.current_thread().name)
            done.notify_all()

    class Waits(nn.Module):
        """Until weight ``following`` was decoded."""

        def __init__(self, following: int) -> None:
            super().__init__()
            self.following, self.active, self.in_time = following, False, True

        def forward(self, x: Any) -> Any:
            if self.active:
                with done:
                    self.in_time = done.wait_for(lambda: self.following in decoded, 10)
            return x

    layers = 5
    parts = [part for n in range(layers) for part in (nn.Linear(64, 64, bias=False), Waits(n + 1))][:-1]
    _, kept, _ = pair(folder, lambda: nn.Sequential(*parts))
    monkeypatch.setattr(_keep_store.Store, "_decode_into", noted)
    x = torch.ones(3, 64)
    with torch.no_grad():
        wanted = kept(x)  # tells the store which weight follows which
        assert all(threading.current_thread().name in decoded[n] for n in range(layers))
        decoded.clear()
        waits = [part for part in kept if isinstance(part, Waits)]
        for each in waits:
            each.active = True
        assert torch.equal(kept(x), wanted)
    assert all(each.in_time for each in waits), decoded
    for n in range(1, layers):  # the first ones once more, for the next call
        assert all(name.startswith("gbcompress") for name in decoded[n]), (n, decoded[n])


def test_threads(folder: Path) -> None:
    model, kept, _ = pair(folder)
    inputs = [torch.randint(0, 60, (3, 9), generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    with torch.no_grad():
        wanted = [model(ids) for ids in inputs]
    wrong: list[object] = []

    def work(place: int) -> None:
        with torch.no_grad():
            for _ in range(15):
                if not equal(kept(inputs[place]), wanted[place]):
                    wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert len(store_of(kept).buffers._free) <= 3


def _forked(kept: Any, wanted: Any, queue: Any) -> None:
    torch.set_num_threads(1)
    with torch.no_grad():
        queue.put(all(equal(kept(IDS), wanted) for _ in range(3)))


def test_forked_processes(folder: Path) -> None:
    model, kept, _ = pair(folder)
    torch.set_num_threads(1)  # OpenMP itself does not survive a fork
    with torch.no_grad():
        wanted = model(IDS)
        assert equal(kept(IDS), wanted)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_forked, args=(kept, wanted, queue))
    process.start()
    try:
        assert queue.get(timeout=60)
    finally:
        process.kill()


def test_compile(folder: Path) -> None:
    """Graphs break at kept layers; values and gradients are the same."""
    model, kept, _ = pair(folder, lambda: nn.Sequential(nn.Embedding(60, 32), nn.Linear(32, 40), nn.ReLU(), nn.Linear(40, 8)))
    compiled = torch.compile(kept, backend="eager")
    with torch.no_grad():
        for _ in range(2):
            assert equal(compiled(IDS), model(IDS))
    gradients = []
    for each in (model[1:], torch.compile(kept[1:], backend="eager")):
        x = torch.ones(3, 32, requires_grad=True)
        each(x).square().sum().backward()
        gradients.append(x.grad)
    assert equal(*gradients)


def test_models_that_do_not_match(folder: Path) -> None:
    model, _, path = pair(folder)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.extra = nn.Linear(3, 3)
    with pytest.raises(gbc.ShapeMismatch, match="the file lacks extra.weight"):
        gbc.keep_compressed(model, path)
    del model.extra
    model.first = nn.Linear(17, 48)
    with pytest.raises(gbc.ShapeMismatch, match=r"first.weight has the shape \[48, 16\] in the file and \[48, 17\]"):
        gbc.keep_compressed(model, path, strict=False)
    del model.first
    with pytest.raises(gbc.ShapeMismatch, match="the model lacks first.bias"):
        gbc.keep_compressed(model, path)
    assert kept_names(model) == []
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    gbc.keep_compressed(model, path, strict=False)
    assert "last.weight" in kept_names(model)
    with torch.device("meta"):
        unfilled = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(gbc.UsageError, match="0.weight is on the meta device"):
        gbc.keep_compressed(unfilled, path, strict=False)
    for arguments, words in [((path, path), "takes a torch module"), ((model, folder / "no.gbz"), "no.gbz")]:
        with pytest.raises(gbc.GbzError, match=words):
            gbc.keep_compressed(*arguments)
    with pytest.raises(gbc.UsageError, match="keep must be 'compressed' or 'integers', got 'everything'"):
        gbc.keep_compressed(model, path, keep="everything")
    with pytest.raises(gbc.UsageError, match="cache_bytes must be at least 0, got -1"):
        gbc.keep_compressed(model, path, cache_bytes=-1)


def test_damaged_files_are_refused(tied: tuple[Any, Path], folder: Path) -> None:
    _, path = tied
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    (folder / "damaged.gbz").write_bytes(content)
    with pytest.raises(gbc.GbzError, match="embed.weight") as caught:
        gbc.keep_compressed(Tied(24000, 256), folder / "damaged.gbz")
    assert caught.value.code == "corrupt"
    (folder / "cut.gbz").write_bytes(content[: len(content) // 2])
    with pytest.raises(gbc.GbzError, match="cut.gbz"):
        gbc.keep_compressed(Tied(24000, 256), folder / "cut.gbz")


def test_damage_after_opening(tied: tuple[Any, Path], folder: Path) -> None:
    """A file that is changed in place while it is mapped: an error with the tensor's name, from threads too."""
    _, path = tied
    content = path.read_bytes()
    (folder / "m.gbz").write_bytes(content)
    kept = gbc.keep_compressed(Tied(24000, 256), folder / "m.gbz")
    x = torch.ones(1, 256)
    with torch.no_grad():
        kept.head(x)
        with open(folder / "m.gbz", "r+b") as file:
            file.seek(len(content) // 3)
            file.write(bytes(len(content) // 3))
        for _ in range(2):
            with pytest.raises(gbc.GbzError, match="embed.weight"):
                kept.head(x)
