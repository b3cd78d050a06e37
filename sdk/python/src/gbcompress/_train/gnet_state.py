"""A bottleneck's training state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .._arguments import kind_of, real, whole
from .._core import CodedGnets, GnetLayer, GNetSpec
from .._errors import UsageError, mismatch, usage

if TYPE_CHECKING:
    from .bottleneck import GenomicBottleneck, Layer

_TENSORS = ("theta", "first_moment", "second_moment")
#: Of g-nets that are integers: latents and logarithms of steps together, their moments, and scales of the latents.
_CODED = ("values", "first_moment", "second_moment", "inverse_scales")


def _text(spec: GNetSpec) -> str:
    return f"{spec.type_id} {spec.text} {'x'.join(map(str, spec.shape))} in {spec.tiles} tiles"


def _coded_state(bottleneck: GenomicBottleneck) -> dict[str, Any]:
    """Every rank has all g-nets."""
    assert bottleneck._rate is not None
    gnets = {}
    for layer in bottleneck._layers:
        assert isinstance(layer.gnets, CodedGnets)
        spec, arrays = layer.generated.spec, layer.gnets.state()
        for name in _TENSORS[1:]:
            if not arrays[name].size:  # none before the first step
                arrays[name] = np.zeros_like(arrays["values"])
        tensors = {name: torch.from_numpy(arrays[name]) for name in _CODED}
        gnets[layer.name] = {"spec": _text(spec), "output_scale": spec.output_scale, **tensors}
    state = {"steps": bottleneck._steps, "exact": bottleneck._exact, "gnets": gnets}
    return {**state, "loss_per_bit": bottleneck._rate.loss_per_bit}


def state_of(bottleneck: GenomicBottleneck) -> dict[str, Any]:
    """GenomicBottleneck.state_dict(). [collective]"""
    if bottleneck._rate is not None:
        return _coded_state(bottleneck)
    wire = []
    for layer in bottleneck._layers:
        device, size = layer.parameter.device, layer.generated.spec.parameters
        values = torch.zeros(len(_TENSORS), size, device=device)
        if isinstance(layer.gnets, GnetLayer):
            values[0] = torch.from_numpy(layer.gnets.theta())
            for row, moment in enumerate(layer.gnets.moments(), 1):
                if moment.size:  # none before the first step
                    values[row] = torch.from_numpy(moment)
        wire.append((layer, values))
    bottleneck._ranks.broadcast("state_dict()", [(values, layer.owner) for layer, values in wire])
    gnets = {}
    for layer, values in wire:
        spec = layer.generated.spec
        rows = {name: values[row].cpu().clone() for row, name in enumerate(_TENSORS)}
        gnets[layer.name] = {"spec": _text(spec), "output_scale": spec.output_scale, **rows}
    return {"steps": bottleneck._steps, "exact": bottleneck._exact, "gnets": gnets}


def _described(value: object) -> str:
    return f"a dict of {', '.join(map(repr, value))}" if isinstance(value, Mapping) else kind_of(value)


def _wrong(what: str) -> UsageError:
    return usage(f"the state of a bottleneck must be what state_dict() returned, got {what}")


def _checked_entry(entry: object, name: str, tensors: tuple[str, ...]) -> Mapping[str, Any]:
    """What a state says of a parameter's g-nets. Raises UsageError."""
    if not isinstance(entry, Mapping) or set(entry) != {"spec", "output_scale", *tensors}:
        raise _wrong(f"{_described(entry)} for {name}")
    if not isinstance(entry["spec"], str):
        raise _wrong(f"{kind_of(entry['spec'])} as specification of {name}")
    real(entry["output_scale"], f"output_scale of {name}")
    for key in tensors:
        value = entry[key]
        if not isinstance(value, Tensor) or value.is_meta or not value.is_floating_point() or value.layout != torch.strided:
            raise _wrong(f"{kind_of(value)} as {key} of {name}, which must be a dense tensor of float32 with values")
    return entry


def _checked(state: object, bottleneck: GenomicBottleneck) -> Mapping[str, Mapping[str, Any]]:
    """The g-nets of a state. Raises UsageError, ShapeMismatch."""
    coded = bottleneck._rate is not None
    members = {"steps", "exact", "gnets", *(["loss_per_bit"] if coded else [])}
    if not isinstance(state, Mapping) or set(state) != members:
        raise _wrong(_described(state))
    if coded and real(state["loss_per_bit"], "loss_per_bit of the state") < 0:
        raise _wrong(f"{state['loss_per_bit']!r} as loss_per_bit")
    whole(state["steps"], "steps of the state", 0)
    if not isinstance(state["exact"], bool):
        raise _wrong(f"{state['exact']!r} as exact")
    gnets = state["gnets"]
    if not isinstance(gnets, Mapping) or not all(isinstance(name, str) for name in gnets):
        raise _wrong(f"{_described(gnets)} as gnets")
    names = [layer.name for layer in bottleneck._layers]
    if other := sorted(set(names) ^ set(gnets)):
        where = "lacks" if other[0] in names else "has"
        raise mismatch(f"the state is of other g-nets: it {where} {other[0]}; use the settings it was saved with")
    for layer in bottleneck._layers:
        spec = layer.generated.spec
        entry = _checked_entry(gnets[layer.name], layer.name, _CODED if coded else _TENSORS)
        if entry["spec"] != _text(spec) or _sizes(entry, coded) != _sizes_of(layer):
            raise mismatch(
                f"the state is of other g-nets: {layer.name} is {entry['spec']} there and {_text(spec)} here; use the "
                "settings it was saved with"
            )
    return gnets


def _sizes(entry: Mapping[str, Any], coded: bool) -> list[tuple[int, ...]]:
    return [tuple(entry[name].shape) for name in (_CODED if coded else _TENSORS)]


def _sizes_of(layer: Layer) -> list[tuple[int, ...]]:
    """What they are for a layer's g-nets."""
    parameters = layer.generated.spec.parameters
    if isinstance(layer.gnets, CodedGnets):
        values = layer.gnets.state()["values"].size
        return [(values,), (values,), (values,), (parameters,)]
    return [(parameters,)] * len(_TENSORS)


def restore_state(bottleneck: GenomicBottleneck, state: object) -> None:
    """GenomicBottleneck.load_state_dict()."""
    gnets = _checked(state, bottleneck)
    assert isinstance(state, Mapping)
    steps = int(state["steps"])
    # Nothing can be refused any more.
    for layer in bottleneck._layers:
        entry = gnets[layer.name]
        scale = float(entry["output_scale"])
        layer.generated.spec = layer.generated.spec.with_scale(scale)
        if isinstance(layer.gnets, CodedGnets):
            values, first, second, scales = (_array(entry[name]) for name in _CODED)
            if steps == 0:
                first = second = first[:0]
            layer.gnets.restore_state(values, first, second, scales, steps, scale)
        elif layer.gnets is not None:
            theta, first, second = (_array(entry[name]) for name in _TENSORS)
            layer.gnets.restore(theta, scale)
            if steps > 0:
                layer.gnets.restore_moments(first, second, steps)
    if bottleneck._rate is not None:
        bottleneck._rate.resume(steps, float(state["loss_per_bit"]))
    bottleneck._steps, bottleneck._exact = steps, bool(state["exact"])
    bottleneck._has_gradients = False


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()
