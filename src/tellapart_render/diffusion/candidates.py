"""The builder `generated-images`: pictures of captions, as BiVLC's candidates (four a caption) or TROHN-Img's (one)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.caption_files import CaptionPair, file_digest, read_caption_pairs
from tellapart.data.images import decode, resolve
from tellapart.data.item import Item
from tellapart.errors import DataError
from tellapart.models.protocols import Pixels
from tellapart_render.diffusion.image_filters import PictureFile, open_scorer, unit_vectors
from tellapart_render.diffusion.sampling import (
    DiffusionModel,
    Schedule,
    open_checkpoint,
    random_numbers,
    room_for,
    sample_images,
)

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline


class GeneratedImages:
    """Draw pictures of captions: candidates for people to choose from, or the second or both pictures of a pair.

    With `layout = "candidates"` an item has one caption and several pictures of it; `tellapart annotate export` with
    the survey `best-image` asks people to choose one. With `layout = "pairs"` an item has two captions and a picture of
    each; of several pictures of a caption the first is taken, or the one that a scorer finds nearest to it. The first
    caption's picture is `given` (column `image_0`, below the folder `images`) or `drawn`.

    Source: BiVLC, sections on dataset construction and TROHN-Img, and its code; unlike there, every picture has a seed.
    """

    class Options(BaseModel):
        """The recipe's `[options]`.

        Attributes:
            captions: a file of caption pairs, relative to the recipe.
            images: the folder of given pictures.
            layout: `candidates` or `pairs`.
            positive: whether the first caption's picture is `given` or `drawn`.
            count: pictures of each caption (BiVLC: 4; TROHN-Img: 1).
            choose: the `first` picture of a caption, or the `nearest` to it by the scorer.
            scorer, scorer_device: a dual encoder by its name in `tellapart run -m`, and its device (`auto`: the
                pipeline's).
            suffix: the text that makes a prompt of a caption, after the caption without its last full stop.
            model: the pipeline, optionally with another denoiser (`unet`), for example DPO's.
            steps, side, batch: see `sampling.Schedule`; the sampler is the pipeline's.
            guidance: how closely pictures follow the prompt.
            picture: size and format of the files (BiVLC: JPEG of 512 pixels a side).
        """

        model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

        captions: str
        images: str = ""
        layout: Literal["candidates", "pairs"] = "candidates"
        positive: Literal["given", "drawn"] = "given"
        count: int = Field(default=4, ge=1)
        choose: Literal["first", "nearest"] = "first"
        scorer: str = ""
        scorer_device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
        suffix: str = ", high resolution, professional, 4k, highly detailed"
        model: DiffusionModel
        steps: int = Field(default=50, ge=1)
        side: int = Field(default=0, ge=0, multiple_of=8)
        batch: int = Field(default=1, ge=1)
        guidance: float = Field(default=5.0, ge=0)
        picture: PictureFile = Field(default_factory=lambda: PictureFile(side=512, format="jpeg"))

    def __init__(self, start: Start) -> None:
        options: GeneratedImages.Options = start.options
        self._options, self._seed = options, start.seed
        path = start.home / options.captions
        self._pairs = read_caption_pairs(path)
        self.inputs: Mapping[str, str] = file_digest(path)
        self._folder = start.home / options.images
        if options.layout == "candidates" and options.count < 2:
            raise DataError("[options] count: there is nothing to choose among fewer than 2 candidates of a caption")
        if options.layout == "pairs" and options.positive == "given":
            lacking = [pair.id for pair in self._pairs.values() if not pair.image]
            if lacking:
                fault = f"{len(lacking)} pairs have no column 'image_0' (first {lacking[0]!r})"
                fix = 'add it, or draw the first caption\'s picture, too: [options] positive = "drawn"'
                raise DataError(f"{path}: {fault}; {fix}")
        needs_scorer = options.layout == "pairs" and options.choose == "nearest"
        if needs_scorer != bool(options.scorer):
            use = 'it is needed for layout = "pairs" with choose = "nearest", and for nothing else'
            raise DataError(f"[options] scorer: {use}; got {options.scorer!r}")
        self._checkpoint = open_checkpoint(options.model, start.home)
        device = self._checkpoint.device if options.scorer_device == "auto" else options.scorer_device
        self._scorer = open_scorer(options.scorer, device) if needs_scorer else None
        self._schedule = Schedule(steps=options.steps, side=options.side, batch=options.batch)

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """Title, description, licence, source and citation for the card."""
        pairs = self._options.layout == "pairs"
        shape = "2x2 items" if pairs else f"{self._options.count}x1 items, candidates to choose among"
        first = "; the first picture is a given one" if pairs and self._options.positive == "given" else ""
        return {
            "title": "Pictures generated from captions",
            "description": f"{shape}: pictures are drawn from the captions{first}. No person has looked at them, and "
            "no safety checker has run: look at them before you measure with them or show them. A made picture beside "
            "a natural one can be told by its looks alone.",
            "licence": "that of the captions, of the given pictures and of the diffusion model's outputs",
            "source": "drawn by tellapart's builder `generated-images` from captions of the user",
            "citation": "Miranda et al., BiVLC, NeurIPS 2024; Podell et al., SDXL, 2023; Wallace et al., "
            "Diffusion-DPO, 2023",
        }

    @property
    def models(self) -> Mapping[str, str]:
        """The pipeline's revisions, the scorer's fingerprint if there is one, and the libraries that compute."""
        scorer = {"scorer": f"{self._options.scorer} {self._scorer.fingerprint}"} if self._scorer else {}
        return {**self._checkpoint.versions, **scorer}

    def candidates(self) -> Sequence[Candidate]:
        """Return one candidate for each pair of captions (`pairs`), or for each caption to draw (`candidates`)."""
        if self._options.layout == "pairs":
            return [Candidate(name, {"pair": name}) for name in self._pairs]
        return [
            Candidate(f"{name}-{side}", {"pair": name, "side": side})
            for name in self._pairs
            for side in self._drawn_sides
        ]

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Draw the pictures of a caption, or of a pair's captions."""
        pair = self._pairs[candidate.data["pair"]]
        sides = self._drawn_sides if self._options.layout == "pairs" else (candidate.data["side"],)
        # The caption must fit; the text encoder may cut off the suffix.
        if not all(room_for(self._loaded_pipeline, pair.captions[side]) for side in sides):
            return Rejected("caption", "longer than the text encoder reads")
        if self._options.layout == "candidates":
            return self._make_choice(candidate.id, pair, sides[0])
        return self._make_pair(candidate.id, pair)

    def source_of(self, item: Item) -> tuple[Path, JsonValue] | None:
        """Return the path of an item's given picture, and the SHA-256 that it had; None if all are drawn."""
        image = item.provenance.get("image")
        return (self._folder / str(image), item.provenance.get("image_sha256")) if image else None

    @property
    def _drawn_sides(self) -> tuple[int, ...]:
        """The captions of a pair, 0 or 1, that pictures are drawn of."""
        return (1,) if self._options.positive == "given" else (0, 1)

    @cached_property
    def _loaded_pipeline(self) -> DiffusionPipeline:
        return self._checkpoint.load()

    def _draw_pictures(self, pair: CaptionPair, side: int) -> tuple[list[Pixels], list[int]]:
        """Draw a caption's pictures; return them and their seeds."""
        prompt = pair.captions[side].removesuffix(".") + self._options.suffix
        seeds = [
            int(random_numbers(self._seed, f"{pair.id}:{side}", k).integers(2**32)) for k in range(self._options.count)
        ]
        return list(sample_images(self._loaded_pipeline, prompt, seeds, self._schedule, self._options.guidance)), seeds

    def _make_choice(self, name: str, pair: CaptionPair, side: int) -> Made:
        """Make an item of one caption and its candidate pictures."""
        pictures, seeds = self._draw_pictures(pair, side)
        picture = self._options.picture
        images = {f"images/{name}_{k}{picture.suffix}": picture.encode(p) for k, p in enumerate(pictures)}
        provenance = {"pair": pair.id, "caption": side, "noise_seeds": [*seeds], **self._list_settings()}
        texts = (pair.captions[side],)
        return Made(pair.item(name, images=tuple(images), texts=texts, provenance=provenance), images)

    def _make_pair(self, name: str, pair: CaptionPair) -> Made:
        """Make an item of two captions and a picture of each, and record how each picture was chosen."""
        picture = self._options.picture
        images: dict[str, bytes] = {}
        draws: list[JsonValue] = []
        provenance: dict[str, JsonValue] = {"pair": pair.id, "drawn": draws, **self._list_settings()}
        if self._options.positive == "given":
            data = resolve(self._folder, pair.image).read_bytes()
            decode(data, pair.image)
            images[f"images/{name}_0{PurePosixPath(pair.image).suffix.lower()}"] = data
            provenance |= {"image": pair.image, "image_sha256": hashlib.sha256(data).hexdigest()}
        for side in self._drawn_sides:
            pictures, seeds = self._draw_pictures(pair, side)
            cosines = self._measure_cosines(pictures, pair.captions[side])
            best = int(np.argmax(cosines)) if cosines is not None else 0  # the first of equal ones
            rounded: list[JsonValue] | None = None if cosines is None else [round(float(c), 6) for c in cosines]
            draws.append({"caption": side, "candidate": best, "noise_seed": seeds[best], "cosines": rounded})
            images[f"images/{name}_{side}{picture.suffix}"] = picture.encode(pictures[best])
        return Made(pair.item(name, images=tuple(images), texts=pair.captions, provenance=provenance), images)

    def _measure_cosines(self, pictures: Sequence[Pixels], caption: str) -> NDArray[np.float64] | None:
        """Return each picture's cosine with the caption, if there is a scorer."""
        if self._scorer is None:
            return None
        image_vectors, text_vectors = unit_vectors(self._scorer, pictures, [caption])
        cosines: NDArray[np.float64] = (image_vectors * text_vectors).sum(axis=1)
        return cosines

    def _list_settings(self) -> dict[str, JsonValue]:
        options = self._options
        return {"guidance": options.guidance, "steps": options.steps, "suffix": options.suffix}
