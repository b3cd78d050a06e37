"""The plugin in vLLM's own package: its configuration, loader and model classes, on the processor. Skipped where vLLM is absent.

    pip install vllm, then pytest tests/test_vllm_package.py

A build of vLLM for GPUs loads weights on the processor as well, if it is told that its platform is one; it computes nothing there.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed", allow_module_level=True)
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import vllm.platforms  # noqa: E402

if not torch.cuda.is_available():
    from vllm.platforms.cpu import CpuPlatform

    vllm.platforms._current_platform = CpuPlatform()
from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.distributed import init_distributed_environment, initialize_model_parallel  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.layers import quantization  # noqa: E402
from vllm.model_executor.model_loader import get_model_loader  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._vllm import register  # noqa: E402


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    torch.manual_seed(0)
    sizes = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
    place = tmp_path_factory.mktemp("vllm")
    model.save_pretrained(place / "plain")
    gbc.compress_folder(place / "plain", place / "packed", ratio=4)
    return place / "packed", gbc.load_file(place / "packed" / "model.gbz", framework="torch")


def arguments(folder: Path) -> Any:
    return EngineArgs(
        model=str(folder), load_format="gbcompress", dtype="float32", enforce_eager=True, skip_tokenizer_init=True, max_model_len=64
    )


@pytest.fixture(scope="module")
def configured(packed: tuple[Path, dict[str, Any]]) -> Iterator[Any]:
    register()
    register()
    config = arguments(packed[0]).create_engine_config()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, f"tcp://127.0.0.1:{port}", 0, "gloo")
        initialize_model_parallel(1)
        yield config


def load(config: Any) -> Any:
    config.compilation_config.static_forward_context.clear()  # names of layers of a model before
    return get_model_loader(config.load_config).load_model(vllm_config=config, model_config=config.model_config)


def test_weights_are_those_of_the_file(configured: Any, packed: tuple[Path, dict[str, Any]]) -> None:
    assert quantization.QUANTIZATION_METHODS.count("gbcompress") == 1
    assert configured.model_config.quantization == "gbcompress"
    state, found = packed[1], dict(load(configured).named_parameters())
    parts = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
    for name, value in found.items():
        joined = next((key for key in parts if key in name), None)
        wanted = torch.cat([state[name.replace(joined, part)] for part in parts[joined]]) if joined else state[name]
        assert torch.equal(value[: len(wanted)], wanted), name
    assert len(found) == len(state) - 2 * 3, "three matrices are one in each layer, and two are one"


def test_wrong_folders(configured: Any, packed: tuple[Path, dict[str, Any]]) -> None:
    file = packed[0] / "model.gbz"
    content = file.read_bytes()
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 1
    try:
        file.write_bytes(damaged)
        with pytest.raises(gbc.GbzError, match="model.gbz") as caught:
            load(configured)
        assert caught.value.code == "corrupt"
        file.unlink()
        with pytest.raises(gbc.NotFound, match="holds no .gbz file"):
            load(configured)
    finally:
        file.write_bytes(content)
