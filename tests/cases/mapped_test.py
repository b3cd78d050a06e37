"""Inputs that change while they are read, file systems that map no files, deltas of models that grew, damaged headers."""

import array
import os
import random
import shutil
import struct
import subprocess
import time
import unittest

import cases
import harness
from harness import DONE, FAILED, INPUT, USAGE, floats, safetensors

SANITIZED = os.environ.get("GBCOMPRESS_SANITIZED") == "1"
SIDE = 512


def weights(count, seed=0):
    """Matrices of SIDE x SIDE, of which exact mode saves little."""
    draw = random.Random(seed)
    tensors = {}
    for i in range(count):
        raw = bytearray(draw.randbytes(4 * SIDE * SIDE))
        raw[3::4] = b"\x3d" * (SIDE * SIDE)
        tensors[f"layer.{i}.weight"] = ("F32", [SIDE, SIDE], bytes(raw))
    return tensors


class Shrinking(cases.Given):
    """A file that is cut while it is read: one message, status 1, no output."""

    def cut_during(self, file, size, delay, *arguments):
        """Runs a command and cuts the file meanwhile. @return the result"""
        process = subprocess.Popen([harness.EXECUTABLE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True, cwd=self.folder,
                                   env=harness.clean_environment())
        time.sleep(delay)
        os.truncate(file, size)
        out, err = process.communicate(timeout=harness.TIMEOUT)
        return harness.Result(process.returncode, out, err)

    def at_all_times(self, content, name, output, *arguments, times=8, left=1 << 20, also=(DONE,)):
        """Cuts `name` at moments spread over the run, whose duration is measured first."""
        begin = time.monotonic()
        self.write(name, content)
        self.succeed(*arguments)
        whole = time.monotonic() - begin
        made = self.read(output) if output else None
        failed = 0
        for i in range(times):
            file = self.write(name, content)
            if output and os.path.exists(self.path(output)):
                os.remove(self.path(output))
            result = self.cut_during(file, left, whole * i / times, *arguments)
            with self.subTest(i=i, command=arguments[0], left=left):
                self.assertIn(result.status, (FAILED, INPUT, *also), result)
                if result.status in (FAILED, INPUT):
                    failed += 1
                    self.one_message(result, os.path.basename(name))
                    # A file that is there was put in place whole, before the input was cut.
                    if output and os.path.exists(self.path(output)):
                        self.assertEqual(self.read(output), made, result)
        return failed

    def test_compressing(self):
        content = safetensors(weights(3))
        cut = 0
        for options in (("--ratio", "8"), ("--lossless",)):
            cut += self.at_all_times(content, "m.safetensors", "m.gbz", "compress", "m.safetensors", *options, "-o",
                                     "m.gbz", "--force", times=5)
        self.assertGreater(cut, 2)

    def test_small_tensors_in_the_last_page_that_is_left(self):
        # The kernel fills the rest of that page with zeros, and raises no signal.
        tensors = {f"t.{i}": ("F32", [16, 16], floats(256, seed=i)) for i in range(40)}
        self.at_all_times(safetensors(tensors), "n.safetensors", "n.gbz", "compress", "n.safetensors", "--ratio", "6",
                          "-o", "n.gbz", "--force", times=3, left=(24 << 10) + 100)

    def test_expanding_and_showing(self):
        self.write("m.safetensors", safetensors(weights(2, seed=1)))
        self.succeed("compress", "m.safetensors", "--lossless", "-o", "m.gbz")
        content = self.read("m.gbz")
        self.at_all_times(content, "m.gbz", "x.safetensors", "expand", "m.gbz", "-o", "x.safetensors", "--force",
                          times=5, left=len(content) // 2)
        self.at_all_times(content, "m.gbz", None, "inspect", "m.gbz", times=3, left=len(content) // 3)
        self.at_all_times(content, "m.gbz", None, "compare", "m.safetensors", "m.gbz", times=4,
                          left=len(content) // 3)

    def test_a_base(self):
        tensors = weights(3, seed=2)
        base = safetensors(tensors)
        for name, (dtype, shape, raw) in list(tensors.items()):
            values = array.array("f", raw)
            for i in range(0, len(values), 7):
                values[i] += 1e-3
            tensors[name] = (dtype, shape, values.tobytes())
        self.write("tuned.safetensors", safetensors(tensors))
        for options in (("--lossless",), ("--max-error", "0.01")):
            self.at_all_times(base, "base.safetensors", "d.gbz", "compress", "tuned.safetensors", "--base",
                              "base.safetensors", *options, "-o", "d.gbz", "--force", times=3)

    def test_a_shard(self):
        os.makedirs(self.path("shards"))
        halves = [weights(2, seed=i) for i in (3, 4)]
        contents = []
        for i, half in enumerate(halves):
            named = {f"half{i}.{name}": value for name, value in half.items()}
            contents.append(safetensors(named))
            self.write(f"shards/net-0000{i + 1}-of-00002.safetensors", contents[-1])
        self.at_all_times(contents[1], "shards/net-00002-of-00002.safetensors", "out/net.gbz", "compress", "shards",
                          "--ratio", "6", "-o", "out", "--force", times=4)

    def test_given_50(self):
        folder = self.given("50")
        content = self.read(os.path.join(folder, "m.safetensors"))
        self.at_all_times(content, "m.safetensors", "m.gbz", "compress", "m.safetensors", "--ratio", "8", "-o", "m.gbz",
                          "--force", times=2)


@unittest.skipIf(SANITIZED, "the sanitizer's run time has to be loaded before other libraries")
class WithoutMapping(cases.Given):
    """A file system that maps no files: ENODEV for all of more than a few bytes."""

    SHIM = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
typedef void *(*call)(void *, size_t, int, int, int, off_t);
void *mmap(void *a, size_t n, int p, int f, int fd, off_t o) {
  char link[64], path[4096] = {0};
  if (fd >= 0) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, getenv("UNMAPPED"))) {
      if (getenv("UNMAPPED_LOG")) { FILE *log = fopen(getenv("UNMAPPED_LOG"), "a"); fputs("x", log); fclose(log); }
      errno = ENODEV;
      return MAP_FAILED;
    }
  }
  return ((call)dlsym(RTLD_NEXT, "mmap"))(a, n, p, f, fd, o);
}
"""

    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            self.skipTest("no C compiler for the library that refuses mmap()")
        self.write("shim.c", self.SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.path("shim.so"), self.path("shim.c"), "-ldl"], check=True)
        os.makedirs(self.path("unmapped"))
        self.environment = {"LD_PRELOAD": self.path("shim.so"), "UNMAPPED": "/unmapped/",
                            "UNMAPPED_LOG": self.path("log")}

    def unmapped(self, *arguments):
        if os.path.exists(self.path("log")):
            os.remove(self.path("log"))
        result = self.succeed(*arguments, environment=self.environment)
        self.assertTrue(os.path.exists(self.path("log")), "the shim refused nothing")
        return result

    def test_every_verb(self):
        content = safetensors(weights(2, seed=5))
        self.write("m.safetensors", content)
        self.write("unmapped/m.safetensors", content)
        for options in (("--ratio", "8"), ("--lossless",)):
            self.succeed("compress", "m.safetensors", *options, "-o", "mapped.gbz", "--force")
            self.unmapped("compress", "unmapped/m.safetensors", *options, "-o", "unmapped/m.gbz", "--force")
            self.assertEqual(self.read("mapped.gbz"), self.read("unmapped/m.gbz"))
        self.unmapped("expand", "unmapped/m.gbz", "-o", "unmapped/back.safetensors")
        self.succeed("expand", "mapped.gbz", "-o", "back.safetensors")
        self.assertEqual(self.read("back.safetensors"), self.read("unmapped/back.safetensors"))
        self.unmapped("inspect", "unmapped/m.gbz")
        self.unmapped("inspect", "unmapped/m.safetensors")
        self.unmapped("compare", "unmapped/m.safetensors", "unmapped/m.gbz")
        self.unmapped("compress", "unmapped/m.safetensors", "--base", "unmapped/m.safetensors", "--lossless", "-o", "d.gbz")

    def test_missing_file_and_folder_keep_their_messages(self):
        result = self.run_cli("inspect", "unmapped/none.safetensors", environment=self.environment)
        self.assertEqual(result.status, INPUT, result)
        self.one_message(result, "none.safetensors does not exist")

    def test_given_49(self):
        folder = self.given("49")
        shim = os.path.join(folder, "nommap.so")
        subprocess.run(["cc", "-shared", "-fPIC", os.path.join(folder, "nommap.c"), "-o", shim, "-ldl"], check=True)
        environment = {"LD_PRELOAD": shim}
        model, packed = os.path.join(folder, "m.safetensors"), os.path.join(folder, "m.gbz")
        self.succeed("compress", model, "--ratio", "1.1", "-o", packed, environment=environment)
        self.succeed("expand", packed, "-o", self.path("x.safetensors"), environment=environment)


class GrownModels(cases.Given):
    """Deltas of models whose vocabulary grew, or of which a tensor has another type."""

    def grown(self):
        r = random.Random(6)
        wide = array.array("f", (r.gauss(0, 1) for _ in range(300 * 32)))
        body = array.array("f", (r.gauss(0, 1) for _ in range(128 * 32)))
        more = wide + array.array("f", (r.gauss(0, 1) for _ in range(5 * 32)))
        moved = array.array("f", (v + 1e-3 * r.gauss(0, 1) for v in body))
        norm = floats(32, seed=7)
        self.write("before.safetensors", safetensors({
            "wte.weight": ("F32", [300, 32], wide.tobytes()), "h.0.mlp": ("F32", [128, 32], body.tobytes()),
            "ln.weight": ("F32", [32], norm), "scale": ("F16", [2], b"\0\x3c\0\x3c")}))
        self.write("after.safetensors", safetensors({
            "wte.weight": ("F32", [305, 32], more.tobytes()), "h.0.mlp": ("F32", [128, 32], moved.tobytes()),
            "ln.weight": ("F32", [32], norm), "scale": ("F32", [2], floats(2, seed=8))}))

    def round_trip(self, *options):
        result = self.succeed("compress", "after.safetensors", "--base", "before.safetensors", *options, "-o", "d.gbz",
                              "--force")
        self.assertRegex(result.err, r"stored whole.*scale \(F32 \[2\], F16 \[2\] in the base\)")
        how = "in pieces of the base" if "--lossless" in options else "whole"
        self.assertRegex(result.err, rf"stored {how}.*wte.weight \(F32 \[305, 32\], F32 \[300, 32\] in the base\)")
        self.succeed("expand", "d.gbz", "--base", "before.safetensors", "-o", "back.safetensors", "--force")
        return self.run_cli("compare", "after.safetensors", "back.safetensors", "--json").json

    def test_exact_and_lossy(self):
        self.grown()
        whole = self.succeed("compress", "after.safetensors", "--lossless", "-o", "whole.gbz")
        self.round_trip("--lossless")
        self.assertEqual(whole.status, DONE)
        self.assertLess(len(self.read("d.gbz")), len(self.read("whole.gbz")))
        compared = self.run_cli("compare", "after.safetensors", "back.safetensors", "--json").json
        self.assertTrue(all(tensor["error"] == 0 for tensor in compared["tensors"]), compared)
        compared = self.round_trip("--max-error", "0.01")
        self.assertTrue(all(tensor["error"] <= 0.01 for tensor in compared["tensors"]), compared)
        self.refused(USAGE, "--base", "expand", "d.gbz", "-o", self.path("no.safetensors"))

    def test_another_model_is_still_refused(self):
        self.write("a.safetensors", safetensors({"w": ("F32", [4, 4], floats(16))}))
        self.write("b.safetensors", safetensors({"w": ("F32", [4, 5], floats(20))}))
        self.write("c.safetensors", safetensors({"v": ("F32", [4, 4], floats(16))}))
        for base in ("b.safetensors", "c.safetensors"):
            result = self.run_cli("compress", "a.safetensors", "--base", base, "--lossless", "-o", "x.gbz")
            self.assertIn(result.status, (USAGE, INPUT), result)
            self.one_message(result, "the model that this one was made from")

    def test_given_10(self):
        folder = self.given("10")
        tuned, base = os.path.join(folder, "tuned.safetensors"), os.path.join(folder, "base.safetensors")
        for options in (("--mode", "exact"), ("--max-error", "0.01")):
            result = self.succeed("compress", tuned, "--base", base, *options, "-o", "d.gbz", "--force")
            self.assertRegex(result.err, "embed.weight")
            self.assertRegex(result.err, "lm_head.weight")
            self.succeed("expand", "d.gbz", "--base", base, "-o", "back.safetensors", "--force")


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def onnx_model():
    """y = x @ w, as protobuf."""
    weight = field(1, 64) + field(1, 32) + field(2, 1) + field(8, "w") + field(9, floats(64 * 32, seed=9))
    node = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "MatMul")

    def value(name, *sides):
        shape = b"".join(field(1, field(1, side)) for side in sides)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    graph = (field(1, node) + field(2, "g") + field(5, weight) + field(11, value("x", 1, 64)) +
             field(12, value("y", 1, 32)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


class DamagedHeaders(harness.CliTest):
    """One flipped bit in the first 80 bytes: damage is what is said, whatever the header says now."""

    def flips(self, name, every, *outputs):
        whole = self.read(name)
        for bit in range(0, 640, every):
            content = bytearray(whole)
            content[bit // 8] ^= 1 << bit % 8
            file = self.write("flipped.gbz", content)
            commands = [("expand", file, "-o", self.path(output)) for output in outputs] + [("inspect", file)]
            with self.subTest(bit=bit):
                self.refused(INPUT, "flipped.gbz.*is damaged", *commands[bit // every % len(commands)])

    def test_onnx(self):
        self.write("m.onnx", onnx_model())
        self.succeed("compress", "m.onnx", "--max-error", "0.01", "-o", "m.gbz")
        self.flips("m.gbz", 2 if not SANITIZED else 16, "x.onnx", "x.safetensors")

    def test_others(self):
        self.model(widths=(64, 32, 10))
        self.succeed("compress", "model.safetensors", "--ratio", "6", "-o", "s.gbz")
        self.flips("s.gbz", 7, "x.npz", "x.gguf")
        self.succeed("compress", "model.safetensors", "--base", "model.safetensors", "--lossless", "-o", "d.gbz")
        self.flips("d.gbz", 11, "x.safetensors")

    def test_whole_files_keep_their_messages(self):
        self.model(widths=(64, 32, 10))
        self.succeed("compress", "model.safetensors", "--ratio", "6", "-o", "s.gbz")
        self.refused(USAGE, "was not made of an ONNX model", "expand", "s.gbz", "-o", self.path("x.onnx"))


if __name__ == "__main__":
    harness.main()
