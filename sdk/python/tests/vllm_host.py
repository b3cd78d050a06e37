"""A host with vLLM's interface for plugins, as small as it can be: the registries and base classes that a plugin uses,
and the calls in vLLM's order. It stands in for vLLM's package, which these tests do not install."""

from __future__ import annotations

import json
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

LOADERS: dict[str, type] = {}
METHODS = ["fp8", "gguf"]
CONFIGS: dict[str, type] = {}


class QuantizationConfig(ABC):
    """A class that lacks one of these cannot be made."""

    @abstractmethod
    def get_name(self) -> str: ...
    @abstractmethod
    def get_supported_act_dtypes(self) -> list[torch.dtype]: ...
    @classmethod
    @abstractmethod
    def get_min_capability(cls) -> int: ...
    @staticmethod
    @abstractmethod
    def get_config_filenames() -> list[str]: ...
    @classmethod
    @abstractmethod
    def from_config(cls, config: dict[str, Any]) -> Any: ...
    @abstractmethod
    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> Any: ...


class UnquantizedLinearMethod:
    def create_weights(self, layer: torch.nn.Module, rows: int, columns: int) -> None:
        layer.weight = torch.nn.Parameter(torch.full((rows, columns), torch.nan))

    def apply(self, layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, layer.weight)


class LinearBase(torch.nn.Module):
    def __init__(self, rows: int, columns: int, quant_config: Any, prefix: str) -> None:
        super().__init__()
        self.quant_method = quant_config.get_quant_method(self, prefix)
        assert self.quant_method is not None
        self.quant_method.create_weights(self, rows, columns)

    def forward(self, x: torch.Tensor) -> Any:
        return self.quant_method.apply(self, x)


class Embedding(torch.nn.Module):
    """No linear layer: without a method it is as it is without quantization."""

    def __init__(self, rows: int, columns: int, quant_config: Any, prefix: str) -> None:
        super().__init__()
        assert quant_config.get_quant_method(self, prefix) is None
        self.weight = torch.nn.Parameter(torch.full((rows, columns), torch.nan))


class Model(torch.nn.Module):
    """Two matrices of the file are one parameter here, as vLLM fuses those of attention."""

    def __init__(self, quant_config: Any) -> None:
        super().__init__()
        self.embed = Embedding(16, 8, quant_config, "embed")
        self.qk = LinearBase(12, 8, quant_config, "qk")
        self.tells = True

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str] | None:
        loaded = set()
        parameters = dict(self.named_parameters())
        for name, tensor in weights:
            place, rows = name, slice(None)
            if name in ("q.weight", "k.weight"):
                place, rows = "qk.weight", slice(0, 8) if name[0] == "q" else slice(8, 12)
            with torch.no_grad():
                parameters[place][rows].copy_(tensor)
            loaded.add(place)
        return loaded if self.tells else None


class BaseModelLoader(ABC):
    def __init__(self, load_config: Any) -> None:
        self.load_config = load_config

    @abstractmethod
    def download_model(self, model_config: Any) -> None: ...
    @abstractmethod
    def load_weights(self, model: torch.nn.Module, model_config: Any) -> None: ...

    def load_model(self, model_config: Any, quant_config: Any) -> torch.nn.Module:
        before = torch.get_default_dtype()
        torch.set_default_dtype(model_config.dtype)
        try:
            model = Model(quant_config)
        finally:
            torch.set_default_dtype(before)
        self.load_weights(model, model_config)
        return model.eval()


def register_model_loader(load_format: str) -> Any:
    def register(loader: type) -> type:
        assert issubclass(loader, BaseModelLoader)
        LOADERS[load_format] = loader
        return loader

    return register


def register_quantization_config(name: str) -> Any:
    def register(config: type) -> type:
        assert issubclass(config, QuantizationConfig)
        if name in METHODS:
            raise ValueError(f"the method {name} is there already")
        METHODS.append(name)
        CONFIGS[name] = config
        return config

    return register


def install() -> None:
    """Makes `import vllm...` find these."""
    layers = "vllm.model_executor.layers"
    names: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.model_executor": {},
        "vllm.model_executor.model_loader": {"register_model_loader": register_model_loader},
        "vllm.model_executor.model_loader.base_loader": {"BaseModelLoader": BaseModelLoader},
        layers: {},
        layers + ".linear": {"LinearBase": LinearBase, "UnquantizedLinearMethod": UnquantizedLinearMethod},
        layers + ".quantization": {
            "QUANTIZATION_METHODS": METHODS,
            "register_quantization_config": register_quantization_config,
        },
        layers + ".quantization.base_config": {"QuantizationConfig": QuantizationConfig},
    }
    for name, members in names.items():
        module = ModuleType(name)
        vars(module).update(members, __path__=[])
        sys.modules[name] = module
        if "." in name:
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


def load_plugins(project: Path) -> None:
    """What the entry points of a project name, once for each process and again in others."""
    entries = tomllib.loads(project.read_text())["project"]["entry-points"]["vllm.general_plugins"]
    for value in entries.values():
        module, _, function = value.partition(":")
        getattr(import_module(module), function)()


def serve(folder: Path | str, dtype: torch.dtype = torch.float32, extra: Any = None, prepare: Any = None) -> torch.nn.Module:
    """A model, as `vllm serve FOLDER --load-format gbcompress` makes it."""
    config = json.loads((Path(folder) / "config.json").read_text())
    method = config["quantization_config"]["quant_method"]
    if method not in METHODS:
        raise ValueError(f"unknown quantization method {method}")
    quant_config = CONFIGS[method].from_config(config["quantization_config"])
    assert quant_config.get_name() == method and quant_config.get_min_capability() <= 0
    assert dtype in quant_config.get_supported_act_dtypes() and quant_config.get_config_filenames() == []
    loader = LOADERS["gbcompress"](SimpleNamespace(model_loader_extra_config=extra or {}, download_dir=None))
    model_config = SimpleNamespace(model=str(folder), revision=None, dtype=dtype, quantization=method)
    loader.download_model(model_config)
    if prepare is not None:
        prepare(folder)
    return loader.load_model(model_config, quant_config)
