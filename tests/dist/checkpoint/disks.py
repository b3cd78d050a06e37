"""Full, read-only and limited disks: a small tmpfs, and a limit on the size of files."""

import os
import resource
import shutil
import subprocess

from .saver import Finding, Group, Scratch, temporaries


class Disk:
    """A tmpfs of its own, where that is permitted."""

    def __init__(self, options):
        self.options = options

    def __enter__(self):
        self.scratch = Scratch()
        self.path = self.scratch.__enter__()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", self.path],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.scratch.__exit__()
            raise PermissionError(done.stderr.strip())
        return self.path

    def remount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", self.path], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", self.path], check=True)
        self.scratch.__exit__()


def refused(group, words):
    statuses = group.end()
    if set(statuses) != {1}:
        raise Finding(f"statuses {statuses} where all should be 1; {group.messages()}")
    if words not in group.messages():
        raise Finding(f"{words!r} is not in {group.messages()!r}")


def goes_on(saver, folder, world):
    """After the fault is gone, the next start saves as ever."""
    before = saver.check(folder)
    statuses = Group(saver.executable, folder, world, steps=2, size=1000).end()
    if any(statuses) or saver.check(folder) != before + 2 or temporaries(folder):
        raise Finding(f"the next start does not save: {statuses}, {temporaries(folder)}")


def fill(path):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(file, bytes(4096))
    except OSError:
        os.close(file)


def full(saver, options, size, words):
    """Saves until the disk is full, in the foreground and in the background, alone and with others."""
    for world in (1, 2):
        for how in ("now", "background"):
            disk = Disk(options)
            with disk as path:
                folder = os.path.join(path, "checkpoints")
                statuses = Group(saver.executable, folder, world, steps=2, size=1000).end()
                if any(statuses):
                    raise Finding(f"the first saves fail: {statuses}")
                refused(Group(saver.executable, folder, world, size=size // world, how=how), words)
                if saver.check(folder) < 2 or temporaries(folder):
                    raise Finding(f"a full disk leaves {os.listdir(folder)}")
                disk.remount("size=64m,nr_inodes=10k")
                goes_on(saver, folder, world)
    return 4


def full_from_the_start(saver):
    with Disk("size=1m") as path:
        folder = os.path.join(path, "checkpoints")
        if any(Group(saver.executable, folder, steps=2, size=1000).end()):
            raise Finding("the first saves fail")
        filler = os.path.join(path, "filler")
        fill(filler)
        refused(Group(saver.executable, folder, size=1000), "No space left on device; free space there or choose")
        if saver.check(folder) != 2:
            raise Finding("a full disk takes a checkpoint away")
        os.remove(filler)
        goes_on(saver, folder, 1)
    return 1


def read_only(saver):
    disk = Disk("size=4m")
    with disk as path:
        folder = os.path.join(path, "checkpoints")
        if any(Group(saver.executable, folder, 2, steps=2, size=1000).end()):
            raise Finding("the first saves fail")
        disk.remount("ro")
        for place in (folder, os.path.join(path, "new")):
            refused(Group(saver.executable, place, 2, size=1000),
                    "Read-only file system; choose a folder that may be written to")
        if saver.check(folder) != 2:
            raise Finding("a read-only disk takes a checkpoint away")
        disk.remount("rw")
        goes_on(saver, folder, 2)
    return 2


def limited(saver):
    """In the foreground the limit's signal ends the program as it would any other."""
    with Scratch() as scratch:
        for world in (1, 2):
            for how in ("now", "background"):
                folder = os.path.join(scratch, f"{world}-{how}")
                if any(Group(saver.executable, folder, world, steps=2, size=1000).end()):
                    raise Finding("the first saves fail")
                group = Group(saver.executable, folder, world, size=1 << 20, how=how,
                              preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18)))
                if how == "background":
                    refused(group, "File too large; raise the limit on the size of files")
                elif 0 in group.end():
                    raise Finding("a rank that could not save ends with 0")
                if saver.check(folder) != 2:
                    raise Finding("a limit on file sizes takes a checkpoint away")
                saver.start(folder)
                goes_on(saver, folder, world)
    return 4


def campaign(saver, draw, whole):
    cases = limited(saver)
    if not shutil.which("mount"):
        return f"{cases} cases; those with a disk of their own skipped, there is no mount"
    try:
        cases += full(saver, "size=2m", 1 << 20, "No space left on device; free space there or choose")
        cases += full(saver, "size=2m,nr_inodes=11", 1000, "No space left on device") if whole else 0
        cases += full_from_the_start(saver)
        cases += read_only(saver)
    except PermissionError as error:
        return f"{cases} cases; those with a disk of their own skipped, mounting is not permitted: {error}"
    return f"{cases} cases of full, read-only and limited disks; 0 checkpoints lost, 0 rests"
