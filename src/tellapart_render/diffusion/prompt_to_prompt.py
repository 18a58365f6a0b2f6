"""The builder `prompt-to-prompt`: draw many pairs of pictures of two captions, and keep those that a scorer prefers."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import combinations, product
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.caption_files import CaptionPair, file_digest, read_caption_pairs
from tellapart.errors import DataError
from tellapart.models.protocols import Pixels
from tellapart_render.diffusion.image_filters import STEPS, Keep, PairSimilarity, PictureFile, measure_pair, open_scorer
from tellapart_render.diffusion.sampling import (
    DiffusionModel,
    Draw,
    Schedule,
    open_checkpoint,
    random_numbers,
    room_for,
    sample_pairs,
)

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline


# Pairs of captions after EqBen's Eq-SD: one object, scene or attribute changes in a short prompt.
#
# Source: EqBen, appendix B.5 and Figure 15. Its examples in Figure 16 lack articles, too: "A painting of cat wearing a
# cap.", "A pencil sketch of train.".

Aspect = Literal["object", "scene", "attribute"]
SceneRule = Literal["added", "swapped"]
ASPECTS: tuple[Aspect, ...] = ("object", "scene", "attribute")

_WORDS = tomllib.loads(files("tellapart_render.diffusion").joinpath("eq_sd.toml").read_text(encoding="utf-8"))

Family = list[tuple[str, str]]  # the pairs of captions of one row of Figure 15


def list_families(aspect: Aspect, scene_rule: SceneRule = "added") -> list[Family]:
    """Return every pair of captions of an aspect; a scene is `added` in one caption, or `swapped` between both."""
    if aspect == "object":
        return [
            [
                (_make_caption("a", medium, "of", a, scene), _make_caption("a", medium, "of", b, scene))
                for medium, (a, b), scene in product(_WORDS["media"], combinations(objects, 2), scenes)
            ]
            for objects, scenes in _WORDS["objects"]
        ]
    if aspect == "scene":
        families = []
        for subject, scenes in _WORDS["scenes"].items():
            pairs = combinations(scenes, 2) if scene_rule == "swapped" else product(("",), scenes)
            families.append(
                [(_make_caption("a photo of", subject, a), _make_caption("a photo of", subject, b)) for a, b in pairs]
            )
        return families
    return [
        [
            (_make_caption("a", medium, "of", animal, a), _make_caption("a", medium, "of", animal, b))
            for medium, animal, (a, b) in product(_WORDS["media"], ("dog", "cat"), combinations(_WORDS["worn"], 2))
        ],
        [
            (_make_caption("a", medium, "of a", a, animal), _make_caption("a", medium, "of a", b, animal))
            for medium, animal, (a, b) in product(_WORDS["media"], ("dog", "cat"), combinations(_WORDS["colours"], 2))
        ],
        [
            (_make_caption(a, subject), _make_caption(b, subject))
            for subject, (a, b) in product(_WORDS["styled"], combinations(_WORDS["styles"], 2))
        ],
    ]


def eq_sd_pairs(items: Mapping[Aspect, int], seed: int, scene_rule: SceneRule = "added") -> dict[str, CaptionPair]:
    """Draw distinct pairs of captions, by name: a family, one of its pairs, and the caption that comes first.

    `items` is the number of pairs of each aspect; a larger number leaves the first pairs unchanged. `scene_rule` is
    that of `list_families`.
    """
    pairs: dict[str, CaptionPair] = {}
    for aspect, count in items.items():
        families = list_families(aspect, scene_rule)
        if count > (most := sum(map(len, families))):
            raise DataError(f"eq_sd: {count} pairs of aspect {aspect!r} are asked for; Figure 15 has {most}")
        rng = np.random.default_rng(list(hashlib.sha256(f"eq-sd:{seed}:{aspect}".encode()).digest()))
        is_reversed: dict[tuple[int, int], bool] = {}  # by the numbers of family and pair
        while len(is_reversed) < count:
            family = int(rng.integers(len(families)))
            is_reversed.setdefault((family, int(rng.integers(len(families[family])))), bool(rng.integers(2)))
        for index, ((family, pair), reverse) in enumerate(is_reversed.items()):
            first, second = families[family][pair]
            name = f"{aspect}-{index:03d}"
            pairs[name] = CaptionPair(name, (second, first) if reverse else (first, second), name, {"aspect": aspect})
    return pairs


def _make_caption(*parts: str) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}."


@dataclass(frozen=True, slots=True)
class _Sample:
    """A pair of pictures that passed every filter."""

    index: int
    draw: Draw
    similarity: PairSimilarity
    pictures: tuple[Pixels, Pixels]


@dataclass(frozen=True, slots=True)
class _Samples:
    """The best samples of one pair of captions, best first, and the filter that rejected each of the failed samples."""

    pair: str
    passed: tuple[_Sample, ...]
    failed: tuple[str, ...]


class PromptToPrompt:
    """Draw many pairs of pictures for each pair of captions from shared noise and attention, and keep the best.

    Captions come from a file (`captions`, see `caption_files.read_caption_pairs`) or from Eq-SD's grammar (`eq_sd`). A
    candidate is a pair of captions and a rank below `keep.best` among its pairs of pictures. A process draws the
    pictures once for consecutive ranks of a pair of captions; another process would draw the same pictures again.

    Source: COCO-Counterfactuals, appendix B.2.2; EqBen, appendix B.5.
    """

    class Options(BaseModel):
        """The recipe's `[options]`; defaults are those of instruct-pix2pix, which COCO-Counterfactuals took.

        Attributes:
            captions: a file of caption pairs, relative to the recipe.
            eq_sd: instead of a file, how many pairs of each aspect of Eq-SD's grammar.
            scene_rule: of that grammar's scenes, see `list_families`.
            model: the pipeline, a `StableDiffusionPipeline`.
            scorer, scorer_device: a dual encoder by its name in `tellapart run -m`, and its device (`auto`: the
                pipeline's).
            samples: pairs of pictures drawn for each pair of captions.
            steps, sampler, side, batch: see `sampling.Schedule`.
            guidance, self_fraction, cross_fraction: the lowest and the highest value of a uniform draw.
            keep: the filters.
            picture: size and format of the files.
        """

        model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

        captions: str = ""
        eq_sd: dict[Aspect, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
        scene_rule: SceneRule = "added"
        model: DiffusionModel
        scorer: str
        scorer_device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
        samples: int = Field(default=100, ge=1)
        steps: int = Field(default=100, ge=1)
        sampler: Literal["euler-ancestral", "ddim"] = "euler-ancestral"
        side: int = Field(default=0, ge=0, multiple_of=8)
        batch: int = Field(default=1, ge=1)
        guidance: list[float] = Field(default_factory=lambda: [7.5, 15.0], min_length=2, max_length=2)
        self_fraction: list[float] = Field(default_factory=lambda: [0.1, 0.9], min_length=2, max_length=2)
        cross_fraction: list[float] = Field(default_factory=lambda: [0.0, 0.0], min_length=2, max_length=2)
        keep: Keep = Field(default_factory=Keep)
        picture: PictureFile = Field(default_factory=PictureFile)

    def __init__(self, start: Start) -> None:
        options: PromptToPrompt.Options = start.options
        self._options, self._seed = options, start.seed
        if bool(options.captions) == bool(options.eq_sd):
            raise DataError("[options]: name one source of caption pairs: captions = FILE, or a table eq_sd of counts")
        for name in ("guidance", "self_fraction", "cross_fraction"):
            low, high = getattr(options, name)
            if not 0 <= low <= high or (name != "guidance" and high > 1):
                expected = "[lowest, highest], fractions within 0 and 1"
                raise DataError(f"[options] {name}: expected {expected}; got [{low}, {high}]")
        self.inputs: Mapping[str, str] = {}
        if options.captions:
            path = start.home / options.captions
            self._pairs = read_caption_pairs(path)
            self.inputs = file_digest(path)
        else:
            self._pairs = eq_sd_pairs(options.eq_sd, start.seed, options.scene_rule)
        self._checkpoint = open_checkpoint(options.model, start.home, ("StableDiffusionPipeline",))
        device = self._checkpoint.device if options.scorer_device == "auto" else options.scorer_device
        self._scorer = open_scorer(options.scorer, device)
        self._schedule = Schedule(options.steps, options.sampler, options.side, options.batch)
        self._sampled: _Samples | None = None

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """Title, description, licence, source and citation for the card."""
        filters = "caption-image, image-image" + (" and directional" if self._options.keep.rule == "code" else "")
        return {
            "title": "Pairs drawn by Prompt-to-Prompt",
            "description": f"2x2 items: both pictures are drawn from the same noise and share attention maps; of "
            f"{self._options.samples} pairs of pictures those that pass filters by {filters} similarity stay, the "
            "highest directional similarity first. No person has looked at them, and no safety checker has run: look "
            "at them before you measure with them or show them.",
            "licence": "that of the diffusion model's outputs",
            "source": "drawn by tellapart's builder `prompt-to-prompt`"
            + (", captions after EqBen's Figure 15" if self._options.eq_sd else ""),
            "citation": "Hertz et al., Prompt-to-Prompt, 2022; Brooks et al., InstructPix2Pix, CVPR 2023; Le et al., "
            "COCO-Counterfactuals, NeurIPS 2023",
        }

    @property
    def models(self) -> Mapping[str, str]:
        """The pipeline's revisions, the scorer's fingerprint, and the libraries that compute."""
        return {**self._checkpoint.versions, "scorer": f"{self._options.scorer} {self._scorer.fingerprint}"}

    def candidates(self) -> Sequence[Candidate]:
        """Return every pair of captions, once for each rank of its pairs of pictures."""
        best = self._options.keep.best
        return [
            Candidate(name if best == 1 else f"{name}-{rank}", {"pair": name, "rank": rank})
            for name in self._pairs
            for rank in range(best)
        ]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Draw, filter, and return the pair of pictures of the candidate's rank."""
        pair, rank = self._pairs[candidate.data["pair"]], candidate.data["rank"]
        if pair.captions[0] == pair.captions[1]:
            return Rejected("caption", "both captions are the same")
        if not all(room_for(self._loaded_pipeline, caption) for caption in pair.captions):
            return Rejected("caption", "longer than the text encoder reads")
        if self._sampled is None or self._sampled.pair != pair.id:
            self._sampled = self._draw_samples(pair)
        sampled = self._sampled
        if not sampled.passed:  # the step that the best sample reached
            return Rejected(max(sampled.failed, key=STEPS.index), f"none of {self._options.samples} samples passed")
        if rank >= len(sampled.passed):
            return Rejected("best", "fewer samples passed than are wanted")
        return self._make_item(candidate.id, pair, sampled, rank)

    @cached_property
    def _loaded_pipeline(self) -> DiffusionPipeline:
        return self._checkpoint.load()

    def _draw_samples(self, pair: CaptionPair) -> _Samples:
        """Draw every sample of a pair of captions; a picture is released as soon as a filter rejects it."""
        draws = [self._make_draw(pair.id, index) for index in range(self._options.samples)]
        passed: list[_Sample] = []
        failed: list[str] = []
        samples = sample_pairs(self._loaded_pipeline, pair.captions, draws, self._schedule)
        for (index, draw), pictures in zip(enumerate(draws), samples, strict=True):
            similarity = measure_pair(self._scorer, pictures, pair.captions)
            if (step := self._options.keep.step_failed(similarity)) is None:
                passed.append(_Sample(index, draw, similarity, pictures))
            else:
                failed.append(step)
        passed.sort(key=lambda sample: (-sample.similarity.directional, sample.index))
        return _Samples(pair.id, tuple(passed[: self._options.keep.best]), tuple(failed))

    def _make_draw(self, name: str, index: int) -> Draw:
        rng, options = random_numbers(self._seed, name, index), self._options
        seed = int(rng.integers(2**32))
        # Another order of these three would change the pictures of a seed.
        ranges = options.self_fraction, options.guidance, options.cross_fraction
        self_fraction, guidance, cross_fraction = (float(rng.uniform(low, high)) for low, high in ranges)
        return Draw(seed, guidance, self_fraction, cross_fraction)

    def _make_item(self, name: str, pair: CaptionPair, sampled: _Samples, rank: int) -> Made:
        sample, options = sampled.passed[rank], self._options
        picture, draw = options.picture, sample.draw
        images = {f"images/{name}_{k}{picture.suffix}": picture.encode(p) for k, p in enumerate(sample.pictures)}
        provenance = {
            "pair": pair.id,
            "sample": sample.index,
            "rank": rank,
            "noise_seed": draw.seed,
            "self_fraction": round(draw.self_fraction, 6),
            "cross_fraction": round(draw.cross_fraction, 6),
            "guidance": round(draw.guidance, 6),
            "steps": options.steps,
            "sampler": options.sampler,
            "similarity": sample.similarity.to_record(),
        }
        item = pair.item(name, images=tuple(images), texts=pair.captions, provenance=provenance)
        # The failed samples are of the pair of captions, so only the item of the first rank reports them.
        return Made(item, images, tuple(f"sample: {step}" for step in sampled.failed) if rank == 0 else ())
