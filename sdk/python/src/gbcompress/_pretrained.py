"""Models of Transformers and sentence-transformers to compressed folders and back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path as _Path
from typing import Any

import torch
import transformers

from . import _core
from ._arguments import kind_of, path
from ._arrays import is_module
from ._errors import NotFound, usage
from ._files import Path, SaveReport
from ._folders import compress_folder
from ._load import load_file
from ._open import OpenFile


def save_pretrained(
    model: Any,
    folder: Path,
    ratio: float | None = None,
    *,
    tokenizer: Any = None,
    data: Any = None,
    overwrite: bool = False,
    **settings: Any,
) -> SaveReport:
    """Writes a model as ``model.save_pretrained(folder)`` does, with ``model.gbz`` for its weights.

    The configuration, the generation config, the tokenizer and the modules of sentence-transformers lie
    beside it. The disk holds the uncompressed weights meanwhile, in a folder beside ``folder``.

    Args:
        model: of Transformers, or a SentenceTransformer.
        folder: the folder to write. It may exist, without the files that are written.
        ratio: bytes of the weights over bytes of the file; 8 unless another target is given.
        tokenizer: saved along: a tokenizer, or a processor. A SentenceTransformer has its own.
        data: inputs to calibrate with, as compress_folder() takes them.
        overwrite: replaces ``model.gbz`` and the files beside it.
        settings: further arguments of compress_folder(): ``max_bytes``, ``exact``, ...

    Raises:
        UsageError: no such model; arguments as of compress_folder().
        FileExists: ``folder`` holds a ``model.gbz`` or another file that would be written.
    """
    if not is_module(model) or not hasattr(model, "save_pretrained"):
        raise usage(
            f"save_pretrained takes a model of Transformers or sentence-transformers, got {kind_of(model)}; "
            "of other modules, save_file() takes the state_dict()"
        )
    if tokenizer is not None and not hasattr(tokenizer, "save_pretrained"):
        raise usage(f"the tokenizer must have save_pretrained(), got {kind_of(tokenizer)}")
    target = _Path(path(folder, "folder")).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".gbcompress-") as temporary:
        model.save_pretrained(temporary)
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
        return compress_folder(temporary, target, ratio, data=data, overwrite=overwrite, **settings)


def load_pretrained(cls: Any, folder: Path, **kwargs: Any) -> Any:
    """``cls.from_pretrained`` for a compressed folder, without an uncompressed copy on the disk::

        model = load_pretrained(AutoModelForCausalLM, "packed/", device_map="auto")

    The model is made on the meta device, and each tensor takes its place as it is decoded: beside the
    model, memory holds the few tensors that are being decoded. sentence-transformers reads its folder
    through a temporary one with uncompressed weights.

    Args:
        cls: a class of Transformers, such as AutoModel or LlamaForCausalLM, or SentenceTransformer.
        folder: that save_pretrained(), compress_folder() or ``gbcompress compress`` wrote.
        kwargs: those of ``cls.from_pretrained``: ``dtype``, ``device_map``, ``config``, ...

    Returns:
        The model in evaluation mode.

    Raises:
        NotFound: there is no such folder, or it has no ``.gbz`` or no ``config.json``.
        UsageError: a class that has no ``from_pretrained``, or that does not know the configuration.
        GbzError: as load_file().
    """
    place = path(folder, "folder")
    if not os.path.isdir(place):
        raise NotFound(f"{place} is no folder; name the one that holds the .gbz and config.json", "not_found")
    if not isinstance(cls, type):
        raise usage(f"the first argument is a class, such as transformers.AutoModel, got {kind_of(cls)}")
    if any(base.__module__.split(".")[0] == "sentence_transformers" for base in cls.__mro__):
        return _load_sentences(cls, place, kwargs)
    if not hasattr(cls, "from_pretrained"):
        raise usage(f"{cls.__name__} has no from_pretrained(); use load_into() for modules of other libraries")
    model_class, config = _class_and_config(cls, place, kwargs)
    with _verified(place), OpenFile(place, framework="torch", verify=False) as file:
        if "dtype" not in kwargs and "torch_dtype" not in kwargs and getattr(config, "dtype", None) is None:
            kwargs["dtype"] = _dtype_of(file)
        model = model_class.from_pretrained(None, config=config, state_dict=_state(file), **kwargs)
    bare = model[0] if isinstance(model, tuple) else model  # with output_loading_info
    bare.config.name_or_path = bare.name_or_path = place
    if os.path.isfile(os.path.join(place, "generation_config.json")) and bare.can_generate():
        bare.generation_config = transformers.GenerationConfig.from_pretrained(place)
    return model


@contextmanager
def _verified(folder: str) -> Iterator[None]:
    """The digest is checked beside what is done with the file; a damaged file is refused whatever that raises."""
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(OpenFile, folder)
        try:
            yield
        finally:
            opened.result().close()


def _class_and_config(cls: Any, folder: str, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    config = kwargs.pop("config", None)
    mapping = getattr(cls, "_model_mapping", None)
    if not os.path.isfile(os.path.join(folder, "config.json")) and config is None:
        raise NotFound(f"{folder} has no config.json; copy it from the model's own folder", "not_found")
    if config is None:
        of = transformers.AutoConfig if mapping is not None else cls.config_class
        config = of.from_pretrained(folder, trust_remote_code=kwargs.get("trust_remote_code"))
    if mapping is None:
        return cls, config
    if type(config) not in mapping:
        raise usage(
            f"{cls.__name__} has no class for {type(config).__name__}; give the model's own class, which "
            f"config.json names: {', '.join(config.architectures or ['none'])}"
        )
    found = mapping[type(config)]
    if isinstance(found, tuple | list):
        named = [each for each in found if each.__name__ in (config.architectures or ())]
        found = named[0] if named else found[0]
    return found, config


def _dtype_of(file: OpenFile) -> torch.dtype:
    """Of the first tensor of real numbers."""
    known = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}
    types = (file.get_slice(name).get_dtype() for name in file)
    return next((known[each] for each in types if each in known), torch.float32)


def _state(file: OpenFile) -> dict[str, Any]:
    """Tensors that are decoded at the moment when Transformers, from version 5 on, needs them."""
    if int(transformers.__version__.split(".")[0]) >= 5:
        return {name: file.get_slice(name) for name in file}
    return dict(load_file(file.filename, framework="torch"))


def _load_sentences(cls: Any, folder: str, kwargs: dict[str, Any]) -> Any:
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory(prefix="gbcompress-") as temporary:
        _core.carry(folder, temporary, False)
        for part in _core.component_folders(folder) or [""]:  # modules may lie in subfolders
            packed, place = os.path.join(folder, part), os.path.join(temporary, part)
            os.makedirs(place, exist_ok=True)
            if part:
                _core.carry(packed, place, True)
            tensors = {name: value.clone() for name, value in load_file(packed, framework="torch").items()}
            save_file(tensors, os.path.join(place, _core.weights_name(packed) + ".safetensors"), {"format": "pt"})
        model = cls(temporary, **kwargs)
    return model
