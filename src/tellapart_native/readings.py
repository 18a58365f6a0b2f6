"""The models that readings make of an encoder: scores of pairs, vectors, or the answers of another task's head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Halves
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder
from tellapart_native.family import NativeHalves
from tellapart_native.heads.answers import ANSWERS_FILE, Answers, read_answer_list
from tellapart_native.heads.captioner import NativeCaptioner, NativeWriter
from tellapart_native.heads.cosine import CosineScorer
from tellapart_native.heads.decoding import Writer
from tellapart_native.heads.other_tasks import FusionAnswers, FusionBoxes, FusionHeat, FusionTwoImages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["NativeModel", "make_model", "take_words"]

NativeModel = FusionScorer | CosineScorer | NativeCaptioner | FusionAnswers | FusionTwoImages | FusionHeat | FusionBoxes

_MODELS: dict[str, Callable[[TorchFusionEncoder], NativeModel]] = {
    "cosine": CosineScorer,
    "likelihood": NativeCaptioner,
    "two_images": FusionTwoImages,
    "heat": FusionHeat,
    "box": FusionBoxes,
}


def take_words(halves: Halves, folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give a head its words: the list in the file's folder if it chooses answers, the tokens of a captioner.

    Raises:
        ModelError: the list is missing or does not fit the head.
    """
    if isinstance(halves, NativeHalves):
        halves.take_words(tokenizer)
    if isinstance(halves, Answers):
        path = folder / ANSWERS_FILE
        answers = read_answer_list(path)
        try:
            halves.take_answers(answers, tokenizer)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error


def make_model(encoder: TorchFusionEncoder, halves: Halves) -> NativeModel:
    """Make the model of the encoder's reading."""
    if isinstance(halves, Answers):
        return FusionAnswers(encoder, halves.answers)
    if isinstance(halves, Writer):
        return NativeWriter(encoder, halves)
    return _MODELS.get(encoder.reading, FusionScorer)(encoder)
