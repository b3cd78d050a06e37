"""GenomicBottleneck gives the bits of the C++ engine, on the same seed and gradients."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import trained_gnets  # noqa: E402  # needs torch

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


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(tmp_path: Path, threads: int) -> None:
    before = torch.get_num_threads()
    first = trained("fused", tmp_path / "a.gbz")
    torch.set_num_threads(threads)
    try:
        assert trained("fused", tmp_path / "b.gbz") == first
    finally:
        torch.set_num_threads(before)


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
