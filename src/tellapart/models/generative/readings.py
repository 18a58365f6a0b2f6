"""Readings of a model that writes text about images: P("Yes"), the likelihood of a caption, and free answers.

Any image-text-to-text model of transformers with a decoder (LLaVA, Qwen2-VL, Qwen2.5-VL, ...) and BLIP can be read.
Scores are computed in the model's dtype and returned in float32; `tellapart.models.generative.chat` explains why no
number depends on a neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellapart.data.images import pixel_hash
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.generative.answers_grammar import Corners, parse_box
from tellapart.models.generative.chat import BOXES, ChatModel
from tellapart.models.generative.encoder_decoder import EncoderDecoderModel
from tellapart.models.generative.prompts import VQASCORE, Prompt
from tellapart.models.generative.reader import Ask, PromptedAnswer, Reader, Task
from tellapart.models.generative.sampling import Sampling
from tellapart.models.huggingface.files import config_facts, processor_facts
from tellapart.models.protocols import Model, Pixels
from tellapart.models.scoring.frames import list_frames
from tellapart.models.torch.backend import import_torch, parameter_count, positions_by_key, weights_fingerprint


@runtime_checkable
class Answerer(Model, Protocol):
    """A model that answers prompts about images in words (VQA, NLVR2, captions, boxes)."""

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Answer prompt `k` about the images `k`, greedily; no answer depends on its neighbours."""
        ...

    def task_prompt(self, task: Task) -> Prompt:
        """Return this model's prompt for a task."""
        ...


class Generative:
    """A reading of a loaded model: its identity, free answers and boxes."""

    kind: ClassVar[ScoreKind] = "probability"

    def __init__(self, reader: Reader, prompt: Prompt, reading: str, dtype: str = "float32") -> None:
        self.prompt, self._reader = prompt, reader
        self.name, self.parameters = reader.source, parameter_count(reader.model)
        self.takes_frames = reader.takes_frames
        self._family = str(reader.model.config.model_type)
        method = [reader.method] if reader.method else []
        self.fingerprint = weights_fingerprint(
            reader.model,
            config_facts(reader.model.config),
            processor_facts(reader.processor),
            str(getattr(reader.processor, "chat_template", None)),
            prompt.label,
            prompt.text,
            reading,
            dtype,
            *method,
        )
        self._sampling: Sampling | None = None

    def draw(self, sampling: Sampling) -> None:
        """Draw answers from now on, in place of the likeliest: each by a seed of its own."""
        if not isinstance(self._reader, ChatModel | EncoderDecoderModel):
            raise ModelError(f"{self.name}, a model of type {self._family!r}, writes its likeliest answer alone")
        self._sampling = sampling
        settings = self._reader.model.generation_config
        settings.do_sample, settings.temperature, settings.top_k, settings.top_p = True, sampling.temperature, 0, 1.0
        self.fingerprint += f":draw {sampling.number} at {sampling.temperature:g}"

    @property
    def truncated(self) -> int:
        """Texts so far that did not fit the context and lost their end."""
        return self._reader.truncated

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Answer prompt `k` about the images `k`: greedily, without blanks; none depends on its neighbours."""
        if len(images) != len(prompts):
            raise ModelError(
                f"{self.name}: {len(prompts)} prompts and images for {len(images)}; give one list for each"
            )
        pairs = zip([[frame for image in own for frame in list_frames(image)] for own in images], prompts, strict=True)
        if self._sampling is not None:
            return [self._draw_answer(self._sampling, pictures, prompt, max_new_tokens) for pictures, prompt in pairs]
        if isinstance(self._reader, ChatModel):
            return self._reader.generate_all(list(pairs), max_new_tokens)
        return [self._reader.generate(pictures, prompt, max_new_tokens) for pictures, prompt in pairs]

    def _draw_answer(self, sampling: Sampling, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        import_torch().manual_seed(sampling.seed(prompt, pictures))
        return self._reader.generate(pictures, prompt, max_new_tokens)

    def task_prompt(self, task: Task) -> Prompt:
        """Return this model's prompt for a task; `prompt.fill(...)` makes the text for `answer`."""
        if task not in self._reader.tasks:
            tasks = ", ".join(self._reader.tasks)
            raise ModelError(f"{self.name}, a model of type {self._family!r}, has no task {task!r}; it has {tasks}")
        return self._reader.tasks[task]

    def read_box(self, answer: str, pixels: Pixels) -> Corners | None:
        """Read the box that an answer names, by the grammar of `parse_box`: x1, y1, x2, y2 in pixels, or None."""
        if self._family not in BOXES:
            raise ModelError(
                f"{self.name}: what a model of type {self._family!r} means by the numbers of a box is not known; they "
                f"are for {', '.join(BOXES)}"
            )
        from PIL import Image

        convention, _ = BOXES[self._family]
        height, width = pixels.shape[:2]
        resized = None
        if convention == "pixels":  # as Qwen's processors resize the picture
            processor = self._reader.processor.image_processor
            _, rows, columns = processor(images=[Image.fromarray(pixels)], return_tensors="np")["image_grid_thw"][0]
            resized = (int(columns) * processor.patch_size, int(rows) * processor.patch_size)
        return parse_box(answer, convention, (width, height), resized)

    def _read_answers(self, images: Sequence[Pixels], texts: Sequence[str], *asks: Ask) -> NDArray[np.float64]:
        """Return log P of the answer to each question about image and text `k`, and its tokens: `(n, asks, 2)`."""
        if self._sampling is not None:
            raise ModelError(f"{self.name}: this set takes scores, and draws are of answers; leave samples= out")
        values = np.zeros((len(texts), len(asks), 2), np.float64)
        for positions in positions_by_key(map(pixel_hash, images)).values():  # image by image: each is read once
            for column, ask in enumerate(asks):
                values[positions, column] = self._reader.log_probabilities(
                    images[positions[0]], [texts[row] for row in positions], ask
                )
        return values


