"""The pairs of the tutorials: two squares of different colours, and two discs or three.

python -m examples.tutorial.draw_pairs          writes my_pairs, a folder of 24 pairs
"""

import io
from itertools import combinations
from pathlib import Path

from PIL import Image, ImageDraw

import tellapart as ta

COLOURS = ("red", "green", "blue", "yellow")
SIDE = 96


def draw(shape: str, boxes: list[tuple[str, int, int, int]]) -> bytes:
    """Draw shapes of one kind, each of a colour, a left and an upper edge and a width; return a PNG file."""
    picture = Image.new("RGB", (SIDE, SIDE), "white")
    for colour, left, top, width in boxes:
        getattr(ImageDraw.Draw(picture), shape)((left, top, left + width, top + width), colour)
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def draw_squares(left: str, right: str, seed: int) -> bytes:
    """Draw one square on the left and one on the right, a bit higher or lower for another seed."""
    return draw("rectangle", [(left, 8, 24 + 4 * seed, 28), (right, 60, 24 + 4 * seed, 28)])


def draw_discs(colour: str, count: int, seed: int) -> bytes:
    """Draw discs of one colour, each a bit lower than the one before."""
    return draw("ellipse", [(colour, 6 + 30 * k, 10 + 5 * seed + 9 * k, 24) for k in range(count)])


def draw_pairs(folder: Path) -> None:
    """Write the set: 12 pairs whose captions differ in the order of their words, and 12 that differ in a number."""
    items, images = [], {}
    for seed in range(2):
        for a, b in combinations(COLOURS, 2):
            names = (f"images/{a}-{b}-{seed}.png", f"images/{b}-{a}-{seed}.png")
            images |= {names[0]: draw_squares(a, b, seed), names[1]: draw_squares(b, a, seed)}
            texts = (f"a {a} square left of a {b} square", f"a {b} square left of a {a} square")
            items.append(ta.Item(id=f"order-{a}-{b}-{seed}", images=names, texts=texts, tags={"type": "order"}))
    for seed in range(3):
        for colour in COLOURS:
            names = (f"images/2-{colour}-{seed}.png", f"images/3-{colour}-{seed}.png")
            images |= {names[0]: draw_discs(colour, 2, seed), names[1]: draw_discs(colour, 3, seed)}
            texts = (f"two {colour} discs", f"three {colour} discs")
            items.append(ta.Item(id=f"count-{colour}-{seed}", images=names, texts=texts, tags={"type": "counting"}))
    ta.write_pair_set(folder, items, images, {"licence": "CC0-1.0"})


if __name__ == "__main__":
    if (folder := Path("my_pairs")).exists():
        raise SystemExit(f"error: {folder} is there already; measure it, or delete it to draw it again")
    draw_pairs(folder)
