"""Decodes every golden file through gbz.h and compares digests and verdicts with the recorded ones.

The file names the program read_all, whose output this script reads.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""
GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests" / "golden"
# Its tensors are whole; what is damaged is the section of original files, which no tensor needs.
NOT_OPENED = {"originals_no_zstd": "ok"}


def decoded(path):
    """Digests by name, the verdict, and the exit status of read_all for one file."""
    run = subprocess.run([PROGRAM, path], capture_output=True, timeout=300)
    digests, at, output = {}, 0, run.stdout
    while output[at:at + 2] != b"= ":
        end = output.index(b"\n", at)
        name, size = output[at:end].decode().rsplit("\t", 1)
        start, at = end + 1, end + 1 + int(size) + 1
        digests[name] = hashlib.sha256(output[start:at - 1]).hexdigest()
    return digests, output[at:].decode().split()[-1], run


class Golden(unittest.TestCase):
    def test_every_tensor_has_its_recorded_digest(self):
        files = json.loads((GOLDEN / "v2" / "digests.json").read_text())
        self.assertGreaterEqual(len(files), 20)
        for name, expected in files.items():
            with self.subTest(name):
                digests, verdict, run = decoded(GOLDEN / "v2" / f"{name}.gbz")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(verdict, "ok")
                self.assertEqual(digests, expected)

    def test_every_damaged_file_has_its_recorded_verdict(self):
        codes = json.loads((GOLDEN / "errors" / "codes.json").read_text())
        self.assertGreaterEqual(len(codes), 80)
        for name, code in codes.items():
            with self.subTest(name):
                _, verdict, run = decoded(GOLDEN / "errors" / f"{name}.gbz")
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(verdict, NOT_OPENED.get(name, code))


if __name__ == "__main__":
    unittest.main()
