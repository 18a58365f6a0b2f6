"""The builder `scenes`: rendered quadruples after EqBen's Figure 14, each verified by the renderer's own object masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.rendered.asset_vocabulary import asset_vocabulary
from tellapart.builders.rendered.assets import Up
from tellapart.builders.rendered.demo import ABOUT, make_item
from tellapart.builders.rendered.grammar import Aspect
from tellapart.builders.rendered.quadruple import Key, Wording
from tellapart.builders.rendered.recipe import Recipe
from tellapart.builders.rendered.spec import RendererName, renderer
from tellapart.builders.rendered.vocabulary import vocabulary
from tellapart.errors import DataError

__all__ = ["Scenes"]


class Scenes:
    """Render pairs of scenes that differ in one attribute, count or location.

    Options are those of `recipe.Recipe` without name and seed, and: `vocabulary` (`figure-14`: all of its objects; `demo`:
    those of the shipped set), or `assets` (a folder of scanned objects) with `names` (TOML or CSV) and `up`; `renderer`, and
    `blender_python` for Blender. A candidate is the place of an item; draws that their masks do not confirm are thrown away,
    and drawn again up to `attempts` times.

    Raises:
        DataError: the assets cannot be read or do not suffice; something is to be held out of a vocabulary that holds nothing
            out; Blender's interpreter does not answer.
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
        vocabulary: Literal["demo", "figure-14"] = "figure-14"
        assets: str = ""
        names: str = ""
        up: Up = "z"
        renderer: RendererName = "mitsuba"
        blender_python: str = ""

    def __init__(self, start: Start) -> None:
        options: Scenes.Options = start.options
        self._renderer = renderer(options.renderer, options.blender_python)
        self._versions = dict(self._renderer.versions)
        self._inputs: Mapping[str, str] = {}
        chosen = options.vocabulary if not options.assets else self._read_assets(start, options)
        if options.held_out_every and not vocabulary(chosen).held_out:
            raise DataError(f"held_out_every = {options.held_out_every}: {chosen} holds nothing out; set it to 0")
        shared = options.model_dump(include=set(Recipe.model_fields) - {"vocabulary"})
        self._recipe = Recipe(name="scenes", seed=start.seed, vocabulary=chosen, **shared)

    def _read_assets(self, start: Start, options: Options) -> str:
        """Read the assets and return their vocabulary's name."""
        names = start.home / options.names if options.names else None
        read = asset_vocabulary(start.home / options.assets, names, options.up)
        self._inputs = read.inputs
        if options.items.get("attribute") and not vocabulary(read.name).categories:
            raise DataError(
                f"{options.assets}: no two assets share a category, so the attribute aspect has nothing to change; give them "
                "categories in `names`, or ask for no attribute items"
            )
        return read.name

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """What the card says.

        >>> from pathlib import Path
        >>> Scenes(Start(Scenes.Options(items={}), 1, Path("."))).about["licence"]
        'Apache-2.0'
        """
        if self._inputs:
            source = "rendered by tellapart from scanned objects of the user's; see inputs"
            return {**ABOUT, "source": source, "licence": "that of the scanned objects"}
        return {**ABOUT, "source": "rendered by tellapart; no foreign meshes or pictures"}

    @property
    def inputs(self) -> Mapping[str, str]:
        """The assets' meshes with their pictures; without assets no files are read.

        >>> from pathlib import Path
        >>> Scenes(Start(Scenes.Options(items={}), 1, Path("."))).inputs
        {}
        """
        return self._inputs

    @property
    def models(self) -> Mapping[str, str]:
        """The renderer and the denoiser, with their versions.

        >>> from pathlib import Path
        >>> sorted(Scenes(Start(Scenes.Options(items={}), 1, Path("."))).models)
        ['mitsuba', 'pyoidn']
        """
        return self._versions

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
        key = Key(**data)
        try:
            item, images, redrawn = make_item(key, self._recipe, self._renderer)
        except DataError:  # it says that no draw was accepted
            return Rejected("masks", f"none of {self._recipe.attempts} draws shows what its captions say")
        told = {name: value for name, value in item.provenance.items() if name not in {"recipe", "seed"}}
        told["attempt"] = len(redrawn)
        told["settings"] = {"renderer": self._renderer.name, **asdict(self._recipe.settings(key))}
        return Made(item.model_copy(update={"provenance": told}), images, tuple(redrawn))
