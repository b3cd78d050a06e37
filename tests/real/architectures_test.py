"""Folders of Hugging Face's architectures come back as folders that Transformers loads: every name, type and shape,
no weight lost. The weights are random, since it is the files that are tried; rows differ in scale as those of
trained nets do.

    GBCOMPRESS=build/release/bin/gbcompress .deps/venv/bin/python tests/real/architectures_test.py
"""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import transformers as hub
except ImportError:
    print("skipped: Transformers is not installed; scripts/setup --tests brings it")
    sys.exit(0)
import torch
from transformers.utils import logging

from measure import CAP

logging.set_verbosity_error()
logging.disable_progress_bar()
PROGRAM = os.environ["GBCOMPRESS"]
WORDS = 500
BODY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT = {"vocab_size": WORDS, **BODY}
PICTURE = {"image_size": 32, "patch_size": 8, **BODY}
STAGES = {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1], "num_labels": 10}
# Class of the model, class of its configuration, what the configuration says.
ARCHITECTURES = [
    ("BertForMaskedLM", "BertConfig", TEXT),
    ("CLIPModel", "CLIPConfig", {"text_config": TEXT, "vision_config": PICTURE}),
    ("ConvNextForImageClassification", "ConvNextConfig", STAGES),
    ("DebertaV2ForSequenceClassification", "DebertaV2Config", TEXT),
    ("FalconForCausalLM", "FalconConfig", TEXT),
    ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS}),
    ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2, **TEXT}),
    ("MambaForCausalLM", "MambaConfig", {"vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 2}),
    ("MistralForCausalLM", "MistralConfig", {"num_key_value_heads": 2, **TEXT}),
    ("MixtralForCausalLM", "MixtralConfig", {"num_key_value_heads": 2, "num_local_experts": 4, **TEXT}),
    ("MobileNetV2ForImageClassification", "MobileNetV2Config", {"depth_multiplier": 0.35, "num_labels": 10}),
    ("Qwen2ForCausalLM", "Qwen2Config", {"num_key_value_heads": 2, "tie_word_embeddings": True, **TEXT}),
    ("ResNetForImageClassification", "ResNetConfig", {"embedding_size": 16, **STAGES}),
    ("RwkvForCausalLM", "RwkvConfig", {"vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 2}),
    ("SegformerForSemanticSegmentation", "SegformerConfig",
     {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 32, 64], "num_labels": 5}),
    ("SwinForImageClassification", "SwinConfig",
     {"image_size": 32, "patch_size": 2, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
    ("T5ForConditionalGeneration", "T5Config",
     {"vocab_size": WORDS, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}),
    ("ViTForImageClassification", "ViTConfig", PICTURE),
    ("Wav2Vec2ForCTC", "Wav2Vec2Config",
     {"vocab_size": 32, "conv_dim": (32,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, **BODY}),
    ("WhisperForConditionalGeneration", "WhisperConfig",
     {"vocab_size": WORDS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
      "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 20,
      "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
      "begin_suppress_tokens": None}),
]


def relative_error(value, original):
    a, b = value.double(), original.double()
    return ((a - b).square().sum() / b.square().sum().clamp(min=1e-30)).item()


class Architectures(unittest.TestCase):
    def run_program(self, *words):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 4), done.stderr)

    def there_and_back(self, kind, net, shard):
        with tempfile.TemporaryDirectory(prefix="gbc-architectures-") as folder:
            source, small, back = (os.path.join(folder, name) for name in ("model", "small", "back"))
            net.save_pretrained(source, max_shard_size=shard)
            self.run_program("compress", source, "--ratio", "8", "-o", small + "/", "-q")
            self.run_program("expand", small, "-o", back + "/")
            self.assertTrue(os.path.exists(os.path.join(back, "config.json")))
            loaded, said = kind.from_pretrained(back, output_loading_info=True, dtype=net.dtype)
        self.assertEqual([sorted(said[keys]) for keys in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []])
        found = loaded.state_dict()
        for name, value in net.state_dict().items():
            self.assertEqual((found[name].dtype, found[name].shape), (value.dtype, value.shape), name)
            if value.is_floating_point():
                self.assertLessEqual(relative_error(found[name], value), CAP, name)
            else:
                self.assertTrue(torch.equal(found[name], value), name)

    def test_folders_come_back(self):
        torch.set_num_threads(1)
        for model, config, said in ARCHITECTURES:
            torch.manual_seed(1)
            kind = getattr(hub, model)
            net = kind(getattr(hub, config)(**said)).eval()
            for weight in net.parameters():
                if weight.dim() > 1:
                    weight.data.mul_(torch.randn(weight.shape[0], *[1] * (weight.dim() - 1)).mul(0.5).exp())
            for dtype, shard in ((torch.float32, "200KB"), (torch.bfloat16, "5GB")):
                with self.subTest(model=model, dtype=dtype):
                    self.there_and_back(kind, net.to(dtype), shard)


if __name__ == "__main__":
    unittest.main()
