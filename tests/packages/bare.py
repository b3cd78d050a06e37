"""A root folder with the system's /usr and /etc and nothing else of this machine: no LibTorch, no checkout."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class BareRoot:
    """Programs see `folder` as /. Without the right to mount they run in this machine's root, with an
    empty environment; then `inside` gives the paths as they are here."""

    def __init__(self):
        self.place = tempfile.TemporaryDirectory(prefix="gbc-bare-")
        self.folder = Path(self.place.name)
        for name in ("usr", "etc", "dev", "tmp", "proc"):
            (self.folder / name).mkdir()
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            if os.path.islink("/" + name):
                (self.folder / name).symlink_to(os.readlink("/" + name))
        self.mounts = os.path.islink("/bin") and shutil.which("unshare") is not None
        self.mounts = self.mounts and self.run("true").returncode == 0

    def close(self):
        self.place.cleanup()

    def inside(self, path):
        return "/" + str(Path(path).relative_to(self.folder)) if self.mounts else str(path)

    def run(self, *command, **variables):
        words = [str(word) for word in command]
        environment = ["env", "-i", "PATH=/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8",
                       *(f"{name}={value}" for name, value in variables.items())]
        if self.mounts:
            script = ('cd "$1"; for f in usr etc dev; do mount --rbind /$f $f || exit 125; done; shift; exec chroot . "$@"')
            words = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(self.folder), *environment, *words]
        else:
            words = [*environment, *words]
        return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
