"""Collectives give what they should, in worlds of 1 to 8; counted bytes are the bytes sent."""

import os
import subprocess
import sys
import unittest

import ranks

KINDS = ("all_reduce", "reduce_scatter", "broadcast", "all_gather")


class Collectives(unittest.TestCase):
    def finish(self, job):
        job.finish()
        self.assertEqual(job.statuses, [0] * len(job.ranks), job.text())
        self.assertEqual("".join(rank.err for rank in job.ranks), "", job.text())
        return [rank.out.strip() for rank in job.ranks]

    def test_every_collective(self):
        for world in (1, 2, 3, 4, 8):
            with self.subTest(world=world):
                self.finish(ranks.Job(world, "collectives"))

    def test_transfers(self):
        for world in (1, 2, 3, 4):
            with self.subTest(world=world):
                self.finish(ranks.Job(world, "transfers"))

    def test_a_fixed_sum_has_the_same_bits_in_every_world(self):
        digests = {world: set(self.finish(ranks.Job(world, "fixed", 8, 4001))) for world in (1, 2, 3, 4, 8)}
        self.assertEqual(len(set().union(*digests.values())), 1, digests)
        # It must be the sum that is compared: other shards give other bits.
        other = set(self.finish(ranks.Job(2, "fixed", 16, 4001)))
        self.assertTrue(other.isdisjoint(digests[1]))

    def test_fewer_shards_than_ranks_are_refused(self):
        job = ranks.Job(4, "fixed", 2, 10).finish()
        self.assertNotIn(0, job.statuses)
        self.assertIn("2 shards cannot be shared by 4 ranks", job.text())

    def test_averages(self):
        for world in (1, 2, 4):
            with self.subTest(world=world):
                self.finish(ranks.Job(world, "average"))

    def test_an_ensemble_learns_the_same_on_any_number_of_ranks(self):
        alone = [float(text) for text in self.finish(ranks.Job(1, "ensemble"))[0].split()]
        self.assertEqual(len(alone), 4 * (9 * 7 + 7 + 7 * 3 + 3))
        largest = max(map(abs, alone))
        for world in (2, 4):
            printed = self.finish(ranks.Job(world, "ensemble"))
            self.assertEqual(len(set(printed)), 1, "ranks hold different networks")
            together = [float(text) for text in printed[0].split()]
            self.assertEqual(len(together), len(alone))
            self.assertLess(max(abs(a - b) for a, b in zip(alone, together)), 1e-5 * largest, world)

    def test_volume_of_each_kind(self):
        """All ranks together send what the table in traffic.h says."""
        size = 4 * 1_000_000
        for world in (2, 4):
            for kind in KINDS:
                sent = [int(text.split()[0]) for text in self.finish(ranks.Job(world, "traffic", size, kind))]
                factor = 2 if kind == "all_reduce" else 1
                self.assertEqual(sum(sent), factor * size * (world - 1), (world, kind, sent))


class Loopback(unittest.TestCase):
    """Against the counters of a loopback interface that nobody else uses."""

    def inside(self):
        """How commands are run in a network namespace of their own, or why they cannot be."""
        prefix = ["unshare", "--net", "--map-root-user"]
        try:
            subprocess.run([*prefix, "ip", "link", "set", "lo", "up"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no network namespace can be made here: {error}")
        return prefix

    def measure(self, prefix, world, size, kind):
        """-> bytes over the loopback interface while rank 0 saw the collective, bytes counted by all ranks"""
        script = f"""
import subprocess, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import ranks
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
job = ranks.Job({world}, "traffic", {size}, {kind!r}).finish()
assert job.statuses == [0] * {world}, job.text()
print(job.ranks[0].out.split()[1], sum(int(rank.out.split()[0]) for rank in job.ranks))
"""
        done = subprocess.run([*prefix, sys.executable, "-B", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return map(int, done.stdout.split())

    def test_counted_bytes_are_those_on_the_wire(self):
        prefix = self.inside()
        size = 16 << 20
        for world in (2, 4):
            barriers, nothing = self.measure(prefix, world, 4, "none")
            self.assertEqual(nothing, 0)
            self.assertLess(barriers, 10_000)
            for kind in KINDS:
                # Where a reader is kept waiting by other programs, TCP sends again what it could not store: of
                # several attempts the one with the fewest bytes is meant.
                for attempt in range(8):
                    wire, counted = self.measure(prefix, world, size, kind)
                    over = (wire - barriers - counted) / counted
                    print(f"world {world} {kind}: counted {counted}, on the wire {wire - barriers}, "
                          f"{100 * over:+.2f} %")
                    self.assertGreater(over, -0.002, (world, kind))
                    if over < 0.03:
                        break
                self.assertLess(over, 0.03, (world, kind))


if __name__ == "__main__":
    unittest.main(verbosity=2)
