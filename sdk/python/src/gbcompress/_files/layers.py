"""Sizes and errors of single tensors: what ``[[layer]]`` tables set on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from .. import _core
from .._arguments import kind_of, positive
from .._errors import usage

#: By names, where ``*`` stands for any characters: ``{"lm_head.*": {"bits": 4.5}}``.
Layers: TypeAlias = "Mapping[str, Mapping[str, float]]"

#: A name, bits and max_error, of which one is None.
Layer = tuple[str, float | None, float | None]

#: Of ``bits``, as the command line takes them.
_FEWEST_BITS, _MOST_BITS = 0.1, 32


def _layer(match: str, given: object) -> Layer:
    if not isinstance(given, Mapping) or len(given) != 1 or not set(given) <= {"bits", "max_error"}:
        shown = f"{{{', '.join(map(repr, given))}}}" if isinstance(given, Mapping) else kind_of(given)
        raise usage(f'layers[{match!r}] must be {{"bits": B}} or {{"max_error": E}}, got {shown}')
    if "max_error" in given:
        return match, None, positive(given["max_error"], f"max_error of layers[{match!r}]", below=1)
    bits = positive(given["bits"], f"bits of layers[{match!r}]")
    if not _FEWEST_BITS <= bits <= _MOST_BITS:
        raise usage(f"bits of layers[{match!r}] must be from {_FEWEST_BITS:g} to {_MOST_BITS:g}, got {bits:g}")
    return match, bits, None


def checked_layers(layers: object, names: Iterable[str], exact: Sequence[str] = (), lossless: bool = False) -> list[Layer]:
    """In the order in which they were given; the last one that matches a tensor counts.

    Args:
        names: of the tensors.
        exact: names that stay bit for bit.
        lossless: all of them do.

    Raises:
        UsageError: an entry of another form, or one without an effect.
    """
    if layers is None:
        return []
    if not isinstance(layers, Mapping) or not all(isinstance(match, str) for match in layers):
        raise usage(f'layers must map names to sizes or errors, as in {{"head.*": {{"bits": 4.5}}}}, got {kind_of(layers)}')
    if layers and lossless:
        raise usage("layers has no effect with lossless=True; leave out one of them")
    found, known = [_layer(match, given) for match, given in layers.items()], list(names)
    for match in layers:
        own = [name for name in known if _core.matches_glob(match, name)]
        if not own:
            raise usage(f"layers[{match!r}] matches no tensor; names are those of the tensors")
        if all(any(_core.matches_glob(glob, name) for glob in exact) for name in own):
            raise usage(f"layers[{match!r}] names tensors that exact keeps bit for bit; leave out one of them")
    return found
