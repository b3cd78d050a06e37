"""A sweep whose points several ranks share: the same files as with one, and going on after an end at any moment with
any number of ranks."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import ranks

PROGRAM, DIGITS = os.environ["GBCOMPRESS"], os.environ["GBC_DIGITS"]
FAILED, USAGE = 1, 2
FAST = ("--epochs", "1", "--lambdas", "1,0.1")
SLOWER = ("--epochs", "40", "--lambdas", "1,0.1")
os.environ["GBCOMPRESS_FIT_STEPS"] = "20"  # of every rank
LONG = 600


class Sweeps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gbc-sweep-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, world, options=FAST, own=None, to="curve"):
        """own: more arguments of each rank"""
        port = ranks.free_port()
        processes = []
        for rank in range(world):
            environment = ranks.torchrun_environment(rank, world, port) if world > 1 else ranks.clean_environment()
            processes.append(subprocess.Popen(
                [PROGRAM, "sweep", DIGITS, "--arch", "mlp", "--data", "digits", "-o", self.path(to), *options,
                 *(own[rank] if own else ())], env=environment, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE))
            self.addCleanup(processes[-1].kill)
        return processes

    def finish(self, processes, statuses=None):
        outputs = [process.communicate(timeout=LONG) for process in processes]
        text = "\n".join(f"-- {process.returncode}\n{out}{err}" for process, (out, err) in zip(processes, outputs))
        if statuses is not None:
            self.assertEqual([process.returncode for process in processes], statuses, text)
        return outputs, text

    def points(self, to="curve"):
        with open(self.path(to, "points.jsonl")) as file:
            return [json.loads(line) for line in file.read().splitlines()[1:]]

    def known(self):
        """Points that any rank has written down."""
        found = set()
        for name in os.listdir(self.path("curve")):
            if re.fullmatch(r"points(-\d+)?\.jsonl", name):
                with open(self.path("curve", name)) as file:
                    found |= {(p["method"], p["setting"]) for p in map(json.loads, file.read().splitlines()[1:])}
        return found

    def test_same_files_as_with_one_rank(self):
        self.finish(self.start(1, to="alone"), [0])
        outputs, text = self.finish(self.start(2), [0, 0])
        alone, shared = self.points("alone"), self.points()
        for point in alone + shared:
            del point["seconds"]
        self.assertEqual(shared, alone)
        self.assertEqual(sorted(os.listdir(self.path("curve"))), sorted(os.listdir(self.path("alone"))))
        for point in alone:
            if point["file"]:
                with open(self.path("alone", point["file"]), "rb") as one, open(self.path("curve", point["file"]), "rb") as two:
                    self.assertEqual(one.read(), two.read(), point["file"])
        for rank, (out, err) in enumerate(outputs):
            self.assertEqual(len(re.findall(rf"(?m)^gbcompress: \[rank {rank}\] .*: [\d,]+ bytes$", err)), 4, text)
        self.assertRegex(outputs[0][0], r"(?m)^\W*quantized\W")
        self.assertEqual(outputs[1][0], "", "rank 0 prints the table")
        again = json.loads(self.finish(self.start(2, (*FAST, "--json")), [0, 0])[0][0][0])
        self.assertEqual(again["computed"], 0)

    def test_one_rank_that_is_killed_loses_no_finished_point(self):
        processes = self.start(2, SLOWER)
        for line in processes[1].stderr:
            if re.search(r"bytes$", line):
                break
        processes[1].send_signal(signal.SIGKILL)
        outputs, text = self.finish(processes, [FAILED, -signal.SIGKILL])
        self.assertEqual(outputs[0][1].count("rank 1 failed first: its process ended without a word"), 1, text)
        known = self.known()
        self.assertGreaterEqual(len(known), 1)
        report = json.loads(self.finish(self.start(1, (*SLOWER, "--json")), [0])[0][0][0])
        self.assertEqual(report["computed"], 8 - len(known))
        self.assertEqual(len(report["points"]), 8)

    def goes_on(self, sent, world):
        processes = self.start(2, SLOWER)
        for line in processes[0].stderr:
            if re.search(r"bytes$", line):
                break
        for process in processes:
            process.send_signal(sent)
        _, text = self.finish(processes)
        self.assertTrue(all(process.returncode for process in processes), text)
        known = self.known()
        self.assertGreaterEqual(len(known), 1)
        report = json.loads(self.finish(self.start(world, (*SLOWER, "--json")), [0] * world)[0][0][0])
        self.assertEqual(report["computed"], 8 - len(known))
        self.assertEqual(len(report["points"]), 8)
        left = os.listdir(self.path("curve"))
        self.assertFalse([name for name in left if name.startswith("points-")], left)

    def test_goes_on_with_more_ranks_after_a_kill(self):
        self.goes_on(signal.SIGKILL, 3)

    def test_goes_on_with_one_rank_after_an_interrupt(self):
        self.goes_on(signal.SIGINT, 1)

    def test_ranks_that_were_asked_for_other_points(self):
        outputs, text = self.finish(
            self.start(2, FAST[:2], own=[("--lambdas", "1"), ("--lambdas", "0.5")]), [USAGE, USAGE])
        for out, err in outputs:
            self.assertIn("the ranks do not agree on the points", err, text)
        outputs, text = self.finish(self.start(2, own=[("--seed", "1"), ("--seed", "2")]), [USAGE, USAGE])
        for out, err in outputs:
            self.assertIn("the ranks do not agree on setting train.seed", err, text)


if __name__ == "__main__":
    unittest.main()
