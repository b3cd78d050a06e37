"""The command `gbcompress` with the verbs that need LibTorch, started from Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from ._arguments import path
from ._command import _folder_of
from ._errors import GbzError, of_code, usage, warn

#: What the program writes before its warnings, and a warning about the given weights, which training leaves.
_WARNING, _OF_ENERGY = "warning: ", "keep less than half of their energy"


def found_program(given: object) -> str:
    """The program that trains: the given one, that of the package gbcompress_train, or ``gbcompress`` on the PATH.

    Raises:
        UsageError: there is none.
    """
    if given is not None:
        name = path(given, "program")
        if not os.access(name, os.X_OK) or os.path.isdir(name):
            raise usage(f"program {name} is not there or cannot be executed")
        return name
    whole = _folder_of("gbcompress_train")
    if whole is not None:
        return str(whole / "bin" / "gbcompress")
    on_path = shutil.which("gbcompress")
    if on_path is None:
        raise usage(
            "strategies are plugins of the command gbcompress with LibTorch, which is not on the PATH; install the wheel "
            "gbcompress_train, which scripts/wheel builds, or give program="
        )
    return on_path


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    torch = _folder_of("torch")
    if torch is not None and _folder_of("gbcompress_train") is not None:
        environment.setdefault("GBCOMPRESS_TORCH", str(torch))
    return environment


def _failure(out: str, err: str, status: int) -> GbzError:
    try:
        error = json.loads(out)["error"]
        return of_code(error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        lines = err.strip().splitlines() or [f"it printed nothing and ended with status {status}"]
        return GbzError(f"the program gbcompress failed: {lines[-1].removeprefix('gbcompress: ')}")


def run_program(program: str, arguments: Sequence[str], verbose: bool) -> dict[str, Any]:
    """The JSON object that a verb prints. Its warnings become ``UserWarning``.

    Args:
        program: of found_program().
        arguments: without ``--json``.
        verbose: its progress and warnings go to standard error as they come.

    Raises:
        GbzError: the program failed, with its message and code.
    """
    try:
        done = subprocess.run(
            [program, *arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            env=_environment(),
        )
    except OSError as error:
        raise GbzError(f"program {program} cannot be started: {error.strerror}", "io") from error
    err = done.stderr or ""
    if done.returncode != 0:
        raise _failure(done.stdout, err, done.returncode)
    for line in err.splitlines():
        text = line.removeprefix("gbcompress: ")
        if text.startswith(_WARNING) and _OF_ENERGY not in text:
            warn(text.removeprefix(_WARNING), UserWarning)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise GbzError(f"{program} did not print a JSON object; give the program of this version") from error
    return result
