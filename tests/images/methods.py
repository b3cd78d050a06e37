"""What a user has, the method for it, and its command."""
from drawing import BLUE, GRAY, GREEN, ORANGE, PURPLE, TEAL, Drawing

NAME = "methods"
ROW, FIRST = 78, 52
HAVE = ((0.5, "Weights alone", ""), (2, "Weights, and inputs", "a few hundred, no labels"),
        (3.5, "Weights, and labeled data", "and minutes to train"), (5, "An architecture", "and labeled data"))
#: Name, what it does, command, color.
METHODS = (
    ("Exact", "every value bit for bit", "gbcompress compress MODEL --lossless", BLUE),
    ("Data-free", "step sizes from the weights", "gbcompress compress MODEL --ratio 8", TEAL),
    ("Calibrated", "error feedback, no training", "gbcompress compress MODEL --arch A --data D --epochs 0 --ratio 20", GREEN),
    ("Trained", "with the rate in the loss", "gbcompress compress MODEL --arch A --data D", ORANGE),
    ("G-nets", "for research: networks that generate weights", "gbcompress compress MODEL --arch A --data D --mode generated --ratio 10",
     PURPLE),
    ("Trained from random weights", "with the rate in the loss", "gbcompress compress --from-scratch --arch A --data D --max-bytes 3kB", ORANGE))
#: (row of HAVE, row of METHODS)
ARROWS = ((0, 0), (0, 1), (1, 2), (2, 3), (2, 4), (3, 5))
LEFT, MIDDLE, WIDTH = 206, 246, 538


def drawn():
    picture = Drawing("From weights, inputs or data to the method and its command", 800, FIRST + ROW * len(METHODS) + 36)
    picture.text(16, 28, "You have", bold=True)
    picture.text(MIDDLE, 28, "Method and command", bold=True)
    for row, name, more in HAVE:
        y = FIRST + row * ROW
        picture.box(16, y, LEFT - 16, 60)
        picture.text(28, y + (26 if more else 34), name)
        picture.text(28, y + 46, more, color=GRAY, size=12) if more else None
    for row, (name, does, command, color) in enumerate(METHODS):
        y = FIRST + row * ROW
        picture.box(MIDDLE, y, WIDTH, 60, "#ffffff", color)
        picture.box(MIDDLE, y, 6, 60, color, color, 2)
        picture.text(MIDDLE + 18, y + 25, name, bold=True)
        picture.text(MIDDLE + WIDTH - 12, y + 25, does, "end", color=GRAY, size=12)
        picture.text(MIDDLE + 18, y + 47, command, size=12, mono=True)
    for have, method in ARROWS:
        start, end = FIRST + HAVE[have][0] * ROW + 30, FIRST + method * ROW + 30
        picture.arrow([(LEFT, start), (226, start), (226, end), (MIDDLE - 1, end)] if start != end else [(LEFT, start), (MIDDLE - 1, end)])
    picture.text(16, FIRST + ROW * len(METHODS) + 14, "MODEL: a file or folder of weights. A: its architecture. D: a data set. "
                 "gbcompress expand writes the model again.", color=GRAY, size=12)
    return picture.svg()
