#!/usr/bin/env python3
"""Draws docs/images/gnets-*.svg from the records of samples/08_reproduce/gnets_curve.py and gnets_transfer.py, and course-*.svg
from records of the accuracy after each epoch ("STRATEGY, epoch N").

    experiment_pictures.py [--check]

--check writes nothing, and ends with 1 where a picture is not that of its record.
"""

import argparse
import json
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/images"))
from drawing import GRAY, GREEN, LINE, ORANGE, PURPLE, Drawing  # noqa: E402

RECORDS, PICTURES = ROOT / "docs/results/records", ROOT / "docs/images"
HEIGHT, TOP, BOTTOM = 400, 40, 340
RATIOS = (1, 1500)
MOMENTS = (0, 10, 30, 100, 300)
#: Names in the record, color, dashes.
SERIES = (("plain", GRAY, ""), ("quantized", ORANGE, ""), ("g-nets", GREEN, ""), ("MLP g-nets", PURPLE, ""))
STARTS = (("random", GRAY, ""), ("plain", ORANGE, ""), ("g-nets", GREEN, ""), ("plain, new head", ORANGE, "6 4"),
          ("g-nets, new head", GREEN, "6 4"))


def ticks(low, high):
    """About five round values that cover the range, ends included."""
    rough = max(high - low, 1e-9) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(each * step, 6) for each in range(first, last + 1)]


class Panel:
    """Axes between two horizontal places of the picture, and what lies in them."""

    def __init__(self, picture, left, right, values):
        """values: all that the panel shows."""
        self.picture, self.left, self.right = picture, left, right
        self.scale = ticks(min(values), max(values))

    def axes(self, places, x_label, y_label, title=""):
        """places: (x from 0 to 1, label) of the ticks."""
        picture, middle = self.picture, (self.left + self.right) / 2
        for value in self.scale:
            _, y = self.place(0, value)
            picture.path([(self.left, y), (self.right, y)], LINE)
            picture.text(self.left - 8, y + 4, f"{value:g}", "end")
        for x, label in places:
            at, _ = self.place(x, self.scale[0])
            picture.path([(at, BOTTOM), (at, BOTTOM + 5)])
            picture.text(at, BOTTOM + 20, label, "middle")
        picture.path([(self.left, BOTTOM), (self.right, BOTTOM)])
        picture.text(middle, BOTTOM + 42, x_label, "middle")
        picture.text(middle, TOP - 16, title, "middle", bold=True)
        picture.text(self.left - 52, (TOP + BOTTOM) / 2, y_label, "middle", turn=-90)

    def place(self, x, y):
        share = (y - self.scale[0]) / (self.scale[-1] - self.scale[0])
        return self.left + x * (self.right - self.left), BOTTOM - share * (BOTTOM - TOP)

    def line(self, points, color, dashes, width=2):
        self.picture.path([self.place(*point) for point in points], color, width, dashes)

    def dots(self, points, color, radius=4):
        for point in points:
            self.picture.dot(*self.place(*point), radius, color)

    def whisker(self, x, y, deviation, color):
        ends = [self.place(x, max(self.scale[0], min(self.scale[-1], y + sign * deviation))) for sign in (1, -1)]
        self.picture.path(ends, color)

    def legend(self, x, y, series):
        for i, (name, color, dashes) in enumerate(series):
            self.picture.path([(x, y + 18 * i - 4), (x + 24, y + 18 * i - 4)], color, 2, dashes)
            self.picture.text(x + 30, y + 18 * i, name)


def curve_points(record, series):
    """(ratio of the file, accuracy) of seed 0 by ratio, and those of other seeds."""
    values = {figure["name"]: figure["value"] for figure in record["figures"]}
    first, others = [], []
    for name, accuracy in values.items():
        head, _, key = name.rpartition(": ")
        run, _, seed = head.partition(", seed ")
        if key == "accuracy" and (run if run == series else run.rpartition(" ")[0]) == series:
            (others if seed else first).append((max(1, values[f"{head}: ratio"]), accuracy))
    return sorted(first), others


