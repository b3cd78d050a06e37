"""The blocks of a page: commands, their output, programs and files, in the order in which a reader meets them.

    ```sh, or four blanks     commands; with "$ " before each, what follows is its output
    ```text                   what the commands before it print; "..." is a gap, and figures may differ
    ```python                 goes on in the interpreter of the page's earlier ones
    ```toml                   a file; the first line says its name: # exact.toml
    ```cpp                    compiled
    ```js                     a module, run in Node.js
    <!-- not executed: why -->  before a block that cannot run here
    <!-- needs NAME -->         before a block that runs where the machine has it: documents_test.py NEEDS
"""

import re

NOT_EXECUTED = re.compile(r"<!-- not executed: (.+?) -->$")
NEEDS = re.compile(r"<!-- needs (.+?) -->$")
FENCE = re.compile(r"^```(\w*)$")


class Block:
    """kind: "sh", "text", "python", ...; reason: why it is not executed, or ""; needs: what the machine must have, or ""."""

    def __init__(self, kind, lines, line, reason, needs=""):
        self.kind, self.text, self.line, self.reason, self.needs = kind, "\n".join(lines) + "\n", line, reason, needs


def blocks(text):
    """All blocks of a page. ValueError for one that does not end, and for a marker without a block."""
    lines, found, reason, needs, at = text.split("\n"), [], "", "", 0
    while at < len(lines):
        line, first = lines[at], at + 1
        fence, marker, need = FENCE.match(line), NOT_EXECUTED.match(line), NEEDS.match(line)
        if fence:
            end = at + 1
            while end < len(lines) and lines[end] != "```":
                end += 1
            if end == len(lines):
                raise ValueError(f"line {first}: the block has no end")
            found.append(Block(fence[1] or "text", lines[at + 1 : end], first, reason, needs))
            at, reason, needs = end + 1, "", ""
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip() or NOT_EXECUTED.match(lines[at - 1])):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            inner = [each[4:] for each in lines[at:end]]
            while not inner[-1].strip():
                inner.pop()
            found.append(Block("sh", inner, first, reason, needs))
            at, reason, needs = end, "", ""
        else:
            if (reason or needs) and line.strip():
                raise ValueError(f"line {first}: a block must follow the marker: {reason or needs}")
            reason, needs = marker[1] if marker else reason, need[1] if need else needs
            at += 1
    return found


def session(text):
    """(command, output) of a block in which commands begin with "$ "; [] for any other."""
    if not text.startswith("$ "):
        return []
    parts = []
    for line in text.splitlines():
        if line.startswith("$ "):
            parts.append([line[2:], []])
        elif parts[-1][0].endswith("\\"):
            parts[-1][0] += "\n" + line
        else:
            parts[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in parts]


def shape(text):
    """Words in their order; numbers and gaps alike."""
    return " ".join(re.sub(r"[-+]?\d[\d.,]*(e-?\d+)?", "N", text).split())


def missing(printed, real):
    """The first part of what a page prints that the real output lacks, or "". "..." on a line of its own is a gap."""
    at, whole = 0, shape(real)
    for part in re.split(r"(?m)^\s*\.\.\.\s*$", printed):
        wanted = shape(part)
        found = whole.find(wanted, at)
        if found < 0:
            return wanted
        at = found + len(wanted)
    return ""
