"""Readings of a model that writes text about images: P("Yes"), the likelihood of a caption, a choice, free answers.

Scores are computed in the model's dtype and returned in float32; `tellapart.models.generative.chat` explains why no
number depends on a neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.generative.answers import (
    ANSWER_TOKENS,
    Corners,
    Prompted,
    PromptedChooser,
    pad_to_square,
    parse_box,
)
from tellapart.models.generative.chat import BOXES, ChatModel
from tellapart.models.generative.encoder_decoder import Blip, EncoderDecoderModel
from tellapart.models.generative.prompts import EQBEN_CHOICE, VQASCORE, Prompt
from tellapart.models.generative.reader import PromptedAnswer, Reader, Task
from tellapart.models.generative.sampling import Sampling
from tellapart.models.huggingface import files
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model, Pixels
from tellapart.models.torch import backend


@runtime_checkable
class Answerer(Model, Protocol):
    """A model that answers prompts about images in words (VQA, NLVR2, captions, boxes)."""

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Answer prompt `k` about the images `k`, greedily; no answer depends on its neighbours."""

    def task_prompt(self, task: Task) -> Prompt:
        """Return this model's prompt for a task."""


class Generative(Prompted):
    """A reading of a loaded model: its identity, free answers and boxes."""

    kind: ClassVar[ScoreKind] = "probability"
    #: The prompt that scores are read after; None for the reader's prompt before a caption.
    asks: ClassVar[Prompt | None] = None

    def __init__(self, reader: Reader, reading: str, dtype: str = "float32") -> None:
        prompt = self.asks or reader.describe_prompt
        if prompt is None:
            raise ModelError(f"{reader.source} answers questions and writes no captions; score it by the reading 'vqa'")
        self.prompt, self._reader, self._reading = prompt, reader, reading
        self.name, self.parameters = reader.source, backend.parameter_count(reader.model)
        self.takes_frames = reader.takes_frames
        self._family = str(reader.model.config.model_type)
        self.tasks, self.lacks_task = reader.tasks, f", a model of type {self._family!r},"
        self.fingerprint = backend.weights_fingerprint(
            reader.model,
            files.config_facts(reader.model.config),
            files.processor_facts(reader.processor),
            str(getattr(reader.processor, "chat_template", None)),
            prompt.label,
            prompt.text,
            _READINGS[reading].facts,
            dtype,
            *filter(None, (reader.method, reader.end if _READINGS[reading].ends else "")),
        )

    def draw(self, sampling: Sampling) -> None:
        """Draw answers from now on, in place of the likeliest: each by a seed of its own."""
        if not self._reader.draws:
            raise ModelError(f"{self.name}, a model of type {self._family!r}, writes its likeliest answer alone")
        self.sampling = sampling
        settings = self._reader.model.generation_config
        settings.do_sample, settings.temperature, settings.top_k, settings.top_p = True, sampling.temperature, 0, 1.0
        self.fingerprint += f":draw {sampling.number} at {sampling.temperature:g}"

    @property
    def truncated(self) -> int:
        """Texts so far that did not fit the context and lost their end."""
        return self._reader.truncated

    def write_answers(self, requests: Sequence[tuple[list[Pixels], str]], most: int) -> list[str]:
        """Answer each prompt about its pictures: greedily, or each by a seed of its own."""
        if self.sampling is None:
            return self._reader.generate_all(requests, most)
        answers = []
        for pictures, prompt in requests:
            backend.import_torch().manual_seed(self.sampling.seed(prompt, pictures))
            answers.append(self._reader.generate(pictures, prompt, most))
        return answers

    def read_box(self, answer: str, pixels: Pixels) -> Corners | None:
        """Read the box that an answer names, by the grammar of `parse_box`: x1, y1, x2, y2 in pixels, or None."""
        if self._family not in BOXES:
            raise ModelError(
                f"{self.name}: what a model of type {self._family!r} means by the numbers of a box is not known; they "
                f"are for {', '.join(BOXES)}"
            )
        from PIL import Image

        unit, _ = BOXES[self._family]
        if unit is None:
            processor = self._reader.processor.image_processor
            _, rows, columns = processor(images=[Image.fromarray(pixels)], return_tensors="np")["image_grid_thw"][0]
            unit = (int(columns) * processor.patch_size, int(rows) * processor.patch_size)
        height, width = self.box_picture(pixels).shape[:2]
        return parse_box(answer, unit, (pixels.shape[1], pixels.shape[0]), (width, height))

    def box_picture(self, pixels: Pixels) -> Pixels:
        """Return a picture as a box in it is asked for: of LLaVA padded to a square, of which its numbers are shares.

        Source: haotian-liu/LLaVA, issue 606; its data have boxes of padded pictures.
        """
        if self._family != "llava":
            return pixels
        return pad_to_square(pixels, [int(part * 255) for part in self._reader.processor.image_processor.image_mean])

    def _read_answers(
        self, images: Sequence[Pixels], texts: Sequence[str], *asked: PromptedAnswer
    ) -> NDArray[np.float64]:
        """Return log P and the number of tokens of each answer about image and text `k`: `(n, questions, 2)`."""
        self.expect_likeliest()
        values = np.zeros((len(texts), len(asked), 2), np.float64)
        rows_of_image = backend.positions_by_key(map(pixel_hash, images))
        for rows in rows_of_image.values():  # image by image: each is read once
            for column, question in enumerate(asked):
                texts_of_image = [texts[row] for row in rows]
                values[rows, column] = self._reader.log_probabilities(images[rows[0]], texts_of_image, question)
        return values


