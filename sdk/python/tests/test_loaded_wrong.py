"""Wrong files at each way to load a packed model: an exception that names the file, and never a model."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
import vllm_host  # noqa: E402
from test_pretrained import llama  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress.huggingface import GbcompressConfig, save_pretrained  # noqa: E402

OLD = int(transformers.__version__.split(".")[0]) < 5
pytestmark = pytest.mark.filterwarnings("ignore:You passed `quantization_config`")


def from_pretrained(keep: str | None) -> Callable[[Path], Any]:
    def load(place: Path) -> Any:
        if keep is not None and OLD:
            pytest.skip("Transformers 4 takes no configuration for a packed folder")
        more = {} if keep is None else {"quantization_config": GbcompressConfig(keep=keep)}
        return transformers.LlamaForCausalLM.from_pretrained(place, **more)

    return load


def kept(place: Path) -> Any:
    return gbc.keep_compressed(llama(), place / "model.gbz", keep="integers")


def vllm(place: Path) -> set[str]:
    """The plugin's loader, which gives tensors to a model that takes any."""
    from gbcompress._vllm.loader import GbcompressLoader

    class Takes:
        def load_weights(self, weights: Any) -> set[str]:
            return {name for name, tensor in weights if tensor is not None}

        def named_parameters(self) -> list[Any]:
            return []

    loader = GbcompressLoader(SimpleNamespace(model_loader_extra_config={}, download_dir=None))
    loader.load_weights(Takes(), SimpleNamespace(model=str(place), revision=None))
    return {"loaded"}


def session(place: Path) -> Any:
    return gbc.onnx.session(place / "model.gbz")


DOORS = {
    "from_pretrained": from_pretrained(None),
    "kept compressed": from_pretrained("compressed"),
    "kept integers": from_pretrained("integers"),
    "keep_compressed": kept,
    "vllm": vllm,
    "onnx": session,
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A packed folder, and one with a file of an ONNX model."""
    place = tmp_path_factory.mktemp("loaded")
    save_pretrained(llama(), place / "packed", ratio=4)
    (place / "onnx").mkdir()
    return {"packed": place / "packed", "onnx": place / "onnx"}


@pytest.fixture(params=sorted(DOORS))
def door(request: pytest.FixtureRequest, places: dict[str, Path], tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    """How it loads, and a folder of its own."""
    if request.param == "onnx" and not (places["onnx"] / "model.gbz").exists():
        pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
        from test_onnx_session import dense

        gbc.onnx.compress(dense(places["onnx"] / "m.onnx"), places["onnx"] / "model.gbz", ratio=4)
    shutil.copytree(places["onnx" if request.param == "onnx" else "packed"], tmp_path / "packed")
    before = set(sys.modules)
    if request.param == "vllm":
        vllm_host.install()
    yield DOORS[request.param], tmp_path / "packed"
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "vllm" or name == "gbcompress._vllm.loader":
            del sys.modules[name]


def put(file: Path, content: bytes) -> None:
    """A new file: one that is still mapped must not be written to."""
    file.unlink()
    file.write_bytes(content)


def test_damage_and_versions(door: tuple[Any, Path]) -> None:
    load, place = door
    file = place / "model.gbz"
    content = file.read_bytes()
    assert load(place) is not None
    for part in range(1, 8):
        damaged = bytearray(content)
        damaged[part * len(content) // 8] ^= 0x20
        put(file, damaged)
        with pytest.raises(gbc.GbzError, match="model.gbz") as caught:
            load(place)
        assert caught.value.code == "corrupt", part
    put(file, content[: len(content) // 2])
    with pytest.raises(gbc.GbzError, match="model.gbz") as caught:
        load(place)
    assert caught.value.code in ("truncated", "corrupt")
    for version, words in ((b"GBZ3", "upgrade"), (b"GBZ0", "model.gbz")):
        other = version + content[4:-16]
        put(file, other + hashlib.sha256(other).digest()[:16])
        with pytest.raises(gbc.GbzError, match=words) as caught:
            load(place)
        assert version == b"GBZ0" or caught.value.code == "unsupported"
    file.unlink()
    with pytest.raises(gbc.NotFound):
        load(place)


def undecodable(file: Path) -> list[str]:
    """Names of the tensors that open() does not decode; [] where there are none or the header cannot be read."""
    found = []
    try:
        with gbc.open(file, verify=False) as opened:
            for name in opened:
                try:
                    opened.get_tensor(name)
                except gbc.GbzError:
                    found.append(name)
    except gbc.GbzError:
        return []
    return found


def test_damage_names_a_tensor(door: tuple[Any, Path]) -> None:
    """The first one that does not decode; where all decode, the error says that none can be named."""
    load, place = door
    file = place / "model.gbz"
    content = file.read_bytes()
    named = 0
    for at in range(len(content) // 5, len(content) - 20, len(content) // 9):
        damaged = bytearray(content)
        damaged[at] ^= 0x20
        put(file, damaged)
        found = undecodable(file)
        with pytest.raises(gbc.GbzError) as caught:
            load(place)
        text = str(caught.value)
        assert f"{file} is damaged: its digest does not fit; copy it again" in text
        if found:
            assert text.startswith(f"{found[0]} cannot be decoded"), text
            assert "no tensor can be named" not in text
        else:
            assert text.endswith("; no tensor can be named, since each of them decodes"), text
        named += bool(found)
    assert named > 0, "no damage that decoding finds"
    damaged = bytearray(content)
    damaged[-1] ^= 1  # of the digest itself
    put(file, damaged)
    with pytest.raises(gbc.GbzError, match="no tensor can be named, since each of them decodes"):
        load(place)


def test_a_layer_type_that_needs_its_plugin(door: tuple[Any, Path], tmp_path: Path) -> None:
    load, place = door
    fixtures = os.environ.get("GBCOMPRESS_FIXTURES")
    if not fixtures:
        pytest.skip("GBCOMPRESS_FIXTURES does not name the program that writes such a file")
    subprocess.run([fixtures, str(tmp_path)], check=True, capture_output=True)
    put(place / "model.gbz", (tmp_path / "ghost.gbz").read_bytes())
    with pytest.raises(gbc.GbzError, match="ghost.weight is built by layer type ghost, whose plugin is needed") as caught:
        load(place)
    assert caught.value.code == "unsupported"


def test_a_version_of_vllm_without_the_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    from gbcompress._vllm import register

    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    vllm_host.install()
    for module in ("vllm.model_executor.model_loader", "vllm.model_executor.layers"):
        for name in ("register_model_loader", "quantization"):
            vars(sys.modules[module]).pop(name, None)
    with pytest.raises(ImportError, match="register_model_loader|quantization"):
        register()
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        del sys.modules[name]