class YesProbability(Generative):
    """A pair's score is P("Yes") after the question whether the image shows the text.

    The plain probability, as VQAScore has it: all other answers ("No", "The", ...) share the rest.
    With `over_no` it is P("Yes") / (P("Yes") + P("No")), for which 1/2 is the border of yes and no. With `with_end` it
    is exp of the mean over the tokens of "Yes" and the end after them: VQAScore's code scores so if a tokenizer ends
    each text, as T5's does, and then sqrt(P("Yes") P(end | "Yes")) is the published number.

    Source: VQAScore (Lin et al. 2024), section 3.
    """

    def __init__(
        self, reader: Reader, *, over_no: bool = False, with_end: bool = False, dtype: str = "float32"
    ) -> None:
        reading = "yes over no" if over_no else "yes and the end" if with_end else "yes"
        super().__init__(reader, VQASCORE, reading, dtype)
        self.over_no, self.with_end = over_no, with_end

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)` in [0, 1]."""

        def ask(text: str, word: str) -> PromptedAnswer:
            return PromptedAnswer(self.prompt.fill(text=text), word, ends=self.with_end)

        words = ("Yes", "No") if self.over_no else ("Yes",)
        read = self._read_answers(images, texts, *(partial(ask, word=word) for word in words))
        logs = read[:, :, 0] / read[:, :, 1] if self.with_end else read[:, :, 0]
        if self.over_no:
            logs -= np.logaddexp(logs[:, :1], logs[:, 1:])
        return np.exp(logs[:, 0]).astype(np.float32)


class CaptionLikelihood(Generative):
    """A pair's score is log P(text and its end | image), in nats: the sum over its tokens, or the mean.

    The end of the text counts: without it a caption could never score below one that goes on after it. The sum favours
    short captions, the mean forgets how surprising all of a caption is; captions of one pair are nearly of one
    length.

    Source: VisualGPTScore (Lin et al. 2023), section 3; CapPa in BiVLC.
    """

    kind: ClassVar[ScoreKind] = "similarity"  # a log-probability: no logit of a match, and no probability

    def __init__(self, reader: Reader, *, mean: bool = False, dtype: str = "float32") -> None:
        if reader.describe_prompt is None:
            raise ModelError(f"{reader.source} answers questions and writes no captions; score it by the reading 'vqa'")
        super().__init__(reader, reader.describe_prompt, "mean likelihood" if mean else "likelihood", dtype)
        self.mean = mean

    def log_likelihoods(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return log P(text `k` | image `k`), in nats: float32 `(n,)`; by the token with `mean`."""

        def ask(text: str) -> PromptedAnswer:
            return PromptedAnswer(self.prompt.text, text, ends=True)

        read = self._read_answers(images, texts, ask)[:, 0]
        return (read[:, 0] / read[:, 1] if self.mean else read[:, 0]).astype(np.float32)
