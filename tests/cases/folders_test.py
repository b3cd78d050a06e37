"""Folders of models as libraries write them: adapters, pipelines, variants, copies beside shards, links."""

import json
import os
import shutil

import cases
import harness
from harness import DONE, INPUT, USAGE, floats, safetensors


def matrices(names, rows=64, cols=64, seed=0):
    return {name: ("F32", [rows, cols], floats(rows * cols, seed=seed + i)) for i, name in enumerate(names)}


def halves(tensors):
    """The same tensors as float16, of zeros: another variant's values do not matter here."""
    return {name: ("F16", shape, bytes(len(raw) // 2)) for name, (_, shape, raw) in tensors.items()}


class Folders(cases.Given):
    def put(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        return self.write(name, content if isinstance(content, (bytes, str)) else safetensors(content))

    def tree(self, folder):
        return sorted(os.path.relpath(os.path.join(root, file), self.path(folder))
                      for root, _, files in os.walk(self.path(folder)) for file in files)

    def there_and_back(self, folder, *target):
        """Compresses a folder and expands it. @return what the packed and the last one hold"""
        packed, back = folder.rstrip("/") + ".packed", folder.rstrip("/") + ".back"
        for each in (packed, back):
            shutil.rmtree(self.path(each), ignore_errors=True)
        result = self.succeed("compress", folder, *(target or ("--ratio", "4")), "-o", packed + "/")
        self.succeed("expand", packed + "/", "-o", back + "/")
        return result, self.tree(packed), self.tree(back)

    def tensors(self, file):
        compared = self.succeed("inspect", file, "--json").json
        return {tensor["name"]: tensor for tensor in compared["tensors"]}


class Adapters(Folders):
    def adapter(self, folder, name="adapter_model.safetensors", seed=0):
        tensors = {}
        for i in range(3):
            tensors[f"base_model.model.h.{i}.q.lora_A.weight"] = ("F32", [8, 128], floats(1024, seed=seed + i))
            tensors[f"base_model.model.h.{i}.q.lora_B.weight"] = ("F32", [128, 8], bytes(4 * 1024))
            tensors[f"base_model.model.h.{i}.q.alpha"] = ("F32", [], floats(1, seed=seed + 9))
        self.put(f"{folder}/{name}", tensors)
        self.put(f"{folder}/adapter_config.json", '{"peft_type": "LORA", "r": 8}')
        return tensors

    def check(self, folder, *target):
        _, packed, back = self.there_and_back(folder, *target)
        self.assertEqual(packed, ["adapter_config.json", "adapter_model.gbz"])
        self.assertEqual(back, ["adapter_config.json", "adapter_model.safetensors"])
        compared = self.succeed("compare", folder, folder + ".back", "--json").json
        for tensor in compared["tensors"]:
            if not tensor["name"].endswith("lora_A.weight") and "lora_A" not in tensor["name"]:
                self.assertEqual(tensor["error"], 0, tensor)

    def test_names_and_exact_parts(self):
        self.adapter("lora")
        self.check("lora")
        self.check("lora", "--lossless")

    def test_several_in_subfolders(self):
        for name in ("de", "fr"):
            self.adapter(f"both/{name}", seed=len(name))
        self.put("both/README.md", "two")
        _, packed, back = self.there_and_back("both")
        self.assertEqual(back, ["README.md", "de/adapter_config.json", "de/adapter_model.safetensors",
                                "fr/adapter_config.json", "fr/adapter_model.safetensors"])
        self.assertIn("fr/adapter_model.gbz", packed)

    def test_given_06(self):
        folder = self.given("06")
        shutil.copytree(os.path.join(folder, "adapter"), self.path("peft"))
        self.check("peft")


class Pipelines(Folders):
    def pipeline(self, folder):
        for part, stem in (("prior", "diffusion_pytorch_model"), ("text_encoder_2", "model")):
            tensors = matrices(["in.weight", "out.weight"], seed=len(part))
            self.put(f"{folder}/{part}/{stem}.safetensors", tensors)
            self.put(f"{folder}/{part}/{stem}.fp16.safetensors", halves(tensors))
            self.put(f"{folder}/{part}/config.json", "{}")
        shards = matrices(["a.weight", "b.weight"], seed=7)
        files = {name: f"model-0000{i + 1}-of-00002.safetensors" for i, name in enumerate(shards)}
        for name, file in files.items():
            self.put(f"{folder}/text_encoder/{file}", {name: shards[name]})
        self.put(f"{folder}/text_encoder/model.safetensors.index.json", json.dumps({"weight_map": files}))
        self.put(f"{folder}/scheduler/scheduler_config.json", "{}")
        self.put(f"{folder}/model_index.json", '{"_class_name": "Pipeline"}')

    def test_layout(self):
        self.pipeline("pipe")
        result, packed, back = self.there_and_back("pipe")
        self.assertEqual(packed, [
            "model_index.json", "prior/config.json", "prior/diffusion_pytorch_model.gbz",
            "scheduler/scheduler_config.json", "text_encoder/model.gbz", "text_encoder_2/config.json",
            "text_encoder_2/model.gbz"])
        shards = [f"text_encoder/model{end}" for end in ("-00001-of-00002.safetensors", "-00002-of-00002.safetensors", ".safetensors.index.json")]
        self.assertEqual(back, sorted([name.replace(".gbz", ".safetensors") for name in packed if name != "text_encoder/model.gbz"] + shards))
        self.assertRegex(result.err, r"left behind.*diffusion_pytorch_model\.fp16\.safetensors")
        self.assertIn("3 of 3 files written", result.out)
        for verb in (("inspect", "pipe"), ("inspect", "pipe.packed"), ("compare", "pipe", "pipe.packed")):
            shown = self.succeed(*verb)
            for part in ("prior", "text_encoder", "text_encoder_2"):
                self.assertIn(part, shown.out)
            self.assertEqual(len(self.succeed(*verb, "--json").json["results"]), 3)

    def test_json_target_and_deltas(self):
        self.pipeline("pipe")
        result = self.succeed("compress", "pipe", "--bits", "5", "-o", "packed", "--json").json
        self.assertEqual((result["written"], len(result["results"])), (3, 3))
        self.refused(USAGE, "--max-bytes.*subfolders", "compress", "pipe", "--max-bytes", "9kB", "-o", "p2")
        self.refused(USAGE, "-o", "compress", "pipe")
        self.refused(USAGE, "input", "compress", "pipe", "-o", "pipe")
        self.succeed("compress", "pipe", "--base", "packed", "--lossless", "-o", "delta")
        self.succeed("expand", "delta", "--base", "packed", "-o", "again")
        for tensor in self.succeed("compare", "pipe/prior", "again/prior", "--json").json["tensors"]:
            self.assertEqual(tensor["error"], 0, tensor)
        self.succeed("compress", "pipe", "--ratio", "8", "--dry-run")

    def test_one_component_fails(self):
        self.pipeline("pipe")
        self.put("pipe/prior/diffusion_pytorch_model.safetensors", b"\x00" * 64)
        result = self.run_cli("compress", "pipe", "--ratio", "4", "-o", "packed/")
        self.assertEqual(result.status, INPUT, result)
        self.assertIn("failed: pipe/prior", result.out)
        self.assertNotIn("model_index.json", self.tree("packed"))

    def test_sentence_transformers(self):
        self.put("st/0_Transformer/model.safetensors", matrices(["w"], seed=3))
        self.put("st/0_Transformer/config.json", "{}")
        self.put("st/1_Pooling/config.json", '{"pooling_mode": "mean"}')
        self.put("st/2_Dense/model.safetensors", matrices(["linear.weight"], seed=4))
        self.put("st/2_Dense/config.json", "{}")
        self.put("st/modules.json", json.dumps([{"path": "0_Transformer"}, {"path": "1_Pooling"}, {"path": "2_Dense"}]))
        _, packed, back = self.there_and_back("st")
        self.assertEqual(back, ["0_Transformer/config.json", "0_Transformer/model.safetensors", "1_Pooling/config.json",
                                "2_Dense/config.json", "2_Dense/model.safetensors", "modules.json"])
        # With the transformer in the folder itself, the other modules go along as they are.
        shutil.rmtree(self.path("st"))
        self.put("st/model.safetensors", matrices(["w"], seed=3))
        self.put("st/2_Dense/model.safetensors", matrices(["linear.weight"], seed=4))
        self.put("st/modules.json", json.dumps([{"path": ""}, {"path": "2_Dense"}]))
        _, packed, back = self.there_and_back("st")
        self.assertEqual(packed, ["2_Dense/model.safetensors", "model.gbz", "modules.json"])

    def test_checkpoints_are_no_components(self):
        for step in (500, 1000):
            self.put(f"run/checkpoint-{step}/model.safetensors", matrices(["w"]))
        self.refused(INPUT, "holds no .safetensors", "compress", "run", "--ratio", "4", "-o", "out")

    def test_given_07(self):
        folder = self.given("07")
        shutil.copytree(os.path.join(folder, "pipe"), self.path("pipe"))
        _, packed, back = self.there_and_back("pipe", "--ratio", "3")
        for part in ("unet", "vae"):
            self.assertIn(f"{part}/diffusion_pytorch_model.safetensors", back)
        self.assertIn("text_encoder/model.safetensors", back)
        _, _, back = self.there_and_back("pipe/unet/", "--ratio", "3")
        self.assertEqual(back, ["config.json", "diffusion_pytorch_model.safetensors"])


class Choices(Folders):
    def test_variants_without_a_plain_file(self):
        tensors = matrices(["w", "v"])
        self.put("v/net.non_ema.safetensors", tensors)
        self.put("v/net.fp16.safetensors", halves(tensors))
        self.refused(USAGE, r"net\.fp16\.safetensors, net\.non_ema\.safetensors; name the one", "compress", "v", "--ratio",
                     "4", "-o", "out")
        self.succeed("compress", "v/net.non_ema.safetensors", "--ratio", "4", "-o", "out/")
        self.assertEqual(self.tree("out"), ["net.non_ema.gbz"])

    def test_indices_of_variants(self):
        tensors = matrices(["w", "v"])
        for variant, values in (("", tensors), (".fp16", halves(tensors))):
            files = {name: f"dit{variant}-0000{i + 1}-of-00002.safetensors" for i, name in enumerate(values)}
            for name, file in files.items():
                self.put(f"d/{file}", {name: values[name]})
            self.put(f"d/dit.safetensors.index{variant}.json", json.dumps({"weight_map": files}))
        result, packed, back = self.there_and_back("d")
        self.assertEqual((packed, back), (["dit.gbz"], ["dit-00001-of-00002.safetensors", "dit-00002-of-00002.safetensors",
                                                       "dit.safetensors.index.json"]))
        self.assertRegex(result.err, r"left behind.*dit\.fp16-00001-of-00002\.safetensors")
        self.assertEqual(self.tensors("d/dit.safetensors.index.fp16.json")["w"]["dtype"], "F16")

    def test_copies_beside_shards(self):
        tensors = matrices(["model.a", "model.b"])
        for i, (name, value) in enumerate(tensors.items()):
            self.put(f"s/weights-0000{i + 1}-of-00002.safetensors", {name: value})
        self.put("s/original.safetensors", {name.replace("model", "native"): value for name, value in tensors.items()})
        result, packed, _ = self.there_and_back("s", "--lossless")
        self.assertEqual(packed, ["weights.gbz"])
        self.assertEqual(sorted(self.tensors("s.back")), sorted(tensors))
        self.assertRegex(result.err, "left behind.*original.safetensors")
        os.remove(self.path("s/weights-00001-of-00002.safetensors"))
        self.refused(INPUT, "1 of 2 parts", "compress", "s", "--ratio", "2", "-o", "t")

    def test_files_without_a_common_name(self):
        self.put("f/lower.safetensors", matrices(["a"]))
        self.put("f/upper.safetensors", matrices(["b"]))
        result, packed, _ = self.there_and_back("f")
        self.assertEqual(packed, ["model.gbz"])
        self.assertRegex(result.err, "parts of one model: lower.safetensors, upper.safetensors")
        self.put("f/upper.safetensors", matrices(["a"]))
        self.refused(USAGE, "tensor a in several files.*lower.safetensors, upper.safetensors", "inspect", "f")

    def test_names_of_libraries(self):
        self.put("clip/open_clip_model.safetensors", matrices(["visual.proj"]))
        self.put("clip/open_clip_config.json", "{}")
        _, packed, back = self.there_and_back("clip")
        self.assertEqual(packed, ["open_clip_config.json", "open_clip_model.gbz"])
        self.assertEqual(back, ["open_clip_config.json", "open_clip_model.safetensors"])

    def test_given_08(self):
        folder = self.given("08")
        for name in "ab":
            shutil.copytree(os.path.join(folder, name), self.path(name))
            result, packed, _ = self.there_and_back(name, "--lossless")
            self.assertEqual(packed, ["model.gbz"])
            self.assertRegex(result.err, r"left behind.*consolidated\.safetensors")
            self.assertEqual(sorted(self.tensors(name + ".back")), ["model.layers.0.weight", "model.layers.1.weight"])


class WrongFolders(Folders):
    def test_links(self):
        self.put("p/unet/model.safetensors", matrices(["w"]))
        self.put("elsewhere/model.safetensors", matrices(["w"]))
        self.put("elsewhere/secret.json", "{}")
        os.symlink("..", self.path("p/unet/up"))
        os.symlink("../p", self.path("p/round"))
        os.symlink("../elsewhere", self.path("p/vae"))
        os.symlink("../../elsewhere/secret.json", self.path("p/unet/config.json"))
        result, packed, back = self.there_and_back("p")
        self.assertEqual(packed, ["unet/model.gbz"])
        self.assertRegex(result.err, r"vae/ \(a link to a folder\)")
        self.assertRegex(result.err, r"config.json \(not an ordinary file\)")

    def test_a_folder_named_like_a_file(self):
        self.put("n/model.safetensors/config.json", "{}")
        self.refused(INPUT, "holds no .safetensors", "compress", "n", "--ratio", "2", "-o", "out")
        self.put("n/real.safetensors", matrices(["w"]))
        _, packed, _ = self.there_and_back("n")
        self.assertEqual(packed, ["model.safetensors/config.json", "real.gbz"])
        self.put("g/model.gbz/notes.txt", "x")
        self.refused(INPUT, "holds no .gbz", "expand", "g", "-o", "out")

    def test_an_unreadable_file(self):
        self.put("u/unet/model.safetensors", matrices(["w"]))
        os.symlink("nowhere", self.path("u/unet/other.safetensors"))
        result = self.run_cli("compress", "u/unet", "--ratio", "2", "-o", "out")
        self.assertIn(result.status, (DONE, INPUT), result)
        if os.getuid() != 0:
            os.chmod(self.path("u/unet/model.safetensors"), 0)
            self.refused(INPUT, "model.safetensors cannot be read", "compress", "u", "--ratio", "2", "-o", "o2")
        shutil.rmtree(self.path("u"))
        os.makedirs(self.path("u"))
        self.refused(INPUT, "holds no .safetensors", "compress", "u", "--ratio", "2", "-o", "o3")

    def test_packed_folders_of_components_are_named(self):
        self.put("p/a/model.safetensors", matrices(["w"]))
        self.put("p/b/model.safetensors", matrices(["w"]))
        self.succeed("compress", "p", "--ratio", "2", "-o", "packed")
        self.put("single/model.safetensors", matrices(["w"]))
        self.refused(USAGE, "not the same", "compare", "p", "single")
        self.succeed("compare", "p/a", "packed/a")
        result = self.run_cli("compress", "single", "--base", "p", "--lossless", "-o", "d")
        self.assertEqual(result.status, INPUT, result)
        self.one_message(result, "holds no weights itself, its subfolders do: a, b")


if __name__ == "__main__":
    harness.main()
