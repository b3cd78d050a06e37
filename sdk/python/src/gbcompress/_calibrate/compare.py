"""Which entries of a candidate's outputs are compared with the original's: one rule for torch and onnxruntime. No torch.

Arrays are those of NumPy or tensors of torch, of one shape.
"""

from __future__ import annotations

import math
from typing import Any

from .._errors import GbzError, UsageError, warn


class OtherShapes(UsageError):
    """Outputs of a candidate cannot be compared with the original's, entry by entry."""


def finite(values: Any) -> Any:
    """Where the entries are neither NaN nor infinite, as booleans of the same shape."""
    return abs(values) < math.inf


def differs(before: Any, now: Any) -> bool:
    """Whether outputs cannot be compared entry by entry: ``now`` is not finite where ``before`` is, or differs from an
    infinity of ``before``. Entries that are NaN in ``before`` do not count."""
    alike = finite(before) & finite(now) | (before == now) | (before != before)
    return not bool(alike.all())


def squared_error(before: Any, now: Any) -> float:
    """The squared error, added up over the entries that are finite in both.

    Entries that are not finite in the original are masks as a rule: they count only where the candidate has something
    else. Where the original has such entries, each that differs adds the variance of the finite ones, as an output
    that tells nothing does: the entries may depend on the weights. Where it has none, the candidate's make the error
    infinite. Entries that are NaN in the original do not count.
    """
    error = _energy(now - before)
    if math.isfinite(error):
        return error
    some, other = finite(before), finite(now)
    wrong = int((some & ~other | ~some & (before == before) & (before != now)).sum())
    if wrong and bool(some.all()):
        return math.inf
    both, values = some & other, before[some]
    spread = _energy(values - values.mean()) / len(values) if len(values) else 0.0
    return _energy(now[both] - before[both]) + wrong * spread


def _energy(values: Any) -> float:
    wide = values.double() if hasattr(values, "double") else values
    return float((wide * wide).sum())


def check_some_finite(count: int, of: int) -> None:
    """Raises GbzError where the original's outputs have entries, and none to compare.

    Args:
        count: finite entries of all held-out batches; ``of``: all entries.
    """
    if count == 0 < of:
        raise GbzError(
            "no output of the model is finite in the batches that are compared; leave such samples out, or repair the "
            "model",
            "non_finite",
        )


def warn_if_incomparable(error: float) -> None:
    """Warns of a file that was chosen although no candidate's outputs could be compared.

    Args:
        error: the least one.
    """
    if not math.isfinite(error):
        warn(
            "no candidate could be compared: outputs of each are NaN or infinite at entries where the original's are "
            "not, or the reverse; give evaluate, which then chooses",
            UserWarning,
        )
