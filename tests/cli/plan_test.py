"""`plan` and `inspect --plan`: from names and shapes alone, for models larger than this machine."""

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


class Plan(harness.CliTest):
    def test_the_plan_is_that_of_the_file_that_is_made(self):
        model = self.model(widths=(64, 300, 40, 10))
        settings = ("--set", "gnet.hidden=4", "--set", "gnet.min_elements=100")
        out = self.path("m.gbz")
        self.succeed("compress", model, "-o", out, "--ratio", "3", "-q", "--mode", "generated", "--set",
                     "train.fit_steps=5", *settings)
        made = {t["name"]: t for t in self.succeed("inspect", out, "--json").json["tensors"]}
        plan = {t["name"]: t for t in self.succeed("inspect", model, "--plan", "--json", *settings).json["tensors"]}
        self.assertEqual({n: t["kind"] for n, t in made.items()}, {n: t["kind"] for n, t in plan.items()})
        first = plan["0.weight"]
        # Tiles of 10,000: the 64 columns there are, 100 of the 300 rows; 7 + 6 bits.
        self.assertEqual((first["tiles"], first["tile_shape"], first["generator"]), (3, [100, 64], "13-4-1"))
        self.assertEqual(first["parameters"], 3 * (13 * 4 + 4 + 4 + 1))
        self.assertAlmostEqual(first["ratio"], 64 * 300 / first["parameters"])
        self.assertNotIn("owners", first)

    def test_owners_and_bytes(self):
        model = self.model(widths=(64, 300, 40, 10))
        for world in (2, 3, 8):
            plan = self.succeed("plan", "--model", model, "--world", str(world), "--json").json
            generated = [t for t in plan["tensors"] if t["kind"] == "generated"]
            weights = sum(t["shape"][0] * t["shape"][1] for t in generated)
            for tensor in generated:
                self.assertEqual(sum(o["gnets"] for o in tensor["owners"]), tensor["tiles"])
                self.assertTrue(all(0 <= o["rank"] < world for o in tensor["owners"]))
            sent, plain, times = plan["bytes_per_step"], plan["plain_parameters"], 8 * (world - 1)
            self.assertEqual(sent["owner"]["all_ranks"], times * (weights + plain))
            self.assertEqual(sent["replicated"]["all_ranks"], times * (plan["gnet_parameters"] + plain))
            self.assertEqual(sent["plain_alone"]["all_ranks"], times * plain)
        text = self.succeed("inspect", model, "--plan", "--world", "3").out
        self.assertIn("bytes per step, world 3", text)
        self.assertRegex(text, r"0\.weight +300x64 +linear +3 of 100x64 +13-32-1 +1,4\d\d +\d+\.\d\d +0-2")

    def test_architecture(self):
        model = self.model()
        plan = self.succeed("plan", "--model", model, "--arch", "mlp", "--json").json
        self.assertEqual([t["module"] for t in plan["tensors"]], ["Linear"] * 4)
        self.refused(INPUT, "lenet-300-100", "plan", "--model", model, "--arch", "lenet-300-100")

    def test_seven_billion_weights(self):
        model = hollow.write(self.path("llama.safetensors"), llama(), "F16")
        self.assertGreater(os.path.getsize(model), 13e9)
        self.assertLess(os.stat(model).st_blocks * 512, 1e6)
        start = time.monotonic()
        plan = self.succeed("inspect", model, "--plan", "--world", "64", "--json").json
        self.assertLess(time.monotonic() - start, 60)
        self.assertEqual(plan["trainable"], 6_738_415_616)
        done = self.succeed("plan", "--simulate", "--world", "64", "--bandwidth", "25GB/s", "--model", model, "--json")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 2_000_000, "kB; no value is read")
        worlds = done.json["worlds"]
        self.assertEqual([w["world"] for w in worlds], [1, 2, 4, 8, 16, 32, 64])
        for row in worlds:
            self.assertGreater(row["auto"]["seconds"], 0)
            slower = max(row["owner"]["seconds"], row["replicated"]["seconds"])
            self.assertLessEqual(row["auto"]["seconds"], slower * 1.0001)
        last = worlds[-1]
        self.assertEqual(last["owner"]["bytes_all_ranks"], plan["bytes_per_step"]["owner"]["all_ranks"])
        self.assertEqual(last["replicated"]["bytes_all_ranks"], plan["bytes_per_step"]["replicated"]["all_ranks"])
        self.assertLess(last["owner"]["compute_seconds"], worlds[0]["owner"]["compute_seconds"])

    def test_auto_follows_the_bandwidth(self):
        model = hollow.write(self.path("m.safetensors"), {"fc.weight": [3000, 3000]})

        def chosen(bandwidth):
            return self.succeed("plan", "--simulate", "--world", "6", "--bandwidth", bandwidth, "--latency", "1us",
                                "--model", model, "--json").json["worlds"]

        slow, fast = chosen("100Mbit/s"), chosen("100TB/s")
        self.assertEqual([w["world"] for w in slow], [1, 2, 4, 6])
        self.assertEqual(slow[-1]["auto_placements"], ["replicated"])
        self.assertEqual(fast[-1]["auto_placements"], ["owner"])
        self.assertGreater(slow[-1]["owner"]["seconds"], 5 * slow[-1]["replicated"]["seconds"])
        # 36 MB, 12.5 MB a second, there and back: five sixths each way.
        self.assertGreater(slow[-1]["owner"]["seconds"], 2 * 36 / 12.5 * 5 / 6)
        text = self.succeed("plan", "--simulate", "--bandwidth", "1GB/s", "--world", "2", "--model", model).out
        self.assertIn("Predicted, per step:", text)

    def test_micro_batch_is_added(self):
        model = hollow.write(self.path("m.safetensors"), {"fc.weight": [300, 300]})
        rows = self.succeed("plan", "--simulate", "--bandwidth", "1GB/s", "--world", "2", "--micro-batch-seconds", "7s",
                            "--model", model, "--json").json["worlds"]
        for row in rows:
            self.assertGreater(row["owner"]["seconds"], 7)
            self.assertLess(row["owner"]["compute_seconds"], 1)

    def test_wrong_words(self):
        model = self.model()
        cases = [
            (["plan"], "name the model: --model FILE"),
            (["plan", "--model", model, "--simulate"], "--bandwidth 25GB/s"),
            (["plan", "--model", model, "--bandwidth", "1GB/s"], "--bandwidth needs --simulate"),
            (["plan", "--model", model, "--simulate", "--bandwidth", "fast"], "--bandwidth must be a rate"),
            (["plan", "--model", model, "--simulate", "--bandwidth", "0GB/s"], "--bandwidth must be a rate"),
            (["plan", "--model", model, "--simulate", "--bandwidth", "1GB/s", "--latency", "5 days"],
             "--latency must be a time"),
            (["plan", "--model", model, "--world", "0"], "--world must be a number from 1 to 4096"),
            (["plan", "--model", model, "--set", "gnet.hiden=3"], "did you mean gnet.hidden"),
            (["inspect", model, "--world", "2"], "--world needs --plan"),
        ]
        for arguments, pattern in cases:
            with self.subTest(arguments=arguments):
                status = USAGE
                self.refused(status, pattern, *arguments)
        self.refused(INPUT, "none", "plan", "--model", self.path("none"))
        self.refused(USAGE, "leave out --plan", "inspect", self.compressed(), "--plan")


if __name__ == "__main__":
    harness.main()
