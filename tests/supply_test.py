"""docs/reference/dependencies.md, scripts/setup and scripts/sbom say the same."""
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arrays():
    """Every word of scripts/setup's lists of packages, without versions; extras are taken off."""
    text = (ROOT / "scripts/setup").read_text()
    words = []
    for found in re.finditer(r"^[a-z_]+=\(([^)]+)\)", text, re.M):
        words += found[1].replace('"', "").split()
    words += re.search(r"packages\+=\((zsh[^)]*)\)", text)[1].split()
    return {re.sub(r"(\[.*\])?(==.*)?$", "", word) for word in words}


class Supply(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = subprocess.run([sys.executable, "-B", ROOT / "scripts/sbom"], check=True, capture_output=True, text=True).stdout
        cls.document = json.loads(text)
        cls.components = {c["name"]: c for c in cls.document["components"]}

    def test_everything_that_is_installed_is_listed(self):
        wanted = arrays()
        self.assertGreater(len(wanted), 35)
        self.assertEqual(wanted - set(self.components), set(), "add them to docs/reference/dependencies.md")
        self.assertEqual(set(self.components) - wanted, set(), "scripts/setup does not install them")

    def test_wheels_have_the_pinned_versions(self):
        self.assertEqual(self.components["torch"]["version"], "2.11.0")
        self.assertEqual(self.components["torch"]["purl"], "pkg:pypi/torch@2.11.0")
        self.assertTrue(self.components["numpy"]["version"])

    def test_every_one_has_a_licence_and_says_whether_it_ships(self):
        for name, component in self.components.items():
            licence = component["licenses"][0]["license"]
            self.assertTrue(licence.get("id") or licence.get("name"), name)
            self.assertIn(component["scope"], ("required", "excluded"))
        self.assertEqual(self.components["libzstd-dev"]["scope"], "required")
        self.assertEqual(self.components["strace"]["scope"], "excluded")
        self.assertEqual(self.document["metadata"]["component"]["name"], "gbcompress")


unittest.main()
