"""Joins the sources of sdk/web/src and a WebAssembly module to gbz.mjs, and makes the package for npm.

    python3 sdk/web/pack.py MODULES OUTPUT

MODULES holds first/simd.wasm, without the parts that many files do not need, for gbz.mjs and, as a file of its own, for
gbz-wasm.mjs; wasm/simd.wasm with all of them for gbz-all.mjs, which gbz.mjs loads for files that need them; and wasm/scalar.wasm for gbz-scalar.mjs, which it
loads where SIMD128 is missing. OUTPUT becomes the folder of the package, in which `npm pack` works too. The package is the same for the same
sources, whenever and wherever it is made.
"""
import base64
import gzip
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = ("decoder.js", "file.js", "source.js", "workers.js")


def version():
    text = (ROOT / "core/include/gbcompress/version.h").read_text()
    return ".".join(re.search(rf"define GBC_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def packed(module):
    """A module as text: base64 of its DEFLATE stream, which zopfli makes 5 % smaller than zlib."""
    stream = subprocess.run(["zopfli", "--deflate", "-c", str(module)], check=True, stdout=subprocess.PIPE).stdout
    assert zlib.decompress(stream, -15) == module.read_bytes()
    return base64.b64encode(stream).decode()


def without_comments(text):
    """Without lines that are comments alone, and without indentation: a third of the size."""
    text = re.sub(r"^\s*/\*\*.*?\*/\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^\s*//.*\n", "", text, flags=re.M)
    text = re.sub(r"; {2,}//.*$", ";", text, flags=re.M)
    return re.sub(r"^\s+", "", text, flags=re.M)


def script(first, *before):
    """The module. `first`: an expression of the bytes of the first WebAssembly module."""
    given = {"VERSION": version(), "FIRST": first}
    head = re.sub("|".join(given), lambda found: given[found[0]], (HERE / "src/module.js").read_text())
    parts = [*((HERE / "src" / part).read_text() for part in before), head, *((HERE / "src" / part).read_text() for part in PARTS)]
    return f"// gbcompress {version()}, Apache-2.0\n" + "".join(map(without_comments, parts))


def package(files, path):
    """What `npm pack` writes: a folder `package`, with times and owners that are fixed."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, 499162500  # npm's own time
            archive.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(data.getvalue(), 9, mtime=0))


def main(modules, output):
    output.mkdir(parents=True, exist_ok=True)
    files = {
        "gbz.mjs": script(f'unpack("{packed(modules / "first/simd.wasm")}")').encode(),
        "gbz-wasm.mjs": script('beside(new URL("gbz.wasm", import.meta.url))', "beside.js").encode(),
        "gbz.wasm": (modules / "first/simd.wasm").read_bytes(),
        "gbz-all.mjs": f'export default "{packed(modules / "wasm/simd.wasm")}";\n'.encode(),
        "gbz-scalar.mjs": f'export default "{packed(modules / "wasm/scalar.wasm")}";\n'.encode(),
        "gbz.d.ts": (HERE / "src/gbz.d.ts").read_bytes(),
        "README.md": (HERE / "README.md").read_bytes(),
        "THIRD-PARTY.txt": (HERE / "THIRD-PARTY.txt").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "package.json": (HERE / "package.json").read_text().replace("VERSION", version()).encode(),
    }
    for name, content in files.items():
        (output / name).write_bytes(content)
    for old in output.glob("gbcompress-*.tgz"):
        old.unlink()
    path = output / f"gbcompress-{version()}.tgz"
    package(files, path)
    for name in ("gbz.mjs", "gbz-wasm.mjs", "gbz.wasm"):
        print(f"{output / name}: {len(files[name])} bytes")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:]))
