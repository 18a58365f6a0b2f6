"""A chat model in a file, and a set to ask it about: which of two captions fits the picture?"""

import io
from pathlib import Path

from PIL import Image

from tellapart import Item, PairSet
from tellapart.models.generative.prompts import SUGARCREPE_CHOICE


class Chat:
    """Sees white and black; of a grey square it takes the caption that comes first."""

    name, fingerprint, kind = "chat", "chat-1", "probability"

    def task_prompt(self, task):
        """Return the prompt for a task."""
        return {"choice": SUGARCREPE_CHOICE}[task]

    def answer(self, images, prompts, **_):
        """Answer each prompt about its images of PIL."""
        return [self._choose(shown[0], prompt) for shown, prompt in zip(images, prompts, strict=True)]

    def _choose(self, picture, prompt):
        light = picture.getpixel((0, 0))[0]
        white_first = prompt.index("white") < prompt.index("black")
        if 64 < light < 192:
            return "(1)"
        return "(1)" if (light > 128) == white_first else "(2)"


def draw(name):
    """Draw the square of that light, "224/3" say, as a PNG file."""
    light, size = map(int, name.split("/"))
    stream = io.BytesIO()
    Image.new("L", (16 + size, 16), light).save(stream, "PNG")
    return stream.getvalue()


TEXTS = ("a white square", "a black square")
ITEMS = [
    Item(id=f"{light}/{size}", images=(f"{light}/{size}",), texts=TEXTS if light > 128 else TEXTS[::-1])
    for light in (16, 80, 160, 240)
    for size in range(25)
]
SQUARES = PairSet("squares", tuple(ITEMS), Path(), read=draw)
