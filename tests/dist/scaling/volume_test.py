"""Bytes a step, as the group counts them, against what torchGB's way of sharing sends for the same nets.

torchGB wraps the model in DistributedDataParallel, which all-reduces the gradients of all parameters, and broadcasts
every generated weight from the rank that owns its g-nets: 2 B (W - 1) and B (W - 1) bytes over all ranks, each at the
least that such a collective can send.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(HERE, "../../support")]
import ranks  # noqa: E402
import hollow  # noqa: E402

ranks.WORKER = os.environ["GBC_DIST_MEASURE"]
PROGRAM = os.environ["GBCOMPRESS"]
NETS = ("784-256-256-64-10", "768-3072-768")


class Volume(unittest.TestCase):
    def test_bytes_a_step(self):
        print(f"\n{'net':20}{'world':>6}{'torchGB':>13}{'owner':>13}{'':>8}{'replicated':>12}{'':>8}")
        for net in NETS:
            for world in (2, 4):
                run = {placement: self.measure(world, net, placement) for placement in ("owner", "replicated")}
                weights, plain = run["owner"]["weights"], run["owner"]["plain_parameters"]
                gnets = run["owner"]["gnet_parameters"]
                theirs = 4 * (world - 1) * (2 * (weights + plain) + weights)
                owner, replicated = run["owner"]["bytes"], run["replicated"]["bytes"]
                print(f"{net:20}{world:6}{theirs:13,}{owner:13,}{owner / theirs:8.3f}{replicated:12,}"
                      f"{replicated / theirs:8.3f}")
                self.assertEqual(owner, 8 * (world - 1) * (weights + plain))
                self.assertEqual(replicated, 8 * (world - 1) * (gnets + plain))
                self.assertLess(owner / theirs, 0.67)
                # What was counted is what is planned from names and shapes, of the busiest rank too.
                planned = self.plan(net, world)
                for placement, of in run.items():
                    self.assertEqual(planned[placement]["all_ranks"], of["bytes"], placement)
                    self.assertEqual(planned[placement]["busiest_rank"], of["busiest"], placement)
                self.assertLess(replicated / theirs, 0.1)

    def plan(self, net, world):
        widths = list(map(int, net.split("-")))
        tensors = {}
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            tensors[f"{2 * i}.weight"], tensors[f"{2 * i}.bias"] = [outputs, inputs], [outputs]
        with tempfile.TemporaryDirectory(prefix="gbc_volume_") as folder:
            path = os.path.join(folder, "net.safetensors")
            hollow.write(path, tensors)
            said = subprocess.run([PROGRAM, "inspect", path, "--plan", "--arch", "mlp", "--world", str(world), "--json"],
                                  check=True, capture_output=True, env=ranks.clean_environment())
        return json.loads(said.stdout)["bytes_per_step"]

    def measure(self, world, net, placement):
        job = ranks.Job(0)
        port = ranks.free_port()
        job.ranks = [ranks.Rank([net, placement, "2"], ranks.torchrun_environment(r, world, port)) for r in range(world)]
        job.finish()
        self.assertEqual(job.statuses, [0] * world, job.text())
        return json.loads(job.ranks[0].out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
