"""Models whose weights stay compressed in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from .._arguments import kind_of, whole
from .._errors import usage
from .._files.arrays import is_module
from .._files.load import _check_fit, _targets
from .._files.open import OpenFile, TensorSlice
from .._files.save import Path
from . import stack as _kept_stack  # noqa: F401  # stacks are indexed and joined
from .integers import IntegerSource
from .store import Store
from .tensor import KeptTensor, Source

#: Modules that may have further matrices and submodules, of which ``weight`` is kept.
KEPT = (nn.Linear, nn.Embedding, _ConvNd)
_REAL = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


def checked_keep(value: object) -> str:
    """A way to keep weights. Raises UsageError."""
    if value not in ("compressed", "integers"):
        raise usage(f"keep must be 'compressed' or 'integers', got {value!r}")
    return str(value)


def keeps(module: nn.Module, name: str) -> bool:
    """Whether a module's parameter of two or more dimensions is kept: ``weight`` of KEPT; any of a module whose submodules,
    if there are some, have no parameters. Such a module is one operation, whose weights are used in its own forward pass:
    Conv1D of GPT-2, a recurrent layer, a router, a stack of experts."""
    if isinstance(module, KEPT):
        return name == "weight"
    plain = all(next(child.parameters(), None) is None for child in module.children())
    return plain and not isinstance(module, torch.jit.ScriptModule)


def source_of(store: Store, name: str, keep: str) -> Source:
    matrix = store.matrix(name) if keep == "integers" else None
    if matrix is not None:
        return IntegerSource(store, name, matrix)
    source = Source(store, name)
    store.decoded.add(source.index)
    return source


def keep_compressed(
    model: nn.Module,
    filename: Path,
    *,
    keep: str = "compressed",
    strict: bool = True,
    base: Path | None = None,
    cache_bytes: int = 16 << 20,
) -> nn.Module:
    """Gives a model the weights of a file, which stay compressed in memory and are decoded when a layer uses them.

    Weights of Linear, Conv (of 1 to 3 dimensions, transposed too) and Embedding modules, and the matrices and stacks of
    matrices of other modules without submodules that have parameters (recurrent layers, experts, Conv1D of GPT-2), become
    frozen parameters without values. A layer's weight is decoded into a buffer that all layers share; weights above 2^22
    elements of linear layers in pieces of rows; of embeddings only the rows of the indices. While a layer computes, threads
    decode the next two weights or pieces; linear layers of one piece, in calls of more than 64 tokens, decode the weights
    that follow along with their own, up to 8 MiB, and large weights are multiplied stripe by stripe with up to 8 tokens. Other
    parameters and buffers are read into memory. Outputs and gradients by inputs are those of a model with the decoded
    weights, bit for bit; weights in pieces differ by the rounding of the matrix product.

    The file is mapped: its pages belong to the file cache of the system. Replacing it under its name is safe; it must
    not be changed in place while the model is used.

    Args:
        model: a torch module whose names and shapes are those of the file; on the meta device, it never holds
            uncompressed weights. Tied parameters stay tied.
        filename: as load_file() takes it. Its digest is checked first.
        keep: ``"compressed"``, or ``"integers"``: weights are integers of 4, 5, 6 or 8 bits in memory, larger ones apart,
            and products of up to 8 tokens are made from them in float32; for more tokens the weight is decoded. Weights that
            the file does not hold as integers times steps, and those that would take more than 9 bits each, stay compressed.
        strict: every name of the file must be in the model, and every name of the model in the file; of tied parameters
            one name suffices.
        base: as load_file() takes it.
        cache_bytes: of decoded rows that are kept of each embedding, the rows used last; 0 keeps none.

    Returns:
        ``model``.

    Raises:
        ShapeMismatch: names (with ``strict``) or shapes differ; the model is as before.
        UsageError: no module, or a tensor on the meta device that the file does not hold.
        NotFound, GbzError: as load_file().
            A layer raises GbzError if its weight does not decode.
    """
    if not is_module(model):
        raise usage(f"keep_compressed takes a torch module, got {kind_of(model)}")
    way, size = checked_keep(keep), whole(cache_bytes, "cache_bytes", 0)
    store = Store(filename, base, size)
    state = _targets(model)
    stored = {entry["name"]: entry for entry in store.tensors}
    _check_fit(stored, state, strict, "model")
    _check_meta(model, state, stored)
    owners = _owners(model)
    for name, value in state.items():
        if name not in stored:
            continue
        places = owners.get(id(value), [])
        if places and all(keeps(module, each) for module, each in places) and _real(store, name):
            device = torch.device("cpu") if value.is_meta else value.device
            kept = KeptTensor(source_of(store, name, way), value.dtype, device)
            _replace(places, nn.Parameter(kept, requires_grad=False))
        else:
            _load(model, name, value, places, store)
    settle(model)
    return model


def _nothing() -> None:
    """In place of flatten_parameters(), which moves the weights of a recurrent layer into one memory."""


def settle(model: nn.Module) -> None:
    """Recurrent layers with kept weights have nothing to flatten; others have their class's flatten_parameters()."""
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            if any(isinstance(value, KeptTensor) for value in module._parameters.values()):
                vars(module)["flatten_parameters"] = _nothing
            elif vars(module).get("flatten_parameters") is _nothing:
                del vars(module)["flatten_parameters"]


