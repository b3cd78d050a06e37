"""A network that travels in its package: small_embedder.embed(rows)."""

from importlib.resources import as_file, files

import gbcompress
import numpy as np


def _load() -> dict[str, np.ndarray]:
    with as_file(files(__package__) / "model.gbz") as path:
        return gbcompress.load_file(path)


_weights = _load()


def embed(rows: np.ndarray) -> np.ndarray:
    """[n, width] -> [n, width], rows of length 1."""
    hidden = np.maximum(rows @ _weights["up.weight"].T + _weights["up.bias"], 0)
    values = hidden @ _weights["down.weight"].T + _weights["down.bias"]
    return values / np.linalg.norm(values, axis=1, keepdims=True)
