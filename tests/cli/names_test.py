"""Names that are not given, several inputs, words that other programs have, and outputs that cannot be."""

import os
import re

import harness
from harness import DONE, FAILED, INPUT, TARGET, USAGE, safetensors

LOSSLESS = ("--mode", "exact", "--max-bytes", "100k")


class NamesTest(harness.CliTest):
    def small(self, name, seed_widths=(32, 16, 4)):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        return self.model(name, widths=seed_widths)

    def files(self, folder="."):
        return sorted(os.listdir(self.path(folder)))


class Defaults(NamesTest):
    def test_a_file_is_named_after_its_input(self):
        for name, made in (("model.safetensors", "model.gbz"), ("sub/net.safetensors", "sub/net.gbz"),
                           ("weights.v1", "weights.v1.gbz"), ("a.b.pth.tar", "a.b.gbz"), ("x.ckpt", "x.gbz")):
            with self.subTest(name=name):
                self.small(name)
                out = self.succeed("compress", name, *LOSSLESS).out
                self.assertIn("written to " + made + "\n", out)
                self.assertTrue(os.path.exists(self.path(made)))
        self.succeed("expand", "sub/net.gbz", "-o", "elsewhere.safetensors")
        os.remove(self.path("sub/net.safetensors"))
        self.assertIn("sub/net.safetensors", self.succeed("expand", "sub/net.gbz").out)
        self.assertEqual(self.read("sub/net.safetensors"), self.read("elsewhere.safetensors"))

    def test_nothing_is_replaced_without_force(self):
        self.small("model.safetensors")
        self.succeed("compress", "model.safetensors", *LOSSLESS)
        self.refused(USAGE, "model.gbz exists; use --force", "compress", "model.safetensors", *LOSSLESS)
        self.refused(USAGE, "model.safetensors exists; use --force", "expand", "model.gbz")
        self.succeed("compress", "model.safetensors", *LOSSLESS, "--force")
        self.succeed("expand", "model.gbz", "--force")

    def test_an_index_names_its_model(self):
        self.write("1.safetensors", safetensors({"a": ("F32", [2], bytes(8))}))
        self.write("model.safetensors.index.json", '{"weight_map":{"a":"1.safetensors"}}')
        self.succeed("compress", "model.safetensors.index.json", *LOSSLESS)
        self.assertIn("model.gbz", self.files())

    def test_a_folder_has_no_default(self):
        self.small("my model/model.safetensors")
        self.refused(USAGE, "name the folder to write: -o 'my model-gbz/'", "compress", "my model", *LOSSLESS)
        self.succeed("compress", "my model", *LOSSLESS, "-o", "my model-gbz/")
        self.refused(USAGE, "name the folder to write: -o 'my model-gbz-expanded/'", "expand", "my model-gbz/")

    def test_a_dry_run_and_an_empty_name(self):
        model = self.small("model.safetensors")
        self.refused(USAGE, "name the file to write: -o OUT.gbz", "compress", model, "-o", "")
        self.refused(USAGE, "name the file to write: -o OUT.safetensors", "expand", model, "-o", "")
        if not harness.PORTABLE:
            self.succeed("compress", model, "--dry-run", "--ratio", "2")
            self.assertEqual(self.files(), ["model.safetensors"])

    def test_a_folder_gives_a_folder_without_a_slash(self):
        self.small("hf/model.safetensors")
        self.write("hf/config.json", "{}")
        self.succeed("compress", "hf", *LOSSLESS, "-o", "packed-v1.5")
        self.assertEqual(self.files("packed-v1.5"), ["config.json", "model.gbz"])
        self.succeed("expand", "packed-v1.5", "-o", "newdir")
        self.assertEqual(self.files("newdir"), ["config.json", "model.safetensors"])
        # A name of a file is a file.
        self.succeed("compress", "hf", *LOSSLESS, "-o", "x.gbz", "-q")
        self.succeed("expand", "packed-v1.5", "-o", "x.npz")
        self.assertTrue(all(os.path.isfile(self.path(name)) for name in ("x.gbz", "x.npz")))

    def test_a_folder_takes_a_file_under_its_name(self):
        self.small("m.safetensors")
        os.mkdir(self.path("there"))
        self.succeed("compress", "m.safetensors", *LOSSLESS, "-o", "there")
        self.succeed("compress", "m.safetensors", *LOSSLESS, "-o", "new/")
        self.succeed("expand", "there/m.gbz", "-o", "new/")
        self.assertEqual((self.files("there"), self.files("new")), (["m.gbz"], ["m.gbz", "m.safetensors"]))
        self.refused(USAGE, "there/m.gbz exists; use --force", "compress", "m.safetensors", *LOSSLESS, "-o", "there/")


