"""Writes a public data set, as people download it, into one file for `--data tensors:FILE.safetensors`.

    python3 convert.py KIND FOLDER -o FILE.safetensors

KIND and what FOLDER holds (unpacked archives):

    cifar100        cifar-100-binary: train.bin, test.bin
    tiny-imagenet   tiny-imagenet-200: wnids.txt, train/, val/ with val_annotations.txt; needs Pillow
    imagenet32      train_data_batch_1.npz ... and val_data.npz (the NumPy form of the downsampled ImageNet)
    ag-news         train.csv, test.csv: class, title, description
    dbpedia         train.csv, test.csv: class, title, abstract
    imdb            aclImdb: train/pos, train/neg, test/pos, test/neg

Images become float16 [rows, 3, 32, 32] with mean and standard deviation of the training set removed per channel, texts
int32 [rows, --length] with 0 for padding and 1 for words outside of the --vocabulary most frequent ones. Needs NumPy and
safetensors.
"""

import argparse
import collections
import csv
import re
import sys
from pathlib import Path

import numpy as np

PADDING, UNKNOWN = 0, 1
SIDE = 32
WORD = re.compile(r"[a-z0-9']+|[^\sa-z0-9']")


class Refused(Exception):
    """What is wrong with the input, in one sentence."""


def existing(path):
    if not path.exists():
        raise Refused(f"{path} does not exist; unpack the archive and name its folder")
    return path


def classes_from_zero(labels, count, where):
    labels = np.asarray(labels, np.int64)
    if labels.size and not (0 <= labels.min() and labels.max() < count):
        raise Refused(f"{where} has a label outside of 0 to {count - 1}")
    return labels


def cifar100(folder):
    """Records of a coarse label, a fine label and 3,072 pixels, channel by channel."""

    def part(name):
        raw = np.fromfile(existing(folder / name), np.uint8)
        if raw.size == 0 or raw.size % 3074:
            raise Refused(f"{folder / name} is {raw.size} bytes, no whole number of records of 3074")
        records = raw.reshape(-1, 3074)
        return records[:, 2:].reshape(-1, 3, SIDE, SIDE), classes_from_zero(records[:, 1], 100, folder / name)

    return part("train.bin"), part("test.bin")


def tiny_imagenet(folder):
    """Images of 64 x 64 pixels, each 2 x 2 averaged."""
    try:
        from PIL import Image
    except ImportError:
        raise Refused("tiny-imagenet needs Pillow; run: pip install pillow") from None
    names = existing(folder / "wnids.txt").read_text().split()
    number = {name: i for i, name in enumerate(names)}

    def pixels(path):
        with Image.open(path) as image:
            whole = np.asarray(image.convert("RGB"), np.uint16)
        if whole.shape != (64, 64, 3):
            raise Refused(f"{path} has {whole.shape[1]} x {whole.shape[0]} pixels, not 64 x 64")
        small = (whole.reshape(SIDE, 2, SIDE, 2, 3).sum(axis=(1, 3)) + 2) // 4
        return small.astype(np.uint8).transpose(2, 0, 1)

    train = [(path, number[name]) for name in names for path in sorted((existing(folder / "train") / name / "images").glob("*.JPEG"))]
    lines = existing(folder / "val" / "val_annotations.txt").read_text().splitlines()
    val = [(folder / "val" / "images" / line.split("\t")[0], number[line.split("\t")[1]]) for line in lines if line]

    def part(rows, where):
        if not rows:
            raise Refused(f"{where} holds no images")
        return np.stack([pixels(path) for path, _ in rows]), np.array([label for _, label in rows], np.int64)

    return part(train, folder / "train"), part(val, folder / "val")


def imagenet32(folder):
    def part(paths, where):
        if not paths:
            raise Refused(f"{where} holds no file of that kind; get the .npz files, not the pickled ones")
        data, labels = [], []
        for path in paths:
            with np.load(existing(path), allow_pickle=False) as file:
                data.append(file["data"].reshape(-1, 3, SIDE, SIDE))
                labels.append(file["labels"])
        return np.concatenate(data), classes_from_zero(np.concatenate(labels).astype(np.int64) - 1, 1000, where)

    batches = sorted(folder.glob("train_data_batch_*.npz"), key=lambda path: int(path.stem.rsplit("_", 1)[1]))
    return part(batches, folder), part(sorted(folder.glob("val_data.npz")), folder)


