"""Packed folders whose weights are kept compressed: from_pretrained(quantization_config=GbcompressConfig(keep=...))."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
from test_folders import bert  # noqa: E402
from test_pretrained import IDS, files_in, llama  # noqa: E402

import gbcompress as gbc  # noqa: E402
from gbcompress._keep.tensor import KeptTensor  # noqa: E402
from gbcompress.huggingface import GbcompressConfig, save_pretrained  # noqa: E402

Causal = transformers.AutoModelForCausalLM
if int(transformers.__version__.split(".")[0]) < 5:
    pytest.skip("Transformers 4 takes no configuration for a packed folder", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore:You passed `quantization_config`")


def kept_model(place: Path, **arguments: Any) -> Any:
    return Causal.from_pretrained(place, quantization_config=GbcompressConfig(keep="compressed"), **arguments)


def kept_names(model: Any) -> set[str]:
    return {name for name, value in model.named_parameters() if isinstance(value, KeptTensor)}


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": True}])
def test_language_models(folder: Path, changes: dict[str, Any]) -> None:
    save_pretrained(llama(**changes), folder / "packed", ratio=4)
    for dtype in (torch.float32, torch.bfloat16):
        model = Causal.from_pretrained(folder / "packed", dtype=dtype)
        kept, info = kept_model(folder / "packed", dtype=dtype, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
        matrices = {name for name, value in model.named_parameters() if value.dim() == 2}
        assert kept_names(kept) == matrices
        assert (kept.lm_head.weight is kept.model.embed_tokens.weight) == bool(changes)
        assert kept.dtype == dtype and not kept.training
        with torch.no_grad():
            assert torch.equal(kept(IDS).logits, model(IDS).logits)
            again = [each.generate(IDS, max_new_tokens=6, attention_mask=torch.ones_like(IDS)) for each in (model, kept)]
        assert torch.equal(*again)
    half = [load(folder / "packed").half()(IDS).logits for load in (Causal.from_pretrained, kept_model)]
    assert half[0].dtype == torch.float16 and torch.equal(*half)
    assert {value.requires_grad for name, value in kept.named_parameters() if name in matrices} == {False}


def test_encoders(folder: Path) -> None:
    gbc.compress_folder(bert(folder / "bert"), folder / "packed", ratio=4)
    model = transformers.BertModel.from_pretrained(folder / "packed")
    kept = transformers.BertModel.from_pretrained(folder / "packed", quantization_config=GbcompressConfig(keep="compressed"))
    ids = torch.arange(4, 12).reshape(2, 4)
    assert len(kept_names(kept)) > 10
    assert torch.equal(kept(ids).last_hidden_state, model(ids).last_hidden_state)


def test_adapters_of_peft(folder: Path) -> None:
    peft = pytest.importorskip("peft")
    save_pretrained(llama(), folder / "packed", ratio=4)
    trained = []
    for base in (Causal.from_pretrained(folder / "packed"), kept_model(folder / "packed")):
        torch.manual_seed(0)
        model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["q_proj", "v_proj", "down_proj"], r=2))
        optimizer = torch.optim.SGD([value for value in model.parameters() if value.requires_grad], 1.0)
        for _ in range(3):
            optimizer.zero_grad()
            model(IDS, labels=IDS).loss.backward()
            optimizer.step()
        trained.append(model)
    plain, kept = trained
    adapters = [name for name, _ in kept.named_parameters() if "lora_" in name]
    assert adapters and all(torch.equal(plain.get_parameter(name), kept.get_parameter(name)) for name in adapters)
    assert any(kept.get_parameter(name).any() for name in adapters if "lora_B" in name)
    kept.save_pretrained(folder / "adapter")
    wanted = kept.eval()(IDS).logits
    again = peft.PeftModel.from_pretrained(kept_model(folder / "packed"), folder / "adapter").eval()
    assert torch.equal(again(IDS).logits, wanted)
    with pytest.raises(gbc.UsageError, match="q_proj.weight is kept compressed and cannot be written to"):
        kept.merge_and_unload()


def test_weights_are_not_trained(folder: Path) -> None:
    save_pretrained(llama(), folder / "packed", ratio=4)
    kept = kept_model(folder / "packed")
    with pytest.raises(gbc.UsageError, match="embed_tokens.weight is kept compressed and cannot be trained"):
        kept.requires_grad_(True)
    kept(IDS, labels=IDS).loss.backward()
    assert kept.model.norm.weight.grad is not None and kept.lm_head.weight.grad is None


def test_saving(folder: Path) -> None:
    save_pretrained(llama(tie_word_embeddings=True), folder / "packed", ratio=4)
    content = (folder / "packed" / "model.gbz").read_bytes()
    model, kept = Causal.from_pretrained(folder / "packed"), kept_model(folder / "packed")
    kept.save_pretrained(folder / "again")
    assert (folder / "again" / "model.gbz").read_bytes() == content
    assert json.loads((folder / "again" / "config.json").read_text())["quantization_config"] == {"quant_method": "gbcompress"}
    assert kept_names(Causal.from_pretrained(folder / "again")) == set(), "how it was kept is not saved"
    with torch.no_grad():
        kept.model.norm.weight.mul_(2)
    kept.save_pretrained(folder / "changed")
    assert torch.equal(Causal.from_pretrained(folder / "changed").model.norm.weight, kept.model.norm.weight)
    copied, pickled = copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))
    assert kept_names(copied) == kept_names(kept) and not kept_names(pickled)
    assert torch.equal(copied(IDS).logits, kept(IDS).logits) and torch.equal(pickled(IDS).logits, kept(IDS).logits)
    names = kept_names(kept)
    kept.dequantize().save_pretrained(folder / "plain")
    assert names and not kept_names(kept) and "model.safetensors" in files_in(folder / "plain")
    plain = Causal.from_pretrained(folder / "plain")
    assert all(torch.equal(plain.get_parameter(name), model.get_parameter(name)) for name in names)


def test_saving_a_model_without_the_quantizer(folder: Path) -> None:
    model = llama()
    gbc.save_file(model.state_dict(), folder / "m.gbz", ratio=4)
    gbc.load_into(model, folder / "m.gbz")
    kept = gbc.keep_compressed(llama(), folder / "m.gbz")
    kept.save_pretrained(folder / "plain")
    back = Causal.from_pretrained(folder / "plain")
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in model.state_dict().items())


def test_a_damaged_folder(folder: Path) -> None:
    save_pretrained(llama(), folder / "packed", ratio=4)
    content = bytearray((folder / "packed" / "model.gbz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "packed" / "model.gbz").write_bytes(content)
    with pytest.raises(gbc.GbzError, match="model.gbz") as caught:
        kept_model(folder / "packed")
    assert caught.value.code == "corrupt"


def test_wrong_arguments(folder: Path) -> None:
    llama().save_pretrained(folder / "plain")
    with pytest.raises(gbc.UsageError, match="keep='compressed' needs a packed folder"):
        kept_model(folder / "plain")
    with pytest.raises(gbc.UsageError, match="keep must be"):
        GbcompressConfig(keep="all")
    config = GbcompressConfig(ratio=4, keep="compressed")
    assert config.to_dict() == {"quant_method": "gbcompress", "ratio": 4}
    save_pretrained(llama(), folder / "packed", ratio=4)
    other = llama(hidden_size=64)
    other.config.save_pretrained(folder / "packed")
    config_file = json.loads((folder / "packed" / "config.json").read_text())
    config_file["quantization_config"] = {"quant_method": "gbcompress"}
    (folder / "packed" / "config.json").write_text(json.dumps(config_file))
    with pytest.raises(RuntimeError, match="size mismatch|mismatch"):
        kept_model(folder / "packed")
