"""Kinds of modules that calibrate() and collect() take: memory in another order, compiled, exported, parametrized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

import gbcompress as gbc  # noqa: E402

FEW = "ignore:fewer rows of inputs"


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16)).eval()


def vectors(count: int = 6) -> list[torch.Tensor]:
    return [torch.randn(32, 64, generator=torch.Generator().manual_seed(i)) for i in range(count)]


def copied(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(model: nn.Module, before: dict[str, torch.Tensor]) -> list[str]:
    return [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]


def test_a_model_in_channels_last_has_the_file_of_its_contiguous_twin(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 32, 3), nn.ReLU(), nn.Conv2d(32, 16, 3)).eval()
    batches = [torch.randn(4, 8, 12, 12) for _ in range(6)]
    gbc.calibrate(model, batches, tmp_path / "a.gbz", ratio=6)
    model.to(memory_format=torch.channels_last)
    before = copied(model)
    gbc.calibrate(model, batches, tmp_path / "b.gbz", ratio=6)
    assert (tmp_path / "a.gbz").stat().st_size == pytest.approx((tmp_path / "b.gbz").stat().st_size, rel=0.02)
    assert not changed(model, before)
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    gbc.load_into(model, tmp_path / "b.gbz")
    one, other = gbc.load_file(tmp_path / "a.gbz"), gbc.load_file(tmp_path / "b.gbz")
    assert all(float(np.square(one[k] - other[k]).sum()) < 0.02 * float(np.square(one[k]).sum()) for k in one)


def test_memory_in_another_order_is_copied(tmp_path: Path) -> None:
    square = torch.randn(64, 64)
    tensors = {"a": square, "b": square.t(), "c": torch.randn(64)[::2], "d": square}
    report = gbc.save_file(tensors, tmp_path / "a.gbz", lossless=True)
    loaded = gbc.load_file(tmp_path / "a.gbz", framework="torch")
    assert all(torch.equal(loaded[name], value) for name, value in tensors.items())
    assert {each.name: each.stored for each in report.tensors}["d"] == "tied"  # a transpose is not
    arrays = {"a": np.arange(64, dtype=np.float32)[::2], "b": np.arange(12, dtype=np.int64).reshape(3, 4).T}
    gbc.save_file(arrays, tmp_path / "b.gbz", lossless=True)
    assert all(np.array_equal(gbc.load_file(tmp_path / "b.gbz")[name], value) for name, value in arrays.items())


@pytest.mark.filterwarnings(FEW)
def test_parameters_that_are_not_contiguous(tmp_path: Path) -> None:
    model = nn.Sequential(parametrizations.orthogonal(nn.Linear(64, 64)), nn.ReLU(), nn.Linear(64, 16)).eval()
    model[2].weight = nn.Parameter(torch.randn(64, 16).t())
    before = copied(model)
    gbc.calibrate(model, vectors(), tmp_path / "a.gbz", ratio=4)
    assert not changed(model, before)
    assert gbc.load_into(model, tmp_path / "a.gbz") == ([], [])


class Compiled:
    """A backend of torch.compile that counts its graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: object) -> object:
        self.graphs += 1
        return graph.forward


@pytest.mark.parametrize("kind", ["function", "method", "inner", "parallel"])
def test_compiled_models_run_uncompiled(kind: str, tmp_path: Path) -> None:
    backend, model = Compiled(), net()
    given: nn.Module = model
    if kind == "function":
        given = torch.compile(model, backend=backend)
    elif kind == "method":
        model.compile(backend=backend)
    elif kind == "inner":
        given = nn.Sequential(model, nn.Identity())
        given[0] = torch.compile(model, backend=backend)
    else:
        given = nn.DataParallel(model)
    statistics = gbc.collect(given, vectors())
    weight = "0._orig_mod.0.weight" if kind == "inner" else "0.weight"
    assert f"{weight}.input_moment" in statistics.tensors
    gbc.calibrate(given, vectors(), tmp_path / "a.gbz", ratio=4)
    assert backend.graphs == 0
    assert weight in gbc.load_file(tmp_path / "a.gbz")
    assert gbc.load_into(given, tmp_path / "a.gbz") == ([], [])
    if kind != "inner":
        assert gbc.load_into(net(), tmp_path / "a.gbz") == ([], [])
    gbc.save_file(given.state_dict(), tmp_path / "b.gbz", ratio=4)  # with the names of the model as given
    assert gbc.load_into(given, tmp_path / "b.gbz") == ([], [])


def test_modules_of_torch_export_run_as_they_are(tmp_path: Path) -> None:
    model = torch.export.export(net(), (vectors()[0],)).module()
    before = copied(model)
    gbc.calibrate(model, vectors(), tmp_path / "a.gbz", ratio=4)
    assert not changed(model, before)
    assert gbc.load_into(model, tmp_path / "a.gbz") == ([], [])


