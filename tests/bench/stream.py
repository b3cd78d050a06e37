#!/usr/bin/env python3
"""Expands a file of 1.08e9 weights and says how much memory that took.

    stream.py --gbcompress EXECUTABLE --fixtures gbc_cli_fixtures [--folder DIR]

DIR must have room for 4.5 GB. Fails where the process was larger than 1 GiB at any time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

LAYERS, ROWS, COLS = 24, 11008, 4096
GIB = 1 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbcompress", required=True, metavar="EXECUTABLE")
    parser.add_argument("--fixtures", required=True, metavar="EXECUTABLE")
    parser.add_argument("--folder", metavar="DIR")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gbc-stream-", dir=arguments.folder) as folder:
        subprocess.run([arguments.fixtures, folder, str(LAYERS), str(ROWS), str(COLS)], check=True)
        source, target = os.path.join(folder, "layers.gbz"), os.path.join(folder, "out.safetensors")
        start = time.perf_counter()
        child = subprocess.Popen([arguments.gbcompress, "expand", source, "-o", target])
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if child.returncode:
            return child.returncode
        peak = usage.ru_maxrss * 1024
        print(f"{LAYERS * ROWS * COLS:,} weights, {os.path.getsize(source):,} bytes to {os.path.getsize(target):,} in "
              f"{seconds:.1f} s, peak memory {peak / GIB:.2f} GiB")
        return 0 if peak <= GIB else 1


if __name__ == "__main__":
    sys.exit(main())
