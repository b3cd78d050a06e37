"""Training on several ranks: the same gradients, the same file, what is sent, stopping and going on."""

import array
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

PROGRAM, TRAINER, DIGITS = os.environ["GBCOMPRESS"], os.environ["GBC_DIST_TRAINER"], os.environ["GBC_DIGITS"]
SHORT = ["--mode", "generated", "--set", "train.epochs=2", "--set", "gnet.min_elements=100"]
os.environ["GBCOMPRESS_FIT_STEPS"] = "20"  # of every rank


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
        return Job(world, PROGRAM, "compress", DIGITS, "--arch", "mlp", "--data", "digits", "--json", "--set", "ranks.timeout=30", "-o",
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

    def test_a_layer_says_which_ranks_have_its_gnets(self):
        for world, placement in ((1, "owner"), (2, "owner"), (4, "owner"), (2, "replicated")):
            path = self.path("owners")
            self.done(Job(world, TRAINER, "--timeout", 30, "owners", path, placement))
            told = [self.content(f"{path}.{rank}").decode().splitlines() for rank in range(world)]
            layers = [[line.split() for line in lines[:next(i for i, line in enumerate(lines) if line.startswith("name "))]]
                      for lines in told]
            with self.subTest(world=world, placement=placement):
                self.assertEqual({layer[0] for layer in layers[0]}, {"conv.weight", "hidden.weight", "last.weight"})
                for of_rank in zip(*layers):
                    name, replicated, _, *ranks = of_rank[0]
                    for _, _, computes, *others in of_rank:
                        self.assertEqual(others, ranks, "the same on every rank")
                    computing = [str(rank) for rank, layer in enumerate(of_rank) if layer[2] == "1"]
                    self.assertEqual(ranks, computing, f"those whose gradient of {name} is not 0")
                    self.assertEqual(replicated, str(int(placement == "replicated" and world > 1)))
                    row, = [line for line in told[0] if line.startswith(name + "  ")]
                    self.assertEqual(row.split()[-1], "all" if replicated == "1" else ",".join(ranks))
                if world == 4:
                    self.assertLess(min(len(layer) - 3 for layer in layers[0]), 4, "a layer of few tiles is not everywhere")

    def test_bytes_are_those_of_the_formulas(self):
        for world in (2, 4):
            for placement in ("owner", "replicated"):
                path = self.path("traffic")
                self.done(Job(world, TRAINER, "--timeout", 30, "traffic", path, placement))
                total, weights, gnets, plain = map(int, self.content(path).split())
                shared = weights if placement == "owner" else gnets
                self.assertEqual(total, 3 * 2 * 4 * (shared + plain) * (world - 1), (world, placement))


class SameWork(Case):
    """Ranks that compute the same numbers, each for itself."""

    def test_a_rank_that_drifts_is_noticed(self):
        self.done(Job(3, TRAINER, "--timeout", 30, "drift", self.path("x"), -1))
        job = Job(3, TRAINER, "--timeout", 30, "drift", self.path("x"), 130).finish()
        self.assertEqual(set(job.statuses), {1}, job.text())
        for rank in job.ranks:
            self.assertRegex(rank.err, r'the ranks do not agree on 0.weight after step 200: rank 0 has "\d+", rank 1 has '
                                       r'"\d+"; .*start all ranks on machines of one kind')
        # The end of a run is compared too.
        job = Job(2, TRAINER, "--timeout", 30, "drift", self.path("x"), 221).finish()
        self.assertEqual(set(job.statuses), {1}, job.text())


class Pipeline(Case):
    def test_a_pipeline_has_the_bits_of_one_batch_after_another(self):
        for world in (1, 2, 3):
            for options in ("threads=1", "threads=2"):
                for threads in (1, 2):
                    with self.subTest(world=world, options=options, threads=threads):
                        self.done(Job(world, TRAINER, "--timeout", 30, "pipeline", self.path("x"), options,
                                      OMP_NUM_THREADS=threads))


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
            self.done(self.compress(world, self.path(f"free-{world}.gbz"), "--set", "ranks.placement=replicated"))
        self.assertNotEqual(self.content(self.path("free-1.gbz")), self.content(self.path("free-2.gbz")))

    def test_deterministic_runs_give_the_same_file_for_any_number_of_threads(self):
        """Convolutions: LibTorch adds up their gradients in as many parts as there are threads."""
        noise = random.Random(0)
        for name in ("test_batch", *(f"data_batch_{i}" for i in range(1, 6))):
            with open(self.path(name + ".bin"), "wb") as file:
                for _ in range(32):
                    file.write(bytes([noise.randrange(10)]) + noise.randbytes(3072))
        files = {}
        for threads in (1, 2):
            for extra in ((), ("--deterministic",)):
                name = self.path(f"{threads}-{len(extra)}.gbz")
                self.done(Job(1, PROGRAM, "compress", "--from-scratch", "--arch", "resnet20", "--data",
                              "cifar10:" + self.folder, "-q", "-o", name, "--mode", "generated", "--epochs", 1, "--set",
                              f"train.threads={threads}", *extra, GBCOMPRESS_FIT_STEPS=1))
                files[threads, len(extra)] = self.content(name)
        self.assertEqual(files[1, 1], files[2, 1])
        # It must be the flag that makes them equal.
        if files[1, 0] == files[2, 0]:
            self.skipTest("on this processor LibTorch's sums are the same for one and two threads without the flag")

    def test_calibration_gives_the_same_file_in_every_world(self):
        files = []
        for world in (1, 2, 3):
            files.append(self.path(f"{world}.gbz"))
            self.done(Job(world, PROGRAM, "compress", DIGITS, "--arch", "mlp", "--data", "digits", "--json", "--set", "ranks.timeout=30",
                          "--epochs", 0, "--max-bytes", 4000, "-o", files[-1], OMP_NUM_THREADS="1"))
        self.assertEqual(self.content(files[0]), self.content(files[1]))
        self.assertEqual(self.content(files[0]), self.content(files[2]))

    def test_files_under_statistics_are_the_same_in_every_world(self):
        """An LSTM: the first rank writes them, and all ranks end with its choice."""
        draw = random.Random(4)
        words = [[draw.randrange(30) for _ in range(12)] for _ in range(400)]
        parts = [array.array("i", (word for each in words for word in each)).tobytes(),
                 array.array("q", (sum(word < 10 for word in each) // 3 % 3 for each in words)).tobytes()]
        header = json.dumps({"inputs": {"dtype": "I32", "shape": [400, 12], "data_offsets": [0, 19200]},
                             "targets": {"dtype": "I64", "shape": [400], "data_offsets": [19200, 22400]}}).encode()
        with open(self.path("texts.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + b"".join(parts))
        data = ("--arch", "lstm-classifier:30-64-2-3", "--data", "tensors:" + self.path("texts.safetensors"), "-q")
        self.done(Job(1, PROGRAM, "compress", "--from-scratch", *data, "--mode", "exact", "--epochs", 1, "-o", self.path("net.gbz")))
        self.done(Job(1, PROGRAM, "expand", self.path("net.gbz"), "-q", "-o", self.path("net.safetensors")))
        content = self.content(self.path("net.safetensors"))  # with larger weights, so that rules differ
        start = 8 + int.from_bytes(content[:8], "little")
        weights = array.array("f", content[start:])
        with open(self.path("net.safetensors"), "wb") as file:
            file.write(content[:start] + array.array("f", (16 * w for w in weights)).tobytes())
        files = []
        for world in (1, 2):
            files.append(self.path(f"{world}.gbz"))
            job = self.done(Job(world, PROGRAM, "compress", self.path("net.safetensors"), *data, "--epochs", 0, "--ratio", 8,
                                "--json", "--set", "ranks.timeout=30", "-o", files[-1], OMP_NUM_THREADS="1"))
            self.assertIn("error feedback", json.loads(job.ranks[0].out)["allocation"])
        self.assertEqual(self.content(files[0]), self.content(files[1]))

    def test_only_rank_0_reports_and_all_agree_on_quality(self):
        for placement in ("owner", "replicated"):
            job = self.done(self.compress(2, self.path(placement + ".gbz"), "--set", f"ranks.placement={placement}", "--epochs", 40))
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
        common = ["compress", DIGITS, "--arch", "mlp", "--data", "digits", "-q", "--set", "ranks.timeout=30", "-o",
                  self.path("x.gbz"), *SHORT]
        job = Job(0, PROGRAM)
        job.ranks = [ranks.Rank([*common, "--seed", str(r)], ranks.torchrun_environment(r, 2, port)) for r in (0, 1)]
        job.finish()
        self.assertNotIn(0, job.statuses)
        self.assertIn("train.seed", job.text())
        self.assertFalse(os.path.exists(self.path("x.gbz")))


class GoingOn(Case):
    def compress(self, world, output, *arguments):
        """Long enough to be hit before it is done."""
        return super().compress(world, output, "--epochs", 6, *arguments)

    def uninterrupted(self):
        self.done(self.compress(1, self.path("whole.gbz"), "--deterministic"))
        return self.content(self.path("whole.gbz"))

    def checkpoints(self, folder):
        try:
            return {n for n in os.listdir(folder) if n.startswith("step-") and "tmp" not in n}
        except FileNotFoundError:  # not yet, or no longer
            return set()

    def wait_for_checkpoint(self, folder, job, seen=frozenset()):
        """-> whether there is one that is not among `seen`; else the job has ended"""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            if self.checkpoints(folder) - seen:
                return True
            if all(r.process.poll() is not None for r in job.ranks):
                return False
            time.sleep(0.005)
        job.finish(0)
        self.fail("there never was a checkpoint:\n" + job.text())

    def hit_while_saving(self, start, folder, hit, again):
        """Starts a job and hits it once it has saved. A busy machine may let the job end before it is
        hit; again() then prepares another attempt. -> the job, ended"""
        for _ in range(10):
            seen = self.checkpoints(folder)
            job = start()
            if self.wait_for_checkpoint(folder, job, seen):
                hit(job)
            job.finish()
            if any(job.statuses):
                return job
            again()
        self.fail("the run is always done before it is hit")

    def test_a_signal_to_one_rank_saves_and_any_world_goes_on(self):
        whole = self.uninterrupted()
        for first, then, number in ((1, 2, signal.SIGINT), (2, 1, signal.SIGTERM), (2, 4, signal.SIGTERM)):
            with self.subTest(first=first, then=then):
                output = self.path(f"{first}-{then}.gbz")
                job = self.hit_while_saving(
                    lambda: self.compress(first, output, "--deterministic", "--set", "checkpoint.every_steps=3"),
                    output + ".checkpoints", lambda job: job.ranks[-1].process.send_signal(number),
                    lambda: os.remove(output))
                self.assertEqual(job.statuses, [128 + number] * first, job.text())
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
        before = self.path("before")  # what the first victim leaves, for a second attempt at the second
        for victim in (0, 1):
            def start():
                resume = ["--resume", output + ".checkpoints"] if os.path.isdir(output + ".checkpoints") else []
                return self.compress(2, output, "--deterministic", "--set", "checkpoint.every_steps=2", *resume)

            def again():
                os.remove(output)
                if os.path.isdir(before):
                    shutil.copytree(before, output + ".checkpoints")
            job = self.hit_while_saving(start, output + ".checkpoints", lambda job: job.ranks[victim].process.kill(),
                                        again)
            self.assertEqual(job.statuses[victim], -signal.SIGKILL, job.text())
            self.assertEqual(job.statuses[1 - victim], 1, job.text())
            self.assertIn(f"rank {victim} failed first", job.text())
            shutil.rmtree(before, ignore_errors=True)
            shutil.copytree(output + ".checkpoints", before)
        self.done(self.compress(2, output, "--deterministic", "--resume", output + ".checkpoints"))
        self.assertEqual(self.content(output), whole)

    def test_a_run_with_nothing_left_to_do_is_taken_up_by_all(self):
        """Its checkpoint is removed at the end, and not before every rank has read it."""
        kept = self.path("kept")
        self.done(self.compress(1, self.path("whole.gbz"), "--deterministic", "--checkpoint", kept, "--set",
                                "checkpoint.every_steps=1"))
        for attempt in range(3):
            output = self.path(f"{attempt}.gbz")
            shutil.copytree(kept, output + ".checkpoints")
            self.done(self.compress(4, output, "--deterministic", "--resume", output + ".checkpoints"))
            self.assertEqual(self.content(output), self.content(self.path("whole.gbz")))
            self.assertFalse(os.path.exists(output + ".checkpoints"), "checkpoints stay behind")

    def test_a_kill_while_checkpoints_are_removed_leaves_whole_ones_or_none(self):
        if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode:
            self.skipTest("strace is missing, or cannot work here")
        whole, output = self.uninterrupted(), self.path("out.gbz")
        command = [PROGRAM, "compress", DIGITS, "--arch", "mlp", "--data", "digits", "-q", "-o", output, *SHORT, "--epochs", "6",
                   "--deterministic", "--force", "--set", "checkpoint.every_steps=70"]
        killed = 0
        for number in range(1, 6):
            fault = f"inject=unlinkat:signal=KILL:when={number}"
            done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", fault, *command],
                                  env=ranks.clean_environment(), capture_output=True, text=True)
            killed += done.returncode != 0
            resume = ["--resume", output + ".checkpoints"] if self.checkpoints(output + ".checkpoints") else []
            self.done(self.compress(1, output, "--deterministic", "--force", "--set", "checkpoint.every_steps=70", *resume))
            self.assertEqual(self.content(output), whole)
            shutil.rmtree(output + ".checkpoints", ignore_errors=True)
        self.assertGreater(killed, 1)

    def test_usr1_saves_and_goes_on(self):
        """A run without an end, so that it cannot be over before the signal is there."""
        output, folder = self.path("usr1.gbz"), self.path("kept")
        job = super().compress(2, output, "--checkpoint", folder, "-v", "--epochs", 1_000_000)
        limit = time.monotonic() + 60
        while "fit" not in job.ranks[0].err and job.ranks[0].process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        seen = set()
        for _ in range(2):  # it goes on: there is a next one
            job.ranks[1].process.send_signal(signal.SIGUSR1)
            self.assertTrue(self.wait_for_checkpoint(folder, job, seen), job.text())
            seen = self.checkpoints(folder)
        job.ranks[0].process.send_signal(signal.SIGTERM)
        self.done(job, 128 + signal.SIGTERM)
        self.assertTrue(self.checkpoints(folder), "--checkpoint DIR stays")

    def test_another_run_is_refused_by_the_name_of_what_differs(self):
        output, folder = self.path("a.gbz"), self.path("kept")
        self.done(self.compress(1, output, "--checkpoint", folder, "--set", "checkpoint.every_steps=7"))
        for arguments, name in ((["--seed", "5"], "train.seed"), (["--set", "gnet.hidden=5"], "gnet.hidden")):
            job = self.done(self.compress(1, self.path("b.gbz"), "--resume", folder, *arguments), 2)
            self.assertIn(name, job.text())
        self.assertFalse(os.path.exists(self.path("b.gbz")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
