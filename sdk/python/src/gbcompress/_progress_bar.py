"""Progress bars. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], what: str) -> Iterable[T]:
    """With a bar on a terminal, where tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    bar: Iterable[T] = tqdm(items, desc=what, disable=None)
    return bar
