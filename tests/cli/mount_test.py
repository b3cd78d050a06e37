"""`mount`: the files of packed folders, read through the kernel: every byte, from several threads; wrong folders, wrong
mount points, damage, and the ways in which a mount ends."""

import errno
import hashlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

import harness
from harness import DONE, EXECUTABLE, FAILED, INPUT, TIMEOUT, USAGE, floats, safetensors
from gguf_test import F32, gguf_bytes

CONFIG = '{\n  "model_type": "gpt2",\n  "n_embd": 8\n}\n'


def weights(count, seed, size):
    """Numbers of 2 bytes (bfloat16) or 4 whose exponents repeat, as those of weights."""
    draw, made = random.Random(seed), bytearray(size * count)
    for place in range(size - 1):
        made[place::size] = draw.randbytes(count)
    made[size - 1::size] = draw.randbytes(count).translate(bytes(0x3C + (value & 3) for value in range(256)))
    return bytes(made)


def large(seed=0, elements=700_000):
    """A model with several stripes, a small tensor, an incompressible one and a constant."""
    return safetensors({
        "h.0.weight": ("BF16", [elements // 700, 700], weights(elements, seed, 2)),
        "h.1.weight": ("F32", [1000, 300], weights(300_000, seed + 1, 4)),
        "noise": ("U8", [300_001], random.Random(seed + 2).randbytes(300_001)),
        "ones": ("F32", [5000], b"\0\0\x80?" * 5000),
        "scale": ("F32", [3], floats(3, seed + 3)),
    })


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number, value):
    """Of a protobuf message: a number, or bytes, or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_bytes(external=None):
    """A model of two products: weights as raw_data or, with a name, in external data, and weights as float_data."""
    def shaped(number, name, sides):
        shape = field(2, b"".join(field(1, field(1, side)) for side in sides))
        return field(number, field(1, name) + field(2, field(1, field(1, 1) + shape)))

    def node(kind, inputs, output):
        return field(1, b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, kind))

    first, second = weights(300 * 200, 8, 4), weights(200 * 50, 9, 4)
    where = [("location", external or ""), ("length", str(len(first)))]
    outside = b"".join(field(13, field(1, key) + field(2, value)) for key, value in where) + field(14, 1)
    initializers = [field(1, 300) + field(1, 200) + field(2, 1) + field(8, "first") + (outside if external else field(9, first)),
                    field(1, 200) + field(1, 50) + field(2, 1) + field(4, second) + field(8, "second")]
    graph = node("MatMul", ["x", "first"], "h") + node("MatMul", ["h", "second"], "y") + field(2, "graph")
    graph += b"".join(field(5, each) for each in initializers) + shaped(11, "x", [3, 300]) + shaped(12, "y", [3, 50])
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)), first


class Mount:
    """A mount in a process of its own. `said` is what it prints once it is mounted."""

    def __init__(self, test, source, point, *options):
        self.test, self.point = test, point
        self.process = subprocess.Popen([EXECUTABLE, "mount", source, point, "--json", *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, cwd=test.folder, env=harness.clean_environment())
        test.addCleanup(self.kill)
        self.said = None
        if select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            text = ""
            while (line := self.process.stdout.readline()):
                text += line
                if line == "}\n":
                    break
            self.said = json.loads(text) if text else None
        test.assertIsNotNone(self.said)

    def path(self, *names):
        return os.path.join(self.point, *names)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def ended(self):
        """(status, standard error) of the process, which ends by itself."""
        error = self.process.communicate(timeout=TIMEOUT)[1]
        return self.process.returncode, error

    def stop(self, signal_number=signal.SIGINT):
        self.process.send_signal(signal_number)
        return self.ended()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        if os.path.ismount(self.point) or not os.access(self.point, os.F_OK):
            subprocess.run(["fusermount3", "-uz", self.point], stderr=subprocess.DEVNULL, check=False)


def reason_to_skip():
    """Why nothing can be mounted here; "" where it can."""
    with __import__("tempfile").TemporaryDirectory() as folder:
        model, packed, point = (os.path.join(folder, name) for name in ("m.safetensors", "packed", "point"))
        os.mkdir(point)
        with open(model, "wb") as file:
            file.write(safetensors({"w": ("F32", [4], floats(4))}))
        subprocess.run([EXECUTABLE, "compress", model, "--lossless", "-o", packed + "/", "-q"], check=False,
                       capture_output=True)
        process = subprocess.Popen([EXECUTABLE, "mount", packed, point], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=TIMEOUT)[1]
        return "" if line else error.strip() or "mount printed nothing"


SKIP = reason_to_skip()


class MountTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.point = self.path("point")
        os.mkdir(self.point)

    def packed(self, files, name="packed", *options):
        """A folder of these files, compressed into another."""
        source = self.path(name + "-source")
        os.mkdir(source)
        for file, content in files.items():
            with open(os.path.join(source, file), "wb") as out:
                out.write(content.encode() if isinstance(content, str) else content)
        self.succeed("compress", source, "-o", self.path(name) + "/", "-q", *(options or ["--lossless"]))
        return self.path(name)


@unittest.skipIf(SKIP, "mounting does not work here: " + SKIP)
class Reads(MountTest):
    def same_at_random(self, path, content, reads=60, threads=4, seed=0):
        """Random offsets and lengths, by threads with a file of their own and one that all share."""
        wrong = []
        shared = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, shared)

        def work(number):
            draw = random.Random(seed + number)
            own = os.open(path, os.O_RDONLY)
            for i in range(reads):
                offset = draw.randrange(len(content) + 100)
                length = draw.choice((1, 7, 4096, draw.randrange(1 << 18), draw.randrange(1 << 20)))
                got = os.pread((own, shared)[i % 2], length, offset)
                if got != content[offset:offset + length]:
                    wrong.append((offset, length, len(got)))
            os.close(own)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(wrong, [])

    def test_a_folder_is_as_it_was(self):
        files = {"model.safetensors": large(), "config.json": CONFIG, "tokenizer.json": "{}", "README.md": "# A model\n"}
        packed = self.packed(files)
        self.assertIn("quantization_config", self.read("packed/config.json").decode())
        mount = Mount(self, packed, self.point, "--cache", "1MiB")
        self.assertEqual(mount.said["expanded_files"], 1)
        self.assertEqual(mount.said["expanded_bytes"], len(files["model.safetensors"]))
        self.assertEqual(sorted(os.listdir(self.point)), sorted(files))
        self.same_at_random(mount.path("model.safetensors"), files["model.safetensors"])
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            self.assertEqual(os.path.getsize(mount.path(name)), len(content), name)
            self.assertEqual(mount.read(name), content, name)
        self.assertEqual(mount.stop(), (DONE, ""))
        self.assertEqual(os.listdir(self.point), [])

    def test_shards_and_their_index(self):
        names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        index = json.dumps({"metadata": {}, "weight_map": {"a": names[0], "b": names[1]}}, indent=2)
        files = {names[0]: safetensors({"a": ("BF16", [500, 600], weights(300_000, 1, 2))}),
                 names[1]: safetensors({"b": ("F32", [300, 200], weights(60_000, 2, 4))}),
                 "model.safetensors.index.json": index.encode(), "config.json": CONFIG.encode()}
        mount = Mount(self, self.packed(files), self.point)
        self.assertEqual({name: mount.read(name) for name in os.listdir(self.point)}, files)

    def test_lossy_files_are_those_that_expand_writes(self):
        self.packed({"model.safetensors": large(), "config.json": CONFIG}, "packed", "--ratio", "4", "--set",
                    "rate.quantizer=nearest")
        self.succeed("expand", self.path("packed"), "-o", self.path("back") + "/", "-q")
        mount = Mount(self, self.path("packed"), self.point)
        self.same_at_random(mount.path("model.safetensors"), self.read("back/model.safetensors"))
        self.assertEqual(mount.read("config.json").decode(), CONFIG)

    def test_gguf(self):
        content = gguf_bytes([], [("blk.0.attn_q.weight", F32, (512, 300), weights(512 * 300, 5, 4)),
                                  ("output_norm.weight", F32, (512,), floats(512, 1))])
        model = self.write("small.gguf", content)
        for options in (["--lossless"], ["--ratio", "4", "--set", "rate.quantizer=nearest"]):
            self.succeed("compress", model, "-o", self.path("small.gbz"), "-q", "--force", *options)
            self.succeed("expand", self.path("small.gbz"), "-o", self.path("small-back.gguf"), "-q", "--force")
            mount = Mount(self, self.path("small.gbz"), self.point)
            self.assertEqual(os.listdir(self.point), ["small.gguf"])
            self.same_at_random(mount.path("small.gguf"), self.read("small-back.gguf"), reads=30)
            self.assertEqual(mount.stop(signal.SIGTERM), (DONE, ""))
            if "--lossless" in options:
                self.assertEqual(self.read("small-back.gguf"), content)

    def test_onnx(self):
        for name, external in (("small.onnx", None), ("large.onnx", "large.data")):
            content, first = onnx_bytes(external)
            os.mkdir(self.path(name + "-source"))
            model = self.write(f"{name}-source/{name}", content)
            files = {name: content}
            if external:
                self.write(f"{name}-source/{external}", first)
                files[external] = first
            os.mkdir(self.path(name + "-packed"))
            packed = self.path(f"{name}-packed/{name[:5]}.gbz")
            self.succeed("compress", model, "--lossless", "-o", packed, "-q")
            self.assertLess(os.path.getsize(packed), 0.9 * sum(map(len, files.values())))
            mount = Mount(self, self.path(name + "-packed"), self.point)
            self.assertEqual(sorted(os.listdir(self.point)), sorted(files))
            for each, bytes_of in files.items():
                self.assertTrue(mount.read(each) == bytes_of, each)
                self.same_at_random(mount.path(each), bytes_of, reads=20)
            self.assertEqual(mount.stop(), (DONE, ""))

    def tuned(self):
        base, tuned = large(), bytearray(large())
        tuned[-40_000:-39_000:8] = bytes(125)
        self.write("base.safetensors", base)
        self.write("tuned.safetensors", bytes(tuned))
        return base, bytes(tuned)

    def test_a_delta_with_its_base_beside_it(self):
        base, tuned = self.tuned()
        self.succeed("compress", self.path("base.safetensors"), self.path("tuned.safetensors"), "--lossless", "-o",
                     self.path("family/"), "-q")
        self.assertLess(os.path.getsize(self.path("family/tuned.gbz")), 20_000)
        mount = Mount(self, self.path("family"), self.point)
        self.assertEqual(sorted(os.listdir(self.point)), ["base.safetensors", "tuned.safetensors"])
        self.assertEqual(mount.read("tuned.safetensors"), tuned)
        self.assertEqual(mount.read("base.safetensors"), base)
        self.assertEqual(mount.stop(), (DONE, ""))

    def test_a_delta_whose_base_states_no_digest(self):
        base, _ = self.tuned()
        os.mkdir(self.path("family"))
        self.succeed("compress", self.path("base.safetensors"), "--lossless", "-o", self.path("family/base.gbz"), "-q")
        self.succeed("compress", self.path("tuned.safetensors"), "--lossless", "--base", self.path("family/base.gbz"), "-o",
                     self.path("family/tuned.gbz"), "-q")
        mount = Mount(self, self.path("family"), self.point)
        self.assertEqual(mount.read("base.safetensors"), base)
        with self.assertRaises(OSError) as failed:
            mount.read("tuned.safetensors")
        self.assertEqual(failed.exception.errno, errno.EIO)
        status, said = mount.stop()
        self.assertEqual(status, DONE)
        self.assertIn("tuned.safetensors, ", said)
        self.assertIn("digest", said)

    def test_subfolders_links_and_several_files_of_one_folder(self):
        unet, vae = large(3, 70_000), large(4, 70_000)
        packed = self.path("pipeline")
        os.makedirs(packed + "/unet")
        for name, content, out in (("unet", unet, packed + "/unet/"), ("vae", vae, packed + "/")):
            os.mkdir(self.path(name))
            self.write(name + "/diffusion.safetensors", content)
            self.succeed("compress", self.path(name + "/diffusion.safetensors"), "--lossless", "-o", out + name + ".gbz", "-q")
        shutil.copy(packed + "/vae.gbz", packed + "/other.gbz")
        self.write("pipeline/model_index.json", "{}")
        os.symlink("unet", packed + "/link")
        os.symlink("model_index.json", packed + "/copy.json")
        mount = Mount(self, packed, self.point)
        self.assertEqual(sorted(os.listdir(self.point)), ["copy.json", "link", "model_index.json", "other.safetensors", "unet",
                                                          "vae.safetensors"])
        self.assertEqual(mount.read("unet", "diffusion.safetensors"), unet)  # alone in its folder: under its own name
        self.assertEqual(mount.read("link", "diffusion.safetensors"), unet)
        self.assertEqual(mount.read("vae.safetensors"), vae)
        self.assertEqual(mount.read("other.safetensors"), vae)
        self.assertEqual(os.readlink(mount.path("link")), "unet")
        self.assertFalse(os.path.islink(mount.path("copy.json")))

    def test_nothing_is_written(self):
        packed = self.packed({"model.safetensors": large(elements=7000), "config.json": CONFIG})
        before = self.snapshot()
        mount = Mount(self, packed, self.point)
        for act in (lambda: open(mount.path("model.safetensors"), "r+b"), lambda: open(mount.path("config.json"), "a"),
                    lambda: open(mount.path("new"), "wb"), lambda: os.remove(mount.path("config.json")),
                    lambda: os.mkdir(mount.path("folder")), lambda: os.chmod(mount.path("config.json"), 0o777)):
            with self.assertRaises(OSError) as refused:
                act()
            self.assertEqual(refused.exception.errno, errno.EROFS)
        with self.assertRaises(FileNotFoundError):
            open(mount.path("model.gbz"), "rb")
        self.assertEqual(mount.stop()[0], DONE)
        self.assertEqual(self.snapshot(), before)

    def test_two_processes_mount_one_folder(self):
        content = large(elements=70_000)
        packed = self.packed({"model.safetensors": content})
        os.mkdir(self.path("second"))
        first, second = Mount(self, packed, self.point), Mount(self, packed, self.path("second"))
        self.assertEqual(first.read("model.safetensors"), content)
        self.assertEqual(first.stop()[0], DONE)
        self.assertEqual(second.read("model.safetensors"), content)
        refused = self.run_cli("mount", packed, self.path("second"))
        self.assertEqual(refused.status, USAGE, refused)
        self.one_message(refused, "second is not empty, or is mounted already; name an empty folder")


@unittest.skipIf(SKIP, "mounting does not work here: " + SKIP)
class Ends(MountTest):
    def test_unmounted_by_another_program(self):
        mount = Mount(self, self.packed({"model.safetensors": large(elements=7000)}), self.point)
        subprocess.run(["fusermount3", "-u", self.point], check=True)
        self.assertEqual(mount.ended(), (DONE, ""))

    def test_unmounted_while_a_program_reads(self):
        content = large()
        packed = self.packed({"model.safetensors": content})
        mount = Mount(self, packed, self.point)
        with open(mount.path("model.safetensors"), "rb") as file:
            first = file.read(1000)
            refused = subprocess.run(["fusermount3", "-u", self.point], capture_output=True, text=True, check=False)
            self.assertNotEqual(refused.returncode, 0)
            subprocess.run(["fusermount3", "-uz", self.point], check=True)
            self.assertEqual(os.listdir(self.point), [])
            self.assertEqual(first + file.read(), content)  # what is open stays readable
        self.assertEqual(mount.ended(), (DONE, ""))

    def test_interrupted_while_programs_read(self):
        content = large(elements=2_100_000)
        mount = Mount(self, self.packed({"model.safetensors": content}), self.point)
        wrong, errors, began = [], [], threading.Event()

        def work(seed):
            draw = random.Random(seed)
            try:
                with open(mount.path("model.safetensors"), "rb", buffering=0) as file:
                    while True:
                        offset = draw.randrange(len(content) - 4096)
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                        got = os.pread(file.fileno(), 4096, offset)
                        began.set()
                        if got != content[offset:offset + 4096]:
                            wrong.append(offset)
            except OSError as error:
                errors.append(error.errno)

        readers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for reader in readers:
            reader.start()
        self.assertTrue(began.wait(TIMEOUT))
        start = time.monotonic()
        self.assertEqual(mount.stop()[0], DONE)
        self.assertLess(time.monotonic() - start, 60)
        for reader in readers:
            reader.join(TIMEOUT)
        self.assertEqual((wrong, len(errors)), ([], 3))
        self.assertEqual(os.listdir(self.point), [])

    def test_a_killed_mount_is_named(self):
        packed = self.packed({"model.safetensors": large(elements=7000)})
        mount = Mount(self, packed, self.point)
        mount.process.kill()
        mount.process.communicate()
        refused = self.run_cli("mount", packed, self.point)
        self.assertEqual(refused.status, USAGE, refused)
        self.one_message(refused, r"point is a mount whose program has ended; unmount it with `fusermount3 -u ")


@unittest.skipIf(SKIP, "mounting does not work here: " + SKIP)
class Damage(MountTest):
    def damaged(self, place):
        content = bytearray(self.read("packed/model.gbz"))
        content[place] ^= 16
        self.write("packed/model.gbz", bytes(content))

    def test_of_a_tensor(self):
        original = large()
        self.packed({"model.safetensors": original, "config.json": CONFIG})
        size = len(self.read("packed/model.gbz"))
        for place in (size // 3, size // 2, size - 5):
            self.damaged(place)
            mount = Mount(self, self.path("packed"), self.point)
            self.assertEqual(os.path.getsize(mount.path("model.safetensors")), len(original))
            for _ in range(2):
                with self.assertRaises(OSError) as failed, open(mount.path("model.safetensors"), "rb", buffering=0) as file:
                    os.pread(file.fileno(), 4096, len(original) // 4)
                self.assertEqual(failed.exception.errno, errno.EIO)
            self.assertEqual(mount.read("config.json").decode(), CONFIG)
            status, said = mount.stop()
            self.assertEqual(status, DONE)
            for line in said.splitlines():
                self.assertRegex(line, r"\Agbcompress: model.safetensors, tensor [\w.]+: .*packed/model.gbz is damaged: its digest "
                                       r"does not fit; copy it again\Z")
            self.assertIn(len(said.splitlines()), (1, 2))  # the kernel may read ahead of another tensor
            self.damaged(place)

    def test_of_a_file_that_is_written_to_meanwhile(self):
        original = large()
        self.packed({"model.safetensors": original})
        mount = Mount(self, self.path("packed"), self.point, "--cache", "1MiB")
        with open(mount.path("model.safetensors"), "rb", buffering=0) as file:
            self.assertEqual(os.pread(file.fileno(), 4096, 0), original[:4096])
            with open(self.path("packed/model.gbz"), "r+b") as packed:
                packed.seek(-300_000, os.SEEK_END)
                packed.write(bytes(1000))
            with self.assertRaises(OSError) as failed:
                os.pread(file.fileno(), 100_000, len(original) // 2)
        self.assertEqual(failed.exception.errno, errno.EIO)
        self.assertIn("model.gbz was written to since it was opened; open it again", mount.stop()[1])


class Refusals(MountTest):
    def refuse(self, status, pattern, *arguments):
        self.refused(status, pattern, "mount", *arguments)

    def test_folders(self):
        self.refuse(INPUT, "nowhere does not exist", self.path("nowhere"), self.point)
        os.mkdir(self.path("plain"))
        self.write("plain/config.json", "{}")
        self.refuse(INPUT, "plain is a folder that holds no .gbz file; use it as it is, or compress it first", self.path("plain"),
                    self.point)
        packed = self.packed({"model.safetensors": large(elements=7000)})
        artifact = self.read("packed/model.gbz")
        for content, pattern in ((b"GBZ0" + artifact[4:], "version|damaged"), (artifact[:40], "ends|cut|truncated|damaged"),
                                 (b"not one of ours", "is not|no .gbz|damaged|known")):
            self.write("packed/model.gbz", content)
            self.refuse(INPUT, pattern, packed, self.point)
        newer = b"GBZ3" + artifact[4:-16]
        self.write("packed/model.gbz", newer + hashlib.sha256(newer).digest()[:16])
        self.refuse(INPUT, "upgrade", packed, self.point)
        self.write("packed/model.gbz", artifact)
        self.write("packed/model.safetensors", "another")
        self.refuse(USAGE, "would both give the name model.safetensors; move one of them", packed, self.point)

    def test_a_layer_type_that_needs_its_plugin(self):
        subprocess.run([harness.FIXTURES, self.folder], check=True, capture_output=True)
        self.refuse(INPUT, "ghost.weight is built by layer type ghost, whose plugin is needed; expand the file", self.path("ghost.gbz"),
                    self.point)

    def test_mount_points(self):
        packed = self.packed({"model.safetensors": large(elements=7000)})
        self.refuse(USAGE, "missing does not exist; make it with `mkdir ", packed, self.path("missing"))
        self.refuse(USAGE, "is a file; name an empty folder", packed, self.write("file", "x"))
        self.refuse(USAGE, "lie in one another", packed, packed)
        os.mkdir(packed + "/inner")
        self.refuse(USAGE, "lie in one another", packed, packed + "/inner")
        self.refuse(USAGE, "lie in one another", packed, self.folder)
        os.rmdir(packed + "/inner")
        self.write("point/file", "x")
        self.refuse(USAGE, "is not empty, or is mounted already", packed, self.point)

    def test_options(self):
        packed = self.packed({"model.safetensors": large(elements=7000)})
        self.refuse(USAGE, "--cache must be a size", packed, self.point, "--cache", "much")
        self.refuse(USAGE, "--cache must be at least 1MiB, not 1k", packed, self.point, "--cache", "1k")
        self.refuse(USAGE, "mount needs MOUNTPOINT", packed)

    @unittest.skipUnless(shutil.which("unshare") and os.geteuid() == 0, "needs root and unshare")
    def test_without_dev_fuse(self):
        packed = self.packed({"model.safetensors": large(elements=7000)})
        hidden = f"mount -t tmpfs none /dev && exec {EXECUTABLE} mount {packed} {self.point}"
        done = subprocess.run(["unshare", "-m", "sh", "-c", hidden], capture_output=True, text=True, check=False, timeout=TIMEOUT,
                              env=harness.clean_environment())
        if "mount: " in done.stderr or "unshare: " in done.stderr:
            self.skipTest("no mount namespaces here: " + done.stderr.strip())
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertRegex(done.stderr, r"\Agbcompress: (/dev/fuse is missing, which mounting needs; load it with `modprobe fuse`"
                                      r"|this gbcompress was built without libfuse3; install it with `apt-get install )[^\n]*\n\Z")


if __name__ == "__main__":
    if SKIP:
        print("skipped: mounting does not work here: " + SKIP, file=sys.stderr)
    harness.main()