class Several(NamesTest):
    def setUp(self):
        super().setUp()
        for name in ("a", "b", "c"):
            self.small(name + ".safetensors")
        self.names = [name + ".safetensors" for name in ("a", "b", "c")]

    def test_into_a_folder_and_back(self):
        done = self.succeed("compress", *self.names, "--ratio", "4", "-o", "out/")
        self.assertEqual(self.files("out"), ["a.gbz", "b.gbz", "c.gbz"])
        self.assertEqual(re.findall(r"(?m)^([abc])\.safetensors$", done.out), ["a", "b", "c"])
        self.assertTrue(done.out.endswith("\n3 of 3 files written\n"), done)
        self.succeed("expand", "out/a.gbz", "out/b.gbz", "out/c.gbz", "-o", "back")
        self.assertEqual(self.files("back"), self.names)
        one = self.succeed("compress", "b.safetensors", "--ratio", "4", "-o", "one.gbz")
        self.assertEqual(self.read("out/b.gbz"), self.read("one.gbz"), one)

    def test_beside_their_inputs(self):
        self.succeed("compress", *self.names, *LOSSLESS)
        self.assertEqual(self.files(), ["a.gbz", "a.safetensors", "b.gbz", "b.safetensors", "c.gbz", "c.safetensors"])

    def test_one_that_fails_does_not_keep_the_others(self):
        self.write("b.safetensors", b"no model")
        result = self.run_cli("compress", *self.names, "--ratio", "4", "-o", "out/")
        self.assertEqual(result.status, INPUT, result)
        self.one_message(result, "b.safetensors")
        self.assertTrue(result.out.endswith("\n2 of 3 files written; failed: b.safetensors\n"), result)
        self.assertEqual(self.files("out"), ["a.gbz", "c.gbz"])
        # The same call again: what is there stays, and is an error of its own.
        again = self.run_cli("compress", *self.names, "--ratio", "4", "-o", "out/")
        self.assertEqual(again.status, USAGE, again)
        self.assertIn("0 of 3 files written; failed: a.safetensors, b.safetensors, c.safetensors", again.out)

    def test_a_missed_target_is_the_least_of_failures(self):
        small = ("--max-bytes", "200")
        for name in self.names:
            self.small(name, (64, 32, 10))
        missed = self.run_cli("compress", *self.names, *small, "-o", "out/")
        self.assertEqual(missed.status, TARGET, missed)
        self.assertIn("3 of 3 files written, 3 of them exceed the target", missed.out)
        self.write("c.safetensors", b"no model")
        mixed = self.run_cli("compress", *self.names, *small, "-o", "out2/")
        self.assertEqual(mixed.status, INPUT, mixed)
        self.assertIn("2 of 3 files written, 2 of them exceed the target; failed: c.safetensors", mixed.out)

    def test_json_is_one_object(self):
        self.write("b.safetensors", b"no model")
        result = self.run_cli("compress", *self.names, *LOSSLESS, "-o", "out/", "--json")
        self.assertEqual(result.status, INPUT, result)
        told = result.json
        self.assertEqual((told["written"], told["over_target"], told["failed"]), (2, 0, 1))
        self.assertEqual([each["input"] for each in told["results"]], self.names)
        self.assertEqual([each["status"] for each in told["results"]], [DONE, INPUT, DONE])
        self.assertEqual(told["results"][0]["output_bytes"], os.path.getsize(self.path("out/a.gbz")))
        self.assertEqual(told["results"][1]["error"]["status"], INPUT)

    def test_folders_become_folders(self):
        for name in ("one", "two"):
            self.small(f"{name}/model.safetensors")
            self.write(f"{name}/config.json", "{}")
        self.succeed("compress", "one", "two/", *LOSSLESS, "-o", "packed")
        self.assertEqual((self.files("packed"), self.files("packed/two")), (["one", "two"], ["config.json", "model.gbz"]))

    def test_wrong_outputs(self):
        self.write("file", b"x")
        self.small("sub/a.safetensors")
        two = ("compress", "a.safetensors", "b.safetensors", *LOSSLESS)
        self.refused(USAGE, "several inputs need a folder to write to, and -o names file; use -o OUT/", *two, "-o", "file")
        self.refused(USAGE, "several inputs need a folder .* -o names file/", *two, "-o", "file/")
        self.refused(USAGE, "several inputs need a folder .* -o names x.gbz", *two, "-o", "x.gbz")
        self.refused(USAGE, "several inputs need a folder", *two, "-o", "")
        self.refused(FAILED, "none/deep/ cannot be made|none/deep cannot be made", *two, "-o", "none/deep/")
        for twice in ("sub/a.safetensors", "a.safetensors", "./a.safetensors"):
            self.refused(USAGE, "would both become out/a.gbz", "compress", "a.safetensors", twice, *LOSSLESS, "-o", "out")
        self.refused(USAGE, "would both become a.gbz", "compress", "a.safetensors", "a.safetensors", *LOSSLESS)
        for option in ("--report", "--tensorboard", "--checkpoint", "--resume"):
            self.refused(USAGE, option + " belongs to one input; give the inputs one by one", *two, option, "x")
        if not harness.PORTABLE:
            self.refused(USAGE, "several processes share one input", *two, environment=harness.RANK_0)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_an_output_that_is_an_input_is_refused_alone(self):
        os.link(self.path("a.safetensors"), self.path("b.gbz"))
        result = self.run_cli("compress", "a.safetensors", "b.safetensors", *LOSSLESS, "--force")
        self.assertEqual(result.status, USAGE, result)
        self.one_message(result, "b.gbz is the same file as the input a.safetensors; name another output")
        self.assertIn("1 of 2 files written; failed: b.safetensors", result.out)


