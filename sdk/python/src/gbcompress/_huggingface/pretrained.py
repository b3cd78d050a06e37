"""Models of Transformers and sentence-transformers to packed folders; _transformers opens them."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path as _Path
from typing import Any

import torch
import transformers.modeling_utils  # before _quantizer, which _transformers imports when this is done

from .. import _core
from .._arguments import kind_of, path
from .._calibrate.folders import compress_folder
from .._errors import usage
from .._files.arrays import is_module
from .._files.inspect import inspect as file_info
from .._files.open import OpenFile
from .._files.save import Path, SaveReport
from .quantizer import GbcompressQuantizer


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
        with _ordinary(model):
            model.save_pretrained(temporary)
        if tokenizer is not None:
            tokenizer.save_pretrained(temporary)
        return compress_folder(temporary, target, ratio, data=data, overwrite=overwrite, **settings)


def save_packed(
    model: Any, quantizer: GbcompressQuantizer, write: Callable[..., Any], folder: Path, given: dict[str, Any]
) -> None:
    """``model.save_pretrained(folder)`` of a model that has this package's quantizer.

    Adapters, and a state dict that is given, as the Trainer gives that of a checkpoint, are written
    uncompressed, as Transformers writes them.

    Args:
        write: save_pretrained() of Transformers.
        given: its further arguments.
    """
    with _ordinary(model):
        adapters = getattr(model, "_hf_peft_config_loaded", False)
        if adapters or given.get("state_dict") is not None or given.get("distributed_checkpoint"):
            write(model, folder, **given)
            return
        if any(hasattr(value, "kept_key") for value in model.parameters()):
            from .._keep.keep import decoded_state

            given["state_dict"] = decoded_state(model)
        pushed = given.pop("push_to_hub", False)
        target = _Path(path(folder, "folder")).absolute()
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".gbcompress-") as temporary:
            write(model, temporary, **given)
            if given.get("is_main_process", True):
                _pack(temporary, target, quantizer)
    if pushed:
        known = inspect.signature(model.push_to_hub).parameters
        named = {name: value for name, value in given.items() if name in known and name != "repo_id"}
        model.push_to_hub(given.get("repo_id", target.name), **named)


@contextmanager
def _ordinary(model: Any) -> Iterator[None]:
    """Meanwhile neither the model nor a part of it has the quantizer, so it is saved uncompressed."""
    removed: list[tuple[Any, str, Any]] = []
    for module in model.modules():
        if not isinstance(getattr(module, "hf_quantizer", None), GbcompressQuantizer):
            continue
        config = module.config  # of Transformers 4: an element type beside the quantizer
        names = ((module, "hf_quantizer"), (config, "quantization_config"), (config, "_pre_quantization_dtype"))
        for owner, name in names:
            if hasattr(owner, name):
                removed.append((owner, name, getattr(owner, name)))
                delattr(owner, name)
    try:
        yield
    finally:
        for owner, name, value in removed:
            setattr(owner, name, value)


def _pack(source: str, target: _Path, quantizer: GbcompressQuantizer) -> None:
    """The folder of uncompressed weights to a packed one; files that are there are replaced."""
    loaded = quantizer.source
    chosen = quantizer.quantization_config.target()
    if loaded is None or not os.path.isfile(loaded):
        compress_folder(source, target, **chosen, overwrite=True)
    elif chosen or not _holds(loaded, source):
        compress_folder(source, target, **(chosen or _target_of(loaded)), overwrite=True)
    else:
        name = _core.weights_name(source) + ".gbz"
        _core.carry(source, str(target), True, lambda: _copy(loaded, target / name), name)


def _holds(file: str, folder: str) -> bool:
    """Whether a ``.gbz`` has the tensors of a folder of safetensors, bit for bit in the folder's element types."""
    from safetensors import safe_open

    shards = [each for each in sorted(os.listdir(folder)) if each.endswith(".safetensors")]
    with OpenFile(file, framework="torch") as opened:
        owner = {tensor.name: tensor.tied_to or tensor.name for tensor in file_info(file).tensors}
        met = set()
        for shard in shards:
            with safe_open(os.path.join(folder, shard), "pt") as tensors:
                for name in tensors.keys():
                    if name not in opened or opened.get_slice(name).get_shape() != tensors.get_slice(name).get_shape():
                        return False
                    here = tensors.get_tensor(name)
                    if not _same_bits(opened.get_tensor(name).to(here.dtype), here):
                        return False
                    met.add(owner[name])
        return met == set(owner.values())


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def _target_of(file: str) -> dict[str, Any]:
    """As much smaller as a ``.gbz`` is, or bit for bit if it is."""
    info = file_info(file)
    if all(tensor.kind in ("exact", "constant", "tied") for tensor in info.tensors):
        return {"lossless": True}
    return {"ratio": max(info.output_bytes / info.file_bytes, 1.01)}


def _copy(file: str, target: _Path) -> None:
    """Appears whole or not at all."""
    if target.exists() and os.path.samefile(file, target):
        return
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".gbcompress-", delete=False) as copy:
        try:
            with open(file, "rb") as original:
                shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
            os.chmod(copy.name, os.stat(file).st_mode & 0o777)
            os.replace(copy.name, target)
        except BaseException:
            os.unlink(copy.name)
            raise
