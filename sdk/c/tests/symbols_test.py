"""libgbz by its symbols alone: what a caller in another language declares (docs/reference/c-api.md) fits the library.

The argument is the shared library, the second one the folder of golden files.
"""
import ctypes as c
import hashlib
import json
import pathlib
import sys

LIBRARY, GOLDEN = c.CDLL(sys.argv[1]), pathlib.Path(sys.argv[2])


def record(*fields):
    return type("Record", (c.Structure,), {"_fields_": fields})


Error = record(("status", c.c_int), ("text", c.c_char * 508))
TAKE, GIVE = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t), c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)
Allocator = record(("allocate", TAKE), ("release", GIVE), ("context", c.c_void_p))
Options = record(("allocator", Allocator), ("memory_bytes", c.c_uint64), ("output_bytes", c.c_uint64), ("partial", c.c_int))
Range = record(("offset", c.c_uint64), ("bytes", c.c_uint64))
for name, result in {"gbz_name": c.c_char_p, "gbz_shape": c.POINTER(c.c_int64), "gbz_bytes": c.c_uint64, "gbz_count": c.c_size_t,
                     "gbz_find": c.c_size_t, "gbz_ranges": c.c_size_t, "gbz_header_bytes": c.c_uint64, "gbz_bits": c.c_double,
                     "gbz_identity": c.c_char_p, "gbz_close": None}.items():
    getattr(LIBRARY, name).restype = result

content = (GOLDEN / "v2/coded_lanes.gbz").read_bytes()
libc, taken = c.CDLL(None), []
libc.malloc.restype = c.c_void_p
give = GIVE(lambda _, memory: libc.free(c.c_void_p(memory)))
options = Options(Allocator(TAKE(lambda context, size: taken.append((context, size)) or libc.malloc(c.c_size_t(size))), give, 7), 0, 1, 0)
file, error = c.c_void_p(), Error()
assert LIBRARY.gbz_open(content, c.c_size_t(len(content)), c.byref(options), c.byref(file), c.byref(error)) == 9, "output_bytes"
assert error.status == 9 and error.text and taken[0][0] == 7
options.output_bytes, options.partial = 0, 1
assert LIBRARY.gbz_open(content, c.c_size_t(len(content)), c.byref(options), c.byref(file), c.byref(error)) == 0, error.text
assert LIBRARY.gbz_identity(file) == b"" and error.text == b"", "partial"
for name, digest in json.loads((GOLDEN / "v2/digests.json").read_text())["coded_lanes"].items():
    i, rank = c.c_size_t(LIBRARY.gbz_find(file, name.encode())), c.c_size_t()
    kind, size = LIBRARY.gbz_type(file, i), LIBRARY.gbz_bytes(file, i, LIBRARY.gbz_type(file, i))
    sides, out = LIBRARY.gbz_shape(file, i, c.byref(rank)), c.create_string_buffer(size)
    ranges = (Range * 8)()
    assert all(r.offset + r.bytes <= len(content) for r in ranges[:LIBRARY.gbz_ranges(file, i, ranges, c.c_size_t(8))])
    assert len(sides[:rank.value]) <= 8 and LIBRARY.gbz_name(file, i) == name.encode()
    assert LIBRARY.gbz_read(file, i, kind, out, c.c_size_t(size), c.byref(error)) == 0, error.text
    assert hashlib.sha256(out.raw).hexdigest() == digest, name
LIBRARY.gbz_close(file)
