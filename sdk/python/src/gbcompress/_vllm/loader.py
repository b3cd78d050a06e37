"""Packed folders in vLLM: weights are decoded while the model is loaded, and are the model's own from then on."""

from __future__ import annotations

import os
from typing import Any

import torch
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

from .. import _core
from .._errors import mismatch, usage
from .._files.load import iter_file
from .._huggingface.registration import METHOD


class GbcompressMethod(QuantizationConfig):  # type: ignore[misc]  # vllm may be absent
    """``quant_method`` of a packed folder's config.json. Layers have the elements that were decoded, so each has the
    method of vLLM for weights that are not quantized."""

    def get_name(self) -> str:
        """``gbcompress``."""
        return METHOD

    def get_supported_act_dtypes(self) -> list[torch.dtype]:
        """Those of vLLM."""
        return [torch.float16, torch.bfloat16, torch.float32]

    @classmethod
    def get_min_capability(cls) -> int:
        """0: no kernel of its own runs on the GPU."""
        return 0

    @staticmethod
    def get_config_filenames() -> list[str]:
        """None: config.json has all."""
        return []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GbcompressMethod:
        """Members beside ``quant_method`` say how a folder was packed; decoding needs none of them."""
        return cls()

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> Any:
        """vLLM demands a method of linear layers alone; None leaves others as they are without quantization."""
        return UnquantizedLinearMethod() if isinstance(layer, LinearBase) else None


class GbcompressLoader(BaseModelLoader):  # type: ignore[misc]
    """``load_format="gbcompress"``: the one ``.gbz`` of a folder, or of a repository of the Hub."""

    def _file(self, model_config: Any) -> str:
        """Raises:
        NotFound: a folder without a ``.gbz``.
        UsageError: a folder with several.
        OSError: of huggingface_hub, for a repository that cannot be read.
        """
        model = str(getattr(model_config, "model_weights", "") or model_config.model)
        if not os.path.exists(model):
            from huggingface_hub import snapshot_download

            model = snapshot_download(
                model,
                revision=model_config.revision,
                cache_dir=self.load_config.download_dir,
                allow_patterns=["*.gbz"],
            )
        return str(_core.artifact_in(model))

    def download_model(self, model_config: Any) -> None:
        """Fetches the ``.gbz`` of a repository; a folder is left as it is. Raises as load_weights()."""
        self._file(model_config)

    def load_weights(self, model: torch.nn.Module, model_config: Any) -> None:
        """Decodes one tensor after another on all processors, and gives each to the model.

        Raises:
            NotFound: a folder without a ``.gbz``.
            UsageError: a folder with several, or extra options of the loader.
            ShapeMismatch: parameters of the model that the file lacks.
            GbzError: a damaged file, before the first tensor; as load_file().
        """
        extra = dict(getattr(self.load_config, "model_loader_extra_config", None) or {})
        if extra:
            raise usage(f"the load format {METHOD} has no model_loader_extra_config, got {', '.join(sorted(extra))}")
        file = self._file(model_config)
        load: Any = model.load_weights
        loaded = load(iter_file(file, framework="torch"))
        if loaded is None:  # a model that does not say
            return
        missing = sorted({name for name, _ in model.named_parameters()} - set(loaded))
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise mismatch(f"{file} lacks {missing[0]}{more}, which the model needs; pack the folder of this model")
