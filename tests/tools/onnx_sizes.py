"""What the float32, float16 and int8 file of an ONNX model take, as they are and compressed.

    python tests/tools/onnx_sizes.py GBCOMPRESS MODEL.onnx [--json]

Prints one JSON object, of which tests/tools/record makes a record: bytes of each file, of `xz -9e`, of `brotli -q 11`
and of `gbcompress compress` with --mode exact, --ratio 4 and --ratio 8. float16 is
onnxruntime.transformers.float16 with float32 inputs and outputs; int8 is quantize_dynamic() of onnxruntime.quantization,
unsigned weights. Needs the packages onnx, onnxruntime and brotli."""
import json
import logging
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

import brotli
import onnx
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.transformers import float16

LOSSY = {"float32": ("4", "8"), "float16": ("4", "8"), "int8": ()}


def half(source, target):
    onnx.save(float16.convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def whole(source, target):
    quantize_dynamic(source, target)


def compressed(program, model, *options):
    """Bytes of the .gbz, or None where the target is out of reach."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "compress", str(model), "-o", f"{folder}/m.gbz", "-q", "--json", *options],
                              capture_output=True, text=True, check=False)
        if done.returncode not in (0, 4):
            raise SystemExit(done.stderr)
        return json.loads(done.stdout)["output_bytes"] if done.returncode == 0 else None


def sizes(program, kind, model):
    raw = model.read_bytes()
    found = {"bytes": len(raw),
             "xz": len(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)),
             "brotli": len(brotli.compress(raw, quality=11, lgwin=24)),
             "exact": compressed(program, model, "--mode", "exact")}
    found |= {f"ratio {ratio}": compressed(program, model, "--ratio", ratio) for ratio in LOSSY[kind]}
    return [{"name": f"{kind} {name}", "value": value} for name, value in found.items() if value is not None]


def main():
    logging.disable(logging.WARNING)
    program, source = sys.argv[1], Path(sys.argv[2])
    figures = sizes(program, "float32", source)
    with tempfile.TemporaryDirectory() as folder:
        for kind, make in (("float16", half), ("int8", whole)):
            model = Path(folder) / f"{kind}.onnx"
            make(source, model)
            figures += sizes(program, kind, model)
    print(json.dumps({"input_bytes": source.stat().st_size, "figures": figures}))


if __name__ == "__main__":
    main()
