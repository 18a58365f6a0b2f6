"""The builder `language-negatives`: hard negatives of real captions that a language model writes, after SugarCrepe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Self

from pydantic import Field, JsonValue, model_validator

from tellapart.builders.builder import Candidate, Made, Rejected
from tellapart.builders.negatives.answers import RewriteReply, check, parse
from tellapart.builders.negatives.chat import Chat, ChatOptions, open_chat
from tellapart.builders.negatives.false_captions import FalseCaptionBuilder, FalseCaptionOptions
from tellapart.builders.negatives.instructions import conversation

__all__ = ["LanguageNegatives", "LanguageNegativesOptions"]


class LanguageNegativesOptions(FalseCaptionOptions):
    """The recipe's `[options]`: those of `FalseCaptionOptions`, and the language model.

    Attributes:
        model: as `ChatOptions`.
        attempts: replies that are drawn until one passes; more than one needs a temperature above 0.

    Raises:
        pydantic.ValidationError: several attempts at one and the same greedy reply.
    """

    model: ChatOptions
    attempts: int = Field(default=1, ge=1, le=20)
    uniform: bool = True

    @model_validator(mode="after")
    def _no_idle_attempts(self) -> Self:
        if self.attempts > 1 and not self.model.temperature:
            raise ValueError("attempts above 1 need a model.temperature above 0: greedy answers are all the same")
        return self


class LanguageNegatives(FalseCaptionBuilder[LanguageNegativesOptions]):
    """Let a language model swap, replace or add an object, an attribute or a relation, and check that it did.

    The model is given tellapart's instructions and examples and replies in a fixed form; a reply of another form,
    or whose caption is not the true one with exactly the change that it notes, is rejected.

    Sources: the seven kinds are SugarCrepe's (Hsieh et al., 2023); a language model writes them for TROHN-Text (BiVLC,
    Miranda et al., 2024). There an answer without a full stop was lost, and swaps of objects were asked for with the
    question for attributes; here captions are brought to one form, and each kind has a separate question.

    Raises:
        DataError: the captions cannot be read, a row lacks a column, or an id appears twice.
        ModelError: the model cannot be loaded, or its server may not be asked.
    """

    Options = LanguageNegativesOptions

    about: Mapping[str, JsonValue] = {
        "title": "Captions and their hard negatives by a language model",
        "description": "1x2 items: text 0 is the caption that was given, text 1 differs in one swapped, replaced or "
        "added object, attribute or relation. The model read the caption, not the picture: a replaced or added thing "
        "that no caption of the image names may be there, too; have people look at them before you measure with them.",
        "licence": "that of the captions and images, and the terms of the language model for what it writes",
        "source": "made by tellapart's builder `language-negatives` from captions and images of the user",
        "citation": "Kinds of change after Hsieh et al., SugarCrepe, NeurIPS 2023, and Miranda et al., BiVLC, NeurIPS "
        "2024; instructions and examples are tellapart's own",
    }

    @cached_property
    def _opened_chat(self) -> Chat:
        model = self._options.model
        beside = self._home / model.source
        local = not model.served and beside.is_dir()
        chosen = model.model_copy(update={"source": str(beside)}) if local else model
        return open_chat(chosen, insecure=self._insecure)

    @property
    def models(self) -> Mapping[str, str]:
        """The language model."""
        return self._opened_chat.models

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Have one false caption written, or return the reason why no reply passes.

        Raises:
            ModelError: the model gives no reply.
            DataError: the image is missing or its path leaves the folder.
        """
        rejected: list[Rejected] = []
        while len(rejected) < self._options.attempts:
            reply = self._ask_reply(candidate, len(rejected))
            if isinstance(reply, RewriteReply):
                change, attempts = reply.change(candidate.data["kind"]), len(rejected) + 1
                outcome = self._make_item(candidate, reply.caption, {"change": change, "attempts": attempts})
                return replace(outcome, redrawn=tuple(f"{each.step}: {each.reason}" for each in rejected))
            rejected.append(reply)
        return rejected[-1]

    def _ask_reply(self, candidate: Candidate, attempt: int) -> RewriteReply | Rejected:
        kind, caption = candidate.data["kind"], candidate.data["caption"]
        # The attempt's number: neither the order of work nor other captions change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}:{attempt}".encode()).digest()
        answer = self._opened_chat(conversation(kind, caption), int.from_bytes(digest[:8], "big"))
        if answer.cut:
            return Rejected("parse", "cut off at max_tokens", answer.text)
        reply = parse(answer.text, kind)
        if isinstance(reply, Rejected):
            return reply
        if (wrong := check(kind, caption, reply)) is not None:
            return wrong
        fault = self._find_contradiction(candidate, reply.caption)
        return reply if fault is None else Rejected("other-captions", fault)
