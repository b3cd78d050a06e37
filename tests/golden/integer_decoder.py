"""Decodes the integers of a .gbz file, written from docs/reference/{codec,lanes}.md alone: slow, plain, exact.

decode_integers(stream, [(rows, cols, stride, kind, classes), ...]), of the profile small, gives one
array for each grid; kind: 0, 1 (dependent) or 2 (wide); classes: None, or a function of the arrays
before that gives the prior class of each value.
"""

import numpy as np

from integer_common import BadStream, need, next_state
from lanes_decoder import Lanes, states_in_lanes
from small_decoder import Small

__all__ = ["BadStream", "decode_integers", "decode_lanes", "states_in_lanes", "states_of"]


def states_of(values):
    """The state before each of a grid's dependent integers, row after row."""
    states, state = [], 0
    for value in values:
        states.append(state)
        state = next_state(state, int(value))
    return states


def decode_integers(stream, grids):
    decoder = Small(stream)
    result = []
    for rows, cols, stride, kind, classes in grids:
        prior = classes(result) if classes else None
        values = decoder.tensor(rows, cols, stride, kind, prior)
        result.append(np.array(values, np.int32).reshape(rows, cols))
    decoder.finish()
    return result


def decode_lanes(content, sizes, grids):
    """The same for the head and the stripes of a file, of these sizes."""
    parts, at = [], 0
    for size in sizes:
        need(size <= len(content) - at, "a stripe goes beyond the file")
        parts.append(content[at:at + size])
        at += size
    need(at == len(content), "bytes between the stripes and the digest")
    decoder = Lanes(parts[0], parts[1:])
    result = [np.array(decoder.grid(rows, cols, kind == 1), np.int32).reshape(rows, cols)
              for rows, cols, _, kind, _ in grids]
    decoder.finish()
    return result
