"""tests/tools/record: what it refuses, what it takes from reports, and that the page of results is what its records say."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOADER = importlib.machinery.SourceFileLoader("record", str(ROOT / "tests/tools/record"))
record = importlib.util.module_from_spec(importlib.util.spec_from_loader("record", LOADER))
LOADER.exec_module(record)
REPORT = {"input_bytes": 8000, "output_bytes": 1000, "seconds": 1.5, "settings": {"train": {"seed": 3}},
          "metric": {"name": "accuracy_percent", "before": 98.0, "after": 97.5, "drop": 0.5}}
GOOD = {"schema": 1, "id": "one", "section": "trained", "title": "a net", "command": "gbcompress compress a", "seed": 0,
        "commit": "0123abc", "machine": "a machine", "date": "2026-11-23", "model": "net", "bytes_before": 8000,
        "bytes": 1000}


class Records(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.saved = record.RECORDS, record.PAGE, record.ROOT, record.GUIDE
        record.RECORDS, record.PAGE, record.ROOT = self.folder / "records", self.folder / "index.md", self.folder
        record.GUIDE = self.folder / "guide.md"
        record.GUIDE.write_text("# A guide\n" + record.BEGIN + record.END + "Its end.\n")
        record.RECORDS.mkdir()

    def tearDown(self):
        record.RECORDS, record.PAGE, record.ROOT, record.GUIDE = self.saved

    def call(self, *words):
        """(status, what is said)"""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = record.main([str(word) for word in words])
        return status, said.getvalue()

    def words(self, **more):
        named = {"id": "one", "section": "trained", "title": "a net", "model": "net", "commit": "0123abc"} | more
        return [word for key, value in named.items() for word in (f"--{key}", value)]

    def put(self, **changes):
        (self.folder / "records/one.json").write_text(json.dumps({k: v for k, v in (GOOD | changes).items() if v is not None}))

    def test_takes_a_report(self):
        report = self.folder / "report.json"
        report.write_text(json.dumps(REPORT))
        self.assertEqual(self.call("take", report, *self.words(command="gbcompress compress a -o b"))[0], 0)
        made = json.loads((self.folder / "records/one.json").read_text())
        self.assertEqual((made["bytes"], made["bytes_before"], made["seed"]), (1000, 8000, 3))
        self.assertEqual(made["metric"], {"name": "accuracy", "unit": "%", "baseline": 98.0, "value": 97.5, "better": "higher"})

    def test_a_record_without_a_command_is_refused(self):
        report = self.folder / "report.json"
        report.write_text(json.dumps(REPORT))
        status, said = self.call("take", report, *self.words())
        self.assertEqual(status, 1)
        self.assertIn("a result without its command cannot be repeated; give --command", said)
        self.assertEqual(list(record.RECORDS.iterdir()), [])
        self.put(command=None)
        self.assertEqual(self.call("check")[0], 1)

    def test_runs_a_command_and_records_it(self):
        code = f"import json; print(json.dumps({REPORT!r}))"
        self.assertEqual(self.call("run", *self.words(), "--as", "gbcompress compress a", "--", sys.executable, "-c", code)[0], 0)
        made = json.loads((self.folder / "records/one.json").read_text())
        self.assertEqual((made["command"], made["seconds_of"]), ("gbcompress compress a", "processor"))

    def test_a_command_that_fails_is_not_recorded(self):
        status, said = self.call("run", *self.words(), "--", sys.executable, "-c", "raise SystemExit(3)")
        self.assertEqual((status, list(record.RECORDS.iterdir())), (1, []))
        self.assertIn("ended with status 3; nothing is recorded", said)

    def test_wrong_records_are_refused(self):
        for changes, sentence in (({"commit": "main"}, "hexadecimal"), ({"date": "today"}, "`date` must be like"),
                                  ({"section": "best"}, "`section` must be one of"), ({"machine": ""}, "`machine`"),
                                  ({"seed": None}, "`seed`"), ({"bytes": -1}, "must not be negative"),
                                  ({"bytes": None}, "there is no figure"), ({"speed": 3}, "`speed` is unknown"),
                                  ({"id": "two"}, "must be the file's name"), ({"schema": 2}, "`schema` must be 1"),
                                  ({"metric": {"name": "accuracy"}}, "metric must have")):
            with self.subTest(changes=changes):
                self.put(**changes)
                status, said = self.call("check")
                self.assertEqual(status, 1)
                self.assertIn(sentence, said)
        self.put()
        self.assertEqual(self.call("check"), (0, ""))

    def test_the_page_follows_its_records(self):
        self.put()
        self.assertEqual(self.call("index")[0], 0)
        self.assertIn("| a net |  | 1,000 | 8.0x |", record.PAGE.read_text())
        self.assertEqual(self.call("index", "--check"), (0, ""))
        self.put(bytes=999)
        self.assertIn("run tests/tools/record index", self.call("index", "--check")[1])

    def test_the_table_of_a_guide_follows_its_records(self):
        figures = [{"name": "float32 bytes", "value": 1000}, {"name": "float32 exact", "value": 900},
                   {"name": "int8 bytes", "value": 300}]
        self.put(section="onnx-sizes", figures=figures, bytes=None)
        self.assertEqual(self.call("index")[0], 0)
        text = record.GUIDE.read_text()
        self.assertIn("| a net | float32 | 1,000 |  |  | 900 |  |  |\n| a net | int8 | 300 |", text)
        self.assertTrue(text.startswith("# A guide\n") and text.endswith("Its end.\n"))
        self.assertNotIn("a net", record.PAGE.read_text())
        self.put(section="onnx-sizes", figures=figures[:1], bytes=None)
        self.assertIn("run tests/tools/record index", self.call("index", "--check")[1])
        record.GUIDE.write_text("# A guide\n")
        self.assertIn("has no place for the table", self.call("index")[1])

    def put_figures(self, name, *names, **changes):
        figures = [{"name": each, "value": i + 1, "unit": "ms"} for i, each in enumerate(names)]
        values = GOOD | {"id": name, "section": "strategies", "figures": figures} | changes
        (self.folder / f"records/{name}.json").write_text(json.dumps({k: v for k, v in values.items() if k not in ("bytes", "bytes_before")}))

    def test_figures_of_the_same_names_are_columns(self):
        self.put_figures("a", "forward", "backward")
        self.put_figures("b", "forward")
        self.assertEqual(self.call("index")[0], 0)
        self.assertIn("| what | forward | backward | record |", record.PAGE.read_text())
        self.assertIn("| a net | 1 ms |  | `b` |", record.PAGE.read_text())
        self.put_figures("c", "load", "save", "open")
        self.assertIn("name some of them in `shown`", self.call("index")[1])
        self.put_figures("c", "load", "save", "open", shown=["load", "open"])
        self.assertEqual(self.call("index")[0], 0)
        self.assertIn("| what | forward | backward | load | open | record |", record.PAGE.read_text())
        self.put_figures("c", "load", shown=["store"])
        self.assertIn("`shown` must name figures of the record, got 'store'", self.call("check")[1])

    def test_different_measurements_have_a_row_each_and_what_they_are_beside(self):
        rows = [["a step of ours", "ours", "theirs"], ["a load", "load", "1 of a copy"]]
        self.put_figures("a", "ours", "theirs", "load", section="speed", rows=rows)
        self.assertEqual(self.call("index")[0], 0)
        self.assertIn("| what is measured | figure | beside | record |\n| --- | --: | --: | --: |\n"
                      "| a step of ours | 1 ms | 2 ms | `a` |\n| a load | 3 ms | 1 of a copy | `a` |\n", record.PAGE.read_text())
        for wrong, sentence in ((None, "needs `rows`"), ([["a step", "mine", ""]], "must name a figure of the record, got 'mine'"),
                                ([["a step", "ours"]], "must be lists of three texts")):
            self.put_figures("a", "ours", section="speed", rows=wrong) if wrong else self.put_figures("a", "ours", section="speed")
            self.assertIn(sentence, self.call("check")[1])
        self.put_figures("a", "ours", section="speed", listed=False)
        self.assertEqual(self.call("check"), (0, ""))

    def test_a_test_set_that_is_not_the_public_one_has_a_footnote(self):
        self.put(test_set="360 digits")
        (self.folder / "records/two.json").write_text(json.dumps(GOOD | {"id": "two", "title": "another", "test_set": "the last tenth"}))
        (self.folder / "records/three.json").write_text(json.dumps(GOOD | {"id": "three", "title": "a public one"}))
        self.assertEqual(self.call("index")[0], 0)
        page = record.PAGE.read_text()
        for text in ("| a net ¹ |", "| another ² |", "| a public one |", "not the public ones: ¹ 360 digits; ² the last tenth."):
            self.assertIn(text, page)

    def test_language_models_have_a_row_for_each_way(self):
        figures = []
        for way, bits in (("ours, 4", 3.9951), ("nearest", 4.5)):
            figures += [{"name": f"{way}: bits", "value": bits, "unit": "bits"}, {"name": "KL divergence", "value": bits / 100, "unit": "nats"},
                        {"name": "standard error", "value": 0.001, "unit": "nats"}, {"name": "increase of the loss", "value": 0.05, "unit": "nats"},
                        {"name": "its standard error", "value": 0.002, "unit": "nats"}, {"name": "same next token", "value": 88.04, "unit": "%"}]
        self.put(section="language", figures=figures)
        self.assertEqual(self.call("index")[0], 0)
        page = record.PAGE.read_text()
        self.assertIn("| ours, 4 | 4.00 | 0.0400 ± 0.0010 | 0.0500 ± 0.0020 | 88.04 % |\n| nearest | 4.50 | 0.0450", page)

    def test_a_page_that_would_be_too_long_is_refused(self):
        for i in range(record.LONGEST):
            (self.folder / f"records/n{i}.json").write_text(json.dumps(GOOD | {"id": f"n{i}"}))
        self.assertIn("set `listed` of some records to false", self.call("index")[1])


class Page(unittest.TestCase):
    def test_the_picture_is_that_of_its_record(self):
        script = ROOT / "tests/bench/language_picture.py"
        self.assertEqual(subprocess.run([sys.executable, "-B", str(script), "--check"], check=False).returncode, 0)

    def test_records_are_valid_and_the_page_is_what_they_give(self):
        records = record.load()
        self.assertGreater(len(records), 50)
        self.assertEqual(record.PAGE.read_text(), record.page(records))
        self.assertEqual(record.GUIDE.read_text(), record.guide(records, record.GUIDE.read_text()))
        self.assertLessEqual(len(record.PAGE.read_text().split("\n")), record.LONGEST)


if __name__ == "__main__":
    unittest.main()
