"""The entry point ``vllm.general_plugins``: vLLM calls it in each of its processes, before it reads a model."""

from __future__ import annotations


def register() -> None:
    """Registers the load format and the quantization method ``gbcompress``. Further calls do nothing.

    Raises:
        ImportError: a version of vLLM without these registries; from 0.10 on it has them.
    """
    from vllm.model_executor.layers import quantization
    from vllm.model_executor.model_loader import register_model_loader

    from .._huggingface.registration import METHOD

    if METHOD in quantization.QUANTIZATION_METHODS:
        return
    from .loader import GbcompressLoader, GbcompressMethod

    quantization.register_quantization_config(METHOD)(GbcompressMethod)
    register_model_loader(METHOD)(GbcompressLoader)
