"""Checkpoints of one run in a folder, each the exact change since the one before."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

from .. import _core
from .._arguments import kind_of, path, whole
from .._errors import NotFound, exists, usage
from .arrays import Array, NamedArray, to_entries, to_numpy, to_torch
from .save import Path

#: Steps have 12 digits, and more only where they need more.
_STEP = r"step-(\d{12}|[1-9]\d{12,})\.gbz"
_LINK = re.compile(_STEP)
#: What a killed writer leaves of the link that it was writing.
_LEFT = re.compile(_STEP + r"\.tmp-[\d-]+")


class Chain:
    """Exact checkpoints of one run: the first one whole, each further one as its change.

        chain = gbc.Chain("run")
        chain.append(model.state_dict(), step=100)
        tensors = chain.load(step=100)
        chain.prune(keep=10)

    A step is one file of the folder, ``step-000000000100.gbz``, which appears whole or not at all: a
    process that is killed loses the step it was writing and no other one. Any file can be expanded
    by ``gbcompress expand FILE --base FOLDER`` too.
    """

    def __init__(self, folder: Path, *, whole_every: int = 0, background: bool = False) -> None:
        """Opens the folder, or makes it.

        Args:
            folder: holds the links and a lock, and nothing else that ends in ``.gbz``.
            whole_every: a checkpoint is stored whole after so many changes, which bounds the time of
                load(); 0: only the first one is.
            background: append() copies the tensors and returns; a thread writes them. An error is raised
                by the next call.

        Raises:
            UsageError: an argument of the wrong kind.
            OSError: the folder cannot be made.
        """
        self._folder = path(folder, "folder")
        self._whole_every = whole(whole_every, "whole_every", 0)
        os.makedirs(self._folder, exist_ok=True)
        self._last: tuple[int, list[NamedArray]] | None = None  # step and tensors of the newest link
        self._since: tuple[int, int] | None = None  # its step, and the changes up to it since a whole one
        self._writer = ThreadPoolExecutor(1, "gbcompress-chain") if background else None
        self._writing: Future[dict[str, Any]] | None = None

    def steps(self) -> list[int]:
        """The steps that load() gives, ascending."""
        found = (_LINK.fullmatch(name) for name in os.listdir(self._folder))
        return sorted(int(match[1]) for match in found if match)

    def file(self, step: int) -> str:
        """The file of a step, whether it exists or not."""
        return os.path.join(self._folder, f"step-{whole(step, 'step', 0):012d}.gbz")

    def append(self, tensors: Mapping[str, Array], step: int) -> None:
        """Stores a checkpoint after all others.

        Args:
            tensors: names and NumPy arrays or torch tensors (any device). Types and shapes
                may differ from those of the step before: such tensors are stored whole.
            step: above all steps of the chain.

        Raises:
            UsageError: a step that is not above the last one; another process that appends or prunes;
                as save_file().
            FileExists: the step exists.
            GbzError: the disk refuses (``code`` ``"io"``); the chain is as it was.
        """
        if not isinstance(tensors, Mapping):
            raise usage(f"append takes a dict of tensors, got {kind_of(tensors)}")
        target = self.file(step)
        self.wait()
        entries = [(name, dtype, shape, data.copy()) for name, dtype, shape, data in to_entries(tensors)]
        if self._writer is None:
            self._write(entries, step, target)
        else:
            self._writing = self._writer.submit(self._write, entries, step, target)

    def wait(self) -> None:
        """Returns once everything is on the disk. Raises what a background write raised."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def load(
        self, step: int | None = None, *, framework: Literal["numpy", "torch"] = "numpy"
    ) -> dict[str, Any]:
        """The tensors of a step, bit for bit; without ``step``, of the last one.

        Raises:
            NotFound: there is no such step, or a link between it and a whole file is missing.
            GbzError: a link is damaged (``code`` ``"corrupt"``); the message names it.
        """
        if framework not in ("numpy", "torch"):
            raise usage(f"framework must be 'numpy' or 'torch', got {framework!r}")
        self.wait()
        known = self.steps()
        if step is None and known:
            step = known[-1]
        if step not in known:
            raise NotFound(
                f"the chain in {self._folder} has no step {step}; it has "
                + (f"{len(known)} steps, {known[0]} to {known[-1]}" if known else "none"),
                "not_found",
            )
        make = to_torch if framework == "torch" else to_numpy
        return {entry[0]: make(*entry) for entry in _core.read_model(self.file(step))}

    def prune(self, keep: int) -> list[int]:
        """Removes all steps but the last ``keep``, at least 1; the oldest one that stays becomes whole.

        Returns:
            The removed steps.

        Raises:
            UsageError: as append().
        """
        keep = whole(keep, "keep", 1)
        self.wait()
        with self._lock():
            known = self.steps()
            removed, kept = known[:-keep], known[-keep:]
            if not removed:
                return []
            oldest = self.file(kept[0])
            if _core.File(oldest).bases:
                _core.save_link(_core.read_model(oldest), None, oldest, True)
            # The newest first: whatever is left after a kill can still be loaded.
            for step in reversed(removed):
                os.unlink(self.file(step))
            return removed

    def close(self) -> None:
        """Waits, and ends the background thread."""
        try:
            self.wait()
        finally:
            if self._writer is not None:
                self._writer.shutdown()

    def __enter__(self) -> Chain:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Held by one writer; the system takes it from a process that ends. Removes what killed ones left."""
        file = os.open(os.path.join(self._folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise usage(
                    f"another process writes the chain in {self._folder}; wait until it is done"
                ) from None
            for name in filter(_LEFT.fullmatch, os.listdir(self._folder)):
                os.unlink(os.path.join(self._folder, name))
            yield
        finally:
            os.close(file)

    def _write(self, entries: list[NamedArray], step: int, target: str) -> dict[str, Any]:
        with self._lock():
            known = self.steps()
            if step in known:
                raise exists(target)
            if known and step < known[-1]:
                raise usage(f"step {step} is below the last one of the chain, {known[-1]}; steps ascend")
            since = self._changes(known) if self._whole_every and known else 0
            due = not known or (self._whole_every and since >= self._whole_every)
            report = _core.save_link(entries, None if due else self._before(known[-1]), target, False)
            self._last = (step, entries)
            self._since = (step, since + 1 if report["delta"] else 0)
            return report

    def _changes(self, known: list[int]) -> int:
        """How many of the last steps are changes, up to the newest whole one."""
        if self._since is not None and self._since[0] == known[-1]:
            return self._since[1]
        since = 0
        for step in reversed(known):
            if since == self._whole_every or not _core.File(self.file(step)).bases:
                break
            since += 1
        return since

    def _before(self, last: int) -> list[NamedArray]:
        """The tensors of the last step."""
        if self._last is None or self._last[0] != last:
            self._last = (last, _core.read_model(self.file(last)))
        return self._last[1]
