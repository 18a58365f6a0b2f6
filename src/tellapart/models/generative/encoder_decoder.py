"""Models of images with an encoder and a decoder: BLIP, BLIP-2 and InstructBLIP with FlanT5, Florence-2, CLIP-FlanT5.

The encoder reads an image, or an image and its prompt. Its tokens attend in both directions, so it runs without
padding. The decoder reads the answers in batches of one fixed shape, padded on the right: a token attends to earlier
ones alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from tellapart.errors import ModelError
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import NO_LIMIT, PromptedAnswer, Reader, Task, new_tokens
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.huggingface.inputs import image_inputs
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, inference, positions_by_key
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

#: Families that describe images and answer no questions.
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
        stated = getattr(self.language, "decoder_start_token_id", None)  # which the fingerprint has
        if self._start is None:
            self._start = self.language.decoder_start_token_id
        elif self._start != (self.tokenizer.pad_token_id if stated is None else stated):
            self.method += f", begins by token {self._start}"
        stated = getattr(self.language, "forced_bos_token_id", None)
        if forced != (self.tokenizer.bos_token_id if stated is None else stated):  # BART's usual; T5 has no such token
            self.method += f", writes token {forced} first"
        model.generation_config = import_transformers().GenerationConfig(
            do_sample=False,
            num_beams=1,
            decoder_start_token_id=self._start,
            forced_bos_token_id=forced,
            eos_token_id=self.tokenizer.eos_token_id,
            pad_token_id=self.tokenizer.pad_token_id,
        )

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], question: PromptedAnswer) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        for text in texts:
            self.check_text(text)
        questions = [self.fit(question, text, partial(self._tokenize, pixels)) for text in texts]
        values: dict[int, LogProbability] = {}
        with inference():
            for prompt, places in positions_by_key(prompt for prompt, _, _ in questions).items():
                start = import_torch().tensor([[self._start]], device=self.runtime.device)
                outputs = self.model(**self._encode_prompt([pixels], prompt), decoder_input_ids=start)
                states = getattr(outputs, "language_model_outputs", outputs).encoder_last_hidden_state
                _, read, answers = zip(*(questions[place] for place in places), strict=True)
                predict = partial(self._predict_tokens, states)
                logs = read_batches(read, answers, self.context, predict)
                values |= zip(places, logs, strict=True)
        return [values[place] for place in range(len(texts))]

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one prompt about one image, without blanks at the ends."""
        self.check_text(prompt)
        inputs = self._encode_prompt([self.expect_one_picture(pictures)], prompt)
        self.expect_room(max(inputs["attention_mask"].shape[1], max_new_tokens))
        with inference():
            out = self.model.generate(**inputs, max_new_tokens=max_new_tokens)
        return self.decode(out[0])

    def _tokenize(self, pixels: Pixels, question: PromptedAnswer) -> tuple[tuple[str, list[int], list[int]], int]:
        """Return (prompt, the decoder's input, the tokens that it shall predict), and how many tokens must fit in."""
        answer = list(self.tokenizer(question.answer, add_special_tokens=False).input_ids)
        first = list(self.tokenizer(question.answer).input_ids)[:1]
        lead = first if first == [self.tokenizer.bos_token_id] else []  # BART begins an answer with it
        answer += [self.tokenizer.eos_token_id] if question.ends else []
        read = [self._start, *lead, *answer[:-1]]  # the last token is only predicted
        has_limit = self.context < NO_LIMIT
        encoded = self._encode_prompt([pixels], question.prompt)["attention_mask"].shape[1] if has_limit else 0
        return (question.prompt, read, answer), max(encoded, len(read))

    def _encode_prompt(self, pictures: Sequence[Pixels], prompt: str) -> dict[str, Any]:
        """Return the encoder's inputs of a prompt and its image: tensors of one row, on the device."""
        return self.process_inputs(pictures, self._format.format(prompt=prompt))

    def _predict_tokens(self, states: Tensor, rows: list[list[int]]) -> Tensor:
        """Return the decoder's predictions after each token of rows of one length: `(row, length, vocabulary)`."""
        ids = import_torch().tensor(rows, device=self.runtime.device)
        outputs = import_transformers().modeling_outputs.BaseModelOutput(states.expand(len(rows), -1, -1))
        # Of BLIP-2 and InstructBLIP the language model is complete; Florence-2's has its head outside.
        language_model = getattr(self.model, "language_model", None)
        head = self.model if language_model is None or not hasattr(language_model, "lm_head") else language_model
        return head(encoder_outputs=outputs, decoder_input_ids=ids, use_cache=False).logits


