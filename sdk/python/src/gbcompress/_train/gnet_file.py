"""A bottleneck's file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .. import _core
from .._arguments import output, path
from .._errors import GbzError, mismatch
from .._files.arrays import torch_bytes, torch_dtype_name
from .write import tensors_of

if TYPE_CHECKING:
    from .bottleneck import GenomicBottleneck, Layer


def _theta(bottleneck: GenomicBottleneck) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters of all g-nets, on every rank. [collective]"""
    wire = []
    for layer in bottleneck._layers:
        device = layer.parameter.device
        if layer.gnets is not None:
            values = torch.from_numpy(layer.gnets.theta()).to(device)
        else:
            values = torch.empty(layer.generated.spec.parameters, device=device)
        wire.append((layer.name, values, layer.owner))
    bottleneck._ranks.broadcast("save()", [(values, owner) for _, values, owner in wire])
    return {name: values.cpu().numpy() for name, values, _ in wire}


def _writer(bottleneck: GenomicBottleneck, coding: str) -> _core.Writer:
    theta = {} if coding == "coded" else _theta(bottleneck)
    specs = {layer.name: layer.generated.spec for layer in bottleneck._layers}
    coded = {layer.name: layer.gnets for layer in bottleneck._layers if isinstance(layer.gnets, _core.CodedGnets)}
    writer = _core.Writer("")
    for name, tensor, tied, buffer in tensors_of(bottleneck.model):
        dtype, shape = torch_dtype_name(name, tensor), tuple(tensor.shape)
        if tied is not None:
            writer.add_tied(name, tied)
        elif name in coded:
            writer.add_generated_coded(name, dtype, shape, coded[name])
        elif name in specs:
            writer.add_generated(name, dtype, shape, specs[name], coding, theta[name])
        elif not (bottleneck._code_plain and not buffer and _add_short(writer, name, dtype, tensor)):
            _add_exact(writer, name, dtype, tensor, buffer or not tensor.requires_grad)
    return writer


def _add_short(writer: _core.Writer, name: str, dtype: str, tensor: Tensor) -> bool:
    """Adds a trained float32 parameter as short floats; whether it can be such."""
    if dtype != "F32" or not tensor.requires_grad or tensor.dim() == 0 or not torch.isfinite(tensor).all():
        return False
    values = tensor.detach().cpu().contiguous().reshape(-1).numpy()
    return writer.add_short_floats(name, dtype, tuple(tensor.shape), values, _core.PLAIN_MANTISSA_BITS)


def _add_exact(writer: _core.Writer, name: str, dtype: str, tensor: Tensor, fixed: bool) -> None:
    data = torch_bytes(name, tensor.detach().contiguous())
    size = tensor.element_size()
    if fixed and data.size and bool((data.reshape(-1, size) == data[:size]).all()):
        writer.add_constant(name, dtype, tuple(tensor.shape), data[:size].copy())
    else:
        writer.add_plain(name, dtype, tuple(tensor.shape), data)


def file_bytes(bottleneck: GenomicBottleneck, coding: str) -> int:
    """Of the file as things stand. [collective unless the g-nets are integers]"""
    with torch.no_grad():
        return _writer(bottleneck, coding).size()


def _identity(name: str) -> tuple[int, ...] | None:
    """Of a file with its present content; None where there is none."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _replaces(bottleneck: GenomicBottleneck, filename: object, overwrite: bool) -> bool:
    """Whether an existing file may be replaced: any with `overwrite`, otherwise one that this bottleneck saved."""
    if overwrite is not False:
        return overwrite
    identity = _identity(path(filename, "filename"))
    return identity is not None and identity in bottleneck._saved


def save_bottleneck(bottleneck: GenomicBottleneck, filename: object, coding: str, overwrite: bool) -> int:
    """GenomicBottleneck.save()."""
    bottleneck._checked_parameters()
    rate = bottleneck._rate
    ranks = bottleneck._ranks
    device = bottleneck._layers[0].parameter.device
    written = torch.full((1,), -1, dtype=torch.int64, device=device)
    failure: Exception | None = None
    with torch.no_grad():
        try:
            overwrite = _replaces(bottleneck, filename, overwrite)
            name = output(filename, overwrite) if ranks.rank == 0 else path(filename, "filename")
        except Exception as error:  # raised below: the other ranks wait in a collective
            failure = error
        try:
            if rate is not None:
                rate.fit_size(bottleneck)
            writer = _writer(bottleneck, coding)
            if rate is not None:
                rate.forget(bottleneck)
            if ranks.rank == 0 and failure is None:
                written.fill_(writer.write(name, overwrite))
                bottleneck._saved.add(_identity(name))
        except Exception as error:
            failure = failure or error
        ranks.broadcast("save()", [(written, 0)])
    if failure is not None:
        raise failure
    if int(written) < 0:
        raise GbzError("rank 0 could not write the file; its message says why")
    return int(written)


def _difference(entry: dict[str, Any], tensor: Tensor, tied: str | None, layer: Layer | None, name: str) -> str:
    """What a tensor of a file has that the module's does not; "" where they fit."""
    if list(entry["shape"]) != list(tensor.shape) or entry["dtype"] != torch_dtype_name(name, tensor):
        return (
            f"has shape {list(entry['shape'])} of {entry['dtype']} there and {list(tensor.shape)} of "
            f"{torch_dtype_name(name, tensor)} here"
        )
    if (entry["tied_to"] or None) != tied:
        return "is not tied to the same tensor"
    spec = entry.get("spec")
    if (spec is None) != (layer is None):
        return "has g-nets in one of them alone; use the settings it was saved with"
    if spec is not None and layer is not None and not spec.same_but_scale(layer.generated.spec):
        return f"has g-nets {spec.text} there and {layer.generated.spec.text} here, or other tiles or codes"
    return ""


def load_into_bottleneck(bottleneck: GenomicBottleneck, filename: object) -> None:
    """GenomicBottleneck.load()."""
    name = path(filename, "filename")
    bottleneck._checked_parameters()
    layers = {layer.name: layer for layer in bottleneck._layers}
    stored = {entry["name"]: entry for entry in _core.read_gnet_file(name)}
    tensors = tensors_of(bottleneck.model)
    if len(stored) != len(tensors):
        raise mismatch(
            f"{name} was not saved from this model: it holds {len(stored)} tensors, the model has {len(tensors)}"
        )
    for key, tensor, tied, _ in tensors:
        if key not in stored:
            raise mismatch(f"{name} was not saved from this model: it lacks {key}")
        if other := _difference(stored[key], tensor, tied, layers.get(key), key):
            raise mismatch(f"{name} was not saved from this model: {key} {other}")
    # Nothing can be refused any more.
    for key, tensor, tied, _ in tensors:
        entry = stored[key]
        if key in layers:
            layers[key].generated.spec = entry["spec"]
            gnets, scale = layers[key].gnets, entry["spec"].output_scale
            if isinstance(gnets, _core.CodedGnets):
                gnets.restore(entry["theta"], scale, entry["theta_steps"])
            elif gnets is not None:
                gnets.restore(entry["theta"], scale)
        elif tied is None and tensor.numel():
            values = torch.from_numpy(entry["values"]).view(tensor.dtype).reshape(tensor.shape)
            with torch.no_grad():
                tensor.detach().copy_(values)
    bottleneck._restored()
