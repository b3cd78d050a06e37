"""Streams of torch.distributed.checkpoint: every bit comes back, and damage is named."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

import gbcompress as gbc

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")
distributed = pytest.importorskip("gbcompress.distributed")


def packed(data: bytes, piece: int = 1 << 30) -> bytes:
    out = io.BytesIO()
    out.close = lambda: None  # type: ignore[method-assign]
    with distributed.GbzStream().transform_to(out) as stream:
        for at in range(0, len(data), piece):
            assert stream.write(data[at : at + piece]) == len(data[at : at + piece])
    return out.getvalue()


def unpacked(data: bytes) -> bytes:
    return distributed.GbzStream().transform_from(io.BytesIO(data)).read(-1)


def values_of(kind: str, count: int) -> bytes:
    random = np.random.default_rng(3)
    if kind == "noise":
        return random.bytes(count)
    weights = (random.standard_normal(count // 4 + 2) * 0.02).astype(np.float32)
    raw = weights.view(np.uint16)[1::2].tobytes() if kind == "bf16" else weights.tobytes()
    return (raw * 2)[:count] if kind == "bf16" else raw[:count]


@pytest.mark.parametrize("kind", ["noise", "bf16", "f32"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 100_003, (1 << 22) + 13])
def test_streams_come_back(kind: str, size: int) -> None:
    data = values_of(kind, size)
    assert len(data) == size
    stored = packed(data)
    assert unpacked(stored) == data
    assert len(stored) <= size + 80  # magic and up to five heads
    if kind != "noise" and size > 100_000:
        assert len(stored) < 0.9 * size
    assert packed(data, piece=65_537) == stored
    reader = distributed.GbzStream().transform_from(io.BytesIO(stored))
    assert not reader.seekable()
    assert b"".join(iter(lambda: reader.read(4097), b"")) == data


def test_damaged_streams_are_refused() -> None:
    data = values_of("bf16", 40_000)
    stored = packed(data)
    for cut in (0, 4, 5, 12, 19, 300, len(stored) - 1):
        with pytest.raises(gbc.GbzError, match="ends in frame") as caught:
            unpacked(stored[:cut])
        assert caught.value.code == "truncated"
    random = np.random.default_rng(4)
    for _ in range(2000):
        flipped = bytearray(stored)
        place = int(random.integers(len(flipped)))
        flipped[place] ^= 1 << int(random.integers(8))
        try:
            # Of a raw packing, the element size says nothing; trailing bytes are another item's.
            assert unpacked(bytes(flipped)) == data
        except gbc.GbzError as error:
            assert error.code in ("corrupt", "truncated", "unsupported"), error
    with pytest.raises(gbc.GbzError, match="does not begin as GbzStream's do"):
        unpacked(b"PK\3\4" + stored[4:])
    with pytest.raises(gbc.GbzError, match="version 2; upgrade"):
        unpacked(stored[:4] + b"\2" + stored[5:])
    with pytest.raises(gbc.GbzError, match="version 2; upgrade"):
        distributed.GbzStream.from_descriptor("2")
    huge = stored[:5] + b"\0\1" + b"\xff" * 12
    with pytest.raises(gbc.GbzError, match="frame 0 of the stream is too large"):
        unpacked(huge)


def net() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 300).to(torch.bfloat16))


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": 7, "name": "run"}


def tensors_in(value: object) -> list:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


@pytest.fixture
def gloo(folder: Path):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model[1](model[0](torch.randn(5, 300)).to(torch.bfloat16)).float().square().mean().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("threads", [1, 3])
def test_checkpoints_of_a_process_group(gloo: None, folder: Path, threads: int) -> None:
    state = state_of(*trained())
    writer = dcp.FileSystemWriter(
        folder / "packed", thread_count=threads, _extensions=[distributed.GbzStream()]
    )
    dcp.save(state, storage_writer=writer)
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder / "plain"))
    blank_model = net()
    blank = state_of(blank_model, torch.optim.AdamW(blank_model.parameters(), lr=1e-3))
    for tensor in tensors_in(blank):
        tensor.detach().zero_()
    blank["step"] = 0
    reader = dcp.FileSystemReader(folder / "packed", _extension_registry=distributed.registry())
    dcp.load(blank, storage_reader=reader)
    assert blank["step"] == 7
    expected, found = tensors_in(state), tensors_in(blank)
    assert len(expected) == len(found) > 12
    for a, b in zip(expected, found, strict=True):
        bits = [tensor.detach().reshape(-1).view(torch.uint8) for tensor in (a, b)]
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(*bits)
    sizes = [sum(f.stat().st_size for f in (folder / name).glob("*.distcp")) for name in ("packed", "plain")]
    assert sizes[0] < 0.92 * sizes[1]


def test_a_reader_without_the_registry_and_damage_are_named(gloo: None, folder: Path) -> None:
    from torch.distributed.checkpoint.api import CheckpointException

    state = {"w": torch.ones(10)}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder / "p", _extensions=[distributed.GbzStream()]))
    with pytest.raises(CheckpointException, match="stream.gbz"):
        dcp.load(state, storage_reader=dcp.FileSystemReader(folder / "p"))
    data = next((folder / "p").glob("*.distcp"))
    damaged = bytearray(data.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    data.write_bytes(damaged)
    reader = dcp.FileSystemReader(folder / "p", _extension_registry=distributed.registry())
    with pytest.raises(CheckpointException, match="frame 0 of the stream|stream does not begin|GbzStream's"):
        dcp.load(state, storage_reader=reader)
