"""What files that the program writes survive: kills, two writers of one file, slow and read-only disks, inputs that
are cut while they are read, clocks that jump.

    python3 output_faults.py [--program BUILD/bin/gbcompress] [--site FOLDER] [--clock FILE] [--full] [--kills N]
                             [--seed S] [--only kills,writers,disks,inputs,clocks]

--site: where the Python package lies, so that its save_file() is tried as well; --clock: the library of
jumping_clock.cpp. Prints one line of figures a part. Ends with status 1 when a file was lost, mixed or half-written,
and with 77 when every part was skipped. --full makes 1,000 kills of each writer, --kills N so many.
"""

import argparse
import glob
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../dist"), os.path.join(HERE, "../cli")]


def parse():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--program", default=os.environ.get("GBCOMPRESS"))
    arguments.add_argument("--site", help="where the Python package lies")
    arguments.add_argument("--clock", help="the library of jumping_clock.cpp")
    arguments.add_argument("--full", action="store_true", help="the whole campaign")
    arguments.add_argument("--kills", type=int, help="of each writer; 7, and 1,000 with --full")
    arguments.add_argument("--seed", type=int, default=None, help="of the moments; printed")
    arguments.add_argument("--only", help="parts, separated by commas")
    options = arguments.parse_args()
    if not options.program:
        found = sorted(glob.glob(os.path.join(HERE, "../../build/*/bin/gbcompress")), key=os.path.getmtime)
        options.program = found[-1] if found else arguments.error("gbcompress is not built; give --program FILE")
    os.environ["GBCOMPRESS"] = options.program
    return arguments, options


ARGUMENTS, OPTIONS = parse()
from checkpoint.saver import Finding, Scratch  # noqa: E402
from outputs import clocks, disks, inputs, kills, writers  # noqa: E402  (reads the environment)
from outputs.jobs import jobs_in  # noqa: E402

PARTS = {"kills": kills.campaign, "writers": writers.campaign, "disks": disks.campaign, "inputs": inputs.campaign,
         "clocks": clocks.campaign}


def main():
    names = (OPTIONS.only or ",".join(PARTS)).split(",")
    if unknown := set(names) - set(PARTS):
        ARGUMENTS.error(f"there is no part {', '.join(sorted(unknown))}")
    OPTIONS.seed = random.randrange(1 << 32) if OPTIONS.seed is None else OPTIONS.seed
    print(f"seed {OPTIONS.seed}", flush=True)
    failed, skipped = False, True
    with Scratch() as folder:
        jobs = jobs_in(folder, OPTIONS)
        for name in names:
            start = time.monotonic()
            try:
                figures = PARTS[name](jobs, random.Random(f"{OPTIONS.seed} {name}"), OPTIONS)
            except Finding as finding:
                figures, failed = f"FAILED: {finding}", True
            skipped = skipped and figures.startswith("skipped")
            print(f"{name}: {figures} ({time.monotonic() - start:.0f} s)", flush=True)
    sys.exit(1 if failed else 77 if skipped else 0)


if __name__ == "__main__":
    main()
