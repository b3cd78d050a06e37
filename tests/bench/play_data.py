#!/usr/bin/env python3
"""From which plays is this? A text classification made from tinyshakespeare, for lstm- and transformer-classifier.

The file is one play after another; the target is the quarter of it that a piece of a speech is from. A row
is WORDS words of the VOCABULARY - 2 most frequent ones (0 is padding, 1 any other word). Every fifth speech
is held out, so that no speech is in both parts.
"""
import argparse
import collections
import re

import numpy as np
from safetensors.numpy import save_file

VOCABULARY, WORDS, QUARTERS = 2000, 24, 4


def speeches(text: str) -> list[list[str]]:
    """Words and punctuation of each speech, without who speaks."""
    parts = (block.partition(":\n")[2] for block in text.split("\n\n"))
    return [re.findall(r"[a-z']+|[.,;:!?]", part.lower()) for part in parts if part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("out")
    arguments = parser.parse_args()
    with open(arguments.text, encoding="utf-8") as file:
        all_speeches = speeches(file.read())
    total = sum(len(words) for words in all_speeches)
    parts: dict[str, list[tuple[list[str], int]]] = {"train": [], "test": []}
    seen = 0
    for i, words in enumerate(all_speeches):
        target = min(seen * QUARTERS // total, QUARTERS - 1)
        seen += len(words)
        part = parts["test" if i % 5 == 4 else "train"]
        part += [(words[at : at + WORDS], target) for at in range(0, len(words), WORDS)]
    counts = collections.Counter(word for words, _ in parts["train"] for word in words)
    index = {word: i + 2 for i, (word, _) in enumerate(counts.most_common(VOCABULARY - 2))}
    tensors = {}
    for part, prefix in (("train", ""), ("test", "test_")):
        rows = np.zeros((len(parts[part]), WORDS), np.int64)
        for row, (words, _) in zip(rows, parts[part], strict=True):
            row[: len(words)] = [index.get(word, 1) for word in words]
        order = np.random.default_rng(0).permutation(len(rows))
        tensors[prefix + "inputs"] = rows[order]
        tensors[prefix + "targets"] = np.array([target for _, target in parts[part]], np.int64)[order]
    save_file(tensors, arguments.out)
    most = max(np.bincount(tensors["test_targets"])) / len(tensors["test_targets"])
    print(f"{len(parts['train'])} and {len(parts['test'])} pieces; the most frequent quarter has {most:.1%}")


if __name__ == "__main__":
    main()
