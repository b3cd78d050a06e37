"""Parameters that hold no values: a place in a file, whose weights are decoded when an operation uses them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_map

from .._errors import usage
from .store import Store, Unit

#: Tokens up to which the next weight is decoded while a product is made. Products of more use all processors, which
#: threads that decode would slow down by more than they save.
_FEW = 64
#: Tokens up to which a product is made from integers, or stripe by stripe.
TOKENS = 8


class Source:
    """Where the values of a parameter come from. ``dtype`` and ``device`` are those that the parameter shows."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name, self.index = store, name, store.place(name)
        self.shape = torch.Size(store.tensors[self.index]["shape"])

    @property
    def key(self) -> tuple[int, ...]:
        """Equal for the same values."""
        return id(self.store), self.index

    def values(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """All of them, in memory of their own."""
        return self.store.fresh(self.index, dtype).to(device)

    def rows(self, rows: list[int], dtype: torch.dtype) -> torch.Tensor:
        """As Store.rows()."""
        return self.store.rows(self.index, rows, dtype)

    def weight(self, unit: Unit, backward: bool = False, ahead: bool = True) -> contextlib.AbstractContextManager[torch.Tensor]:
        """As Store.weight()."""
        return self.store.weight(unit, backward, ahead)

    def whole(self, dtype: torch.dtype) -> Unit:
        """All rows."""
        return Unit(self.index, 0, self.shape[0], dtype)

    def use(self, weight: KeptTensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """``function`` of the whole weight."""
        return self.apply(self.whole(computed(weight)), weight.device, function)

    def linear(self, weight: KeptTensor, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """``x [..., in] @ W.T + bias``, in pieces of rows where the weight is large."""
        units = self.store.units(self.index, computed(weight))
        ahead = x.numel() <= _FEW * self.shape[-1]
        if len(units) == 1:
            return self.apply(units[0], weight.device, lambda w: F.linear(x, w, bias), ahead)
        graph = torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad))
        if not graph and self._takes(weight, x):
            product = self.store.multiply(self.index, computed(weight), x)
            if product is not None:
                return (product if bias is None else product + bias).to(computed(weight))
        parts = ((unit, None if bias is None else bias[unit.first : unit.first + unit.rows]) for unit in units)
        made = (self.apply(unit, weight.device, lambda w, b=part: F.linear(x, w, b)) for unit, part in parts)  # type: ignore[misc]
        if graph:
            return torch.cat(list(made), -1)
        first = next(made)
        out = first.new_empty(*first.shape[:-1], self.shape[0])
        for unit, part in zip(units, (piece for pieces in ([first], made) for piece in pieces), strict=True):
            out[..., unit.first : unit.first + unit.rows] = part
        return out

    def _takes(self, weight: KeptTensor, x: torch.Tensor) -> bool:
        """Whether a product is of a few tokens on the CPU, in the element type of the inputs or that of autocast."""
        kind, width = computed(weight), self.shape[-1]
        fits = x.dim() > 0 and x.shape[-1] == width and (x.dtype == kind or kind != weight.dtype)
        return weight.device.type == "cpu" and fits and 0 < x.numel() <= TOKENS * width

    def apply(
        self, unit: Unit, device: torch.device, function: Callable[[torch.Tensor], torch.Tensor], ahead: bool = True
    ) -> torch.Tensor:
        """``function`` of the decoded weight. What autograd would keep of it is decoded again by the backward pass."""
        with self.weight(unit, ahead=ahead) as decoded:
            weight = decoded if device.type == "cpu" else decoded.to(device)
            if not torch.is_grad_enabled():
                return function(weight)
            memory, start = weight.untyped_storage().data_ptr(), weight.storage_offset()

            def pack(saved: torch.Tensor) -> Any:
                if saved.device != weight.device or saved.untyped_storage().data_ptr() != memory:
                    return saved
                return saved.shape, saved.stride(), saved.storage_offset() - start

            def unpack(packed: Any) -> torch.Tensor:
                if isinstance(packed, torch.Tensor):
                    return packed
                with self.weight(unit, backward=True) as again:
                    # The buffer is given back before the operation has run.
                    return again.to(device, copy=True).as_strided(*packed)

            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                return function(weight)


class KeptTensor(torch.Tensor):
    """A frozen parameter whose values are decoded at use.

    ``linear``, matrix products, convolutions and ``embedding`` decode into buffers that all parameters of a store share.
    Every other operation decodes the tensor into memory of its own. Shape, element type and device are known without
    decoding; ``to()``, ``half()`` and the like change what the file's values are decoded to. ``dequantize()`` is the
    decoded tensor, and a view is part of a decoded copy. It cannot be written to or trained, has no memory of its own
    (``data_ptr()``), and is pickled as the decoded tensor.
    """

    _source: Source

    @staticmethod
    def __new__(cls, source: Source, dtype: torch.dtype, device: torch.device) -> KeptTensor:
        made = torch.Tensor._make_wrapper_subclass(cls, source.shape, dtype=dtype, device=device)
        made._source = source
        return made

    def __init__(self, source: Source, dtype: torch.dtype, device: torch.device) -> None:
        pass

    def dequantize(self) -> torch.Tensor:
        """The decoded tensor, in memory of its own."""
        return self._source.values(self.dtype, self.device)

    def kept_key(self) -> tuple[object, ...]:
        """Equal for parameters of the same values."""
        return self._source.key, self.dtype, self.device

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"KeptTensor({self._source.name!r}, shape={tuple(self.shape)}, dtype={self.dtype}, device='{self.device}')"

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        """Another parameter of the same store: the values cannot change."""
        copied: torch.Tensor = KeptTensor(self._source, self.dtype, self.device)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, requires_grad=False)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        decoded: Any = self.dequantize()
        if isinstance(self, torch.nn.Parameter):
            decoded = torch.nn.Parameter(decoded, requires_grad=False)
        return decoded.__reduce_ex__(protocol)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = FUNCTIONS.get(function)
        if handler is not None:
            done = handler(function, args, kwargs or {})
            if done is not NotImplemented:
                return done
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        packet = function.overloadpacket
        if packet in (torch.ops.aten.detach, torch.ops.aten.alias, torch.ops.aten.lift_fresh):
            return _again(args[0])
        if packet is torch.ops.aten._to_copy:
            dtype, device = kwargs.get("dtype") or args[0].dtype, kwargs.get("device") or args[0].device
            if dtype.is_floating_point and kwargs.get("memory_format") in (None, torch.preserve_format):
                return _again(args[0], dtype, torch.device(device))
        written = (value for value, each in zip(args, function._schema.arguments, strict=False) if each.is_write)
        for value in (*written, kwargs.get("out")):
            for each in value if isinstance(value, tuple | list) else [value]:
                if isinstance(each, KeptTensor):
                    _refuse(each, "written to")
        return function(*tree_map(_decoded, args), **tree_map(_decoded, kwargs))


