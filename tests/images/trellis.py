"""Trellis-coded quantization: two quantizers with a union codebook of half steps, and the path that Viterbi's algorithm chooses.
The rule of states is that of docs/reference/codec.md, with the 8 states that can be drawn in place of 128."""
import random

from drawing import BLUE, GRAY, GREEN, INK, LINE, ORANGE, PURPLE, Drawing

NAME = "trellis"
STATES, FEEDBACK, PARITY = 8, 7, 2
MANY, DEVIATION = 1000, 1.5  # values of a normal distribution, in steps; the first ones are drawn
SHOWN = 8
COLORS = {(0, 0): BLUE, (0, 1): ORANGE, (1, 0): GREEN, (1, 1): PURPLE}  # (quantizer, parity)
REACH = 3
LEFT, TOP, COLUMN, ROW = 80, 244, 78, 26


def after(state, odd):
    return state >> 1 ^ (FEEDBACK if state & 1 else 0) ^ (PARITY if odd else 0)


def value_of(quantizer, integer):
    """In steps."""
    return integer - quantizer * ((integer > 0) - (integer < 0)) / 2


def nearest(value, quantizer, odd):
    return min((k for k in range(-9, 10) if k & 1 == odd), key=lambda k: (value - value_of(quantizer, k)) ** 2)


def best_path(values):
    """(integers, states: one more) with the least sum of squared errors, from state 0."""
    paths = {0: (0.0, [], [0])}
    for value in values:
        found = {}
        for state, (cost, integers, states) in paths.items():
            for odd in (0, 1):
                integer = nearest(value, state & 1, odd)
                to = after(state, odd)
                new = cost + (value - value_of(state & 1, integer)) ** 2
                if to not in found or new < found[to][0]:
                    found[to] = (new, integers + [integer], states + [to])
        paths = found
    return min(paths.values())[1:]


def mean_errors(values):
    """Mean squared errors in squared steps: of the path, of rounding to the nearest integer."""
    integers, states = best_path(values)
    path = sum((value - value_of(state & 1, k)) ** 2 for value, state, k in zip(values, states, integers))
    return path / len(values), sum((value - round(value)) ** 2 for value in values) / len(values)


def codebooks(picture):
    scale, middle = 92, 408
    picture.text(16, 24, "Two quantizers; together they have a value at every half step", bold=True)
    for quantizer, y in ((0, 62), (1, 112)):
        picture.text(16, y + 4, f"quantizer {quantizer}")
        picture.text(16, y + 20, "even states" if quantizer == 0 else "odd states", color=GRAY, size=12)
        picture.path([(middle - scale * 3.3, y), (middle + scale * 3.3, y)], LINE)
        for k in range(-REACH, REACH + 1):
            x, color = middle + scale * value_of(quantizer, k), COLORS[quantizer, k & 1]
            picture.dot(x, y, 6, color)
            picture.text(x, y - 12, f"{k}", "middle", 12, color)
    for half in range(-2 * REACH, 2 * REACH + 1):
        x = middle + scale * half / 2
        picture.path([(x, 134), (x, 140)])
        picture.text(x, 156, f"{half / 2:g}", "middle", 12, GRAY)
    picture.text(middle, 176, "value, in steps; above each point its integer k", "middle", 12, GRAY)


def branches(picture, states):
    for column in range(SHOWN):
        before = {0}
        for _ in range(column):
            before = {after(state, odd) for state in before for odd in (0, 1)}
        for state in sorted(before):
            for odd in (0, 1):
                picture.path(line(column, state, after(state, odd)), COLORS[state & 1, odd], 0.8)
    for column, (state, to) in enumerate(zip(states, states[1:])):
        odd = int(after(state, 1) == to)
        picture.path(line(column, state, to), COLORS[state & 1, odd], 4)
    for column in range(SHOWN + 1):
        for state in range(STATES):
            on = states[column] == state
            picture.dot(LEFT + COLUMN * column, TOP + ROW * state, 5 if on else 3, INK if on else "#ffffff", INK)


def line(column, state, to):
    return [(LEFT + COLUMN * column, TOP + ROW * state), (LEFT + COLUMN * (column + 1), TOP + ROW * to)]


def table(picture, values, integers, states):
    """Below each step of the path: the value, its integer, what that stands for, and the nearest integer."""
    top = TOP + ROW * 7 + 34
    stand = [value_of(state & 1, k) for state, k in zip(states, integers)]
    rows = (("value", [f"{value:.2f}" for value in values]), ("integer k", [str(k) for k in integers]),
            ("stands for", [f"{kept:g}" for kept in stand]), ("rounded", [str(round(value)) for value in values]))
    for i, (name, entries) in enumerate(rows):
        picture.text(16, top + 22 * i, name, size=12, color=GRAY)
        for column, entry in enumerate(entries):
            color = COLORS[states[column] & 1, integers[column] & 1] if name == "integer k" else GRAY if name == "rounded" else INK
            picture.text(LEFT + COLUMN * (column + 0.5), top + 22 * i, entry, "middle", color=color, bold=name == "integer k")


def drawn():
    source = random.Random(0)
    values = [round(source.gauss(0, DEVIATION), 2) for _ in range(MANY)]
    integers, states = best_path(values[:SHOWN])
    path, rounded = mean_errors(values)
    picture = Drawing("Trellis-coded quantization: two quantizers and a path through states", 760, TOP + ROW * 7 + 152)
    codebooks(picture)
    picture.text(16, 210, "The parity of k selects the next state; the path with the least error is taken", bold=True)
    for state in range(STATES):
        picture.text(LEFT - 14, TOP + ROW * state + 4, f"{state}", "end", 12, GRAY)
    picture.text(24, TOP + ROW * 3.5, "state", "middle", 12, GRAY, turn=-90)
    branches(picture, states)
    table(picture, values[:SHOWN], integers, states)
    picture.text(16, TOP + ROW * 7 + 134, f"Mean squared error, in squared steps, of {MANY:,} normal values of deviation {DEVIATION:g}: {path:.3f} on the path, "
                 f"{rounded:.3f} rounded.", size=12, color=GRAY)
    return picture.svg()
