"""A plugin that fails while it is used: status 5 and one sentence with plugin, layer type and tensor; a crash is named
before the process ends. GBC_FAULTY_PLUGIN fails as GBC_TEST_FAULT says (tests/plugin/faulty.cpp)."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness
from harness import DONE, PLUGIN

FAULTY = os.environ.get("GBC_FAULTY_PLUGIN", "")
SANITIZED = os.environ.get("GBCOMPRESS_SANITIZED") == "1"
WHO = r"gbcompress: plugin /\S*faulty\.so, layer type faulty, tensor 0\.weight: "


class PluginFailures(harness.CliTest):
    def setUp(self):
        super().setUp()
        if not FAULTY:
            self.skipTest("built without LibTorch")
        self.settings = self.write("rule.toml", 'schema = 1\n[weights]\nmode = "generated"\n'
                                   '[[layer]]\nmatch = "0.weight"\ntype = "faulty"\n')

    def command(self, out):
        return ("compress", "--from-scratch", "--arch", "mlp:64-16-10", "--data", "digits", "--config", self.settings,
                "--ratio", "2", "--epochs", "1", "--plugin", FAULTY, "-q", "-o", self.path(out))

    def fails(self, fault, pattern, *command):
        result = self.refused(PLUGIN, WHO + pattern, *(command or self.command("x.gbz")),
                              environment={"GBC_TEST_FAULT": fault})
        self.assertNotIn("learning rate", result.err)

    def test_results_that_cannot_be_used(self):
        for fault, pattern in {
                "init_throw": 'init threw "no table for"$',
                "init_throw_int": "init threw something that is not a std::exception$",
                "spec_sides": "init returned a specification that cannot be used: .* defect of the plugin$",
                "build_throw_torch": 'build threw "no kernel in LibTorch"$',
                "nan": "build returned NaN or infinity, and its tiles are finite",
                "nan_gradient": "the gradient of build is NaN or infinite",
                "undefined": "build returned an undefined tensor",
                "turned": r"build returned shape \[64, 16\], the parameter has shape \[16, 64\]",
                "integers": "build returned a tensor of type CPUIntType, a dense float32 tensor",
                "changes": "build changed its tiles"}.items():
            with self.subTest(fault):
                self.fails(fault, pattern)

    def test_a_file_is_not_expanded_to_nan(self):
        self.succeed(*self.command("good.gbz"))
        expand = ("expand", self.path("good.gbz"), "--plugin", FAULTY, "-o", self.path("back.safetensors"))
        self.fails("nan", "build returned NaN", *expand)
        self.fails("build_throw", "build threw", *expand)
        self.succeed(*expand)

    def test_a_crash_is_named(self):
        if SANITIZED:
            self.skipTest("a sanitizer handles the signal")
        for fault, status, pattern in (("build_segv", -signal.SIGSEGV, "build ended the process with SIGSEGV"),
                                       ("init_abort", -signal.SIGABRT, "init ended the process with SIGABRT"),
                                       ("init_recursion", -signal.SIGSEGV, "init ended the process with SIGSEGV"),
                                       ("build_exit", 1, r"build ended the process with exit\(\)")):
            with self.subTest(fault):
                result = self.run_cli(*self.command("x.gbz"), environment={"GBC_TEST_FAULT": fault})
                self.assertEqual(result.status, status, result)
                self.assertRegex(result.err, "(?m)^" + WHO + pattern)
                self.assertFalse(os.path.exists(self.path("x.gbz")))

    def test_verify_says_what_registration_did(self):
        for fault, pattern in {"throw": "failed to register: no table for", "throw_int": "not a std::exception",
                               "exit": "loading it ended the process with status"}.items():
            with self.subTest(fault):
                self.refused(PLUGIN, r"plugin /\S*faulty\.so:? .*" + pattern, "plugins", "verify", FAULTY,
                             environment={"GBC_TEST_FAULT": fault})
        if not SANITIZED:
            self.refused(PLUGIN, r"faulty\.so: loading it ended the process with signal 11", "plugins", "verify", FAULTY,
                         environment={"GBC_TEST_FAULT": "segv"})

    def test_verify_names_each_field_with_its_two_values(self):
        whole = self.read(FAULTY)
        at = whole.index(b"abi=", whole.index(b"@(#)gbcompress-plugin faulty"))
        marker = whole[at:whole.index(b"\0", at)]
        changed = marker.replace(b"abi=2", b"abi=7").replace(b"torch=2", b"torch=3").replace(b"gcc=1", b"gcc=9")
        self.assertEqual(len(changed), len(marker))
        file = self.write("other.so", whole.replace(marker, changed))
        result = self.refused(PLUGIN, "plugin /.*other.so does not fit this program: ", "plugins", "verify", file)
        fields = dict(word.split("=") for word in marker.decode().split())
        for field, found in (("abi", "7"), ("torch", "3" + fields["torch"][1:]), ("gcc", "9" + fields["gcc"][1:])):
            self.assertRegex(result.err, rf"field {field} differs, [^;]*\b{found}, this program [^;]*\b{fields[field]}\b")
        for field in ("std", "cxx11abi"):
            self.assertNotIn(f"field {field}", result.err)
        self.assertIn("build it again with this program's SDK", result.err)
        self.assertEqual(DONE, self.run_cli("plugins", "verify", FAULTY).status)


harness.main()
