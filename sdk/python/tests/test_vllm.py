"""The plugin of vLLM, called in vLLM's order by a small host (vllm_host.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import vllm_host  # noqa: E402

import gbcompress as gbc  # noqa: E402

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm" or name == "gbcompress._vllm.loader"]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    vllm_host.LOADERS.clear()
    vllm_host.CONFIGS.clear()
    vllm_host.METHODS[:] = ["fp8", "gguf"]
    vllm_host.install()
    vllm_host.load_plugins(PROJECT)
    yield
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "vllm" or name == "gbcompress._vllm.loader":
            del sys.modules[name]


def tensors(seed: int = 0, dtype: Any = torch.float32) -> dict[str, Any]:
    draw = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=draw).to(dtype)
            for name, shape in (("embed.weight", (16, 8)), ("q.weight", (8, 8)), ("k.weight", (4, 8)))}


def packed(folder: Path, state: dict[str, Any], **settings: Any) -> Path:
    folder.mkdir()
    gbc.save_file(state, folder / "model.gbz", **(settings or {"lossless": True}))
    config = {"model_type": "llama", "quantization_config": {"quant_method": "gbcompress"}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def check(model: Any, state: dict[str, Any]) -> None:
    assert torch.equal(model.embed.weight, state["embed.weight"])
    assert torch.equal(model.qk.weight, torch.cat([state["q.weight"], state["k.weight"]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_are_those_of_the_file(tmp_path: Path, dtype: Any) -> None:
    state = tensors(dtype=dtype)
    model = vllm_host.serve(packed(tmp_path / "packed", state), dtype)
    check(model, state)
    assert not model.training and model.qk.weight.dtype == dtype
    x = torch.randn(3, 8).to(dtype)
    assert torch.equal(model.qk(x), torch.nn.functional.linear(x, torch.cat([state["q.weight"], state["k.weight"]])))


def test_lossy_weights_are_those_that_load_file_gives(tmp_path: Path) -> None:
    folder = packed(tmp_path / "packed", tensors(), max_error=0.01)
    state = gbc.load_file(folder / "model.gbz", framework="torch")
    assert not torch.equal(state["q.weight"], tensors()["q.weight"])
    check(vllm_host.serve(folder), state)


def test_plugins_may_be_loaded_again() -> None:
    loaders, methods = dict(vllm_host.LOADERS), list(vllm_host.METHODS)
    vllm_host.load_plugins(PROJECT)
    assert (loaders, methods) == (vllm_host.LOADERS, vllm_host.METHODS)
    assert methods == ["fp8", "gguf", "gbcompress"]


def test_importing_the_package_imports_no_vllm() -> None:
    code = "import sys, gbcompress, gbcompress._vllm; assert 'vllm' not in sys.modules and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_folders(tmp_path: Path) -> None:
    state = tensors()
    lacking = packed(tmp_path / "lacking", {"q.weight": state["q.weight"], "k.weight": state["k.weight"]})
    with pytest.raises(gbc.ShapeMismatch, match=r"lacking/model.gbz lacks embed.weight, which the model needs"):
        vllm_host.serve(lacking)
    empty = packed(tmp_path / "empty", state)
    (empty / "model.gbz").unlink()
    with pytest.raises(gbc.NotFound, match="holds no .gbz file"):
        vllm_host.serve(empty)
    several = packed(tmp_path / "several", state)
    (several / "other.gbz").write_bytes((several / "model.gbz").read_bytes())
    with pytest.raises(gbc.UsageError, match="holds several .gbz files"):
        vllm_host.serve(several)
    with pytest.raises(gbc.UsageError, match="has no model_loader_extra_config, got num_threads"):
        vllm_host.serve(packed(tmp_path / "extra", state), extra={"num_threads": 4})


def test_a_damaged_file_is_refused_before_the_first_tensor(tmp_path: Path) -> None:
    folder = packed(tmp_path / "packed", tensors())
    content = bytearray((folder / "model.gbz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.gbz").write_bytes(bytes(content))
    given: list[Any] = []
    original = vllm_host.Model.load_weights
    try:
        vllm_host.Model.load_weights = lambda self, weights: original(self, (given.append(each) or each for each in weights))
        with pytest.raises(gbc.GbzError, match="damaged"):
            vllm_host.serve(folder)
    finally:
        vllm_host.Model.load_weights = original
    assert given == []
