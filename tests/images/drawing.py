"""Drawings as SVG: shapes and text on a white ground, so that they are readable in light and dark mode. The same calls give the
same bytes. Lengths are in pixels of the picture, at its own size."""
import html
import math

INK, GRAY, LINE, PALE = "#222222", "#5f6368", "#d0d3d6", "#f4f6f8"
GREEN, TEAL, ORANGE, PURPLE, BLUE = "#0b6e4f", "#1b7f74", "#b4410e", "#6f4796", "#1f5fa8"
SIZE = 13  # of text


def number(value):
    return f"{value:.1f}".removesuffix(".0")


class Drawing:
    def __init__(self, title, width, height):
        self.width, self.height = width, height
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="{SIZE}">',
                      f"<title>{html.escape(title)}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>']

    def box(self, x, y, width, height, fill=PALE, stroke=GRAY, radius=5):
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" rx="{radius}" '
                          f'fill="{fill}" stroke="{stroke}"/>')

    def text(self, x, y, text, anchor="start", size=SIZE, color=INK, bold=False, mono=False, turn=None):
        """turn: degrees around (x, y)."""
        more = f' font-size="{size}"' if size != SIZE else ""
        more += ' font-weight="bold"' if bold else ""
        more += ' font-family="monospace"' if mono else ""
        more += f' transform="rotate({turn} {number(x)} {number(y)})"' if turn is not None else ""
        anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}"{anchored} fill="{color}"{more}>{html.escape(text, False)}</text>')

    def path(self, points, color=GRAY, width=1, dashes=""):
        """A line through [(x, y)]."""
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        wide = f' stroke-width="{width}"' if width != 1 else ""
        line = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.parts.append(f'<polyline points="{line}" fill="none" stroke="{color}"{wide}{dashed}/>')

    def arrow(self, points, color=GRAY, width=1.5):
        """A line whose last point has a head."""
        (x0, y0), (x1, y1) = points[-2:]
        length = math.hypot(x1 - x0, y1 - y0)
        along, across = ((x1 - x0) / length, (y1 - y0) / length), (-(y1 - y0) / length, (x1 - x0) / length)
        base = (x1 - 8 * along[0], y1 - 8 * along[1])
        self.path([*points[:-1], base], color, width)
        corners = [(x1, y1), *((base[0] + side * across[0], base[1] + side * across[1]) for side in (4, -4))]
        self.parts.append('<polygon points="' + " ".join(f"{number(x)},{number(y)}" for x, y in corners) + f'" fill="{color}"/>')

    def dot(self, x, y, radius=4, color=INK, stroke="none"):
        self.parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{radius}" fill="{color}" stroke="{stroke}"/>')

    def svg(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"
