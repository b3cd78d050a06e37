"""Processes of torch.distributed that train one model by g-nets."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._errors import GbzError, usage


def _parallel_in(model: Any) -> nn.parallel.DistributedDataParallel | None:
    """The module around the model that averages gradients, if there is one."""
    while isinstance(model, nn.Module):
        if isinstance(model, nn.parallel.DistributedDataParallel):
            return model
        model = getattr(model, "_orig_mod", None)
    return None


def _group_of(model: nn.Module, group: Any) -> Any:
    """The process group: the given one, that of DistributedDataParallel, or the default group."""
    if group is not None:
        if not dist.is_available() or not isinstance(group, dist.ProcessGroup):
            raise usage(f"group must be a process group of torch.distributed, got {group!r}")
        return group
    if (parallel := _parallel_in(model)) is not None:
        return parallel.process_group
    return dist.group.WORLD if dist.is_available() and dist.is_initialized() else None


class Ranks:
    """The ranks of one process group, or a single process. All methods but owner() are collective.

    Collectives run on the device of their tensors, so the group's backend must carry that device: Gloo for models
    on the CPU, NCCL for those on GPUs.

    The reference to the group is weak, so that destroy_process_group() ends the group's threads. Threads of Gloo that
    run until the interpreter ends release tensors without it and abort the process.
    """

    def __init__(self, model: nn.Module, group: Any) -> None:
        found = _group_of(model, group)
        self._reference = None if found is None else weakref.ref(found)
        self.rank = 0 if found is None else dist.get_rank(found)
        self.world = 1 if found is None else dist.get_world_size(found)
        if self.rank < 0:
            raise usage("this process is not part of the group; make the bottleneck in the group's processes alone")
        self.averaged = _parallel_in(model) is not None  #: gradients arrive averaged

    @property
    def _group(self) -> Any:
        """The group, until destroy_process_group()."""
        found = None if self._reference is None else self._reference()
        if found is None:
            raise usage("the process group of this bottleneck has been destroyed; make the bottleneck again")
        return found

    def _call(self, where: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except RuntimeError as error:  # DistBackendError and its kin are derived from it
            lines = str(error).strip().splitlines()
            cause = lines[-1].strip() if lines else type(error).__name__
            raise GbzError(
                f"rank {self.rank} of {self.world} lost its process group in {where}: {cause}; end all ranks and "
                "start them again from the last file"
            ) from error

    def _global(self, rank: int) -> int:
        return dist.get_global_rank(self._group, rank)

    def broadcast(self, where: str, tensors: Iterable[tuple[Tensor, int]]) -> None:
        """Every rank gets each tensor from its owner."""
        if self.world == 1:
            return

        def act() -> None:
            for work in [
                dist.broadcast(tensor, self._global(owner), group=self._group, async_op=True)
                for tensor, owner in tensors
            ]:
                work.wait()

        self._call(where, act)

    def average(self, where: str, tensors: list[Tensor]) -> None:
        """Each tensor becomes its mean over the ranks."""
        if self.world == 1:
            return

        def act() -> None:
            works = [dist.all_reduce(tensor, group=self._group, async_op=True) for tensor in tensors]
            for work, tensor in zip(works, tensors, strict=True):
                work.wait()
                tensor.div_(self.world)

        self._call(where, act)

    def agree(self, text: str, device: torch.device) -> None:
        """Raises UsageError on every rank where the texts of the ranks differ."""
        if self.world == 1:
            return
        digest = list(hashlib.sha256(text.encode()).digest()[:8])
        low = torch.tensor(digest, dtype=torch.int32, device=device)
        high = low.clone()

        def act() -> None:
            dist.all_reduce(low, dist.ReduceOp.MIN, group=self._group)
            dist.all_reduce(high, dist.ReduceOp.MAX, group=self._group)

        self._call(f"its first collective (backend {dist.get_backend(self._group)}, tensors of {device})", act)
        if not torch.equal(low, high):
            raise usage(
                "the ranks do not agree on the g-nets; give every rank the same model, settings and seed"
            )
