"""Power failures, on paper: the writes, renames and flushes of real saves are recorded with strace; then
states that a disk may be in after losing power at any moment are made from them, and must load. What was
not flushed may be there, be missing, be there in part, and in any order."""

import os
import re
import shutil

from . import system_calls
from .saver import STRACE, Finding, Group, Scratch

TRACED = "openat,write,ftruncate,fsync,mkdir,rename,renameat2,unlink,rmdir"
WORLD = 2


class File:
    """Content that is on the disk for sure, and writes (offset, bytes) that may be."""

    def __init__(self, content=b""):
        self.flushed, self.live, self.pending = content, content, []

    def write(self, data):
        self.pending.append((len(self.live), data))
        self.live += data

    def truncate(self):
        self.pending.append(None)
        self.live = b""

    def flush(self):
        self.flushed, self.pending = self.live, []

    def after_power_loss(self, draw):
        content = bytearray(self.flushed)
        for change in some(self.pending, draw):
            if change is None:
                content.clear()
                continue
            offset, data = change
            data = data[:draw.randrange(len(data) + 1)] if draw.random() < 0.3 else data
            content.extend(bytes(max(0, offset + len(data) - len(content))))  # a hole where one is missing
            content[offset:offset + len(data)] = data
        return bytes(content)


class Folder:
    """Entries that are on the disk for sure, and changes {name: node or None} that may be."""

    def __init__(self):
        self.flushed, self.live, self.pending = {}, {}, []

    def change(self, entries):
        self.pending.append(entries)
        self.live = applied(self.live, entries)

    def flush(self):
        self.flushed, self.pending = self.live, []

    def after_power_loss(self, draw):
        entries = self.flushed
        for change in some(self.pending, draw):
            entries = applied(entries, change)
        return entries


def applied(entries, change):
    return {name: node for name, node in {**entries, **change}.items() if node is not None}


def some(pending, draw):
    """All, none, the first ones, or any of the changes that were not flushed."""
    kind = draw.randrange(4)
    if kind < 2:
        return pending if kind else []
    if kind == 2:
        return pending[:draw.randrange(len(pending) + 1)]
    return [change for change in pending if draw.random() < 0.5]


def load(path):
    """A tree as it lies on the disk, all flushed."""
    if not os.path.isdir(path):
        with open(path, "rb") as file:
            return File(file.read())
    folder = Folder()
    folder.change({name: load(os.path.join(path, name)) for name in os.listdir(path)})
    folder.flush()
    return folder


def lay(node, path, draw):
    if isinstance(node, File):
        with open(path, "wb") as file:
            file.write(node.after_power_loss(draw))
        return
    os.mkdir(path)
    for name, child in node.after_power_loss(draw).items():
        lay(child, os.path.join(path, name), draw)


def text(escaped):
    return bytes(int(pair, 16) for pair in re.findall(r"\\x(..)", escaped))


def recorded(logs):
    """(time, call, arguments as bytes, flags) of all ranks, in order; calls that failed are left out."""
    events = []
    for log in logs:
        with open(log) as lines:
            for line in lines:
                found = re.match(r"([\d.]+) (\w+)\((.*)\) = (\d+)", line)
                if found:
                    words = [text(word) for word in re.findall(r'"([^"]*)"', found[3])]
                    about = re.match(r"(\d+)<([^>]*)>", found[3])
                    events.append((float(found[1]), found[2], text(about[2]) if about else b"", words, found[3]))
    return sorted(events, key=lambda event: event[0])


