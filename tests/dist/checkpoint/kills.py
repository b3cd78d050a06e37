"""Ranks are killed at random moments while they save again and again."""

import os

from .saver import Finding, Group, Scratch, complete, temporaries

CHAIN = 20  # kills in one folder, each resuming from what the one before left


def kill_once(saver, draw, folder, last):
    """@return whether all ranks were killed, the newest step that loads afterwards"""
    world = draw.choice([1, 2, 3])
    group = Group(saver.executable, folder, world, size=draw.choice([1 << 10, 1 << 17, 1 << 21]),
                  how=draw.choice(["now", "background", "again"]))
    everything = world == 1 or draw.random() < 0.5
    if group.wait_for(b"started"):
        # From before the first save to well within the later ones.
        group.wait(draw.uniform(0, 0.12))
    group.kill(range(world) if everything else [draw.randrange(world)])
    statuses = group.end()
    if 0 in statuses:
        raise Finding(f"a rank ended as if all were well: {statuses}, {group.messages()}")
    last = max(last, group.saved())
    found = saver.check(folder)
    if found < last:
        raise Finding(f"step {last} was saved, after a kill step {found} is the newest of {complete(folder)}; "
                      f"{group.messages()}")
    return everything, found


def campaign(saver, draw, full):
    wanted = 1000 if full else 30
    kills = of_all = halves = steps = 0
    while kills < wanted:
        with Scratch() as scratch:
            folder = os.path.join(scratch, "checkpoints")
            last = 0
            for _ in range(min(CHAIN, wanted - kills)):
                everything, last = kill_once(saver, draw, folder, last)
                kills += 1
                of_all += everything
                halves += bool(temporaries(folder))
            saver.start(folder)
            steps += last
    return (f"{kills} kills ({of_all} of all ranks, {kills - of_all} of one of several) during {steps} saves; "
            f"{halves} left a half-written one; 0 lost or unloadable, 0 rests after the next start")
