"""Packed folders in from_pretrained() and save_pretrained() of Transformers.

Transformers has a table of quantizers, but its loader takes no files of weights from them, and its
save_pretrained() writes safetensors. Three of its functions are therefore wrapped; ADR 17 has the reasons.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers import modeling_utils
from transformers.quantizers import auto

from .. import _core
from .._errors import NotFound
from .._files.load import load_file
from .loading import loading_of, on_cpu, resolve, take_resolved
from .quantizer import GbcompressConfig, GbcompressQuantizer, artifact_named
from .registration import METHOD

_OLDEST = (4, 57)
_VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
_REAL = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


def _found(arguments: dict[str, Any], name: str | None) -> str | None:
    """A folder's ``.gbz``, or that of a repository of the Hub.

    Args:
        arguments: of Transformers' _get_resolved_checkpoint_files().
        name: of the file; None: the only one in a folder.

    Raises:
        UsageError: a folder with several.
        OSError: of Transformers, for a repository that cannot be read.
    """
    given = str(arguments["pretrained_model_name_or_path"])
    options = dict(arguments.get("download_kwargs") or {})
    known = ("cache_dir", "force_download", "proxies", "local_files_only", "token", "revision", "subfolder")
    options.update({key: arguments[key] for key in known if key in arguments})
    if not os.path.isdir(given):
        from transformers.utils.hub import cached_file

        found: str | None = cached_file(
            given, name or "model.gbz", _raise_exceptions_for_missing_entries=False, **options
        )
        return found
    folder = os.path.join(given, options.get("subfolder") or "")
    if name is not None:
        file = os.path.join(folder, name)
        return file if os.path.isfile(file) else None
    there = os.path.isdir(folder) and any(each.endswith(".gbz") for each in os.listdir(folder))
    return _core.artifact_in(folder) if there else None


def _named_in(place: object) -> str | None:
    """The ``.gbz`` that config.json of a folder names: Transformers 4 hands on no name (_Weights)."""
    config = os.path.join(str(place), "config.json")
    if not os.path.isfile(config):
        return None
    with open(config, encoding="utf-8") as file:
        return artifact_named(json.load(file).get("transformers_weights"))


def _packed(file: str) -> tuple[list[str], dict[str, Any]]:
    """What Transformers makes of an index of shards: the files, element type and names of the tensors."""
    opened = resolve(file)
    types = (opened.get_slice(name).get_dtype() for name in opened)
    dtype = next((_REAL[each] for each in types if each in _REAL), torch.float32)
    if _VERSION < (5, 0):
        take_resolved()
    return [file], {"dtype": dtype, "all_checkpoint_keys": opened.keys()}


def _resolving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function that finds the files of weights of a folder or repository."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def resolve(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        arguments = bound.arguments
        if arguments.get("pretrained_model_name_or_path") is None or arguments.get("gguf_file") is not None:
            return original(*args, **kwargs)
        explicit = arguments.get("transformers_explicit_filename")
        named = artifact_named(explicit)
        if named is not None:
            file = _found(arguments, named)
            if file is not None:
                return _packed(file)
            arguments["transformers_explicit_filename"] = None
        beside = None  # adapter_model.gbz for adapter_model.safetensors
        if named is None and isinstance(explicit, str):
            beside = explicit.removesuffix(".safetensors") + ".gbz"
        try:
            files, metadata = original(*bound.args, **bound.kwargs)
            if files is None or (files[0] is not None and (beside is None or os.path.exists(files[0]))):
                return files, metadata
            raise FileNotFoundError(f"{arguments['pretrained_model_name_or_path']} has no file of weights")
        except OSError as error:
            file = None if named is not None else _found(arguments, beside)
            if file is not None:
                return _packed(file)
            named = named or _named_in(arguments["pretrained_model_name_or_path"])
            if named is None:
                raise
            raise NotFound(
                f"{arguments['pretrained_model_name_or_path']} has no {named}, which its config.json names; "
                "copy the file into the folder",
                "not_found",
            ) from error

    return resolve


def _with_further(state: dict[str, Any], files: list[str]) -> dict[str, Any]:
    """Of a class that has further files of weights."""
    for file in files:
        state.update(modeling_utils.load_state_dict(file))
    return state


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the function that fills a model from a state dict or files."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        arguments = bound.arguments
        files = arguments.get("checkpoint_files")
        if arguments.get("state_dict") is not None or not files or not str(files[0]).endswith(".gbz"):
            return original(*args, **kwargs)
        config = arguments.get("load_config")
        quantizer = getattr(config, "hf_quantizer", None) if config else arguments.get("hf_quantizer")
        if isinstance(quantizer, GbcompressQuantizer):
            quantizer.source = os.path.abspath(files[0])
            if quantizer.keep is not None:
                from .._keep.keep import kept_state

                with kept_state(files[0], quantizer.keep) as kept:
                    arguments["state_dict"] = _with_further(kept, files[1:])
                    return original(*bound.args, **bound.kwargs)
        if _VERSION < (5, 0):
            arguments["state_dict"] = _with_further(dict(load_file(files[0], framework="torch")), files[1:])
            arguments["checkpoint_files"] = [""]  # one pass, over the state dict
            return original(*bound.args, **bound.kwargs)
        loading = loading_of(files[0], getattr(quantizer, "loading", None))
        with loading.checked():
            if on_cpu(getattr(config, "device_map", None)):
                loading.begin()
            arguments["state_dict"] = _with_further(loading.slices(), files[1:])
            return original(*bound.args, **bound.kwargs)

    return load


def _saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps save_pretrained() of models; those of other quantizers and of none are saved as before."""

    @functools.wraps(original)
    def save_pretrained(self: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer = getattr(self, "hf_quantizer", None)
        kept = any(hasattr(value, "kept_key") for value in self.parameters())
        if not kept and not isinstance(quantizer, GbcompressQuantizer):
            return original(self, save_directory, *args, **kwargs)
        given = dict(inspect.signature(original).bind(self, save_directory, *args, **kwargs).arguments)
        given.update(given.pop("kwargs", {}))
        if not isinstance(quantizer, GbcompressQuantizer):
            if given.get("state_dict") is None:
                from .._keep.keep import decoded_state

                given["state_dict"] = decoded_state(self)
            return original(given.pop("self"), given.pop("save_directory"), **given)
        from .pretrained import save_packed

        return save_packed(given.pop("self"), quantizer, original, given.pop("save_directory"), given)

    return save_pretrained


class _Weights:
    """``transformers_weights`` of configurations of Transformers 4, which refuses a ``.gbz`` there before any quantizer
    is made. Other values are as they were."""

    name = "transformers_weights"

    def __get__(self, config: Any, owner: Any = None) -> Any:
        if config is None or self.name not in vars(config):
            raise AttributeError(self.name)
        value = vars(config)[self.name]
        if artifact_named(value) is None:
            return value
        if GbcompressQuantizer.unsupported:
            raise ImportError(GbcompressQuantizer.unsupported)
        return None

    def __set__(self, config: Any, value: Any) -> None:
        vars(config)[self.name] = value

    def __delete__(self, config: Any) -> None:
        del vars(config)[self.name]


def _missing() -> str:
    """Why the functions cannot be wrapped; "" if they can."""
    if _VERSION < _OLDEST:
        return f"it is older than {_OLDEST[0]}.{_OLDEST[1]}"
    model = modeling_utils.PreTrainedModel
    wrapped = ((modeling_utils, "_get_resolved_checkpoint_files"), (model, "_load_pretrained_model"), (model, "save_pretrained"))
    return next((f"it has no {name}" for owner, name in wrapped if not hasattr(owner, name)), "")


def _wrap() -> None:
    resolve = modeling_utils._get_resolved_checkpoint_files
    model = modeling_utils.PreTrainedModel
    load = inspect.getattr_static(model, "_load_pretrained_model")  # a static or a class method
    modeling_utils._get_resolved_checkpoint_files = _resolving(resolve)
    model._load_pretrained_model = type(load)(_loading(load.__func__))
    model.save_pretrained = _saving(model.save_pretrained)


def register() -> None:
    """Called once, when Transformers' models have been imported; that import must not fail for it."""
    auto.register_quantization_config(METHOD)(GbcompressConfig)
    auto.register_quantizer(METHOD)(GbcompressQuantizer)
    if hasattr(auto, "LOADING_ATTRIBUTES_CONFIG_TYPES"):  # takes arguments beside the folder's configuration
        auto.LOADING_ATTRIBUTES_CONFIG_TYPES += (GbcompressConfig,)
    missing = _missing()
    if missing:
        GbcompressQuantizer.unsupported = (
            f"Transformers {transformers.__version__} cannot open packed folders: {missing}; install a version from "
            "4.57 to 5.23, or use gbcompress expand"
        )
    else:
        _wrap()
    if _VERSION < (5, 0):
        setattr(transformers.PretrainedConfig, _Weights.name, _Weights())
