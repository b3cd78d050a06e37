"""GenomicBottleneck with process groups of torch.distributed, by Gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

SCRIPT = Path(__file__).with_name("gnet_ranks.py")


def ranks(mode: str, world: int, folder: Path, status: int = 0) -> list[str]:
    """What each rank prints."""
    store = folder / f"store-{mode}-{world}"
    team = [
        subprocess.Popen(
            [sys.executable, "-B", str(SCRIPT), mode, str(rank), str(world), str(store), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    printed = []
    for process in team:
        out, errors = process.communicate(timeout=240)
        assert process.returncode == status, errors
        printed.append(out.strip())
    return printed


def test_one_and_two_ranks_give_the_same_bytes(tmp_path: Path) -> None:
    ranks("same", 1, tmp_path)
    ranks("same", 2, tmp_path)
    ranks("ddp", 2, tmp_path)
    alone = (tmp_path / "same-1.gbz").read_bytes()
    assert (tmp_path / "same-2.gbz").read_bytes() == alone
    assert (tmp_path / "ddp-2.gbz").read_bytes() == alone


def test_integers_have_the_same_bytes_on_one_and_two_ranks(tmp_path: Path) -> None:
    ranks("coded", 1, tmp_path)
    ranks("coded", 2, tmp_path)
    assert (tmp_path / "coded-1.gbz").read_bytes() == (tmp_path / "coded-2.gbz").read_bytes()


def test_another_number_of_ranks_resumes_a_run(tmp_path: Path) -> None:
    ranks("resumed", 2, tmp_path)
    ranks("resumed", 1, tmp_path)
    assert (tmp_path / "resumed-1.gbz").read_bytes() == (tmp_path / "resumed-2.gbz").read_bytes()


def test_ranks_with_parts_of_a_batch_stay_equal(tmp_path: Path) -> None:
    ranks("halves", 2, tmp_path)


def test_a_rank_without_gnets_takes_part(tmp_path: Path) -> None:
    ranks("idle", 2, tmp_path)
    assert (tmp_path / "idle.gbz").exists()


def test_ranks_that_disagree_are_refused_everywhere(tmp_path: Path) -> None:
    words = "usage: the ranks do not agree on the g-nets; give every rank the same model, settings and seed"
    assert ranks("disagree", 2, tmp_path) == [words, words]


def test_a_file_that_exists_is_refused_everywhere(tmp_path: Path) -> None:
    first, second = ranks("exists", 2, tmp_path)
    assert first.startswith("exists: ") and first.endswith("exists; give overwrite=True to replace it")
    assert second == "failure: rank 0 could not write the file; its message says why"


@pytest.mark.parametrize("mode, where", [("dies", "predict_weights"), ("dies_in_backward", "backward")])
def test_a_group_that_dies_is_one_sentence(tmp_path: Path, mode: str, where: str) -> None:
    first, second = ranks(mode, 2, tmp_path)
    assert second == ""
    assert first.startswith(f"failure: rank 0 of 2 lost its process group in {where}(): ")
    assert first.endswith("; end all ranks and start them again from the last file") and "\n" not in first
