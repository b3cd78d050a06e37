#!/usr/bin/env python3
"""The models of the onnx package's own test suite through compress and expand.

  tests/real/onnx_suite.py [--program gbcompress] [--data FOLDER] [--sample N] [--only PART_OF_A_NAME] [--report FILE]

Every model with tensors comes back byte for byte from --mode exact, and loads. At --max-error 1e-4, models that onnxruntime
runs with the suite's inputs have outputs whose squared error, over their variance, is at most 2e-4 in 99 of 100 cases;
outputs that are not continuous in the weights are not counted. Nothing is refused but a model that holds no weights.
FOLDER takes the node tests, which the package generates there once; without it, and for --sample, the models
that the package ships are used alone. Ends with 1 where a condition fails, with 77 without onnx or onnxruntime."""
import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup --tests installs it")
    sys.exit(77)

MAX_ERROR, MOST_OUTPUT_ERROR, LEAST_SHARE = "1e-4", 2e-4, 0.99
NO_WEIGHTS = "holds no weights"
KINDS = ("light", "node", "pytorch-converted", "pytorch-operator", "simple", "real")
# Outputs of these jump where an input passes a bound: rounding, comparison, choice, an index, or draws.
JUMPS = {"ArgMax", "ArgMin", "Bernoulli", "BitwiseAnd", "Cast", "CastLike", "Ceil", "DequantizeLinear", "DynamicQuantizeLinear",
         "Equal", "Floor", "Greater", "GreaterOrEqual", "HardMax", "Hardmax", "IsInf", "IsNaN", "Less", "LessOrEqual", "Mod",
         "Multinomial", "NonMaxSuppression", "NonZero", "Not", "Or", "QuantizeLinear", "RandomNormal", "RandomNormalLike",
         "RandomUniform", "RandomUniformLike", "Round", "Shrink", "Sign", "TopK", "TreeEnsemble", "TreeEnsembleClassifier",
         "TreeEnsembleRegressor", "Unique", "Where", "Xor"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--program", default=os.environ.get("GBCOMPRESS", os.path.join(root, "build/release/bin/gbcompress")))
    parser.add_argument("--data", help="folder of the node tests; made if it is absent")
    parser.add_argument("--sample", type=int, default=0, help="every Nth model of those that the package ships")
    parser.add_argument("--only", default="", help="models whose name contains it")
    parser.add_argument("--report", help="JSON file to write")
    return parser.parse_args()


def generate(folder):
    """Writes the node tests, models and inputs, as the package's tool writes those of models."""
    from onnx.backend.test.case import node
    if os.path.isdir(os.path.join(folder, "node")):
        return
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = node.collect_testcases(None)
    with tempfile.TemporaryDirectory(prefix="gbc-onnx-nodes-", dir=os.path.dirname(os.path.abspath(folder))) as work:
        for test in tests:
            write_test(test, os.path.join(work, test.name))
        os.makedirs(folder, exist_ok=True)
        os.rename(work, os.path.join(folder, "node"))
        os.mkdir(work)


def write_test(test, folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(test.model.SerializeToString())
    for n, (inputs, _) in enumerate(test.data_sets):
        place = os.path.join(folder, f"test_data_set_{n}")
        os.makedirs(place)
        for i, value in enumerate(inputs):
            kind = test.model.graph.input[i].type.WhichOneof("value")
            if kind == "sequence_type":
                message = numpy_helper.from_list(value)
            elif kind == "optional_type":
                message = numpy_helper.from_optional(value)
            else:
                message = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))
            with open(os.path.join(place, f"input_{i}.pb"), "wb") as file:
                file.write(message.SerializeToString())


def models_in(folder):
    """(name, file) of every model below a folder; tests whose model has to be downloaded have none."""
    for kind in KINDS:
        for place, folders, files in os.walk(os.path.join(folder, kind)):
            folders.sort()
            for file in sorted(files):
                if file.endswith(".onnx"):
                    path = os.path.join(place, file)
                    yield os.path.relpath(path, folder).removesuffix("/model.onnx"), path


def read_value(path, declared):
    with open(path, "rb") as file:
        raw = file.read()
    kind = declared.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def feeds_of(path, model):
    """The inputs of every data set of a test."""
    folder = os.path.dirname(path)
    given = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in given] or list(model.graph.input)
    for data in sorted(d for d in os.listdir(folder) if d.startswith("test_data_set_")):
        place = os.path.join(folder, data)
        count = len([f for f in os.listdir(place) if f.startswith("input_")])
        names = list(model.graph.input)[:count] if count > len(inputs) else inputs[:count]
        yield {value.name: read_value(os.path.join(place, f"input_{i}.pb"), value) for i, value in enumerate(names)}


