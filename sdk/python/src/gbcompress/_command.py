"""The command line in the package: `gbcompress`, and `python -m gbcompress`."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn


def _folder_of(package: str) -> Path | None:
    """Folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    return Path(found.origin).parent if found and found.origin else None


def main() -> NoReturn:
    """Replaces this process by the program, with the same arguments: by the one of gbcompress-train, if
    that is installed, else by the one without the verbs that need LibTorch.

    The former uses the libraries of the torch that this Python would import, unless $GBCOMPRESS_TORCH
    names others.
    """
    whole, torch = _folder_of("gbcompress_train"), _folder_of("torch")
    if torch:
        os.environ.setdefault("GBCOMPRESS_TORCH", str(torch))
    program = (whole or Path(__file__).parent) / "bin" / "gbcompress"
    os.execv(program, ["gbcompress", *sys.argv[1:]])
