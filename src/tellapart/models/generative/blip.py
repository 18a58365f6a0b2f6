"""BLIP's decoders: the captioner writes about an image, the answerer about an image and a question.

Both attend to states that are computed before any text is written: the image's, once for all its captions; or those of
the question read beside the image, one question at a time, for its encoder looks both ways and padding would be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tellapart.data.images import pixel_hash
from tellapart.models.generative.prompts import BLIP_CAPTION, QUESTION, Prompt
from tellapart.models.generative.text import Ask, Task, new_tokens, one_image, shorten, too_long
from tellapart.models.huggingface.images import image_inputs
from tellapart.models.likelihood import LogProbability, log_probability_of, read_batches
from tellapart.models.protocols import Pixels
from tellapart.models.torch_backend import Runtime, import_torch

__all__ = ["BlipAnswerer", "BlipCaptioner"]


class _Blip:
    """What both have: the image's states, the decoder, and a context of its own.

    Args:
        source: where it was loaded from, for errors.
        model: in evaluation mode, on its device.
        processor: image processor and tokenizer.
        runtime: device and dtype.

    Attributes:
        truncated: texts so far that did not fit the context and lost their end.
    """

    def __init__(self, source: str, model: Any, processor: Any, runtime: Runtime) -> None:
        self.source, self.model, self.processor, self.runtime = source, model, processor, runtime
        self.tokenizer = processor.tokenizer
        self.truncated = 0
        self._text = model.config.text_config
        self._context = int(self._text.max_position_embeddings)
        self._inputs = image_inputs(source, processor.image_processor)
        self._seen: tuple[str, Any] | None = None

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _image(self, pixels: Pixels) -> Any:
        """Return the image's states, `(1, patches, dimensions)`, computed anew unless it was the last one."""
        key = pixel_hash(pixels)
        if self._seen is None or self._seen[0] != key:
            inputs = self._inputs(pixels)["pixel_values"][None].to(self.runtime.device, self.runtime.torch_dtype)
            self._seen = (key, self.model.vision_model(pixel_values=inputs).last_hidden_state)
        return self._seen[1]

    def _logits(self, states: Any, rows: list[list[int]]) -> Any:
        """Return what the decoder expects after each token of rows of one length: `(row, length, vocabulary)`.

        Padding stands on the right, where the decoder cannot look: nothing else masks it.
        """
        torch = import_torch()
        ids = torch.tensor(rows, device=self.runtime.device)
        states = states.expand(len(rows), -1, -1)
        out = self.model.text_decoder(input_ids=ids, attention_mask=torch.ones_like(ids), encoder_hidden_states=states)
        return out.logits

    def _write(self, states: Any, start: list[int], max_new_tokens: int) -> str:
        """Return what the decoder writes greedily after `start`."""
        torch = import_torch()
        if len(start) + max_new_tokens > self._context:
            raise too_long(self.source, len(start) + max_new_tokens, self._context)
        out = self.model.text_decoder.generate(
            input_ids=torch.tensor([start], device=self.runtime.device),
            encoder_hidden_states=states,
            encoder_attention_mask=torch.ones(states.shape[:2], dtype=torch.long, device=states.device),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            num_beams=1,
            eos_token_id=self._text.sep_token_id,
            pad_token_id=self._text.pad_token_id,
        )
        return str(self.tokenizer.decode(new_tokens(out[0].tolist(), start), skip_special_tokens=True)).strip()

    def _fitted(self, text: str, ask: Ask, *, apart: bool) -> tuple[list[int], list[int]]:
        """Return the ids of the prompt and of the answer; a text that exceeds the context loses its end.

        Args:
            text: a caption, as a rule.
            ask: makes of it a prompt and an answer.
            apart: whether prompt and answer have a context each.
        """
        short = text
        while True:
            asked = ask(short)
            prompt = self._ids(asked.prompt)
            answer = self._ids(asked.answer) + ([self._text.sep_token_id] if asked.ends else [])
            # A prompt of its own has a beginning and an end; the answer's last token is never read.
            needed = max(len(prompt) + 2, len(answer)) if apart else len(prompt) + len(answer)
            if needed <= self._context:
                self.truncated += short != text
                return prompt, answer
            if not short:
                raise too_long(self.source, needed, self._context)
            short = shorten(self.tokenizer, short, needed - self._context)


class BlipCaptioner(_Blip):
    """`BlipForConditionalGeneration` with its processor. A prompt is the beginning of the caption.

    >>> BlipCaptioner.describe_prompt.text
    'a picture of '
    """

    describe_prompt: Prompt | None = BLIP_CAPTION
    tasks: Mapping[Task, Prompt] = MappingProxyType({"caption": BLIP_CAPTION})

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of what is asked about each text.

        Raises:
            ModelError: the prompt alone fills the context.
        """
        pieces = [self._fitted(text, ask, apart=False) for text in texts]
        read = [[self._text.bos_token_id, *prompt, *answer[:-1]] for prompt, answer in pieces]
        with import_torch().inference_mode():
            image = self._image(pixels)
            answers = [answer for _, answer in pieces]
            return read_batches(read, answers, self._context, lambda rows: self._logits(image, rows))

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy caption of one image, without the prompt that it was begun with.

        Raises:
            ModelError: not one image, or prompt and caption exceed the context.
        """
        if len(pictures) != 1:
            raise one_image(self.source, len(pictures))
        with import_torch().inference_mode():
            start = [self._text.bos_token_id, *self._ids(prompt)]
            return self._write(self._image(pictures[0]), start, max_new_tokens)


class BlipAnswerer(_Blip):
    """`BlipForQuestionAnswering` with its processor. A prompt is a question.

    >>> BlipAnswerer.tasks["vqa"].label
    'question/1'
    """

    describe_prompt: Prompt | None = None
    tasks: Mapping[Task, Prompt] = MappingProxyType({"vqa": QUESTION})

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of what is asked about each text.

        Raises:
            ModelError: the prompt alone fills the context.
        """
        values = []
        with import_torch().inference_mode():
            for text in texts:
                prompt, answer = self._fitted(text, ask, apart=True)
                read = [self._text.bos_token_id, *answer[:-1]]
                logits = self._logits(self._question(pixels, prompt), [read])
                values.append(log_probability_of(logits[0], answer))
        return values

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to a question about one image.

        Raises:
            ModelError: not one image, or the question exceeds the context.
        """
        if len(pictures) != 1:
            raise one_image(self.source, len(pictures))
        ids = self._ids(prompt)
        if len(ids) + 2 > self._context:
            raise too_long(self.source, len(ids) + 2, self._context)
        with import_torch().inference_mode():
            return self._write(self._question(pictures[0], ids), [self._text.bos_token_id], max_new_tokens)

    def _question(self, pixels: Pixels, ids: list[int]) -> Any:
        """Return the states of a question read beside an image: `(1, tokens, dimensions)`."""
        torch = import_torch()
        image = self._image(pixels)
        whole = [self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id]
        row = torch.tensor([whole], device=self.runtime.device)
        return self.model.text_encoder(
            input_ids=row,
            attention_mask=torch.ones_like(row),
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long, device=image.device),
        ).last_hidden_state
