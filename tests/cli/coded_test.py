"""Files of integers made by the program, and what is wrong with copies of them. Behind a digest that fits, as somebody
with bad intentions would make it, damage is refused, or is another file as good as this one; either way within a second
and 64 MiB beside what the program takes for a good one."""

import array
import json
import hashlib
import os
import random
import resource
import struct
import subprocess
import unittest

import harness
from harness import DONE, INPUT, TARGET, USAGE, safetensors

MEMORY, SECONDS = 64 << 10, 1.0  # KiB


def varint(number):
    out = bytearray()
    while True:
        out.append(number & 127 | (128 if number > 127 else 0))
        number >>= 7
        if number == 0:
            return bytes(out)


def read_varint(content, at):
    number = shift = 0
    while True:
        number |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 128:
            return number, at


def cbor(value):
    def head(kind, n):
        for code, size, form in ((24, 1, ">B"), (25, 2, ">H"), (26, 4, ">I"), (27, 8, ">Q")):
            if n < 24:
                return bytes([kind << 5 | n])
            if n < 1 << 8 * size:
                return bytes([kind << 5 | code]) + struct.pack(form, n)
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


class Parts:
    """Header (as it is stored) and what follows it, of a file."""

    def __init__(self, content):
        length, at = read_varint(content, 4)
        assert at + length == len(content)
        size, at = read_varint(content, at)
        self.raw, at = read_varint(content, at)
        self.header, self.stream = content[at:at + size], content[at + size:-16]

    @staticmethod
    def sealed(header, stream, raw=0, size=None, length=None):
        """A file with a digest that fits; `size` and `length` replace the true ones."""
        body = varint(len(header) if size is None else size) + varint(raw) + header + stream
        whole = b"GBZ2" + varint(len(body) + 16 if length is None else length) + body
        return whole + hashlib.sha256(whole).digest()[:16]


