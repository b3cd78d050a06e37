"""Whatever ends one rank ends all: non-zero, soon, and with the first failed rank and its cause."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

# A killed rank takes the others along in well under a second; tests run on busy machines. How soon it
# really is, tests/dist/campaign measures.
SOON = 5.0
# Seconds of --timeout where a silent rank is what is tested: the others must not fall silent too, however
# busy the machine.
PATIENCE = 3


class Failing(unittest.TestCase):
    def others_name(self, job, culprit, cause, within=SOON, since=None):
        """Every rank but the culprit ended with status 1 and this sentence."""
        job.finish()
        for i, rank in enumerate(job.ranks):
            if i == culprit:
                continue
            self.assertEqual(job.statuses[i], 1, job.text())
            self.assertIn(f"gbcompress: [rank {i}] rank {culprit} failed first: ", rank.err, job.text())
            self.assertIn(cause, rank.err, job.text())
            self.assertEqual(rank.err.count("\n"), 1, job.text())
        if since is not None:
            self.assertLess(job.last_end(without=(culprit,)) - since, within, job.text())

    def test_killed(self):
        for world in (2, 4, 8):
            for culprit in (0, world - 1):
                with self.subTest(world=world, culprit=culprit):
                    job = ranks.Job(world, "loop").wait_ready()
                    since = time.monotonic()
                    job.ranks[culprit].process.kill()
                    self.others_name(job, culprit, "killed, or crashed", since=since)

    def test_killed_while_the_others_compute(self):
        """A main thread that never comes to a collective is not waited for."""
        job = ranks.Job(3, "loop", "busy", 0, 0, "busy", 2, 0).wait_ready()
        since = time.monotonic()
        job.ranks[1].process.kill()
        self.others_name(job, 1, "killed, or crashed", since=since)

    def test_crash(self):
        self.others_name(ranks.Job(2, "loop", "abort", 0, 20), 0, "killed, or crashed")

    def test_exception(self):
        for culprit in (0, 1):
            job = ranks.Job(3, "loop", "throw", culprit, 20)
            self.others_name(job, culprit, "the loss is not a number")
            self.assertEqual(job.statuses[culprit], 1)
            self.assertIn(f"gbcompress: [rank {culprit}] the loss is not a number\n", job.ranks[culprit].err)

    def test_early_exit_counts_as_failure(self):
        for culprit in (0, 2):
            self.others_name(ranks.Job(3, "loop", "exit", culprit, 20), culprit,
                             "it exited before the work was done, with status 0")

    def test_leaving_counts_as_failure(self):
        self.others_name(ranks.Job(2, "loop", "leave", 1, 20), 1, "it left before the work was done")

    def test_finishing_early_is_noticed(self):
        """One rank says that all is done while the others go on: they would wait for ever."""
        job = ranks.Job(3, "loop", "end", 1, 20, timeout=PATIENCE)
        self.others_name(job, 1, f"it has entered 21 collectives while others have waited for it for {PATIENCE} s")
        self.assertEqual(job.statuses[1], 1)

    def test_stopped(self):
        for world, culprit in ((2, 0), (2, 1), (4, 2)):
            with self.subTest(world=world, culprit=culprit):
                job = ranks.Job(world, "loop", timeout=PATIENCE).wait_ready()
                since = time.monotonic()
                job.ranks[culprit].process.send_signal(signal.SIGSTOP)
                self.others_name(job, culprit, f"it has not been heard of for {PATIENCE} s", within=PATIENCE + 3,
                                 since=since)
                # It is woken to hear the news, so that nothing is left behind.
                self.assertEqual(job.statuses[culprit], 1, job.text())
                self.assertIn("this rank is given up", job.ranks[culprit].err)

    def test_stopped_for_a_short_while(self):
        job = ranks.Job(3, "loop", timeout=20).wait_ready()
        for rank in job.ranks:
            rank.process.send_signal(signal.SIGSTOP)
        for rank in job.ranks:
            os.waitid(os.P_PID, rank.process.pid, os.WSTOPPED)
            rank.process.send_signal(signal.SIGCONT)
        job.ranks[0].process.kill()
        self.others_name(job, 0, "killed, or crashed")

    def test_a_rank_that_does_not_come_is_named(self):
        for event in ("busy", "idle"):
            job = ranks.Job(3, "loop", event, 1, 20, timeout=PATIENCE)
            self.others_name(job, 1, "it has entered 21 collectives while others have waited for it for "
                                     f"{PATIENCE} s, since number 22 (all_reduce)")
            self.assertEqual(job.statuses[1], 1, job.text())

    def test_transfers_fail_together(self):
        job = ranks.Job(3, "ring").wait_ready()
        since = time.monotonic()
        job.ranks[1].process.kill()
        self.others_name(job, 1, "killed, or crashed", since=since)
        self.others_name(ranks.Job(3, "ring", "throw", 2, 20), 2, "the loss is not a number")

    def test_a_rank_that_misses_a_transfer_is_named(self):
        """Not the one that waits for it, which is late too."""
        for culprit in (0, 1, 2):
            job = ranks.Job(3, "ring", "idle", culprit, 20, timeout=PATIENCE)
            self.others_name(job, culprit, "it has not taken part in a transfer for which rank")

    def test_error_file(self):
        with tempfile.TemporaryDirectory() as folder:
            def environment(rank, world, port):
                return ranks.torchrun_environment(rank, world, port,
                                                  TORCHELASTIC_ERROR_FILE=os.path.join(folder, f"{rank}.json"))
            before = int(time.time())
            job = ranks.Job(2, "loop", "throw", 1, 20, "busy", 0, 20, environment=environment).finish()
            self.assertEqual(job.statuses, [1, 1])
            for rank, text in ((0, "rank 1 failed first: the loss is not a number"), (1, "the loss is not a number")):
                with open(os.path.join(folder, f"{rank}.json")) as file:
                    message = json.load(file)["message"]
                self.assertEqual(message["message"], text)
                self.assertEqual(set(message["extraInfo"]), {"py_callstack", "timestamp"})
                self.assertGreaterEqual(int(message["extraInfo"]["timestamp"]), before)
            self.assertEqual(sorted(os.listdir(folder)), ["0.json", "1.json"])

    def test_disagreement(self):
        settings = ["seed = 1\nbatch = 64"] * 2 + ["seed = 1\nbatch = 32"]
        job = ranks.Job(3, "agree", "the binary", "abc", "the settings", own=settings).finish()
        # On a busy machine a slow rank may be ended by the failure of a quick one; the sentence is the same.
        self.assertLessEqual(set(job.statuses), {1, 2}, job.text())
        self.assertIn(2, job.statuses, job.text())
        for rank in job.ranks:
            self.assertIn('the ranks do not agree on the settings: rank 0 has "batch = 64", rank 2 has "batch = 32"',
                          rank.err, job.text())

    def test_agreement(self):
        job = ranks.Job(3, "agree", "the binary", "abc", "nothing", "").finish()
        self.assertEqual([rank.out for rank in job.ranks], ["agreed\n"] * 3, job.text())


LAUNCHER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import ranks
extra = {"TORCHELASTIC_RUN_ID": sys.argv[2]} if sys.argv[2] else {}
def environment(rank, world, port):
    return ranks.torchrun_environment(rank, world, port, **extra)
job = ranks.Job(int(sys.argv[3]), "loop", environment=environment).wait_ready()
print(*(rank.process.pid for rank in job.ranks), flush=True)
job.finish()
"""


