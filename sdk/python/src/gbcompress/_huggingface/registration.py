"""Registers with Transformers as soon as its models are imported, before this package or after it."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The name that programs know packed folders by: ``quant_method`` in config.json.
METHOD = "gbcompress"

#: Every from_pretrained() of a model imports it, and it imports the tables of quantizers.
_WATCHED = "transformers.modeling_utils"


class _Watcher(importlib.abc.MetaPathFinder):
    """Lets the other finders find the module, and registers when it has been executed."""

    def __init__(self) -> None:
        self._asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _WATCHED or self._asking:
            return None
        self._asking = True
        try:
            found = (finder.find_spec(fullname, path, target) for finder in list(sys.meta_path))
            spec = next((each for each in found if each is not None), None)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            self._register_after(spec.loader)
        return spec

    def _register_after(self, loader: Any) -> None:
        """The loader is of this one module."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _register()

        loader.exec_module = exec_module


def _register() -> None:
    from .transformers import register

    register()


def register_when_imported() -> None:
    """Imports nothing of Transformers, which may be absent."""
    if _WATCHED in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Watcher())
