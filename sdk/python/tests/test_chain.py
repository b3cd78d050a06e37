"""Chains of checkpoints: every bit comes back, and a killed writer loses nothing that was written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import Run, some_tensors

import gbcompress as gbc

Tensors = dict[str, np.ndarray]


def steps_of(count: int) -> list[Tensors]:
    """A model that trains: weights move a little, a counter grows, NaN and -0 appear."""
    random = np.random.default_rng(3)
    versions = [some_tensors()]
    for step in range(1, count):
        now = {name: array.copy() for name, array in versions[-1].items()}
        moved = random.random(now["layers.0.weight"].shape) < 0.02
        now["layers.0.weight"][moved] *= np.float32(1 + 1e-6)
        now["layers.1.conv"] += 1e-5 * random.standard_normal(now["layers.1.conv"].shape)
        now["tokens"][step] += step
        now["layers.0.bias"][step] = [np.nan, -0.0, np.inf][step % 3]
        versions.append(now)
    return versions


def same(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes() for n in a
    )


def make_chain(folder: Path, versions: list[Tensors]) -> gbc.Chain:
    chain = gbc.Chain(folder / "run")
    for step, tensors in enumerate(versions):
        chain.append(tensors, step=10 * step)
    return chain


def test_every_step_comes_back(program: Run, folder: Path) -> None:
    versions = steps_of(6)
    chain = make_chain(folder, versions)
    assert chain.steps() == [0, 10, 20, 30, 40, 50]
    for step, tensors in enumerate(versions):
        assert same(chain.load(step=10 * step), tensors)
    assert same(gbc.Chain(folder / "run").load(), versions[-1])
    assert os.path.getsize(chain.file(50)) < os.path.getsize(chain.file(0)) / 2
    program("expand", chain.file(50), "--base", folder / "run", "-o", folder / "back.safetensors")
    # A chain that is opened again goes on from its last step.
    again = gbc.Chain(folder / "run")
    again.append(versions[0], step=60)
    assert same(again.load(60), versions[0]) and gbc.inspect(again.file(60)).base


def test_prune_keeps_the_last_steps(folder: Path) -> None:
    versions = steps_of(6)
    chain = make_chain(folder, versions)
    assert chain.prune(keep=2) == [0, 10, 20, 30]
    assert chain.steps() == [40, 50]
    for step in (4, 5):
        assert same(chain.load(10 * step), versions[step])
    assert gbc.inspect(chain.file(40)).base == ""
    assert chain.prune(keep=2) == []
    chain.append(versions[0], step=51)
    assert same(chain.load(), versions[0])


def test_whole_every_bounds_a_chain(folder: Path) -> None:
    versions = steps_of(6)
    with gbc.Chain(folder / "run", whole_every=2, background=True) as chain:
        for step, tensors in enumerate(versions):
            mine = {name: array.copy() for name, array in tensors.items()}
            chain.append(mine, step=step)
            for array in mine.values():  # the chain has a copy of its own
                array.fill(0)
        chain.wait()
        assert [gbc.inspect(chain.file(s)).base == "" for s in range(6)] == [True, False, False] * 2
        for step, tensors in enumerate(versions):
            assert same(chain.load(step), tensors)


def test_other_tensors_are_stored_whole(folder: Path) -> None:
    chain = make_chain(folder, steps_of(2))
    wide = {"layers.0.weight": np.ones((3, 5), np.float32), "new": np.arange(4.0)}
    chain.append(wide, step=11)
    assert same(chain.load(11), wide)


def test_refusals(folder: Path) -> None:
    versions = steps_of(4)
    chain = make_chain(folder, versions)
    with pytest.raises(gbc.FileExists):
        chain.append(versions[0], step=30)
    with pytest.raises(gbc.UsageError, match="step 25 is below the last one of the chain, 30"):
        chain.append(versions[0], step=25)
    with pytest.raises(gbc.NotFound, match="has no step 31; it has 4 steps, 0 to 30"):
        chain.load(31)
    with pytest.raises(gbc.NotFound, match="no step None; it has none"):
        gbc.Chain(folder / "empty").load()
    with pytest.raises(gbc.UsageError, match="keep"):
        chain.prune(keep=0)
    with pytest.raises(gbc.UsageError, match="dict of tensors"):
        chain.append([1], step=99)  # type: ignore[arg-type]
    os.rename(chain.file(10), folder / "away")
    with pytest.raises(gbc.NotFound, match="step-000000000020.gbz needs the model with the digest"):
        chain.load(30)
    data = bytearray((folder / "away").read_bytes())
    data[len(data) // 2] ^= 1
    Path(chain.file(10)).write_bytes(data)
    with pytest.raises(gbc.GbzError, match="step-000000000010.gbz is damaged"):
        chain.load(30)


def test_two_writers(folder: Path) -> None:
    chain = make_chain(folder, steps_of(2))
    code = (
        "import fcntl, os, sys, time\n"
        "file = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    lock = folder / "run" / ".lock"
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        for write in (lambda: chain.append(steps_of(1)[0], step=99), lambda: chain.prune(keep=1)):
            with pytest.raises(gbc.UsageError, match="another process writes the chain"):
                write()
        other.kill()
    chain.append(steps_of(1)[0], step=99)
    assert chain.steps() == [0, 10, 99]


def test_a_full_disk_leaves_the_chain_as_it_was(folder: Path) -> None:
    import resource

    chain = make_chain(folder, steps_of(2))
    before = sorted(os.listdir(folder / "run"))
    random = np.random.default_rng(1).bytes(1 << 20)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limit[1]))
    try:
        with pytest.raises(gbc.GbzError):
            chain.append({"layers.0.weight": np.frombuffer(random, np.uint8)}, step=99)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, old)
    assert sorted(os.listdir(folder / "run")) == before
    assert same(chain.load(), steps_of(2)[1])


WRITER = """
import sys
import numpy as np
import gbcompress as gbc
chain = gbc.Chain(sys.argv[1])
print("ready", flush=True)
step = chain.steps()[-1] + 1 if chain.steps() else 0
while True:
    values = np.full((64, 64), np.float32(1)) + np.arange(64, dtype=np.float32) * np.float32(1e-6) * step
    chain.append({"w": values, "step": np.array(step)}, step=step)
    if step % 7 == 6:
        chain.prune(keep=3)
    print(step, flush=True)
    step += 1
