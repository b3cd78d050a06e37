"""A torch.nn.Sequential as the program's architecture ``sequential`` spells it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from .._arguments import kind_of
from .._errors import UsageError, usage

#: Layers that begin a stage, and those that go with the one behind them.
_WEIGHTED = (nn.Linear, nn.Conv2d)
_LEADING = (nn.Flatten, nn.AdaptiveAvgPool2d, nn.Identity)


@dataclass
class Layer:
    """A layer of the flattened chain."""

    path: str  #: in the module: "2", "features.0"
    module: nn.Module
    text: str  #: "Linear(64,10)"


@dataclass
class Architecture:
    """What the program needs to build the chain."""

    arch: str  #: "sequential:64/Linear(64,32),ReLU()/Linear(32,10)"
    #: The program's name of each stage, the number of its first layer, and the module's: the path of its first Linear
    #: or Conv2d.
    stages: dict[str, str]
    #: The program's name of each parameter and buffer, and the module's tensor.
    tensors: dict[str, Tensor]


def _pair(value: Any) -> str:
    sizes = [value, value] if isinstance(value, int) else list(value)
    if len(sizes) != 2 or not all(isinstance(size, int) for size in sizes):
        raise usage(f"has sizes {value!r}; give integers")
    return str(sizes[0]) if sizes[0] == sizes[1] else f"{sizes[0]}x{sizes[1]}"


def _call(name: str, *positional: object, **named: object) -> str:
    parts = [str(each) for each in positional]
    parts += [f"{key}={value}" for key, value in named.items()]
    return f"{name}({','.join(parts)})"


def _linear(layer: Any) -> str:
    return _call("Linear", layer.in_features, layer.out_features, bias=layer.bias is not None)


def _padding(layer: Any) -> str:
    if layer.padding == "valid":
        return "0"
    if layer.padding != "same":
        return _pair(layer.padding)
    whole = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
    if any(size % 2 for size in whole):
        raise usage("has padding='same' with more on one side; use an odd kernel_size")
    return _pair([size // 2 for size in whole])


def _conv(layer: Any) -> str:
    if layer.padding_mode != "zeros":
        raise usage(f"has padding_mode={layer.padding_mode!r}; only 'zeros' is supported")
    return _call(
        "Conv2d",
        layer.in_channels,
        layer.out_channels,
        _pair(layer.kernel_size),
        stride=_pair(layer.stride),
        padding=_padding(layer),
        dilation=_pair(layer.dilation),
        groups=layer.groups,
        bias=layer.bias is not None,
    )


def _norm(layer: Any) -> str:
    if layer.momentum is None:
        raise usage("has momentum=None; give a number")
    return _call(
        type(layer).__name__,
        layer.num_features,
        eps=repr(float(layer.eps)),
        momentum=repr(float(layer.momentum)),
        affine=layer.affine,
        track_running_stats=layer.track_running_stats,
    )


def _max_pool(layer: Any) -> str:
    if layer.return_indices:
        raise usage("has return_indices=True; leave it out")
    return _call(
        "MaxPool2d",
        _pair(layer.kernel_size),
        stride=_pair(layer.stride),
        padding=_pair(layer.padding),
        dilation=_pair(layer.dilation),
        ceil_mode=layer.ceil_mode,
    )


def _flatten(layer: Any) -> str:
    if (layer.start_dim, layer.end_dim) != (1, -1):
        raise usage(f"has start_dim={layer.start_dim}, end_dim={layer.end_dim}; only 1 and -1 are supported")
    return "Flatten()"


_TEXTS: dict[type[nn.Module], Callable[[Any], str]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
    nn.ReLU: lambda _: "ReLU()",
    nn.ELU: lambda layer: _call("ELU", alpha=repr(float(layer.alpha))),
    nn.Tanh: lambda _: "Tanh()",
    nn.Sigmoid: lambda _: "Sigmoid()",
    nn.MaxPool2d: _max_pool,
    nn.AdaptiveAvgPool2d: lambda layer: _call("AdaptiveAvgPool2d", _pair(layer.output_size)),
    nn.Flatten: _flatten,
    nn.Identity: lambda _: "Identity()",
}


def _is_chain(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _refuse_hooks(module: nn.Module, what: str) -> None:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        raise usage(f"{what} has hooks, which the program does not call; remove them")


def _layer(path: str, module: nn.Module) -> Layer:
    """Raises UsageError naming the layer."""
    what = f"layer {path} ({type(module).__name__})"
    write = _TEXTS.get(type(module))
    if write is None:
        names = ", ".join(kind.__name__ for kind in _TEXTS)
        raise usage(f"{what} is none of the layers that a strategy trains from Python: {names}")
    _refuse_hooks(module, what)
    try:
        text = write(module)
    except UsageError as error:
        raise usage(f"{what} {error}") from None
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise usage(f"{path}.{name} is frozen (requires_grad=False); a strategy trains every parameter")
    return Layer(path, module, text)


def _leaves(chain: nn.Sequential, prefix: str) -> Iterator[Layer]:
    _refuse_hooks(chain, f"{prefix.rstrip('.') or 'the model'} (Sequential)")
    for name, child in chain._modules.items():
        if child is not None and _is_chain(child):
            yield from _leaves(child, f"{prefix}{name}.")  # type: ignore[arg-type]
        elif child is not None:
            yield _layer(f"{prefix}{name}", child)


def _units(model: nn.Sequential) -> Iterator[list[Layer]]:
    """Layers that no stage separates: a Sequential within the model that holds a Linear or Conv2d, or one layer."""
    layers = list(_leaves(model, ""))
    for name, child in model._modules.items():
        own = [each for each in layers if each.path == name or each.path.startswith(f"{name}.")]
        if child is not None and _is_chain(child) and any(isinstance(each.module, _WEIGHTED) for each in own):
            yield own
        else:
            yield from ([each] for each in own)


def _stages(model: nn.Sequential) -> list[list[Layer]]:
    """Each unit with a Linear or Conv2d begins a stage, with the reshaping layers directly before it; other layers
    belong to the stage before them."""
    stages: list[list[Layer]] = []
    pending: list[Layer] = []
    for unit in _units(model):
        if any(isinstance(each.module, _WEIGHTED) for each in unit):
            stages.append([*pending, *unit])
            pending = []
        elif not stages or isinstance(unit[0].module, _LEADING):
            pending += unit
        else:
            stages[-1] += [*pending, *unit]
            pending = []
    if not stages:
        raise usage("the model has no Linear and no Conv2d; a strategy trains two or more")
    stages[-1] += pending
    return stages


def _refuse_shared(layers: list[Layer]) -> None:
    seen: dict[int, str] = {}
    for layer in layers:
        for name, parameter in layer.module.named_parameters():
            own = f"{layer.path}.{name}"
            if (first := seen.setdefault(id(parameter), own)) != own:
                raise usage(f"{own} and {first} are the same parameter; each layer learns by a loss of its own")


def architecture_of(model: object, shape: tuple[int, ...]) -> Architecture:
    """The architecture of a model.

    Args:
        model: a Sequential of layers and of Sequentials.
        shape: of one input.

    Raises:
        UsageError: it is no Sequential, or a layer cannot be built by the program, with the layer's path and class.
    """
    if not isinstance(model, nn.Sequential) or not _is_chain(model):
        raise usage(f"the model must be a torch.nn.Sequential of layers, got {kind_of(model)}")
    stages = _stages(model)
    layers = [layer for stage in stages for layer in stage]
    _refuse_shared(layers)
    arch = "sequential:" + "x".join(map(str, shape))
    names: dict[str, str] = {}
    number = 0
    for stage in stages:
        arch += "/" + ",".join(layer.text for layer in stage)
        names[str(number)] = next(each.path for each in stage if isinstance(each.module, _WEIGHTED))
        number += len(stage)
    tensors: dict[str, Tensor] = {}
    for index, layer in enumerate(layers):
        values: Mapping[str, Tensor] = {**dict(layer.module.named_parameters()), **dict(layer.module.named_buffers())}
        tensors |= {f"{index}.{name}": value for name, value in values.items()}
    return Architecture(arch, names, tensors)
