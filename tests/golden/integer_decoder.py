"""Decodes the integers of a .gbz file, written from docs/codec.md alone: slow, plain, exact.

decode_integers("small" or "fast", stream, [(rows, cols, stride, kind, classes), ...]) gives one
array for each grid; kind: 0, 1 (dependent) or 2 (wide); classes: None, or a function of the arrays
before that gives the prior class of each value.
"""

import numpy as np

from fast_decoder import Fast
from integer_common import BadStream, next_state
from small_decoder import Small

__all__ = ["BadStream", "decode_integers", "states_of"]


def states_of(values):
    """The state before each of a grid's dependent integers, row after row."""
    states, state = [], 0
    for value in values:
        states.append(state)
        state = next_state(state, int(value))
    return states


def decode_integers(profile, stream, grids):
    decoder = Small(stream) if profile == "small" else Fast(stream)
    result = []
    for rows, cols, stride, kind, classes in grids:
        prior = classes(result) if classes else None
        values = decoder.tensor(rows, cols, stride, kind, prior)
        result.append(np.array(values, np.int32).reshape(rows, cols))
    decoder.finish()
    return result
