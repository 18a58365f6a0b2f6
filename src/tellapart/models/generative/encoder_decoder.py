"""Models that see, of an encoder and a decoder: BLIP, BLIP-2 and InstructBLIP with FlanT5, Florence-2, CLIP-FlanT5.

The encoder reads an image, or image and prompt together in both directions, so it runs without padding; the decoder
then reads every answer, in batches of one fixed shape, padded on the right, where it cannot look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import Ask, PromptedAnswer, Reader, Task, new_tokens
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.huggingface.inputs import image_inputs
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, positions_by_key
from tellapart.models.torch.likelihood import LogProbability, log_probability_of, read_batches
from tellapart.models.torch.network import PreTrainedModel, ProcessorMixin, Tensor

#: Family -> its encoder's input for a prompt, and the prompt before a caption.
FORMATS: Mapping[str, tuple[str, Prompt]] = MappingProxyType(
    {
        "blip-2": ("Question: {prompt} Answer:", prompts.DESCRIBE),
        "instructblip": ("{prompt}", prompts.DESCRIBE),
        "florence2": ("{prompt}", prompts.FLORENCE_CAPTION),
        "clip_t5": (
            "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
            "detailed, and polite answers to the user's questions. USER: <image>\n{prompt} ASSISTANT: ",
            prompts.DESCRIBE,
        ),
    }
)

#: Families that were taught tasks, and not to answer questions.
_ONLY_CAPTIONS = frozenset({"florence2"})


class EncoderDecoderModel(Reader):
    """An image-text-to-text model of transformers whose language model is an encoder and a decoder."""

    method = "encoder and decoder"
    draws = True

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        family = model.config.model_type
        if family not in FORMATS:
            raise ModelError(
                f"{source}: its language model is an encoder and a decoder, and no prompt format is known for the "
                f"family {family!r}; {', '.join(FORMATS)} are read"
            )
        super().__init__(source, model, processor, runtime)
        self.image_mark = str(getattr(processor, "image_token", None) or "")
        self._format, self.describe_prompt = FORMATS[family]
        answers: dict[Task, Prompt] = {} if family in _ONLY_CAPTIONS else {"vqa": prompts.SHORT_ANSWER}
        self.tasks = MappingProxyType({"caption": FORMATS[family][1], **answers})
        settings = model.generation_config
        self._start, forced = settings.decoder_start_token_id, settings.forced_bos_token_id
        if self._start is None:
            self._start = self.language.decoder_start_token_id
        model.generation_config = import_transformers().GenerationConfig(
            do_sample=False,
            num_beams=1,
            decoder_start_token_id=self._start,
            forced_bos_token_id=forced,
            eos_token_id=self.tokenizer.eos_token_id,
            pad_token_id=self.tokenizer.pad_token_id,
        )

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        questions = [self._fit_question(pixels, text, ask) for text in texts]
        values: dict[int, LogProbability] = {}
        with import_torch().inference_mode():
            for prompt, places in positions_by_key(question.prompt for question in questions).items():
                start = import_torch().tensor([[self._start]], device=self.runtime.device)
                outputs = self.model(**self._encode_prompt([pixels], prompt), decoder_input_ids=start)
                states = getattr(outputs, "language_model_outputs", outputs).encoder_last_hidden_state
                read, answers = zip(*(self._answer_ids(questions[place]) for place in places), strict=True)
                logs = read_batches(read, answers, None, lambda rows, states=states: self._predict_tokens(states, rows))  # type: ignore[misc]
                values |= zip(places, logs, strict=True)
        return [values[place] for place in range(len(texts))]

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about one image, without blanks at the ends."""
        self.check_text(prompt)
        inputs = self._encode_prompt([self.only_picture(pictures)], prompt)
        self.expect_room(max(self._input_length(inputs), max_new_tokens))
        with import_torch().inference_mode():
            out = self.model.generate(**inputs, max_new_tokens=max_new_tokens)
        return self.decode(out[0])

    def _fit_question(self, pixels: Pixels, text: str, ask: Ask) -> PromptedAnswer:
        """Ask about a text, which loses its end if the question or the answer exceeds the context."""
        self.check_text(text)

        def tokenize(short: str) -> tuple[PromptedAnswer, int]:
            question = ask(short)
            if self.context == 1 << 30:
                return question, 0
            read, _ = self._answer_ids(question)
            return question, max(self._input_length(self._encode_prompt([pixels], question.prompt)), len(read))

        return self.fit(text, tokenize)

    def _answer_ids(self, question: PromptedAnswer) -> tuple[list[int], list[int]]:
        """Return the decoder's input, without the last token, and the tokens that are expected at its end."""
        answer = list(self.tokenizer(question.answer, add_special_tokens=False).input_ids)
        first = list(self.tokenizer(question.answer).input_ids)[:1]
        lead = first if first == [self.tokenizer.bos_token_id] else []  # BART begins an answer with it
        answer += [self.tokenizer.eos_token_id] if question.ends else []
        return [self._start, *lead, *answer[:-1]], answer

    def _encode_prompt(self, pictures: Sequence[Pixels], prompt: str) -> dict[str, Any]:
        """Return the encoder's inputs of a prompt and its image: tensors of one row, on the device."""
        return self.process_inputs(pictures, self._format.format(prompt=prompt))

    def _input_length(self, inputs: Mapping[str, Any]) -> int:
        return int(inputs["input_ids"].shape[1])

    def _predict_tokens(self, states: Tensor, rows: list[list[int]]) -> Tensor:
        """Return the decoder's predictions after each token of rows of one length: `(row, length, vocabulary)`."""
        ids = import_torch().tensor(rows, device=self.runtime.device)
        outputs = import_transformers().modeling_outputs.BaseModelOutput(states.expand(len(rows), -1, -1))
        # Of BLIP-2 and InstructBLIP the language model is complete; Florence-2's has its head outside.
        language_model = getattr(self.model, "language_model", None)
        head = self.model if language_model is None or not hasattr(language_model, "lm_head") else language_model
        return head(encoder_outputs=outputs, decoder_input_ids=ids, use_cache=False).logits


