"""Reads files of weights: safetensors by our own few lines, PyTorch's formats through torch."""

import json
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
          "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}


def read_safetensors(path):
    """{name: tensor} of a .safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            kind = DTYPES[entry["dtype"]]
            flat = torch.frombuffer(data[begin:end], dtype=kind) if end > begin else torch.empty(0, dtype=kind)
            tensors[name] = flat.view(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    """Writes {name: tensor} as a .safetensors file."""
    names = {kind: name for name, kind in DTYPES.items()}
    header, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        part = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_model(path, parts=()):
    """{name: tensor} of the model in a file; `parts` are the keys that lead to its state dict in a checkpoint."""
    if path.endswith(".safetensors"):
        return read_safetensors(path)
    if path.endswith(".jit"):
        return {k: v.detach() for k, v in torch.jit.load(path, map_location="cpu").state_dict().items()}
    state = torch.load(path, map_location="cpu", weights_only=True)
    for part in parts:
        state = state[part]
    return {k: v for k, v in state.items() if isinstance(v, torch.Tensor)}


def matched(expanded, original):
    """`expanded` under the names of `original`: a checkpoint's prefix, such as `model.`, may have come or gone."""
    whole = {""} | {name[:i + 1] for name in [*expanded, *original] for i, c in enumerate(name) if c == "."}
    fits = lambda came, gone: {n: expanded[came + n.removeprefix(gone)] for n in original
                               if came + n.removeprefix(gone) in expanded}
    return max([fits("", "")] + [fits(p, "") for p in sorted(whole)] + [fits("", p) for p in sorted(whole)], key=len)
