"""Elements of tensors as bytes and as float32 numbers."""

import numpy as np

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E5M2FNUZ": 8, "F8_E4M3FNUZ": 8,
    "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}
NUMPY = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "BF16": "<u2",
    "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8", "C64": "<c8",
}
F32 = np.float32


def to_bytes(values, dtype):
    if dtype == "BF16":
        bits = values.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(
            "<u2").tobytes()
    with np.errstate(over="ignore"):
        return values.astype(NUMPY[dtype]).tobytes()


def from_bytes(content, dtype):
    """float32 numbers."""
    if dtype == "BF16":
        return (np.frombuffer(content, "<u2").astype(np.uint32) << np.uint32(16)).view(F32)
    return np.frombuffer(content, NUMPY[dtype]).astype(F32)
