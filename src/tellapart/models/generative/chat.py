"""Chat models that read images: the probability of an answer about an image, and greedy answers.

The image and the part of the prompt before it are read once, and their keys and values cached; each text continues from
that cache. Images are read one by one, texts in batches of one fixed shape. Padding is on the right, which a causal
model does not read. So no number depends on padding, batch size, order or neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError
from tellapart.models.control_tokens import list_control_tokens, refusal
from tellapart.models.generative import prompts
from tellapart.models.generative.answers_grammar import BoxConvention
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import CHAT_TASKS, Ask, PromptedAnswer, Reader, fit, new_tokens, too_long
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.protocols import Pixels
from tellapart.models.scoring.frames import list_frames
from tellapart.models.torch.backend import Runtime, fixed_batches, import_torch, positions_by_key
from tellapart.models.torch.likelihood import LogProbability, log_probability_of, read_batches
from tellapart.models.torch.network import GenerationConfig, PreTrainedConfig, PreTrainedModel, ProcessorMixin, Tensor

#: Captions in one forward pass, of inputs of one shape and without padding, so that none depends on its neighbours.
_ROWS = 4

#: Of families whose processor brings no chat template: the prompt's format, and the mark of an image.
_FORMATS = {
    "llava": ("USER: {images}{prompt} ASSISTANT:", "<image>\n"),
    "blip-2": ("Question: {prompt} Answer:", ""),
}

#: Where a model's thoughts begin, and an empty thought from there on (Qwen3's form).
_THINK, _NO_THOUGHT = "<think>", "\n\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class TokenizedAnswer:
    """The ids of a prompt and of the answer after it, cut from the ids of both written as one text.

    If the answer's first letters join the prompt's last token, that token is the answer's. So `moved` of the last ids
    of `rendered`, the prompt in the model's format, are not in `prompt`, whose image mark is not yet expanded.
    """

    rendered: str
    prompt: list[int]
    answer: list[int]
    moved: int


class ChatFormat:
    """The prompt format of one model, and its context in tokens, of which images count.

    `thinks` is whether the model was trained to think before it answers; here it answers at once.
    """

    def __init__(self, source: str, processor: ProcessorMixin, config: PreTrainedConfig) -> None:
        self.source, self.processor, self.tokenizer = source, processor, processor.tokenizer
        self.context = int(getattr(config.get_text_config(), "max_position_embeddings", None) or 1 << 30)
        self.image_token: int | None = getattr(config, "image_token_id", None)
        self.truncated = 0
        self._templated = bool(getattr(processor, "chat_template", None))
        if not self._templated and config.model_type not in _FORMATS:
            raise ModelError(
                f"{source} has no chat template, and no prompt format is known for the family {config.model_type!r}; "
                "add the chat_template.jinja of the model it was trained from"
            )
        self._plain = _FORMATS.get(config.model_type, ("", ""))
        template = str(getattr(processor, "chat_template", None))
        self._asks_to_think = "enable_thinking" in template
        self.thinks = self._asks_to_think or _THINK in template
        self._control = list_control_tokens(processor, template)
        self._lead = self._find_lead()

    def render_prompt(self, images: int, prompt: str) -> str:
        """Return the model's input: the prompt after so many images, up to the beginning of the answer."""
        if self._templated:
            rendered = self._apply_template([self._user_message(images, prompt)], add_generation_prompt=True)
            # A template that begins the thinking itself: it ends at once, as those end it that can leave it out.
            return f"{rendered.rstrip()}{_NO_THOUGHT}" if rendered.rstrip().endswith(_THINK) else rendered
        text, image = self._plain
        return text.format(images=image * images, prompt=prompt)

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of a text, without any that the tokenizer adds."""
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def fit_text(self, text: str, ask: Ask, added: int, images: int = 1) -> TokenizedAnswer:
        """Tokenize the question about a text; if it exceeds the context the text loses its end."""
        self.check_text(text)

        def tokenize(short: str) -> tuple[TokenizedAnswer, int]:
            question = ask(short)
            rendered = self.render_prompt(images, question.prompt)
            prompt, full_ids = self.token_ids(rendered), self.token_ids(rendered + self._lead + question.answer)
            shared = next((k for k, (a, b) in enumerate(zip(prompt, full_ids, strict=False)) if a != b), len(prompt))
            answer = full_ids[shared:] + ([self.tokenizer.eos_token_id] if question.ends else [])
            tokens = TokenizedAnswer(rendered, prompt[:shared], answer, len(prompt) - shared)
            return tokens, added + shared + len(answer)

        tokens, truncated = fit(self.source, self.tokenizer, self.context, text, tokenize)
        self.truncated += truncated
        return tokens

    def check_text(self, text: str) -> None:
        """Refuse a text that the model would take for an image, or for the end of a turn."""
        mark = None if self.image_token is None else self.tokenizer.convert_ids_to_tokens(self.image_token)
        if mark and mark in text:
            raise refusal(self.source, text, mark)
        for control in self._control:
            control.refuse_in_prompt(self.source, text)

    def _find_lead(self) -> str:
        """Return the template's text between its prompt and an answer: a blank, or nothing.

        Without it the answer would begin with another token than the model was trained to begin with.
        """
        prompt = self.render_prompt(1, "?")
        if self._templated:
            answered = {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}
            conversation = self._apply_template([self._user_message(1, "?"), answered])
            before, yes, _ = conversation.removeprefix(prompt).partition("Yes")
            if conversation.startswith(prompt) and yes:
                return before
        return "" if prompt[-1:].isspace() else " "

    def _user_message(self, images: int, prompt: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "image"}] * images + [{"type": "text", "text": prompt}]}

    def _apply_template(self, messages: Sequence[dict[str, Any]], **options: bool) -> str:
        if self._asks_to_think:
            options["enable_thinking"] = False
        return str(self.processor.apply_chat_template(list(messages), tokenize=False, **options))


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
    """An image, read together with the prompt before it: the keys and values of `length` tokens, a batch of one.

    `head` are the ids of the prompt up to the image's placeholder; every prompt begins with them. `shift` is added to a
    later token's index to get its position, for in some families an image has fewer positions than tokens; None if the
    model numbers positions itself.
    """

    pixel_hash: str
    head: list[int]
    length: int
    cache: Any
    shift: int | None


class ChatModel(Reader):
    """A `transformers` image-text-to-text model whose language model is a decoder, with its processor."""

    describe_prompt = prompts.DESCRIBE
    takes_frames = True

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        super().__init__(source, model, processor, runtime)
        tasks = dict(CHAT_TASKS)
        if model.config.model_type in BOXES:
            tasks["grounding"] = BOXES[model.config.model_type][1]
        self.tasks = MappingProxyType(tasks)
        self.format = ChatFormat(source, processor, model.config)
        # In place of the checkpoint's, which the library uses for every setting that a call leaves out.
        model.generation_config = self._greedy_settings()
        self._cached: _CachedImage | None = None
        self._caches_image = model.config.model_type in _CACHES_IMAGE
        if not self._caches_image:
            self._check_causal()
            self._caches_image = self._can_cache()
        cached = "cached image" if self._caches_image and model.config.model_type not in _CACHES_IMAGE else ""
        self.method = ", ".join(filter(None, (cached, "no thinking" if self.format.thinks else "")))

    @property
    def truncated(self) -> int:  # type: ignore[override]
        """The number of texts so far that were cut to fit the context."""
        return self.format.truncated

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text; a video's frames are read as images."""
        with import_torch().inference_mode():
            if not self._caches_image:
                return [self._read_whole(pixels, text, ask) for text in texts]
            image, count = self._read_image(pixels), len(list_frames(pixels))
            added = image.length - len(image.head)
            return self._go_on(image, [self.format.fit_text(text, ask, added, count) for text in texts])

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images, without blanks at the ends."""
        self.format.check_text(prompt)
        inputs = self._encode_prompt(pictures, self.format.render_prompt(len(pictures), prompt))
        before = inputs["input_ids"][0].tolist()
        if len(before) + max_new_tokens > self.format.context:
            raise too_long(self.source, len(before) + max_new_tokens, self.format.context)
        with import_torch().inference_mode():
            out = self.model.generate(**inputs, max_new_tokens=max_new_tokens)
        return self.decode(new_tokens(out[0].tolist(), before))

    def generate_all(self, asked: Sequence[tuple[Sequence[Pixels], str]], max_new_tokens: int) -> list[str]:
        """Return the greedy answer to each prompt about some images.

        Captions, whose prompt is the same for every image, are written together if their inputs have one shape.
        Questions, whose lengths differ, would leave such batches half empty and be slower: they are answered one by
        one.
        """
        prompt = self.tasks["caption"].text
        places = [place for place, (_, text) in enumerate(asked) if text == prompt and self._caches_image]
        captions = dict(zip(places, self._write_captions([asked[k][0] for k in places], max_new_tokens), strict=True))
        return [
            captions[place] if place in captions else self.generate(pictures, text, max_new_tokens)
            for place, (pictures, text) in enumerate(asked)
        ]

    def _write_captions(self, images: Sequence[Sequence[Pixels]], most: int) -> list[str]:
        """Return captions of at most `most` tokens, written together."""
        torch, prompt = import_torch(), self.tasks["caption"].text
        inputs = [
            self._encode_prompt(pictures, self.format.render_prompt(len(pictures), prompt)) for pictures in images
        ]
        captions, end = [""] * len(images), self.model.generation_config.eos_token_id
        ends = {*end} if isinstance(end, list) else {end}
        shapes = (tuple(tuple(tensor.shape) for tensor in tensors.values()) for tensors in inputs)
        for places in positions_by_key(shapes).values():
            length = int(inputs[places[0]]["input_ids"].shape[1])
            if (needed := length + most) > self.format.context:
                raise too_long(self.source, needed, self.format.context)
            for batch, real in fixed_batches(places, _ROWS):
                joined = {name: torch.cat([inputs[place][name] for place in batch]) for name in inputs[batch[0]]}
                with torch.inference_mode():
                    out = self.model.generate(**joined, max_new_tokens=most).tolist()
                for place, row in zip(batch[:real], out[:real], strict=True):
                    ids = new_tokens(row, inputs[place]["input_ids"][0].tolist())
                    stops = (k for k, token in enumerate(ids, 1) if token in ends)
                    captions[place] = self.decode(ids[: next(stops, len(ids))])  # padding may be a word
        return captions

    def _encode_prompt(self, pictures: Sequence[Pixels], rendered: str) -> dict[str, Any]:
        """Return the inputs of a rendered prompt and its images."""
        begin = self.tokenizer.bos_token
        # As the library's chat does: if the template writes the beginning, no second one is added.
        options = {"add_special_tokens": False} if begin and rendered.startswith(begin) else {}
        return self.process_inputs(pictures, rendered, **options)

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
        after_image = max((index + 1 for index, token in enumerate(ids) if token == self.format.image_token), default=0)
        ends = enumerate(zip(reversed(ids), reversed(plain), strict=False))
        shared = next((k for k, (first, other) in ends if first != other), min(len(ids), len(plain)))
        length = max(len(ids) - shared, after_image)
        # In some families the placeholder and the image's patches are different tokens.
        head = len(plain) - (len(ids) - length)
        if head <= 0 or ids[length:] != plain[head:]:
            raise ModelError(f"{self.source}: its processor and its tokenizer read the text after an image differently")
        row = inputs["input_ids"].shape
        start = {name: value[:, :length] if value.shape[:2] == row else value for name, value in inputs.items()}
        out = self.model(**start, use_cache=True, logits_to_keep=1)
        deltas = getattr(self.model.model, "rope_deltas", None)
        shift = None if deltas is None else int(deltas.reshape(-1)[0])
        self._cached = _CachedImage(key, plain[:head], length, out.past_key_values, shift)
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
                    uncached = [self._read_whole(pixels, text, ask) for text in texts]
                    differences = (reused.total - other.total for reused, other in zip(cached, uncached, strict=True))
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
        settings, tokenizer = self.model.generation_config, self.format.tokenizer
        end_ids = tokenizer.eos_token_id if settings.eos_token_id is None else settings.eos_token_id
        pads = (settings.pad_token_id, tokenizer.pad_token_id, end_ids[0] if isinstance(end_ids, list) else end_ids)
        return import_transformers().GenerationConfig(
            do_sample=False,
            num_beams=1,
            bos_token_id=settings.bos_token_id,
            eos_token_id=end_ids,
            pad_token_id=next((pad for pad in pads if pad is not None), None),
        )
