"""Writes small_embedder/model.gbz: a network of 25 MB in float32, compressed to an eighth."""

import argparse
from pathlib import Path

import gbcompress as gbc
import numpy as np


def weights(width: int, hidden: int, seed: int) -> dict[str, np.ndarray]:
    """Stand-ins for the state_dict() of a trained model."""
    random = np.random.default_rng(seed)
    return {
        "up.weight": (random.standard_normal((hidden, width)) / width**0.5).astype(np.float32),
        "up.bias": (0.1 * random.standard_normal(hidden)).astype(np.float32),
        "down.weight": (random.standard_normal((width, hidden)) / hidden**0.5).astype(np.float32),
        "down.bias": (0.1 * random.standard_normal(width)).astype(np.float32),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1024, help="inputs and outputs")
    parser.add_argument("--hidden", type=int, default=3072, help="units in between")
    parser.add_argument("--ratio", type=float, default=8, help="how much smaller the file is")
    parser.add_argument("--seed", type=int, default=0, help="of the stand-ins")
    chosen = parser.parse_args()
    file = Path(__file__).parent / "small_embedder" / "model.gbz"
    report = gbc.save_file(
        weights(chosen.width, chosen.hidden, chosen.seed), file, ratio=chosen.ratio, overwrite=True
    )
    print(f"{file.name}: {report.input_bytes:,} bytes of weights in {report.file_bytes:,}")


if __name__ == "__main__":
    main()
