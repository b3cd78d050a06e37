#!/usr/bin/env python3
"""Trains the net of this folder, 64-128-64-10 with ReLU, on the 1,437 training digits.

    python3 train_mlp.py            writes mlp-64-128-64-10.safetensors

Needs Python with torch; the result is committed, so that nothing else here does. The held-out
digits are looked at once, after the last step."""

import json
import pathlib
import struct

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
EPOCHS, BATCH = 60, 64


def read_idx(name):
    raw = (FOLDER / name).read_bytes()
    shape = struct.unpack_from(f">{raw[3]}I", raw, 4)
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(shape)


def split(name):
    images = read_idx(f"{name}-images-idx3-ubyte").float().flatten(1) / 16
    return images, read_idx(f"{name}-labels-idx1-ubyte").long()


def save(path, tensors):
    """Writes float32 tensors in the safetensors format."""
    header, body = {}, b""
    for name, tensor in sorted(tensors.items()):
        data = tensor.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main():
    torch.manual_seed(1998)
    torch.set_num_threads(1)
    x, y = split("train")
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64),
                              torch.nn.ReLU(), torch.nn.Linear(64, 10))
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            # A little noise stands in for more writers.
            images = x[rows] + 0.05 * torch.randn(len(rows), 64)
            loss = torch.nn.functional.cross_entropy(net(images), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    save(FOLDER / "mlp-64-128-64-10.safetensors", net.state_dict())
    for name in ("train", "test"):
        x, y = split(name)
        right = (net(x).argmax(1) == y).sum().item()
        print(f"{name}: {right} of {len(y)} right, {100 * right / len(y):.2f} %")


if __name__ == "__main__":
    main()
