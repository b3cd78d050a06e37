"""One sentence where memory runs out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

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