"""


def kill_once(folder: Path, after: float) -> tuple[int, int]:
    """Kills a writer; returns the last step that it said was written, and how many it said."""
    with subprocess.Popen(
        [sys.executable, "-B", "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        time.sleep(after)
        writer.kill()
        said = writer.stdout.read().split("\n")[:-1]
    return (int(said[-1]) if said else -1), len(said)


def test_killed_writers_lose_nothing(folder: Path) -> None:
    """GBC_CHAIN_KILLS sets how often; each kill at another place of a write or a prune."""
    kills, written = int(os.environ.get("GBC_CHAIN_KILLS", "24")), 0
    random = np.random.default_rng(5)
    last = -1
    for _ in range(kills):
        said, count = kill_once(folder / "run", float(random.uniform(0.001, 0.05)))
        last, written = max(last, said), written + count
        chain = gbc.Chain(folder / "run")
        steps = chain.steps()
        assert (steps[-1] if steps else -1) >= last
        for step in steps:
            assert int(chain.load(step)["step"]) == step
    assert written > 0


def test_patches() -> None:
    before, after = steps_of(3)[0], steps_of(3)[2]
    patch = gbc.delta.to_patch(before, after)
    assert "norm.weight" not in patch and "empty" not in patch
    index, value = patch["tokens"]
    assert index.tolist() == [1, 2] and value.dtype == np.int64
    target = {name: array.copy() for name, array in before.items()}
    gbc.delta.apply_(target, patch)
    assert same(target, after)
    assert gbc.delta.to_patch(after, target) == {}
    zero = {"a": np.array([0.0, -0.0, np.nan], np.float32)}
    minus = {"a": np.array([-0.0, -0.0, np.nan], np.float32)}
    assert gbc.delta.to_patch(zero, minus)["a"].index.tolist() == [0]


def test_patches_of_other_models() -> None:
    one = {"a": np.zeros(4, np.float32)}
    for other in ({"b": np.zeros(4, np.float32)}, {"a": np.zeros(5, np.float32)}, {"a": np.zeros(4)}):
        with pytest.raises(gbc.ShapeMismatch):
            gbc.delta.to_patch(one, other)
    good = gbc.delta.SparseWeightPatch(np.array([1]), np.array([2], np.float32))
    for name, patch in (
        ("b", good),
        ("a", good._replace(index=np.array([4]))),
        ("a", good._replace(index=np.array([-1]))),
        ("a", good._replace(value=np.array([2.0]))),
        ("a", good._replace(index=np.array([1, 2]))),
    ):
        with pytest.raises(gbc.ShapeMismatch):
            gbc.delta.apply_(one, {"a": good, name: patch})
    assert one["a"].tolist() == [0, 0, 0, 0]
    with pytest.raises(gbc.UsageError):
        gbc.delta.apply_(3, {})


def test_patches_of_torch_modules() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(30, 20).to(torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    after = {name: tensor.clone() for name, tensor in before.items()}
    after["weight"][3, 7:9] += 1
    patch = gbc.delta.to_patch(before, after)
    assert patch["weight"].index.tolist() == [97, 98] and patch["weight"].value.dtype == torch.bfloat16
    gbc.delta.apply_(net, patch)
    assert all(torch.equal(net.state_dict()[name], after[name]) for name in after)
