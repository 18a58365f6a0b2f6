"""Models that see, of an encoder and a decoder: BLIP-2 and InstructBLIP with FlanT5, Florence-2, CLIP-FlanT5.

The encoder reads image and prompt together, in both directions, so it runs once for each prompt about an image, without
padding; the decoder then reads every answer to that prompt, in batches of one fixed shape, padded on the right, where
it cannot look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tellapart.errors import ModelError
from tellapart.models.control_tokens import list_control_tokens, refusal
from tellapart.models.generative import prompts
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import Ask, PromptedAnswer, Reader, Task, fit, too_long
from tellapart.models.huggingface.files import import_transformers
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, positions_by_key
from tellapart.models.torch.likelihood import LogProbability, read_batches
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

    def __init__(self, source: str, model: PreTrainedModel, processor: ProcessorMixin, runtime: Runtime) -> None:
        family = model.config.model_type
        if family not in FORMATS:
            raise ModelError(
                f"{source}: its language model is an encoder and a decoder, and no prompt format is known for the "
                f"family {family!r}; {', '.join(FORMATS)} are read"
            )
        super().__init__(source, model, processor, runtime)
        self._control = list_control_tokens(processor)
        self._format, describe = FORMATS[family]
        self.describe_prompt = describe
        tasks: dict[Task, Prompt] = {"caption": describe}
        if family not in _ONLY_CAPTIONS:
            tasks |= {"vqa": prompts.SHORT_ANSWER}
        self.tasks = MappingProxyType(tasks)
        text = model.config.get_text_config()
        self._context = int(getattr(text, "max_position_embeddings", None) or 1 << 30)
        settings = model.generation_config
        self._start, forced = settings.decoder_start_token_id, settings.forced_bos_token_id
        if self._start is None:
            self._start = text.decoder_start_token_id
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
        self._check_text(prompt)
        inputs = self._encode_prompt([self.only_picture(pictures)], prompt)
        if (needed := max(self._input_length(inputs), max_new_tokens)) > self._context:
            raise too_long(self.source, needed, self._context)
        with import_torch().inference_mode():
            out = self.model.generate(**inputs, max_new_tokens=max_new_tokens)
        return self.decode(out[0])

    def _fit_question(self, pixels: Pixels, text: str, ask: Ask) -> PromptedAnswer:
        """Ask about a text, which loses its end if the question or the answer exceeds the context."""
        self._check_text(text)

        def tokenize(short: str) -> tuple[PromptedAnswer, int]:
            question = ask(short)
            if self._context == 1 << 30:
                return question, 0
            read, _ = self._answer_ids(question)
            return question, max(self._input_length(self._encode_prompt([pixels], question.prompt)), len(read))

        question, truncated = fit(self.source, self.tokenizer, self._context, text, tokenize)
        self.truncated += truncated
        return question

    def _check_text(self, text: str) -> None:
        mark = str(getattr(self.processor, "image_token", None) or "")
        if mark and mark in text:
            raise refusal(self.source, text, mark)
        for control in self._control:
            control.refuse_in_prompt(self.source, text)

    def _answer_ids(self, question: PromptedAnswer) -> tuple[list[int], list[int]]:
        """Return the decoder's input, without the last token, and the tokens that are expected at its end."""
        answer = list(self.tokenizer(question.answer, add_special_tokens=False).input_ids)
        first = list(self.tokenizer(question.answer).input_ids)[:1]
        lead = first if first == [self.tokenizer.bos_token_id] else []  # BART begins an answer with it
        answer += [self.tokenizer.eos_token_id] if question.ends else []
        return [self._start, *lead, *answer[:-1]], answer

    def _encode_prompt(self, pictures: Sequence[Pixels], prompt: str) -> dict[str, Any]:
        """Run the processor on a prompt and its image: tensors of one row, on the device."""
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
