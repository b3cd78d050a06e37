"""Completion scripts and manual pages, in the shells and readers that are there."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

import harness
from harness import USAGE

VERBS = ["compress", "expand", "mount", "inspect", "compare", "rebase", "eval", "sweep", "bench", "plugins", "doctor",
         "completion", "man"]


def need(program):
    if not shutil.which(program):
        raise unittest.SkipTest(f"{program} is not installed")


class Scripts(harness.CliTest):
    # What is typed before the tab key: what the line becomes (an end of '' is not looked at).
    COMPLETED = [
        ("gbcompress compr", "gbcompress compress"),
        ("gbcompress compress --max-by", "gbcompress compress --max-bytes"),
        ("gbcompress compress --mode gen", "gbcompress compress --mode generated"),
        ("gbcompress compress --arch lenet-", "gbcompress compress --arch lenet-300-100"),
        ("gbcompress compress --set weights.mo", "gbcompress compress --set weights.mode="),
        ("gbcompress compress --set weights.mode=quan", "gbcompress compress --set weights.mode=quantized"),
        ("gbcompress expand fil", "gbcompress expand file.gbz"),
        ("gbcompress inspect --plan --world 2 mo", "gbcompress inspect --plan --world 2 model.safetensors"),
        ("gbcompress completion z", "gbcompress completion zsh"),
        ("gbcompress eval file.gbz --data mni", "gbcompress eval file.gbz --data mnist:"),
    ]

    def setUp(self):
        super().setUp()
        for name in ("file.gbz", "file.txt", "model.safetensors", "model.txt"):
            self.write(name, "x")

    def script(self, shell):
        return self.succeed("completion", shell).out

    def typed(self, command, prepare, lines):
        """What the shell makes of each line and a tab, typed into a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            environment = harness.clean_environment({"TERM": "dumb", "PS1": "> ", "HISTFILE": "/dev/null"})
            os.execvpe(command[0], command, environment)
        self.addCleanup(os.close, terminal)
        shown = []

        def until(marker):
            text, end = "", time.monotonic() + 60
            while marker not in text:
                self.assertLess(time.monotonic(), end, (marker, text))
                if select.select([terminal], [], [], 1)[0]:
                    text += os.read(terminal, 65536).decode(errors="replace")
            return text

        os.write(terminal, (prepare + "; echo rea''dy\n").encode())
        until("ready\r\n")
        for number, line in enumerate(lines):
            os.write(terminal, (line + "\t").encode())
            time.sleep(0.1)
            os.write(terminal, f"; echo do''ne{number}\n".encode())
            found = re.search(r"<<(.*?)>>", until(f"done{number}\r\n"), re.S)
            self.assertIsNotNone(found, line)
            shown.append("gbcompress " + found[1])
        os.write(terminal, b"exit\n")
        os.waitpid(pid, 0)
        return shown

    def check(self, shown):
        # A trailing blank is the shell's: the word is complete.
        for (line, wanted), got in zip(self.COMPLETED, shown):
            with self.subTest(line=line):
                self.assertEqual(got.strip(), wanted)
        self.assertEqual(len(shown), len(self.COMPLETED))

    def test_bash(self):
        need("bash")
        self.write("script", self.script("bash"))
        prepare = "set +H; bind 'set bell-style none'; source ./script; gbcompress() { echo \"<<$*>>\"; }"
        self.check(self.typed(["bash", "--norc", "--noprofile", "-i"], prepare, [line for line, _ in self.COMPLETED]))

    def test_zsh(self):
        need("zsh")
        os.mkdir(self.path("functions"))
        self.write("functions/_gbcompress", self.script("zsh"))
        prepare = ("unsetopt beep; fpath=(./functions $fpath); autoload -U compinit; compinit -u -D; "
                   "gbcompress() { print -r -- \"<<$*>>\" }")
        self.check(self.typed(["zsh", "-f", "-i"], prepare, [line for line, _ in self.COMPLETED]))

    def test_fish(self):
        need("fish")
        self.write("script.fish", self.script("fish"))
        for line, wanted in self.COMPLETED:
            with self.subTest(line=line):
                done = subprocess.run(["fish", "--no-config", "-c", 'source script.fish; complete -C "$argv[1]"', line],
                                      capture_output=True, text=True, cwd=self.folder, timeout=60,
                                      env=harness.clean_environment({"HOME": self.folder}))
                self.assertEqual(done.stderr, "")
                offered = [entry.split("\t")[0] for entry in done.stdout.splitlines()]
                last = wanted.split()[-1]
                self.assertIn(last, offered)
                if line.split()[-2] == "expand":
                    self.assertNotIn("file.txt", offered[:1])

    def test_every_verb_and_flag_is_in_every_script(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.script(shell)
            for verb in VERBS:
                self.assertIn(verb, script)
                for flag in re.findall(r"--([a-z-]+)", self.succeed(verb, "--help").out):
                    self.assertRegex(script, rf"(--|-l ){flag}\b", (shell, verb))
            self.assertNotIn("probe-plugin", script)

    def test_every_verb_has_an_installed_page(self):
        helped = re.findall(r"(?m)^  ([a-z]+) +[A-Z]", self.succeed("--help").out)
        self.assertEqual(helped, VERBS)
        with open(os.path.join(os.path.dirname(__file__), "../../cli/Documents.cmake")) as file:
            self.assertEqual(re.search(r"foreach\(verb ([a-z ]+)\)", file.read())[1].split(), VERBS)

    def test_a_shell_that_is_not_known(self):
        self.refused(USAGE, "no completion for the shell csh, but for bash, zsh and fish", "completion", "csh")
        self.refused(USAGE, "did you mean fish", "completion", "fihs")
        self.refused(USAGE, "completion needs bash", "completion")
        self.refused(USAGE, "unknown verb compres; did you mean compress", "man", "compres")


class Manual(harness.CliTest):
    def pages(self):
        yield "gbcompress", self.succeed("man").out
        for verb in VERBS:
            yield verb, self.succeed("man", verb).out

    def test_pages_have_what_help_has(self):
        for verb, page in self.pages():
            plain = page.replace("\\-", "-")
            self.assertRegex(page, r"(?m)^\.TH GBCOMPRESS")
            text = self.succeed(*([] if verb == "gbcompress" else [verb]), "--help").out
            flags = re.findall(r"(?m)^  (?:-\w, |    )(--[a-z-]+)", text)
            self.assertIn("--json", flags)
            for flag in flags:
                self.assertIn(f"\\fB{flag}\\fR", plain, verb)
        main = self.succeed("man").out.replace("\\-", "-")
        for word in ("gnet.hidden", "generated", "GBCOMPRESS_SECTION_KEY", "130, 143", "col_code"):
            self.assertIn(word, main)

    def test_man_formats_them_without_a_warning(self):
        need("man")
        for verb, page in self.pages():
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"], input=page,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), verb)

    def test_mandoc_finds_no_fault(self):
        need("mandoc")
        for verb, page in self.pages():
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page, capture_output=True, text=True,
                                  timeout=60)
            # The pages bear no date: the same sources give the same bytes.
            faults = [line for line in done.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(faults, [], verb)


if __name__ == "__main__":
    harness.main()
