"""The parts of a model that are quantized one after another: their share of the bytes, their files, and one
file of all."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path as _Path
from typing import Any

import torch

from .. import _core
from .._errors import usage
from .._files.arrays import Array, memory_of, torch_bytes
from .._files.load import load_into
from .._files.save import SaveReport, StoredTensor, save
from .._files.statistics import Statistics
from .._train.write import input_bytes
from .collect import Batch, row_importance

#: Files of a state folder.
_ALLOCATION, _ALLOCATED_FILE, _IMPORTANCE = "allocation.json", "allocation.gbz", "importance.safetensors"
#: The last piece is written again until the whole file is this close to its target, at most so often.
_CLOSE, _TRIES = 0.985, 6


@dataclass(frozen=True)
class BlockReport:
    """What one block became."""

    name: str  #: of the module, or "before" and "after" for what lies around the blocks
    bytes: int  #: of its own file in the state folder
    method: str
    error: float | None  #: squared error of its outputs on held-out batches over their variance


@dataclass
class Piece:
    name: str
    tensors: list[str]  #: of state_dict()
    report: dict[str, Any] | None = None  #: of its file, once that is written


def owners_of(state: dict[str, torch.Tensor]) -> dict[str, str]:
    """The first name of the same memory, by name."""
    first: dict[object, str] = {}
    return {
        name: first.setdefault(memory_of(value), name) if value.numel() else name for name, value in state.items()
    }


def _fingerprint(model: torch.nn.Module, items: list[Batch], settings: object) -> str:
    """SHA-256 of weights, batches and settings: of what a state belongs to."""
    digest = hashlib.sha256(repr(settings).encode())

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            digest.update(repr((tuple(value.shape), str(value.dtype))).encode())
            digest.update(torch_bytes("", value.contiguous()).data)
        elif isinstance(value, dict):
            for key, each in value.items():
                digest.update(repr(key).encode())
                add(each)
        elif isinstance(value, tuple | list):
            for each in value:
                add(each)

    add(dict(model.state_dict()))
    add(items)
    return digest.hexdigest()


def _write_text(path: _Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class Pieces:
    """The state of a calibration block by block in a folder: the bit allocation, and a file of each finished piece.

    Raises:
        UsageError: the folder holds other files, or the state of another calibration.
    """

    def __init__(
        self, model: torch.nn.Module, items: list[Batch], size: int, folder: str, settings: object,
        importance: bool, threads: int,
    ) -> None:  # fmt: skip
        self.model, self.size, self.threads = model, size, threads
        self.input_bytes = input_bytes(model)
        self.folder = _Path(folder)
        self.importance: dict[str, torch.Tensor] = {}
        self.reports: list[BlockReport] = []
        self.all: list[Piece] = []
        fingerprint = _fingerprint(model, items, (settings, size, importance, _core.__version__))
        self._begin(fingerprint, items if importance else [])

    def _begin(self, fingerprint: str, items: list[Batch]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        allocation = self.folder / _ALLOCATION
        if allocation.exists():
            found = json.loads(allocation.read_text())
            if found.get("fingerprint") != fingerprint:
                raise usage(
                    f"{self.folder} holds the state of another model, other batches or another target; name "
                    "another folder, or remove it"
                )
        elif any(self.folder.iterdir()) and not (self.folder / _ALLOCATED_FILE).exists():
            raise usage(f"{self.folder} is not empty and holds no state of a calibration; name another folder")
        else:
            rows = row_importance(self.model, items).means if items else {}
            importance = Statistics({f"{name}.row_importance": v.cpu().numpy() for name, v in rows.items()})
            if rows:
                importance.save(self.folder / _IMPORTANCE)
            self._write_allocation(importance, fingerprint)
        found = json.loads(allocation.read_text())
        self.bytes: dict[str, float] = found["bytes"]
        self.lanes: bool = found["lanes"]
        if (self.folder / _IMPORTANCE).exists():
            kept = Statistics.load(self.folder / _IMPORTANCE).tensors
            self.importance = {k.removesuffix(".row_importance"): torch.from_numpy(v) for k, v in kept.items()}

    def _write_allocation(self, importance: Statistics, fingerprint: str) -> None:
        """The allocation for the whole model gives every tensor its share of the bytes. Its steps follow
        the cost of a squared error, so that a bit buys as much in each tensor: all slopes are one."""
        state: dict[str, Array] = dict(self.model.state_dict())
        file = str(self.folder / _ALLOCATED_FILE)
        report = save(
            state, file, max_bytes=self.size, statistics=importance.tensors or None, use={"feedback": 0.0},
            overwrite=True, threads=self.threads, quiet=True,
        )  # fmt: skip
        found = {
            "fingerprint": fingerprint,
            "bytes": {tensor.name: tensor.bytes for tensor in report.tensors},
            "lanes": _core.File(file, None).profile == "lanes",
        }
        _write_text(self.folder / _ALLOCATION, json.dumps(found))

    def file(self, piece: Piece) -> str:
        return str(self.folder / f"piece-{self.all.index(piece):04d}.gbz")

    def done(self, piece: Piece) -> bool:
        """Whether an interrupted run has written it; its weights are in the model then."""
        record = _Path(self.file(piece)).with_suffix(".json")
        if not record.exists():
            return False
        piece.report = json.loads(record.read_text())
        self.reports.append(BlockReport(**piece.report["block"]))
        load_into(self.model, self.file(piece), strict=False)
        return True

    def budget(self, piece: Piece) -> int:
        """Bytes of a piece's own file: its share of what is left, as much larger as files by themselves are."""
        at = self.all.index(piece)
        share = sum(self.bytes[name] for name in piece.tensors)
        rest = sum(self.bytes[name] for each in self.all[at:] for name in each.tensors)
        alone = sum(os.path.getsize(self.file(each)) for each in self.all[:at])
        joined = self._joined_size(at)
        left = max(0.0, self.size - joined) * share / max(rest, 1e-9)
        return max(1, int(left * (alone / joined if joined else 1.0)))

    def _joined_size(self, count: int) -> int:
        """Of the first pieces in one file."""
        files = [self.file(each) for each in self.all[:count]]
        if not files:
            return 0
        if self.lanes:  # parts of a million values: as many bytes by themselves
            return sum(map(os.path.getsize, files))
        return self.join(str(self.folder / "joined.gbz"), count)

    def join(self, filename: str, count: int | None = None) -> int:
        """Writes the first pieces, or all of them, as one file. Returns its bytes."""
        return _core.join([self.file(each) for each in self.all[:count]], filename, "", True)

    def save(self, piece: Piece, file: str, size: int, statistics: Statistics | None, use: dict[str, float],
              tensors: dict[str, torch.Tensor]) -> SaveReport:  # fmt: skip
        state: dict[str, Array] = dict(tensors)
        return save(
            state, file, max_bytes=size, statistics=statistics if statistics and statistics.tensors else None,
            use=use if statistics and statistics.tensors else None, overwrite=True, threads=self.threads,
            quiet=True, lanes=self.lanes,
        )  # fmt: skip

    def finish(self, piece: Piece, block: BlockReport, report: SaveReport, energy: float) -> None:
        piece.report = {
            "block": dataclasses.asdict(block), "save": dataclasses.asdict(report), "energy": energy
        }  # fmt: skip
        _write_text(_Path(self.file(piece)).with_suffix(".json"), json.dumps(piece.report))
        self.reports.append(block)

    def copied(self, piece: Piece) -> dict[str, torch.Tensor]:
        """The piece's tensors, in memory of their own; ties stay."""
        state = dict(self.model.state_dict())
        copies: dict[str, torch.Tensor] = {}
        owners = owners_of({name: state[name] for name in piece.tensors})
        for name in piece.tensors:
            copies[name] = state[name].detach().clone() if owners[name] == name else copies[owners[name]]
        return copies

    def fit(self, piece: Piece, size: int, statistics: Statistics | None, use: dict[str, float],
             tensors: dict[str, torch.Tensor]) -> SaveReport | None:  # fmt: skip
        """Writes the last piece again until the whole file has its size."""
        report = None
        for tries in range(_TRIES):
            whole = self.join(str(self.folder / "joined.gbz"))
            if _CLOSE * self.size <= whole <= self.size:
                break
            goal = self.size * (1 if whole > self.size else (1 + _CLOSE) / 2)
            changed = int(size + goal - whole) - ((64 << 2 * tries) if whole > self.size else 0)
            if changed < 1 or changed == size:
                break
            size = changed
            report = self.save(piece, self.file(piece), size, statistics, use, tensors)
            if not report.target_met:
                break
        return report

    def report(self, filename: str) -> SaveReport:
        """Of the joined file."""
        file = _core.File(filename, None)
        tensors: list[StoredTensor] = []
        lost = energy = 0.0
        for piece in self.all:
            assert piece.report is not None
            saved = piece.report["save"]
            tensors += [StoredTensor(**{**each, "shape": tuple(each["shape"])}) for each in saved["tensors"]]
            lost += saved["error"] * piece.report["energy"]
            energy += piece.report["energy"]
        met = file.file_bytes <= self.size
        note = "" if met else f"the target is {self.size} bytes, and the smallest file takes {file.file_bytes}"
        return SaveReport(
            file_bytes=file.file_bytes,
            input_bytes=self.input_bytes,
            parameters=sum(piece.report["save"]["parameters"] for piece in self.all if piece.report),
            error=lost / energy if energy else 0.0,
            target_met=met,
            target_note=note,
            identity=file.identity,
            tensors=tuple(tensors),
        )
