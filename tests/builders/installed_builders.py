"""Builders that tests install as another package's: slow, failing, dying, and wrong; a filter and a selection."""

import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.random  # numpy imports it late, and a Ctrl-C within that import is lost: Cython ignores it
from PIL import Image
from pydantic import BaseModel, ConfigDict

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.selections import ItemFilter, Selection
from tellapart.data.item import Item
from tellapart.errors import MissingDependencyError


class Squares:
    """Draw a square of a colour that the item's own number gives; every fifth candidate is rejected."""

    class Options(BaseModel):
        model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
        count: int = 12
        about_folder: str = ""

    about, inputs, models = {"title": "Squares", "licence": "CC0"}, {}, {"painter": "1"}

    def __init__(self, start: Start) -> None:
        self.count, self.seed = start.options.count, start.seed
        self.marks = start.home / start.options.about_folder

    def candidates(self) -> list[Candidate]:
        return [Candidate(f"square-{k:03d}", k) for k in range(self.count)]

    def make(self, candidate: Candidate) -> Made | Rejected:
        time.sleep(float(os.environ.get("TEST_SECONDS_PER_ITEM", "0")))
        sys.stderr.write(f"making {candidate.id}\n")
        sys.stderr.flush()
        self.before(candidate)
        if candidate.data % 5 == 4:
            return Rejected("draw", "every fifth")
        rng = np.random.default_rng([self.seed, candidate.data])
        images = {}
        for side in (0, 1):
            stream = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(stream, "PNG")
            images[f"images/{candidate.id}_{side}.png"] = stream.getvalue()
        texts = (f"a square of {rng.integers(100)}", "another square")
        return Made(
            Item(id=self.named(candidate), images=tuple(images), texts=texts),
            images,
            ("too dark",) * (candidate.data % 2),
        )

    def before(self, candidate: Candidate) -> None:
        """What goes wrong before an item is made."""

    def named(self, candidate: Candidate) -> str:
        return candidate.id

    def first_time(self, candidate: Candidate) -> bool:
        mark = Path(self.marks) / f"seen-{candidate.id}"
        if mark.exists():
            return False
        mark.write_text("")
        return True


class Flaky(Squares):
    def before(self, candidate: Candidate) -> None:
        if candidate.data in {2, 7} and self.first_time(candidate):
            raise OSError("the disk was away")


class Dying(Squares):
    def before(self, candidate: Candidate) -> None:
        if candidate.data == 3 and self.first_time(candidate):
            os.kill(os.getpid(), signal.SIGKILL)


class Broken(Squares):
    def before(self, candidate: Candidate) -> None:
        if candidate.data == 1:
            raise ValueError("no such thing")


class Needy(Squares):
    def before(self, candidate: Candidate) -> None:
        raise MissingDependencyError('x is needed here and is not installed; run: pip install "tellapart[build]"')


class Misnamed(Squares):
    def named(self, candidate: Candidate) -> str:
        return "other"


class Twice(Squares):
    def candidates(self) -> list[Candidate]:
        return [Candidate("a", 0), Candidate("a", 1)]


class Barren(Squares):
    def candidates(self) -> list[Candidate]:
        return []


class Quiet(ItemFilter):
    def fault(self, outcome: Made) -> str | None:
        return "a shouted caption" if any(text.isupper() for text in outcome.item.texts) else None


class First(Selection):
    count: int

    def left_out(self, items: Sequence[Item], *, seed: int, home: Path) -> dict[str, str]:
        return {item.id: "not among the first" for item in items[self.count :]}
