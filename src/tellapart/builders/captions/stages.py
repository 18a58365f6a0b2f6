"""The stages of `counterfactual-captions`: its options, and the taggers, models and WordNet that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tellapart.builders.captions.replacing import MaskedLanguageModel
from tellapart.builders.captions.similarity import MeanPooledEncoder
from tellapart.builders.captions.tagging import NltkTagger
from tellapart.builders.captions.wordnet import WordNet
from tellapart.errors import ModelError
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import TextScorer
from tellapart.models.text.causal_likelihood import CausalLikelihood
from tellapart.models.text.text_model import ROWS
from tellapart.models.text.tinystories import TinyStories
from tellapart.models.torch.backend import runtime

__all__ = ["OFF", "CaptionOptions", "Stages", "open_stages"]

Stage = TypeVar("Stage")

OFF = "off"  # the name of a stage that is left out

_TINY = "tinystories:"


class CaptionOptions(BaseModel):
    """The recipe's `[options]`. Paths are relative to the recipe; a model is a folder or a hub id.

    Attributes:
        captions: a file of captions (`caption_files.read_captions`).
        images: the folder that their column `image` is relative to; only a pair set needs it.
        tagger: `nltk:FOLDER`.
        masked_lm: a masked language model of transformers.
        similarity: an encoder of transformers whose tokens are averaged (all-MiniLM-L6-v2), or `off`.
        language_model: a causal language model of transformers, `tinystories:PATH`, or `off`, which chooses the most
            probable word.
        wordnet: the folder of WordNet's files, or `off`.
        wordnet_senses: of each noun, only so many of the most frequent; 0 is all of them.
        choices: of the masked language model for each noun.
        minimum, maximum: the similarity must be above the first and not above the second.
        wording: `kept` replaces the word and leaves the rest of the caption unchanged; `rejoined` joins the tokenizer's
            words again, as the authors do, which changes quotation marks and contractions.
        device, dtype: of the models.
        rows: sentences that the masked language model and the encoder read together; more of them suit a GPU. The last
            bits of a number depend on it.

    Raises:
        pydantic.ValidationError: an unknown key, a value out of range, or a range of similarity that is empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    captions: str
    images: str | None = None
    tagger: str
    masked_lm: str
    similarity: str
    language_model: str
    wordnet: str = OFF
    wordnet_senses: int = Field(default=0, ge=0)
    choices: int = Field(default=10, ge=1, le=1000)
    minimum: float = Field(default=0.8, ge=-1, le=1)
    maximum: float = Field(default=0.91, ge=-1, le=1)
    wording: Literal["kept", "rejoined"] = "kept"
    device: str = "cpu"
    dtype: str = "float32"
    rows: int = Field(default=ROWS, ge=1, le=1024)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError(f"no similarity lies above minimum {self.minimum} and not above maximum {self.maximum}")
        return self


@dataclass(frozen=True, slots=True)
class Stages:
    """The opened stages; None for one that the recipe leaves out."""

    tagger: NltkTagger
    replacer: MaskedLanguageModel
    encoder: MeanPooledEncoder | None
    language_model: TextScorer | None
    wordnet: WordNet | None

    @property
    def models(self) -> Mapping[str, str]:
        """Each stage's fingerprint, by the option's name."""
        stages: Mapping[str, Any] = {
            "tagger": self.tagger,
            "masked_lm": self.replacer,
            "similarity": self.encoder,
            "language_model": self.language_model,
            "wordnet": self.wordnet,
        }
        return {name: stage.fingerprint for name, stage in stages.items() if stage is not None}


def open_stages(options: CaptionOptions, home: Path) -> Stages:
    """Open the stages that a recipe names; one that is open already in this process is not read again.

    Raises:
        ModelError: no such stage, or its files are missing or damaged.
        MissingDependencyError: a package is not installed.
    """
    kind, _, folder = options.tagger.partition(":")
    if kind != "nltk" or not folder:
        raise ModelError(f"no tagger {options.tagger!r}; name nltk:FOLDER of NLTK's data")
    where = runtime(ModelOptions(device=options.device, dtype=options.dtype))

    def model(load: Callable[..., Stage], name: str, *more: int) -> Stage:
        path = home / Path(name).expanduser()
        opened: Stage = _open_once(load, str(path) if path.is_dir() else name, where, *more, stamp=_last_change(path))
        return opened

    def file(load: Callable[[Path], Stage], name: str) -> Stage:
        path = home / Path(name).expanduser()
        opened: Stage = _open_once(load, path, stamp=_last_change(path))
        return opened

    # The small ones first: a missing file is reported before a large model is read.
    tagger = file(NltkTagger.load, folder)
    wordnet = None if options.wordnet == OFF else file(WordNet, options.wordnet)
    encoder = None if options.similarity == OFF else model(MeanPooledEncoder.load, options.similarity, options.rows)
    judge: TextScorer | None = None
    if options.language_model.startswith(_TINY):
        judge = file(_load_tinystories, options.language_model.removeprefix(_TINY))
    elif options.language_model != OFF:
        judge = model(CausalLikelihood.from_second_token, options.language_model)
    replacer = model(MaskedLanguageModel.load, options.masked_lm, options.rows)
    return Stages(tagger, replacer, encoder, judge, wordnet)


@lru_cache(maxsize=16)
def _open_once(load: Callable[..., Stage], *arguments: object, stamp: int) -> Stage:  # noqa: ARG001
    """Open a stage once; files that changed since are opened again."""
    return load(*arguments)


def _load_tinystories(path: Path) -> TinyStories:
    return TinyStories.load(path, per_token=True)


def _last_change(path: Path) -> int:
    """Return when a file, or the newest of a folder, was last written, in nanoseconds; 0 if there is none."""
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)
