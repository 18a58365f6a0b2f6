"""A captioner in its authors' file, as a generator: the image is read once, for all captions."""

from __future__ import annotations

from collections.abc import Sequence

from tellapart.errors import ModelError
from tellapart.models.fusion.scoring import FusionScorer, StateModel, TorchFusionEncoder
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import Task
from tellapart.models.huggingface.inputs import TokenReader
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import forward
from tellapart_native.heads.decoding import Writer


class NativeCaptioner(StateModel):
    """A pair's score is log P(text and its end | image), in nats: the sum over its tokens, or the mean."""

    batch_size = FusionScorer.batch_size
    log_likelihoods = StateModel.pair_numbers

    def __init__(self, encoder: TorchFusionEncoder) -> None:
        super().__init__(encoder)
        self.prepare_image = encoder.prepare_image
        self.kind = "similarity"  # a log-probability: no logit of a match, and no probability


class NativeWriter(NativeCaptioner):
    """A captioner that also writes, by its authors' beam search, one image at a time: no caption has neighbours."""

    def __init__(self, encoder: TorchFusionEncoder, halves: Writer) -> None:
        super().__init__(encoder)
        self.halves = halves

    def task_prompt(self, task: Task) -> Prompt:
        """Return the prompt of captions."""
        if task != "caption":
            raise ModelError(f"{self.name} writes captions, and has no task {task!r}")
        return self.halves.prompt

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Write a caption of the image `k`."""
        if len(images) != len(prompts) or any(len(pictures) != 1 for pictures in images):
            counts = ", ".join(str(len(pictures)) for pictures in images)
            raise ModelError(f"{self.name}: {len(prompts)} prompts with {counts or 'no'} images; give one for each")
        prompt_text = self.halves.prompt.text
        other = next((prompt for prompt in prompts if prompt != prompt_text), None)
        if other is not None:
            raise ModelError(f"{self.name} writes captions, which it is asked for with {prompt_text!r}; got {other!r}")
        states = self.encoder.encode_images([picture for (picture,) in images])
        with forward(self.name, self.halves.module):
            return [
                self.halves.write_text(tuple(tensor[None] for tensor in state.tensors), max_new_tokens)
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
