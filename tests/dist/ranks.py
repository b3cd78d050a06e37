"""Starts ranks of the test program. Standard library only."""

import os
import random
import socket
import subprocess
import threading
import time

WORKER = os.environ["GBC_DIST_WORKER"]
LIMIT = 120  # seconds; no test comes near


def ephemeral_ports():
    """Those that the system gives to whoever does not ask for one: first, last."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            first, last = map(int, file.read().split())
            return first, last
    except (OSError, ValueError):
        return 32768, 60999


def free_port():
    """A port that is free, and that the system will not give to a socket of its own choice (those of
    Gloo, the source of any connection) between now and the moment when rank 0 binds it."""
    first, last = ephemeral_ports()
    others = [*range(10000, min(first, 65536)), *range(last + 1, 65536)] or [*range(10000, 65536)]
    while True:
        port = random.choice(others)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


LAUNCH = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "GROUP_", "ROLE_", "OMPI_", "PMI", "MPI_",
          "SLURM_")


def clean_environment(**extra):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCH)}
    kept["OMP_NUM_THREADS"] = "1"
    kept.update({k: str(v) for k, v in extra.items() if v is not None})
    return kept


def torchrun_environment(rank, world, port, **extra):
    return clean_environment(**{"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world,
                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **extra})


class Rank:
    """One process; what it prints is gathered while it runs."""

    def __init__(self, arguments, environment, prefix=()):
        self.process = subprocess.Popen([*prefix, WORKER, *arguments], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err, self.ended = "", "", None
        self.ready = threading.Event()
        self.threads = [threading.Thread(target=self.gather, args=(name,)) for name in ("stdout", "stderr")]
        self.threads.append(threading.Thread(target=self.watch))
        for thread in self.threads:
            thread.start()

    def gather(self, name):
        with getattr(self.process, name) as stream:
            for line in stream:
                if name == "stdout":
                    self.out += line
                    if line == "ready\n":
                        self.ready.set()
                else:
                    self.err += line

    def watch(self):
        self.process.wait()
        self.ended = time.monotonic()
        self.ready.set()

    def finish(self, limit=LIMIT):
        """-> the exit status, or that there was none"""
        watcher = self.threads[-1]
        watcher.join(limit)
        late = watcher.is_alive()
        if late:
            self.process.kill()
        for thread in self.threads:
            thread.join()
        return "did not end" if late else self.process.returncode


class Job:
    """The ranks 0 .. world - 1, or those of `only`."""

    def __init__(self, world, *arguments, environment=torchrun_environment, port=None, timeout=30, start=100, own=None,
                 only=None):
        """own: one more argument for each rank"""
        port = port or free_port()
        shared = ["--timeout", str(timeout), "--start-timeout", str(start), *map(str, arguments)]
        self.ranks = [Rank([*shared, *([own[i]] if own else [])], environment(r, world, port))
                      for i, r in enumerate(only or range(world))]

    def wait_ready(self):
        for rank in self.ranks:
            if not rank.ready.wait(LIMIT):
                self.kill()
                raise AssertionError("a rank never said that it is ready:\n" + self.text())
        return self

    def finish(self, limit=LIMIT):
        deadline = time.monotonic() + limit
        self.statuses = [rank.finish(max(0.1, deadline - time.monotonic())) for rank in self.ranks]
        return self

    def kill(self):
        for rank in self.ranks:
            rank.process.kill()
        self.finish()

    def last_end(self, without=()):
        return max(rank.ended for i, rank in enumerate(self.ranks) if i not in without)

    def text(self):
        return "\n".join(f"-- rank {i}: {rank.process.returncode}\n{rank.out}{rank.err}"
                         for i, rank in enumerate(self.ranks))
