"""Chains of checkpoints: every bit comes back, and a killed writer loses nothing that was written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
    assert same(again.load(60), versions[0]) and gbc.inspect(again.file(60)).bases


def test_prune_keeps_the_last_steps(folder: Path) -> None:
    versions = steps_of(6)
    chain = make_chain(folder, versions)
    assert chain.prune(keep=2) == [0, 10, 20, 30]
    assert chain.steps() == [40, 50]
    for step in (4, 5):
        assert same(chain.load(10 * step), versions[step])
    assert gbc.inspect(chain.file(40)).bases == ()
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
        assert [gbc.inspect(chain.file(s)).bases == () for s in range(6)] == [True, False, False] * 2
        for step, tensors in enumerate(versions):
            assert same(chain.load(step), tensors)


def test_other_tensors_are_stored_whole(folder: Path) -> None:
    versions = steps_of(3)
    chain = make_chain(folder, versions[:2])
    # One of another shape: the others are still changes.
    other = dict(versions[2], **{"layers.0.bias": np.ones((3, 5), np.float32)})
    chain.append(other, step=11)
    assert same(chain.load(11), other)
    kinds = {tensor.name: tensor.kind for tensor in gbc.inspect(chain.file(11)).tensors}
    assert kinds["layers.0.weight"] == "change" and kinds["layers.0.bias"] != "change"
    assert gbc.inspect(chain.file(11)).bases
    wide = {"layers.0.weight": np.ones((3, 5), np.float32), "new": np.arange(4.0)}
    chain.append(wide, step=12)
    assert same(chain.load(12), wide) and same(chain.load(11), other)


def test_steps_of_many_digits(folder: Path) -> None:
    versions = steps_of(4)
    chain = gbc.Chain(folder / "run")
    steps = [3, 999_999_999_999, 1_000_000_000_000, 1_700_000_000_000_000_000]
    for step, tensors in zip(steps, versions, strict=True):
        chain.append(tensors, step=step)
    assert chain.steps() == steps
    for step, tensors in zip(steps, versions, strict=True):
        assert same(chain.load(step), tensors)
    assert chain.prune(keep=2) == steps[:2] and same(chain.load(), versions[3])
    (folder / "run" / "step-1000000000001.gbz.tmp-12-0").write_bytes(b"half a link")
    chain.append(versions[0], step=steps[-1] + 1)
    assert not [name for name in os.listdir(folder / "run") if ".tmp-" in name]


def test_a_step_that_changed_nothing_before_a_whole_one(folder: Path) -> None:
    """The file of an unchanged checkpoint may come first in the folder, as a delta of its own tensors."""
    versions = steps_of(2)
    chain = gbc.Chain(folder / "run")
    for step, tensors in ((5, versions[0]), (6, versions[0]), (7, versions[1])):
        chain.append(tensors, step=step)
    os.rename(chain.file(6), chain.file(4))
    assert same(chain.load(4), versions[0]) and same(chain.load(7), versions[1])


def test_whole_every_reads_no_old_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gbcompress import _core

    opened: list[str] = []
    versions = steps_of(6)
    chain = gbc.Chain(folder / "run", whole_every=4)
    chain.append(versions[0], step=0)

    def opening(path: str, *rest: object, **named: object) -> object:
        opened.append(path)
        return file(path, *rest, **named)

    file = _core.File
    monkeypatch.setattr(_core, "File", opening)
    for step in range(1, 6):
        chain.append(versions[step], step=step)
    assert opened == []
    chain = gbc.Chain(folder / "run", whole_every=4)
    chain.append(versions[0], step=6)
    assert len(opened) == 1 and same(chain.load(6), versions[0])


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


def test_links_that_are_no_chain(folder: Path) -> None:
    """A loop, a link of other tensors under a step's name, and a base that is another step."""
    from gbcompress import _core
    from gbcompress._files.arrays import to_entries

    versions = steps_of(4)
    chain = make_chain(folder, versions)
    first = Path(chain.file(10)).read_bytes()
    # Step 10 as the change since step 20, which is the change since step 10.
    _core.save_link(to_entries(versions[1]), to_entries(versions[2]), chain.file(10), True)
    with pytest.raises(gbc.GbzError, match="is needed to expand itself"):
        chain.load(30)
    Path(chain.file(10)).write_bytes(first)
    assert same(chain.load(30), versions[3])
    gbc.save_file(some_tensors(seed=9), chain.file(10), lossless=True, overwrite=True)
    with pytest.raises(gbc.NotFound, match="step-000000000020.gbz needs the model with the digest"):
        chain.load(30)
    gbc.save_file(versions[1], folder / "whole.gbz", lossless=True)
    with pytest.raises(gbc.UsageError, match="another base"):
        gbc.load_file(chain.file(30), base=folder / "whole.gbz")


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


def test_two_writers_of_one_process(folder: Path) -> None:
    """One after the other they go on from each other's steps; at once, each step is whole and in order."""
    from concurrent.futures import ThreadPoolExecutor

    versions = steps_of(3)
    first, second = gbc.Chain(folder / "run"), gbc.Chain(folder / "run")
    first.append(versions[0], step=0)
    second.append(versions[1], step=1)
    first.append(versions[2], step=2)
    assert all(same(second.load(step), versions[step]) for step in range(3))

    def write(chain: gbc.Chain, steps: range) -> int:
        done = 0
        for step in steps:
            try:
                chain.append({"step": np.array(step), "w": np.arange(5000.0)}, step=step)
                done += 1
            except gbc.UsageError as error:  # FileExists is none: the steps differ
                assert "another process writes" in str(error) or "steps ascend" in str(error)
        return done

    with ThreadPoolExecutor(2) as pool:
        written = list(pool.map(write, (first, second), (range(10, 60, 2), range(11, 61, 2))))
    steps = [step for step in first.steps() if step >= 10]
    assert len(steps) == sum(written) > 0
    assert all(int(first.load(step)["step"]) == step for step in steps)


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