class LauncherKilled(unittest.TestCase):
    def launch(self, run_id, world=3):
        """-> the launcher, and for each rank its number and a descriptor that is readable once it has ended"""
        folder = os.path.dirname(os.path.abspath(__file__))
        launcher = subprocess.Popen([sys.executable, "-B", "-c", LAUNCHER, folder, run_id, str(world)], text=True,
                                    stdout=subprocess.PIPE)
        self.addCleanup(launcher.stdout.close)
        pids = [int(pid) for pid in launcher.stdout.readline().split()]
        self.assertEqual(len(pids), world)
        watches = [os.pidfd_open(pid) for pid in pids]
        for watch in watches:
            self.addCleanup(os.close, watch)
        return launcher, pids, watches

    def ended_within(self, watches, limit):
        """How many have."""
        poll = select.poll()
        for watch in watches:
            poll.register(watch, select.POLLIN)
        ended, deadline = 0, time.monotonic() + limit
        while ended < len(watches) and time.monotonic() < deadline:
            for watch, _ in poll.poll(1000 * (deadline - time.monotonic())):
                poll.unregister(watch)
                ended += 1
        return ended

    def test_no_process_is_left(self):
        for stopped in (None, 0, 1):
            launcher, pids, watches = self.launch("job")
            if stopped is not None:
                os.kill(pids[stopped], signal.SIGSTOP)
            launcher.kill()
            launcher.wait()
            self.assertEqual(self.ended_within(watches, SOON), 3, stopped)

    def test_a_single_process_ends_too(self):
        launcher, pids, watches = self.launch("job", world=1)
        launcher.kill()
        launcher.wait()
        self.assertEqual(self.ended_within(watches, SOON), 1)

    def test_ranks_started_by_a_shell_outlive_it(self):
        launcher, pids, watches = self.launch("")
        launcher.kill()
        launcher.wait()
        self.assertEqual(self.ended_within(watches, 1.0), 0)
        for watch in watches:
            signal.pidfd_send_signal(watch, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