@pytest.mark.parametrize("norm", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_spectral_norms_in_training_mode(norm: object, tmp_path: Path) -> None:
    model = nn.Sequential(norm(nn.Linear(64, 96)), nn.ReLU(), nn.Linear(96, 16)).train()  # type: ignore[operator]
    before = copied(model)
    with pytest.warns(UserWarning, match="the model is in training mode"):
        gbc.calibrate(model, vectors(), tmp_path / "a.gbz", ratio=4)
    assert not changed(model, before)
    assert all(module.training for module in model.modules())


class Routed(nn.Module):
    """Two experts, each of which gets the rows whose score is highest."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.router = nn.Linear(64, 64), nn.Linear(64, 2)
        self.experts = nn.ModuleList([nn.Linear(64, 64) for _ in range(2)])
        self.head = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.body(x))
        chosen, out = self.router(x).argmax(1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            if (rows := chosen == number).any():
                out[rows] = expert(x[rows])
        return self.head(out)


@pytest.mark.parametrize("experts", [2, 1])
def test_rows_that_quantized_routers_send_elsewhere(experts: int, tmp_path: Path) -> None:
    model = Routed().eval()
    batches = [torch.randn(64, 64, generator=torch.Generator().manual_seed(i)) for i in range(6)]
    if experts == 1:  # the other one is hardly reached, and not at all in some passes
        with torch.no_grad():
            model.router.bias[0] += 0.45
    with pytest.warns(UserWarning, match="has other numbers of inputs once the layers before it are quantized") as told:
        report = gbc.calibrate(model, batches, tmp_path / "a.gbz", ratio=10)
    assert any("layer by layer" in name for name in report.candidates)
    assert sum("other numbers of inputs" in str(each.message) for each in told) == 1


def never(*_: object) -> None:
    raise AssertionError("the model ran")


@pytest.mark.parametrize(
    ("place", "settings", "words"),
    [
        ("none/a.gbz", {}, "none/a.gbz cannot be written: its folder does not exist"),
        ("a.gbz", {"threads": -1}, "threads must be at least 0, got -1"),
        (".", {"overwrite": True}, "is a folder; give a file name"),
    ],
)
def test_refused_before_the_model_runs(place: str, settings: dict, words: str, tmp_path: Path) -> None:
    model = net()
    model.register_forward_pre_hook(never)
    with pytest.raises(gbc.GbzError, match=words):
        gbc.calibrate(model, vectors(), tmp_path / place, ratio=4, **settings)


@pytest.mark.filterwarnings(FEW)
def test_folders_whose_experts_the_model_stacks(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "Qwen3MoeForCausalLM"):
        pytest.skip("a transformers without Qwen3-MoE")
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=200, hidden_size=64, intermediate_size=96, moe_intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_experts=4, num_experts_per_tok=2,
        max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.Qwen3MoeForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "m")
    batches = [{"input_ids": torch.randint(0, 200, (4, 16))} for _ in range(5)]
    report = gbc.compress_folder(tmp_path / "m", tmp_path / "out", ratio=6, data=batches)
    assert report.target_met
    opened = transformers.Qwen3MoeForCausalLM.from_pretrained(tmp_path / "out")
    name = next(name for name, value in model.state_dict().items() if "experts" in name and value.ndim > 2)
    before, now = model.state_dict()[name], opened.state_dict()[name]
    assert 0 < float((now - before).square().sum()) < 0.1 * float(before.square().sum())


def test_parts_of_stacks_are_found_by_values() -> None:
    from gbcompress._calibrate.stacks import parts_of_stacks
    from gbcompress._files.arrays import to_entries

    up, gate, other = torch.randn(3, 8, 16), torch.randn(3, 8, 16), torch.randn(8, 16)
    state = {"experts.both": torch.cat([gate, up], 1).bfloat16(), "norm": torch.ones(16)}
    files = {f"experts.{i}.up": up[i] for i in range(3)} | {f"experts.{i}.gate": gate[i] for i in range(3)}
    found = parts_of_stacks(state, to_entries({**files, "other": other, "norm": torch.ones(16)}))
    assert sorted(found) == sorted(files)
    assert all(torch.equal(found[name].view, value.bfloat16()) for name, value in files.items())
    rows = np.arange(3 * 16, dtype=np.float32)
    assert found["experts.1.up"].importance(rows).tolist() == list(range(24, 32))
    assert found["experts.2.gate"].importance(np.float32([0, 16, 32])).tolist() == [2] * 8
    found["experts.0.up"].view.zero_()
    assert not state["experts.both"][0, 8:].any()


def test_models_without_values(tmp_path: Path) -> None:
    with torch.device("meta"):
        meta = net()
    lazy = nn.Sequential(nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, 4))
    for model, words in (
        (meta, "0.weight lies on the meta device and has no values; load the weights first"),
        (lazy, "0.weight has no shape yet; run a batch through the model first"),
    ):
        with pytest.raises(gbc.UsageError, match=words):
            gbc.calibrate(model, vectors(), tmp_path / "a.gbz", ratio=4)
        with pytest.raises(gbc.UsageError, match=words):
            gbc.collect(model, vectors())