class _Blip(Reader):
    """BLIP's image states and decoder; its control tokens are read as text."""

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        super().__init__(source, model, processor, runtime)
        self._inputs = image_inputs(source, processor.image_processor)

    def _token_ids(self, text: str) -> list[int]:
        return self._control[0].read_ids(self.source, text)

    def _image_states(self, pixels: Pixels) -> Tensor:
        """Return the image's states, `(1, patches, dimensions)`."""

        def read() -> Tensor:
            inputs = self._inputs(pixels)["pixel_values"][None].to(self.runtime.device, self.runtime.torch_dtype)
            return self.model.vision_model(pixel_values=inputs).last_hidden_state

        return self.read_once(pixels, read)

    def _predict_tokens(self, states: Tensor, rows: list[list[int]]) -> Tensor:
        """Return the decoder's predictions after each token of rows of one length: `(row, length, vocabulary)`."""
        ids = import_torch().tensor(rows, device=self.runtime.device)
        states = states.expand(len(rows), -1, -1)
        return self.model.text_decoder(
            input_ids=ids, attention_mask=_full_mask(ids), encoder_hidden_states=states
        ).logits

    def _write_greedily(self, states: Tensor, start: list[int], max_new_tokens: int) -> str:
        """Return the greedy continuation of `start`."""
        self.expect_room(len(start) + max_new_tokens)
        out = self.model.text_decoder.generate(
            input_ids=import_torch().tensor([start], device=self.runtime.device),
            encoder_hidden_states=states,
            encoder_attention_mask=_full_mask(states),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            num_beams=1,
            eos_token_id=self.language.sep_token_id,
            pad_token_id=self.language.pad_token_id,
        )
        return self.decode(new_tokens(out[0].tolist(), start))

    def _fit_text(self, text: str, ask: Ask, *, apart: bool) -> tuple[list[int], list[int]]:
        """Return the ids of prompt and answer, which share a context unless they are `apart`; a long text is cut."""

        def tokenize(short: str) -> tuple[tuple[list[int], list[int]], int]:
            question = ask(short)
            prompt = self._token_ids(question.prompt)
            answer = self._token_ids(question.answer) + ([self.language.sep_token_id] if question.ends else [])
            # Such a prompt has a beginning and an end; the answer's last token is never read.
            return (prompt, answer), max(len(prompt) + 2, len(answer)) if apart else len(prompt) + len(answer)

        return self.fit(text, tokenize)


class BlipCaptioner(_Blip):
    """`BlipForConditionalGeneration` with its processor. A prompt is the beginning of the caption."""

    describe_prompt = prompts.BLIP_CAPTION
    tasks = MappingProxyType({"caption": prompts.BLIP_CAPTION})

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        pieces = [self._fit_text(text, ask, apart=False) for text in texts]
        read = [[self.language.bos_token_id, *prompt, *answer[:-1]] for prompt, answer in pieces]
        with import_torch().inference_mode():
            image = self._image_states(pixels)
            answers = [answer for _, answer in pieces]
            return read_batches(read, answers, self.context, lambda rows: self._predict_tokens(image, rows))

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy caption of one image, without the prompt that it was begun with."""
        pixels = self.only_picture(pictures)
        with import_torch().inference_mode():
            start = [self.language.bos_token_id, *self._token_ids(prompt)]
            return self._write_greedily(self._image_states(pixels), start, max_new_tokens)


class BlipAnswerer(_Blip):
    """`BlipForQuestionAnswering` with its processor. A prompt is a question."""

    tasks = MappingProxyType({"vqa": prompts.QUESTION})

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], ask: Ask) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        values = []
        with import_torch().inference_mode():
            for text in texts:
                prompt, answer = self._fit_text(text, ask, apart=True)
                read = [self.language.bos_token_id, *answer[:-1]]
                logits = self._predict_tokens(self._question_states(pixels, prompt), [read])
                values.append(log_probability_of(logits[0], answer))
        return values

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to a question about one image."""
        pixels, ids = self.only_picture(pictures), self._token_ids(prompt)
        self.expect_room(len(ids) + 2)
        with import_torch().inference_mode():
            states = self._question_states(pixels, ids)
            return self._write_greedily(states, [self.language.bos_token_id], max_new_tokens)

    def _question_states(self, pixels: Pixels, ids: list[int]) -> Tensor:
        """Return the states of a question read with an image, by itself: its encoder would see padding."""
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
