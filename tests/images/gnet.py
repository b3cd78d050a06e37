"""A g-net: from the position of a weight in a tile to the weight. Sizes are those of the default specification of a linear layer."""
from drawing import BLUE, GRAY, GREEN, INK, LINE, ORANGE, PURPLE, Drawing

NAME = "gnet"
ROWS, COLUMNS, SIDE, HIDDEN = 300, 784, 100, 32
ROW, COLUMN = 41, 86  # of the weight in its tile
BITS = (SIDE - 1).bit_length()
PARAMETERS = 2 * BITS * HIDDEN + HIDDEN + HIDDEN + 1
TOP, PIXEL = 66, 0.28  # pixels of a weight


def matrix(picture):
    """The matrix and its tiles, one of them marked."""
    picture.text(16, 24, "Parameter, cut into tiles", bold=True)
    picture.text(16, 46, f"{ROWS} x {COLUMNS} weights, tiles of {SIDE} x {SIDE}", color=GRAY, size=12)
    for row in range(0, ROWS, SIDE):
        for column in range(0, COLUMNS, SIDE):
            marked = (row, column) == (SIDE, 2 * SIDE)
            picture.box(16 + column * PIXEL, TOP + row * PIXEL, min(SIDE, COLUMNS - column) * PIXEL, SIDE * PIXEL,
                        "#cfe8dd" if marked else "#ffffff", GREEN if marked else GRAY, 0)


def tile(picture, x, y, side):
    picture.box(x, y, side, side, "#e9f5f0", GREEN, 0)
    row, column = y + (ROW + 0.5) / SIDE * side, x + (COLUMN + 0.5) / SIDE * side
    picture.path([(x, row), (column, row)], ORANGE, 1, "3 3")
    picture.path([(column, y), (column, row)], BLUE, 1, "3 3")
    picture.dot(column, row, 4, PURPLE)
    picture.text(x - 8, row + 4, f"row {ROW}", "end", 12, ORANGE)
    picture.text(column, y + side + 18, f"column {COLUMN}", "middle", 12, BLUE)


def code(picture, x, y, value, color, label):
    """The bits of an index, the highest first, as cells from top to bottom; gives the middles of the cells."""
    picture.text(x - 6, y + BITS * 9 + 4, label, "end", 12, color)
    for i, bit in enumerate(f"{value:0{BITS}b}"):
        picture.box(x, y + 18 * i, 22, 18, "#ffffff", color, 0)
        picture.text(x + 11, y + 18 * i + 13, bit, "middle", 12, color)
    return [y + 18 * i + 9 for i in range(BITS)]


def network(picture, x, inputs):
    """14 inputs, hidden units of which some are drawn, one output at (x + 190, its y)."""
    middle = (inputs[0] + inputs[-1]) / 2
    hidden = [middle + 34 * (i - 3) for i in range(7)]
    for y in inputs:
        for unit, at in enumerate(hidden):
            if unit != 5:
                picture.path([(x, y), (x + 96, at)], LINE, 0.7)
    for unit, y in enumerate(hidden):
        if unit == 5:
            picture.text(x + 96, y + 3, "...", "middle")
            continue
        picture.path([(x + 96, y), (x + 184, middle)], GRAY, 0.7)
        picture.dot(x + 96, y, 7, "#ffffff", INK)
    picture.dot(x + 184, middle, 8, "#ffffff", INK)
    return x + 184, middle


def drawn():
    picture = Drawing("A g-net: position, codes, network, weight", 760, 416)
    matrix(picture)
    side, top = 130, 196
    tile(picture, 80, top, side)
    for corner, to in ((2, 80), (3, 80 + side)):
        picture.path([(16 + corner * SIDE * PIXEL, TOP + 2 * SIDE * PIXEL), (to, top)], GREEN, 1, "2 3")
    picture.text(366, 24, "Position code", "middle", bold=True)
    picture.text(366, 46, f"binary, {2 * BITS} inputs", "middle", 12, GRAY)
    first = code(picture, 366, TOP + 6, ROW, ORANGE, f"row {ROW}")
    second = code(picture, 366, TOP + 6 + 18 * BITS + 14, COLUMN, BLUE, f"column {COLUMN}")
    picture.arrow([(224, 250), (276, 216)])
    picture.text(520, 24, "G-net", "middle", bold=True)
    picture.text(520, 46, f"MLP {2 * BITS}-{HIDDEN}-1, ReLU", "middle", 12, GRAY)
    x, y = network(picture, 390, first + second)
    picture.text(690, 24, "Weight", "middle", bold=True)
    picture.text(690, 46, "output times a scale", "middle", 12, GRAY)
    picture.arrow([(x + 10, y), (652, y)])
    picture.dot(664, y, 6, PURPLE)
    picture.text(676, y + 4, f"W[{ROW}, {COLUMN}]", color=PURPLE)
    picture.text(676, y + 22, "of this tile", color=GRAY, size=12)
    for i, line in enumerate((f"Each tile has its own g-net, here of {PARAMETERS} parameters. Tiles at the border are cropped.",
                              "Inputs are normalized over the tile to mean 0 and deviation 1. The parameters are trained through the weights.")):
        picture.text(16, 382 + 18 * i, line, size=12, color=GRAY)
    return picture.svg()
