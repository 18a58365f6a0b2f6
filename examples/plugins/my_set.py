"""A benchmark in a file: is the square white or black? Measured without installing anything."""

import io
from pathlib import Path

from PIL import Image

from tellapart import Item, PairSet

TEXTS = ("a white square", "a black square")


def draw(name):
    """Draw the picture of that name, "white/3" say, as a PNG file."""
    colour, size = name.split("/")
    stream = io.BytesIO()
    Image.new("RGB", (16 + int(size), 16), colour).save(stream, "PNG")
    return stream.getvalue()


ITEMS = tuple(Item(id=str(k), images=(f"white/{k}", f"black/{k}"), texts=TEXTS) for k in range(20))
MY_SET = PairSet("squares", ITEMS, Path(), read=draw)
