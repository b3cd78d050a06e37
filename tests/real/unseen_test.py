"""No model dies: kinds of models that nothing was tuned for, made here, through compress and expand without data."""

import math
import os
import subprocess
import tempfile
import unittest

import torch

import unseen_models as made
from files import matched, read_safetensors, write_safetensors
from measure import CAP, changed_integers, compare, tensor_errors
from models import Outcome

PROGRAM = os.environ["GBCOMPRESS"]
VECTOR_BITS = 7  # after the leading one, of every number of a bias, a norm or running statistics


def said(net, x):
    with torch.no_grad():
        y = net.float()(x)
    return Outcome(y, y.argmax(1))


class Unseen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)

    def setUp(self):
        torch.manual_seed(5)
        folder = tempfile.TemporaryDirectory(prefix="gbc-unseen-")
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def there_and_back(self, source, ratio):
        """Expanded tensors of the file; the size asked for is met, or status 4 says that it was out of reach."""
        small, large = self.path("m.gbz"), self.path("out.safetensors")
        done = subprocess.run([PROGRAM, "compress", source, "--ratio", str(ratio), "-o", small, "--force"],
                              capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        if done.returncode == 0:
            self.assertLessEqual(os.path.getsize(small), os.path.getsize(source) / ratio)
        done = subprocess.run([PROGRAM, "expand", small, "-o", large, "--force"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_safetensors(large)

    def check_alive(self, state, expanded, exact=()):
        self.assertEqual(sorted(state), sorted(expanded))
        for name, value in state.items():
            self.assertEqual(value.dtype, expanded[name].dtype, name)
            self.assertEqual(value.shape, expanded[name].shape, name)
        self.assertEqual(changed_integers(expanded, state), [])
        for name, error in tensor_errors(expanded, state).items():
            self.assertLessEqual(error, CAP, name)
        for name in exact:
            self.assertTrue(torch.equal(expanded[name], state[name]), name)
        for name, value in state.items():
            if value.is_floating_point() and value.dim() == 1 and value.numel() > 1:
                a, b = value.double(), expanded[name].double()
                slack = a.abs() * 2.0 ** -VECTOR_BITS + float(a.abs().max()) * 2.0 ** -11
                self.assertTrue(bool(((a - b).abs() <= slack).all()), f"{name} is a vector and lost precision")

    def round_trip(self, net, x, exact=(), dtype=None, error=0.1, agreement=0.95):
        """Alive at 16 times, and at 8 times the net says what it said."""
        state = {k: v.detach().clone() for k, v in net.state_dict().items()}
        if dtype:
            state = {k: v.to(dtype) if v.is_floating_point() else v for k, v in state.items()}
            net.load_state_dict(state)
        wanted = said(net, x)
        self.assertGreater(len(wanted.decisions.unique()), 1, "the net says the same of everything")
        write_safetensors(self.path("m.safetensors"), state)
        self.check_alive(state, self.there_and_back(self.path("m.safetensors"), 16), exact)
        expanded = self.there_and_back(self.path("m.safetensors"), 8)
        self.check_alive(state, expanded, exact)
        net.load_state_dict(expanded)
        lost, same = compare(said(net, x), wanted)
        self.assertLessEqual(lost, error)
        self.assertGreaterEqual(same, agreement)

    def test_depthwise_with_dead_channels(self):
        net = made.depthwise()
        self.round_trip(net, made.pictures(600, 99)[0])

    def test_gru(self):
        net = made.Recurrent()
        made.train(net, made.sequences, 120)
        self.round_trip(net, made.sequences(600, 999)[0])

    def test_vision_transformer_with_tables(self):
        net = made.Vision()
        made.train(net, made.pictures, 60, 1e-3)
        self.round_trip(net, made.pictures(600, 99)[0], exact=("inv_freq", "attn_mask", "relative_position_index"))

    def test_layers_rescaled(self):
        self.round_trip(made.rescaled(), made.pictures(600, 99)[0])

    def test_half_precision(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                net = made.Vision()
                made.train(net, made.pictures, 60, 1e-3)
                self.round_trip(net, made.pictures(600, 99)[0], dtype=dtype, exact=("attn_mask",), error=0.2, agreement=0.9)

    def test_int8(self):
        net = made.Recurrent()
        made.train(net, made.sequences, 60)
        state = made.packed_int8(net)
        write_safetensors(self.path("m.safetensors"), state)
        expanded = self.there_and_back(self.path("m.safetensors"), 16)
        self.check_alive(state, expanded, exact=[k for k in state if k.endswith(".scale")])

    def test_checkpoint_with_optimiser(self):
        net = made.Vision()
        optimizer = made.train(net, made.pictures, 20, 1e-3)
        state = {k: v.detach().clone() for k, v in net.state_dict().items()}
        for old in (False, True):
            with self.subTest(format="before 1.6" if old else "zip"):
                torch.save(made.checkpoint(net, optimizer), self.path("c.pt"), _use_new_zipfile_serialization=not old)
                expanded = self.there_and_back(self.path("c.pt"), 16)
                self.assertFalse([k for k in expanded if "exp_avg" in k or "optim" in k])
                self.check_alive(state, matched(expanded, state), exact=("inv_freq", "attn_mask"))
                self.assertEqual(len(expanded), len(state))

    def test_nothing_but_one_number(self):
        state = {"logit_scale": torch.tensor(math.log(100.0)), "step": torch.tensor(3), "w": torch.randn(40, 50)}
        write_safetensors(self.path("m.safetensors"), state)
        self.check_alive(state, self.there_and_back(self.path("m.safetensors"), 16), exact=("logit_scale", "step"))


if __name__ == "__main__":
    unittest.main()
