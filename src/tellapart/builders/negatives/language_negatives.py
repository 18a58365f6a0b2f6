"""The builder `language-negatives`: hard negatives of real captions that a language model writes, after SugarCrepe."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from tellapart.builders.builder import Candidate, Made, Rejected, Start
from tellapart.builders.negatives.answers import Answer, check, parse
from tellapart.builders.negatives.captions_file import CaptionsFile, FalseCaption
from tellapart.builders.negatives.chat import Chat, ChatOptions
from tellapart.builders.negatives.instructions import TASKS, conversation
from tellapart.builders.negatives.open_chat import open_chat
from tellapart.builders.negatives.other_captions import contradiction
from tellapart.builders.negatives.wording import uniform

__all__ = ["LanguageNegatives"]


class LanguageNegatives:
    """Let a language model swap, replace or add an object, an attribute or a relation, and hold it to what it says.

    A candidate is a caption with a kind of change. The model is given tellapart's own instructions and examples and
    answers in a fixed form; an answer of another form, or whose caption is not the true one with exactly the change that
    it notes, is rejected. The captions file is as `CaptionsFile` reads it.

    Sources: the seven kinds are SugarCrepe's (Hsieh et al., 2023); a language model writes them for TROHN-Text (BiVLC,
    Miranda et al., 2024). There an answer without a full stop was lost, and swaps of objects were asked for with the
    question for attributes; here captions are brought to one form, and each kind has its own question.

    Raises:
        DataError: the captions cannot be read, a row lacks a column, or an id stands twice.
        ModelError: the model cannot be had.

    >>> LanguageNegatives.Options(captions="captions.csv", images="photos", model={"source": "models/chat"}).attempts
    1
    """

    class Options(BaseModel):
        """The recipe's `[options]`: paths relative to the recipe, the model, and what is done with its answers.

        Attributes:
            captions, images: the captions file and the folder of images.
            model: as `ChatOptions`.
            kinds: of change.
            attempts: answers that are drawn until one passes; more than one needs a temperature above 0.
            other_captions: whether the other captions of an image forbid.
            uniform: whether both captions get a capital and a full stop.

        Raises:
            pydantic.ValidationError: several attempts at one and the same greedy answer.

        >>> LanguageNegatives.Options(captions="c.csv", images=".", model={"source": "m"}).uniform
        True
        """

        model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

        captions: str
        images: str
        model: ChatOptions
        kinds: list[
            Literal["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]
        ] = Field(default_factory=lambda: list(TASKS), min_length=1)  # type: ignore[arg-type]
        attempts: int = Field(default=1, ge=1, le=20)
        other_captions: bool = True
        uniform: bool = True

        @model_validator(mode="after")
        def _no_idle_attempts(self) -> Self:
            if self.attempts > 1 and not self.model.temperature:
                raise ValueError("attempts above 1 need a model.temperature above 0: greedy answers are all the same")
            return self

    def __init__(self, start: Start) -> None:
        self._options: LanguageNegatives.Options = start.options
        self._seed, self._home = start.seed, start.home
        self._kinds = tuple(dict.fromkeys(self._options.kinds))
        self._file = CaptionsFile(start.home / self._options.captions, start.home / self._options.images)

    @cached_property
    def _chat(self) -> Chat:
        model = self._options.model
        beside = self._home / model.source
        local = not model.served and beside.is_dir()
        return open_chat(model.model_copy(update={"source": str(beside)}) if local else model)

    @property
    def about(self) -> Mapping[str, JsonValue]:
        """What the card says."""
        return {
            "title": "Captions and their hard negatives by a language model",
            "description": "1x2 items: text 0 is the caption that was given, text 1 differs in one swapped, replaced or added "
            "object, attribute or relation. The model read the caption, not the picture: a replaced or added thing that no "
            "caption of the image names may be there, too; have people look at them before you measure with them.",
            "licence": "that of the captions and images, and the terms of the language model for what it writes",
            "source": "made by tellapart's builder `language-negatives` from captions and images of the user",
            "citation": "Kinds of change after Hsieh et al., SugarCrepe, NeurIPS 2023, and Miranda et al., BiVLC, NeurIPS "
            "2024; instructions and examples are tellapart's own",
        }

    @property
    def inputs(self) -> Mapping[str, str]:
        """The captions file with its SHA-256; each image's is in the provenance of its items."""
        return self._file.inputs

    @property
    def models(self) -> Mapping[str, str]:
        """The language model."""
        return self._chat.models

    def candidates(self) -> Sequence[Candidate]:
        """Return every caption with every kind of change, caption by caption."""
        return self._file.candidates(self._kinds)

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Have one false caption written, or say why none of the answers will do.

        Raises:
            ModelError: there is no answer to be had.
            DataError: the image is missing or its path leaves the folder.
        """
        missed: list[Rejected] = []
        while len(missed) < self._options.attempts:
            found = self._answer(candidate, len(missed))
            if isinstance(found, Answer):
                return self._made(candidate, found, [f"{each.step}: {each.reason}" for each in missed])
            missed.append(found)
        return missed[-1]

    def _answer(self, candidate: Candidate, attempt: int) -> Answer | Rejected:
        kind, caption = candidate.data["kind"], candidate.data["caption"]
        # A number of the attempt's own: neither the order of work nor other captions change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}:{attempt}".encode()).digest()
        reply = self._chat(conversation(kind, caption), int.from_bytes(digest[:8], "big"))
        if reply.cut:
            return Rejected("parse", "cut off at max_tokens")
        answer = parse(reply.text, kind)
        if isinstance(answer, Rejected):
            return answer
        if (wrong := check(kind, caption, answer)) is not None:
            return wrong
        if self._options.other_captions:
            fault = contradiction(kind, caption, answer.caption, candidate.data["others"])
            if fault is not None:
                return Rejected("other-captions", fault)
        return answer

    def _made(self, candidate: Candidate, answer: Answer, missed: Sequence[str]) -> Made:
        true, false = candidate.data["caption"], answer.caption
        if self._options.uniform:
            true, false = uniform(true), uniform(false)
        sign = {"replace": " -> ", "swap": " <-> "}.get(candidate.data["kind"].partition("_")[0], "+ ")
        change = sign.join(answer.phrases) if len(answer.phrases) > 1 else sign + answer.phrases[0]
        made = self._file.made(candidate, FalseCaption(true, false, {"change": change, "attempts": len(missed) + 1}))
        return Made(made.item, made.images, tuple(missed))
