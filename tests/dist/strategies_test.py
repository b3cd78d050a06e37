"""Strategies on several ranks: the file of one rank, bit for bit; what is refused; going on elsewhere."""

import glob
import hashlib
import json
import os
import shutil
import struct
import unittest

import ranks
from program import GIVEN, ProgramTest, labelled

DTP = "--strategy dtp --set".split() + ["strategy.options=K=3,2 shards=4"]
AL = "--strategy al --set".split() + ["strategy.options=pipeline=1"]
WORLDS = (2, 3, 4, 6)


class Strategies(ProgramTest):
    def test_ranks_compute_in_the_same_way(self):
        # Models of fewer than 200,000 weights have one thread, whatever the environment. Random weights depend on the
        # instruction set, so that a given model tells it.
        given, large = (GIVEN, "digits"), ("mlp:64-640-256-10", "digits")
        for said, net, words in (({"OMP_NUM_THREADS": "2"}, large, 'the number of threads: rank 0 has "1", rank 1 has "2"; '),
                                 ({"ATEN_CPU_CAPABILITY": "default"}, given, "the instruction set: rank 0 has ")):
            for strategy in (DTP, AL):
                job, path = self.start(2, "unequal", *strategy, net=net, said=({}, said))
                with self.subTest(strategy=strategy[1], said=said):
                    self.assertEqual(job.statuses, [2, 2], job.text())
                    for rank in job.ranks:
                        self.assertEqual(rank.err.count("gbcompress: "), 1, job.text())
                        self.assertIn("the ranks do not agree on " + words, rank.err)
                        self.assertIn(f"set {[*said][0]} to one", rank.err)
                    self.assertFalse(os.path.exists(path))
            # Gradients of backpropagation are averaged, so that ranks may compute them in different ways.
            job, _ = self.start(2, "averaged-" + [*said][0], net=net, said=({}, said), epochs=1)
            self.assertEqual(job.statuses, [0, 0], job.text())

    def evaluate(self, path, exit_):
        return self.run_program(["eval", path, "--data", "digits", "--exit", exit_, "--json", "-q"], [ranks.clean_environment()])

    def test_dtp_has_the_same_bits_in_every_world(self):
        alone = self.file(1, "1", *DTP)
        for world in WORLDS:
            self.assertEqual(self.file(world, str(world), *DTP), alone, f"{world} ranks")
        whole = self.file(1, "whole", "--strategy", "dtp", "--set", "strategy.options=K=3,2")
        self.assertEqual(self.file(2, "spread", "--strategy", "dtp", "--set", "strategy.options=K=3,2"), whole)
        self.assertNotEqual(whole, alone, "shards add up in another order")

    def test_al_has_the_same_bits_in_every_world(self):
        alone = self.file(1, "1", *AL)
        for world in WORLDS:
            self.assertEqual(self.file(world, str(world), *AL), alone, f"{world} ranks")
        self.assertNotEqual(alone, self.file(1, "other", "--strategy", "al"), "a pipeline changes nothing")

    def test_a_signal_goes_to_one_rank_alone(self):
        """Among four ranks a broadcast would send the wide layer's signal, most of what travels, twice from rank 0."""
        job, _ = self.start(4, "wide", *AL, "--json", "--set", "train.batch=64", net=("mlp:64-4096-10", "digits"), epochs=2)
        self.assertEqual(job.statuses, [0] * 4, job.text())
        signal = 4 * 64 * 4096
        sent = json.loads(job.ranks[0].out)["bytes_per_step"]
        self.assertGreater(sent, 0.7 * signal, "rank 0 has the component")
        self.assertLess(sent, 1.5 * signal)

    def test_gnets_and_integers_have_the_same_bits_in_every_world(self):
        for mode in ("generated", "quantized"):
            for strategy in (DTP, AL):
                files = {world: self.file(world, f"{world}.gbz", *strategy, "--force", mode=mode) for world in (1, 3)}
                with self.subTest(mode=mode, strategy=strategy[1]):
                    self.assertEqual(set(files.values()), {files[1]}, files)

    def test_gnets_are_computed_where_their_layer_is(self):
        text = os.path.join(self.folder, "text.safetensors")
        with open(text, "wb") as file:
            file.write(labelled((12,), vocabulary=20, rows=320))
        for net in (("mlp:64-48-32-10", "digits"), ("exits:mlp:64-48-32-10", "digits"),
                    ("transformer-classifier:20-32-2-4", "tensors:" + text)):
            with self.subTest(net=net[0]):
                settings = [*AL, "--force"]
                alone = self.file(1, "1", *settings, net=net, mode="generated")
                for world in (2, 3):
                    job, path = self.start(world, str(world), *settings, net=net, mode="generated")
                    self.assertEqual(job.statuses, [0] * world, job.text())
                    self.assertRegex(job.text(), r"\d+ parameters are stepped where their layer is")
                    with open(path, "rb") as file:
                        self.assertEqual(hashlib.sha256(file.read()).hexdigest(), alone, f"{world} ranks")
                job, path = self.start(2, "all", *settings, "--set", "ranks.placement=replicated", net=net, mode="generated")
                self.assertNotIn("where their layer is", job.text())
                with open(path, "rb") as file:
                    self.assertEqual(hashlib.sha256(file.read()).hexdigest(), alone, "replicated, as asked")

    def test_parameters_are_stepped_where_their_layer_is(self):
        data = os.path.join(self.folder, "data.safetensors")
        with open(data, "wb") as file:
            file.write(labelled((3, 32, 32), rows=64))
        for net in (("exits:mlp:64-48-32-10", "digits"), ("simple-vgg:2", "tensors:" + data)):
            with self.subTest(net=net[0]):
                settings = [*AL, "--force", "--set", "train.batch=16"]
                alone = self.file(1, "1", *settings, net=net, epochs=4)
                for world, more, said in ((2, [], self.assertRegex), (3, [], self.assertRegex),
                                          (2, ["--set", "ranks.placement=replicated"], self.assertNotRegex)):
                    job, path = self.start(world, str(world), *settings, *more, net=net, epochs=4)
                    self.assertEqual(job.statuses, [0] * world, job.text())
                    said(job.text(), r"\d+ parameters are stepped where their layer is")
                    with open(path, "rb") as file:
                        self.assertEqual(hashlib.sha256(file.read()).hexdigest(), alone, f"{world} ranks {more}")

    def measured(self, name):
        """What an event file says, without the time of day that each record begins with."""
        with open(glob.glob(os.path.join(self.folder, name, "**", "*tfevents*"), recursive=True)[0], "rb") as file:
            data, said = file.read(), []
        while data:
            size = struct.unpack("<Q", data[:8])[0]
            self.assertEqual(data[12], 9, "field 1, eight bytes")
            said.append(data[12 + 9:12 + size])
            data = data[12 + size + 4:]
        return said

    def test_exits_measure_the_same_wherever_they_are(self):
        for mode in ("exact", "generated"):
            with self.subTest(mode=mode):
                more = ["--strategy", "al", "--set", "strategy.options=pipeline=1 exits=3", "--force", "--tensorboard"]
                said = {}
                for world in (1, 3):
                    shutil.rmtree(os.path.join(self.folder, "log"), ignore_errors=True)
                    self.file(world, str(world), *more, os.path.join(self.folder, "log"), net=("exits:mlp:64-48-32-10", "digits"),
                              mode=mode, epochs=3)
                    said[world] = self.measured("log")
                self.assertTrue(any(b"exit_accuracy.2" in each for each in said[1]))
                self.assertEqual(said[1], said[3])

    def test_layers_measure_the_same_on_every_number_of_ranks(self):
        said = {}
        for world in (1, 3):
            shutil.rmtree(os.path.join(self.folder, "log"), ignore_errors=True)
            settings = ["--strategy", "dtp", "--set", "strategy.K=3,2,2", "--force", "--tensorboard"]
            self.file(world, str(world), *settings, os.path.join(self.folder, "log"), net=("mlp:64-48-32-24-10", "digits"), epochs=2)
            # Without the sum over layers, whose last bit is that of rounded terms.
            said[world] = [each for each in self.measured("log") if b"feedback_loss\x15" not in each]
        for tag in (b"feedback_loss.6", b"target_loss.0", b"delta", b"train_top5_percent"):
            self.assertTrue(any(tag in each for each in said[1]), tag)
        self.assertEqual(said[1], said[3])

    def test_early_exits_are_in_the_file(self):
        net = ("exits:width=8,bridge=16:mlp:64-48-32-10", "digits")
        settings = ["--strategy", "al", "--set", "strategy.options=lr=0.02 pipeline=1", "--set", "optim.plain_lr=0.02", "--force"]
        alone = self.file(1, "1", *settings, net=net, epochs=6)
        self.assertEqual(self.file(3, "3", *settings, net=net, epochs=6), alone)
        shown = {}
        for exit in ("all", "1", "2"):
            job = self.evaluate(os.path.join(self.folder, "1"), exit)
            self.assertEqual(job.statuses, [0], job.text())
            shown[exit] = json.loads(job.ranks[0].out)
        names = [each["exit"] for each in shown["all"]["exits"]]
        self.assertEqual(names, ["1", "2", "end"])
        for exit in ("1", "2"):
            one = shown["all"]["exits"][int(exit) - 1]["value"]
            self.assertEqual(shown[exit]["metric"]["value"], one)
            self.assertGreater(one, 25, "an exit that has learnt nothing answers 10 %")
        for exit, words in (("3", "there is no exit 3; this model has exits 1 to 2"), ("first", "--exit must be a number")):
            job = self.evaluate(os.path.join(self.folder, "1"), exit)
            self.assertEqual(job.statuses, [2], job.text())
            self.assertIn(words, job.text())
        job, _ = self.start(1, "bp", "--strategy", "backprop", net=net)
        self.assertEqual(job.statuses, [2], job.text())
        self.assertIn("trains no early exits", job.text())

    def test_nets_of_pictures_and_texts_have_the_same_bits_in_every_world(self):
        vgg, text = ("simple-vgg:2", labelled((3, 32, 32))), ("lstm-classifier:20-8-2-4", labelled((12,), vocabulary=20))
        for net, strategy, options in ((("lenet-dtp", labelled((1, 28, 28))), "dtp", "K=1 shards=4"), (vgg, "dtp", "K=2 shards=4"),
                                       (vgg, "al", "pipeline=1"), (vgg, "al", "pipeline=0"),
                                       (text, "al", "pipeline=1"), (text, "al", "pipeline=0")):
            data = os.path.join(self.folder, "data.safetensors")
            with open(data, "wb") as file:
                file.write(net[1])
            settings = ["--strategy", strategy, "--set", "strategy.options=" + options, "--set", "train.batch=16"]
            files = {world: self.file(world, f"{world}.gbz", *settings, "--force", net=(net[0], "tensors:" + data)) for world in (1, *WORLDS)}
            with self.subTest(net=net[0], strategy=strategy, options=options):
                self.assertEqual(set(files.values()), {files[1]}, files)

    def test_a_run_is_taken_up_by_another_number_of_ranks(self):
        for name, strategy, arch, mode in (("dtp", DTP, "", "exact"), ("al", AL, "", "exact"), ("exits", AL, "exits:", "exact"),
                                           ("gnets", AL, "exits:", "generated")):
            net = (arch + "mlp:64-48-32-10", "digits")
            more = {"net": net, "mode": mode}
            with self.subTest(strategy=name):
                whole = self.file(1, name, *strategy, **more)
                folder = os.path.join(self.folder, name + ".checkpoints")
                saved = ["--checkpoint", folder, "--set", "checkpoint.every_steps=20"]
                self.assertEqual(self.file(2, name + "2", *strategy, *saved, **more), whole)
                copy = folder + ".copy"
                shutil.copytree(folder, copy)  # a run that is done removes what it went on from
                self.assertEqual(self.file(1, name + "1", *strategy, "--resume", folder, **more), whole)
                job, _ = self.start(1, name + "x", "--strategy", "backprop", "--resume", copy, **more)
                self.assertNotEqual(job.statuses, [0])
                self.assertIn("strategy.name", job.text())


if __name__ == "__main__":
    unittest.main()
