"""Wrong input to the real program on several ranks: one sentence that says what is wrong, and the exit status of
docs/explanation/ranks.md. Damaged checkpoints are refused by name, or the one before is used."""

import os
import shutil
import socket
import subprocess
import unittest

import ranks
from train_test import Case, DIGITS, Job, PROGRAM, SHORT

FAILED, USAGE, INPUT = 1, 2, 3


class Start(Case):
    def start(self, *environments, options=()):
        job = Job(0, PROGRAM)
        kept, ranks.WORKER = ranks.WORKER, PROGRAM
        try:
            job.ranks = [ranks.Rank(["compress", DIGITS, "--arch", "mlp", "--data", "digits", "-q", "-o", self.path("x.gbz"),
                                     *SHORT, *options], ranks.clean_environment(**said)) for said in environments]
        finally:
            ranks.WORKER = kept
        job.finish()
        self.assertFalse(os.path.exists(self.path("x.gbz")))
        return job

    def refused(self, job, status, *sentences):
        """Each rank says one of these, once."""
        self.assertEqual(set(job.statuses), {status}, job.text())
        for rank in job.ranks:
            self.assertEqual(rank.err.count("gbcompress: "), 1, job.text())
            self.assertTrue(any(sentence in rank.err for sentence in sentences), job.text())

    def of(self, rank, world, port):
        return dict(RANK=rank, WORLD_SIZE=world, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)

    def test_rank_without_world(self):
        self.refused(self.start(dict(RANK=0)), USAGE, "RANK is set without WORLD_SIZE")

    def test_rank_outside_the_world(self):
        self.refused(self.start(self.of(2, 2, 29500)), USAGE, "RANK is 2 but WORLD_SIZE is 2")

    def test_two_ranks_with_one_number(self):
        port = ranks.free_port()
        self.refused(self.start(self.of(0, 3, port), self.of(1, 3, port), self.of(1, 3, port)), FAILED,
                     "two processes have rank 1", "the store at")

    def test_unreachable_master(self):
        self.refused(self.start(self.of(1, 2, ranks.free_port()), options=["--set", "ranks.timeout=1"]), FAILED,
                     "there is no response at 127.0.0.1:")

    def test_busy_port(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            self.refused(self.start(self.of(0, 2, port)), FAILED, f"port {port} of 127.0.0.1 is in use")


class Disk(Case):
    def mounted(self, size):
        folder = self.path("disk")
        os.mkdir(folder)
        tried = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True) \
            if shutil.which("mount") else None
        if not tried or tried.returncode:
            self.skipTest("a disk of one's own cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def save_to(self, folder):
        return self.compress(2, self.path("out.gbz"), "--checkpoint", folder, "--set", "checkpoint.every_steps=5").finish()

    def refused(self, job, words):
        self.assertNotIn(0, job.statuses, job.text())
        self.assertIn(words, job.text())
        self.assertFalse(os.path.exists(self.path("out.gbz")), "a run that could not be saved ends as a failure")

    def test_full(self):
        folder = self.mounted("16k")
        job = self.save_to(os.path.join(folder, "kept"))
        self.assertEqual(set(job.statuses), {0}, job.text())
        self.assertIn("no checkpoint could be saved", job.text())
        self.assertIn("No space left on device; free space there or choose", job.text())
        self.assertTrue(os.path.exists(self.path("out.gbz")))

    def test_read_only(self):
        folder = self.mounted("1m")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        job = self.save_to(os.path.join(folder, "kept"))
        self.assertEqual(set(job.statuses), {FAILED}, job.text())
        self.refused(job, "Read-only file system; choose a folder that may be written to")


def flip(path):
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(size // 2)
        byte = file.read(1)[0]
        file.seek(size // 2)
        file.write(bytes([byte ^ 0x10]))


def cut(path):
    os.truncate(path, os.path.getsize(path) - 1)


class Damage(Case):
    """Every file of a checkpoint of two ranks, damaged in every way."""

    def setUp(self):
        super().setUp()
        self.kept = self.path("kept")
        self.done(self.compress(2, self.path("whole.gbz"), "--deterministic", "--checkpoint", self.kept, "--set",
                                "checkpoint.every_steps=10"))
        self.steps = sorted(name for name in os.listdir(self.kept) if name.startswith("step-"))
        self.assertGreaterEqual(len(self.steps), 2)

    def resume(self, folder, world=1):
        return self.compress(world, self.path("out.gbz"), "--deterministic", "--force", "--resume", folder).finish()

    def test_any_file(self):
        last = self.steps[-1]
        files = sorted(os.listdir(os.path.join(self.kept, last)))
        self.assertEqual(files, ["manifest", "rank-00000.shard", "rank-00001.shard"])
        whole = self.content(self.path("whole.gbz"))
        for name in files:
            for damage in (flip, cut, os.remove):
                with self.subTest(name=name, damage=damage.__name__):
                    folder = self.path("damaged")
                    shutil.rmtree(folder, ignore_errors=True)
                    shutil.copytree(self.kept, folder)
                    damage(os.path.join(folder, last, name))
                    # A folder without a manifest never was a checkpoint: a save may have been killed.
                    unfinished = name == "manifest" and damage is os.remove
                    # Asked for by its own name, it is refused.
                    job = self.resume(os.path.join(folder, last))
                    self.assertEqual(job.statuses, [INPUT], job.text())
                    self.assertIn(last + " holds no checkpoint" if unfinished else os.path.join(last, name), job.text())
                    # Asked for the newest, the one before is used, and that is said; the end is the same.
                    job = self.resume(folder)
                    self.assertEqual(job.statuses, [0], job.text())
                    if not unfinished:
                        self.assertIn(os.path.join(last, name), job.ranks[0].err)
                    self.assertEqual(self.content(self.path("out.gbz")), whole)

    def test_all_of_them(self):
        """Several ranks together, and nothing whole left."""
        for step in self.steps:
            flip(os.path.join(self.kept, step, "rank-00001.shard"))
        job = self.resume(self.kept, world=2)
        self.assertEqual(set(job.statuses), {INPUT}, job.text())
        for step in self.steps:
            self.assertIn(os.path.join(step, "rank-00001.shard"), job.text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
