"""Load a model that writes text about images, with the reading that turns its text probabilities into scores."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from tellapart.data.images import pixel_hash
from tellapart.errors import ModelError
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.generative.chat import ChatModel
from tellapart.models.generative.choice import ChoiceModel
from tellapart.models.generative.encoder_decoder import EncoderDecoderModel
from tellapart.models.generative.prompts import BLIP_CAPTION, QUESTION
from tellapart.models.generative.reader import Ask, Reader, Task, fit, new_tokens, too_long
from tellapart.models.generative.readings import CaptionLikelihood, Generative, YesProbability
from tellapart.models.huggingface.files import (
    import_transformers,
    is_clip_flan_t5,
    load_processor,
    load_weights,
    read_config,
)
from tellapart.models.huggingface.images import image_inputs
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.torch.likelihood import LogProbability, log_probability_of, read_batches
from tellapart.models.torch.network import PreTrainedModel, ProcessorMixin, Tensor

# BLIP's decoders attend to states that are computed before any text is written: the image's, once for all its captions;
# or those of a question read with the image, one by one, for its encoder looks both ways and would see padding.


class _Blip(Reader):
    """The image's states and the decoder, as both models have them."""

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        super().__init__(source, model, processor, runtime)
        self._control = ControlTokens(self.tokenizer)
        self._text = model.config.text_config
        self._context = int(self._text.max_position_embeddings)
        self._inputs = image_inputs(source, processor.image_processor)
        self._last_image: tuple[str, Any] | None = None  # hash of pixels, states

    def _token_ids(self, text: str) -> list[int]:
        return self._control.read_ids(self.source, text)

    def _image_states(self, pixels: Pixels) -> Tensor:
        """Return the image's states, `(1, patches, dimensions)`, computed again unless it was the last one."""
        key = pixel_hash(pixels)
        if self._last_image is None or self._last_image[0] != key:
            inputs = self._inputs(pixels)["pixel_values"][None].to(self.runtime.device, self.runtime.torch_dtype)
            self._last_image = (key, self.model.vision_model(pixel_values=inputs).last_hidden_state)
        return self._last_image[1]

    def _predict_tokens(self, states: Tensor, rows: list[list[int]]) -> Tensor:
        """Return the decoder's predictions after each token of rows of one length: `(row, length, vocabulary)`.

        Padding is on the right, where the decoder cannot look: nothing else masks it.
        """
        ids = import_torch().tensor(rows, device=self.runtime.device)
        states = states.expand(len(rows), -1, -1)
        return self.model.text_decoder(
            input_ids=ids, attention_mask=_full_mask(ids), encoder_hidden_states=states
        ).logits

    def _write_greedily(self, states: Tensor, start: list[int], max_new_tokens: int) -> str:
        """Return the greedy continuation of `start`."""
        if len(start) + max_new_tokens > self._context:
            raise too_long(self.source, len(start) + max_new_tokens, self._context)
        out = self.model.text_decoder.generate(
            input_ids=import_torch().tensor([start], device=self.runtime.device),
            encoder_hidden_states=states,
            encoder_attention_mask=_full_mask(states),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            num_beams=1,
            eos_token_id=self._text.sep_token_id,
            pad_token_id=self._text.pad_token_id,
        )
        return self.decode(new_tokens(out[0].tolist(), start))

    def _fit_text(self, text: str, ask: Ask, *, apart: bool) -> tuple[list[int], list[int]]:
        """Return the ids of prompt and answer, which share a context unless they are `apart`; a long text is cut."""

        def tokenize(short: str) -> tuple[tuple[list[int], list[int]], int]:
            question = ask(short)
            prompt = self._token_ids(question.prompt)
            answer = self._token_ids(question.answer) + ([self._text.sep_token_id] if question.ends else [])
            # Such a prompt has a beginning and an end; the answer's last token is never read.
            return (prompt, answer), max(len(prompt) + 2, len(answer)) if apart else len(prompt) + len(answer)

        tokens, truncated = fit(self.source, self.tokenizer, self._context, text, tokenize)
        self.truncated += truncated
        return tokens


