"""Which tensors of a damaged file do not decode."""

from __future__ import annotations

from collections.abc import Callable

from .. import _core
from .._errors import GbzError, of_code

#: In the core's sentence about a file whose digest is another.
_DIGEST = "its digest does not fit"
#: A tensor that callers have not named: the graph of an ONNX model, the metadata of a GGUF file.
_CONTAINER = "gbz.container"
#: Integers of profile ``small``, which are one stream for all tensors; of other kinds each tensor has bytes of its own.
_STREAMED = ("quantized", "predicted")


def named(error: GbzError, reopen: Callable[[], _core.File]) -> GbzError:
    """The error about a file, with the tensors that do not decode where its digest does not fit.

    The format has one digest, of the whole file, so damage that leaves all values decodable has no place; the error says so.

    Args:
        error: any; one that is not about a digest is returned as it is.
        reopen: opens the file without a comparison of its digest. It is called, and all tensors are decoded, for an error
            about a digest alone.
    """
    if error.code != "corrupt" or _DIGEST not in str(error):
        return error
    try:
        file = reopen()
        file.check_readable()
    except GbzError as second:
        if second.code in ("not_found", "usage") or str(second) == str(error):  # the base of a delta
            return error
        return of_code(error.code, f"{error}; no tensor can be named, since the header cannot be read")
    found = [entry for index, entry in enumerate(file.tensors()) if not _decodes(file, index, str(entry["dtype"]))]
    if not found:
        return of_code(error.code, f"{error}; no tensor can be named, since each of them decodes")
    first, more = found[0], len(found) - 1
    place = ""
    if file.profile == "small" and first["kind"] in _STREAMED:
        place = " (the damage lies in it or in a tensor before it)"
    elif more:
        place = f" (and {more} more)"
    name = "the container of the model" if first["name"] == _CONTAINER else first["name"]
    return of_code(error.code, f"{name} cannot be decoded{place}: {error}")


def _decodes(file: _core.File, index: int, dtype: str) -> bool:
    try:
        file.read([(index, dtype)])
    except GbzError as error:
        return error.code not in ("corrupt", "truncated")
    return True