def of_csv(classes):
    def read(folder):
        def part(name):
            labels, texts = [], []
            with open(existing(folder / name), newline="", encoding="utf-8") as file:
                for number, row in enumerate(csv.reader(file), 1):
                    if len(row) < 2 or not row[0].strip().isdigit():
                        raise Refused(f"{folder / name}, line {number}, is not a class number and texts")
                    labels.append(int(row[0]) - 1)
                    texts.append(" ".join(row[1:]))
            return texts, classes_from_zero(labels, classes, folder / name)

        return part("train.csv"), part("test.csv")

    return read


def imdb(folder):
    def part(name):
        paths = [(path, label) for label, kind in enumerate(("neg", "pos"))
                 for path in sorted(existing(folder / name / kind).glob("*.txt"))]  # fmt: skip
        if not paths:
            raise Refused(f"{folder / name} holds no reviews")
        return [path.read_text(encoding="utf-8").replace("<br />", " ") for path, _ in paths], np.array([label for _, label in paths], np.int64)

    return part("train"), part("test")


IMAGES = {"cifar100": cifar100, "tiny-imagenet": tiny_imagenet, "imagenet32": imagenet32}
TEXTS = {"ag-news": of_csv(4), "dbpedia": of_csv(14), "imdb": imdb}


def normalized(train, test, rows=4096):
    """float16, some rows at a time: the sums of a million images take no copy of them."""
    sums, squares, count = np.zeros(3), np.zeros(3), 0
    for first in range(0, len(train), rows):
        part = train[first : first + rows].astype(np.float64) / 255
        sums, squares, count = sums + part.sum(axis=(0, 2, 3)), squares + np.square(part).sum(axis=(0, 2, 3)), count + part[:, 0].size
    mean = sums / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 1e-12))
    scale, shift = (1 / (255 * deviation)).astype(np.float32), (-mean / deviation).astype(np.float32)

    def apply(images):
        result = np.empty(images.shape, np.float16)
        for first in range(0, len(images), rows):
            part = images[first : first + rows].astype(np.float32)
            result[first : first + rows] = part * scale[:, None, None] + shift[:, None, None]
        return result

    return apply(train), apply(test)


def tokens(train, test, vocabulary, length):
    """Numbers of words: the most frequent of the training texts, ties in alphabetical order."""
    words = [WORD.findall(text.lower()) for text in train]
    counts = collections.Counter(word for text in words for word in text)
    known = sorted(counts, key=lambda word: (-counts[word], word))[: vocabulary - 2]
    number = {word: i for i, word in enumerate(known, 2)}

    def apply(texts):
        result = np.full((len(texts), length), PADDING, np.int32)
        for row, text in zip(result, texts):
            found = [number.get(word, UNKNOWN) for word in text[:length]] or [UNKNOWN]
            row[: len(found)] = found
        return result

    return apply(words), apply([WORD.findall(text.lower()) for text in test])


def convert(kind, folder, vocabulary, length):
    (train, train_labels), (test, test_labels) = (IMAGES | TEXTS)[kind](folder)
    inputs = normalized(train, test) if kind in IMAGES else tokens(train, test, vocabulary, length)
    # A fixed order of classes would fill whole batches with one of them before the first shuffle.
    order = np.random.default_rng(0).permutation(len(train_labels))
    return {"inputs": inputs[0][order], "targets": train_labels[order], "test_inputs": inputs[1], "test_targets": test_labels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(IMAGES | TEXTS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--vocabulary", type=int, default=30000, help="words of texts, padding included (30000)")
    parser.add_argument("--length", type=int, default=128, help="words of a text at most (128)")
    arguments = parser.parse_args()
    from safetensors.numpy import save_file

    if arguments.vocabulary < 3 or arguments.length < 1:
        parser.error("--vocabulary must be at least 3, --length at least 1")
    try:
        tensors = convert(arguments.kind, arguments.folder, arguments.vocabulary, arguments.length)
        part = arguments.output.with_name(arguments.output.name + ".part")
        save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, part)
        part.replace(arguments.output)
    except (Refused, OSError) as error:
        sys.exit(f"convert.py: {error}")
    for name, tensor in tensors.items():
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")


if __name__ == "__main__":
    main()
