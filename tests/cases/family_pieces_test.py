"""Exact files of related models: tensors since several bases, rows of another height, experts, equal tensors under other names."""

import os
import random
import shutil
import struct

import cases
import harness
from families_test import brain, tuned
from harness import USAGE, safetensors
from originals_test import Files, sha256

WIDE = 96


def matrix(seed, rows=64):
    return brain(rows * WIDE, seed)


def bf16(raw, *shape):
    return "BF16", list(shape), raw


def layers(raws, **more):
    return safetensors({f"layers.{i}.w": bf16(raw, 64, WIDE) for i, raw in enumerate(raws)} | more)


class Pieces(Files):
    def archive(self, *names):
        """Compresses models exactly into one folder and expands all and each. @return {name: bytes of its .gbz}"""
        for folder in ("archive", "back"):
            shutil.rmtree(self.path(folder), ignore_errors=True)
        self.said = self.succeed("compress", *names, "--lossless", "--json", "-o", "archive/").json
        self.succeed("expand", "archive/", "-o", "back/")
        for name in names:
            self.assertEqual(sha256(self.path("back/" + name)), sha256(self.path(name)), name)
            only = name.split(".")[0]
            self.succeed("expand", "archive/", "--only", only, "--force", "-o", "one.safetensors")
            self.assertEqual(sha256(self.path("one.safetensors")), sha256(self.path(name)), name)
        return {name: os.path.getsize(self.path("archive/" + name.split(".")[0] + ".gbz")) for name in names}

    def tensors(self, name):
        return {t["name"]: t for t in self.succeed("inspect", f"archive/{name}.gbz", "--json").json["tensors"]}

    def test_a_model_merged_of_two(self):
        first, second = [matrix(i) for i in range(6)], [matrix(10 + i) for i in range(6)]
        self.write("a.safetensors", layers(first))
        self.write("b.safetensors", layers(second))
        merged = first[:3] + [tuned(raw, 5, 0.02) for raw in second[3:]]
        self.write("c.safetensors", layers(merged))
        sizes = self.archive("a.safetensors", "b.safetensors", "c.safetensors")
        self.assertLess(sizes["c.safetensors"], 0.1 * sizes["a.safetensors"])
        self.assertEqual(sorted(self.said["results"][2]["bases"]), ["a.safetensors", "b.safetensors"])
        self.assertGreater(self.said["results"][2]["saved_bytes"], 0.8 * sizes["a.safetensors"])
        listing = self.succeed("inspect", "archive/c.gbz", "--json").json
        self.assertEqual([base["tensors"] for base in listing["bases"]], [3, 3])
        self.assertEqual({os.path.basename(base["file"]) for base in listing["bases"]}, {"a.gbz", "b.gbz"})
        kinds = self.tensors("c")
        self.assertEqual([kinds[f"layers.{i}.w"]["kind"] for i in range(6)], ["base"] * 3 + ["change"] * 3)
        # The bases by name, in any order; one of them alone, and another one.
        self.succeed("expand", "archive/c.gbz", "--base", "b.safetensors", "--base", "a.safetensors", "-o", "x.safetensors")
        self.assertEqual(sha256(self.path("x.safetensors")), sha256(self.path("c.safetensors")))
        self.refused(USAGE, "none of those given has the digest", "expand", "archive/c.gbz", "--base", "b.safetensors",
                     "-o", "y.safetensors")
        os.remove(self.path("archive/b.gbz"))
        self.refused(USAGE, "which no file beside it is; name that one: --base FILE", "expand", "archive/c.gbz", "-o", "y.safetensors")
        self.assertFalse(os.path.exists(self.path("y.safetensors")))

    def test_several_bases_by_name(self):
        first, second = [matrix(i) for i in range(4)], [matrix(10 + i) for i in range(4)]
        self.write("a.safetensors", layers(first))
        self.write("b.safetensors", layers(second))
        self.write("c.safetensors", layers(first[:2] + second[2:]))
        self.succeed("compress", "c.safetensors", "--lossless", "--base", "a.safetensors", "--base", "b.safetensors", "-o", "c.gbz")
        self.assertLess(os.path.getsize(self.path("c.gbz")), 1500)
        self.refused(USAGE, "several bases need exact values", "compress", "c.safetensors", "--ratio", "4",
                     "--base", "a.safetensors", "--base", "b.safetensors", "-o", "d.gbz")

    def test_chains_through_several_bases(self):
        """d is the change since c and b, c since a: each is expanded from files alone, moved elsewhere."""
        a, b = [matrix(i) for i in range(6)], [matrix(10 + i) for i in range(6)]
        c = [tuned(raw, 3, 0.4) for raw in a]
        d = [tuned(raw, 4, 0.02) for raw in c[:3]] + b[3:]
        for name, raws in ("a", a), ("b", b), ("c", c), ("d", d):
            self.write(name + ".safetensors", layers(raws))
        self.archive(*(name + ".safetensors" for name in "abcd"))
        chain = self.succeed("inspect", "archive/d.gbz", "--json").json["chain"]
        self.assertEqual({os.path.basename(link["file"]) for link in chain}, {"a.gbz", "b.gbz", "c.gbz"})
        for name in "abcd":
            os.remove(self.path(name + ".safetensors"))
        shutil.move(self.path("archive"), self.path("moved"))
        self.succeed("expand", "moved/d.gbz", "-o", "d.safetensors")
        self.succeed("rebase", "moved/d.gbz", "-o", "whole.gbz")
        self.succeed("expand", "whole.gbz", "-o", "again.safetensors")
        self.assertEqual(sha256(self.path("d.safetensors")), sha256(self.path("again.safetensors")))

    def test_rows_of_a_vocabulary(self):
        """Added behind, removed, and moved by rows that were inserted in front."""
        base = matrix(1, 400)
        new, row = matrix(2, 5), 2 * WIDE
        changes = {"more": tuned(base, 3, 0.02) + new, "fewer": base[:-20 * row], "front": new + base,
                   "without": base[:100 * row] + base[130 * row:]}
        body = matrix(7)
        self.write("base.safetensors", safetensors({"embed": bf16(base, 400, WIDE), "w": bf16(body, 64, WIDE)}))
        for name, raw in changes.items():
            self.write(name + ".safetensors", safetensors({"embed": bf16(raw, len(raw) // row, WIDE), "w": bf16(body, 64, WIDE)}))
            sizes = self.archive("base.safetensors", name + ".safetensors")
            self.assertLess(sizes[name + ".safetensors"], (0.25 if name == "more" else 0.06) * sizes["base.safetensors"], name)
            self.assertEqual(self.tensors(name)["embed"]["kind"], "pieces", name)
        # A lossy delta keeps storing it whole, and says so.
        said = self.succeed("compress", "fewer.safetensors", "--base", "base.safetensors", "--max-error", "0.01", "-o", "lossy.gbz")
        self.assertIn("stored whole, because the base has another type or shape: embed", said.err)

    def test_experts(self):
        """Of the dense model's layer, and of each other without it."""
        dense = matrix(1)
        experts = b"".join([dense, tuned(dense, 2, 0.02), dense, tuned(dense, 3, 0.02)])
        self.write("dense.safetensors", safetensors({"mlp.w": bf16(dense, 64, WIDE)}))
        self.write("sparse.safetensors", safetensors({"experts.w": bf16(experts, 4, 64, WIDE)}))
        sizes = self.archive("dense.safetensors", "sparse.safetensors")
        self.assertLess(sizes["sparse.safetensors"], 0.35 * sizes["dense.safetensors"])
        pieces = self.tensors("sparse")["experts.w"]["pieces"]
        self.assertEqual([piece.get("tensor") for piece in pieces].count("mlp.w"), 4)
        alone = self.succeed("compress", "sparse.safetensors", "--lossless", "--json", "-o", "alone.gbz").json
        self.assertLess(alone["output_bytes"], 1.5 * sizes["dense.safetensors"])
        self.succeed("expand", "alone.gbz", "-o", "x.safetensors")
        self.assertEqual(sha256(self.path("x.safetensors")), sha256(self.path("sparse.safetensors")))
        # Experts apart, since the stack.
        apart = {f"e.{i}": bf16(experts[i * len(dense):(i + 1) * len(dense)], 64, WIDE) for i in range(4)}
        self.write("apart.safetensors", safetensors(apart))
        sizes = self.archive("sparse.safetensors", "apart.safetensors")
        self.assertLess(sizes["apart.safetensors"], 1500)

    def test_a_tied_head_of_another_name(self):
        table, body = matrix(1, 300), matrix(2)
        self.write("a.safetensors", safetensors({"embed": bf16(table, 300, WIDE), "w": bf16(body, 64, WIDE)}))
        self.write("b.safetensors", safetensors({"head": bf16(table, 300, WIDE), "w": bf16(body, 64, WIDE)}))
        sizes = self.archive("a.safetensors", "b.safetensors")
        self.assertLess(sizes["b.safetensors"], 1500)

    def test_many_models(self):
        """Chains stay short: of twelve checkpoints no one needs more than eight others in a row."""
        raw, names = matrix(1), []
        for i in range(12):
            names.append(f"m{i:02}.safetensors")
            self.write(names[-1], layers([raw]))
            raw = tuned(raw, 20 + i, 0.02)
        sizes = self.archive(*names)
        for name in names[1:]:
            self.assertLess(sizes[name], 0.6 * sizes[names[0]], name)
            chain = self.succeed("inspect", f"archive/{name.split('.')[0]}.gbz", "--json").json["chain"]
            self.assertLessEqual(len(chain), 8)

    def test_same_bytes_of_any_number_of_threads(self):
        dense = matrix(1)
        self.write("a.safetensors", layers([dense, matrix(2)]))
        self.write("b.safetensors", safetensors({"x": bf16(dense + tuned(dense, 3, 0.1) + matrix(4), 3, 64, WIDE)}))
        for threads in "1", "2":
            self.succeed("compress", "b.safetensors", "--lossless", "--base", "a.safetensors", "--set", "train.threads=" + threads, "-o", threads + ".gbz")
        self.assertEqual(self.read("1.gbz"), self.read("2.gbz"))

    def test_random_stacks(self):
        """Whatever the shapes and types, everything comes back."""
        numbers = random.Random(7)
        for turn in range(12):
            width = numbers.choice([1, 3, 64, 130])
            dtype, size = numbers.choice([("F32", 4), ("BF16", 2), ("U8", 1), ("F16", 2), ("I64", 8), ("F8_E4M3", 1)])
            blocks = [numbers.randbytes(numbers.choice([16, 40]) * width * size) for _ in range(3)]
            blocks = [block[:len(blocks[0])] if len(block) >= len(blocks[0]) else blocks[0] for block in blocks]
            rows = len(blocks[0]) // (width * size)
            stack = [numbers.choice(blocks) for _ in range(numbers.randint(1, 5))]
            if numbers.random() < 0.5:
                edited = bytearray(stack[-1])
                edited[numbers.randrange(len(edited))] ^= 1
                stack[-1] = bytes(edited)
            longer = blocks[0] + numbers.randbytes(width * size * numbers.randint(0, 3))
            self.write("a.safetensors", safetensors({f"t{i}": (dtype, [rows, width], block) for i, block in enumerate(blocks)}))
            self.write("b.safetensors", safetensors({
                "s": (dtype, [len(stack), rows, width], b"".join(stack)), "t0": (dtype, [len(longer) // (width * size), width], longer)}))
            self.archive("a.safetensors", "b.safetensors")

    def test_damage(self):
        dense = matrix(1)
        self.write("a.safetensors", safetensors({"w": bf16(dense, 64, WIDE)}))
        self.write("b.safetensors", safetensors({"x": bf16(dense + tuned(dense, 3, 0.1), 2, 64, WIDE)}))
        self.archive("a.safetensors", "b.safetensors")
        whole = self.read("archive/b.gbz")
        numbers = random.Random(5)
        for turn in range(30):
            damaged = bytearray(whole)
            if turn % 3 == 0:
                del damaged[numbers.randrange(1, len(damaged)):]
            else:
                damaged[numbers.randrange(len(damaged))] ^= 1 << numbers.randrange(8)
            self.write("archive/b.gbz", bytes(damaged))
            result = self.run_cli("expand", "archive/b.gbz", "-o", "y.safetensors")
            self.assertNotEqual(result.status, 0)
            self.assertFalse(os.path.exists(self.path("y.safetensors")))


del Files  # its own tests are those of another file
if __name__ == "__main__":
    harness.main()
