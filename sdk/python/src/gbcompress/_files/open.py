"""One tensor of a file at a time, as ``safetensors.safe_open`` gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any

from .._arguments import kind_of, path
from .._errors import NotFound, usage
from .load import DType, Framework, Opened, framework_of
from .save import Path

if TYPE_CHECKING:
    import torch


class TensorSlice:
    """A tensor of an open file, of which nothing is decoded before it is indexed.

    ``slice[10:20]`` decodes these rows and little else: of quantized weights of profile ``lanes`` parts of a
    million values, of exact floats 0.5 MiB at each end, of tensors that are not packed nothing. Tensors of profile
    ``small`` and those stored otherwise are decoded as a whole first. ``slice[...]`` is the whole tensor;
    further indices, as in ``slice[10:20, :3]``, are applied to the decoded rows.
    """

    def __init__(self, file: OpenFile, name: str) -> None:
        self._file, self._name = file, name

    def get_shape(self) -> list[int]:
        """Sizes of all dimensions; ``[]`` for a scalar."""
        return list(self._file._entry(self._name)["shape"])

    def get_dtype(self) -> str:
        """Element type as safetensors spells it, ``"F32"``: that of the file, not the one it is read as."""
        return str(self._file._entry(self._name)["dtype"])

    def __getitem__(self, index: Any) -> Any:
        """An array or tensor of memory of its own.

        Raises:
            IndexError: beyond the tensor.
            UsageError: the file is closed.
        """
        rest = index if isinstance(index, tuple) else (index,)
        shape = self.get_shape()
        if not shape or not rest or not isinstance(rest[0], int | slice) or isinstance(rest[0], bool):
            whole = self._file.get_tensor(self._name)
            return whole if isinstance(index, EllipsisType) or rest == () else whole[index]
        first = rest[0]
        if isinstance(first, slice):
            rows = range(*first.indices(shape[0]))
        elif -shape[0] <= first < shape[0]:
            rows = range(first % shape[0], first % shape[0] + 1)
        else:
            raise IndexError(f"row {first} is beyond {self._name}, which has {shape[0]}")
        if not rows:
            return self._file._rows(self._name, 0, min(1, shape[0]))[(slice(0, 0), *rest[1:])]
        low = min(rows[0], rows[-1])
        values = self._file._rows(self._name, low, max(rows[0], rows[-1]) + 1 - low)
        if not isinstance(first, slice):
            return values[(0, *rest[1:])]
        return values[(slice(None, None, rows.step), *rest[1:])]


class OpenFile:
    """An open ``.gbz``; made by open(). It is mapped into memory and must not change meanwhile.

    Methods may be called by several threads at once. After close(), or at the end of a ``with`` block, all
    of them but close() raise UsageError; tensors that were read stay as they are.
    """

    def __init__(
        self,
        filename: Path,
        framework: Framework = "numpy",
        device: str | torch.device | None = None,
        dtype: DType | None = None,
        base: Path | Sequence[Path] | None = None,
        verify: bool | None = None,
        max_output: int | None = None,
        threads: int = 0,
        draft: bool = False,
    ) -> None:
        if device is not None and framework_of(framework) != "torch":
            raise usage("device has no effect on NumPy arrays; give framework='torch' as well")
        if verify is not None and not isinstance(verify, bool):
            raise usage(f"verify must be True, False or None, got {verify!r}")
        if not isinstance(draft, bool):
            raise usage(f"draft must be True or False, got {draft!r}")
        self.filename = path(filename, "filename")
        self._device = device
        self._file: Opened | None = Opened(
            filename, framework, base, max_output, threads, dtype, verify=verify, draft=draft
        )
        self._index = {entry["name"]: i for i, entry in enumerate(self._file.tensors)}

    def __enter__(self) -> OpenFile:
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmaps the file. A second call has no effect."""
        self._file = None

    def _opened(self) -> Opened:
        if self._file is None:
            raise usage(f"{self.filename} is closed; open it again")
        return self._file

    def _place(self, name: str) -> int:
        """Where the values of a tensor are: of a tied one, those of its owner."""
        opened = self._opened()
        if not isinstance(name, str):
            raise usage(f"the name of a tensor must be text, got {kind_of(name)}")
        if name not in self._index:
            raise NotFound(f"{self.filename} has no tensor {name!r}; keys() lists the names", "not_found")
        index = self._index[name]
        tied: int | None = opened.tensors[index]["tied_to"]
        return index if tied is None else tied

    def _entry(self, name: str) -> dict[str, Any]:
        return self._opened().tensors[self._place(name)]

    def _moved(self, array: Any) -> Any:
        return array if self._device is None else array.to(self._device)

    def _rows(self, name: str, first: int, count: int) -> Any:
        index = self._place(name)
        rows = self._opened().rows(index, first, count)
        return self._moved(rows) if rows is not None else self.get_tensor(name)[first : first + count]

    def __len__(self) -> int:
        return len(self._opened().tensors)

    def __contains__(self, name: object) -> bool:
        self._opened()
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Names of all tensors in the file's order, tied ones too."""
        self._opened()
        return list(self._index)

    def metadata(self) -> dict[str, str]:
        """The text that ``save_file(metadata=)`` was given; empty without any."""
        return self._opened().metadata()

    def get_tensor(self, name: str) -> Any:
        """One tensor in memory of its own, decoded at each call; bit for bit that of load_file().

        Of files below four million integers (profile ``small``) the integers before it are decoded too,
        and kept until close().

        Raises:
            NotFound: the file has no tensor of that name.
            UsageError: the file is closed.
            GbzError: ``code`` ``"corrupt"`` or ``"truncated"`` for damage that verification left to be
                found; ``"unsupported"`` for an element type that the framework lacks.
        """
        index = self._place(name)
        [(_, array)] = self._opened().arrays([index])
        return self._moved(array)

    def get_slice(self, name: str) -> TensorSlice:
        """The same without decoding: shape, element type, and rows by their indices.

        Raises:
            NotFound, UsageError: as get_tensor().
        """
        self._place(name)
        return TensorSlice(self, name)


def open(
    filename: Path,
    framework: Framework = "numpy",
    device: str | torch.device | None = None,
    *,
    dtype: DType | None = None,
    base: Path | Sequence[Path] | None = None,
    verify: bool | None = None,
    max_output: int | None = None,
    threads: int = 0,
    draft: bool = False,
) -> OpenFile:
    """Opens a ``.gbz`` to read some of its tensors, as ``safetensors.safe_open`` opens its files::

        with gbc.open("m.gbz", framework="pt") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)
            rows = file.get_slice("embed.weight")[:100]

    Nothing is decoded before it is requested, and nothing is kept.

    Args:
        filename: as load_file() takes it.
        framework: ``"numpy"`` (or ``"np"``) for arrays, ``"torch"`` (or ``"pt"``) for tensors.
        device: where torch tensors lie; unset: on the CPU.
        dtype: as load_file() takes it.
        base: as load_file() takes it.
        verify: checks the digest over the whole file first, about 1 s per GB. Unset: of files up to 64
            MiB. Without it, damage that breaks the format is an error of get_tensor(), and other damage
            changes values.
        max_output: as load_file() takes it.
        threads: as load_file() takes them.
        draft: reads the draft of a file with layers, not the exact values behind it. Other files have none:
            UsageError.

    Raises:
        NotFound, UsageError, GbzError: as load_file().
    """
    return OpenFile(filename, framework, device, dtype, base, verify, max_output, threads, draft)
