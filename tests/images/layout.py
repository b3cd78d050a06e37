"""The parts of a .gbz file in their order, with their sizes in two files of the record layout-digits."""
import json
from pathlib import Path

from drawing import BLUE, GRAY, GREEN, INK, LINE, ORANGE, PURPLE, TEAL, Drawing

NAME = "layout"
RECORD = Path(__file__).resolve().parents[2] / "docs/results/records/layout-digits.json"
#: Name in the record, label, what it has, color.
PARTS = (("magic", "magic", "GBZ2", GRAY),
         ("sizes", "sizes L, H, R", "of what follows; of the header, packed and unpacked", GRAY),
         ("header", "header", "CBOR: name, shape, type and kind of each tensor", BLUE),
         ("sections", "sections", "exact tensors; parameters of g-nets", GREEN),
         ("integers", "integers", "one stream, or a head and stripes", TEAL),
         ("original files", "original files", "what else the model's files have", ORANGE),
         ("digest", "digest", "first half of the SHA-256 of all before it", PURPLE))
TOP, ROW, LEFT, WIDTH, COLUMNS = 62, 40, 16, 480, (620, 744)


def sizes(record):
    """{file: {part: bytes}} of a record's figures, in their order."""
    files = {}
    for figure in record["figures"]:
        name, _, part = figure["name"].rpartition(": ")
        files.setdefault(name, {})[part] = figure["value"]
    return files


def bar(picture, y, name, parts):
    """Area is bytes; parts below a pixel are left out."""
    total, x = sum(parts.values()), LEFT
    picture.text(LEFT, y - 8, f"{name}: {total:,} bytes, to scale", size=12, color=INK)
    for part, _, _, color in PARTS:
        width = parts[part] / total * (744 - LEFT)
        if width >= 1:
            picture.box(x, y, width, 20, color, "#ffffff", 0)
            if width > 100:
                picture.text(x + width / 2, y + 14, f"{part}, {100 * parts[part] / total:.1f} %", "middle", 12, "#ffffff")
        x += width


def drawn():
    files = sizes(json.loads(RECORD.read_text()))
    bottom = TOP + ROW * len(PARTS)
    picture = Drawing("The parts of a .gbz file and their sizes in two files", 760, bottom + 146)
    picture.text(LEFT, 28, "Parts of a .gbz file, from its first byte to its last", bold=True)
    for x, name in zip(COLUMNS, files):
        first, _, second = name.partition(", ")
        picture.text(x, 28, first, "end", bold=True)
        picture.text(x, 46, f"{second}, bytes" if second else "bytes", "end", 12, GRAY)
    for i, (part, label, content, color) in enumerate(PARTS):
        y = TOP + ROW * i
        picture.box(LEFT, y, WIDTH, ROW, "#ffffff", LINE, 0)
        picture.box(LEFT, y, 8, ROW, color, color, 0)
        picture.text(LEFT + 22, y + 25, label, bold=True)
        picture.text(LEFT + 128, y + 25, content, size=12, color=GRAY)
        for x, parts in zip(COLUMNS, files.values()):
            picture.text(x, y + 25, f"{parts[part]:,}" if parts[part] else "none", "end", color=INK if parts[part] else GRAY)
    for x, parts in zip(COLUMNS, files.values()):
        picture.path([(x - 70, bottom + 4), (x, bottom + 4)])
        picture.text(x, bottom + 22, f"{sum(parts.values()):,}", "end", bold=True)
    for i, (name, parts) in enumerate(files.items()):
        bar(picture, bottom + 62 + 52 * i, name, parts)
    return picture.svg()
