"""Tensors that are decoded while Transformers makes the model."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
if int(transformers.__version__.split(".")[0]) < 5:
    pytest.skip("Transformers 4 takes decoded tensors", allow_module_level=True)
from test_pretrained import llama  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._huggingface.loading import Loading, on_cpu, resolve, take_resolved  # noqa: E402
from gbcompress.huggingface import save_pretrained  # noqa: E402


def tensors(dtype: Any = torch.float32) -> dict[str, Any]:
    """More than four million weights, so that they lie in stripes; what is not quantized, too."""
    torch.manual_seed(2)
    made = {f"layer.{n}.weight": torch.randn(300 + 100 * n, 1000).to(dtype) / 30 for n in range(7)}
    return made | {"large.weight": torch.randn(2100, 1000).to(dtype), "ids": torch.arange(9), "bias": torch.randn(17).to(dtype)}


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16])
def file(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tensors(request.param)
    made["tied.weight"] = made["layer.2.weight"]
    path = tmp_path_factory.mktemp("loading") / "m.gbz"
    gbc.save_file(made, path, ratio=6)
    assert gbc.inspect(path).profile == "lanes"
    return path


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16, torch.float16])
def test_values_are_those_of_load_file(file: Path, dtype: Any) -> None:
    wanted = gbc.load_file(file, framework="torch")
    loading = Loading(str(file))
    loading.begin(dtype)
    with loading.checked():
        slices = loading.slices()
        assert list(slices) == list(wanted)
        for name, each in slices.items():
            kind = dtype if dtype is not None and wanted[name].is_floating_point() else wanted[name].dtype
            each.wanted = dtype if wanted[name].is_floating_point() else None
            assert torch.equal(each[...].to(kind), wanted[name].to(kind)), name
        assert torch.equal(slices["layer.1.weight"][3:5], wanted["layer.1.weight"][3:5])
    with pytest.raises(gbc.UsageError, match="is closed"):
        loading.take("bias", None)


def test_a_loader_that_says_nothing_gets_the_own_type(file: Path) -> None:
    wanted = gbc.load_file(file, framework="torch")
    loading = Loading(str(file))
    loading.begin(torch.bfloat16)
    with loading.checked():
        for name, each in loading.slices().items():
            assert each[...].dtype == wanted[name].dtype and torch.equal(each[...], wanted[name])


def test_tensors_share_no_memory(file: Path) -> None:
    """Nor do names that are tied in the file: Transformers ties what the configuration ties."""
    loading = Loading(str(file))
    loading.begin()
    with loading.checked():
        made = [each[...] for each in loading.slices().values()]
    spans = sorted((value.data_ptr(), value.data_ptr() + value.numel() * value.element_size()) for value in made)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
    copies = [value.clone() for value in made]
    for value in made[::2]:
        value.zero_()
    assert all(torch.equal(a, b) for a, b in zip(made[1::2], copies[1::2], strict=True))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from Linux's /proc")
def test_memory_of_dropped_tensors_is_given_back(file: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    loading = Loading(str(file))
    loading.begin()
    with loading.checked():
        made = {name: each[...] for name, each in loading.slices().items()}
    kept = made.pop("bias")
    size = sum(value.numel() * value.element_size() for value in made.values())
    before = resident()
    made.clear()
    gc.collect()
    assert before - resident() > size / 2  # the memory of all tensors is one block
    assert torch.isfinite(kept).all()


def test_types_that_torch_converts_are_not_decoded_ahead(file: Path) -> None:
    """Memory would hold the whole model in both types."""
    own = {name: value.dtype for name, value in gbc.load_file(file, framework="torch").items()}
    loading = Loading(str(file))
    loading.begin(torch.float16)
    with loading.checked():
        ahead = {loading.keys()[index] for index in loading._places}
        assert ahead == {name for name, dtype in own.items() if not dtype.is_floating_point}
        slices = loading.slices()
        slices["bias"].wanted = torch.float16
        assert slices["bias"][...].dtype == own["bias"]


def test_what_nobody_takes_is_no_error(file: Path) -> None:
    loading = Loading(str(file))
    loading.begin()
    with loading.checked():
        loading.slices()["bias"][...]
    never = Loading(str(file))
    with never.checked():
        assert torch.isfinite(never.slices()["bias"][...]).all()
    Loading(str(file)).begin()  # dropped while threads decode


def test_damage(file: Path, tmp_path: Path) -> None:
    content = bytearray(file.read_bytes())
    for at in (len(content) // 2, len(content) - 60):
        damaged = bytes([*content[:at], content[at] ^ 0x10, *content[at + 1 :]])
        (tmp_path / "m.gbz").write_bytes(damaged)
        with pytest.raises(gbc.GbzError) as caught:
            loading = Loading(str(tmp_path / "m.gbz"))
            loading.begin()
            with loading.checked():
                [each[...] for each in loading.slices().values()]
        assert caught.value.code == "corrupt"


def test_decoding_begins_before_the_model_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_pretrained(llama(), tmp_path / "packed", ratio=4)
    events: list[str] = []
    begin, take, make = Loading.begin, Loading.take, transformers.LlamaForCausalLM.__init__

    def begins(self: Any, dtype: Any = None) -> None:
        events.append("begin")
        begin(self, dtype)

    def takes(self: Any, name: str, dtype: Any) -> Any:
        events.append(f"take {dtype}")
        return take(self, name, dtype)

    def makes(self: Any, config: Any) -> None:
        events.append("make")
        make(self, config)

    monkeypatch.setattr(Loading, "begin", begins)
    monkeypatch.setattr(Loading, "take", takes)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "__init__", makes)
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "packed", dtype=torch.bfloat16)
    assert events[:2] == ["begin", "make"] and events[-1] == "take torch.bfloat16"
    assert take_resolved() is None


def test_a_file_that_was_resolved_is_taken_once(file: Path) -> None:
    opened = resolve(str(file))
    assert take_resolved() is opened and take_resolved() is None


def test_device_maps() -> None:
    assert on_cpu(None) and on_cpu("cpu") and on_cpu(torch.device("cpu")) and on_cpu({"": "cpu", "head": torch.device("cpu")})
    assert not on_cpu("auto") and not on_cpu({"": "cpu", "head": "disk"}) and not on_cpu({"": 0}) and not on_cpu("cuda:0")
