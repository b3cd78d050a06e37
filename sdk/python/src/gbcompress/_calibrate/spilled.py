"""Tensors that are read one after another, in a temporary file where they are many."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import IO, Any

import torch

#: Bytes of tensors that stay in memory; all others lie in the file.
_IN_MEMORY = 64 << 20


class Spilled:
    """Lists of float32 tensors. The file has no name and is gone with the process.

    Args:
        folder: of the file; None: the system's folder for temporary files.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder, self._bytes = folder, 0
        self._file: IO[bytes] | None = None
        self._lists: list[list[torch.Tensor | tuple[int, torch.Size, torch.device]]] = []

    def __len__(self) -> int:
        return len(self._lists)

    def append(self, tensors: Sequence[torch.Tensor]) -> None:
        """Keeps float32 tensors. Raises OSError where the disk is full."""
        kept: list[torch.Tensor | tuple[int, torch.Size, torch.device]] = []
        for tensor in tensors:
            if self._bytes + 4 * tensor.numel() <= _IN_MEMORY:
                self._bytes += 4 * tensor.numel()
                kept.append(tensor.clone())  # a part of a larger one keeps the whole alive
                continue
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # closed with this
            at = self._file.seek(0, 2)
            data: Any = tensor.detach().cpu().contiguous().numpy()
            self._file.write(memoryview(data).cast("B"))
            kept.append((at, tensor.shape, tensor.device))
        self._lists.append(kept)

    def read(self, number: int) -> list[torch.Tensor]:
        """A list of tensors, on their device."""
        return [each if isinstance(each, torch.Tensor) else self._read(*each) for each in self._lists[number]]

    def _read(self, at: int, shape: torch.Size, device: torch.device) -> torch.Tensor:
        assert self._file is not None
        tensor = torch.empty(shape)
        self._file.seek(at)
        data: Any = tensor.numpy()
        found = self._file.readinto(memoryview(data).cast("B")) if tensor.numel() else 0  # type: ignore[attr-defined]
        if found != 4 * tensor.numel():
            raise OSError("a temporary file has lost some of its bytes")
        return tensor.to(device)
