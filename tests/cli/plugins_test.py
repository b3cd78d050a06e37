"""plugins and doctor."""

import os

import harness
from harness import FAILED, INPUT, PLUGIN, USAGE, QUICK


class Plugins(harness.CliTest):
    def installed(self):
        return {p["name"]: p["file"] for p in self.succeed("plugins", "--json").json["loaded"]}

    def test_the_built_in_ones_are_found(self):
        self.assertLessEqual({"al", "attention", "conv", "dtp", "embedding", "linear", "nets", "recurrent"}, set(self.installed()))
        text = self.succeed("plugins", "list").out
        self.assertRegex(text, r"(?m)^linear \d+\.\d+\.\d+$")
        self.assertRegex(text, r"fingerprint +abi=\d+ torch=")

    def test_verify_loads_it_elsewhere(self):
        for name, file in self.installed().items():
            self.assertIn(f"{name} ", self.succeed("plugins", "verify", file).out)
            self.assertTrue(self.succeed("plugins", "verify", file, "--json").json["ok"])

    def test_files_that_are_no_plugins(self):
        whole = self.read(self.installed()["linear"])
        cases = {"text.so": b"not a library\n" * 100, "empty.so": b"", "cut.so": whole[:len(whole) // 2]}
        for name, content in cases.items():
            with self.subTest(name):
                file = self.write(name, content)
                self.refused(PLUGIN, name, "plugins", "verify", file)
                self.refused(PLUGIN, name, "plugins", "list", "--plugin", file)
                self.refused(PLUGIN, name, "compress", self.model(), "-o", self.path("x.gbz"), "--plugin", file)
        self.refused(INPUT, "none.so does not exist", "plugins", "verify", self.path("none.so"))

    def test_a_stale_one_is_explained(self):
        whole = self.read(self.installed()["linear"])
        at = whole.index(b" torch=", whole.index(b"@(#)gbcompress-plugin linear")) + 7
        file = self.write("stale.so", whole[:at] + b"9" + whole[at + 1:])
        self.refused(PLUGIN, "LibTorch", "plugins", "verify", file)

    def test_refused_ones_do_not_stop_the_others(self):
        os.mkdir(self.path("plugins"))
        self.write("plugins/bad.so", b"not a library")
        environment = {"GBCOMPRESS_PLUGIN_PATH": self.path("plugins")}
        listed = self.succeed("plugins", "--json", environment=environment).json
        self.assertEqual([os.path.basename(r["file"]) for r in listed["refused"]], ["bad.so"])
        self.assertIn("linear", [p["name"] for p in listed["loaded"]])
        out = self.path("x.gbz")
        result = self.succeed("compress", self.model(), "-o", out, "--ratio", "2", *harness.QUICK,
                              environment=environment)
        self.assertRegex(result.err, "warning: plugin .*bad.so is not used")
        broken = self.run_cli("doctor", environment=environment)
        self.assertEqual(broken.status, FAILED, broken)
        self.assertRegex(broken.out, r"BROKEN +plugin +.*bad\.so")

    def test_the_working_directory_is_not_searched(self):
        os.mkdir(self.path("plugins"))
        self.write("plugins/bad.so", b"not a library")
        self.write("bad.so", b"not a library")
        self.assertEqual(self.succeed("plugins", "--json").json["refused"], [])

    def test_a_new_one_is_begun(self):
        self.succeed("plugins", "new", "my_layer", "-o", self.path("begun"))
        self.assertIn("CMakeLists.txt", os.listdir(self.path("begun")))
        self.refused(USAGE, "begun", "plugins", "new", "my_layer", "-o", self.path("begun"))
        self.refused(USAGE, "name", "plugins", "new", "../x")

    def test_doctor(self):
        result = self.succeed("doctor", "--json").json
        self.assertTrue(result["ok"])
        names = [check["name"] for check in result["checks"]]
        for name in ("gbcompress", "LibTorch", "compiler", "Boost", "zstd", "threads",
                     "CUDA module", "GPU", "NCCL", "plugin linear"):
            self.assertIn(name, names)
        broken = self.run_cli("doctor", environment={"TMPDIR": self.path("none")})
        self.assertEqual(broken.status, FAILED, broken)
        self.assertRegex(broken.out, "BROKEN +temporary files")


harness.main()