class Coded(harness.CliTest):
    def measured(self, *arguments):
        """-> status, seconds of processor time, peak KiB, stderr"""
        with open(self.path("errors"), "wb") as errors:
            child = subprocess.Popen([harness.EXECUTABLE, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=errors, env=harness.clean_environment(), cwd=self.folder)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return child.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, self.read("errors").decode()

    def setUp(self):
        super().setUp()
        self.good = self.path("good.gbz")
        self.succeed("compress", self.model(), "--arch", "mlp", "--mode", "quantized", "--ratio", "6", "-q", "-o", self.good)
        _, self.seconds, self.peak, _ = self.measured("inspect", self.good)

    def bounded(self, content, refused=True):
        file = self.write("bad.gbz", content)
        for verb in (("inspect", file), ("expand", file, "-o", self.path("x.safetensors"), "--force")):
            status, seconds, peak, errors = self.measured(*verb)
            self.assertIn(status, (INPUT,) if refused else (INPUT, DONE), errors)
            if status == INPUT:
                self.assertEqual(errors.count("gbcompress: "), 1, errors)
            self.assertLess(seconds, self.seconds + SECONDS)
            self.assertLess(peak, self.peak + MEMORY)
        return status

    def test_any_flipped_bit_is_refused(self):
        whole = self.read(self.good)
        draw = random.Random(2)
        for place in draw.sample(range(8 * len(whole)), 24):
            content = bytearray(whole)
            content[place // 8] ^= 1 << place % 8
            file = self.write("flipped.gbz", content)
            with self.subTest(bit=place):
                self.refused(INPUT, "flipped.gbz", "expand", file, "-o", self.path("x.safetensors"))

    def test_bits_flipped_behind_a_digest_that_fits(self):
        parts = Parts(self.read(self.good))
        draw = random.Random(3)
        for place in draw.sample(range(8 * len(parts.stream)), 12):
            stream = bytearray(parts.stream)
            stream[place // 8] ^= 1 << place % 8
            with self.subTest(bit=place):
                self.bounded(Parts.sealed(parts.header, bytes(stream), parts.raw), refused=False)

    def test_truncated_and_prolonged_streams(self):
        parts = Parts(self.read(self.good))
        for cut in (1, 2, 8, len(parts.stream) // 2, len(parts.stream)):
            with self.subTest(cut=cut):
                self.bounded(Parts.sealed(parts.header, parts.stream[:-cut], parts.raw))
        self.bounded(Parts.sealed(parts.header, parts.stream + b"\1\2", parts.raw))

    def test_lengths_that_lie(self):
        parts = Parts(self.read(self.good))
        for lie in ({"length": 5}, {"length": 1 << 62}, {"size": len(parts.header) + 1}, {"size": 1 << 40}, {"size": 0},
                    {"size": len(parts.header) - 1}):
            with self.subTest(**lie):
                self.bounded(Parts.sealed(parts.header, parts.stream, parts.raw, **lie))
        self.bounded(Parts.sealed(parts.header, parts.stream, raw=(16 << 20) + 1))
        self.bounded(Parts.sealed(parts.header, parts.stream, raw=len(parts.header) + 100))

    def test_impossible_models(self):
        stream = Parts(self.read(self.good)).stream
        def header(shape, steps=(0,), **more):
            return cbor({"t": [{"d": "F32", "h": shape, "k": 0, "n": "w", **more}], "u": list(steps)})
        for shape in ([1 << 40], [1 << 20, 1 << 20], [1 << 61, 1 << 61], [64 << 20], [10_000, 10_000], [1, 8 << 20]):
            with self.subTest(shape=shape):
                self.bounded(Parts.sealed(header(shape), stream))
        for what in (header([4, 4], steps=[5000]), header([4, 4], steps=[]), header([4, 4], steps=[0, 0]),
                     header([4, 4], i=[3, 5, 0]), header([4, 4], i=[4, 4, 9]), header([0, 4]), cbor({"t": []}),
                     header([4, 4], r=0), cbor({"a": "resnet20", "u": [0] * 3}), cbor({"a": "mlp:0-10", "u": [0, 0]})):
            with self.subTest(header=what.hex()):
                self.bounded(Parts.sealed(what, stream))

    def test_garbage_for_a_stream(self):
        """Symbols outside the alphabet, tables that are none."""
        draw = random.Random(4)
        entry = {"t": [{"d": "F32", "h": [300, 200], "k": 0, "n": "w"}], "u": [0]}
        for length in (1, 40, 3000):
            for garbage in (bytes(length), b"\xff" * length, draw.randbytes(length)):
                with self.subTest(length=length, first=garbage[0]):
                    self.bounded(Parts.sealed(cbor(entry), garbage), refused=False)
                    self.bounded(Parts.sealed(cbor({**entry, "v": [length]}), garbage), refused=False)
        for sizes in ([41], [39], [1 << 62], [], [20, 20]):
            with self.subTest(sizes=sizes):
                self.bounded(Parts.sealed(cbor({**entry, "v": sizes}), draw.randbytes(40)))

    def test_the_lanes_profile(self):
        draw = random.Random(5)
        block = array.array("f", (draw.gauss(0, 0.1) for _ in range(21_000)))
        weights = (block * 200).tobytes()  # 4.2 million
        model = self.write("large.safetensors", safetensors({"w": ("F32", [2100, 2000], weights)}))
        large = self.path("large.gbz")
        self.succeed("compress", model, "--mode", "quantized", "--max-error", "0.05", "-q", "-o", large)
        self.assertEqual(self.succeed("inspect", large, "--json").json["profile"], "lanes")
        _, self.seconds, self.peak, _ = self.measured("expand", large, "-o", self.path("x.safetensors"), "--force")
        parts = Parts(self.read(large))
        for place in [*range(0, 64, 7), *draw.sample(range(len(parts.stream)), 4)]:
            stream = bytearray(parts.stream)
            stream[place] ^= 1 << draw.randrange(8)
            with self.subTest(byte=place):
                self.bounded(Parts.sealed(parts.header, bytes(stream), parts.raw), refused=False)
        self.bounded(Parts.sealed(parts.header, parts.stream[:-1000], parts.raw))


class Targets(harness.CliTest):
    """What cannot be reached ends with 4, and the best file is there."""

    def missed(self, sentence, *options):
        out = self.path("x.gbz")
        result = self.run_cli("compress", self.path("model.safetensors"), "--arch", "mlp", "-q", "--force", "-o", out, *options)
        self.assertEqual(result.status, TARGET, result)
        self.one_message(result, "the target was not reached: .*" + sentence)
        self.succeed("expand", out, "-o", self.path("x.safetensors"), "--force")
        return os.path.getsize(out)

    def test_sizes(self):
        self.model(widths=(64, 32, 10))
        original = os.path.getsize(self.path("model.safetensors"))
        data = ("--data", "digits")
        short = ("--epochs", "2")
        smallest = {}
        for mode in ("generated", "quantized"):
            for name, how in (("untrained", ()), ("trained", (*data, *short)), ("calibrated", (*data, "--epochs", "0"))):
                for target in (("--max-bytes", "100"), ("--ratio", str(original // 100 - 1))):
                    with self.subTest(mode=mode, how=name, target=target[0]):
                        out = self.path("x.gbz")
                        result = self.run_cli("compress", self.path("model.safetensors"), "--arch", "mlp", "-q", "--force",
                                              "--mode", mode, "-o", out, *how, *target,
                                              environment=harness.fit_steps(5))
                        size = os.path.getsize(out)
                        wanted = 100 if target[0] == "--max-bytes" else original / (original // 100 - 1)
                        self.assertEqual(result.status, DONE if size <= wanted else TARGET, result)
                        if size > wanted:
                            self.one_message(result, "the target was not reached: the target is .* bytes, and the file has")
                        self.succeed("expand", out, "-o", self.path("x.safetensors"), "--force")
                        smallest[mode, name] = size
        # Half of the squares of each row stay.
        self.assertLess(smallest["quantized", "untrained"], 460)

    def test_drops(self):
        """No file of 10 numbers a picture is better than what it is of: a drop of 0 cannot always be kept."""
        result = self.run_cli("compress", "--from-scratch", "--arch", "mlp:64-32-10", "--data", "digits", "--mode", "quantized",
                              "--epochs", "0", "--max-drop", "0", "-q", "-o", self.path("x.gbz"))
        self.assertIn(result.status, (DONE, TARGET), result)
        if result.status == TARGET:
            self.one_message(result, "the largest quality drop allowed is 0; .* on the held-out split")
        self.succeed("expand", self.path("x.gbz"), "-o", self.path("x.safetensors"))

    def tensors(self, path):
        content = self.read(path)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + length])
        header.pop("__metadata__", None)
        return {name: content[8 + length:][slice(*entry["data_offsets"])] for name, entry in header.items()}

    def test_an_error_that_no_step_has_keeps_everything_exact(self):
        model = self.model()
        out, back = self.path("x.gbz"), self.path("x.safetensors")
        self.succeed("compress", model, "--mode", "quantized", "--max-error", "1e-15", "-q", "-o", out)
        self.succeed("expand", out, "-o", back)
        before, after = (self.tensors(path) for path in (model, back))
        self.assertEqual(before, after)

    def test_no_tensor_dies_of_a_size(self):
        """Far below what weights can bear: status 4, and no tensor has lost more than half of its squares."""
        model = self.model(widths=(64, 32, 10))
        out = self.path("x.gbz")
        result = self.run_cli("compress", model, "--mode", "quantized", "--max-bytes", "100", "--json", "-o", out)
        self.assertEqual(result.status, TARGET, result)
        tensors = result.json["tensors"]
        self.assertEqual(len(tensors), 4)
        for tensor in tensors:
            self.assertLessEqual(tensor["error"], 0.5, tensor["name"])
            if tensor["name"].endswith("bias"):
                self.assertLess(tensor["error"], 1e-4, tensor["name"])

    def test_the_table_names_the_worst_tensors(self):
        model = self.model(widths=(64, 32, 10))
        common = ("compress", model, "--mode", "quantized", "--ratio", "10", "--force", "-o", self.path("x.gbz"))
        result = self.succeed(*common)
        self.assertRegex(result.out, r"exact tensors +0 of 4")
        self.assertRegex(result.out, r"worst tensors +[02]\.weight +error [0-9.e-]+")
        listing = self.succeed(*common, "--verbose").out
        for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
            self.assertRegex(listing, rf"(?m)^{name} +\d+(x\d+)? +(integers|short floats) +small ")
        self.assertRegex(listing, r"(?m)^tensor +shape +stored +profile +step +bits +bytes +seconds +error$")
        self.assertRegex(listing, r"(?m)^0\.weight .* [\d,]+ +\d\S* +\S+$")

    def test_what_to_aim_at(self):
        model = self.model()
        common = ("compress", model, "--arch", "mlp", "-q", "-o", self.path("x.gbz"))
        self.refused(USAGE, "--max-error must be a number above 0 and below 1", *common, "--mode", "quantized", "--max-error", "1")
        self.refused(USAGE, "--max-error", *common, "--mode", "quantized", "--data", "digits", "--max-error", "0.1")
        self.refused(USAGE, "--max-error", *common, "--mode", "generated", "--max-error", "0.1")
        self.refused(USAGE, "needs data", *common, "--mode", "quantized", "--max-drop", "1")

    def test_the_table_says_what_steps_follow(self):
        model = self.model()
        common = ("compress", model, "--arch", "mlp", "--mode", "quantized", "--force", "-o", self.path("x.gbz"), "--ratio", "6")
        result = self.succeed(*common)
        self.assertRegex(result.out, r"test quality +not evaluated \(no data\)")
        self.assertRegex(result.out, r"step sizes from +the weights \(data-free\)")
        result = self.succeed(*common, "--data", "digits", "--epochs", "0")
        self.assertRegex(result.out, r"test accuracy +\d+\.\d\d % +\d+\.\d\d %")
        self.assertRegex(result.out, r"step sizes from +\d+ training samples,\n +.*error feedback")
        result = self.succeed(*common, "--data", "digits", "--set", "train.loss=weights")
        self.assertRegex(result.out, r"test accuracy +\d+\.\d\d % +\d+\.\d\d %")
        self.assertRegex(result.out, r"step sizes from +the weights \(data-free\)")
        self.assertNotIn("step sizes from", self.succeed(*common, "--data", "digits", "--epochs", "1").out)


harness.main()