def curve(record, picture):
    points = {name: curve_points(record, name) for name, *_ in SERIES}
    every = [accuracy for first, others in points.values() for _, accuracy in first + others]

    def along(ratio):
        return math.log(ratio / RATIOS[0]) / math.log(RATIOS[1] / RATIOS[0])

    panel = Panel(picture, 70, 735, every)
    panel.axes([(along(ratio), f"{ratio}x") for ratio in (1, 3, 10, 30, 100, 300, 1000)],
               "float32 weights over bytes of the file", "accuracy on the test set, %")
    for name, color, dashes in SERIES:
        first, others = ([(along(ratio), accuracy) for ratio, accuracy in part] for part in points[name])
        if name == "plain":
            panel.line([(0, first[0][1]), (1, first[0][1])], color, dashes, 1)
        else:
            panel.line(first, color, dashes)
        panel.dots(first, color)
        panel.dots(others, color, 2)
    panel.legend(90, BOTTOM - 70, SERIES)


def transfer(record, picture):
    values = {figure["name"]: figure["value"] for figure in record["figures"]}
    unit = next(figure["unit"] for figure in record["figures"] if figure["name"].endswith(" steps"))
    label = "accuracy on the test set, %" if unit == "%" else "loss on the test set, nats a character"
    places = [(at / (len(MOMENTS) - 1), str(step)) for at, step in enumerate(MOMENTS)]
    for i, task in enumerate(dict.fromkeys(name.split(", ")[0] for name in values)):
        lines = {start: [values[name] for step in MOMENTS if (name := f"{task}, {start}, {step} steps") in values]
                 for start, *_ in STARTS}
        present = [each for each in STARTS if lines[each[0]]]
        panel = Panel(picture, 70 + 370 * i, 365 + 370 * i, [value for line in lines.values() for value in line])
        panel.axes(places, "steps of the target task", "" if i else label, task)
        for start, color, dashes in present:
            points = [(x, value) for (x, _), value in zip(places, lines[start])]
            panel.line(points, color, dashes)
            panel.dots(points, color, 3)
            for (x, y), step in zip(points, MOMENTS):
                panel.whisker(x, y, values.get(f"{task}, {start}, {step} steps: deviation", 0), color)
        if i == 0:
            panel.legend(225, BOTTOM - 90 if unit == "%" else TOP + 20, present)


def course(record, picture):
    """Accuracy after each epoch, a line for each strategy."""
    lines = {}
    for figure in record["figures"]:
        strategy, _, epoch = figure["name"].rpartition(", epoch ")
        lines.setdefault(strategy, []).append((int(epoch), figure["value"]))
    last = max(epoch for points in lines.values() for epoch, _ in points)
    panel = Panel(picture, 70, 735, [value for points in lines.values() for _, value in points])
    panel.axes([(epoch / last, str(epoch)) for epoch in range(0, last + 1, 5)], "epochs", "accuracy on the test set, %")
    series = [(strategy, color, "") for strategy, color in zip(lines, (GRAY, GREEN, ORANGE, PURPLE))]
    for strategy, color, dashes in series:
        points = [(epoch / last, value) for epoch, value in lines[strategy]]
        panel.line(points, color, dashes)
        panel.dots(points, color, 3)
    panel.legend(560, BOTTOM - 60, series)


def drawn(record, draw):
    picture = Drawing(record["title"], 760, HEIGHT)
    draw(record, picture)
    return picture.svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    status = 0
    for names, draw in (("gnets-curve-*", curve), ("gnets-transfer-*", transfer), ("course-*", course)):
        for file in sorted(RECORDS.glob(f"{names}.json")):
            picture, place = drawn(json.loads(file.read_text()), draw), PICTURES / f"{file.stem}.svg"
            if not arguments.check:
                place.write_text(picture)
            elif not place.exists() or place.read_text() != picture:
                print(f"{place.name} is not the picture of {file.name}; run tests/bench/experiment_pictures.py")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
