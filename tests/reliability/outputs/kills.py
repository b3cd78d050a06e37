"""Writers are killed at random moments: the file is the old one or the new one, whole."""

import os
import time

from checkpoint.saver import Finding, Scratch

from .jobs import rests

CHAIN = 20  # kills in one folder


def wait_until_it_writes(writer, target):
    """Until it has a temporary file of its own, or ends."""
    mine = f"{os.path.basename(target)}.tmp-{writer.pid}-"
    while writer.poll() is None and not any(name.startswith(mine) for name in rests(target)):
        pass


def kill_once(job, draw, version, target):
    """@return whether the kill came before the end"""
    writer = job.start(version, target, endless=bool(job.endless))
    if job.endless:
        writer.stdout.readline()  # it writes from here on, again and again
        time.sleep(draw.uniform(0, 0.2))
    elif draw.random() < 0.5:
        time.sleep(draw.uniform(0, 1.1 * job.seconds))
    else:
        wait_until_it_writes(writer, target)
        time.sleep(draw.uniform(0, 0.01))
    writer.kill()
    _, error = writer.communicate()
    found = job.version_in(target)
    if writer.returncode == 0 and found != version:
        raise Finding(f"{job.name} ended with 0 and did not write its file; {error}")
    if writer.returncode not in (0, -9):
        raise Finding(f"{job.name} ended with {writer.returncode} where nothing is wrong: {error}")
    return writer.returncode != 0


def kill_often(job, draw, wanted):
    kills = late = halves = replaced = 0
    while kills < wanted:
        with Scratch() as scratch:
            target = os.path.join(scratch, "out")
            version = draw.randrange(2)
            if job.run(version, target).returncode != 0:
                raise Finding(f"{job.name} fails where nothing is wrong")
            for _ in range(min(CHAIN, wanted - kills)):
                before = len(rests(target))
                hit = kill_once(job, draw, 1 - version, target)
                kills += hit
                late += not hit
                halves += len(rests(target)) > before
                replaced += job.version_in(target) != version
                version = job.version_in(target)
                if late > 10 + 2 * wanted:
                    raise Finding(f"{job.name} ends before it is hit")
            # Rests of the last ten seconds stay: their writers may live in another container.
            for name in rests(target):
                os.utime(os.path.join(scratch, name), (time.time() - 60,) * 2)
            if job.run(version, target).returncode != 0 or job.version_in(target) != version or rests(target):
                raise Finding(f"the next {job.name} does not mend {rests(target)}")
    return (f"{job.name}: {kills} kills ({late} came after the end), {halves} left a half-written temporary file, after "
            f"{replaced} the new file was there; 0 lost or mixed, 0 rests after the next run")


def campaign(jobs, draw, options):
    wanted = options.kills or (1000 if options.full else 7)
    return "; ".join(kill_often(job, draw, wanted) for job in jobs)
