"""Empty stand-ins for the CUDA libraries that PyTorch's wheel names and a processor never calls.

  python3 stand_ins.py FOLDER TORCH_LIB

PyPI's torch for Linux is linked with cuBLAS, cuDNN, NCCL and others, two gigabytes that have to be there before
`import torch` works. This makes shared libraries of the same names, versions and symbols, in FOLDER, for all that are
missing beside the libraries of TORCH_LIB. Calling one of their functions ends the program.
"""

import os
import re
import subprocess
import sys

PREFIX = {  # what the names of a library's functions begin with; the longest that fits decides
    "libcublas.so": "cublas", "libcublasLt.so": "cublasLt", "libcudnn.so": "cudnn", "libcufft.so": "cufft",
    "libcufile.so": "cuFile", "libcurand.so": "curand", "libcusparse.so": "cusparse",
    "libcusparseLt.so": "cusparseLt", "libnccl.so": "nccl", "libnvshmem_host.so": "nvshmem",
}
NEEDED_BY = ("libtorch_cuda.so", "libtorch_nvshmem.so", "libtorch_python.so")


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def wanted(torch_lib):
    """{library: {symbol: version or ""}} of the libraries above that NEEDED_BY name."""
    libraries, symbols = set(), {}
    for file in NEEDED_BY:
        path = os.path.join(torch_lib, file)
        if not os.path.exists(path):
            continue
        libraries.update(re.findall(r"NEEDED.*\[(.*)\]", said("readelf", "-dW", path)))
        symbols.update((name, version) for name, version in
                       re.findall(r" U (\w+)(?:@+(\S+))?$", said("nm", "-D", "--undefined-only", path), re.M))
    found = {library: {} for library in libraries if re.sub(r"\.so.*", ".so", library) in PREFIX}
    prefixes = {PREFIX[re.sub(r"\.so.*", ".so", library)]: library for library in found}
    for name, version in symbols.items():
        fits = [p for p in prefixes if name.startswith(p)]
        if fits:
            found[prefixes[max(fits, key=len)]][name] = version
    return found


def build(folder, library, symbols):
    base = os.path.join(folder, library)
    with open(base + ".c", "w") as source:
        source.writelines(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(symbols))
    versions = sorted(set(symbols.values()) - {""})
    with open(base + ".map", "w") as script:
        script.writelines("%s { %s };\n" % (v, " ".join(n + ";" for n in sorted(symbols) if symbols[n] == v))
                          for v in versions)
    options = [f"-Wl,--version-script={base}.map"] if versions else []
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library}", *options, base + ".c", "-o", base],
                   check=True)
    os.remove(base + ".c")
    os.remove(base + ".map")


def main():
    folder, torch_lib = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for library, symbols in sorted(wanted(torch_lib).items()):
        build(folder, library, symbols)


if __name__ == "__main__":
    main()
