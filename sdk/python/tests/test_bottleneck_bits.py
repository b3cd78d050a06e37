"""GenomicBottleneck gives the bits of the C++ engine, on the same seed and gradients."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import trained_gnets  # noqa: E402  # needs torch

import gbcompress as gbc  # noqa: E402

GOLDEN = Path(__file__).parents[3] / "tests/golden/trained/gnets.gbz"


def trained(kernel: str, path: Path) -> bytes:
    """The file after three steps."""
    net = trained_gnets.model()
    gnets = trained_gnets.bottleneck(net, kernel)
    assert len(repr(gnets).splitlines()) == 10
    for number in range(3):
        trained_gnets.step(net, gnets, number)
    gnets.save(path, coding="fp32")
    return path.read_bytes()


def test_reference_kernel_gives_the_golden_file_of_cpp(tmp_path: Path) -> None:
    assert trained("reference", tmp_path / "m.gbz") == GOLDEN.read_bytes()


@pytest.fixture(name="threads")
def _threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3], indirect=True)
def test_threads_change_no_bit(tmp_path: Path, threads: int) -> None:
    assert torch.get_num_threads() == threads
    first = trained("fused", tmp_path / "b.gbz")
    torch.set_num_threads(4 - threads)
    assert trained("fused", tmp_path / "a.gbz") == first


def wide() -> tuple[Any, Any]:
    """A layer whose g-nets are worth several threads, and its bottleneck."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(400, 300, bias=False))
    return net, gbc.GenomicBottleneck(net)


def wide_steps() -> Any:
    """The weights after three steps."""
    net, gnets = wide()
    for number in range(3):
        gnets.zero_grad()
        gnets.predict_weights()
        generator = torch.Generator().manual_seed(number)
        net[0].weight.grad = 1e-3 * torch.randn(net[0].weight.shape, generator=generator)
        gnets.backward()
        gnets.step()
    gnets.predict_weights()
    return net[0].weight.detach().clone()


@pytest.mark.parametrize("threads", [1, 3], indirect=True)
def test_calls_at_once_have_the_bits_of_one_call(threads: int) -> None:
    """Of several Python threads, each with a bottleneck of its own."""
    models = [wide() for _ in range(3)]
    models[0][1].predict_weights()
    wanted = models[0][0][0].weight.detach().clone()
    failed: list[str] = []

    def predict(net: Any, gnets: Any) -> None:
        for _ in range(50):
            with torch.no_grad():
                net[0].weight.zero_()
            gnets.predict_weights()
            if not torch.equal(net[0].weight, wanted):
                failed.append("weights differ")

    running = [threading.Thread(target=predict, args=model) for model in models]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert not failed


def _forked(net: Any, gnets: Any, queue: Any) -> None:
    weights = net[0].weight.detach().numpy()
    weights[:] = 0
    gnets.predict_weights()
    queue.put(weights.tobytes())


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_a_forked_process_computes_the_same(threads: int) -> None:
    """The child has none of the threads that computed before. Operations of torch itself would wait for them."""
    net, gnets = wide()
    gnets.predict_weights()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_forked, args=(net, gnets, queue))
    process.start()
    try:
        assert queue.get(timeout=60) == net[0].weight.detach().numpy().tobytes()
    finally:
        process.kill()


@pytest.mark.parametrize("threads", [3], indirect=True)
def test_a_gradient_that_is_not_finite_stops_no_thread(threads: int) -> None:
    net, gnets = wide()
    gnets.predict_weights()
    net[0].weight.grad = torch.full(net[0].weight.shape, float("nan"))
    with pytest.raises(gbc.GbzError, match="is not finite at step 1"):
        gnets.backward()
    assert torch.equal(wide_steps(), wide_steps())


def test_fused_kernel_gives_the_file_of_cpp(tmp_path: Path) -> None:
    program = os.environ.get("GBCOMPRESS_UNIT_BOTTLENECK")
    if not program:
        pytest.skip("GBCOMPRESS_UNIT_BOTTLENECK does not name the unit tests of the bottleneck")
    subprocess.run(
        [program, "--gtest_filter=SameBits.KernelsRepeat"],
        check=True,
        capture_output=True,
        env=dict(os.environ, GBC_GNETS_OUT=str(tmp_path)),
    )
    assert trained("fused", tmp_path / "m.gbz") == (tmp_path / "fused.gbz").read_bytes()
    assert trained("reference", tmp_path / "n.gbz") == (tmp_path / "reference.gbz").read_bytes()


def test_loaded_weights_are_those_of_the_golden_file() -> None:
    """Of placed tiles those of the decoder; a build makes its parameter from them."""
    from gbcompress import _core

    net = trained_gnets.model()
    gnets = trained_gnets.bottleneck(net, "fused")
    gnets.load(GOLDEN)
    file = _core.File(str(GOLDEN))
    for index, entry in enumerate(file.tensors()):
        parameter = net.get_parameter(entry["name"]).detach()
        if entry["name"] != "pair.weight":
            (values,) = file.read([(index, "F32")])
            assert torch.equal(parameter.flatten(), torch.from_numpy(values.view("float32"))), entry["name"]
    pair = net.get_parameter("pair.weight").detach()
    assert torch.equal(pair, pair.t()) and pair.std().item() > 0
