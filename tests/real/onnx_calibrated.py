#!/usr/bin/env python3
"""Public ONNX models calibrated with onnxruntime: gbc.onnx.calibrate() beside the data-free file of the same size.

  tests/real/onnx_calibrated.py [--models FOLDER] [--scorer score_onnx.py] [--only NAME] [--ratios 4 8 12] [--keep DIR]

A tenth of the scorer's inputs calibrates, the others are scored. FOLDER holds the models, by default those of
../shared/data/onnx. Needs onnxruntime, pillow, the package gbcompress, and for superres onnxruntime-extensions. Prints a
line of JSON for each model and ratio, a report for tests/tools/record take; ends with status 77 where the models are
absent."""
import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time

import numpy as np

import gbcompress as gbc
from gbcompress._calibrate.statistics import held_out

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
NAMES = {"magika": "magika-v3_3/model.onnx", "silero": "silero/silero_vad.onnx", "ultraface": "ultraface/version-RFB-320.onnx",
         "basic_pitch": "basic-pitch/nmp.onnx", "superres": "superres/superres_prepost_op18.onnx", "mnist": "mnist/mnist.onnx"}
PART = 10  # of the inputs, one of so many calibrates


class Recorder:
    """A session that keeps what it is given."""

    def __init__(self, session):
        self.session, self.feeds = session, []

    def __getattr__(self, name):
        return getattr(self.session, name)

    def run(self, names, feeds):
        self.feeds.append(dict(feeds))
        return self.session.run(names, feeds)


def rows(family, recorded):
    """The scorer's samples in its order: feeds of one sample each (silero: of one step of all streams)."""
    if family != "magika":
        return recorded
    return [{"bytes": feeds["bytes"][k : k + 1]} for feeds in recorded for k in range(len(feeds["bytes"]))]


def is_calibration(family, sample):
    """Mirrored pictures belong to the same part as their originals."""
    return (sample // 2 if family == "ultraface" else sample) % PART == 0


def psnr(a, b):
    return float(10 * np.log10(65025 / max(float(((a - b) ** 2).mean()), 1e-9)))


def agreement(scorer, family, a, b, kept, samples):
    """Of the samples in `kept`, as the scorer defines it: in %, of superres in dB."""
    a, b = a["_d"], b["_d"]
    if family == "superres":
        pictures = [d.reshape(samples, -1)[kept] for d in (a, b)]
        return psnr(*pictures)
    if family == "ultraface":
        c = np.array([scorer.f1(a[k], b[k]) for k in kept])
        return float(200 * c[:, 0].sum() / max(c[:, 1].sum(), 1))
    if family == "basic_pitch":
        return float(100 * np.mean([scorer.jaccard(x[kept], y[kept]) for x, y in zip(a, b)]))
    return float(100 * (a[kept] == b[kept]).mean())


class Task:
    """A model, its inputs in two parts, and the outputs of the original."""

    def __init__(self, scorer, family, path):
        self.scorer, self.family, self.path = scorer, family, path
        session = Recorder(scorer.session(path))
        self.run, _, self.inputs = getattr(scorer, family)(path, session)
        self.original = self.run(session)
        samples = rows(family, session.feeds)
        parts = [is_calibration(family, k) for k in range(len(samples))]
        self.calibration = [s for s, of in zip(samples, parts) if of]
        self.rest = [k for k, of in enumerate(parts) if not of]
        self.samples = len(samples)

    def score(self, path):
        got = self.run(self.scorer.session(path))
        return agreement(self.scorer, self.family, self.original, got, self.rest, self.samples)

    def options(self):
        """onnxruntime's options with the operators of superres."""
        if self.family != "superres":
            return None
        import onnxruntime
        import onnxruntime_extensions
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        return options

    def scored(self, file, folder):
        model = os.path.join(folder, "expanded.onnx")
        gbc.onnx.expand(file, model, overwrite=True)
        return self.score(model)

    def statistics(self, threads):
        """As calibrate() measures them itself; here once for all ratios. @return them and the seconds"""
        start = time.perf_counter()
        measured, _ = held_out(self.calibration)
        found = gbc.onnx.collect(self.path, measured, options=self.options(), threads=threads)
        return found, time.perf_counter() - start

    def line(self, ratio, folder, threads, statistics, before):
        plain, file = os.path.join(folder, "free.gbz"), os.path.join(folder, "calibrated.gbz")
        free = gbc.onnx.compress(self.path, plain, ratio=ratio, overwrite=True, threads=threads)
        start = time.perf_counter()
        report = gbc.onnx.calibrate(self.path, self.calibration, file, ratio=ratio, options=self.options(),
                                    statistics=statistics, overwrite=True, threads=threads)
        seconds = before + time.perf_counter() - start
        name, original = ("psnr_db", None) if self.family == "superres" else ("agreement_percent", 100.0)
        return dict(model=self.family, ratio=ratio, inputs=self.inputs, calibration=len(self.calibration), scored=len(self.rest),
                    input_bytes=free.input_bytes, output_bytes=report.file.file_bytes, seconds=round(seconds, 1),
                    metric=dict(name=name, before=original, after=self.scored(file, folder)), method=report.method,
                    candidates=report.candidates,
                    data_free=dict(output_bytes=free.file_bytes, after=self.scored(plain, folder)))


def load(path):
    spec = importlib.util.spec_from_file_location("score_onnx", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=os.path.join(SHARED, "data", "onnx", "models"))
    parser.add_argument("--scorer", default=os.path.join(SHARED, "reference", "onnx", "score_onnx.py"))
    parser.add_argument("--only", default="")
    parser.add_argument("--ratios", type=float, nargs="+", default=[4, 8, 12])
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    if not os.path.isdir(arguments.models) or not os.path.isfile(arguments.scorer):
        print(f"skipped: {arguments.models} or {arguments.scorer} is absent")
        return 77
    scorer = load(arguments.scorer)
    for family, name in NAMES.items():
        path = os.path.join(arguments.models, name)
        if arguments.only not in family or not os.path.exists(path):
            continue
        task = Task(scorer, family, path)
        statistics, seconds = task.statistics(arguments.threads)
        for ratio in arguments.ratios:
            with tempfile.TemporaryDirectory() as temporary:
                folder = arguments.keep or temporary
                line = task.line(ratio, folder, arguments.threads, statistics, seconds)
            print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