class BlipCaptioner(_Blip):
    """`BlipForConditionalGeneration` with its processor. A prompt is the beginning of the caption."""

    describe_prompt = BLIP_CAPTION
    tasks = MappingProxyType({"caption": BLIP_CAPTION})

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        pieces = [self._fit_text(text, ask, apart=False) for text in texts]
        read = [[self._text.bos_token_id, *prompt, *answer[:-1]] for prompt, answer in pieces]
        with import_torch().inference_mode():
            image = self._image_states(pixels)
            answers = [answer for _, answer in pieces]
            return read_batches(read, answers, self._context, lambda rows: self._predict_tokens(image, rows))

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy caption of one image, without the prompt that it was begun with."""
        pixels = self.only_picture(pictures)
        with import_torch().inference_mode():
            start = [self._text.bos_token_id, *self._token_ids(prompt)]
            return self._write_greedily(self._image_states(pixels), start, max_new_tokens)


class BlipAnswerer(_Blip):
    """`BlipForQuestionAnswering` with its processor. A prompt is a question."""

    tasks = MappingProxyType({"vqa": QUESTION})

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        values = []
        with import_torch().inference_mode():
            for text in texts:
                prompt, answer = self._fit_text(text, ask, apart=True)
                read = [self._text.bos_token_id, *answer[:-1]]
                logits = self._predict_tokens(self._question_states(pixels, prompt), [read])
                values.append(log_probability_of(logits[0], answer))
        return values

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to a question about one image."""
        pixels, ids = self.only_picture(pictures), self._token_ids(prompt)
        if len(ids) + 2 > self._context:
            raise too_long(self.source, len(ids) + 2, self._context)
        with import_torch().inference_mode():
            return self._write_greedily(self._question_states(pixels, ids), [self._text.bos_token_id], max_new_tokens)

    def _question_states(self, pixels: Pixels, ids: list[int]) -> Tensor:
        """Return the states of a question read with an image: `(1, tokens, dimensions)`."""
        image = self._image_states(pixels)
        sequence = [self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id]
        row = import_torch().tensor([sequence], device=self.runtime.device)
        return self.model.text_encoder(
            input_ids=row,
            attention_mask=_full_mask(row),
            encoder_hidden_states=image,
            encoder_attention_mask=_full_mask(image),
        ).last_hidden_state


def _full_mask(tensor: Tensor) -> Tensor:
    """Return the mask, int64 `(row, length)`, that hides nothing of a tensor `(row, length, ...)`."""
    return import_torch().ones(tensor.shape[:2], dtype=import_torch().long, device=tensor.device)


#: Reading -> the task that the model must be trained for, and the error message if it is not.
_QUESTIONS: tuple[Task, str] = ("vqa", "answers no questions; score it by the reading 'likelihood'")
_TASKS: dict[str, tuple[Task, str]] = dict.fromkeys(("vqa", "vqa_end", "yes_no"), _QUESTIONS) | {
    "choice": ("nlvr2", "follows no instructions")
}


def load_generative(source: str, options: ModelOptions) -> Generative:
    """Load a model that writes text about images, from a folder or the hub.

    The readings: `vqa` (the default), P("Yes") as in VQAScore's paper; `vqa_end`, the geometric mean of P("Yes") and
    P(end of text after it), as in VQAScore's code with CLIP-FlanT5; `yes_no`, P("Yes") / (P("Yes") + P("No"));
    `likelihood`, log P(caption | image); `mean_likelihood`, the same per token; `choice`, EqBen's question which
    caption belongs to which image.
    """
    reader = _load_reader(source, options)
    reading = options.reading or "vqa"
    if reading in _TASKS and _TASKS[reading][0] not in reader.tasks:
        raise ModelError(f"{source}, a {type(reader.model).__name__}, {_TASKS[reading][1]}")
    if reading == "choice":
        return ChoiceModel(reader, dtype=options.dtype)
    if reading in {"likelihood", "mean_likelihood"}:
        return CaptionLikelihood(reader, mean=reading == "mean_likelihood", dtype=options.dtype)
    over_no, with_end = reading == "yes_no", reading == "vqa_end"
    return YesProbability(reader, over_no=over_no, with_end=with_end, dtype=options.dtype)


def _load_reader(source: str, options: ModelOptions) -> Reader:
    place = runtime(options)
    config = read_config(source)
    if is_clip_flan_t5(config):
        from tellapart.models.generative.clip_flan_t5 import load_clip_flan_t5

        return load_clip_flan_t5(source, config, place)
    processor = load_processor(source)
    if config["model_type"] != "blip":
        auto = import_transformers().models.auto.modeling_auto
        supported = config["model_type"] in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        # The second class also covers models that take audio.
        kind = "AutoModelForImageTextToText" if supported else "AutoModelForMultimodalLM"
        model = load_weights(kind, source, place)
        has_encoder = getattr(model.config.get_text_config(), "is_encoder_decoder", False)
        return (EncoderDecoderModel if has_encoder else ChatModel)(source, model, processor, place)
    if config.get("architectures") == ["BlipForQuestionAnswering"]:
        return BlipAnswerer(source, load_weights("BlipForQuestionAnswering", source, place), processor, place)
    return BlipCaptioner(source, load_weights("BlipForConditionalGeneration", source, place), processor, place)
