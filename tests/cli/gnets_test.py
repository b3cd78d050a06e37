"""`inspect --plan`: from names and shapes alone, for models larger than this machine."""

import os
import resource
import sys
import time

import harness
from harness import INPUT, USAGE

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hollow  # noqa: E402


def llama(layers=32, width=4096, inner=11008, words=32000):
    shapes = {"model.embed_tokens.weight": [words, width], "model.norm.weight": [width],
              "lm_head.weight": [words, width]}
    for i in range(layers):
        at = f"model.layers.{i}."
        for name in "qkvo":
            shapes[at + f"self_attn.{name}_proj.weight"] = [width, width]
        for name, shape in (("gate", [inner, width]), ("up", [inner, width]), ("down", [width, inner])):
            shapes[at + f"mlp.{name}_proj.weight"] = shape
        shapes[at + "input_layernorm.weight"] = shapes[at + "post_attention_layernorm.weight"] = [width]
    return shapes


class GNets(harness.CliTest):
    def test_they_are_those_of_the_file_that_is_made(self):
        model = self.model(widths=(64, 300, 40, 10))
        settings = ("--set", "gnet.hidden=4", "--set", "gnet.min_elements=100")
        out = self.path("m.gbz")
        self.succeed("compress", model, "-o", out, "--ratio", "3", "-q", "--mode", "generated", *settings,
                     environment=harness.fit_steps(5))
        made = {t["name"]: t for t in self.succeed("inspect", out, "--json").json["tensors"]}
        listed = {t["name"]: t for t in self.succeed("inspect", model, "--plan", "--json", *settings).json["tensors"]}
        self.assertEqual({n: t["kind"] for n, t in made.items()}, {n: t["kind"] for n, t in listed.items()})
        first = listed["0.weight"]
        # Tiles of 10,000: the 64 columns there are, 100 of the 300 rows; 7 + 6 bits.
        self.assertEqual((first["tiles"], first["tile_shape"], first["generator"]), (3, [100, 64], "13-4-1"))
        self.assertEqual(first["parameters"], 3 * (13 * 4 + 4 + 4 + 1))
        self.assertAlmostEqual(first["ratio"], 64 * 300 / first["parameters"])
        self.assertNotIn("owners", first)

    def test_owners_and_bytes(self):
        model = self.model(widths=(64, 300, 40, 10))
        for world in (2, 3, 8):
            listed = self.succeed("inspect", model, "--plan", "--world", str(world), "--json").json
            generated = [t for t in listed["tensors"] if t["kind"] == "generated"]
            weights = sum(t["shape"][0] * t["shape"][1] for t in generated)
            for tensor in generated:
                self.assertEqual(sum(o["gnets"] for o in tensor["owners"]), tensor["tiles"])
                self.assertTrue(all(0 <= o["rank"] < world for o in tensor["owners"]))
            sent, plain, times = listed["bytes_per_step"], listed["plain_parameters"], 8 * (world - 1)
            self.assertEqual(sent["owner"]["all_ranks"], times * (weights + plain))
            self.assertEqual(sent["replicated"]["all_ranks"], times * (listed["gnet_parameters"] + plain))
            self.assertEqual(sent["plain_alone"]["all_ranks"], times * plain)
        text = self.succeed("inspect", model, "--plan", "--world", "3").out
        self.assertIn("bytes per step, world 3", text)
        self.assertRegex(text, r"0\.weight +300x64 +linear +3 of 100x64 +13-32-1 +1,4\d\d +\d+\.\d\d +0-2")

    def test_architecture(self):
        model = self.model()
        listed = self.succeed("inspect", model, "--plan", "--arch", "mlp", "--json").json
        self.assertEqual([t["module"] for t in listed["tensors"]], ["Linear"] * 4)
        self.refused(INPUT, "lenet-300-100", "inspect", model, "--plan", "--arch", "lenet-300-100")

    def test_seven_billion_weights(self):
        model = hollow.write(self.path("llama.safetensors"), llama(), "F16")
        self.assertGreater(os.path.getsize(model), 13e9)
        self.assertLess(os.stat(model).st_blocks * 512, 1e6)
        start = time.monotonic()
        listed = self.succeed("inspect", model, "--plan", "--world", "64", "--json").json
        self.assertLess(time.monotonic() - start, 60)
        self.assertEqual(listed["trainable"], 6_738_415_616)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 2_000_000, "kB; no value is read")

    def test_wrong_words(self):
        model = self.model()
        cases = [
            (["inspect", model, "--plan", "--world", "0"], "--world must be a number from 1 to 4096"),
            (["inspect", model, "--plan", "--set", "gnet.hiden=3"], "did you mean gnet.hidden"),
            (["inspect", model, "--world", "2"], "--world needs --plan"),
        ]
        for arguments, pattern in cases:
            with self.subTest(arguments=arguments):
                self.refused(USAGE, pattern, *arguments)
        self.refused(USAGE, "unknown verb plan; use gbcompress inspect FILE --plan", "plan", "--model", model)
        self.refused(INPUT, "none", "inspect", self.path("none"), "--plan")
        self.refused(USAGE, "leave out --plan", "inspect", self.compressed(), "--plan")


if __name__ == "__main__":
    harness.main()
