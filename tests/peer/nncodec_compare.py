#!/usr/bin/env python3
"""NNCodec (ISO/IEC 15938-17, PyPI package nncodec) against us: bytes and seconds at equal error.

    nncodec_compare.py MODEL.safetensors [--gbcompress EXECUTABLE] [--python PYTHON] [--qp QP]...

PYTHON is an interpreter with nncodec, numpy and torch; the package compiles C++ when it is installed:

    python3 -m venv nncodec-venv && nncodec-venv/bin/pip install nncodec==2.1.3

For each quantization parameter NNCodec encodes the floating-point tensors with its best options
(dependent quantization, parameter optimisation, row skipping); its relative squared error, the sum of
squared differences over the sum of squares, is what `gbcompress compress --mode quantized --max-error`
is then asked for. Both files are decoded and measured here, by the same code, over all tensors but
those of batch norms: our files hold the same function of those in other numbers. Where the error so
measured is above NNCodec's, or 2 % below it, ours is asked again; the file that counts has the largest
error that is not above NNCodec's.
Bytes are those of files. NNCodec's seconds are of its encode() and decode() alone; ours are of the
whole process, which also reads and writes files and checks what it wrote. Processor seconds stand
beside them: on a shared machine they are what can be compared.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

QPS = (-38, -32, -26, -20)
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_floats(path):
    """The floating-point tensors of a safetensors file, as float32."""
    import numpy
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    result = {}
    for name, entry in header.items():
        kind = entry.get("dtype")
        if name == "__metadata__" or kind not in TYPES and kind != "BF16":
            continue
        raw = data[slice(*entry["data_offsets"])]
        if kind == "BF16":
            values = (numpy.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = numpy.frombuffer(raw, TYPES[kind]).astype("<f4")
        result[name] = values.reshape(entry["shape"])
    return result


def relative_error(tensors, decoded):
    import numpy
    error = squares = 0.0
    norms = {name.rpartition(".")[0] for name in tensors if name.endswith(".running_var")}
    for name, values in tensors.items():
        if name.rpartition(".")[0] in norms:
            continue
        wide = values.astype(numpy.float64)
        error += numpy.square(wide - numpy.asarray(decoded[name], numpy.float64).reshape(values.shape)).sum()
        squares += numpy.square(wide).sum()
    return float(error / squares)


def now():
    return time.perf_counter(), time.process_time()


def since(start, end):
    """[seconds, processor seconds]"""
    return [after - before for before, after in zip(start, end)]


def worker():
    """Serves "encode QP FILE" and "ours FILE" on lines of standard input, for one model."""
    import numpy
    from nncodec import nn
    tensors = read_floats(sys.argv[2])
    # NNCodec refuses infinities, which attention masks are made of.
    endless = sorted(name for name, values in tensors.items() if not numpy.isfinite(values).all())
    for name in endless:
        del tensors[name]
    print(json.dumps({"left out": endless, "numpy": numpy.__version__, "weights": sum(v.size for v in tensors.values())}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "ours":
            answer = {"error": relative_error(tensors, read_floats(request["file"]))}
        else:
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
                arguments = {"qp": request["qp"], "use_dq": True, "param_opt": True, "row_skipping": True,
                             "results": folder, "verbose": False}
                start = now()
                stream = nn.encode({name: values.copy() for name, values in tensors.items()}, arguments)
                middle = now()
                decoded = nn.decode(stream, arguments)
                end = now()
            pathlib.Path(request["file"]).write_bytes(bytes(stream))
            answer = {"error": relative_error(tensors, decoded), "encode": since(start, middle),
                      "decode": since(middle, end)}
        print(json.dumps(answer), flush=True)


def timed(command, environment):
    """[seconds, processor seconds] of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
    return [seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]


