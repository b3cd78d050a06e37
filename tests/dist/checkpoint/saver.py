"""Runs checkpoint_saver as one or several ranks, and looks at what it leaves. Standard library only."""

import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

TIMEOUT = 120  # seconds; nothing here comes near
# Programs that were built with the address sanitizer cannot look for leaks while they are traced.
STRACE = ["strace", "-E", "ASAN_OPTIONS=" + os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"]


class Finding(Exception):
    """Something that must not happen did."""


class Group:
    """Ranks that save together, and the agreement between them: all are well where each said so. When
    one is gone, the others hear that not all are well, as from a process group that lost a member."""

    count = 0

    def __init__(self, executable, folder, world=1, steps=0, size=4096, how="now", wrap=None,
                 preexec=None):
        """how: "now", "background" or "again", see checkpoint_saver.
        wrap(rank): words that go before the command of a rank, or None."""
        Group.count += 1
        self.said = [b""] * world
        self.changed = threading.Condition()
        self.ranks, self.sockets, self.threads = [], [], []
        run = f"run-{os.getpid()}-{Group.count}-{time.monotonic_ns()}"
        for rank in range(world):
            ours, theirs = socket.socketpair()
            command = [executable, "save", folder, str(rank), str(world), run, str(theirs.fileno()),
                       str(steps), str(size), how]
            before = wrap(rank) if wrap else None
            self.ranks.append(subprocess.Popen((before or []) + command, stdout=subprocess.PIPE,
                                               stderr=subprocess.PIPE, pass_fds=[theirs.fileno()],
                                               stdin=subprocess.DEVNULL, preexec_fn=preexec))
            theirs.close()
            self.sockets.append(ours)
        self.errors = [b""] * world
        self.start(self.agree)
        for rank in range(world):
            self.start(self.listen, rank)
            self.start(self.listen_errors, rank)

    def start(self, target, *arguments):
        self.threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self.threads[-1].start()

    def listen(self, rank):
        while piece := os.read(self.ranks[rank].stdout.fileno(), 65536):
            with self.changed:
                self.said[rank] += piece
                self.changed.notify_all()

    def listen_errors(self, rank):
        while piece := os.read(self.ranks[rank].stderr.fileno(), 65536):
            self.errors[rank] += piece

    def agree(self):
        waiting, gone, well = set(), False, True
        alive = set(range(len(self.sockets)))
        while alive:
            ready, _, _ = select.select([self.sockets[i] for i in alive - waiting], [], [], TIMEOUT)
            if not ready:
                return
            for i in [i for i in alive - waiting if self.sockets[i] in ready]:
                try:
                    byte = self.sockets[i].recv(1)
                except ConnectionError:
                    byte = b""
                if byte:
                    waiting.add(i)
                    well = well and byte == b"\1"
                else:
                    alive.discard(i)
                    gone = True
            if waiting and (gone or waiting == alive):
                for i in waiting:
                    try:
                        self.sockets[i].send(b"\1" if well and not gone else b"\0")
                    except OSError:
                        pass  # it will be found gone
                waiting, well = set(), True

    def wait_for(self, word):
        """Until rank 0 says it, or ends."""
        with self.changed:
            self.changed.wait_for(lambda: word in self.said[0] or self.ranks[0].poll() is not None, TIMEOUT)
            return word in self.said[0]

    def wait(self, seconds):
        """So long, or until rank 0 ends."""
        try:
            self.ranks[0].wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def kill(self, which):
        for rank in which:
            if self.ranks[rank].poll() is None:
                self.ranks[rank].send_signal(signal.SIGKILL)

    def end(self):
        """Waits for all. @return the ranks' exit statuses, negative for a signal"""
        deadline = time.monotonic() + TIMEOUT
        late = []
        for number, rank in enumerate(self.ranks):
            try:
                rank.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(number)
                rank.kill()
                rank.wait()
        for thread in self.threads:
            thread.join(TIMEOUT)
        for rank, ours in zip(self.ranks, self.sockets):
            rank.stdout.close()
            rank.stderr.close()
            ours.close()
        if late:
            raise Finding(f"ranks {late} did not end within {TIMEOUT} s")
        return [rank.returncode for rank in self.ranks]

    def saved(self):
        """The largest step that any rank knows to be on the disk, 0 for none."""
        return max([int(line.split()[1]) for said in self.said for line in said.split(b"\n")
                    if line.startswith(b"saved ")], default=0)

    def messages(self):
        return b"".join(self.errors).decode(errors="replace")


class Saver:
    def __init__(self, executable):
        self.executable = executable

    def run(self, *words):
        done = subprocess.run([self.executable, *words], capture_output=True, text=True, timeout=TIMEOUT)
        return done.returncode, done.stdout, done.stderr

    def check(self, folder, damaged=False):
        """The newest step that loads, 0 where none was ever saved. A newer one that is not whole is a
        Finding, unless the test made it so: no fault here damages what is on the disk."""
        status, out, err = self.run("check", folder)
        if status == 3 and not complete(folder):
            return 0
        if status != 0:
            raise Finding(f"no checkpoint loads (status {status}): {err.strip()}")
        lines = out.splitlines()
        if not damaged and any(line.startswith("damaged") for line in lines):
            raise Finding(out.strip())
        return int(lines[-1].split()[1])

    def start(self, folder, keep=2, damaged=False):
        """A next start; rests must be gone after it, and what was there must still load."""
        before = self.check(folder, damaged)
        status, _, err = self.run("start", folder)
        if status != 0:
            raise Finding(f"the next start fails: {err.strip()}")
        if temporaries(folder):
            raise Finding(f"the next start leaves {temporaries(folder)}; it says {err.strip()!r}")
        if len(complete(folder)) > keep and not damaged:
            raise Finding(f"the next start leaves {complete(folder)}")
        if self.check(folder, damaged) != before:
            raise Finding("the next start took the newest checkpoint away")


def names(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def complete(folder):
    return [name for name in names(folder) if name.startswith("step-") and ".tmp-" not in name]


def temporaries(folder):
    return [name for name in names(folder) if ".tmp-" in name]


class Scratch:
    """A folder that goes away."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="gbc-faults-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
