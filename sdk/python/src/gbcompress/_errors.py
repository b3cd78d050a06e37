"""Exceptions. The core's messages are passed on word for word."""

from __future__ import annotations


class GbzError(Exception):
    """Anything that gbcompress refuses or cannot do.

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
    """An argument is out of range or contradicts another (``code`` ``"usage"``)."""


class ShapeMismatch(GbzError, ValueError):
    """Names or shapes do not fit each other (``code`` ``"shape_mismatch"``)."""


class TargetNotMet(UserWarning):
    """The file was written, but the size that was asked could not be reached."""


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