def _uncompiled(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A function at which torch.compile breaks the graph: it runs threads and writes to buffers."""
    return torch.compiler.disable(function)  # type: ignore[no-any-return, no-untyped-call]


def _decoded(value: Any) -> Any:
    return value.dequantize() if isinstance(value, KeptTensor) else value


def _again(kept: KeptTensor, dtype: torch.dtype | None = None, device: torch.device | None = None) -> KeptTensor:
    return KeptTensor(kept._source, dtype or kept.dtype, device or kept.device)


def computed(weight: KeptTensor) -> torch.dtype:
    """The element type that a product is made in: that of autocast, where it is on."""
    kind = weight.device.type
    if weight.dtype == torch.float32 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def _refuse(kept: KeptTensor, what: str) -> NoReturn:
    raise usage(
        f"{kept._source.name} is kept compressed and cannot be {what}; load the model without keep, "
        "or replace the parameter by its dequantize()"
    )


@_uncompiled
def _linear(function: Any, args: Any, kwargs: Any) -> Any:
    x, weight, bias = (*args, *(kwargs[name] for name in ("input", "weight", "bias")[len(args) :] if name in kwargs), None)[:3]
    if not isinstance(weight, KeptTensor) or isinstance(x, KeptTensor) or weight.is_meta or x.is_meta or weight.dim() != 2:
        return NotImplemented
    return weight._source.linear(weight, x, bias)


@_uncompiled
def _product(function: Any, args: Any, kwargs: Any) -> Any:
    """Convolutions and matrix products with one kept argument; the result must share no memory with it."""
    at = [key for key, value in (*enumerate(args), *kwargs.items()) if isinstance(value, KeptTensor)]
    if len(at) != 1:
        return NotImplemented
    weight = kwargs[at[0]] if isinstance(at[0], str) else args[at[0]]
    if any(isinstance(value, torch.Tensor) and value.is_meta for value in (*args, *kwargs.values())) or weight.dim() < 2:
        return NotImplemented

    def compute(decoded: torch.Tensor) -> torch.Tensor:
        positional = [decoded if value is weight else value for value in args]
        named = {key: decoded if value is weight else value for key, value in kwargs.items()}
        return function(*positional, **named)  # type: ignore[no-any-return]

    return weight._source.use(weight, compute)


@_uncompiled
def _recurrent(function: Any, args: Any, kwargs: Any) -> Any:
    """All weights of the layers, decoded once for all steps."""
    return function(*tree_map(_decoded, args), **tree_map(_decoded, kwargs))


@_uncompiled
def _embedding(function: Any, args: Any, kwargs: Any) -> Any:
    """Rows of the indices alone. They are frozen, so padding_idx and what concerns gradients have no effect."""
    names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    indices, weight = given["input"], given["weight"]
    if not isinstance(weight, KeptTensor) or weight.is_meta or indices.is_meta or weight.dim() != 2:
        return NotImplemented
    rows, inverse = torch.unique(indices.detach().cpu().reshape(-1), return_inverse=True)
    count = weight.shape[0]
    if rows.numel() and not 0 <= int(rows[0]) <= int(rows[-1]) < count:
        wrong = int(rows[0]) if int(rows[0]) < 0 else int(rows[-1])
        raise IndexError(f"index {wrong} is out of range in {weight._source.name}, which has {count} rows")
    table = weight._source.rows(rows.tolist(), weight.dtype).to(weight.device)
    places = inverse.reshape(indices.shape).to(weight.device)
    return F.embedding(places, table, None, given.get("max_norm"), given.get("norm_type", 2.0))


def _trained(function: Any, args: Any, kwargs: Any) -> Any:
    """requires_grad: False is what it is; True is refused, but for loaders, which give it to every parameter."""
    wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    if wanted and not args[0]._source.store.loading:
        _refuse(args[0], "trained")
    return args[0] if function is torch.Tensor.requires_grad_ else None


def _set_data(function: Any, args: Any, kwargs: Any) -> Any:
    """``parameter.data = other``, by which modules change device and element type."""
    kept, value = args
    if not isinstance(kept, KeptTensor):
        return NotImplemented
    if not isinstance(value, KeptTensor):
        _refuse(kept, "written to")
    with torch._C.DisableTorchFunctionSubclass():
        function(kept, value)
    kept._source = value._source
    return None


def _set_item(function: Any, args: Any, kwargs: Any) -> Any:
    """Part of the tensor is a decoded copy, so that the value would be lost."""
    return _refuse(args[0], "written to") if isinstance(args[0], KeptTensor) else NotImplemented


def _no_memory(function: Any, args: Any, kwargs: Any) -> Any:
    raise usage(f"{args[0]._source.name} is kept compressed and has no memory of its own; take its dequantize()")


#: Functions that do something else than decode their arguments.
FUNCTIONS: dict[Any, Callable[[Any, Any, Any], Any]] = {
    F.linear: _linear,
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), _product),
    **dict.fromkeys((torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d), _product),
    **dict.fromkeys((torch.addmm, torch.mm, torch.matmul, torch.Tensor.addmm, torch.Tensor.mm, torch.Tensor.matmul), _product),
    torch.Tensor.__matmul__: _product,
    **dict.fromkeys((torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu), _recurrent),
    F.embedding: _embedding,
    torch.Tensor.requires_grad_: _trained,
    torch.Tensor.requires_grad.__set__: _trained,  # type: ignore[attr-defined]
    torch.Tensor.data.__set__: _set_data,  # type: ignore[attr-defined]
    torch.Tensor.__setitem__: _set_item,
    torch.Tensor.data_ptr: _no_memory,
    torch.Tensor.untyped_storage: _no_memory,
    torch.Tensor.numpy: lambda function, args, kwargs: args[0].dequantize().numpy(**kwargs),
    torch.Tensor.dequantize: lambda function, args, kwargs: _decoded(args[0]),
}
