#!/usr/bin/env python3
"""Reads the sources of a build folder that need LibTorch as its compiler does, without making objects of them. The
sources that do not need LibTorch are built in the preset `fuzz`.

    clang_syntax.py BUILD_FOLDER [CHANGED...]    configured for Clang, without precompiled headers: scripts/check
    CHANGED: files of this repository; only sources that contain one of them are read, or all where one is a header
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

OURS = ("core", "cli", "plugins")


def concerns(source: pathlib.Path, changed: list[str]) -> bool:
    """Whether a source, or one of the files that are compiled together in it, changed."""
    if not changed or any(name.endswith(".h") for name in changed):
        return True
    text = source.read_text(errors="replace") if source.suffix == ".cxx" else f'"{source}"'
    return any(f"/{name}\"" in text for name in changed)


def command_of(entry: dict, changed: list[str]) -> list[str] | None:
    """None for a source without LibTorch, or one of the tests, or one that did not change."""
    words = shlex.split(entry["command"])
    output = words[words.index("-o") + 1]
    if not output.startswith(OURS) or not any("/torch/include" in word for word in words):
        return None
    if not concerns(pathlib.Path(entry["file"]), changed):
        return None
    return [*words, "-fsyntax-only"]


def main() -> int:
    folder, changed = pathlib.Path(sys.argv[1]), sys.argv[2:]
    entries = json.loads((folder / "compile_commands.json").read_text())
    commands = [c for c in (command_of(entry, changed) for entry in entries) if c]
    if not commands and changed:
        print("no source with LibTorch changed")
        return 0
    if not commands:
        print(f"no source with LibTorch in {folder}; configure it with scripts/build")
        return 1

    def run(command: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(run, commands):
            if done.returncode:
                failed += 1
                print(done.stderr[-4000:], flush=True)
    print(f"{len(commands)} files, {failed} with warnings or errors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
