"""The program that the package gbcompress starts where this one is installed."""

from pathlib import Path

#: Of the whole command; it opens the libraries of the torch that $GBCOMPRESS_TORCH names.
PROGRAM = Path(__file__).parent / "bin" / "gbcompress"
