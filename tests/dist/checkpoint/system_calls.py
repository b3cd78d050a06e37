"""Every system call of resuming and saving fails, once and for ever, with each of four errors
(strace -e inject)."""

import collections
import os
import re
import shutil
import subprocess

from .saver import STRACE, Finding, Group, Scratch, complete

ERRORS = ("ENOSPC", "EIO", "EINTR", "EDQUOT")
# Repeating these is all that an interruption asks for.
REPEATED = {"openat", "read", "pread64", "write", "fsync", "mkdir", "rename", "renameat2", "unlink", "rmdir",
            "getdents64", "flock", "ftruncate", "close"}
# brk tells a failure by the old address, so that an error would pass for success; exit cannot fail.
WITHOUT_ERRORS = {"brk", "exit", "exit_group"}
# World, rank with the fault, what it does; the last as on a file system that cannot exchange names.
RUNS = ((1, 0, "now"), (1, 0, "background"), (2, 0, "now"), (2, 1, "now"), (2, 1, "background"), (1, 0, "again"),
        (1, 0, "again", "-e", "inject=renameat2:error=EINVAL"))
IMPORTANT = {"write", "fsync", "rename", "renameat2", "mkdir", "unlink", "rmdir", "flock", "ftruncate"}


class Scene:
    """A folder with two checkpoints and rests of a save that was killed, made once and copied; and what
    a run does there. always: a fault that is there from the beginning."""

    def __init__(self, saver, scratch, world, how, always=()):
        self.saver, self.scratch, self.world, self.how, self.always = saver, scratch, world, how, always
        self.pattern = os.path.join(scratch, "pattern")
        statuses = self.group(self.pattern, steps=2).end()
        rest = os.path.join(self.pattern, "step-000000000003.tmp-1-2-3")
        os.mkdir(rest)
        with open(os.path.join(rest, "rank-00000.shard"), "wb") as file:
            file.write(b"half")
        if any(statuses) or saver.check(self.pattern) != 2:
            raise Finding(f"the scene cannot be made: {statuses}")
        self.count = 0

    def group(self, folder, steps=1, wrap=None):
        return Group(self.saver.executable, folder, self.world, steps=steps, how=self.how, wrap=wrap)

    def run(self, rank, strace):
        """Resumes and saves one step with one rank under strace. @return folder, group, statuses"""
        self.count += 1
        folder = os.path.join(self.scratch, str(self.count))
        shutil.copytree(self.pattern, folder)
        group = self.group(folder, wrap=lambda r: [*STRACE, "-f", "-qq", *self.always, *strace] if r == rank else None)
        return folder, group, group.end()

    def points(self, rank):
        """(system call, which one) of the thread that saves, counted as strace counts."""
        log = os.path.join(self.scratch, "log")
        folder, group, statuses = self.run(rank, ["-o", log])
        if any(statuses) or self.saver.check(folder) != group.saved():
            raise Finding(f"a save under strace fails without any fault: {statuses} {group.messages()}")
        shutil.rmtree(folder)
        calls = collections.defaultdict(list)
        with open(log, errors="replace") as lines:
            for line in lines:
                if found := re.match(r"(\d+) +(\w+)\((.*)", line):
                    calls[int(found[1])].append((found[2], found[3]))
        main, *others = sorted(calls)
        if self.how == "background":
            # Counted from the start of each thread; what the main thread calls as well is left to the
            # runs without a background, where it is counted apart.
            own = {name for name, _ in calls[main]}
            return numbered([name for name, _ in calls[others[0]]], lambda name: name not in own | WITHOUT_ERRORS)
        marks = [i for i, (name, text) in enumerate(calls[main]) if "gbc-mark" in text]
        within = range(marks[0] + 1, marks[1])
        every = numbered([name for name, _ in calls[main]], lambda name: True)
        return [every[i] for i in within if every[i][0] not in WITHOUT_ERRORS]

    def fail(self, rank, point, error, for_ever):
        """@return how it ended: "saved", "refused", or "died of" a system call"""
        name, number = point
        fault = f"inject={name}:error={error}:when={number}{'+' if for_ever else ''}"
        what = f"{fault}, rank {rank} of {self.world}, {self.how} {' '.join(self.always)}"
        statuses, group = None, None
        try:
            folder, group, statuses = self.run(rank, ["-o", "/dev/null", "-e", fault])
            found = self.saver.check(folder)
            # Without an exchange there is a moment with step 1 alone.
            if found < max(1 if self.always else 2, group.saved()):
                raise Finding(f"step {found} is the newest of {complete(folder)}, {group.saved()} was saved")
            # Step 1 or 2 again where reading step 2 failed and step 1 was resumed from.
            if not any(statuses) and not group.saved():
                raise Finding("the status is 0, but nothing was saved")
            if any(statuses) and not group.messages() and name != "write":  # which messages need as well
                raise Finding(f"no message, status {statuses}")
            if error == "EINTR" and not for_ever and name in REPEATED and any(statuses):
                raise Finding("one interruption is not survived")
            self.saver.start(folder)
        except Finding as finding:
            messages = group.messages() if group else ""
            raise Finding(f"{what}: {finding}; statuses {statuses}, messages {messages!r}") from None
        shutil.rmtree(folder)
        return f"died of {name}" if min(statuses) < 0 or max(statuses) > 1 else "refused" if any(statuses) else "saved"


def numbered(names, wanted):
    seen = collections.Counter()
    points = []
    for name in names:
        seen[name] += 1
        if wanted(name):
            points.append((name, seen[name]))
    return points


def shortened(points, draw):
    """The first of every system call, and some more of those that write."""
    first = list({name: (name, number) for name, number in reversed(points)}.values())
    more = [point for point in points if point[0] in IMPORTANT and point not in first]
    return [(point, draw.choice(ERRORS), draw.random() < 0.5)
            for point in first + draw.sample(more, min(len(more), 12))]


def no_strace():
    """Why strace cannot be used, or nothing."""
    if not shutil.which("strace"):
        return "skipped, strace is not installed (apt-get install strace)"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return f"skipped, strace cannot work here: {tried.stderr.strip()}" if tried.returncode != 0 else ""


def campaign(saver, draw, full):
    if reason := no_strace():
        return reason
    with Scratch() as scratch:
        ended = collections.Counter()
        points = 0
        for number, (world, rank, how, *always) in enumerate(RUNS):
            folder = os.path.join(scratch, str(number))
            os.mkdir(folder)
            scene = Scene(saver, folder, world, how, always)
            found = scene.points(rank)
            points += len(found)
            cases = ([(point, error, for_ever) for point in found for error in ERRORS for for_ever in (False, True)]
                     if full else shortened(found, draw))
            for point, error, for_ever in cases:
                ended[scene.fail(rank, point, error, for_ever)] += 1
    deaths = ", ".join(f"{count} {end}" for end, count in sorted(ended.items()) if end.startswith("died"))
    return (f"{sum(ended.values())} faults at {points} calls: {ended['saved']} saves went through, "
            f"{ended['refused']} were refused with a message, in the others the C library ended the process "
            f"({deaths or 'none'}); 0 checkpoints lost, 0 statuses of 0 without a save, 0 rests after the next "
            f"start")
