"""Tensors of a packed folder that threads decode while Transformers makes the model."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .. import _core
from .._files.arrays import _OF_TORCH, to_torch
from .._files.load import _REAL, Opened
from .._files.open import OpenFile, TensorSlice

#: Of an element type in the file: others that decoding makes of it with the values that torch's conversion gives.
_SAME = {"F32": ("BF16",), "BF16": ("F32",), "F16": ("F32",)}


class LoadingSlice(TensorSlice):
    """A tensor for the loader of Transformers, which takes all of it by ``slice[...]``."""

    #: The element type that the loader converts it to; None: none is known.
    wanted: torch.dtype | None = None
    _file: Loading

    def __getitem__(self, index: Any) -> Any:
        if index is not Ellipsis:
            return super().__getitem__(index)
        return self._file.take(self._name, self.wanted)


class Loading(OpenFile):
    """An open file, all of whose tensors are decoded from begin() on, into memory that then belongs to the model.

    The digest is computed meanwhile; checked() compares it.
    """

    def __init__(self, filename: str) -> None:
        """Raises NotFound, GbzError as of open()."""
        self.filename = filename
        self._device = None
        self._file = Opened(filename, "torch", None, None, 0, all=True)
        self._file._file.check_readable()
        self._index = {entry["name"]: i for i, entry in enumerate(self._file.tensors)}
        self._decoding: _core.Decoding | None = None
        self._places: dict[int, tuple[int, str]] = {}
        self._lock = threading.Lock()

    def begin(self, dtype: torch.dtype | None = None) -> None:
        """Has an effect once.

        Args:
            dtype: of most tensors of the model, where the loader then sets that of each slice.
        """
        if self._decoding is not None:
            return
        opened = self._opened()
        wanted: list[tuple[int, str]] = []
        name = _name(dtype)
        for index, entry in enumerate(opened.tensors):
            if entry["tied_to"] is not None:
                continue
            own = str(entry["dtype"])
            kind = name if name in _SAME.get(own, ()) else own
            if own in _REAL and name not in ("", kind):
                continue  # take() decodes it: memory would hold all values in both types
            self._places[index] = (len(wanted), kind)
            wanted.append((index, kind))
        self._decoding = opened._file.decode(wanted)

    def take(self, name: str, dtype: torch.dtype | None) -> torch.Tensor:
        """A tensor in memory of its own, for a loader that converts it to ``dtype``."""
        index = self._place(name)
        entry = self._opened().tensors[index]
        with self._lock:  # tied names that are taken twice share no memory
            place, kind = self._places.pop(index, (None, ""))
        if place is None or self._decoding is None or kind not in (entry["dtype"], _name(dtype)):
            tensor: torch.Tensor = self.get_tensor(name)
            return tensor
        return to_torch(entry["name"], kind, entry["shape"], self._decoding.take(place))

    def slices(self) -> dict[str, LoadingSlice]:
        """Of all names, tied ones too."""
        return {name: LoadingSlice(self, name) for name in self}

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """A damaged file is refused whatever is raised within the block. Closes the file."""
        try:
            yield
        finally:
            if self._decoding is not None:
                self._decoding.stop()
            self._opened().check_digest()
            self.close()

    def close(self) -> None:
        """Tensors that were not taken are not decoded any more."""
        if self._decoding is not None:
            self._decoding.stop()
        super().close()


def _name(dtype: torch.dtype | None) -> str:
    return "" if dtype is None else _OF_TORCH.get(str(dtype).removeprefix("torch."), "")


#: The file that this thread's from_pretrained() found last, until its quantizer or its loader takes it.
_resolved = threading.local()


def resolve(file: str) -> Loading:
    """Opens a file for the loader that follows."""
    _resolved.loading = Loading(file)
    loading: Loading = _resolved.loading
    return loading


def take_resolved() -> Loading | None:
    """That of resolve(), once."""
    loading: Loading | None = getattr(_resolved, "loading", None)
    _resolved.loading = None
    return loading


def loading_of(file: str, prepared: Loading | None) -> Loading:
    """The one that was prepared, if it is of this file and open, or a new one."""
    for loading in (prepared, take_resolved()):
        if loading is not None and loading._file is not None:
            if os.path.abspath(loading.filename) == os.path.abspath(file):
                return loading
            loading.close()
    return Loading(file)


def on_cpu(device_map: object) -> bool:
    """Whether a device map of Transformers puts everything on the CPU, as none does."""
    places = device_map.values() if isinstance(device_map, Mapping) else [device_map]
    return all(place is None or str(place) == "cpu" for place in places)
