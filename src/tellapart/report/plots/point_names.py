"""Names of points, each where it meets nothing; or, where that cannot be, numbers and a key below the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tellapart.report.plots.style import fold

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Outline
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

__all__ = ["name_points"]

#: Places of a name, in points from its marker, the most legible first.
_PLACES = ((6, 3), (-6, 3), (7, 0), (-7, 0), (6, -3), (-6, -3), (0, 7), (0, -7), (6, 11), (-6, 11), (6, -11), (-6, -11))

#: A key's letters in a line, and the width of one in inches.
_LETTERS, _LETTER = 48, 0.06


def name_points(
    figure: Figure,
    axes: Axes,
    points: Sequence[tuple[str, float, float]],
    line: Sequence[tuple[float, float]] = (),
) -> None:
    """Write each name beside its point so that it meets no point, no other name, no part of a line and no frame.

    If one has no such place, all points get numbers, in the order given, and the names are below the picture.

    Args:
        figure, axes: drawn in full, but for the names.
        points: name, and the place in the axes' own units.
        line: corners of a line that no name may cross, in the axes' own units.
    """
    if _place_names(figure, axes, points, line):
        return
    for text in list(axes.texts):
        text.remove()
    numbered = [(str(number), across, upward) for number, (_, across, upward) in enumerate(points, start=1)]
    _key(figure, [f"{number} {name}" for number, (name, *_) in enumerate(points, start=1)])
    _place_names(figure, axes, numbered, line)


def _place_names(
    figure: Figure, axes: Axes, points: Sequence[tuple[str, float, float]], line: Sequence[tuple[float, float]]
) -> bool:
    """Write the names, each at the place where it meets least; return whether none meets anything."""
    from matplotlib.path import Path as Outline

    figure.draw_without_rendering()  # the layout must be known before anything can meet
    centres = [tuple(map(float, axes.transData.transform((across, upward)))) for _, across, upward in points]
    parts = [Outline([axes.transData.transform(end) for end in ends]) for ends in pairwise(line)]
    room = _Room(axes.get_window_extent(), parts, centres)
    names = [axes.annotate(name, (x, y), textcoords="offset points", xytext=(0, 0), size=7) for name, x, y in points]
    for _ in range(2):  # a name that comes first leaves others no choice; the second time it sees them
        for number, name in enumerate(names):
            room.place_name(number, name)
    return all(room.count_overlaps(number, room.taken[number]) == 0 for number in range(len(names)))


class _Room:
    """What names must not meet: the frame, parts of a line, markers, and each other."""

    def __init__(self, frame: Bbox, parts: Sequence[Outline], centres: Sequence[tuple[float, ...]]) -> None:
        self.frame, self.parts, self.centres = frame, parts, centres
        self.taken: dict[int, Bbox] = {}

    def place_name(self, number: int, name: Annotation) -> None:
        """Put a name where it meets least, if possible nearest to its own point; of such places, at the first."""
        boxes = {}
        for offset in _PLACES:
            _set_offset(name, offset)
            boxes[offset] = name.get_window_extent()
        best = min(
            _PLACES,
            key=lambda offset: (self.count_overlaps(number, boxes[offset]), self._strange(number, boxes[offset])),
        )
        _set_offset(name, best)
        self.taken[number] = boxes[best]

    def count_overlaps(self, number: int, box: Bbox) -> int:
        """Count what a name at a place would meet; leaving the frame is worse than anything else."""
        from matplotlib.transforms import Bbox

        markers = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in self.centres]
        names = [other for own, other in self.taken.items() if own != number]
        frame = self.frame
        outside = not (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
        crossed = sum(bool(part.intersects_bbox(box, filled=False)) for part in self.parts)
        return int(box.count_overlaps([*markers, *names])) + crossed + len(self.centres) * outside

    def _strange(self, number: int, box: Bbox) -> bool:
        def far(centre: tuple[float, ...]) -> float:
            x, y = centre
            return math.hypot(max(box.x0 - x, 0.0, x - box.x1), max(box.y0 - y, 0.0, y - box.y1))

        others = [far(centre) for own, centre in enumerate(self.centres) if own != number]
        return min(others, default=math.inf) <= far(self.centres[number]) + 3


def _set_offset(name: Annotation, offset: tuple[int, int]) -> None:
    """Set a name off by so many points, on that side of its point."""
    across, upward = offset
    name.xyann = offset
    name.set_horizontalalignment("left" if across > 0 else "right" if across < 0 else "center")
    name.set_verticalalignment("bottom" if upward > 0 else "top" if upward < 0 else "center")


def _key(figure: Figure, names: Sequence[str]) -> None:
    """Write names below a picture, in as many columns as are wide enough, and make room for them."""
    from matplotlib.lines import Line2D

    lines = [fold(name, _LETTERS) for name in names]
    widest = max(len(part) for line in lines for part in line.splitlines())
    columns = max(1, int(figure.get_figwidth() / (_LETTER * (widest + 3))))
    rows = -(-sum(1 + line.count("\n") for line in lines) // columns)
    figure.set_figheight(figure.get_figheight() + 0.13 * rows)
    nothing = [Line2D([], [], linestyle="none") for _ in lines]
    figure.legend(
        nothing, lines, loc="outside lower center", ncols=columns, fontsize=7, handlelength=0, handletextpad=0,
        labelspacing=0.25,
    )  # fmt: skip
