"""Exceptions and warnings. The core's messages are passed on word for word."""

from __future__ import annotations

import sys
import warnings


class GbzError(Exception):
    """An argument that is refused, or an operation that failed.

    ``code`` is stable, for programs: ``"corrupt"``, ``"truncated"``, ``"unsupported"``,
    ``"limit"``, ``"non_finite"``, ``"io"``, ... as ``gbcompress --json`` prints it.
    """

    def __init__(self, message: str, code: str = "failure") -> None:
        super().__init__(message)
        self.code = code


class NotFound(GbzError, FileNotFoundError):
    """A file, or a name in it, does not exist (``code`` ``"not_found"``)."""


class FileExists(GbzError, FileExistsError):
    """The output exists and ``overwrite=True`` was not given (``code`` ``"exists"``)."""


class UsageError(GbzError, ValueError):
    """An argument is of the wrong kind, out of range, or contradicts another (``code`` ``"usage"``)."""


class ShapeMismatch(GbzError, ValueError):
    """Names or shapes do not fit each other (``code`` ``"shape_mismatch"``)."""


class TargetNotMet(UserWarning):
    """A file was written that is larger than the size, or whose quality drop is larger than the drop,
    that was given as its limit."""


class StepsExceeded(UserWarning):
    """The optimizer makes more steps than ``prepare(steps=...)`` was given."""


_CLASSES: dict[str, type[GbzError]] = {
    "not_found": NotFound,
    "exists": FileExists,
    "usage": UsageError,
    "config": UsageError,
    "shape_mismatch": ShapeMismatch,
}


def of_code(code: str, message: str) -> GbzError:
    """The exception for one of the core's codes."""
    return _CLASSES.get(code, GbzError)(message, code)


def usage(message: str) -> UsageError:
    """An argument that cannot be."""
    return UsageError(message, "usage")


def mismatch(message: str) -> ShapeMismatch:
    """Names or shapes that do not fit."""
    return ShapeMismatch(message, "shape_mismatch")


def exists(filename: str) -> FileExists:
    """A file that would be replaced."""
    return FileExists(f"{filename} exists; give overwrite=True to replace it", "exists")


def warn(message: str, category: type[Warning]) -> None:
    """Warns at the line of the caller's program, however deep in this package or in torch it is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("gbcompress.", "torch.")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
