"""The blocks of a model that repeat, what they are called with, and runs of one of them alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .._errors import usage
from .collect import Batch, called
from .passes import copied, undisturbed

#: Modules whose children may be blocks.
_LISTS = (torch.nn.ModuleList, torch.nn.Sequential)


class _Done(BaseException):
    """The last block has run; nothing behind it is needed. It is no error, which a model might catch."""


@dataclass
class Call:
    """How a block is called for one batch, without the hidden states, which are its first tensor."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int | str  #: of the hidden states among them


@dataclass
class Captured:
    """Of every batch: the inputs of the first block, and the calls of all blocks."""

    hidden: list[torch.Tensor] = field(default_factory=list)  #: on the CPU
    calls: list[list[Call]] = field(default_factory=list)  #: [batch][block]
    before: set[str] = field(default_factory=set)  #: modules that ran before the first block


def _weights_of(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def find_blocks(model: torch.nn.Module, blocks: bool | str) -> tuple[str, list[torch.nn.Module]]:
    """Path and modules of the list that is named, or of the one with the most weights whose modules are of
    one class.

    Raises:
        UsageError: there is no such list.
    """
    modules = dict(model.named_modules())
    if isinstance(blocks, str):
        found = modules.get(blocks)
        if not isinstance(found, _LISTS) or len(found) == 0:
            lists = [name for name, module in modules.items() if name and isinstance(module, _LISTS)]
            known = f"; the model has {', '.join(lists[:5])}" if lists else "; the model has none"
            raise usage(f"blocks={blocks!r} names no ModuleList or Sequential with modules in it{known}")
        return blocks, list(found)
    repeated = [
        (_weights_of(module), name)
        for name, module in modules.items()
        if isinstance(module, _LISTS) and len(module) > 1 and len({type(child) for child in module}) == 1
        and next(module.parameters(), None) is not None
    ]  # fmt: skip
    if not repeated:
        raise usage("no ModuleList of the model repeats a class; name the list of blocks: blocks='layers'")
    name = max(repeated, key=lambda each: each[0])[1]
    return name, list(modules[name])


def first_tensor(result: Any) -> torch.Tensor | None:
    """The hidden states in what a block returns: the tensor, or the first one of a tuple."""
    if isinstance(result, tuple | list) and result:
        result = result[0]
    return result if isinstance(result, torch.Tensor) else None


class _Capture:
    """Hooks on all blocks during one forward pass of the whole model."""

    def __init__(self, name: str, blocks: list[torch.nn.Module]) -> None:
        self.name, self.blocks = name, blocks
        self.calls: list[Call] = []
        self.hidden: torch.Tensor | None = None
        self.last: torch.Tensor | None = None

    def before(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if number != len(self.calls):
            raise usage(
                f"{self.name}.{number} runs as module {len(self.calls)} of a forward pass; blocks= takes a "
                "list whose modules run once each, one after another"
            )
        place: int | str | None = 0 if args and isinstance(args[0], torch.Tensor) else None
        if place is None and not args:
            place = next((key for key, value in kwargs.items() if isinstance(value, torch.Tensor)), None)
        if place is None:
            raise usage(f"{self.name}.{number} takes no tensor as its first argument; name other blocks")
        hidden = args[0] if place == 0 else kwargs[str(place)]
        if number == 0:
            self.hidden = hidden.detach()
        elif hidden is not self.last and not (self.last is not None and torch.equal(hidden, self.last)):
            raise usage(
                f"the inputs of {self.name}.{number} are not the outputs of {self.name}.{number - 1}; name a "
                "list whose modules follow each other directly"
            )
        rest = {key: value for key, value in kwargs.items() if key != place}
        self.calls.append(Call(args[1:] if place == 0 else args, rest, place))

    def after(self, number: int, result: Any) -> None:
        self.last = first_tensor(result)
        if number + 1 == len(self.blocks):
            raise _Done


def capture(
    model: torch.nn.Module, name: str, blocks: list[torch.nn.Module], items: Iterable[Batch]
) -> Captured:
    """Runs every batch up to the last block. The model is in evaluation mode, and gradients are off.

    Raises:
        UsageError: a batch that does not fit; blocks that do not follow each other.
    """
    captured = Captured()
    one = [_Capture(name, blocks)]

    def before(number: int) -> Any:
        return lambda module, args, kwargs: one[0].before(number, args, kwargs)

    def after(number: int) -> Any:
        return lambda module, args, result: one[0].after(number, result)

    def ran(path: str) -> Any:
        def hook(module: torch.nn.Module, args: Any) -> None:
            if not one[0].calls:
                captured.before.add(path)

        return hook

    handles = []
    for number, block in enumerate(blocks):
        handles.append(block.register_forward_pre_hook(before(number), with_kwargs=True))
        handles.append(block.register_forward_hook(after(number)))
    for path, module in model.named_modules():
        if not path.startswith(f"{name}.") and next(module.children(), None) is None:
            handles.append(module.register_forward_pre_hook(ran(path)))
    try:
        for number, batch in enumerate(items):
            one[0] = _Capture(name, blocks)
            try:
                called(model, batch, number)
            except _Done:
                pass
            if one[0].hidden is None or len(one[0].calls) < len(blocks):
                raise usage(
                    f"batch {number} reaches {len(one[0].calls)} of the {len(blocks)} modules of {name}; "
                    "blocks= takes a list whose modules run once each, one after another"
                )
            captured.hidden.append(one[0].hidden.cpu())
            captured.calls.append(one[0].calls)
    finally:
        for handle in handles:
            handle.remove()
    return captured


def run(block: torch.nn.Module, call: Call, hidden: torch.Tensor, number: int) -> torch.Tensor:
    """Outputs of a block, on the CPU.

    Args:
        number: of the batch, which random numbers depend on.
    """
    place = next(block.parameters()).device
    hidden = hidden.to(place, copy=True)
    args, kwargs = copied((call.args, call.kwargs))
    with undisturbed(block, number):
        if call.place == 0:
            result = first_tensor(block(hidden, *args, **kwargs))
        else:
            result = first_tensor(block(*args, **{str(call.place): hidden}, **kwargs))
    assert result is not None  # capture() has seen that the next block takes it
    return result.detach().cpu()
