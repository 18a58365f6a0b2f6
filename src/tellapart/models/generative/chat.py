"""Chat models that read images: the probability of an answer about an image, and greedy answers.

The image and the part of the prompt before it are read once, and their keys and values cached; each text continues from
that cache. Images are read one by one, texts in batches of one fixed shape. Padding is on the right, which a causal
model does not read. So no number depends on padding, batch size, order or neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import CHAT_TASKS, PromptedAnswer, Reader, Task, new_tokens
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.protocols import Pixels
from tellapart.models.scoring.frames import list_frames
from tellapart.models.torch.backend import Runtime, fixed_batches, import_torch, inference, positions_by_key
from tellapart.models.torch.likelihood import LogProbability, log_probability_of, read_batches
from tellapart.models.torch.network import PreTrainedConfig, PreTrainedModel, ProcessorMixin, Tensor

#: The names of a cache among outputs and arguments: from transformers 5.24 on, and before.
_CACHES = ("cache", "past_key_values")

#: Captions in one forward pass, of inputs of one shape and without padding, so that none depends on its neighbours.
_ROWS = 4

#: Of families whose processor brings no chat template: the prompt's format, and the mark of an image.
_FORMATS = {
    "llava": ("USER: {images}{prompt} ASSISTANT:", "<image>\n"),
    "blip-2": ("Question: {prompt} Answer:", ""),
}

#: Where a model's thoughts begin, and an empty thought from there on (Qwen3's form).
_THINK, _NO_THOUGHT = "<think>", "\n\n</think>\n\n"

#: Families known to give the same numbers from the cached image, each tested against the library's forward. A model of
#: another family is tested when it loads; if it fails, image and text are read again for every text, which is slower
#: but right for every architecture.
_CACHES_IMAGE = frozenset({"llava", "llava_next", "qwen2_vl", "qwen2_5_vl"})

#: Family -> width and height of a picture in a box's numbers (None: in pixels, as the processor resizes it), and the
#: prompt that asks for a box.
BOXES: dict[str, tuple[tuple[int, int] | None, Prompt]] = {
    "llava": ((1, 1), prompts.GROUNDING_SENTENCE),
    "qwen2_vl": ((1000, 1000), prompts.GROUNDING_JSON),
    "qwen2_5_vl": (None, prompts.GROUNDING_JSON),
}

#: Rounding that is allowed, by dtype: of a token's log-probabilities when a later token changes, and of an answer's
#: when it is read from the cached image.
_NOISE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.05}


class ChatFormat:
    """The prompt format of one model.

    Attributes:
        thinks: whether the model was trained to think before it answers; here it answers at once.
        lead: the template's text between its prompt and an answer, a blank or nothing. Without it the answer would
            begin with another token than the model was trained to begin with.
        tail: its text behind an answer: of many families the mark of a turn's end, which they were trained to write.
    """

    def __init__(self, source: str, processor: ProcessorMixin, config: PreTrainedConfig) -> None:
        self._processor, self._by_parts = processor, True  # so that `_reads_parts` can try it
        self._plain = _FORMATS.get(config.model_type, ("", ""))
        if of_tokenizer := not getattr(processor, "chat_template", None):  # which a processor ignores
            processor.chat_template = getattr(getattr(processor, "tokenizer", None), "chat_template", None)
        self.template, self._templated = str(processor.chat_template), bool(processor.chat_template)
        self._asks_to_think = "enable_thinking" in self.template
        self._by_parts = not of_tokenizer or self._reads_parts()
        if not (self._templated and self._by_parts) and config.model_type not in _FORMATS:
            raise ModelError(
                f"{source} has no chat template of images, and no prompt format is known for the family "
                f"{config.model_type!r}; add the chat_template.jinja of the model it was trained from"
            )
        self.thinks = self._asks_to_think or _THINK in self.template
        prompt = self.render_prompt(1, "?")
        self.lead, self.tail = "" if prompt[-1:].isspace() else " ", ""
        if self._templated:  # the text before and behind an answer is what the template writes around "Yes"
            conversation = self._apply_template(1, "?", "Yes")
            before, yes, _ = conversation.removeprefix(prompt).partition("Yes")
            if yes:
                self.tail = conversation.rpartition("Yes")[2]
                self.lead = before if conversation.startswith(prompt) else self.lead

    def render_prompt(self, images: int, prompt: str) -> str:
        """Return the model's input: the prompt after so many images, up to the beginning of the answer."""
        if not self._templated:
            layout, image_mark = self._plain
            return layout.format(images=image_mark * images, prompt=prompt)
        rendered = self._apply_template(images, prompt)
        # Some templates begin a thought themselves. It ends at once, in the form of templates that can leave it out.
        return f"{rendered.rstrip()}{_NO_THOUGHT}" if rendered.rstrip().endswith(_THINK) else rendered

    def _reads_parts(self) -> bool:
        """Return whether the template reads a turn as parts, images and text; many of language models read a string."""
        try:
            plain, rendered = self._apply_template(0, "?"), self._apply_template(1, "?")
        except Exception:  # jinja's and the template's: a text is joined to a list
            return False
        return plain != rendered and "'type'" not in rendered  # else it leaves images out, or prints the list itself

    def _apply_template(self, images: int, prompt: str, answer: str = "") -> str:
        def content(count: int, text: str) -> Any:
            parts = [{"type": "image"}] * count + [{"type": "text", "text": text}]
            return parts if self._by_parts else self._plain[1] * count + text

        messages: list[dict[str, Any]] = [{"role": "user", "content": content(images, prompt)}]
        options: dict[str, bool] = {"enable_thinking": False} if self._asks_to_think else {}
        if answer:
            messages.append({"role": "assistant", "content": content(0, answer)})
        else:
            options["add_generation_prompt"] = True
        return str(self._processor.apply_chat_template(messages, tokenize=False, **options))


