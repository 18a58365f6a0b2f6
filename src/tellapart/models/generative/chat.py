"""Chat models that read images: the probability of an answer about an image, and greedy answers.

The image and the part of the prompt before it are read once, and their keys and values cached; each text continues from
that cache. Images are read one by one, texts in batches of one fixed shape. Padding is on the right, which a causal
model does not read. So no number depends on padding, batch size, order or neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.answers_grammar import BoxConvention
from tellapart.models.generative.chat_format import ChatFormat, TokenizedAnswer
from tellapart.models.generative.greedy import ReadPrompt, write_answers
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import CHAT_TASKS, Ask, PromptedAnswer, Task, new_tokens, too_long
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.protocols import Pixels
from tellapart.models.scoring.frames import list_frames
from tellapart.models.torch.backend import Runtime, import_torch
from tellapart.models.torch.likelihood import LogProbability, log_probability_of, read_batches

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig, PreTrainedModel, ProcessorMixin

__all__ = ["BOXES", "ChatModel"]

#: Families known to give the same numbers from the cached image, each tested against the library's forward. A model of
#: another family is tested when it loads; if it fails, image and text are read again for every text, which is slower
#: but right for every architecture.
_CACHES_IMAGE = frozenset({"llava", "llava_next", "qwen2_vl", "qwen2_5_vl"})

#: Family -> the unit of a box's numbers, and the prompt that asks for a box.
BOXES: dict[str, tuple[BoxConvention, Prompt]] = {
    "llava": ("unit", prompts.GROUNDING_SENTENCE),
    "qwen2_vl": ("thousandths", prompts.GROUNDING_JSON),
    "qwen2_5_vl": ("pixels", prompts.GROUNDING_JSON),
}

#: Rounding that is allowed, by dtype: of a token's log-probabilities when a later token changes, and of an answer's
#: when it is read from the cached image.
_NOISE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.05}

#: Pictures on which a family's cache is tested: a wide and a high one.
_SHAPES = ((64, 96), (90, 60))


@dataclass(frozen=True, slots=True, eq=False)
class _CachedImage:
    """An image, read together with the prompt before it.

    Attributes:
        pixel_hash: of the image.
        head: token ids of the prompt up to the image's placeholder; every prompt begins with them.
        length: number of tokens read.
        cache: their keys and values, for a batch of one.
        shift: added to a later token's index to get its position: in some families an image has fewer positions than
            tokens. None if the model numbers positions itself.
    """

    pixel_hash: str
    head: list[int]
    length: int
    cache: Any
    shift: int | None


class ChatModel:
    """A `transformers` image-text-to-text model whose language model is a decoder, with its processor.

    Raises:
        ModelError: an answer's earlier tokens depend on later ones in this family, or it has no prompt format.
    """

    describe_prompt: Prompt | None = prompts.DESCRIBE
    takes_frames = True

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        self.source, self.model, self.processor, self.runtime = source, model, processor, runtime
        tasks = dict(CHAT_TASKS)
        if model.config.model_type in BOXES:
            tasks["grounding"] = BOXES[model.config.model_type][1]
        self.tasks: Mapping[Task, Prompt] = MappingProxyType(tasks)
        self.format = ChatFormat(source, processor, model.config)
        # In place of the checkpoint's, which the library uses for every setting that a call leaves out.
        model.generation_config = self._greedy_settings()
        self._cached: _CachedImage | None = None
        self._caches_image = model.config.model_type in _CACHES_IMAGE
        if not self._caches_image:
            self._check_causal()
            self._caches_image = self._can_cache()

    @property
    def method(self) -> str:
        """The changes of method since the first version, as part of the fingerprint; empty if none applies."""
        cached = "cached image" if self._caches_image and self.model.config.model_type not in _CACHES_IMAGE else ""
        return ", ".join(filter(None, (cached, "no thinking" if self.format.thinks else "")))

    @property
    def truncated(self) -> int:
        """The number of texts so far that were cut to fit the context."""
        return self.format.truncated

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text; a video's frames are read as images.

        Raises:
            ModelError: image and prompt alone fill the context, or a text holds a control token of the model's.
        """
        with import_torch().inference_mode():
            if not self._caches_image:
                return [self._read_whole(pixels, text, ask) for text in texts]
            image, count = self._read_image(pixels), len(list_frames(pixels))
            added = image.length - len(image.head)
            return self._go_on(image, [self.format.fit_text(text, ask, added, count) for text in texts])

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images, without blanks at the ends.

        Raises:
            ModelError: images, prompt and answer exceed the context, or the prompt holds a control token.
        """
        self.format.check_text(prompt)
        inputs = self._encode_prompt(pictures, self.format.render_prompt(len(pictures), prompt))
        before = inputs["input_ids"][0].tolist()
        if len(before) + max_new_tokens > self.format.context:
            raise too_long(self.source, len(before) + max_new_tokens, self.format.context)
        with import_torch().inference_mode():
            out = self.model.generate(**inputs, max_new_tokens=max_new_tokens)
        ids = new_tokens(out[0].tolist(), before)
        return str(self.format.tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def generate_all(self, asked: Sequence[tuple[Sequence[Pixels], str]], max_new_tokens: int) -> list[str]:
        """Return the greedy answer to each prompt about some images.

        Captions, whose prompt is the same for every image, are written together if lengths match. Questions, whose
        lengths differ, would leave such batches half empty and be slower: they are answered one by one.

        Raises:
            ModelError: as `generate`.
        """
        prompt = self.tasks["caption"].text
        places = [place for place, (_, text) in enumerate(asked) if text == prompt]
        if not (places and self._caches_image and self._has_rows):
            return [self.generate(pictures, text, max_new_tokens) for pictures, text in asked]
        captions = dict(zip(places, self._write_captions([asked[k][0] for k in places], max_new_tokens), strict=True))
        return [
            captions[place] if place in captions else self.generate(pictures, text, max_new_tokens)
            for place, (pictures, text) in enumerate(asked)
        ]

    def _write_captions(self, images: Sequence[Sequence[Pixels]], most: int) -> list[str]:
        """Return captions of at most `most` tokens, written together."""
        prompt = self.tasks["caption"].text
        inputs = [
            self._encode_prompt(pictures, self.format.render_prompt(len(pictures), prompt)) for pictures in images
        ]
        lengths = [int(each["input_ids"].shape[1]) for each in inputs]
        if (needed := max(lengths) + most) > self.format.context:
            raise too_long(self.source, needed, self.format.context)
        stop = self.model.generation_config.eos_token_id
        ends = set(stop if isinstance(stop, list) else [stop])
        with import_torch().inference_mode():
            written = write_answers(self.model, lengths, lambda place: self._read_prompt(inputs[place]), ends, most)
        return [str(self.format.tokenizer.decode(ids, skip_special_tokens=True)).strip() for ids in written]

    @cached_property
    def _has_rows(self) -> bool:
        """Whether the cache holds keys and values only, so that the caches of several prompts can be stacked."""
        ids = import_torch().tensor([self.format.token_ids("a cat")], device=self.runtime.device)
        with import_torch().inference_mode():
            cache = self.model(input_ids=ids, use_cache=True).past_key_values
        return all(getattr(layer, "keys", None) is not None for layer in getattr(cache, "layers", [None]))

    def _read_prompt(self, inputs: Mapping[str, Any]) -> ReadPrompt:
        out = self.model(**inputs, use_cache=True, logits_to_keep=1)
        return ReadPrompt(
            out.past_key_values, inputs["input_ids"].shape[1], self._position_shift(), int(out.logits[0, -1].argmax())
        )

    def _position_shift(self) -> int | None:
        """Return the `shift` of `_CachedImage` after the tokens just read."""
        deltas = getattr(self.model.model, "rope_deltas", None)
        return None if deltas is None else int(deltas.reshape(-1)[0])

    def _encode_prompt(self, pictures: Sequence[Pixels], rendered: str) -> dict[str, Any]:
        """Run the processor on a rendered prompt and its images: tensors of one row, on the device."""
        from PIL import Image

        images = [Image.fromarray(pixels) for pixels in pictures]
        begin = self.format.tokenizer.bos_token
        # As the library's chat does: if the template writes the beginning, no second one is added.
        options = {"add_special_tokens": False} if begin and rendered.startswith(begin) else {}
        inputs = self.processor(text=[rendered], images=images or None, return_tensors="pt", **options)
        inputs = inputs.to(self.runtime.device)
        return {
            name: value.to(self.runtime.torch_dtype) if value.is_floating_point() else value
            for name, value in inputs.items()
        }

    def _read_image(self, pixels: Pixels) -> _CachedImage:
        """Read an image, or a video's frames, and the prompt before it, unless it was the last one read."""
        key = pixel_hash(pixels)
        if self._cached is not None and self._cached.pixel_hash == key:
            return self._cached
        self._cached = None  # frees its memory first
        frames = list_frames(pixels)
        rendered = self.format.render_prompt(len(frames), "?")
        inputs = self._encode_prompt(frames, rendered)
        ids, plain = inputs["input_ids"][0].tolist(), self.format.token_ids(rendered)
        length = max(len(ids) - _shared_end(ids, plain), _after_last(ids, self.format.image_token))
        head = len(plain) - (
            len(ids) - length
        )  # in some families the placeholder and the image's patches are different tokens
        if head <= 0 or ids[length:] != plain[head:]:
            raise ModelError(f"{self.source}: its processor and its tokenizer read the text after an image differently")
        row = inputs["input_ids"].shape
        start = {name: value[:, :length] if value.shape[:2] == row else value for name, value in inputs.items()}
        out = self.model(**start, use_cache=True, logits_to_keep=1)
        self._cached = _CachedImage(key, plain[:head], length, out.past_key_values, self._position_shift())
        return self._cached

    def _go_on(self, image: _CachedImage, questions: Sequence[TokenizedAnswer]) -> list[LogProbability]:
        """Return the answers' probabilities after the cached image; texts of one length share a batch."""
        if any(question.prompt[: len(image.head)] != image.head for question in questions):
            raise ModelError(f"{self.source}: its chat template writes part of the prompt before the image")
        # The last token is only predicted, so it is not among the tokens that are read.
        tails = [question.prompt[len(image.head) :] + question.answer[:-1] for question in questions]
        answers = [question.answer for question in questions]
        return read_batches(tails, answers, None, lambda rows: self._predict_tokens(image, rows))

    def _predict_tokens(self, image: _CachedImage, rows: list[list[int]]) -> Tensor:
        """Return the logits after each token of some rows, read after the cached image."""
        torch = import_torch()
        ids = torch.tensor(rows, device=self.runtime.device)
        cache = copy.deepcopy(image.cache)  # reading on extends a cache in place
        cache.batch_repeat_interleave(len(rows))
        positions = torch.arange(image.length, image.length + ids.shape[1], device=ids.device).expand(len(rows), -1)
        if image.shift is not None:
            positions = (positions + image.shift).expand(3, -1, -1)  # time, height and width are the same in a text
        return self.model(input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True).logits

    def _read_whole(self, pixels: Pixels, text: str, ask: Ask) -> LogProbability:
        """Read image, prompt and answer in one forward."""
        frames = list_frames(pixels)
        rendered = self.format.render_prompt(len(frames), ask(text).prompt)
        added = self._encode_prompt(frames, rendered)["input_ids"].shape[1] - len(self.format.token_ids(rendered))
        question = self.format.fit_text(text, ask, added, len(frames))
        inputs = self._encode_prompt(frames, question.rendered)
        logits = self._logits_whole(inputs, question.moved, question.answer)
        return log_probability_of(logits, question.answer)

    def _logits_whole(self, inputs: dict[str, Any], moved: int, answer: Sequence[int]) -> Tensor:
        """Return the logits for each of the answer's tokens, all read in one forward: `(token, vocabulary)`."""
        torch = import_torch()
        row = inputs["input_ids"].shape
        prompt, length = row[1] - moved, len(answer) - 1
        tails = {"input_ids": list(answer[:-1]), "attention_mask": [1] * length}
        longer = dict(inputs)
        for name, value in inputs.items():
            if value.shape[:2] == row:
                tail = tails.get(name, [0] * length)  # 0: a token of text
                added = torch.tensor([tail], dtype=value.dtype, device=value.device)
                longer[name] = torch.cat([value[:, :prompt], added], dim=1)
        return self.model(**longer).logits[0, -len(answer) :]

    def _check_causal(self) -> None:
        """Refuse a family whose later tokens change the predictions for earlier ones: it would see the answer."""
        torch = import_torch()
        with torch.inference_mode():
            inputs = self._encode_prompt([np.full((64, 64, 3), 127, np.uint8)], self.format.render_prompt(1, "?"))
            first, second = self.format.token_ids("a")[-1], self.format.token_ids("b")[-1]
            one, other = (self._logits_whole(inputs, 0, [token, first])[0].float() for token in (first, second))
        moved = float((one.log_softmax(-1) - other.log_softmax(-1)).abs().max())
        if not moved <= _NOISE[self.runtime.dtype]:
            raise ModelError(
                f"{self.source}: a model of the family {self.model.config.model_type!r} looks ahead in its answer "
                f"(a later token moves a log-probability by {moved:.3g}), so no answer's probability can be read from "
                "it"
            )

    def _can_cache(self) -> bool:
        """Return whether texts get the same numbers after the cached image as when image and text are read together.

        They do not if the image's tokens attend to the text, if the cache holds something other than keys and values,
        or if positions are numbered in another way.
        """
        pictures = [np.random.default_rng(k).integers(0, 256, (*_SHAPES[k], 3), dtype=np.uint8) for k in range(2)]
        texts, moved = ["a cat", "two dogs on a red mat, beside a cat"], 0.0

        def ask(text: str) -> PromptedAnswer:
            return PromptedAnswer(prompts.VQASCORE.fill(text=text), "Yes, it does", ends=True)

        cut = self.format.truncated
        try:
            with import_torch().inference_mode():
                for pixels in pictures:
                    image = self._read_image(pixels)
                    added = image.length - len(image.head)
                    cached = self._go_on(image, [self.format.fit_text(text, ask, added) for text in texts])
                    whole = [self._read_whole(pixels, text, ask) for text in texts]
                    differences = (one.total - other.total for one, other in zip(cached, whole, strict=True))
                    moved = max(moved, *map(abs, differences))
        except import_torch().cuda.OutOfMemoryError:
            raise
        except Exception:  # a cache of another kind fails anywhere in the library; reading again is always possible
            return False
        finally:
            self._cached, self.format.truncated = None, cut
        return moved <= _NOISE[self.runtime.dtype]

    def _greedy_settings(self) -> GenerationConfig:
        """Return settings that take from the checkpoint its special tokens only, not its sampling or penalties."""
        own, tokenizer = self.model.generation_config, self.format.tokenizer
        ends = own.eos_token_id if own.eos_token_id is not None else tokenizer.eos_token_id
        pads = (own.pad_token_id, tokenizer.pad_token_id, ends[0] if isinstance(ends, list) else ends)
        return import_transformers().GenerationConfig(
            do_sample=False,
            num_beams=1,
            bos_token_id=own.bos_token_id,
            eos_token_id=ends,
            pad_token_id=next((pad for pad in pads if pad is not None), None),
        )


def _after_last(ids: Sequence[int], token: int | None) -> int:
    """Return the index after the last of these tokens; 0 if there is none."""
    return max((index + 1 for index, id_ in enumerate(ids) if id_ == token), default=0)


def _shared_end(ids: Sequence[int], others: Sequence[int]) -> int:
    """Return how many of the last ids are the same in both."""
    pairs = zip(reversed(ids), reversed(others), strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(ids), len(others)))
