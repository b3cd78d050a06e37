"""What a forward pass of a model may change is as before afterwards: the batch, random states and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def seeded(number: int) -> Iterator[None]:
    """Random numbers of torch that depend on the number alone; the caller's states are restored. The original and
    each candidate draw the same for a batch."""
    # torch.manual_seed() would also seed a CUDA that is not initialized yet.
    host = torch.default_generator.get_state()
    initialized: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = torch.cuda.get_rng_state_all() if initialized else []
    try:
        torch.default_generator.manual_seed(number)
        if devices:
            torch.cuda.manual_seed_all(number)
        yield
    finally:
        torch.default_generator.set_state(host)
        if devices:
            torch.cuda.set_rng_state_all(devices)


@contextlib.contextmanager
def own_buffers(model: torch.nn.Module) -> Iterator[None]:
    """Copies in place of the model's buffers for a while, which its forward may change. Buffers that are not
    initialized stay. The model's own are not written: a backward pass may need them."""
    kept: list[tuple[dict[str, torch.Tensor | None], str, torch.Tensor]] = []
    copies: dict[int, torch.Tensor] = {}  # a buffer of two modules stays one
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and not torch.nn.parameter.is_lazy(buffer):
                kept.append((module._buffers, name, buffer))
                copies.setdefault(id(buffer), buffer.detach().clone())
    try:
        for buffers, name, buffer in kept:
            buffers[name] = copies[id(buffer)]
        yield
    finally:
        for buffers, name, buffer in kept:
            buffers[name] = buffer


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module, number: int) -> Iterator[None]:
    """Both, for a forward pass of the batch of that number."""
    with seeded(number), own_buffers(model):
        yield


def copied(value: Any, place: torch.device | None = None, known: dict[int, torch.Tensor] | None = None) -> Any:
    """A batch, or a part of one, with copies of its tensors on a device, or on their own: a model may change its inputs
    in place.

    Tensors are found in tuples, lists and dicts, nested ones too; other objects are given to the model as they are. A
    tensor that is there twice is one tensor in the copy: attention tells self-attention so.
    """
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = value.to(value.device if place is None else place, copy=True)
        return known[id(value)]
    if type(value) in (tuple, list):
        return type(value)([copied(each, place, known) for each in value])
    if type(value) is dict:
        return {name: copied(each, place, known) for name, each in value.items()}
    return value
