"""Layer types of g-nets, and which parameters of a module get g-nets."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .._arguments import kind_of, positive, texts, whole
from .._core import GNetOptions, GNetSpec, ParameterInfo
from .._errors import GbzError, UsageError, usage, warn
from .._files.arrays import torch_bytes, torch_dtype_name
from .write import tensors_of

#: A type's callables: the specification of a parameter, or None where it stays as it is; and the parameter from its tiles.
Init = Callable[[ParameterInfo, GNetOptions], "GNetSpec | None"]
Build = Callable[[GNetSpec, Tensor], Tensor]

#: Parameters with fewer elements get no g-nets.
MIN_ELEMENTS = 512


@dataclass(frozen=True)
class GNetType:
    """A registered layer type."""

    id: str
    init: Init
    build: Build | None


_REGISTERED: dict[type[nn.Module], GNetType] = {}
_SHIPPED = ("attention", "conv", "embedding", "linear", "recurrent")


def register_gnet_type(
    module_class: type[nn.Module], init: Init, build: Build | None = None, *, type_id: str | None = None
) -> None:
    """Registers how parameters of a module class, and of classes derived from it, get g-nets.

    It applies to every ``GenomicBottleneck`` made afterwards, before the layer types that ship with the package.
    A second registration of a class replaces the first one.

    Args:
        module_class: the class of the module that owns the parameters.
        init: ``init(parameter, options) -> GNetSpec | None``. The specification comes from ``make_spec``; None leaves the
            parameter without g-nets. The same arguments must give the same specification.
        build: ``build(spec, tiles) -> weights`` makes the parameter from its tiles
            ``[tiles, tile_rows, tile_cols, kernel]`` (float32, CPU), by differentiable operations of torch. None:
            the tiles are placed side by side, as the specification describes.
        type_id: what files call the type; the class's name in lower case unless it is given.

    Raises:
        UsageError: ``module_class`` is no module class, a callable is none, or ``build`` comes with the id of a
            type that ships with the package.
    """
    if not isinstance(module_class, type) or not issubclass(module_class, nn.Module):
        raise usage(f"module_class must be a class of torch.nn.Module, got {kind_of(module_class)}")
    for name, value in (("init", init), ("build", build)):
        if not callable(value) and not (value is None and name == "build"):
            raise usage(f"{name} must be a function, got {kind_of(value)}")
    if type_id is not None and not (isinstance(type_id, str) and type_id.isidentifier() and type_id.islower()):
        raise usage(f"type_id must be a name of lower-case letters, digits and underscores, got {type_id!r}")
    name = type_id or module_class.__name__.lower()
    if build is not None and name in _SHIPPED:
        raise usage(f"files know the layer type {name} without a build of its own; give another type_id")
    _REGISTERED[module_class] = GNetType(name, init, build)


def make_spec(
    parameter: ParameterInfo,
    options: GNetOptions,
    *,
    row_dim: int = 0,
    col_dim: int = 1,
    row_splits: int = 1,
    col_splits: int = 1,
    shape: Sequence[int] | None = None,
) -> GNetSpec:
    """The usual specification of a parameter: its output scale is twice the deviation of the initial weights.

    Args:
        parameter: as ``init`` gets it.
        options: as ``init`` gets them: size of tiles, widths, generator, position codes.
        row_dim: dimension of the shape that is outputs.
        col_dim: that of inputs; -1: none.
        row_splits: matrices that lie one after another along ``row_dim``.
        col_splits: the same along ``col_dim``.
        shape: what the tiles form together, where ``build`` makes the parameter from something else.

    Raises:
        UsageError, ShapeMismatch: view, shape and options do not fit each other.
    """
    wanted = None if shape is None else [int(n) for n in shape]
    return _core.spec_of_view(parameter, options, row_dim, col_dim, row_splits, col_splits, wanted)


@dataclass(frozen=True)
class Settings:
    """What g-nets are made of, for all parameters or, as overrides, for some."""

    tile_weights: int = 10_000
    ratio: float | None = None
    hidden: tuple[int, ...] = (32,)
    generator: str = "gnet"
    rank: int = 8
    row_code: str | None = None
    col_code: str | None = None
    type: str | None = None  #: in overrides alone

    def options(self, ratio: float | None = None) -> GNetOptions:
        """``ratio``: where the settings have none."""
        ratio = self.ratio if self.ratio is not None else ratio
        return GNetOptions.make(
            self.tile_weights, ratio, list(self.hidden), self.generator, self.rank, self.row_code, self.col_code
        )


def _checked(key: str, value: Any) -> Any:
    """A value of a setting. Raises UsageError."""
    if key in ("tile_weights", "rank"):
        return whole(value, key, 0 if key == "rank" else 1)
    if key == "ratio":
        return None if value is None else positive(value, key)
    if key == "hidden":
        widths = [value] if isinstance(value, int) else value
        if not isinstance(widths, list | tuple):
            raise usage(f"hidden must be a width or a list of widths, got {kind_of(value)}")
        return tuple(whole(width, "hidden", 1) for width in widths)
    if value is not None and not isinstance(value, str):
        raise usage(f"{key} must be a name, got {kind_of(value)}")
    return value


#: What torchGB calls some of them.
_ALIASES = {
    "hidden_dim": "hidden",
    "gnet_batchsize": "tile_weights",
    "max_gnet_batchsize": "tile_weights",
    "max_gnet_batch": "tile_weights",
}


def settings_of(given: Mapping[str, Any], base: Settings, where: str = "") -> Settings:
    """``base`` with the given settings; ``where`` names them in messages. Raises UsageError."""
    fields = {f: getattr(base, f) for f in Settings.__dataclass_fields__}
    for key, value in given.items():
        name = _ALIASES.get(key, key)
        if name not in fields or (name == "type" and not where):
            near = difflib.get_close_matches(key, [f for f in fields if f != "type"], 1)
            hint = f"; did you mean {near[0]}?" if near else f"; use {', '.join(f for f in fields if f != 'type')}"
            raise usage(f"there is no setting {key!r} of g-nets{where}{hint}")
        fields[name] = _checked(name, value)
        if name == "tile_weights":
            fields["ratio"] = None
            fields["rank"] = fields["rank"] or Settings.rank  # it followed from the ratio
    return Settings(**fields)


@dataclass
class GeneratedParameter:
    """A parameter with g-nets."""

    name: str
    module: nn.Module
    local_name: str
    parameter: nn.Parameter
    settings: Settings
    spec: GNetSpec
    build: Build | None
    shape: tuple[int, ...]

    def again(self) -> GeneratedParameter:
        """The specification for the present values: of another scale, perhaps."""
        spec, build = _spec(self.name, self.module, self.local_name, self.parameter, self.settings)
        assert spec is not None
        return replace(self, spec=spec, build=build)


def _type_of(module: nn.Module) -> GNetType | str | None:
    """The registered type, or the id of a shipped one, of the nearest class."""
    for base in type(module).__mro__:
        if base in _REGISTERED:
            return _REGISTERED[base]
        if shipped := _core.type_of_module(base.__name__):
            return shipped
    return None


def failed(type_id: str, name: str, what: str) -> GbzError:
    """Code of a registered type that cannot be used."""
    return GbzError(f"layer type {type_id}, tensor {name}: {what}", "plugin_failed")


def _registered_spec(kind: GNetType, info: ParameterInfo, options: GNetOptions) -> GNetSpec | None:
    try:
        spec = kind.init(info, options)
    except UsageError:
        raise
    except Exception as error:
        raise failed(kind.id, info.name, f"init raised {type(error).__name__}: {error}") from error
    if spec is None:
        return None
    if not isinstance(spec, GNetSpec):
        raise failed(kind.id, info.name, f"init returned {kind_of(spec)}; return make_spec(...) or None")
    if kind.build is None and list(spec.shape) != list(info.shape):
        raise failed(
            kind.id,
            info.name,
            f"init returned a specification of shape {list(spec.shape)} for a parameter of shape {list(info.shape)}; "
            "register a build that makes the parameter from it",
        )
    spec.type_id = kind.id
    return spec


def _deviation(parameter: Tensor) -> float:
    values = parameter.detach().to("cpu", torch.float64).contiguous().reshape(-1)
    return _core.deviation(values.numpy())


def _spec(
    name: str,
    module: nn.Module,
    local: str,
    parameter: nn.Parameter,
    settings: Settings,
    deviation: float | None = None,
) -> tuple[GNetSpec | None, Build | None]:
    kind: GNetType | str | None = settings.type or _type_of(module)
    if kind is None or kind == "plain":
        return None, None
    path = name[: -len(local) - 1] if name != local else ""
    class_name = type(module).__name__
    if isinstance(kind, str):  # that of the base class whose parameters the type takes
        bases = (base.__name__ for base in type(module).__mro__)
        class_name = next((base for base in bases if _core.type_of_module(base)), class_name)
    std = _deviation(parameter) if deviation is None else deviation
    info = ParameterInfo(name, local, path, class_name, list(parameter.shape), std)
    options = settings.options()
    if isinstance(kind, GNetType):
        return _registered_spec(kind, info, options), kind.build
    spec = _core.spec_by_type(kind, info, options)
    if spec is None and settings.type:
        raise usage(f"layer type {kind} does not take {name}; change its entry in layers")
    return spec, None


def _parameters(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, nn.Parameter]]:
    """Trainable real parameters, each once."""
    seen = set()
    for path, module in model.named_modules(remove_duplicate=False):
        for local, parameter in module.named_parameters(recurse=False):
            memory = (parameter.data_ptr(), parameter.shape)
            if memory in seen or not parameter.requires_grad or not parameter.is_floating_point():
                continue
            seen.add(memory)
            yield (f"{path}.{local}" if path else local), module, local, parameter


def _ignored(name: str, module: nn.Module, ignore: Sequence[str]) -> bool:
    return any(text in name or text == type(module).__name__ for text in ignore)


#: Settings that say what g-nets are made of; with one of them the recipe keeps the generator.
_SHAPES = ("hidden", "generator", "rank", "row_code", "col_code")


def recipe_of(
    given: Mapping[str, Any], settings: Settings, layers: Mapping[str, Mapping[str, Any]], target_ratio: float
) -> _core.GNetRecipe:
    """The recipe for a target ratio. Raises UsageError where the sizes of g-nets are given too."""
    names = {_ALIASES.get(key, key) for key in given}
    for key in ("ratio", "tile_weights"):
        if key in names:
            raise usage(f"target_ratio chooses the sizes of the g-nets; leave out {key}")
    of_layers = {_ALIASES.get(key, key) for rule in layers.values() if isinstance(rule, Mapping) for key in rule}
    shaped = names.intersection(_SHAPES) or of_layers.intersection(("hidden", "row_code", "col_code"))
    return _core.gnet_recipe(settings.options(), not shaped, target_ratio)


@dataclass(frozen=True)
class _ParameterRules:
    """What decides for single parameters."""

    layers: Mapping[str, Mapping[str, Any]]
    ignored: Sequence[str]
    min_elements: int


_Parameter = tuple[str, nn.Module, str, nn.Parameter]


def _generated(
    of: _Parameter, settings: Settings, rules: _ParameterRules, deviation: float | None = None
) -> GeneratedParameter | None:
    """A parameter with its g-nets; None where it gets none."""
    name, module, local, parameter = of
    own = settings
    for glob, given in rules.layers.items():
        if _core.matches_glob(glob, name):
            own = settings_of(given, own, f" in layers[{glob!r}]")
    if _ignored(name, module, rules.ignored) or (own.type is None and parameter.numel() < rules.min_elements):
        return None
    spec, build = _spec(name, module, local, parameter, own, deviation)
    if spec is None or spec.parameters >= parameter.numel():
        return None
    return GeneratedParameter(name, module, local, parameter, own, spec, build, tuple(parameter.shape))


def _ratio_for(
    model: nn.Module,
    parameters: list[_Parameter],
    settings: Settings,
    rules: _ParameterRules,
    target_ratio: float,
    code_plain: bool,
    coding: str,
) -> float | None:
    """Weights per g-net parameter for a file of the target ratio. Raises UsageError for a ratio that is not above 1."""
    trained = {name: (name, module, local, parameter) for name, module, local, parameter in parameters}

    def spec_function(of: _Parameter) -> Callable[[GNetOptions], GNetSpec | None]:
        deviation = _deviation(of[3])

        def spec(options: GNetOptions) -> GNetSpec | None:
            generated = _generated(of, replace(settings, ratio=options.ratio), rules, deviation)
            return generated.spec if generated else None

        return spec

    tensors = []
    for name, tensor, tied, buffer in tensors_of(model):
        spec = spec_function(trained[name]) if name in trained else None
        data = torch_bytes(name, tensor.detach().contiguous())
        codes = code_plain and name in trained and not buffer
        dtype = torch_dtype_name(name, tensor)
        tensors.append(_core.RecipeTensor(name, dtype, list(tensor.shape), tied or "", codes, data, spec))
    options, expected_bytes, fits = _core.gnets_for_ratio(tensors, settings.options(1.0), coding, target_ratio)
    if not fits:
        warn(
            f"no g-nets make a file {target_ratio:g}x smaller than the tensors; the smallest has {expected_bytes} bytes",
            UserWarning,
        )
    return options.ratio


def generated_parameters(
    model: nn.Module,
    settings: Settings,
    layers: Mapping[str, Mapping[str, Any]],
    ignore: object,
    min_elements: int,
    target_ratio: float | None = None,
    code_plain: bool = False,
    coding: str = "int8",
) -> list[GeneratedParameter]:
    """Parameters that get g-nets, in the order of ``model.named_parameters()``.

    ``code_plain``: whether others become short floats; ``coding``: what g-nets are stored as. With ``target_ratio`` the settings get the ratio whose file has the bytes of all tensors over it.

    Raises:
        UsageError: the model has no parameters, none of them gets g-nets, or an entry of ``layers`` matches none.
    """
    ignored = texts(ignore, "ignore_layers")
    parameters = list(_parameters(model))
    if not parameters:
        raise usage(f"the model ({type(model).__name__}) has no trainable parameters; g-nets generate parameters")
    if not isinstance(layers, Mapping) or not all(isinstance(given, Mapping) for given in layers.values()):
        raise usage('layers must map names to settings, as in {"0.*": {"hidden": [8]}}')
    for glob in layers:
        if not any(_core.matches_glob(glob, name) for name, *_ in parameters):
            raise usage(
                f"the entry {glob!r} of layers matches no parameter; names are those of model.named_parameters()"
            )
    rules = _ParameterRules(layers, ignored, min_elements)
    if target_ratio is not None:
        settings = replace(settings, ratio=_ratio_for(model, parameters, settings, rules, target_ratio, code_plain, coding))
    generated = [each for parameter in parameters if (each := _generated(parameter, settings, rules)) is not None]
    if not generated:
        raise usage(
            f"no parameter of the model ({type(model).__name__}) gets g-nets: those of {min_elements} elements and "
            "more are ignored, of other layer types, or not larger than their g-nets"
        )
    return generated
