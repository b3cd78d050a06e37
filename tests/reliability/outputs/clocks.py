"""The machine's clock jumps by days, forth and back, at every look."""

import os
import time

from checkpoint.saver import Finding, Scratch

from .jobs import rests


def campaign(jobs, draw, options):
    if not options.clock:
        return "skipped: give --clock LIBRARY, of jumping_clock.cpp"
    if not os.path.exists(options.clock):
        raise Finding(f"there is no {options.clock}")
    repeats, cases = 20 if options.full else 2, 0
    for job in jobs:
        for number in range(repeats):
            with Scratch() as scratch:
                target, begun = os.path.join(scratch, "out"), time.monotonic()
                for shift in (-86_400, 86_400):  # of a writer whose clock was another
                    rest = f"{target}.tmp-{999_999_000 + number}-{shift + 86_400}"
                    with open(rest, "w") as file:
                        file.write("half")
                    os.utime(rest, (time.time() + shift,) * 2)
                done = job.run(number % 2, target, environment={"LD_PRELOAD": options.clock})
                if done.returncode != 0 or job.version_in(target) != number % 2:
                    raise Finding(f"{job.name} under a clock that jumps: {done.returncode} {done.stderr}")
                if rests(target):
                    raise Finding(f"{job.name} leaves {rests(target)}")
                if time.monotonic() - begun > 10 + 10 * job.seconds:
                    raise Finding(f"{job.name} takes {time.monotonic() - begun:.0f} s under a clock that jumps")
                cases += 1
    return f"{cases} runs under a clock that jumps by days at every look; all wrote their file and mended rests of other days"
