"""Decodes the integers of a .gbz file, written from docs/codec.md alone: slow, plain, exact.

decode_integers("small" or "fast", stream, [(rows, cols, stride, dependent), ...]) gives one array for
each grid.
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
    result = [np.array(decoder.tensor(*grid), np.int32).reshape(grid[:2]) for grid in grids]
    decoder.finish()
    return result