class Blip(Reader):
    """BLIP with its processor; its control tokens are read as text.

    A prompt is the beginning of the caption; to `BlipForQuestionAnswering` it is a question, which an encoder reads.
    """

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        super().__init__(source, model, processor, runtime)
        self._inputs = image_inputs(source, processor.image_processor)
        self._answers = hasattr(model, "text_encoder")
        self.describe_prompt = None if self._answers else prompts.BLIP_CAPTION
        self.tasks = {"vqa": prompts.QUESTION} if self._answers else {"caption": prompts.BLIP_CAPTION}

    def log_probabilities(self, pixels: Pixels, texts: Sequence[str], question: PromptedAnswer) -> list[LogProbability]:
        """Return log P(answer | image, prompt) of the question about each text."""
        pieces = [self.fit(question, text, self._tokenize) for text in texts]
        rows = [self._begin(prompt) + answer[:-1] for prompt, answer in pieces]
        answers = [answer for _, answer in pieces]
        with inference():
            if not self._answers:
                image = self._read_states(pixels, [])
                return read_batches(rows, answers, self.context, lambda batch: self._predict_tokens(image, batch))
            states = (self._read_states(pixels, prompt) for prompt, _ in pieces)
            logits = (self._predict_tokens(read, [row])[0] for read, row in zip(states, rows, strict=True))
            return list(map(log_probability_of, logits, answers))

    def generate(self, pictures: Sequence[Pixels], prompt: str, max_new_tokens: int) -> str:
        """Return the greedy answer about one image, or its caption without the prompt that it was begun with."""
        pixels, ids = self.expect_one_picture(pictures), self._token_ids(prompt)
        start = self._begin(ids)
        self.expect_room(max(len(ids) + 2 if self._answers else 0, len(start) + max_new_tokens))
        with inference():
            states = self._read_states(pixels, ids)
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

    def _token_ids(self, text: str) -> list[int]:
        return self._control[0].read_ids(self.source, text)

    def _begin(self, ids: list[int]) -> list[int]:
        """Return the first tokens of the decoder, which reads no question."""
        return [self.language.bos_token_id, *([] if self._answers else ids)]

    def _tokenize(self, question: PromptedAnswer) -> tuple[tuple[list[int], list[int]], int]:
        """Return the ids of prompt and answer, and what they need of the context, which a caption shares."""
        prompt = self._token_ids(question.prompt)
        answer = self._token_ids(question.answer) + ([self.language.sep_token_id] if question.ends else [])
        # A question has a beginning and an end; the answer's last token is never read.
        needed = max(len(prompt) + 2, len(answer)) if self._answers else len(prompt) + len(answer)
        return (prompt, answer), needed

    def _read_states(self, pixels: Pixels, question: list[int]) -> Tensor:
        """Return the states of an image, `(1, patches, dimensions)`, or of a question read with it, by itself."""

        def read() -> Tensor:
            inputs = self._inputs(pixels)["pixel_values"][None].to(self.runtime.device, self.runtime.torch_dtype)
            return self.model.vision_model(pixel_values=inputs).last_hidden_state

        image = self.read_once(pixels, read)
        if not self._answers:
            return image
        sequence = [self.tokenizer.cls_token_id, *question, self.tokenizer.sep_token_id]
        row = import_torch().tensor([sequence], device=self.runtime.device)
        return self.model.text_encoder(  # without others: it would see padding
            input_ids=row,
            attention_mask=_full_mask(row),
            encoder_hidden_states=image,
            encoder_attention_mask=_full_mask(image),
        ).last_hidden_state

    def _predict_tokens(self, states: Tensor, rows: list[list[int]]) -> Tensor:
        """Return the decoder's predictions after each token of rows of one length: `(row, length, vocabulary)`."""
        ids = import_torch().tensor(rows, device=self.runtime.device)
        states = states.expand(len(rows), -1, -1)
        return self.model.text_decoder(
            input_ids=ids, attention_mask=_full_mask(ids), encoder_hidden_states=states
        ).logits


def _full_mask(tensor: Tensor) -> Tensor:
    """Return the mask, int64 `(row, length)`, that hides nothing of a tensor `(row, length, ...)`."""
    return import_torch().ones(tensor.shape[:2], dtype=import_torch().long, device=tensor.device)
