"""A page's commands and programs as they are printed, one after another in one folder, as a reader types them.

    documents_test.py PAGE     PAGE is relative to the repository: docs/guides/gguf.md

inputs/PAGE.sh and inputs/PAGE.py, where they exist, make what the page assumes a reader has; `/` in PAGE is `.` there. PAGE.3.py
comes before the third block that is executed.
inputs/PAGE.cpp is the program around the page's C++ block, inputs/PAGE.mjs the module around its JavaScript block. A block that
cannot run says so in the page (page.py); the test prints these blocks with their reasons."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import page

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ["GBCOMPRESS"]
SITE = os.environ.get("GBC_PYTHON_SITE", "")
TIMEOUT = 300  # seconds of one block
SKIPPED = 77
#: Blocks that are files for other programs, and not commands.
OTHERS = {"cmake"}
#: The module of JavaScript as scripts/web builds it.
WEB = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), "web")


def lacks_mounting():
    """Why nothing can be mounted; "" if it can. A mount is tried."""
    sys.path.append(os.path.join(ROOT, "tests", "cli"))
    import mount_test

    return mount_test.SKIP


def lacks_node():
    if not shutil.which("node"):
        return "there is no node"
    return "" if os.path.exists(os.path.join(WEB, "gbz.mjs")) else "scripts/web has not built gbz.mjs"


#: What a block may need (page.py), and what says why this machine lacks it.
NEEDS = {"/dev/fuse": lacks_mounting, "node": lacks_node}


class Reader:
    """A folder, a shell that keeps its variables and directory, and an interpreter that keeps its names."""

    def __init__(self, name, has_program):
        self.folder = tempfile.mkdtemp(prefix="gbc-documents-")
        self.state = tempfile.mkdtemp(prefix="gbc-documents-")
        self.last = ""
        self.names = {"__name__": "__main__"}
        self.stem = os.path.join(HERE, "inputs", re.sub(r"\.md$", "", name).replace("/", "."))
        os.makedirs(os.path.join(self.state, "bin"))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GBCOMPRESS", "PYTHON"))}
        path = [os.path.dirname(sys.executable), os.environ["PATH"]]
        if has_program:
            os.symlink(PROGRAM, os.path.join(self.state, "bin", "gbcompress"))
            path.insert(0, os.path.join(self.state, "bin"))
        self.environment = dict(kept, PATH=os.pathsep.join(path), PYTHONPATH=SITE, XDG_DATA_HOME="/nonexistent",
                                PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1")
        # Where the reader stands: the repository as it was cloned and built.
        for part in ("docs", "samples", "scripts", "sdk", "tests"):
            os.symlink(os.path.join(ROOT, part), os.path.join(self.folder, part))
        os.makedirs(os.path.join(self.folder, "build"))
        os.symlink(os.path.dirname(os.path.dirname(PROGRAM)), os.path.join(self.folder, "build", "release"))

    def close(self):
        for name in os.listdir(self.folder):  # of a block that failed
            if os.path.ismount(os.path.join(self.folder, name)):
                subprocess.run(["fusermount3", "-uz", os.path.join(self.folder, name)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)

    def shell(self, text):
        """Standard output of commands. RuntimeError where one fails."""
        state = os.path.join(self.state, "variables")
        around = (f"trap 'export -p > {state}' EXIT\n[[ ! -f {state} ]] || . {state}\n{text}")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", around], capture_output=True, text=True,
                              cwd=self.folder, env=self.environment, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"status {done.returncode}\n{done.stdout}{done.stderr}")
        self.last = done.stdout
        return done.stdout

    def python(self, text, source):
        with contextlib.chdir(self.folder) if hasattr(contextlib, "chdir") else _changed_to(self.folder):
            exec(compile(text, source, "exec"), self.names)  # noqa: S102

    def prepare(self, number=""):
        """What a reader has before the page, or (".2") before its second executed block that is no output."""
        for suffix, act in ((".py", lambda t: self.python(t, self.stem + ".py")), (".sh", self.shell)):
            if os.path.exists(self.stem + number + suffix):
                with open(self.stem + number + suffix) as file:
                    act(file.read())

    def javascript(self, text):
        """The block in place of BLOCK in inputs/PAGE.mjs, a module beside those of scripts/web."""
        for name in os.listdir(WEB):
            place = os.path.join(self.folder, name)
            if name.endswith((".mjs", ".wasm")) and not os.path.exists(place):
                os.symlink(os.path.join(WEB, name), place)
        with open(self.stem + ".mjs") as file:
            around = file.read()
        module = os.path.join(self.folder, "block.mjs")
        with open(module, "w") as file:
            file.write(around.replace("BLOCK", text))
        done = subprocess.run(["node", "--preserve-symlinks", module], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"status {done.returncode}\n{done.stdout}{done.stderr}")
        self.last = done.stdout

    def compile(self, text):
        """The block within inputs/PAGE.cpp: what it includes first, statements in place of BLOCK."""
        with open(self.stem + ".cpp") as file:
            around = file.read()
        head = re.compile(r"^(#include|using namespace).*\n", re.M)
        program = os.path.join(self.state, "block.cpp")
        with open(program, "w") as file:
            file.write("".join(m[0] for m in head.finditer(text)) + around.replace("BLOCK", head.sub("", text)))
        command = [os.environ.get("GBC_CXX", "c++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                   "-Wno-unused", "-Wno-missing-field-initializers", "-I", os.path.join(ROOT, "core/include"), "-I", os.path.join(ROOT, "sdk")]
        for folder in filter(None, os.environ.get("GBC_TORCH_INCLUDES", "").split(":")):
            command += ["-isystem", folder]
        done = subprocess.run([*command, program], capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)


@contextlib.contextmanager
def _changed_to(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Page(unittest.TestCase):
    name = ""

    def run_block(self, block, reader, where):
        if block.kind == "sh":
            commands = page.session(block.text)
            if not commands:
                reader.shell(block.text)
            for command, output in commands:
                lacks = page.missing(output, reader.shell(command))
                self.assertEqual(lacks, "", f"{where}: `{command}` prints\n{reader.last}")
        elif block.kind == "text":
            self.assertTrue(reader.last, f"{where}: nothing was printed before it; a block of commands is one of sh")
            self.assertEqual(page.missing(block.text, reader.last), "", f"{where}: this is printed:\n{reader.last}")
        elif block.kind == "python":
            reader.python(block.text, where)
        elif block.kind == "toml":
            name = re.match(r"# (\S+\.toml)\n", block.text)
            self.assertTrue(name, f"{where}: the first line names the file: # NAME.toml")
            with open(os.path.join(reader.folder, name[1]), "w") as file:
                file.write(block.text)
        elif block.kind == "cpp":
            reader.compile(block.text)
        elif block.kind == "js":
            reader.javascript(block.text)
        else:
            self.assertIn(block.kind, OTHERS, f"{where}: no block of this kind is executed; mark it as not executed")

    def test_every_block_as_printed(self):
        with open(os.path.join(ROOT, self.name)) as file:
            blocks = page.blocks(file.read())
        for block in blocks:
            block.reason = block.reason or unmet(block)
        executed = [block for block in blocks if not block.reason]
        # README says how the program comes onto the PATH.
        reader = Reader(self.name, self.name != "README.md")
        self.addCleanup(reader.close)
        if executed:
            reader.prepare()
        number = 0
        for block in blocks:
            where = f"{self.name}:{block.line}"
            if block.reason:
                print(f"{where}: not executed: {block.reason}", file=sys.stderr)
                continue
            number += block.kind != "text"
            if block.kind != "text":
                reader.prepare(f".{number}")
            try:
                self.run_block(block, reader, where)
            except self.failureException:
                raise
            except Exception as error:
                raise AssertionError(f"{where}: this block fails:\n{block.text}{error}") from error
        print(f"{self.name}: {len(executed)} of {len(blocks)} blocks executed", file=sys.stderr)


@functools.cache
def lacked(need):
    return NEEDS[need]()


def unmet(block):
    """Why this machine does not execute a block, or ""."""
    return lacked(block.needs) if block.needs else ""


def lacking(name):
    """What this machine lacks for the page, or "": modules of Python, torch's launcher, and what all blocks need."""
    with open(os.path.join(ROOT, name)) as file:
        executed = [block for block in page.blocks(file.read()) if not block.reason]
    if executed and all(map(unmet, executed)):
        return unmet(executed[0])
    stem = os.path.join(HERE, "inputs", re.sub(r"\.md$", "", name).replace("/", "."))
    modules = ["gbcompress", "torch", "transformers"]
    if any(block.kind == "python" for block in executed) or os.path.exists(stem + ".py"):
        sys.path.insert(0, SITE)
        for module in modules:
            try:
                __import__(module)
            except ImportError as error:
                return str(error)
    launched = any("torchrun" in block.text for block in executed)
    if launched and not shutil.which("torchrun", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]):
        return "there is no torchrun"
    return ""


def main():
    Page.name = sys.argv.pop(1)
    if lacks := lacking(Page.name):
        print(f"skipped: {Page.name}: {lacks}; scripts/setup --tests installs what tests need", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
