"""Tensors of pieces, written from docs/reference/exact-deltas.md alone."""

from delta_decoder import apply_change
from element_bytes import BITS
from reader_parts import known, need, product, unpack

FLOATS = ("F16", "BF16", "F32", "F64")


class Piece:
    def __init__(self, entry, tensor, at):
        """@param at  the tensor's elements before it"""
        known(entry, "ibnaezyf", "a piece")
        self.entry, self.count, self.base = entry, entry["i"], entry.get("b")
        self.own = self.base is None and "a" in entry
        self.first, self.name = entry.get("a", 0), entry.get("n", tensor.name)
        need(self.count >= 1 and (self.base is None or self.base >= 1), "a bad piece")
        need(not self.own or self.first + self.count <= at, "a piece of what follows it")
        need("n" not in entry or (self.base and entry["n"]), "a name of no base")
        if self.base or self.own:
            need(not set(entry) & set("zyf"), "a piece of two kinds")
            need("e" not in entry or tensor.dtype != "C64", "a change of what has none")
        else:
            need("e" not in entry and len(set(entry) & set("zyf")) <= 1, "a bad piece")
        self.bytes = self.count * BITS[tensor.dtype] // 8
        self.stored = entry.get("e", 0) if self.base or self.own else \
            next((entry[key] for key in "zyf" if key in entry), self.bytes)


def read_pieces(tensor):
    need(BITS[tensor.dtype] % 8 == 0 and 1 <= len(tensor.entry["p"]) <= 65536, "bad pieces")
    pieces, at = [], 0
    for entry in tensor.entry["p"]:
        pieces.append(Piece(entry, tensor, at))
        at += pieces[-1].count
    need(at == product(tensor.shape), "pieces that are not the tensor")
    return pieces


def join_pieces(tensor, section, bases):
    """The tensor's bytes. @param bases  {name: (dtype, shape, bytes)} of each"""
    width, made, at = BITS[tensor.dtype] // 8, b"", 0
    for piece in tensor.pieces:
        stored = section[at:at + piece.stored]
        at += piece.stored
        if not piece.base and not piece.own:
            need("f" not in piece.entry or tensor.dtype in FLOATS or tensor.dtype.startswith("F8"), "planes of no floats")
            made += unpack(stored, piece.entry, piece.bytes, width)
            continue
        source = made
        if piece.base:
            need(piece.name in bases[piece.base - 1], "the base lacks a tensor")
            dtype, _, source = bases[piece.base - 1][piece.name]
            need(dtype == tensor.dtype, "the base does not fit")
        content = source[piece.first * width:(piece.first + piece.count) * width]
        need(len(content) == piece.bytes, "the base has fewer elements")
        if "e" in piece.entry:
            row = tensor.shape[-1] if len(tensor.shape) > 1 else 0
            shape = [piece.count // row, row] if row and piece.count % row == 0 else [piece.count]
            content = apply_change(stored, content, width, tensor.dtype, shape)
        made += content
    return made
