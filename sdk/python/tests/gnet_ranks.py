"""One rank of test_bottleneck_ranks.py.   gnet_ranks.py MODE RANK WORLD STORE FOLDER"""

from __future__ import annotations

import os
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import torch

# torch.optim imports it, and imported while a group exists it keeps that group: Gloo's threads then live until the
# interpreter ends, where one that releases a tensor aborts the process ("terminate called without an active exception").
import torch._dynamo  # noqa: F401
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gbcompress as gbc


def net(rank: int, last: int = 30) -> nn.Sequential:
    torch.manual_seed(rank)  # the ranks begin with different weights, and rank 0's are the model
    return nn.Sequential(nn.Linear(40, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, last))


def batch(step: int, part: int, parts: int) -> torch.Tensor:
    x = torch.randn(64, 40, generator=torch.Generator().manual_seed(step))
    return x.chunk(parts)[part]


def train(model: nn.Module, gnets: gbc.GenomicBottleneck, inputs: list[torch.Tensor]) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    losses = []
    for x in inputs:
        optimizer.zero_grad()
        gnets.zero_grad()
        gnets.predict_weights()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        gnets.backward()
        optimizer.step()
        gnets.step()
        losses.append(loss.item())
    return losses


def same(mode: str, rank: int, world: int, folder: Path) -> None:
    """All ranks see the same batches, so that averages change no bit."""
    model: nn.Module = net(rank)
    if mode == "ddp":
        model = DistributedDataParallel(model)
    gnets = gbc.GenomicBottleneck(model, hidden=8, lr=1e-2)
    owners = [layer.owner for layer in gnets._layers]
    assert owners == ([0, 1] if world == 2 else [0, 0]), owners
    train(model, gnets, [batch(step, 0, 1) for step in range(6)])
    path = folder / f"{mode}-{world}.gbz"
    size = gnets.save(path)
    assert size == path.stat().st_size
    gnets.load(path)
    for name, value in gbc.load_file(path, framework="torch").items():
        assert torch.equal(gnets.model.state_dict()[name], value), name
    again = folder / f"{mode}-{world}-again.gbz"
    gnets.save(again)
    assert again.read_bytes() == path.read_bytes()


def coded(rank: int, world: int, folder: Path) -> None:
    """Integers, towards a size: every rank has all g-nets."""
    model = net(rank)
    gnets = gbc.GenomicBottleneck(
        model, 20, hidden=8, lr=1e-2, coding="coded", rate_weight=1.0, predictions=500, max_bytes=2600
    )
    train(model, gnets, [batch(step, 0, 1) for step in range(20)])
    assert gnets.save(folder / f"coded-{world}.gbz") <= 2600


def halves(rank: int, world: int, folder: Path) -> None:
    """Each rank sees its part of a batch, and the weights stay equal."""
    model = net(rank)
    gnets = gbc.GenomicBottleneck(model, hidden=8, lr=1e-2)
    losses = train(model, gnets, [batch(step % 4, rank, world) for step in range(60)])
    assert losses[-1] < losses[0], losses
    for value in model.state_dict().values():
        if value.is_floating_point():
            low, high = value.clone(), value.clone()
            dist.all_reduce(low, dist.ReduceOp.MIN)
            dist.all_reduce(high, dist.ReduceOp.MAX)
            assert torch.equal(low, high)


def idle(rank: int, folder: Path) -> None:
    """Two ranks, one parameter with g-nets."""
    model = net(rank, last=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gnets = gbc.GenomicBottleneck(model, hidden=8)
    texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    if rank == 1:
        assert texts == [
            "rank 1 has no g-nets: 1 parameters have g-nets and the group has 2 ranks; fewer processes are enough"
        ], texts
    train(model, gnets, [batch(0, 0, 1)])
    gnets.save(folder / "idle.gbz")


def resumed(rank: int, world: int, folder: Path) -> None:
    """Two ranks stop after three steps, and one goes on; all see the same batches."""
    model = net(rank)
    gnets = gbc.GenomicBottleneck(model, hidden=8, lr=1e-2)
    saved = folder / "state.pt"
    if world == 2:
        train(model, gnets, [batch(step, 0, 1) for step in range(3)])
        state = {"model": model.state_dict(), "gnets": gnets.state_dict()}
        if rank == 0:
            torch.save(state, saved)
        train(model, gnets, [batch(step, 0, 1) for step in range(3, 6)])
    else:
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        gnets.load_state_dict(state["gnets"])
        train(model, gnets, [batch(step, 0, 1) for step in range(3, 6)])
    gnets.save(folder / f"resumed-{world}.gbz", coding="fp32")


def backward_alone(gnets: gbc.GenomicBottleneck, rank: int, predicted: Path) -> None:
    """Rank 1 ends once rank 0 has its weights, so that rank 0 is the only one that calls backward()."""
    gnets.predict_weights()
    if rank == 1:
        while not predicted.exists():
            time.sleep(0.01)
        os._exit(0)
    predicted.touch()
    gnets.model(batch(0, 0, 1)).square().mean().backward()
    for _ in range(50):
        gnets.backward()
        time.sleep(0.1)


def refused(mode: str, rank: int, folder: Path) -> None:
    """Prints the error of this rank."""
    try:
        gnets = gbc.GenomicBottleneck(net(rank), hidden=8 + (rank if mode == "disagree" else 0))
        if mode == "exists":
            (folder / "exists.gbz").write_bytes(b"x")
            dist.barrier()
            gnets.save(folder / "exists.gbz")
        if mode == "dies" and rank == 1:
            gnets.predict_weights()
            os._exit(0)
        if mode == "dies_in_backward":
            backward_alone(gnets, rank, folder / "predicted")
        for _ in range(50):
            gnets.predict_weights()
            time.sleep(0.1)
    except gbc.GbzError as error:
        print(f"{error.code}: {error}")
        sys.stdout.flush()
        os._exit(0)  # a group without its peer is not closed


def main() -> None:
    mode, rank, world, store, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5])
    torch.set_num_threads(1)
    if world > 1 or mode == "same":
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
        )
    if mode in ("same", "ddp"):
        same(mode, rank, world, folder)
    elif mode == "coded":
        coded(rank, world, folder)
    elif mode == "halves":
        halves(rank, world, folder)
    elif mode == "resumed":
        resumed(rank, world, folder)
    elif mode == "idle":
        idle(rank, folder)
    else:
        refused(mode, rank, folder)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