class YesProbability(Generative):
    """A pair's score is P("Yes") after the question whether the image shows the text.

    All other answers ("No", "The", ...) share the rest, as VQAScore has it. `yes_no` is P("Yes") / (P("Yes") +
    P("No")), for which 1/2 is the border of yes and no. `vqa_end` is exp of the mean over the tokens of "Yes" and the
    end after them: VQAScore's code scores so if a tokenizer ends each text, as T5's does.

    Source: VQAScore (Lin et al. 2024), section 3.
    """

    asks = VQASCORE

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)` in [0, 1]."""
        ends, over_no = _READINGS[self._reading].ends, self._reading == "yes_no"
        words = ("Yes", "No") if over_no else ("Yes",)
        asked = (PromptedAnswer(self.prompt.text, word, ends=ends) for word in words)
        read = self._read_answers(images, texts, *asked)
        logs = read[:, :, 0] / read[:, :, 1] if ends else read[:, :, 0]
        if over_no:
            logs -= np.logaddexp(logs[:, :1], logs[:, 1:])
        return np.exp(logs[:, 0]).astype(np.float32)


class CaptionLikelihood(Generative):
    """A pair's score is log P(text and its end | image), in nats: the sum over its tokens, or the mean.

    Without the end a caption could never score below one that goes on after it. The sum favours short captions, the
    mean forgets how surprising all of a caption is; captions of one pair are nearly of one length.

    Source: VisualGPTScore (Lin et al. 2023), section 3; CapPa in BiVLC.
    """

    kind: ClassVar[ScoreKind] = "similarity"  # a log-probability: no logit of a match, and no probability

    def log_likelihoods(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return log P(text `k` | image `k`), in nats: float32 `(n,)`; `mean_likelihood` divides by the tokens."""
        read = self._read_answers(images, texts, PromptedAnswer(self.prompt.text, "{text}", ends=True))[:, 0]
        mean = self._reading == "mean_likelihood"
        return (read[:, 0] / read[:, 1] if mean else read[:, 0]).astype(np.float32)


class ChoiceModel(PromptedChooser, Generative):
    """EqBen's choice.

    If the model's processor cuts a wide picture to its centre (LLaVA's does), the picture is first padded to a square:
    otherwise the outer half of either image would be lost.
    """

    asks = EQBEN_CHOICE

    def show_sides(self, left: Pixels, right: Pixels) -> list[Pixels]:
        """Return the picture of both images, or one of each pair of frames; square if the processor would crop it."""
        pictures = super().show_sides(left, right)
        crops = getattr(self._reader.processor.image_processor, "do_center_crop", False)
        return [pad_to_square(picture) for picture in pictures] if crops else pictures


class Reading(NamedTuple):
    """A reading: its class, its words in the fingerprint, the task that a model must have for it, and a refusal.

    `lack` is the refusal of a model without the task. `ends`: whether the end token counts as part of an answer.
    """

    make: type[Generative]
    facts: str
    task: Task | None = None
    lack: str = ""
    ends: bool = False


_NO_QUESTIONS = "answers no questions; score it by the reading 'likelihood'"
_READINGS = {
    "vqa": Reading(YesProbability, "yes", "vqa", _NO_QUESTIONS),
    "vqa_end": Reading(YesProbability, "yes and the end", "vqa", _NO_QUESTIONS, ends=True),
    "yes_no": Reading(YesProbability, "yes over no", "vqa", _NO_QUESTIONS),
    "likelihood": Reading(CaptionLikelihood, "likelihood", ends=True),
    "mean_likelihood": Reading(CaptionLikelihood, "mean likelihood", ends=True),
    "choice": Reading(ChoiceModel, f"choice, {ANSWER_TOKENS} tokens", "nlvr2", "follows no instructions"),
}


def load_generative(source: str, options: ModelOptions) -> Generative:
    """Load a model that writes text about images, from a folder or the hub, for one of its readings."""
    reader, reading = _load_reader(source, backend.runtime(options)), options.reading or "vqa"
    row = _READINGS[reading]
    if row.task is not None and row.task not in reader.tasks:
        raise ModelError(f"{source}, a {type(reader.model).__name__}, {row.lack}")
    return row.make(reader, reading, options.dtype)


def _load_reader(source: str, runtime: backend.Runtime) -> Reader:
    config = files.read_config(source)
    if files.is_clip_flan_t5(config):
        from tellapart.models.generative.clip_flan_t5 import load_clip_flan_t5

        return load_clip_flan_t5(source, config, runtime)
    processor = files.load_processor(source)
    if config["model_type"] == "blip":
        for_questions = config.get("architectures") == ["BlipForQuestionAnswering"]
        architecture = "BlipForQuestionAnswering" if for_questions else "BlipForConditionalGeneration"
        return Blip(source, files.load_weights(architecture, source, runtime), processor, runtime)
    families = files.import_transformers().models.auto.modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    # The second class also covers models that take audio.
    architecture = "AutoModelForImageTextToText" if config["model_type"] in families else "AutoModelForMultimodalLM"
    model = files.load_weights(architecture, source, runtime)
    has_encoder = getattr(model.config.get_text_config(), "is_encoder_decoder", False)
    with files.loading(source, "cannot be asked", "check config.json against that of the model it was trained from"):
        return (EncoderDecoderModel if has_encoder else ChatModel)(source, model, processor, runtime)