def run_model(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def arrays(value):
    return [a for each in value for a in arrays(each)] if isinstance(value, (list, tuple)) else [value]


def output_error(before, after):
    """The largest error of a real output, squared, over its variance; None without a real output."""
    worst = None
    for a, b in zip(arrays(before), arrays(after)):
        if not isinstance(a, np.ndarray) or a.dtype.kind not in "fc" or a.size == 0:
            continue
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return np.inf
        whole = np.isfinite(a)
        a, b = a[whole].astype(np.complex128), b[whole].astype(np.complex128)
        if a.size == 0:
            continue
        spread = float((np.abs(a - a.mean()) ** 2).sum()) or float((np.abs(a) ** 2).sum())
        off = float((np.abs(a - b) ** 2).sum())
        worst = max(worst or 0.0, off / spread if spread else (np.inf if off else 0.0))
    return worst


def operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from operators(attribute.g)


def jumps_of(model):
    return sorted(JUMPS.intersection(operators(model.graph)) | JUMPS.intersection(n.op_type for f in model.functions for n in f.node))


class Suite:
    def __init__(self, program):
        self.program = program
        self.rows = []

    def cli(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stderr.strip()

    def through(self, path, work, *options):
        """@return (status, message, expanded file)"""
        packed, back = os.path.join(work, "m.gbz"), os.path.join(work, "back.onnx")
        status, told = self.cli("compress", path, "-o", packed, "--force", "-q", *options)
        if status:
            return status, told, None
        status, told = self.cli("expand", packed, "-o", back, "--force")
        return status, told, back

    def exact(self, row, path, work):
        status, told, back = self.through(path, work, "--mode", "exact")
        if status:
            row["exact"] = "no weights" if NO_WEIGHTS in told else f"status {status}: {told}"
            return row["exact"] == "no weights"
        with open(path, "rb") as a, open(back, "rb") as b:
            row["exact"] = "identical" if a.read() == b.read() else "differs"
        onnx.load(back)
        return True

    def lossy(self, row, path, work):
        status, told, back = self.through(path, work, "--max-error", MAX_ERROR)
        row["lossy"] = f"status {status}: {told}" if status else "done"
        if status:
            return
        model = onnx.load(path)
        row["jumps"] = jumps_of(model)
        try:
            feeds = list(feeds_of(path, model))
            before = [run_model(path, each) for each in feeds]
        except Exception as error:  # onnxruntime's own kinds: not every model of the suite is one of its
            row["runs"] = f"no: {str(error).splitlines()[0][:120]}"
            return
        if not feeds:
            row["runs"] = "no: no inputs"
            return
        again = [run_model(path, each) for each in feeds]
        errors = [output_error(a, b) for a, b in zip(before, [run_model(back, each) for each in feeds])]
        row["own"] = max([output_error(a, b) or 0.0 for a, b in zip(before, again)], default=0.0)
        row["runs"] = "yes"
        row["error"] = max([e for e in errors if e is not None], default=None)

    def one(self, name, path, work):
        row = {"name": name}
        self.rows.append(row)
        if self.exact(row, path, work) and row["exact"] != "no weights":
            self.lossy(row, path, work)


def passes(rows):
    """Prints what was found. @return whether all conditions hold"""
    held = [r for r in rows if r["exact"] != "no weights"]
    wrong = [r for r in held if r["exact"] != "identical"] + [r for r in held if r.get("lossy", "done") != "done"]
    measured = [r for r in held if r.get("error") is not None]
    counted = [r for r in measured if r["error"] <= MOST_OUTPUT_ERROR or not (r["jumps"] or r["own"] > 0)]
    good = [r for r in counted if r["error"] <= MOST_OUTPUT_ERROR]
    print(f"{len(rows)} models, {len(held)} with tensors, {sum(r['exact'] == 'identical' for r in held)} identical in exact mode")
    print(f"{sum(r.get('runs') == 'yes' for r in held)} run with the suite's inputs, {len(measured)} have real outputs, "
          f"{len(measured) - len(counted)} of them jump and are off; of the other {len(counted)}, {len(good)} have an error of at "
          f"most {MOST_OUTPUT_ERROR:g}")
    for row in wrong:
        print(f"WRONG {row['name']}: exact {row['exact']}, lossy {row.get('lossy')}")
    for row in sorted(measured, key=lambda r: -r["error"]):
        if row["error"] > MOST_OUTPUT_ERROR:
            print(f"{'jumps' if row['jumps'] or row['own'] else 'OFF'} {row['error']:.3g} {row['name']} {' '.join(row['jumps'])}")
    return not wrong and len(good) >= LEAST_SHARE * len(counted)


def main():
    given = arguments()
    shipped = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    models = dict(models_in(shipped))
    if given.data:
        generate(given.data)
        models.update(models_in(given.data))
    chosen = [item for item in sorted(models.items()) if given.only in item[0]]
    if given.sample:
        chosen = chosen[:: given.sample]
    suite = Suite(given.program)
    with tempfile.TemporaryDirectory(prefix="gbc-onnx-suite-") as work:
        for name, path in chosen:
            suite.one(name, path, work)
    if given.report:
        with open(given.report, "w", encoding="utf-8") as file:
            json.dump(suite.rows, file, indent=1)
    if not suite.rows:
        print("skipped: the onnx package ships no models here")
        sys.exit(77)
    sys.exit(0 if passes(suite.rows) else 1)


if __name__ == "__main__":
    main()