class TokenizedAnswer(NamedTuple):
    """The ids of a prompt and of the answer after it, cut from the ids of both written as one text.

    `rendered` is the prompt in the model's format; `prompt` has its ids, with the image's mark not yet expanded. If the
    answer's first letters join the prompt's last tokens, these are the answer's: `moved` ids are not in `prompt`.
    """

    rendered: str
    prompt: list[int]
    answer: list[int]
    moved: int


class _CachedImage(NamedTuple):
    """An image, read together with the prompt before it: the keys and values of `length` tokens, a batch of one.

    `head` are the ids of the prompt up to the image's placeholder; every prompt begins with them. `shift` is added to a
    later token's index to get its position, for in some families an image has fewer positions than tokens; None if the
    model numbers positions itself.
    """

    head: list[int]
    length: int
    cache: dict[str, Any]  # by its name among the model's arguments
    shift: int | None


class ChatModel(Reader):
    """A `transformers` image-text-to-text model whose language model is a decoder, with its processor."""

    describe_prompt = prompts.DESCRIBE
    takes_frames = True
    draws = True

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        self.format = ChatFormat(source, processor, model.config)
        super().__init__(source, model, processor, runtime, self.format.template)
        family = model.config.model_type
        boxes: dict[Task, Prompt] = {"grounding": BOXES[family][1]} if family in BOXES else {}
        self.tasks = MappingProxyType({**CHAT_TASKS, **boxes})
        self._image_token: int | None = getattr(model.config, "image_token_id", None)
        if self._image_token is not None:
            self.image_mark = self.tokenizer.convert_ids_to_tokens(self._image_token) or ""
        # The library completes a call by the checkpoint's settings: of these, only the special tokens stay (below).
        settings = model.generation_config
        ends = self.tokenizer.eos_token_id if settings.eos_token_id is None else settings.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        pads = (settings.pad_token_id, self.tokenizer.pad_token_id, listed[0])
        # The template's mark of a turn's end: Gemma's and Idefics2's tokenizers name a document's, which ends none.
        marks = [token for token in self._token_ids(self.format.tail)[:1] if token in self._control[0].names]
        usual = self.tokenizer.eos_token_id
        self._end_id = next(iter(marks), usual if usual in listed else listed[0])
        model.generation_config = import_transformers().GenerationConfig(
            do_sample=False,
            num_beams=1,
            bos_token_id=settings.bos_token_id,
            eos_token_id=ends,
            pad_token_id=next((pad for pad in pads if pad is not None), None),
        )
        self._caches_image = family in _CACHES_IMAGE
        if not self._caches_image:
            self._check_causal()
            self._caches_image = self._can_cache()
        cached = "cached image" if self._caches_image and family not in _CACHES_IMAGE else ""
        self.end = "" if self._end_id == usual else f"ends by token {self._end_id}"
        self.method = ", ".join(filter(None, (cached, "no thinking" if self.format.thinks else "")))

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], question: PromptedAnswer) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text; a video's frames are read as images."""
        with inference():
            if not self._caches_image:
                return [self._read_whole(pixels, text, question) for text in texts]
            image, count = self._read_image(pixels), len(list_frames(pixels))
            added = image.length - len(image.head)
            return self._go_on(image, [self.fit_text(text, question, added, count) for text in texts])

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about some images, without blanks at the ends."""
        return self._write([(pictures, prompt)], max_new_tokens, 1)[0]

    def generate_all(self, requests: Sequence[tuple[Sequence[Pixels], str]], max_new_tokens: int) -> list[str]:
        """Return the greedy answer to each prompt about some images.

        Captions, whose prompt is the same for every image, are written by fours if their inputs have one shape.
        Questions, whose lengths differ, would leave such batches half empty and be slower.
        """
        caption = self.tasks["caption"].text
        joined = [self._caches_image and prompt == caption for _, prompt in requests]
        batched = [pair for pair, by_fours in zip(requests, joined, strict=True) if by_fours]
        captions = iter(self._write(batched, max_new_tokens, _ROWS))
        return [
            next(captions) if by_fours else self.generate(*pair, max_new_tokens)
            for pair, by_fours in zip(requests, joined, strict=True)
        ]

    def _write(self, requests: Sequence[tuple[Sequence[Pixels], str]], most: int, rows: int) -> list[str]:
        """Return greedy answers of at most `most` tokens; so many prompts of one shape are answered together."""
        torch, inputs = import_torch(), []
        for pictures, prompt in requests:
            self.check_text(prompt)
            inputs.append(self._encode_prompt(pictures, self.format.render_prompt(len(pictures), prompt)))
            self.expect_room(inputs[-1]["input_ids"].shape[1] + most)
        answers, end = [""] * len(inputs), self.model.generation_config.eos_token_id
        ends = {*end} if isinstance(end, list) else {end}
        shapes = (tuple(tuple(tensor.shape) for tensor in tensors.values()) for tensors in inputs)
        for places in positions_by_key(shapes).values():
            for batch, real in fixed_batches(places, rows):
                joined = {name: torch.cat([inputs[place][name] for place in batch]) for name in inputs[batch[0]]}
                with inference():
                    out = self.model.generate(**joined, max_new_tokens=most).tolist()
                for place, row in zip(batch[:real], out[:real], strict=True):
                    ids = new_tokens(row, inputs[place]["input_ids"][0].tolist())
                    stops = (k for k, token in enumerate(ids, 1) if token in ends)
                    answers[place] = self.decode(ids[: next(stops, len(ids))])  # padding follows, and may be a word
        return answers

    def fit_text(self, text: str, question: PromptedAnswer, added: int, images: int = 1) -> TokenizedAnswer:
        """Tokenize the question about a text, beside `added` tokens of images; a long text loses its end."""
        self.check_text(text)

        def tokenize(filled: PromptedAnswer) -> tuple[TokenizedAnswer, int]:
            rendered = self.format.render_prompt(images, filled.prompt)
            prompt, whole = self._token_ids(rendered), self._token_ids(rendered + self.format.lead + filled.answer)
            shared = next((k for k, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), len(prompt))
            answer = whole[shared:] + ([self._end_id] if filled.ends else [])
            tokens = TokenizedAnswer(rendered, prompt[:shared], answer, len(prompt) - shared)
            return tokens, added + shared + len(answer)

        return self.fit(question, text, tokenize)

    def _token_ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _encode_prompt(self, pictures: Sequence[Pixels], rendered: str) -> dict[str, Any]:
        """Return the inputs of a rendered prompt and its images."""
        begin = self.tokenizer.bos_token
        # As the library's chat does: if the template writes the beginning, no second one is added.
        options = {"add_special_tokens": False} if begin and rendered.startswith(begin) else {}
        return self.process_inputs(pictures, rendered, **options)

    def _read_image(self, pixels: Pixels) -> _CachedImage:
        """Read an image, or a video's frames, and the prompt before it, unless it was the last one read."""

        def read() -> _CachedImage:
            frames = list_frames(pixels)
            rendered = self.format.render_prompt(len(frames), "?")
            inputs = self._encode_prompt(frames, rendered)
            ids, plain = inputs["input_ids"][0].tolist(), self._token_ids(rendered)
            after_image = max((place + 1 for place, token in enumerate(ids) if token == self._image_token), default=0)
            # The end that both share is the prompt after the image: placeholder and patches may be different tokens.
            ends = enumerate(zip(reversed(ids), reversed(plain), strict=False))
            shared = next((k for k, (first, other) in ends if first != other), min(len(ids), len(plain)))
            length = max(len(ids) - shared, after_image)
            head = len(plain) - (len(ids) - length)
            if head <= 0 or ids[length:] != plain[head:]:
                problem = "its processor and its tokenizer read the text after an image differently"
                raise ModelError(f"{self.source}: {problem}")
            shape = inputs["input_ids"].shape
            start = {name: value[:, :length] if value.shape[:2] == shape else value for name, value in inputs.items()}
            out = self.model(**start, use_cache=True, logits_to_keep=1)
            deltas = getattr(self.model.model, "rope_deltas", None)
            shift = None if deltas is None else int(deltas.reshape(-1)[0])
            name = next(name for name in _CACHES if name in out)
            return _CachedImage(plain[:head], length, {name: out[name]}, shift)

        return self.read_once(pixels, read)

    def _go_on(self, image: _CachedImage, questions: Sequence[TokenizedAnswer]) -> list[LogProbability]:
        """Return the answers' probabilities after the cached image; texts of one length share a batch."""
        if any(question.prompt[: len(image.head)] != image.head for question in questions):
            raise ModelError(f"{self.source}: its chat template writes part of the prompt before the image")
        torch = import_torch()

        def predict(rows: list[list[int]]) -> Tensor:
            ids = torch.tensor(rows, device=self.runtime.device)
            held = copy.deepcopy(image.cache)  # reading on extends a cache in place
            for cache in held.values():
                cache.batch_repeat_interleave(len(rows))
            positions = torch.arange(image.length, image.length + ids.shape[1], device=ids.device).expand(len(rows), -1)
            if image.shift is not None:
                positions = (positions + image.shift).expand(3, -1, -1)  # time, height, width are the same in a text
            return self.model(input_ids=ids, position_ids=positions, use_cache=True, **held).logits

        # The last token is only predicted, so it is not among the tokens that are read.
        tails = [question.prompt[len(image.head) :] + question.answer[:-1] for question in questions]
        return read_batches(tails, [question.answer for question in questions], None, predict)

    def _read_whole(self, pixels: Pixels, text: str, question: PromptedAnswer) -> LogProbability:
        """Read image, prompt and answer in one forward."""
        frames = list_frames(pixels)
        rendered = self.format.render_prompt(len(frames), question.fill(text).prompt)
        added = self._encode_prompt(frames, rendered)["input_ids"].shape[1] - len(self._token_ids(rendered))
        tokenized = self.fit_text(text, question, added, len(frames))
        inputs = self._encode_prompt(frames, tokenized.rendered)
        logits = self._logits_whole(inputs, tokenized.moved, tokenized.answer)
        return log_probability_of(logits, tokenized.answer)

    def _logits_whole(self, inputs: dict[str, Any], moved: int, answer: Sequence[int]) -> Tensor:
        """Return the logits for each of the answer's tokens, all read in one forward: `(token, vocabulary)`."""
        torch = import_torch()
        shape = inputs["input_ids"].shape
        prompt, length = shape[1] - moved, len(answer) - 1
        tails = {"input_ids": list(answer[:-1]), "attention_mask": [1] * length}
        longer = dict(inputs)
        for name, value in inputs.items():
            if value.shape[:2] == shape:
                tail = tails.get(name, [0] * length)  # 0: a token of text
                added = torch.tensor([tail], dtype=value.dtype, device=value.device)
                if name == "cross_attention_mask":  # the images that a token sees: those of the token before it
                    added = value[:, prompt - 1 : prompt].expand(-1, length, *value.shape[2:])
                longer[name] = torch.cat([value[:, :prompt], added], dim=1)
        return self.model(**longer).logits[0, -len(answer) :]

    def _check_causal(self) -> None:
        """Refuse a family whose later tokens change the predictions for earlier ones: it would see the answer."""
        with inference():
            inputs = self._encode_prompt([np.full((64, 64, 3), 127, np.uint8)], self.format.render_prompt(1, "?"))
            first, second = self._token_ids("a")[-1], self._token_ids("b")[-1]
            logits = (self._logits_whole(inputs, 0, [token, first])[0].float() for token in (first, second))
            before, after = (values.log_softmax(-1) for values in logits)
        moved = float((before - after).abs().max())
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
        shapes = ((64, 96, 3), (90, 60, 3))  # a wide picture and a high one
        pictures = [np.random.default_rng(k).integers(0, 256, shapes[k], dtype=np.uint8) for k in range(2)]
        texts, moved = ["a cat", "two dogs on a red mat, beside a cat"], 0.0
        question = PromptedAnswer(prompts.VQASCORE.text, "Yes, it does", ends=True)
        try:
            with inference():
                for pixels in pictures:
                    image = self._read_image(pixels)
                    added = image.length - len(image.head)
                    cached = self._go_on(image, [self.fit_text(text, question, added) for text in texts])
                    uncached = [self._read_whole(pixels, text, question) for text in texts]
                    differences = (reused.total - other.total for reused, other in zip(cached, uncached, strict=True))
                    moved = max(moved, *map(abs, differences))
        except import_torch().cuda.OutOfMemoryError:
            raise
        except Exception:  # a cache of another kind fails anywhere in the library; reading again is always possible
            return False
        finally:
            self._last, self.truncated = ("", None), 0  # as before the trial
        return moved <= _NOISE[self.runtime.dtype]