def test_killed_writers_lose_nothing(folder: Path) -> None:
    """GBC_CHAIN_KILLS sets how often; each kill at another place of a write or a prune."""
    kills = os.environ.get("GBC_CHAIN_KILLS", "24")
    tool = Path(__file__).with_name("chain_kills.py")
    done = subprocess.run(
        [sys.executable, "-B", str(tool), str(folder / "run"), kills], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert found["lost"] == 0 and found["steps"] >= int(kills)
    chain = gbc.Chain(folder / "run")
    (folder / "run" / "step-000000000001.gbz.tmp-123-0").write_bytes(b"half a link")
    chain.append({"step": np.array(chain.steps()[-1] + 1)}, step=chain.steps()[-1] + 1)
    left = sorted(os.listdir(folder / "run"))
    assert left == [".lock", *(os.path.basename(chain.file(step)) for step in chain.steps())]


def test_patches() -> None:
    before, after = steps_of(3)[0], steps_of(3)[2]
    patches = gbc.delta.to_patch(before, after)
    assert "norm.weight" not in patches and "empty" not in patches
    name, indices, values, full_shape = patches["tokens"]
    assert (name, full_shape) == ("tokens", (300,))
    assert indices.tolist() == [1, 2] and indices.dtype == np.int32 and values.dtype == np.int64
    for form in (patches, patches.values()):
        target = {name: array.copy() for name, array in before.items()}
        gbc.delta.apply_(target, form)
        assert same(target, after)
    assert gbc.delta.to_patch(after, target) == {}
    zero = {"a": np.array([0.0, -0.0, np.nan], np.float32)}
    minus = {"a": np.array([-0.0, -0.0, np.nan], np.float32)}
    assert gbc.delta.to_patch(zero, minus)["a"].indices.tolist() == [0]


def test_patches_of_other_models() -> None:
    one = {"a": np.zeros(4, np.float32)}
    for other in ({"b": np.zeros(4, np.float32)}, {"a": np.zeros(5, np.float32)}, {"a": np.zeros(4)}):
        with pytest.raises(gbc.ShapeMismatch):
            gbc.delta.to_patch(one, other)
    good = gbc.delta.SparseWeightPatch("a", np.array([1]), np.array([2], np.float32), (4,))
    for patch in (
        good._replace(name="b"),
        good._replace(full_shape=(2, 2)),
        good._replace(indices=np.array([4])),
        good._replace(indices=np.array([-1])),
        good._replace(values=np.array([2.0])),
        good._replace(indices=np.array([1, 2])),
    ):
        with pytest.raises(gbc.ShapeMismatch):
            gbc.delta.apply_(one, [good, patch])
    assert one["a"].tolist() == [0, 0, 0, 0]
    for model, patch in (
        (3, good),
        ({"a": [1, 2, 3, 4]}, good),
        (one, good._replace(indices=np.array([1.0]))),
        ({"a": np.zeros(8, np.float32)[::2]}, good),
    ):
        with pytest.raises(gbc.UsageError):
            gbc.delta.apply_(model, [patch])


def test_patches_without_a_shape() -> None:
    """As engines of before ``full_shape`` make them."""
    from types import SimpleNamespace

    model = {"a": np.zeros((2, 2), np.float32)}
    values = np.array([2], np.float32)
    gbc.delta.apply_(model, [SimpleNamespace(name="a", indices=np.array([3]), values=values)])
    assert model["a"].tolist() == [[0, 0], [0, 2]]
    with pytest.raises(gbc.ShapeMismatch, match="beyond its 4 elements"):
        gbc.delta.apply_(model, [SimpleNamespace(name="a", indices=np.array([4]), values=values)])
    with pytest.raises(gbc.UsageError, match="has no values"):
        gbc.delta.apply_(model, [SimpleNamespace(name="a", indices=np.array([3]))])


def test_patches_of_torch_modules() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(30, 20).to(torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    after = {name: tensor.clone() for name, tensor in before.items()}
    after["weight"][3, 7:9] += 1
    after["bias"][2] = torch.nan
    patches = gbc.delta.to_patch(before, after)
    patch = patches["weight"]
    assert patch.indices.tolist() == [97, 98] and patch.indices.dtype == torch.int32
    assert patch.values.dtype == torch.bfloat16 and patch.full_shape == (20, 30)
    gbc.delta.apply_(net, patches)
    found = net.state_dict()
    assert all(torch.equal(found[name].view(torch.int16), after[name].view(torch.int16)) for name in after)
    assert net.weight.requires_grad
    small = {"w": torch.zeros(9).to(torch.float8_e4m3fn)}
    gbc.delta.apply_(small, gbc.delta.to_patch(small, {"w": torch.arange(9.0).to(torch.float8_e4m3fn)}))
    assert small["w"].float().tolist() == list(range(9))
