"""A captioner in its authors' file, as a generator: the image is read once, for all captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import Task
from tellapart.models.huggingface.inputs import Prepared, TokenReader
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import forward
from tellapart_native.heads.decoding import Writer


class NativeCaptioner:
    """A pair's score is log P(text and its end | image), in nats: the sum over its tokens, or the mean.

    Attributes:
        batch_size: pairs that are best given at once.
    """

    provenance = ""
    kind: ScoreKind = "similarity"  # a log-probability: no logit of a match, and no probability

    def __init__(self, encoder: TorchFusionEncoder) -> None:
        self.name, self.fingerprint, self.parameters = encoder.name, encoder.fingerprint, encoder.parameters
        self._scorer = FusionScorer(encoder)
        self.batch_size = self._scorer.batch_size

    @property
    def truncated(self) -> int:
        """How many different texts so far were longer than the context and lost their end."""
        return self._scorer.truncated

    def prepare_image(self, pixels: Pixels) -> Prepared:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `log_likelihoods`."""
        return self._scorer.prepare_image(pixels)

    def log_likelihoods(self, images: Sequence[Pixels | Prepared], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return log P(text `k` | image `k`), in nats: float32 `(n,)`."""
        return self._scorer.score_pairs(images, texts)


class NativeWriter(NativeCaptioner):
    """A captioner that also writes, by its authors' beam search, one image at a time: no caption has neighbours."""

    def __init__(self, encoder: TorchFusionEncoder, halves: Writer) -> None:
        super().__init__(encoder)
        self._encoder, self._halves = encoder, halves

    def task_prompt(self, task: Task) -> Prompt:
        """Return the prompt of captions."""
        if task != "caption":
            raise ModelError(f"{self.name} writes captions, and has no task {task!r}")
        return self._halves.prompt

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Write a caption of the image `k`."""
        if len(images) != len(prompts) or any(len(pictures) != 1 for pictures in images):
            counts = ", ".join(str(len(pictures)) for pictures in images)
            raise ModelError(f"{self.name}: {len(prompts)} prompts with {counts or 'no'} images; give one for each")
        prompt_text = self._halves.prompt.text
        other = next((prompt for prompt in prompts if prompt != prompt_text), None)
        if other is not None:
            raise ModelError(f"{self.name} writes captions, which it is asked for with {prompt_text!r}; got {other!r}")
        states = self._encoder.encode_images([picture for (picture,) in images])
        with forward(self.name, self._halves.module):
            return [
                self._halves.write_text(tuple(tensor[None] for tensor in state.tensors), max_new_tokens)
                for state in states
            ]


def check_ends(name: str, texts: TokenReader) -> None:
    """Check that a tokenizer marks a text's beginning and end: the first word is predicted after the one, and the other
    is predicted after the last word.
    """
    tokens = int(texts.tokens([""], 8)["attention_mask"].sum())
    if tokens < 2:
        raise ModelError(
            f"{name}: its tokenizer gives an empty text {tokens} tokens, not a beginning and an end, without which no "
            "caption has a likelihood; name the captioner's tokenizer with tokenizer=FOLDER"
        )
