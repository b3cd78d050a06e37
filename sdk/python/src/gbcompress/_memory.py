"""One sentence where memory runs out, or is too little from the beginning."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from ._errors import GbzError

#: What torch's allocator of the CPU says, which raises no class of its own.
_CPU_WORDS = ("DefaultCPUAllocator", "can't allocate memory")


def ran_out(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on a GPU or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _CPU_WORDS)


@contextlib.contextmanager
def memory_errors(advice: str) -> Iterator[None]:
    """Raises GbzError with ``code`` ``"limit"`` and the advice where memory runs out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, GbzError) or not ran_out(error):
            raise
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise GbzError(f"memory ran out: {first}; {advice}", "limit") from error


def _group_memory(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that a control group leaves; None: it has no limit. Pages of files are given back when others need them."""
    try:
        limit, used = int((folder / "memory.max").read_text()), int((folder / "memory.current").read_text())
        rows = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        files = sum(int(value) for name, value in rows if name in ("active_file", "inactive_file"))
    except (OSError, ValueError):
        return None  # no control group of version 2, or "max"
    return max(0, limit - used + files)


def free_memory() -> int | None:
    """Bytes that this process may still take, of the machine's and of its control group's memory; None: unknown."""
    free = [of_group] if (of_group := _group_memory()) is not None else []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free.append(1024 * int(line.split()[1]))
    except (OSError, ValueError):
        pass  # a system without /proc
    return min(free, default=None)


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raises GbzError with ``code`` ``"limit"`` where fewer bytes are free.

    Args:
        needed: bytes beside what the process has.
        what: takes them: "calibration".
    """
    free = free_memory()
    if free is not None and free < needed:
        raise GbzError(
            f"{what} needs about {needed / 1e9:.2g} GB of memory, and {free / 1e9:.2g} GB are free; {advice}", "limit"
        )