def compare(arguments, executable, theirs, folder):
    def ask(**request):
        theirs.stdin.write(json.dumps(request) + "\n")
        theirs.stdin.flush()
        answer = theirs.stdout.readline()
        if not answer:
            theirs.wait()
            sys.exit("NNCodec's side ended; its last words:\n" +
                     pathlib.Path(folder, "stderr").read_text()[-2000:])
        return json.loads(answer)

    environment = dict(os.environ)
    if arguments.threads:
        environment["OMP_NUM_THREADS"] = str(arguments.threads)
    stream, packed, expanded = (os.path.join(folder, name) for name in ("theirs.nnc", "ours.gbz", "ours.safetensors"))
    print(f"{'qp':>4}{'':12}{'bytes':>12}{'bits':>7}{'error':>12}{'encode':>10}{'(cpu)':>9}{'decode':>10}{'(cpu)':>9}")
    rows = []
    for qp in arguments.qp or QPS:
        row = {"qp": qp, "nncodec": ask(what="encode", qp=qp, file=stream), "gbcompress": {}}
        row["nncodec"]["bytes"] = os.stat(stream).st_size
        wanted, low, high = row["nncodec"]["error"], 0.0, None
        asked = wanted
        def run_ours(asked):
            return {"encode": timed([executable, "compress", arguments.model, "-o", packed, "--force", "--quiet",
                                     "--mode", "quantized", "--max-error", repr(asked), *arguments.set], environment),
                    "decode": timed([executable, "expand", packed, "-o", expanded, "--force", "--quiet"], environment)}

        for attempt in range(9):
            ours = {"asked": asked, **run_ours(asked), "bytes": os.stat(packed).st_size,
                    **ask(what="ours", file=expanded)}
            if ours["error"] > wanted:
                high = asked
            else:
                low = asked
                if ours["error"] > row["gbcompress"].get("error", -1):
                    row["gbcompress"] = ours
            if ours["error"] <= wanted and (ours["error"] >= 0.98 * wanted or attempt >= 3):
                break
            asked = asked * 0.99 * wanted / ours["error"] if high is None or not low else (low + high) / 2
        ours = row["gbcompress"]
        if not ours:
            sys.exit(f"no file of ours has an error of at most {wanted}")
        times = [(row["nncodec"], ours)]
        for _ in range(arguments.rounds - 1):  # sides take turns
            times.append((ask(what="encode", qp=qp, file=stream), run_ours(ours["asked"])))
        for key in ("encode", "decode"):
            for side, which in ((row["nncodec"], 0), (ours, 1)):
                side[key] = [statistics.median(pair[which][key][i] for pair in list(times)) for i in (0, 1)]
        for name in ("nncodec", "gbcompress"):
            side = row[name]
            print(f"{qp:>4} {name:11}{side['bytes']:>12,}{8 * side['bytes'] / arguments.weights:>7.3f}"
                  f"{side['error']:>12.6f}{side['encode'][0]:>9.2f}s{side['encode'][1]:>8.2f}s{side['decode'][0]:>9.2f}s"
                  f"{side['decode'][1]:>8.2f}s", flush=True)
        row["ratio"] = {"bytes": row["nncodec"]["bytes"] / ours["bytes"],
                        **{key: [a / b for a, b in zip(row["nncodec"][key], ours[key])] for key in ("encode", "decode")}}
        ratios = row["ratio"]
        print(f"     {'ratio':11}{ratios['bytes']:>12.3f}{'':19}{ratios['encode'][0]:>9.2f}x{ratios['encode'][1]:>8.2f}x"
              f"{ratios['decode'][0]:>9.2f}x{ratios['decode'][1]:>8.2f}x", flush=True)
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.safetensors")
    parser.add_argument("--gbcompress", default="gbcompress", metavar="EXECUTABLE")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with nncodec, numpy and torch")
    parser.add_argument("--qp", type=int, action="append", help="quantization parameter of NNCodec, larger is "
                        f"coarser; may be repeated (default: {', '.join(map(str, QPS))})")
    parser.add_argument("--rounds", type=int, default=1, help="how often both sides are timed, in turns; medians are printed")
    parser.add_argument("--threads", type=int, help="OMP_NUM_THREADS of both sides")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of gbcompress")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    arguments.set = [word for setting in arguments.set for word in ("--set", setting)]
    executable = shutil.which(arguments.gbcompress)
    if not executable:
        sys.exit(f"{arguments.gbcompress} is not an executable; name it with --gbcompress")
    if not os.path.isfile(arguments.model):
        sys.exit(f"{arguments.model} is not a file; name a safetensors file")
    environment = dict(os.environ)
    if arguments.threads:
        environment["OMP_NUM_THREADS"] = str(arguments.threads)
    found = subprocess.run([arguments.python, "-c", "from nncodec import nn; import importlib.metadata as m; "
                            "print(m.version('nncodec'))"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=environment)
    if found.returncode:
        sys.exit(f"{arguments.python} cannot use nncodec ({(found.stderr.strip().splitlines() or ['no message'])[-1]});"
                 "\nmake an environment for it and name its interpreter with --python:\n"
                 "  python3 -m venv nncodec-venv && nncodec-venv/bin/pip install nncodec==2.1.3")
    with tempfile.TemporaryDirectory(prefix="nncodec-") as folder, open(os.path.join(folder, "stderr"), "w") as errors:
        theirs = subprocess.Popen([arguments.python, "-B", os.path.abspath(__file__), "--worker", arguments.model],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                  env=environment)
        try:
            hello = theirs.stdout.readline()
            if not hello:
                theirs.wait()
                sys.exit("NNCodec's side did not start:\n" + pathlib.Path(folder, "stderr").read_text()[-2000:])
            hello = json.loads(hello)
            arguments.weights = hello["weights"]
            if hello["left out"]:
                print(f"not given to NNCodec, which refuses infinities: {', '.join(hello['left out'])}")
            print(f"{os.path.basename(arguments.model)}: {arguments.weights:,} weights; nncodec "
                  f"{found.stdout.split()[-1]}; load average {os.getloadavg()[0]:.2f}")
            rows = compare(arguments, executable, theirs, folder)
        finally:
            theirs.stdin.close()
            theirs.kill()
            theirs.wait()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker()
    else:
        main()
