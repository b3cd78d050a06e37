"""samples/02_train_two_ranks does what it says: alone, on two ranks by flags, and under a launcher's variables."""

import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ranks  # noqa: E402

ranks.WORKER = os.environ["GBC_SAMPLE"]


class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gbc_sample_")
        self.addCleanup(self.folder.cleanup)

    def run_ranks(self, started):
        path = os.path.join(self.folder.name, "digits.gbz")
        job = ranks.Job(0)
        job.ranks = [ranks.Rank([*arguments, path], environment) for arguments, environment in started]
        job.finish()
        self.assertEqual(job.statuses, [0] * len(started), job.text())
        said = job.ranks[0].out
        self.assertTrue(all(rank.out == "" for rank in job.ranks[1:]), job.text())
        size, right = re.search(r"(\d+) bytes, ([\d.]+) % of 360 held-out digits right", said).groups()
        self.assertEqual(int(size), os.path.getsize(path))
        self.assertGreater(float(right), 85)
        return said

    def test_alone(self):
        self.assertIn("rank 0 sent 0 bytes", self.run_ranks([([], ranks.clean_environment())]))

    def test_two_ranks_by_flags(self):
        master = f"127.0.0.1:{ranks.free_port()}"
        said = self.run_ranks([(["--rank", str(r), "--world", "2", "--master", master], ranks.clean_environment())
                               for r in (0, 1)])
        self.assertEqual(len(re.findall(r"rank [01] sent [1-9]\d+ bytes", said)), 2, said)
        self.assertRegex(said, r"bank 0: (owner|replicated): ")

    def test_two_ranks_of_a_launcher(self):
        port = ranks.free_port()
        self.run_ranks([([], ranks.torchrun_environment(r, 2, port)) for r in (0, 1)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
