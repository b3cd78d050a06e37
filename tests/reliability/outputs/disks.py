"""Disks that are full, read-only or slow."""

import os
import shutil

from checkpoint.disks import Disk
from checkpoint.saver import STRACE, Finding, Scratch

from .jobs import TIMEOUT, read, rests


def refused(job, target, words):
    """Fails with one sentence, and the old file stays."""
    before = read(target)
    done = job.run(1, target)
    if done.returncode != 1 or words not in done.stderr:
        raise Finding(f"{job.name}: status {done.returncode} where 1 was expected, {words!r} is not in {done.stderr!r}")
    if read(target) != before or rests(target):
        raise Finding(f"{job.name} changes {target} or leaves {rests(target)}")


def full(job):
    with Disk("size=24m") as path:
        target = os.path.join(path, "out")
        if job.run(0, target).returncode != 0:
            raise Finding(f"{job.name} fails on an empty disk")
        filler = os.open(os.path.join(path, "filler"), os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            os.close(filler)
        refused(job, target, "No space left on device")
        os.remove(os.path.join(path, "filler"))
        if job.run(1, target).returncode != 0 or job.version_in(target) != 1:
            raise Finding(f"{job.name} does not write once there is space")


def read_only(job):
    disk = Disk("size=24m")
    with disk as path:
        target = os.path.join(path, "out")
        job.run(0, target)
        disk.remount("ro")
        refused(job, target, "Read-only file system")
        disk.remount("rw")


def slow(job):
    """Every write and flush takes a tenth of a second: whoever looks sees one of the two files, whole."""
    with Scratch() as scratch:
        target = os.path.join(scratch, "out")
        job.run(0, target)
        writer = job.start(1, target, [*STRACE, "-f", "-qq", "-o", "/dev/null", "-e", "trace=write,fsync,rename",
                                       "-e", "inject=write,fsync:delay_enter=100000"])
        looks = 0
        while writer.poll() is None:
            job.version_in(target)
            looks += 1
        _, error = writer.communicate(timeout=TIMEOUT)
        if writer.returncode != 0 or job.version_in(target) != 1 or rests(target):
            raise Finding(f"{job.name} on a slow disk: {writer.returncode} {error} {rests(target)}")
        if looks < 10:
            raise Finding(f"{job.name} was not slow")


def campaign(jobs, draw, options):
    cases, left_out = 0, ""
    if shutil.which("strace"):
        for job in jobs:
            slow(job)
            cases += 1
    else:
        left_out += "; slow disks skipped, there is no strace"
    try:
        for job in jobs:
            if job.endless:  # Python reports an exception and status 1, with the same words
                continue
            full(job)
            read_only(job)
            cases += 2
    except (PermissionError, FileNotFoundError) as error:
        left_out += f"; full and read-only disks skipped, no disk can be mounted here: {error}"
    return f"{cases} cases{left_out}; 0 files lost, 0 rests" if cases else "skipped: neither strace nor mount is here"
