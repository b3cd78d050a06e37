"""NCCL's transport over a module that needs no GPU (fake_nccl.cpp), and every way not to get as far."""

import os
import subprocess
import time
import unittest

import ranks

FAKE = ["--backend", "nccl", "--module", os.environ["GBC_FAKE_NCCL"]]


def fake_environment(**said):
    return lambda rank, world, port: ranks.torchrun_environment(rank, world, port, **said)


class Nccl(unittest.TestCase):
    def test_every_collective(self):
        for world in (2, 3, 4, 8):
            with self.subTest(world=world):
                job = ranks.Job(world, *FAKE, "collectives").finish()
                self.assertEqual(job.statuses, [0] * world, job.text())
                self.assertEqual("".join(rank.err for rank in job.ranks), "", job.text())

    def test_transfers(self):
        for world in (2, 3, 4):
            with self.subTest(world=world):
                job = ranks.Job(world, *FAKE, "transfers").finish()
                self.assertEqual(job.statuses, [0] * world, job.text())

    def test_a_fixed_sum_has_gloos_bits(self):
        digests = set()
        for how in (FAKE, []):
            job = ranks.Job(2, *how, "fixed", 8, 4001).finish()
            self.assertEqual(job.statuses, [0, 0], job.text())
            digests.update(rank.out for rank in job.ranks)
        self.assertEqual(len(digests), 1, digests)

    def others_name(self, job, culprit, cause):
        job.finish()
        for i, rank in enumerate(job.ranks):
            if i != culprit:
                self.assertEqual(job.statuses[i], 1, job.text())
                self.assertIn(f"gbcompress: [rank {i}] rank {culprit} failed first: ", rank.err, job.text())
                self.assertIn(cause, rank.err, job.text())

    def test_a_killed_rank_ends_all(self):
        for culprit in (0, 2):
            job = ranks.Job(3, *FAKE, "loop").wait_ready()
            since = time.monotonic()
            job.ranks[culprit].process.kill()
            self.others_name(job, culprit, "killed, or crashed")
            self.assertLess(job.last_end(without=(culprit,)) - since, 5.0, job.text())

    def test_a_rank_that_throws_ends_all(self):
        self.others_name(ranks.Job(3, *FAKE, "loop", "throw", 1, 20), 1, "the loss is not a number")

    def test_a_rank_that_does_not_come_is_named(self):
        job = ranks.Job(3, *FAKE, "loop", "idle", 1, 20, timeout=3)
        self.others_name(job, 1, "it has entered 21 collectives while others have waited for it for 3 s")

    def test_a_device_that_hangs_is_given_up(self):
        """All ranks are well and nothing moves: each ends after the time limit, with a reason."""
        job = ranks.Job(2, *FAKE, "loop", timeout=1, environment=fake_environment(GBC_FAKE_HANGS=30)).finish()
        self.assertEqual(job.statuses, [1, 1], job.text())
        self.assertIn("its all_reduce failed: no progress on the GPU for 3 s", job.text())


class Refused(unittest.TestCase):
    def refused(self, sentence, world=1, arguments=FAKE, **said):
        job = ranks.Job(world, *arguments, "meet", environment=fake_environment(**said)).finish()
        self.assertEqual(set(job.statuses), {2}, job.text())
        for rank in job.ranks:
            self.assertEqual(rank.err.count("\n"), 1, job.text())
            self.assertIn(sentence, rank.err, job.text())
            self.assertIn("use `backend` gloo", rank.err, job.text())

    def test_no_gpu(self):
        for world in (1, 2):
            self.refused("the backend is nccl, but this machine has no GPU", world, GBC_FAKE_GPUS=0)
        self.refused("the backend is nccl, but no GPU can be used: no NVIDIA driver is installed", GBC_FAKE_GPUS=-1)

    def test_fewer_gpus_than_ranks(self):
        self.refused("the backend is nccl, but this machine shows 1 GPU for at least 2 ranks", 2, GBC_FAKE_GPUS=1)

    def test_no_module_or_one_without_nccl(self):
        self.refused("the backend is nccl, but its module", arguments=["--backend", "nccl"])
        self.refused("was built without nccl.h",
                     arguments=["--backend", "nccl", "--module", os.environ["GBC_OTHER_MODULE"]])

    def test_library(self):
        self.refused("its library cannot be opened: libnccl.so.2: no such file", GBC_FAKE_LIBRARY="libnccl.so.2: no such file")
        self.refused("libnccl.so.2 is of version 2.27.7 and its module was built for 2.28.9", GBC_FAKE_LIBRARY=22707)
        self.refused("libnccl.so.2 is of version 3.1.0 and its module was built for 2.28.9", GBC_FAKE_LIBRARY=30100)
        job = ranks.Job(2, *FAKE, "meet", environment=fake_environment(GBC_FAKE_LIBRARY=23007)).finish()
        self.assertEqual(job.statuses, [0, 0], job.text())

    def test_the_program(self):
        """One sentence, and the exit status of a wrong option."""
        module = os.path.join(os.path.dirname(os.environ["GBCOMPRESS"]), "..", "lib", "libgbcompress_cuda.so")
        if os.path.exists(module):
            self.skipTest("this build has the module, and perhaps a GPU")
        done = subprocess.run([os.environ["GBCOMPRESS"], "compress", os.environ["GBC_DIGITS"], "--arch", "mlp", "-o",
                               "/nonexistent/x.gbz", "--set", "ranks.backend=nccl"], env=ranks.clean_environment(),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, "the backend is nccl, but its module .* does not exist")


if __name__ == "__main__":
    unittest.main(verbosity=2)
