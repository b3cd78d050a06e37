"""Packed folders in Transformers' own from_pretrained(), pipeline() and save_pretrained()."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
from test_folders import SENTENCES, bert  # noqa: E402
from test_pretrained import IDS, files_in, llama  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress.huggingface import GbcompressConfig, save_pretrained  # noqa: E402

Causal = transformers.AutoModelForCausalLM
PACKED = {"model.gbz", "config.json", "generation_config.json"}
OLD = int(transformers.__version__.split(".")[0]) < 5


def packed(folder: Path, model: Any = None, **settings: Any) -> Path:
    save_pretrained(llama() if model is None else model, folder, **(settings or {"lossless": True}))
    return folder


def same(a: Any, b: Any) -> bool:
    before, after = a.state_dict(), b.state_dict()
    return before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def python(text: str, folder: Path, status: int = 0) -> str:
    """Another interpreter, in which nothing has been imported. Its standard output and error."""
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": True}])
def test_lossless_folders_come_back(folder: Path, changes: dict[str, Any]) -> None:
    model = llama(**changes)
    model.generation_config.max_new_tokens = 7
    place = packed(folder / "packed", model)
    assert files_in(place) == PACKED
    for cls in (transformers.LlamaForCausalLM, Causal):
        back = cls.from_pretrained(place)
        assert isinstance(back, transformers.LlamaForCausalLM) and not back.training
        assert all(not p.is_meta for p in [*back.parameters(), *back.buffers()])
        assert same(model, back)
        with torch.no_grad():
            assert torch.equal(back(IDS).logits, model(IDS).logits)
        assert back.generation_config.max_new_tokens == 7
        assert back.name_or_path == str(place)
        assert (back.lm_head.weight is back.model.embed_tokens.weight) == bool(changes)
        assert back.config.quantization_config.quant_method == "gbcompress"
        assert not hasattr(back.config, "transformers_weights")
    base = transformers.AutoModel.from_pretrained(place)
    assert torch.equal(base.embed_tokens.weight, model.model.embed_tokens.weight)


@pytest.mark.parametrize(
    "imports",
    ["import gbcompress, transformers", "import transformers, gbcompress",
     "from transformers import AutoModelForCausalLM\nimport gbcompress", "from gbcompress import huggingface"],
)  # fmt: skip
def test_imports_in_either_order(folder: Path, imports: str) -> None:
    packed(folder / "packed")
    said = python(
        f"{imports}\nfrom transformers import AutoModelForCausalLM\n"
        "print(type(AutoModelForCausalLM.from_pretrained('packed')).__name__)",
        folder,
    )
    assert "LlamaForCausalLM" in said and "Unknown quantization" not in said


def test_the_package_imports_nothing_of_transformers(folder: Path) -> None:
    python(
        "import sys, gbcompress\n"
        "assert not {'torch', 'transformers', 'gbcompress._huggingface.transformers'} & sys.modules.keys()\n"
        "import importlib.util, transformers.models.bert.modeling_bert, inspect\n"
        "assert 'gbcompress._huggingface.transformers' in sys.modules\n"
        "assert not [each for each in sys.meta_path if 'gbcompress' in type(each).__module__]\n"
        "assert 'def from_pretrained' in inspect.getsource(sys.modules['transformers.modeling_utils'])",
        folder,
    )


def test_without_the_package_the_error_names_it(folder: Path) -> None:
    packed(folder / "packed")
    said = python("from transformers import AutoModel; AutoModel.from_pretrained('packed')", folder, status=1)
    assert "install its Python package, and import gbcompress" in said.splitlines()[-1]


def test_arguments(folder: Path) -> None:
    place = packed(folder / "packed", ratio=4)
    half = Causal.from_pretrained(place, dtype=torch.bfloat16)
    assert half.lm_head.weight.dtype == torch.bfloat16
    assert Causal.from_pretrained(place, device_map="cpu").device.type == "cpu"
    model, info = Causal.from_pretrained(place, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    whole = gbc.load_file(place, framework="torch")
    assert torch.equal(model.state_dict()["lm_head.weight"], whole["lm_head.weight"])
    assert torch.equal(half.lm_head.weight, whole["lm_head.weight"].to(torch.bfloat16))
    assert torch.equal(model.half().lm_head.weight, whole["lm_head.weight"].half())
    assert Causal.from_pretrained(place, num_labels=3).config.num_labels == 3


def test_models_on_the_disk(folder: Path) -> None:
    pytest.importorskip("accelerate")
    model = llama()
    place = packed(folder / "packed", model)
    names = ["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head", *(f"model.layers.{n}" for n in range(3))]
    split = dict.fromkeys(names, "cpu") | {"model.layers.1": "disk"}
    back = Causal.from_pretrained(place, device_map=split, offload_folder=folder / "offload")
    with torch.no_grad():
        assert torch.equal(back(IDS).logits, model(IDS).logits)


def test_the_element_type_of_the_file(folder: Path) -> None:
    place = packed(folder / "packed", llama().to(torch.bfloat16))
    assert Causal.from_pretrained(place, dtype="auto").dtype == torch.bfloat16
    config = json.loads((place / "config.json").read_text())
    for name in ("dtype", "torch_dtype"):
        config.pop(name, None)
    (place / "config.json").write_text(json.dumps(config))
    assert Causal.from_pretrained(place, dtype="auto").dtype == torch.bfloat16


def test_sharded_folders(folder: Path) -> None:
    model = llama()
    model.save_pretrained(folder / "shards", max_shard_size="20KB")
    assert (folder / "shards" / "model.safetensors.index.json").exists()
    gbc.compress_folder(folder / "shards", folder / "packed", lossless=True)
    assert files_in(folder / "packed") == PACKED
    assert same(model, Causal.from_pretrained(folder / "packed"))


def test_folders_of_the_program(program: Run, folder: Path) -> None:
    model = llama()
    model.save_pretrained(folder / "plain")
    program("compress", folder / "plain", "--mode", "exact", "-o", f"{folder}/packed/")
    config = json.loads((folder / "packed" / "config.json").read_text())
    assert config["quantization_config"] == {"quant_method": "gbcompress"}
    assert config["transformers_weights"].startswith("model.gbz (")
    assert same(model, Causal.from_pretrained(folder / "packed"))
    program("expand", folder / "packed", "-o", f"{folder}/back/")
    assert (folder / "back" / "config.json").read_bytes() == (folder / "plain" / "config.json").read_bytes()
    # Without the marks, the only .gbz of a folder without other weights is taken.
    shutil.copy(folder / "plain" / "config.json", folder / "packed")
    assert same(model, Causal.from_pretrained(folder / "packed"))


def test_other_folders_are_loaded_as_before(folder: Path) -> None:
    model = llama()
    model.save_pretrained(folder / "plain")
    back = Causal.from_pretrained(folder / "plain")
    assert same(model, back) and getattr(back, "hf_quantizer", None) is None
    back.save_pretrained(folder / "again")
    assert "model.safetensors" in files_in(folder / "again")
    (folder / "plain" / "model.safetensors").unlink()
    with pytest.raises(OSError, match="no file named"):
        Causal.from_pretrained(folder / "plain")
    shutil.copytree(packed(folder / "packed", ratio=4), folder / "part" / "text_encoder")
    assert Causal.from_pretrained(folder / "part", subfolder="text_encoder").config.num_hidden_layers == 3


def test_pipelines(folder: Path) -> None:
    source = bert(folder / "bert")
    gbc.compress_folder(source, folder / "packed", lossless=True)
    features = [
        transformers.pipeline("feature-extraction", model=str(place))(SENTENCES[0])
        for place in (source, folder / "packed")
    ]
    assert np.array_equal(features[0], features[1])


def test_repositories_in_the_cache(folder: Path) -> None:
    """As `huggingface-cli download` leaves one; nothing is fetched."""
    from huggingface_hub import constants

    model = llama()
    place = packed(folder / "packed", model)
    cache = folder / "cache" / "models--someone--packed"
    snapshot = cache / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0" * 40)
    (cache / "blobs").mkdir()
    for number, file in enumerate(sorted(place.iterdir())):
        shutil.copy(file, cache / "blobs" / f"{number:040d}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number:040d}")
    assert constants.HF_HUB_OFFLINE
    assert same(model, Causal.from_pretrained("someone/packed", cache_dir=folder / "cache"))
    (snapshot / "model.gbz").unlink()
    with pytest.raises(OSError, match="model.gbz|no file of weights"):
        Causal.from_pretrained("someone/packed", cache_dir=folder / "cache")


def test_unchanged_weights_are_saved_as_the_same_file(folder: Path) -> None:
    place = packed(folder / "packed", ratio=4)
    content = (place / "model.gbz").read_bytes()
    for dtype in (torch.float32, torch.bfloat16):
        model = Causal.from_pretrained(place, dtype=dtype)
        model.save_pretrained(folder / "again")
        assert files_in(folder / "again") == PACKED
        assert (folder / "again" / "model.gbz").read_bytes() == content
        assert same(model, Causal.from_pretrained(folder / "again", dtype="auto"))
        assert model.hf_quantizer is not None, "as before saving"
    model.save_pretrained(place)
    assert (place / "model.gbz").read_bytes() == content
    assert not [name for name in files_in(folder) if ".gbcompress-" in name]


def test_changed_weights_are_compressed_as_the_file_was(folder: Path) -> None:
    for name, settings in {"exact": {"lossless": True}, "lossy": {"ratio": 5}}.items():
        place = packed(folder / name, **settings)
        model = Causal.from_pretrained(place)
        for changed in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            with torch.no_grad():
                changed.model.layers[0].mlp.up_proj.weight.mul_(1.5)
            changed.save_pretrained(folder / "again")
            back = Causal.from_pretrained(folder / "again")
            assert same(changed, back) == (name == "exact")
            sizes = [(at / "model.gbz").stat().st_size for at in (place, folder / "again")]
            assert abs(sizes[1] / sizes[0] - 1) < 0.1, sizes


def test_a_target_of_ones_own(folder: Path) -> None:
    model = llama()
    model.save_pretrained(folder / "plain")
    loaded = Causal.from_pretrained(folder / "plain", quantization_config=GbcompressConfig(ratio=4))
    assert same(model, loaded), "weights in memory are not changed"
    loaded.save_pretrained(folder / "packed")
    assert files_in(folder / "packed") == PACKED
    assert (folder / "packed" / "model.gbz").read_bytes() == (packed(folder / "b", ratio=4) / "model.gbz").read_bytes()
    if not OLD:  # Transformers 4 keeps the configuration of the folder alone
        with pytest.warns(UserWarning, match="ratio"):
            smaller = Causal.from_pretrained(folder / "packed", quantization_config=GbcompressConfig(ratio=8))
        smaller.save_pretrained(folder / "smaller")
        sizes = [(folder / name / "model.gbz").stat().st_size for name in ("packed", "smaller")]
        assert sizes[1] < 0.7 * sizes[0]
    for wrong in ({"ratio": 0.5}, {"ratio": 4, "lossless": True}, {"max_bytes": 0}):
        with pytest.raises(gbc.UsageError):
            GbcompressConfig(**wrong)
    assert GbcompressConfig(of_a_later_version=1).to_dict() == {"quant_method": "gbcompress"}


def test_saving_uncompressed(folder: Path) -> None:
    model = Causal.from_pretrained(packed(folder / "packed", ratio=4))
    model.save_pretrained(folder / "checkpoint", state_dict=model.state_dict())  # as the Trainer does
    model.dequantize().save_pretrained(folder / "plain")
    for name in ("checkpoint", "plain"):
        assert files_in(folder / name) == {"model.safetensors", "config.json", "generation_config.json"}
        config = json.loads((folder / name / "config.json").read_text())
        assert not {"quantization_config", "transformers_weights"} & config.keys()
        assert same(model, Causal.from_pretrained(folder / name))
    # Weights that are written into a packed folder are those that are loaded.
    with torch.no_grad():
        model.lm_head.weight.zero_()
    model.save_pretrained(folder / "packed")
    assert not Causal.from_pretrained(folder / "packed").lm_head.weight.any()


def test_push_to_hub_uploads_a_packed_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import hub

    class Card:
        def save(self, path: str) -> None:
            Path(path).write_text("card")

    def upload(self: Any, working_dir: str, repo_id: str, *args: Any, **kwargs: Any) -> None:
        shutil.copytree(working_dir, folder / "hub" / repo_id)

    class Api:
        def create_repo(self, repo_id: str, **kwargs: Any) -> Any:
            return type("Repo", (), {"repo_id": repo_id})

    monkeypatch.setattr(hub, "hf_api", Api, raising=False)
    monkeypatch.setattr(hub, "create_repo", lambda repo_id, **kwargs: Api().create_repo(repo_id), raising=False)
    monkeypatch.setattr(hub, "create_and_tag_model_card", lambda *args, **kwargs: Card())
    monkeypatch.setattr(hub.PushToHubMixin, "_upload_modified_files", upload)
    model = Causal.from_pretrained(packed(folder / "packed", ratio=4))
    model.push_to_hub("someone/first")
    model.save_pretrained(folder / "saved", push_to_hub=True, repo_id="someone/second", commit_message="x")
    assert files_in(folder / "saved") == PACKED
    for name in ("first", "second"):
        place = folder / "hub" / "someone" / name
        assert files_in(place) == PACKED | {"README.md"}
        assert same(model, Causal.from_pretrained(place))


def test_sentence_transformers(folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules as models

    transformer = models.Transformer(str(bert(folder / "bert")), max_seq_length=20)
    width = transformer.get_embedding_dimension()
    whole = library.SentenceTransformer(
        modules=[transformer, models.Pooling(width), models.Dense(width, 16), models.Normalize()], device="cpu"
    )
    wanted = whole.encode(SENTENCES)
    save_pretrained(whole, folder / "packed", lossless=True)
    assert {"model.gbz", "modules.json", "1_Pooling/config.json"} <= files_in(folder / "packed")
    assert "model.safetensors" not in files_in(folder / "packed")
    back = library.SentenceTransformer(str(folder / "packed"), device="cpu")
    assert np.array_equal(back.encode(SENTENCES), wanted)
    back.save_pretrained(str(folder / "again"))
    assert (folder / "again" / "model.gbz").read_bytes() == (folder / "packed" / "model.gbz").read_bytes()
    assert "model.safetensors" not in files_in(folder / "again")
    save_pretrained(back, folder / "packed", 4, overwrite=True)
    got = library.SentenceTransformer(str(folder / "packed"), device="cpu").encode(SENTENCES)
    assert (np.sum(got * wanted, axis=1) > 0.9).all() and not np.array_equal(got, wanted)


def test_adapters_on_top(folder: Path) -> None:
    peft = pytest.importorskip("peft")
    place = packed(folder / "packed", ratio=4)
    base = Causal.from_pretrained(place)
    frozen = {name: value.clone() for name, value in base.state_dict().items()}
    model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=2))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 1.0)
    for _ in range(3):
        optimizer.zero_grad()
        model(IDS, labels=IDS).loss.backward()
        optimizer.step()
    model.save_pretrained(folder / "adapter")
    wanted = model.eval()(IDS).logits
    assert not torch.equal(wanted, Causal.from_pretrained(place)(IDS).logits)
    assert all(torch.equal(value, frozen[name]) for name, value in Causal.from_pretrained(place).state_dict().items())
    again = peft.AutoPeftModelForCausalLM.from_pretrained(folder / "adapter").eval()
    assert torch.equal(again(IDS).logits, wanted)
    assert torch.equal(Causal.from_pretrained(folder / "adapter")(IDS).logits, wanted)
    loaded = Causal.from_pretrained(place)
    loaded.load_adapter(str(folder / "adapter"))
    loaded.save_pretrained(folder / "adapter2")
    assert "adapter_model.safetensors" in files_in(folder / "adapter2"), "adapters are saved by themselves"
    merged = model.merge_and_unload()
    merged.save_pretrained(folder / "merged")
    assert "model.gbz" in files_in(folder / "merged")
    if not OLD:  # Transformers 4 has PEFT read the file
        gbc.compress_folder(folder / "adapter", folder / "packed-adapter", lossless=True)
        assert "adapter_model.gbz" in files_in(folder / "packed-adapter")
        loaded = Causal.from_pretrained(place)
        loaded.load_adapter(str(folder / "packed-adapter"))
        assert torch.equal(loaded.eval()(IDS).logits, wanted)


@pytest.mark.parametrize("marked", [True, False])
def test_a_damaged_file_is_refused(folder: Path, marked: bool) -> None:
    """The digest is checked beside the decoding."""
    place = packed(folder / "packed", ratio=4)
    if not marked:
        llama().config.save_pretrained(place)
    content = bytearray((place / "model.gbz").read_bytes())
    for at in (len(content) // 2, 3 * len(content) // 4, len(content) - 1):
        content[at] ^= 1
        (place / "model.gbz").write_bytes(content)
        content[at] ^= 1
        with pytest.raises(gbc.GbzError, match="model.gbz") as caught:
            transformers.LlamaForCausalLM.from_pretrained(place)
        assert caught.value.code == "corrupt"
    for cut, code in ((len(content) // 2, ("truncated", "corrupt")), (3, ("truncated", "corrupt", "unsupported"))):
        (place / "model.gbz").write_bytes(content[:cut])
        with pytest.raises(gbc.GbzError, match="model.gbz") as caught:
            Causal.from_pretrained(place)
        assert caught.value.code in code
    newer = b"GBZ3" + content[4:-16]
    (place / "model.gbz").write_bytes(newer + hashlib.sha256(newer).digest()[:16])
    with pytest.raises(gbc.GbzError, match="upgrade") as caught:
        Causal.from_pretrained(place)
    assert caught.value.code == "unsupported"


def test_wrong_folders(folder: Path) -> None:
    place = packed(folder / "packed", ratio=4)
    shutil.move(place / "model.gbz", folder / "model.gbz")
    with pytest.raises(gbc.NotFound, match="packed has no model.gbz, which its config.json names"):
        Causal.from_pretrained(place)
    config = (place / "config.json").read_text()
    (place / "config.json").write_text(config.replace("model.gbz", "../model.gbz"))
    if not OLD:
        with pytest.raises(gbc.UsageError, match="must name a file of its folder"):
            Causal.from_pretrained(place)
    shutil.copy(folder / "model.gbz", place / "a.gbz")
    shutil.copy(folder / "model.gbz", place / "b.gbz")
    llama().config.save_pretrained(place)
    with pytest.raises(gbc.UsageError, match="several .gbz files"):
        Causal.from_pretrained(place)


def test_a_layer_type_that_needs_its_plugin(folder: Path) -> None:
    fixtures = os.environ.get("GBCOMPRESS_FIXTURES")
    if not fixtures:
        pytest.skip("GBCOMPRESS_FIXTURES does not name the program that writes such a file")
    subprocess.run([fixtures, str(folder)], check=True, capture_output=True)
    place = packed(folder / "packed", ratio=4)
    shutil.copy(folder / "ghost.gbz", place / "model.gbz")
    with pytest.raises(gbc.GbzError, match="whose plugin is needed") as caught:
        Causal.from_pretrained(place)
    assert caught.value.code == "unsupported"


def test_keep_needs_transformers_5(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 4 would load a packed folder by its own configuration alone."""
    if not OLD:
        assert GbcompressConfig(keep="compressed").keep == "compressed"
        monkeypatch.setattr(transformers, "__version__", "4.57.6")
    packed(folder / "packed", ratio=4)
    for keep in ("compressed", "integers"):
        with pytest.raises(gbc.UsageError) as caught:
            Causal.from_pretrained(folder / "packed", quantization_config=GbcompressConfig(keep=keep))
        assert str(caught.value) == (
            f"keep='{keep}' needs Transformers 5, got {transformers.__version__}; load the model without it and call "
            "gbcompress.keep_compressed()"
        )


def test_other_versions_of_transformers(folder: Path) -> None:
    """Too old, or without one of the functions: the import works, and a packed folder says what to install."""
    packed(folder / "packed", ratio=4)
    llama().save_pretrained(folder / "plain")
    for change, words in [
        ("import transformers; transformers.__version__ = '4.40.0'", "it is older than 4.57"),
        ("import transformers.modeling_utils as m; del m.PreTrainedModel._load_pretrained_model", "it has no _load"),
    ]:
        said = python(
            f"{change}\nimport gbcompress\nfrom transformers import AutoModel\n"
            + ("AutoModel.from_pretrained('plain')\n" if "older" in words else "")
            + "AutoModel.from_pretrained('packed')",
            folder,
            status=1,
        )
        assert said.splitlines()[-1].startswith("ImportError: ") and words in said.splitlines()[-1]
        assert "gbcompress expand" in said.splitlines()[-1]