def _real(store: Store, name: str) -> bool:
    entry = store.tensors[store.place(name)]
    return entry["dtype"] in _REAL and len(entry["shape"]) >= 2


def _owners(model: nn.Module) -> dict[int, list[tuple[nn.Module, str]]]:
    """Of each parameter the modules that have it, and under which names."""
    owners: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, value in module._parameters.items():
            if value is not None:
                owners.setdefault(id(value), []).append((module, name))
    return owners


def _check_meta(model: nn.Module, state: dict[str, Any], stored: dict[str, Any]) -> None:
    """Raises UsageError for what nothing would fill."""
    there = {id(value) for name, value in state.items() if name in stored}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if value.is_meta and id(value) not in there:
            raise usage(f"{name} is on the meta device and not in the file; make the model on the CPU")


def _replace(places: list[tuple[nn.Module, str]], value: nn.Parameter) -> None:
    for module, name in places:
        setattr(module, name, value)  # a recurrent layer has a list of its weights, too


def _load(model: nn.Module, name: str, value: Any, places: list[tuple[nn.Module, str]], store: Store) -> None:
    """A tensor that is not kept, into the memory that it has; on the meta device or kept before, into memory of its own."""
    kept = isinstance(value, KeptTensor)
    decoded = store._opened.get_tensor(name)
    if not kept and not value.is_meta:
        with torch.no_grad():
            value.copy_(decoded)
        return
    made = decoded.to(dtype=value.dtype, device=value.device if kept else "cpu")
    if places:
        _replace(places, nn.Parameter(made, requires_grad=bool(value.requires_grad)))
    else:
        module, _, own = name.rpartition(".")
        model.get_submodule(module)._buffers[own] = made


def is_kept(model: nn.Module) -> bool:
    """Whether a parameter of it is kept compressed."""
    return any(isinstance(value, KeptTensor) for value in model.parameters())


def release(model: nn.Module, which: Callable[[nn.Module, str], bool] = lambda module, name: True) -> None:
    """Decodes kept parameters of a model into memory of their own; tied ones stay tied."""
    for places in _owners(model).values():
        value = places[0][0]._parameters[places[0][1]]
        if isinstance(value, KeptTensor) and any(which(module, name) for module, name in places):
            _replace(places, nn.Parameter(value.dequantize(), requires_grad=False))
    settle(model)


def release_others(model: nn.Module) -> None:
    """Decodes kept parameters that keep_compressed() does not keep."""
    release(model, lambda module, name: not keeps(module, name))


def decoded_state(model: nn.Module) -> dict[str, Any]:
    """``state_dict()`` with decoded tensors; tied ones share one."""
    made: dict[object, torch.Tensor] = {}

    def plain(value: Any) -> Any:
        if not isinstance(value, KeptTensor):
            return value
        key = value.kept_key()
        if key not in made:
            made[key] = value.dequantize()
        return made[key]

    return {name: plain(value) for name, value in model.state_dict().items()}


class KeptSlice(TensorSlice):
    """A tensor of an open file for the loader of Transformers, which takes all of it by ``slice[...]``."""

    def __init__(self, file: OpenFile, name: str, source: Source) -> None:
        super().__init__(file, name)
        self._source = source

    def __getitem__(self, index: Any) -> Any:
        if index is not Ellipsis:
            return super().__getitem__(index)
        return KeptTensor(self._source, _REAL[self.get_dtype()], torch.device("cpu"))


@contextlib.contextmanager
def kept_state(filename: str, keep: str) -> Iterator[dict[str, Any]]:
    """Tensors of a file, matrices as parameters without values, which loaders may make parameters that require gradients."""
    store = Store(filename)
    opened = store._opened
    store.loading = True
    try:
        yield {
            name: KeptSlice(opened, name, source_of(store, name, keep)) if _real(store, name) else opened.get_slice(name)
            for name in opened
        }
    finally:
        store.loading = False