class Disk:
    """A folder as a record of system calls leaves it, and the newest step it holds for sure."""

    def __init__(self, root, flushes, saved):
        self.root, self.tree, self.flushes, self.saved = root, load(root), flushes, saved

    def at(self, path):
        """The node of a path below the root, None for any other."""
        path = path.decode()
        if path != self.root and not path.startswith(self.root + "/"):
            return None
        node = self.tree
        for name in path[len(self.root):].split("/")[1:]:
            node = node.live[name]
        return node

    def inside(self, path):
        """(folder, name) of a path below the root."""
        above, name = os.path.split(path.decode())
        return self.at(above.encode()), name

    def replay(self, event):
        """@return whether the disk may look different afterwards"""
        _, call, about, words, line = event
        if call == "write" and words[0].startswith(b"saved "):
            self.saved = max(self.saved, int(words[0].split()[1]))
            return False
        if not (about or words[0]).startswith(self.root.encode()):
            return False
        if call == "openat":
            if "O_CREAT" not in line or self.inside(words[0])[1] in self.inside(words[0])[0].live:
                return False
            folder, name = self.inside(words[0])
            folder.change({name: File()})
        elif call == "mkdir":
            folder, name = self.inside(words[0])
            folder.change({name: Folder()})
        elif call in ("unlink", "rmdir"):
            folder, name = self.inside(words[0])
            folder.change({name: None})
        elif call in ("rename", "renameat2"):
            (folder, old), (other, new) = self.inside(words[0]), self.inside(words[1])
            if folder is not other:
                raise Finding(f"a rename from folder to folder: {line}")
            swapped = folder.live.get(new) if call == "renameat2" else None
            folder.change({new: folder.live[old], old: swapped})
        elif call == "write":
            self.at(about).write(words[0])
        elif call == "ftruncate":
            self.at(about).truncate()
        elif call == "fsync" and self.flushes:
            self.at(about).flush()
        return True


class Scene:
    """A run of two ranks that resumes in a folder with steps 1 and 2 and with rests, and saves two more.

    damaged: step 2 is, so that the run resumes from step 1 and puts another step 2 in its place."""

    def __init__(self, saver, scratch, damaged):
        self.root, self.damaged = os.path.join(scratch, "checkpoints"), damaged
        if any(Group(saver.executable, self.root, WORLD, steps=2, size=600).end()):
            raise Finding("the scene cannot be made")
        os.mkdir(os.path.join(self.root, "step-000000000003.tmp-1-2-3"))
        if damaged:
            os.truncate(os.path.join(self.root, "step-000000000002", "manifest"), 5)
        before = os.path.join(scratch, "before")
        shutil.copytree(self.root, before)
        logs = [os.path.join(scratch, f"log-{rank}") for rank in range(WORLD)]
        statuses = Group(saver.executable, self.root, WORLD, steps=2, size=600, wrap=lambda rank: [
            *STRACE, "-qq", "-ttt", "-y", "-xx", "-s", "16777216", "-e", f"trace={TRACED}", "-o", logs[rank]]).end()
        self.events = recorded(logs)
        if any(statuses) or damaged != any(event[1] == "renameat2" for event in self.events):
            raise Finding(f"the saves cannot be recorded: {statuses}")
        shutil.rmtree(self.root)
        os.rename(before, self.root)

    def disk(self, flushes):
        return Disk(self.root, flushes, 1 if self.damaged else 2)

    def states(self, saver, draw, flushes, wanted):
        """@return how many states there were, and what was wrong with those that were bad"""
        counting = self.disk(flushes)
        moments = sum(counting.replay(event) for event in self.events)
        disk, made, bad = self.disk(flushes), 0, []
        place = self.root + "-after"
        for event in self.events:
            if not disk.replay(event):
                continue
            for _ in range(-(-wanted // moments)):
                lay(disk.tree, place, draw)
                made += 1
                try:
                    found = saver.check(place, self.damaged)
                    if found < disk.saved:
                        raise Finding(f"step {disk.saved} was saved, step {found} is the newest that loads")
                    if made % 20 == 0:
                        saver.start(place, damaged=self.damaged)
                except Finding as finding:
                    bad.append(f"after {event[1]}: {finding}")
                shutil.rmtree(place)
        return made, bad


def campaign(saver, draw, full):
    if reason := system_calls.no_strace():
        return reason
    states = blind = seen = 0
    for damaged in (False, True):
        with Scratch() as scratch:
            scene = Scene(saver, scratch, damaged)
            made, bad = scene.states(saver, draw, True, 3000 if full else 80)
            if bad:
                raise Finding(f"{len(bad)} of {made} states after a power failure are bad, the first: {bad[0]}")
            states += made
            # A model that cannot find missing flushes would say nothing about flushes.
            made, bad = scene.states(saver, draw, False, 500 if full else 80)
            if not bad:
                raise Finding(f"with flushes left out, all of {made} states are good; the model sees nothing")
            blind += made
            seen += len(bad)
    return (f"{states} states after a power failure, 0 bad (with flushes left out of the record {seen} of {blind} "
            f"are)")
