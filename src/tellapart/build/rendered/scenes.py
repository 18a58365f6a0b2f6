"""The builder `scenes`: rendered quadruples after EqBen's Figure 14, each verified by the renderer's own object masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.build.builder import Candidate, Made, Rejected, Start
from tellapart.build.rendered.demo import ABOUT, make_item
from tellapart.build.rendered.grammar import Aspect
from tellapart.build.rendered.quadruple import Key, Wording
from tellapart.build.rendered.recipe import Recipe
from tellapart.errors import DataError, require

__all__ = ["Scenes"]


class Scenes:
    """Render pairs of scenes that differ in one attribute, count or location.

    Options are those of `recipe.Recipe` without name and seed. A candidate is the place of an item; draws that their masks
    do not confirm are thrown away, and drawn again up to `attempts` times.

    Raises:
        MissingDependencyError: Mitsuba or pyoidn is not installed.

    >>> from pathlib import Path
    >>> options = Scenes.Options(items={"counting": 2})
    >>> [candidate.id for candidate in Scenes(Start(options, 1, Path("."))).candidates()]
    ['counting-000', 'counting-001']
    """

    class Options(BaseModel):
        """The recipe's `[options]`.

        >>> Scenes.Options(items={"location": 3}).size
        160
        """

        model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

        size: int = Field(default=160, ge=16, le=2048)
        samples: int = Field(default=8, ge=1, le=4096)
        depth: int = Field(default=6, ge=1, le=32)
        quality: int = Field(default=86, ge=1, le=100)
        wording: Wording = "minimal"
        held_out_every: int = Field(default=0, ge=0)
        attempts: int = Field(default=60, ge=1)
        items: dict[Aspect, int]

    def __init__(self, start: Start) -> None:
        require("mitsuba", extra="render")
        require("pyoidn", extra="render")
        self._recipe = Recipe(name="scenes", seed=start.seed, **start.options.model_dump())

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """What the card says.

        >>> from pathlib import Path
        >>> Scenes(Start(Scenes.Options(items={}), 1, Path("."))).about["licence"]
        'Apache-2.0'
        """
        return {**ABOUT, "source": "rendered by tellapart; no foreign meshes or pictures"}

    @property
    def inputs(self) -> Mapping[str, str]:
        """No files are read.

        >>> from pathlib import Path
        >>> Scenes(Start(Scenes.Options(items={}), 1, Path("."))).inputs
        {}
        """
        return {}

    @property
    def models(self) -> Mapping[str, str]:
        """The renderer and the denoiser, with their versions.

        >>> from pathlib import Path
        >>> sorted(Scenes(Start(Scenes.Options(items={}), 1, Path("."))).models)
        ['mitsuba', 'pyoidn']
        """
        return {name: metadata.version(name) for name in ("mitsuba", "pyoidn")}

    def candidates(self) -> Sequence[Candidate]:
        """Return one candidate for every item that the options ask for, aspect by aspect.

        >>> from pathlib import Path
        >>> Scenes(Start(Scenes.Options(items={"counting": 1}), 1, Path("."))).candidates()[0].data["aspect"]
        'counting'
        """
        return [Candidate(key.name, asdict(key)) for key in self._recipe.item_keys()]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Draw until the masks confirm what the captions say, and render both scenes.

        >>> from pathlib import Path
        >>> options = Scenes.Options(items={"counting": 1}, size=40, samples=1)
        >>> scenes = Scenes(Start(options, 3, Path(".")))
        >>> sorted(scenes.make(scenes.candidates()[0]).images)
        ['images/counting-000_0.webp', 'images/counting-000_1.webp']
        """
        data = candidate.data
        key = Key(data["stream"], data["seed"], data["aspect"], data["index"], 0, data["wording"], data["held_out"])
        try:
            item, images, redrawn = make_item(key, self._recipe)
        except DataError:  # it says that no draw was accepted
            return Rejected("masks", f"none of {self._recipe.attempts} draws shows what its captions say")
        told = {name: value for name, value in item.provenance.items() if name not in {"recipe", "seed"}}
        told["attempt"] = len(redrawn)
        return Made(item.model_copy(update={"provenance": told}), images, tuple(redrawn))