class Words(NamesTest):
    def test_names_that_other_programs_have(self):
        self.small("m.safetensors")
        self.succeed("compress", "m.safetensors", *LOSSLESS)
        self.succeed("decompress", "m.gbz", "-o", "back.safetensors")
        self.succeed("expand", "m.gbz", "-o", "same.safetensors")
        self.assertEqual(self.read("back.safetensors"), self.read("same.safetensors"))
        self.assertEqual(self.succeed("info", "m.gbz").out, self.succeed("inspect", "m.gbz").out)
        self.assertEqual(self.succeed("version").out, self.succeed("--version").out)

    def test_help(self):
        general = self.succeed("--help").out
        self.assertEqual(self.succeed("help").out, general)
        self.assertIn("Other names: decompress (expand), info (inspect), help, version\n", general)
        for verb, name in (("expand", "expand"), ("decompress", "expand"), ("info", "inspect"), ("compress", "compress")):
            self.assertEqual(self.succeed("help", verb).out, self.succeed(name, "--help").out)
        self.assertEqual(self.succeed("help", "compress", "-v").out, self.succeed("compress", "--help", "-v").out)
        self.refused(USAGE, "unknown verb compres; did you mean compress", "help", "compres")
        self.refused(USAGE, "unknown verb decompres; did you mean decompress", "decompres", "x")
        self.assertEqual(self.succeed("man", "decompress").out, self.succeed("man", "expand").out)

    def test_scripts_know_them(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.succeed("completion", shell).out
            for word in ("decompress", "info", "help", "version"):
                self.assertRegex(script, rf"\b{word}\b", shell)


class Places(NamesTest):
    def test_what_cannot_be_written(self):
        model = self.small("m.safetensors")
        self.small("hf/model.safetensors")
        self.succeed("compress", model, *LOSSLESS, "-o", "p.gbz")
        self.succeed("compress", "hf", *LOSSLESS, "-o", "packed")
        self.write("file", b"x")
        for command in (("compress", model, *LOSSLESS), ("compress", "hf", *LOSSLESS), ("expand", "p.gbz"),
                        ("expand", "packed")):
            for force in ((), ("--force",)):
                with self.subTest(command=command, force=force):
                    self.refused(FAILED, "file is a file; name a folder to write into", *command, "-o", "file/", *force)
                    self.refused(FAILED, "none/out.gbz.* its folder does not exist|none/out.npz.* its folder does not "
                                 "exist", *command, "-o", "none/out." + ("gbz" if command[0] == "compress" else "npz"),
                                 *force)
                    self.refused(FAILED, "its folder does not exist", *command, "-o", "none/out/", *force)
                    self.refused(FAILED, "/dev/full cannot be written: No space left on device", *command, "-o", "/dev/full", *force)
                    self.refused(FAILED, "cannot be written: Not a directory", *command, "-o", "file/x.npz", *force)

    def test_no_permission(self):
        more = {}
        if os.geteuid() == 0:  # who may write everywhere
            os.chmod(self.folder, 0o755)
            more["user"] = 65534
            try:
                self.assertEqual(self.run_cli("--version", **more).status, DONE)
            except (OSError, AssertionError) as error:
                self.skipTest(f"the program cannot be run without root's rights: {error}")
        self.small("m.safetensors")
        os.mkdir(self.path("closed"), 0o555)
        for place in ("closed/x.gbz", "closed/", "closed"):
            self.refused(FAILED, "cannot be written: Permission denied", "compress", "m.safetensors", *LOSSLESS, "-o",
                         place, **more)
        self.refused(FAILED, "closed/x cannot be written: Permission denied", "compress", "m.safetensors", *LOSSLESS, "-o",
                     "closed/x/", **more)

    def test_folders_without_weights(self):
        os.mkdir(self.path("empty"))
        self.write("empty/readme.md", "x")
        for command in (("compress", "empty", *LOSSLESS, "-o", "x.gbz"), ("compress", "empty", *LOSSLESS, "-o", "out/"),
                        ("inspect", "empty")):
            self.refused(INPUT, "empty holds no .safetensors file", *command)
        self.refused(INPUT, "empty is a folder that holds no .gbz file", "expand", "empty", "-o", "out/")


if __name__ == "__main__":
    harness.main()
