"""Training on several ranks: the same gradients, the same file, what is sent, stopping and going on."""

import array
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

import ranks

PROGRAM, TRAINER, DIGITS = os.environ["GBCOMPRESS"], os.environ["GBC_DIST_TRAINER"], os.environ["GBC_DIGITS"]
SHORT = ["--set", "train.fit_steps=20", "--set", "train.epochs=2", "--set", "gnet.min_elements=100"]


class Job(ranks.Job):
    """Ranks of any program."""

    def __init__(self, world, program, *arguments, **extra):
        port = ranks.free_port()
        kept, ranks.WORKER = ranks.WORKER, program
        try:
            environment = ranks.torchrun_environment if world > 1 else (lambda r, w, p, **e: ranks.clean_environment(**e))
            self.ranks = [ranks.Rank([str(a) for a in arguments], environment(r, world, port, **extra)) for r in range(world)]
        finally:
            ranks.WORKER = kept


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gbc_train_")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def compress(self, world, output, *arguments):
        return Job(world, PROGRAM, "compress", DIGITS, "--arch", "mlp", "--data", "digits", "--json", "--timeout", 30, "-o",
                   output, *SHORT, *arguments)

    def done(self, job, status=0):
        job.finish()
        self.assertEqual(job.statuses, [status] * len(job.ranks), job.text())
        return job

    def content(self, path):
        with open(path, "rb") as file:
            return file.read()


class Gradients(Case):
    def numbers(self, world, placement):
        path = self.path(f"{world}-{placement}")
        self.done(Job(world, TRAINER, "--timeout", 30, "gradient", path, placement))
        return array.array("f", self.content(path))

    def test_every_placement_gives_the_gradient_of_the_whole_batch(self):
        alone = self.numbers(1, "auto")
        largest = max(map(abs, alone))
        self.assertGreater(largest, 0.01)
        for world in (2, 4):
            for placement in ("owner", "replicated", "auto"):
                with self.subTest(world=world, placement=placement):
                    together = self.numbers(world, placement)
                    self.assertEqual(len(together), len(alone))
                    worst = max(abs(a - b) for a, b in zip(alone, together))
                    self.assertLess(worst, 1e-5 * largest)

    def test_bytes_are_those_of_the_formulas(self):
        for world in (2, 4):
            for placement in ("owner", "replicated"):
                path = self.path("traffic")
                self.done(Job(world, TRAINER, "--timeout", 30, "traffic", path, placement))
                total, weights, gnets, plain = map(int, self.content(path).split())
                shared = weights if placement == "owner" else gnets
                self.assertEqual(total, 3 * 2 * 4 * (shared + plain) * (world - 1), (world, placement))


class Files(Case):
    def test_deterministic_runs_give_the_same_file_in_every_world(self):
        files = {}
        for world in (1, 2, 4):
            self.done(self.compress(world, self.path(f"{world}.gbz"), "--deterministic"))
            files[world] = self.content(self.path(f"{world}.gbz"))
        self.assertEqual(files[1], files[2])
        self.assertEqual(files[1], files[4])
        # It must be the sums that make them equal: without fixed ones they differ.
        for world in (1, 2):
            self.done(self.compress(world, self.path(f"free-{world}.gbz"), "--placement", "replicated"))
        self.assertNotEqual(self.content(self.path("free-1.gbz")), self.content(self.path("free-2.gbz")))

    def test_only_rank_0_reports_and_all_agree_on_quality(self):
        for placement in ("owner", "replicated"):
            job = self.done(self.compress(2, self.path(placement + ".gbz"), "--placement", placement, "--epochs", 40))
            report = json.loads(job.ranks[0].out)
            self.assertEqual(job.ranks[1].out, "")
            self.assertEqual(report["world"], 2)
            self.assertGreater(report["bytes_per_step"], 0)
            self.assertGreater(report["metric"]["after"], 85)
            self.assertEqual(report["output_bytes"], os.path.getsize(self.path(placement + ".gbz")))

    def test_ranks_that_were_told_different_things_end_with_the_reason(self):
        port = ranks.free_port()
        kept, ranks.WORKER = ranks.WORKER, PROGRAM
        self.addCleanup(setattr, ranks, "WORKER", kept)
        common = ["compress", DIGITS, "--arch", "mlp", "--data", "digits", "-q", "--timeout", "30", "-o",
                  self.path("x.gbz"), *SHORT]
        job = Job(0, PROGRAM)
        job.ranks = [ranks.Rank([*common, "--seed", str(r)], ranks.torchrun_environment(r, 2, port)) for r in (0, 1)]
        job.finish()
        self.assertNotIn(0, job.statuses)
        self.assertIn("train.seed", job.text())
        self.assertFalse(os.path.exists(self.path("x.gbz")))


