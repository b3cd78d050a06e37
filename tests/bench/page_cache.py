"""Measurements without a file in the page cache."""
import os


def forget(path: str) -> None:
    """Drops the file from the page cache; POSIX_FADV_DONTNEED takes effect for what is on the disk already."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
