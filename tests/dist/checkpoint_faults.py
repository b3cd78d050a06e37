"""What a save survives: being killed, system calls that fail, full disks, power failures. Standard
library only.

    python3 checkpoint_faults.py --saver BUILD/bin/checkpoint_saver [--full] [--seed S]
                                 [--only kills,calls,disks,power]

Prints one line of figures a part. Ends with status 1 when a checkpoint was lost or something was left
behind, and with 77 when every part was skipped. The short form takes about half a minute, --full about a
quarter of an hour.
"""

import argparse
import random
import sys
import time

from checkpoint import disks, kills, power, system_calls
from checkpoint.saver import Finding, Saver

PARTS = {"kills": kills.campaign, "calls": system_calls.campaign, "disks": disks.campaign,
         "power": power.campaign}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--saver", required=True, help="the program checkpoint_saver")
    arguments.add_argument("--full", action="store_true", help="the whole campaign")
    arguments.add_argument("--seed", type=int, default=None, help="of times and sizes; printed")
    arguments.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    options = arguments.parse_args()
    if unknown := set(options.only.split(",")) - set(PARTS):
        arguments.error(f"there is no part {', '.join(sorted(unknown))}")
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    failed, skipped = False, True
    for name in options.only.split(","):
        start = time.monotonic()
        try:
            figures = PARTS[name](Saver(options.saver), random.Random(f"{seed} {name}"), options.full)
        except Finding as finding:
            figures, failed = f"FAILED: {finding}", True
        skipped = skipped and figures.startswith("skipped")
        print(f"{name}: {figures} ({time.monotonic() - start:.0f} s)", flush=True)
    sys.exit(1 if failed else 77 if skipped else 0)


if __name__ == "__main__":
    main()
