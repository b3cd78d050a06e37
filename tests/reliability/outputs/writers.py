"""Two writers of one file: the last complete one wins, and without --force the second is refused."""

import os
import signal
import time

from checkpoint.saver import Finding, Scratch

from .jobs import TIMEOUT, rests


def race(job, draw, target):
    """Both at once."""
    writers = [job.start(version, target) for version in range(2)]
    if draw.random() < 0.5:
        writers.reverse()
    said = [writer.communicate(timeout=TIMEOUT)[1] for writer in writers]
    if any(writer.returncode for writer in writers):
        raise Finding(f"one of two {job.name} failed: {said}")
    job.version_in(target)
    if rests(target):
        raise Finding(f"two {job.name} leave {rests(target)}")


def stopped_while_it_writes(job, version, target, words):
    """A writer that has its temporary file and is stopped; None where it was too quick."""
    writer = job.start(version, target, words)
    deadline = time.monotonic() + TIMEOUT
    while not rests(target) and writer.poll() is None and time.monotonic() < deadline:
        pass
    if writer.poll() is None:
        writer.send_signal(signal.SIGSTOP)
        # Its file is renamed yet where the signal finds it in that call.
        os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if rests(target):
            return writer
        writer.send_signal(signal.SIGCONT)  # it had just ended
    writer.communicate(timeout=TIMEOUT)
    return None


def overtaken(job, draw, target):
    """The first is stopped while it writes, the second completes, then the first goes on: it is the last."""
    first = draw.randrange(2)
    writer = stopped_while_it_writes(job, first, target, ())
    if writer is None:
        return 0
    second = job.run(1 - first, target)
    if second.returncode != 0 or job.version_in(target) != 1 - first:
        raise Finding(f"the second {job.name} did not write its file: {second.stderr}")
    writer.send_signal(signal.SIGCONT)
    _, error = writer.communicate(timeout=TIMEOUT)
    if writer.returncode != 0 or job.version_in(target) != first:
        raise Finding(f"the last complete {job.name} did not win: {writer.returncode} {error}")
    if rests(target):
        raise Finding(f"{job.name} leaves {rests(target)}")
    return 1


def campaign(jobs, draw, options):
    repeats = 200 if options.full else 2
    races = orders = 0
    for job in jobs:
        for _ in range(repeats):
            with Scratch() as scratch:
                race(job, draw, os.path.join(scratch, "out"))
                races += 1
                orders += overtaken(job, draw, os.path.join(scratch, "later"))
    if orders < races // 4:
        raise Finding(f"only {orders} of {races} writers could be stopped while they wrote")
    return f"{races} pairs at once, {orders} with one overtaken while it wrote; 0 mixed, the last complete one won, 0 rests"
