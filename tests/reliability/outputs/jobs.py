"""Commands that replace a file by one of two contents, which are known."""

import os
import subprocess
import sys
import time

import harness
from checkpoint.saver import Finding

TIMEOUT = 240  # seconds; nothing here comes near

SAVE = """
import sys
import numpy as np
import gbcompress
version, target, again = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "again"
tensors = [{"w": np.random.default_rng(v).standard_normal((512, 1024)).astype(np.float32)} for v in range(2)]
print("ready", flush=True)
gbcompress.save_file(tensors[version], target, max_error=0.01, overwrite=True)
while again:
    version = 1 - version
    gbcompress.save_file(tensors[version], target, max_error=0.01, overwrite=True)
"""


class Job:
    """A writer of files; `command(version, target)` gives its words."""

    def __init__(self, name, folder, command, environment=None, endless=None):
        """endless: as command, of a writer that replaces the file again and again once it said so."""
        self.name, self.command, self.endless = name, command, endless
        self.environment = harness.clean_environment(environment)
        self.content, self.seconds = [], 0.0
        for version in range(2):
            target = os.path.join(folder, f"{name}-{version}")
            begun = time.monotonic()
            done = self.run(version, target)
            self.seconds = max(self.seconds, time.monotonic() - begun)
            if done.returncode != 0:
                raise Finding(f"{name} fails where nothing is wrong: {done.stderr}")
            self.content.append(read(target))
        if self.content[0] == self.content[1]:
            raise Finding(f"{name}: two contents were wanted")

    def start(self, version, target, before=(), endless=False, **more):
        command = self.endless if endless else self.command
        return subprocess.Popen([*before, *command(version, target)], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run(self, version, target, before=(), environment=None):
        return subprocess.run([*before, *self.command(version, target)], env=self.environment | (environment or {}),
                              text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)

    def version_in(self, target):
        """Which of the two contents the file has. @throws Finding where it is another, or none"""
        found = read(target)
        if found not in self.content:
            raise Finding(f"{self.name} leaves {len(found)} bytes that are neither of its files "
                          f"({len(self.content[0])} and {len(self.content[1])} bytes)")
        return self.content.index(found)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def rests(target):
    folder, name = os.path.split(target)
    return sorted(entry for entry in os.listdir(folder) if entry.startswith(name + ".tmp-"))


def jobs_in(folder, options):
    """@return compress, expand and, where the package is there, save_file of Python; inputs lie in `folder`"""
    program = options.program

    def model(version):
        path = os.path.join(folder, f"model-{version}.safetensors")
        if not os.path.exists(path):
            tensors = {f"{i}.weight": ("F32", [200, 1000], harness.floats(200_000, seed=10 * version + i))
                       for i in range(2)}
            with open(path, "wb") as file:
                file.write(harness.safetensors(tensors))
        return path

    compress = Job("compress", folder, lambda version, target: [
        program, "compress", model(version), "--max-error", "0.01", "-o", target, "--force", "-q"])
    expand = Job("expand", folder, lambda version, target: [
        program, "expand", os.path.join(folder, f"compress-{version}"), "-o", target, "--force"])
    jobs = [compress, expand]
    python = sys.executable
    if options.site and os.path.isdir(os.path.join(options.site, "gbcompress")):
        def words(how):
            return lambda version, target: [python, "-B", "-c", SAVE, str(version), target, how]
        jobs.append(Job("save_file", folder, words("once"), {"PYTHONPATH": options.site}, endless=words("again")))
    return jobs
