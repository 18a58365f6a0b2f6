"""Prompt format of a chat model: its template, the token ids of prompt and answer, and cutting to the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellapart.errors import ModelError
from tellapart.models.control_tokens import list_control_tokens, refusal
from tellapart.models.generative.reader import Ask, PromptedAnswer, fit

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, ProcessorMixin

__all__ = ["ChatFormat", "TokenizedAnswer"]

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

    Attributes:
        rendered: the prompt in the model's format.
        prompt: its ids, the image's mark not yet expanded.
        answer: the answer's ids. If the answer's first letters join the prompt's last token, that token is here.
        moved: how many of the last ids of `rendered` alone are therefore not in `prompt`.
    """

    rendered: str
    prompt: list[int]
    answer: list[int]
    moved: int


class ChatFormat:
    """The prompt format of one model.

    Attributes:
        context: tokens that the model can read; images count.
        image_token: the id that marks an image, if the family has one.
        truncated: texts so far that did not fit the context and lost their end.
        thinks: whether the model was trained to think before it answers; here it answers at once.

    Raises:
        ModelError: no chat template, and no format is known for the family.
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
        """Tokenize the question about a text; if it exceeds the context the text loses its end.

        Args:
            text: a caption, as a rule.
            ask: takes the text to the question.
            added: tokens that the model reads beyond these ids: the expanded image, a beginning.
            images: before the question; a video's frames are so many.

        Raises:
            ModelError: the context is full even without the text, or the text holds a control token of the model's.
        """
        self.check_text(text)

        def tokenize(short: str) -> tuple[TokenizedAnswer, int]:
            tokens = self._tokenize_question(ask(short), images)
            return tokens, added + len(tokens.prompt) + len(tokens.answer)

        tokens, truncated = fit(self.source, self.tokenizer, self.context, text, tokenize)
        self.truncated += truncated
        return tokens

    def check_text(self, text: str) -> None:
        """Refuse a text that the model would take for an image, or for the end of a turn.

        Raises:
            ModelError: it holds the model's mark for one.
        """
        mark = None if self.image_token is None else self.tokenizer.convert_ids_to_tokens(self.image_token)
        if mark and mark in text:
            raise refusal(self.source, text, mark)
        for control in self._control:
            control.refuse_in_prompt(self.source, text)

    def _tokenize_question(self, question: PromptedAnswer, images: int) -> TokenizedAnswer:
        rendered = self.render_prompt(images, question.prompt)
        prompt, whole = self.token_ids(rendered), self.token_ids(rendered + self._lead + question.answer)
        shared = next((k for k, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), len(prompt))
        end = [self.tokenizer.eos_token_id] if question.ends else []
        return TokenizedAnswer(rendered, prompt[:shared], whole[shared:] + end, len(prompt) - shared)

    def _find_lead(self) -> str:
        """Return the template's text between its prompt and an answer: a blank, or nothing.

        Without it the answer would begin with another token than the model was trained to begin with.
        """
        prompt = self.render_prompt(1, "?")
        if self._templated:
            answered = {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}
            whole = self._apply_template([self._user_message(1, "?"), answered])
            before, yes, _ = whole.removeprefix(prompt).partition("Yes")
            if whole.startswith(prompt) and yes:
                return before
        return "" if prompt[-1:].isspace() else " "

    def _user_message(self, images: int, prompt: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "image"}] * images + [{"type": "text", "text": prompt}]}

    def _apply_template(self, messages: Sequence[dict[str, Any]], **options: bool) -> str:
        if self._asks_to_think:
            options["enable_thinking"] = False
        return str(self.processor.apply_chat_template(list(messages), tokenize=False, **options))