class GoingOn(Case):
    def uninterrupted(self):
        self.done(self.compress(1, self.path("whole.gbz"), "--deterministic"))
        return self.content(self.path("whole.gbz"))

    def checkpoints(self, folder):
        return {n for n in os.listdir(folder) if n.startswith("step-") and "tmp" not in n} if os.path.isdir(folder) else set()

    def wait_for_checkpoint(self, folder, job, seen=frozenset()):
        """One that is not among `seen`: the run has begun to save."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit and all(r.process.poll() is None for r in job.ranks):
            if self.checkpoints(folder) - seen:
                return
            time.sleep(0.005)
        self.fail("there never was a checkpoint:\n" + job.text())

    def test_a_signal_to_one_rank_saves_and_any_world_goes_on(self):
        whole = self.uninterrupted()
        for first, then, number in ((1, 2, signal.SIGINT), (2, 1, signal.SIGTERM), (2, 4, signal.SIGTERM)):
            with self.subTest(first=first, then=then):
                output = self.path(f"{first}-{then}.gbz")
                job = self.compress(first, output, "--deterministic", "--set", "checkpoint.every_steps=3")
                self.wait_for_checkpoint(output + ".checkpoints", job)
                job.ranks[-1].process.send_signal(number)
                self.done(job, 128 + number)
                self.assertIn("--resume", job.ranks[-1].err)
                self.assertFalse(os.path.exists(output))
                # Without --resume nothing is overwritten by a new run.
                self.done(self.compress(1, output, "--deterministic"), 2)
                self.done(self.compress(then, output, "--deterministic", "--resume", output + ".checkpoints"))
                self.assertEqual(self.content(output), whole)
                self.assertFalse(os.path.exists(output + ".checkpoints"), "checkpoints stay behind")

    def test_killed_ranks_are_taken_up_where_they_were_saved(self):
        whole = self.uninterrupted()
        output = self.path("killed.gbz")
        resume = []
        for victim in (0, 1):
            seen = self.checkpoints(output + ".checkpoints")
            job = self.compress(2, output, "--deterministic", "--set", "checkpoint.every_steps=2", *resume)
            self.wait_for_checkpoint(output + ".checkpoints", job, seen)
            job.ranks[victim].process.kill()
            job.finish()
            self.assertEqual(job.statuses[victim], -signal.SIGKILL)
            self.assertEqual(job.statuses[1 - victim], 1, job.text())
            self.assertIn(f"rank {victim} failed first", job.text())
            resume = ["--resume", output + ".checkpoints"]
        self.done(self.compress(2, output, "--deterministic", *resume))
        self.assertEqual(self.content(output), whole)

    def test_usr1_saves_and_goes_on(self):
        output, folder = self.path("usr1.gbz"), self.path("kept")
        job = self.compress(2, output, "--checkpoint", folder, "-v", "--epochs", 40)
        limit = time.monotonic() + 60
        while "fit" not in job.ranks[0].err and job.ranks[0].process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        job.ranks[1].process.send_signal(signal.SIGUSR1)
        self.done(job)
        self.assertTrue(any(n.startswith("step-") for n in os.listdir(folder)), "--checkpoint DIR stays")

    def test_another_run_is_refused_by_the_name_of_what_differs(self):
        output, folder = self.path("a.gbz"), self.path("kept")
        self.done(self.compress(1, output, "--checkpoint", folder, "--set", "checkpoint.every_steps=7"))
        for arguments, name in ((["--seed", "5"], "train.seed"), (["--set", "gnet.hidden=5"], "gnet.hidden")):
            job = self.done(self.compress(1, self.path("b.gbz"), "--resume", folder, *arguments), 2)
            self.assertIn(name, job.text())
        self.assertFalse(os.path.exists(self.path("b.gbz")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
