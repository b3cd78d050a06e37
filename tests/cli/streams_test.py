"""Standard input and output as files: `-`, pipes, readers that stop early; formats by their suffix."""

import ast
import json
import os
import pty
import re
import resource
import struct
import subprocess
import unittest
import zipfile

import harness
from harness import DONE, FAILED, INPUT, USAGE, floats, safetensors

LOSSLESS = ("--mode", "exact", "--max-bytes", "100k")


class StreamTest(harness.CliTest):
    def piped(self, *arguments, given=b"", environment=None, **more):
        """Bytes in and out through pipes."""
        done = subprocess.run([harness.EXECUTABLE, *arguments], input=given, capture_output=True, cwd=self.folder,
                              timeout=harness.TIMEOUT, env=harness.clean_environment(environment), **more)
        return harness.Result(done.returncode, done.stdout, done.stderr.decode())

    def tearDown(self):
        self.assertFalse(os.path.exists(self.path("-")), "a file is called -")


class Streams(StreamTest):
    def test_both_ways(self):
        content = self.read(self.model(widths=(64, 32, 10)))
        named = self.path("named.gbz")
        self.succeed("compress", "model.safetensors", *LOSSLESS, "-o", named)
        for command in (("compress", "-", *LOSSLESS, "-o", "-"), ("compress", "-", *LOSSLESS),
                        ("compress", *LOSSLESS, "--output=-", "-"), ("compress", "model.safetensors", *LOSSLESS, "-o-")):
            with self.subTest(command=command):
                packed = self.piped(*command, given=content)
                self.assertEqual(packed.status, DONE, packed)
                self.assertEqual(packed.out, self.read("named.gbz"))
                self.assertRegex(packed.err, r"(?s)bytes on disk.*written to standard output\n\Z")
        back = self.piped("expand", "-", given=self.read("named.gbz"))
        self.assertEqual(back.status, DONE, back)
        self.assertIn("written to standard output", back.err)
        self.succeed("expand", named, "-o", self.path("back.safetensors"))
        self.assertEqual(back.out, self.read("back.safetensors"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["back.safetensors", "model.safetensors", "named.gbz"])

    def check_order(self, *command):
        """One pipe for both streams: the file is sent before anything is printed about it."""
        read, write = os.pipe()
        with os.fdopen(read, "rb") as both, subprocess.Popen(
                [harness.EXECUTABLE, *command], stdin=subprocess.DEVNULL, stdout=write, stderr=write, cwd=self.folder,
                env=harness.clean_environment()) as running:
            os.close(write)
            said = both.read()
        self.assertEqual(running.returncode, DONE, said)
        table = said.index(b"bytes on disk")
        self.assertTrue(said.endswith(b"written to standard output\n"), said[table - 200:])
        size = int(re.search(rb"bytes on disk +[\d,]+ +([\d,]+)", said).group(1).replace(b",", b""))
        self.assertGreaterEqual(table, said.index(b"GBZ2") + size)

    def test_the_file_precedes_the_table(self):
        self.model()
        self.check_order("compress", "model.safetensors", "--ratio", "8", "-o", "-")

    @unittest.skipIf(harness.PORTABLE, "built without LibTorch")
    def test_the_file_precedes_the_table_of_a_training(self):
        self.model()
        data = ("--arch", "mlp", "--data", "digits", "-q")
        self.check_order("compress", "model.safetensors", *data, "--epochs", "0", "--ratio", "8", "-o", "-")
        self.check_order("compress", "model.safetensors", *data, "--epochs", "1", "--set", "rate.lambda=1", "-o", "-")

    def test_one_pipe(self):
        model = self.model(widths=(64, 32, 10))
        script = '"$0" compress - --mode exact --max-bytes 100k -o - < "$1" | "$0" expand - -o - | "$0" inspect - --json'
        done = subprocess.run(["sh", "-c", script, harness.EXECUTABLE, model], capture_output=True, cwd=self.folder,
                              timeout=harness.TIMEOUT, env=harness.clean_environment())
        listed = json.loads(done.stdout)
        self.assertEqual([t["name"] for t in listed["tensors"]], ["0.bias", "0.weight", "2.bias", "2.weight"], done)
        self.assertEqual(listed["file"], "/dev/stdin")

    def test_results_as_json_go_to_standard_error(self):
        done = self.piped("compress", "-", *LOSSLESS, "-o", "-", "--json", "-q", given=self.read(self.model()))
        self.assertEqual((done.status, done.out[:4]), (DONE, b"GBZ2"), done)
        told = json.loads(done.err)
        self.assertEqual((told["output"], told["output_bytes"]), ("-", len(done.out)))
        failed = self.piped("compress", "-", "-o", "-", "--json", "-q", given=b"no model")
        self.assertEqual((failed.status, failed.out), (INPUT, b""), failed)
        self.assertIn('"error"', failed.err)
        failed = self.piped("compress", "-", "--no-such", "-o", "-", "--json", given=b"")
        self.assertEqual((failed.status, failed.out), (USAGE, b""), failed)

    def test_a_redirected_file_is_not_copied(self):
        """A file that is larger than what TMPDIR may hold is read where it lies."""
        model = self.model(widths=(256, 128, 10))
        limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))}
        with open(model, "rb") as file:
            self.succeed("inspect", "-", stdin=file, **limited)
        done = self.piped("inspect", "-", given=self.read(model), **limited)
        self.assertEqual(done.status, FAILED, done)
        self.one_message(done, "standard input cannot be kept in .*: File too large; set TMPDIR")

    def test_where_streams_cannot_be(self):
        model = self.model()
        gbz = self.path("m.gbz")
        self.succeed("compress", model, *LOSSLESS, "-o", gbz)
        for command, pattern in (
                (("compare", "-", "-"), "standard input .* is named 2 times"),
                (("inspect", "-", "--against", "-"), "standard input .* is named 2 times"),
                (("compress", "-", model, "-o", "out/"), "standard input .* cannot be one of several"),
                (("compress", model, model, "-o", "-"), "several inputs need a folder .* -o names standard output"),
                (("compress", model, "-o", "x.gbz", "--report", "-"), "--report takes no standard stream .* name a file"),
                (("compress", model, "-o", "x.gbz", "--tensorboard", "-"), "--tensorboard takes no standard stream"),
                (("compress", model, "-o", "x.gbz", "--checkpoint", "-"), "--checkpoint takes no standard stream"),
                (("compress", model, "-o", "x.gbz", "--resume", "-"), "--resume takes no standard stream"),
                (("compress", model, "-o", "x.gbz", "--data", "text:-"), "--data takes no standard stream"),
                (("sweep", model, "-o", "-"), "-o takes no standard stream .* name a folder"),
                (("plugins", "new", "x", "-o", "-"), "-o takes no standard stream .* name a folder")):
            with self.subTest(command=command):
                self.refused(USAGE, pattern, *command)
        for files in ((model, "-o", "-"), ("-", "-o", "x.gbz")):
            self.refused(USAGE, r"several processes cannot share standard input or output \(-\); name files", "compress",
                         *files, environment=harness.RANK_0)
        missing = self.run_cli("inspect", "-", stdin=None, preexec_fn=lambda: os.close(0))
        self.assertEqual(missing.status, INPUT, missing)
        self.one_message(missing, "standard input cannot be read")
        self.refused(INPUT, "standard input .*empty", "inspect", "-")
        pointer = self.piped("compress", "-", *LOSSLESS, "-o", "x.gbz", given=b"version https://git-lfs.github.com/spec/v1\n")
        self.one_message(pointer, "^gbcompress: standard input is a Git LFS pointer")

    def test_options_take_standard_input(self):
        model = self.model()
        gbz = self.path("m.gbz")
        self.succeed("compress", model, *LOSSLESS, "-o", gbz)
        content = self.read(model)
        self.assertIn(b"error", self.piped("inspect", gbz, "--against", "-", given=content).out)
        self.assertEqual(self.piped("compare", "-", gbz, given=content).status, DONE)
        delta = self.piped("compress", model, "--base", "-", *LOSSLESS, "-o", "d.gbz", given=content)
        self.assertEqual(delta.status, DONE, delta)
        again = self.piped("rebase", gbz, "--onto", "-", "-o", "again.gbz", given=content)
        self.assertEqual(again.status, DONE, again)

    def test_terminals_are_refused(self):
        try:
            leader, follower = pty.openpty()
        except OSError as error:
            self.skipTest(f"this machine gives no pseudo-terminal: {error}")
        self.addCleanup(os.close, leader)
        self.addCleanup(os.close, follower)
        model = self.model()
        self.refused(USAGE, "standard input is a terminal", "inspect", "-", stdin=follower)
        done = subprocess.run([harness.EXECUTABLE, "compress", model, *LOSSLESS, "-o", "-"], stdin=subprocess.DEVNULL,
                              stdout=follower, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                              env=harness.clean_environment(), timeout=harness.TIMEOUT)
        self.assertEqual(done.returncode, USAGE, done)
        self.assertIn("standard output is a terminal; redirect it, or name a file: -o OUT", done.stderr)

    def test_standard_output_that_is_full(self):
        model = self.model()
        with open("/dev/full", "wb") as full:
            done = subprocess.run([harness.EXECUTABLE, "compress", model, *LOSSLESS, "-o", "-"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, cwd=self.folder, env=harness.clean_environment(),
                                  timeout=harness.TIMEOUT)
        self.assertEqual(done.returncode, FAILED, done)
        self.one_message(harness.Result(FAILED, "", done.stderr),
                         "standard output cannot be written: No space left on device")

    def test_nothing_stays_in_the_temporary_folder(self):
        os.mkdir(self.path("tmp"))
        model = self.model()
        for more, status in (((), DONE), (("--max-error", "2"), USAGE)):
            done = self.piped("compress", "-", "--ratio", "2", "-o", "-", *more, given=self.read(model),
                              environment={"TMPDIR": self.path("tmp")})
            self.assertEqual(done.status, status, done)
            self.assertEqual(os.listdir(self.path("tmp")), [])
        done = self.piped("compress", model, *LOSSLESS, "-o", "-", environment={"TMPDIR": self.path("none")})
        self.assertEqual(done.status, FAILED, done)
        self.one_message(done, "cannot be made: .*set TMPDIR to another one")


class Readers(StreamTest):
    def first_bytes(self, command, count, given=None):
        """Reads some bytes of the program's output and closes it. @return its status and messages"""
        child = subprocess.Popen([harness.EXECUTABLE, *command], stdin=given or subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                                 env=harness.clean_environment())
        child.stdout.read(count)
        child.stdout.close()
        errors = child.stderr.read().decode()
        child.stderr.close()
        return child.wait(timeout=harness.TIMEOUT), errors

    def test_a_reader_that_stops_early_is_no_error(self):
        # The list is longer than a pipe holds.
        tensors = {f"layer.{i}.weight": ("F32", [1], floats(1)) for i in range(4000)}
        model = self.write("many.safetensors", safetensors(tensors))
        for command in (("inspect", model), ("inspect", model, "--json"), ("completion", "bash"), ("man",),
                        ("compress", "--help", "-v")):
            for count in (0, 10):
                with self.subTest(command=command, count=count):
                    self.assertEqual(self.first_bytes(command, count), (DONE, ""))

    def test_a_file_that_was_cut_is_an_error(self):
        model = self.model(widths=(512, 256, 10))
        status, errors = self.first_bytes(("compress", model, "--mode", "exact", "--max-bytes", "9M", "-o", "-"), 4)
        self.assertEqual(status, FAILED, errors)
        self.assertIn("standard output was closed before the whole file was written", errors)


class Formats(StreamTest):
    SHAPES = {"matrix": ("F32", [3, 2], floats(6)), "vector": ("F16", [3], struct.pack("<3e", 1, 2, 3)),
              "scalar": ("I64", [], struct.pack("<q", -7)), "caf\u00e9": ("BOOL", [2], b"\1\0"),
              "none": ("F64", [0, 4], b"")}

    def packed(self, tensors, name="m.gbz"):
        self.succeed("compress", self.write("t.safetensors", safetensors(tensors)), *LOSSLESS, "-o", self.path(name))
        return self.path(name)

    def arrays(self, file):
        """{name: (descr, shape, bytes)} by the formats' own rules."""
        found = {}
        with zipfile.ZipFile(file) as archive:
            self.assertIsNone(archive.testzip())
            for name in archive.namelist():
                content = archive.read(name)
                self.assertEqual((content[:8], name[-4:]), (b"\x93NUMPY\1\0", ".npy"))
                length = struct.unpack("<H", content[8:10])[0]
                self.assertEqual(((10 + length) % 64, content[9 + length:10 + length]), (0, b"\n"))
                head = ast.literal_eval(content[10:10 + length].decode())
                self.assertIs(head["fortran_order"], False)
                found[name[:-4]] = (head["descr"], head["shape"], content[10 + length:])
        return found

    def test_npz(self):
        gbz = self.packed(self.SHAPES)
        out = self.succeed("expand", gbz, "-o", self.path("t.npz"), "--json").json
        self.assertEqual(out["output_bytes"], os.path.getsize(self.path("t.npz")))
        names = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "BOOL": "|b1", "F64": "<f8"}
        self.assertEqual(self.arrays(self.path("t.npz")),
                         {name: (names[kind], tuple(shape), raw) for name, (kind, shape, raw) in self.SHAPES.items()})
        self.succeed("expand", gbz, "-o", self.path("again.npz"))
        self.assertEqual(self.read("t.npz"), self.read("again.npz"))
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed; the file was read by the test's own reader")
        with numpy.load(self.path("t.npz")) as arrays:
            self.assertEqual(set(arrays), set(self.SHAPES))
            self.assertEqual((arrays["scalar"].shape, int(arrays["scalar"])), ((), -7))
            self.assertEqual(arrays["matrix"].tobytes(), self.SHAPES["matrix"][2])

    def test_npz_of_integers(self):
        self.succeed("compress", self.model(widths=(64, 32, 10)), "--max-bytes", "2k", "-o", self.path("m.gbz"), "-q")
        for name in ("m.npz", "m.safetensors"):
            self.succeed("expand", self.path("m.gbz"), "-o", self.path(name))
        content = self.read("m.safetensors")
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        header.pop("__metadata__")
        self.assertEqual({name: raw for name, (_, _, raw) in self.arrays(self.path("m.npz")).items()},
                         {name: content[8 + length:][slice(*entry["data_offsets"])] for name, entry in header.items()})

    def test_more_members_than_a_zip_without_its_extension_counts(self):
        tensors = {f"t{i}": ("U8", [1], bytes([i % 256])) for i in range(65600)}
        gbz = self.path("many.gbz")
        self.succeed("compress", self.write("many.safetensors", safetensors(tensors)), "--mode", "exact", "--max-bytes",
                     "9M", "-o", gbz)
        self.succeed("expand", gbz, "-o", self.path("many.npz"))
        with zipfile.ZipFile(self.path("many.npz")) as archive:
            self.assertEqual(len(archive.namelist()), 65600)
            self.assertEqual(archive.read("t65599.npy")[-1], 65599 % 256)

    def test_types_that_numpy_lacks(self):
        gbz = self.packed({"w": ("BF16", [2], b"\0\0\0\0")})
        self.refused(USAGE, r"t\.npz: NumPy has no type for w, BF16; name a \.safetensors file", "expand", gbz, "-o",
                     self.path("t.npz"))

    def test_formats_that_are_not_written(self):
        gbz = self.packed(self.SHAPES)
        for name in ("e.pt", "e.pth", "e.bin", "e.ckpt", "e.pth.tar", "E.PT"):
            self.refused(USAGE, r"files are not written; name .*\.safetensors or .*\.npz \(in Python, torch\.save\(",
                         "expand", gbz, "-o", self.path(name))
        for name in ("e.h5", "e.npy", "e.gbz"):
            self.refused(USAGE, r"files are not written; name .*\.safetensors or .*\.npz\n", "expand", gbz, "-o",
                         self.path(name))
        self.refused(USAGE, r"was not made of an ONNX model; name a \.safetensors or \.npz file", "expand", gbz, "-o",
                     self.path("e.onnx"))
        self.refused(USAGE, r"was not made of a GGUF model; name a \.safetensors or \.npz file", "expand", gbz, "-o",
                     self.path("e.gguf"))
        self.succeed("expand", gbz, "-o", self.path("model-v1.5"))  # no suffix of a format


if __name__ == "__main__":
    harness.main()
