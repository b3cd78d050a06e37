"""Modules of torch as callers hold them. Importing this imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside what torch.compile and (Distributed)DataParallel make of one."""
    from torch import nn

    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(
            model, nn.DataParallel | nn.parallel.DistributedDataParallel
        ):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner
