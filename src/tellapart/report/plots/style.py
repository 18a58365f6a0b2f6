"""Style of all pictures: colours for any eye, a second mark for grey, the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import RunError, TellapartWarning, require

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

#: The two widths of a picture in inches, a paper's column and its page; its letters are 7 to 9 points high.
COLUMN, PAGE = 3.3, 6.9

#: An 8-point letter's width in inches: DejaVu Sans, of names' usual letters the mean.
LETTER = 0.068

#: Lines of no model: chance, zero, frames.
GREY = "#595959"

#: Okabe and Ito's palette, in an order in which neighbours also differ in lightness.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#F0E442", "#CC79A7", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (1, 4)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 6)))

#: Fonts go in as TrueType (pdf) or as outlines (svg), so that a file looks the same without the font. A name
#: with a dollar sign is a name, not mathematics; the salt makes an svg's ids the same each time.
_RULES = {
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "tellapart",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
}

#: File ending -> the fields in which matplotlib would write the time and its version.
FORMATS: dict[str, dict[str, str | None]] = {
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": "tellapart"},
    "svg": {"Date": None, "Creator": "tellapart"},
    "png": {"Software": None},
}


#: matplotlib's warning on a character that no font of the figure has.
_NO_GLYPH = re.compile(r"Glyph (\d+) .*missing from", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PlotStyle:
    """The style of one model in all pictures: each of the three differs for eight models, all together for 64."""

    colour: str
    marker: str
    dash: str | tuple[int, tuple[int, ...]]

    @property
    def line(self) -> dict[str, Any]:
        """The look of a line, for matplotlib."""
        return {"color": self.colour, "linestyle": self.dash}

    @property
    def mark(self) -> dict[str, Any]:
        """The look of a point, for matplotlib."""
        return {"color": self.colour, "marker": self.marker, "markeredgecolor": "black"}


def look(number: int) -> PlotStyle:
    """Return the look of the model of that number; the first 64 differ."""
    turn, colour = divmod(number, len(_COLOURS))
    mark = (colour + turn) % len(_COLOURS)
    return PlotStyle(_COLOURS[colour], _MARKERS[mark], _DASHES[mark])


def write_picture(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw under the rules of this module, and write the file atomically; the same picture has the same bytes."""
    from tellapart.records.run_folder import write_blocks  # late: the command line starts with this module

    ending = path.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise RunError(f"{path}: a picture is written as .pdf, .svg or .png; name it so")
    matplotlib = require("matplotlib", extra="plot")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change a paper's pictures
        matplotlib.rcParams.update(_RULES)
        content, missing = _draw_bytes(draw, ending)
        if missing and (fonts := _find_fonts(missing)):
            matplotlib.rcParams["font.family"] = [_RULES["font.family"], *fonts]
            content, missing = _draw_bytes(draw, ending)
    if missing:
        message = (
            f"{path}: no font on this machine has {''.join(map(chr, sorted(missing)[:20]))!r}, which are drawn as "
            "boxes; install one that has them (Noto Sans CJK, say), or rename with labels="
        )
        warnings.warn(message, TellapartWarning, stacklevel=2)
    write_blocks(path, [content])


def _draw_bytes(draw: Callable[[], Figure], ending: str) -> tuple[bytes, set[int]]:
    """Return a picture's file, and the characters that its fonts lack."""
    content, missing = io.BytesIO(), set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw().savefig(content, format=ending, metadata=FORMATS[ending], dpi=200)
    for warning in caught:
        if glyph := _NO_GLYPH.match(str(warning.message)):
            missing.add(int(glyph[1]))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return _name_clips(content.getvalue()), missing


def _name_clips(picture: bytes) -> bytes:
    """Name an SVG's clip paths by its content: matplotlib's names hash last bits, which differ between drawings."""
    names = re.findall(rb'<clipPath id="(\w+)"', picture)
    if not names:
        return picture
    digest = hashlib.sha256(re.sub(b"|".join(names), b"", picture)).hexdigest()[:10]
    for number, name in enumerate(names):
        picture = picture.replace(name, f"p{digest}-{number}".encode())
    return picture


def _find_fonts(characters: set[int]) -> list[str]:
    """Return the name of an installed font that has all these characters, or several that have them together."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    fonts, left = [], set(characters)
    for entry in sorted(
        fontManager.ttflist, key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.name)
    ):
        if not left:
            break
        try:
            covered = left & FT2Font(entry.fname).get_charmap().keys()
        except (OSError, RuntimeError):  # gone, or damaged
            continue
        if covered and not entry.name.startswith("Last Resort"):
            fonts.append(entry.name)
            left -= covered
    return fonts


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches."""
    require("matplotlib", extra="plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def make_panels(
    width: float, height: float, count: int = 1, across: int = 1, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of that many inches, and its panels, so many side by side."""
    figure = new_figure(width, height)
    grid = list(figure.subplots(-(-count // across), across, squeeze=False, **shared).flat)
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def draw_shades(
    axes: Axes, shares: NDArray[np.float64], texts: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], *,
    colours: str, limits: tuple[float, float], rotation: int = 90, letters: int = 7, **scale: Any,
) -> None:  # fmt: skip
    """Draw a matrix as shades with texts in its cells, or without them a colour bar; `labels` are down and across."""
    image = axes.imshow(shares, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    for spine in axes.spines.values():
        spine.set_visible(False)
    for down, row in enumerate(texts):
        for across, text in enumerate(row):
            axes.text(across, down, text, ha="center", va="center", size=letters)
    if not texts:
        axes.figure.colorbar(image, ax=axes, **scale)
    axes.set_yticks(range(len(labels[0])), labels[0])
    axes.set_xticks(range(len(labels[1])), labels[1], rotation=rotation)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)


def fold(name: str, letters: int) -> str:
    """Break a name into lines of at most so many letters, after a sign between its words if there is one."""
    lines = [""]
    for word in re.split(r"(?<=[/:@_ .-])", name):
        for part in (word[start : start + letters] for start in range(0, len(word), letters)):
            if len(lines[-1]) + len(part) > letters:
                lines.append("")
            lines[-1] += part
    return "\n".join(lines)


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """Name the models under the picture, so that no curve can hide behind their names."""
    handles, labels = axes.get_legend_handles_labels()
    labels = [fold(label, int((figure.get_figwidth() - 0.7) / LETTER)) for label in labels]
    for count in range(max(1, min(columns, len(labels))), 0, -1):
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=count)
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    lines = sum(label.count("\n") for label in labels) // count
    # More names must not squeeze the picture.
    figure.set_figheight(figure.get_figheight() + 0.17 * (-(-len(labels) // count) - 1) + 0.14 * lines)


def write_title(figure: Figure, title: str) -> None:
    """Write a title over all of the picture, in as many lines as its width asks for."""
    figure.suptitle(fold(title, int(figure.get_figwidth() / (LETTER * 9 / 8))), x=0.01, ha="left", size=9)
