"""The builder `language-negatives`: hard negatives of real captions that a language model writes, after SugarCrepe."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from tellapart.builders.builder import Candidate, Made, Rejected, about_set
from tellapart.builders.negatives.lexicon import BEFORE_NOUN, denied_from, to_lexical, words
from tellapart.builders.negatives.negatives import FalseCaptionBuilder, FalseCaptionOptions, turns_equals
from tellapart.data.answer_text import strip_thought
from tellapart.data.rows import read_toml
from tellapart.errors import ModelError
from tellapart.models.api.connection import Completion, Connection
from tellapart.models.huggingface.files import config_facts, import_transformers, load_tokenizer, load_weights, quiet
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import forward, import_torch, runtime, weights_fingerprint

#: The turns of a conversation by their `role` (system, user, assistant) and `content`; the last turn is the user's.
Messages: TypeAlias = Sequence[Mapping[str, str]]


def open_chat(options: ChatOptions, *, insecure: bool = False) -> ServedChat | LocalChat:
    """Open a chat model; the option `name` is needed for a server's model, and refused for a local one."""
    if options.served and not options.name:
        raise ModelError(f"{options.source} is a server; name one of its models with the field 'name'")
    if options.name and not options.served:
        raise ModelError(f"{options.source} is a local model; the field 'name' is a server's (http:// or https://)")
    return ServedChat(options, insecure=insecure) if options.served else LocalChat.load(options)


class ServedChat:
    """A model on a server; a request that a busy server refuses is repeated, with pauses.

    With temperature 0, or with a server that honours `seed`, the reply is the same each time. Other servers' replies
    may vary; the journal has each decided candidate's outcome, so a resumed build does not ask again.
    """

    def __init__(self, options: ChatOptions, *, insecure: bool = False) -> None:
        self._options = options
        self._connection = Connection(
            options.source, options.name, timeout=options.timeout, tries=options.tries, insecure=insecure
        )

    @property
    def models(self) -> Mapping[str, str]:
        """The model's name; a server does not name the revision it serves."""
        return {self._options.name: f"as served by {self._connection.base}"}

    def __call__(self, messages: Messages, seed: int, /) -> Completion:
        """Return the reply to a conversation."""
        options = self._options
        body = {"model": options.name, "messages": messages, "temperature": options.temperature}
        body["seed"] = seed % 2**31  # servers read 32 bits, some with a sign
        return self._connection.complete(body, options.max_tokens)


class LocalChat:
    """A causal model and its tokenizer; without a chat template, it reads a conversation as plain turns.

    Conversations are not batched, so neither other conversations nor the order of work change a reply.
    """

    def __init__(self, options: ChatOptions, model: Any, tokenizer: Any) -> None:
        self._options, self._model, self._tokenizer = options, model, tokenizer
        self._context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        settings = model.generation_config
        end_ids = settings.eos_token_id if settings.eos_token_id is not None else tokenizer.eos_token_id
        if not isinstance(end_ids, list):
            end_ids = [] if end_ids is None else [end_ids]
        self._end_ids: list[int] = end_ids
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else next(iter(end_ids), None)
        sampling = {"temperature": options.temperature, "top_k": 0} if options.temperature else {}
        # This replaces the checkpoint's settings: the library would take from them what a call leaves out.
        model.generation_config = import_transformers().GenerationConfig(
            do_sample=options.temperature > 0, num_beams=1, max_new_tokens=options.max_tokens, pad_token_id=pad,
            eos_token_id=end_ids or None, bos_token_id=settings.bos_token_id, **sampling,
        )  # fmt: skip

    @classmethod
    def load(cls, options: ChatOptions) -> Self:
        """Load weights and tokenizer."""
        place = runtime(ModelOptions(device=options.device, dtype=options.dtype))
        tokenizer = load_tokenizer(options.source)
        return cls(options, load_weights("AutoModelForCausalLM", options.source, place), tokenizer)

    @cached_property
    def models(self) -> Mapping[str, str]:
        """The model's class, with a hash of its weights, configuration, vocabulary and template."""
        kind, template = type(self._model).__name__, self._tokenizer.chat_template
        vocabulary = repr(sorted(self._tokenizer.get_vocab().items()))
        facts = (config_facts(self._model.config), vocabulary, repr(template), self._options.dtype)
        return {kind: weights_fingerprint(self._model, *facts)[:16]}

    def __call__(self, messages: Messages, seed: int, /) -> Completion:
        """Return the reply to a conversation."""
        torch = import_torch()
        ids = self._encode_messages(messages)
        if self._context is not None and len(ids) + self._options.max_tokens > self._context:
            fault = f"take {len(ids)} + {self._options.max_tokens} tokens and its context holds {self._context}"
            fix = "give fewer max_tokens or examples, or another model"
            raise ModelError(f"{self._options.source}: conversation and reply {fault}; {fix}")
        row = torch.tensor([ids], device=self._model.device)
        devices = [self._model.device] if self._model.device.type == "cuda" else []
        with quiet(), forward(self._options.source, self._model), torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed % 2**63)
            out = self._model.generate(input_ids=row, attention_mask=torch.ones_like(row))[0].tolist()
        new = out[len(ids) :]
        text = str(self._tokenizer.decode(new, skip_special_tokens=True))
        return Completion(text=text, cut=len(new) == self._options.max_tokens and new[-1] not in self._end_ids)

    def _encode_messages(self, messages: Messages) -> list[int]:
        if self._tokenizer.chat_template is None:
            turns = "".join(f"{message['role']}: {message['content']}\n\n" for message in messages)
            return list(self._tokenizer(f"{turns}assistant:").input_ids)
        turns = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        # The template writes the special tokens itself.
        return list(self._tokenizer(turns, add_special_tokens=False).input_ids)


class ChatOptions(BaseModel):
    """The recipe's `[options.model]`; a server's key is not among them, but in the user's environment.

    Attributes:
        source: a folder or a hub id of a causal model of transformers, or the address of a server that speaks OpenAI's
            chat completions (`http://localhost:8000/v1`; https if it is another machine's).
        name: the model's name on the server; empty for a local model.
        temperature: with 0 the likeliest token is taken, else tokens are drawn, with the candidate's seed.
        max_tokens: the most tokens of a reply; a longer one is cut off and rejected.
        timeout: seconds that a server may take to answer.
        tries: requests to the server before a candidate fails.
        device, dtype: of a local model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    source: str = Field(min_length=1)
    name: str = ""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    max_tokens: int = Field(default=120, ge=1)
    timeout: float = Field(default=120.0, gt=0.0)
    tries: int = Field(default=5, ge=1, le=20)
    device: str = "cpu"
    dtype: str = "float32"

    @property
    def served(self) -> bool:
        """Whether the model is on a server."""
        return self.source.lower().startswith(("http://", "https://"))


#: The model's reply if no change of the kind can be made.
NONE = "NONE"

_PROMPTS = read_toml(Path(__file__).with_name("language_negatives.toml"))

#: By SugarCrepe's name of a kind of change: what is asked for (`what`), the change's `form`, and `examples`.
TASKS: Mapping[str, Mapping[str, Any]] = MappingProxyType(_PROMPTS["kinds"])


def write_answer(change: str = "", false: str = "") -> str:
    """Return a reply in the form that the rules ask for; without a change, the reply `NONE`."""
    return f"CHANGE: {change}\nCAPTION: {false}" if change else NONE


def conversation(kind: str, caption: str) -> Messages:
    """Return the conversation for one true caption: the rules, the examples as turns, and the caption."""
    task = TASKS[kind]
    turns = [("system", _PROMPTS["rules"].format(what=task["what"], form=task["form"]))]
    for true, *changed in task["examples"]:
        turns += [("user", true), ("assistant", write_answer(*changed))]
    turns.append(("user", " ".join(caption.split())))
    return [{"role": role, "content": content} for role, content in turns]


# The form of a reply; models may put it into a fence of Markdown.
_FORM = re.compile(r"CHANGE: (?P<change>[^\n]+)\nCAPTION: (?P<caption>[^\n]+)")
_FENCE = re.compile(r"```\w*")
#: The sign between the two phrases of a change, as in "dog -> cat"; an addition, "+ red", has one phrase.
_SIGNS = {"replace": " -> ", "swap": " <-> "}
#: The most words of a phrase that is replaced, swapped or added; a longer one makes another sentence.
_MOST_WORDS = 6
#: Two things may be exchanged, and the caption means the same, if only such words stand between them: in a list ("a cat
#: and a dog on a bed"), and at a caption's end ("a cat next to a dog").
_IN_LIST = BEFORE_NOUN | {"and", "or"}
_AT_END = _IN_LIST | {"next", "to", "beside", "near"}
_SYMMETRIC = {"and", "or", "next", "beside", "near"}
_DENIALS = frozenset({"no", "not", "never", "none", "nothing", "nobody"})
#: Besides the change, at most so many words may differ so that the sentence agrees with it: these, and verbs in -s.
_MOST_AGREEING = 2
_AGREEING = (
    {"is", "are"}, {"was", "were"}, {"has", "have"}, {"his", "her", "their", "its"}, {"he", "she"}, {"him", "her"},
    {"himself", "herself"},
)  # fmt: skip


class RewriteReply(NamedTuple):
    """The phrases of the change that the model states, one for an addition, else two; and the false caption."""

    phrases: tuple[str, ...]
    caption: str

    def change(self, kind: str) -> str:
        """Return the change in the form that the rules ask for, such as "dog -> cat"."""
        sign = _SIGNS.get(kind.partition("_")[0])
        return sign.join(self.phrases) if sign else f"+ {self.phrases[0]}"


def parse(reply: str, kind: str) -> RewriteReply | Rejected:
    """Read a reply; one that is not of the form, to the letter, is rejected at the step `parse`."""
    stripped = (line.strip() for line in strip_thought(reply).splitlines())
    plain = "\n".join(line for line in stripped if line and not _FENCE.fullmatch(line))
    if plain.rstrip(".") == NONE:
        return Rejected("model", "no such change, it says")
    lines = _FORM.fullmatch(plain)
    if lines is None:
        return Rejected("parse", "not of the form", reply) if plain else Rejected("parse", "empty")
    change, sign = lines["change"].strip(), _SIGNS.get(kind.partition("_")[0])
    phrases = tuple(change.split(sign)) if sign else (change.removeprefix("+ "),)
    has_sign = len(phrases) == 2 if sign else change.startswith("+ ")
    # ">": "a <-> b" has no " -> ", but "a -> b -> c" and "a <-> b -> c" have a sign too many.
    if not has_sign or not all(words(phrase) for phrase in phrases) or any(">" in phrase for phrase in phrases):
        return Rejected("parse", "the change is not noted in its form", reply)
    return RewriteReply(tuple(phrase.strip() for phrase in phrases), lines["caption"].strip())


def check(kind: str, true: str, reply: RewriteReply) -> Rejected | None:
    """Reject a reply whose caption is not the true one with exactly the change that it states, at the step `check`.

    Words are compared without case and signs; "a" and "an" are one. Two verbs or pronouns may change, too, to agree.
    """
    before, after = words(true), words(reply.caption)
    phrases = [words(phrase) for phrase in reply.phrases]
    old, new = phrases if len(phrases) == 2 else ([], phrases[0])  # an addition replaces an empty phrase
    first_words, last_words = ({*map(to_lexical, phrase)} - {"a", "the"} for phrase in (phrases[0], phrases[-1]))
    if [*map(to_lexical, before)] == [*map(to_lexical, after)] or not first_words | last_words:
        return Rejected("check", "the caption itself")
    if max(map(len, phrases)) > _MOST_WORDS:
        return Rejected("check", f"a phrase of more than {_MOST_WORDS} words")
    action, start = kind.partition("_")[0], _common_start(true, reply.caption)
    if (action != "swap" and _DENIALS & set(new)) or denied_from(start) < len(start):
        return Rejected("check", "denies")  # after "a room with no", either thing is true
    is_turned = sorted(old) == sorted(new) and not first_words & _SYMMETRIC  # "dog on a cat", "cat on a dog"
    if action == "replace" and (first_words <= last_words or last_words <= first_words) and not is_turned:
        return Rejected("check", "one phrase holds the other, so that both may be true")
    if action == "swap":
        meanings = [same for text, same in _list_swaps(before, after, old, new) if _texts_agree(after, text)]
        fits, means_the_same = bool(meanings), bool(meanings) and all(meanings)
    else:
        rewritten = (before[:k] + new + before[k + len(old) :] for k in _find_starts(before, old))
        fits = any(_texts_agree(after, text) for text in rewritten)
        means_the_same = turns_equals(true, " ".join(old), " ".join(new))
    if means_the_same:
        return Rejected("check", "exchanges equals, which means the same")
    return None if fits else Rejected("check", "another change than the one noted")


def _common_start(true: str, false: str) -> str:
    """Return the whole words, in lower case, with which both captions begin."""
    first, second = (" ".join(text.lower().split()) for text in (true, false))
    end = 0
    while end < min(len(first), len(second)) and first[end] == second[end]:
        end += 1
    return first[:end].rpartition(" ")[0]


def _find_starts(text: list[str], phrase: list[str]) -> list[int]:
    """Return the indices at which a phrase begins in a text; an empty phrase begins everywhere."""
    return [k for k in range(len(text) - len(phrase) + 1) if text[k : k + len(phrase)] == phrase]


Text = list[str]  # the words of a text


def _list_swaps(text: Text, after: Text, one: Text, other: Text) -> Iterator[tuple[Text, bool]]:
    """Yield the text with two places of two phrases exchanged, and whether `after`, so changed, means the same."""
    spans = [(k, k + len(one), other) for k in _find_starts(text, one)]
    spans += [(k, k + len(other), one) for k in _find_starts(text, other)]
    for (start, stop, new), (start2, stop2, new2) in combinations(sorted(spans, key=lambda span: span[:2]), 2):
        if stop <= start2 and new != new2:
            swapped = text[:start] + new + text[stop:start2] + new2 + text[stop2:]
            ahead, between = {*text[max(0, start - 1) : start]}, {*text[stop:start2]}
            # No property stands before either phrase.
            are_bare = ahead | between <= (_AT_END if stop2 == len(text) else _IN_LIST)
            # Numbers and owners are the same, the first is of both ("his cat and dog"), or they moved with their nouns.
            counts, counts2 = ((side & BEFORE_NOUN) - {"a", "the"} for side in (ahead, between))
            moved = [word for word in swapped if word in BEFORE_NOUN] != [word for word in after if word in BEFORE_NOUN]
            share_counts = counts == counts2 or not between & BEFORE_NOUN or moved
            is_owner = stop2 < len(text) and text[stop2][0] in "'’"  # the second phrase, as in "a man's hat"
            yield swapped, are_bare and share_counts and not is_owner


def _texts_agree(text: list[str], other: list[str]) -> bool:
    """Return whether two texts are the same but for a few words that agree with another number or person."""
    if len(text) != len(other):
        return False
    differing = [(word, other_word) for word, other_word in zip(text, other, strict=True) if word != other_word]
    return len(differing) <= _MOST_AGREEING and all(_words_agree(*pair) for pair in differing)


def _words_agree(word: str, other: str) -> bool:
    """Return whether two words are forms of one: "is" and "are", or "runs" and "run"."""
    short, long = sorted((word, other), key=len)
    return any({word, other} <= forms for forms in _AGREEING) or long in {f"{short}s", f"{short}es"}


class LanguageNegativesOptions(FalseCaptionOptions):
    """The recipe's `[options]`: those of `FalseCaptionOptions`, and the language model.

    Attributes:
        model: as `ChatOptions`.
        attempts: the most replies that are drawn until one passes; more than one needs a temperature above 0.
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
    """Let a language model swap, replace or add an object, an attribute or a relation, and check its reply.

    The model gets tellapart's instructions and examples, and replies in a fixed form. A reply of another form, or whose
    caption is not the true one with exactly the change that the reply states, is rejected.

    Sources: the seven kinds are SugarCrepe's (Hsieh et al., 2023); a language model writes them for TROHN-Text (BiVLC,
    Miranda et al., 2024). TROHN-Text's code lost replies without a full stop, and asked for swaps of objects with the
    question for attributes. Here captions are brought to one form, and each kind has a separate question.
    """

    Options = LanguageNegativesOptions

    about: Mapping[str, JsonValue] = about_set("language-negatives")

    @cached_property
    def _opened_chat(self) -> ServedChat | LocalChat:
        options, folder = self._options.model, self._home / self._options.model.source
        if not options.served and folder.is_dir():
            options = options.model_copy(update={"source": str(folder)})
        return open_chat(options, insecure=self._insecure)

    @property
    def models(self) -> Mapping[str, str]:
        """The language model."""
        return self._opened_chat.models

    def make(self, candidate: Candidate) -> Made | Rejected:
        """Have one false caption written, or return the reason why no reply passes."""
        reasons: list[str] = []
        for attempt in range(self._options.attempts):
            reply = self._ask_reply(candidate, attempt)
            if isinstance(reply, RewriteReply):
                change = reply.change(candidate.data["kind"])
                made = self._make_item(candidate, reply.caption, {"change": change, "attempts": attempt + 1})
                return replace(made, redrawn=tuple(reasons))
            rejected = reply
            reasons.append(f"{rejected.step}: {rejected.reason}")
        return rejected

    def _ask_reply(self, candidate: Candidate, attempt: int) -> RewriteReply | Rejected:
        """Return the model's reply if it passes all checks, else why it does not; `attempt` counts from 0."""
        kind, caption = candidate.data["kind"], candidate.data["caption"]
        # A seed of the attempt's: neither the order of work nor other captions change it.
        digest = hashlib.sha256(f"{self._seed}:{candidate.id}:{attempt}".encode()).digest()
        answer = self._opened_chat(conversation(kind, caption), int.from_bytes(digest[:8], "big"))
        if answer.cut:
            return Rejected("parse", "cut off at max_tokens", answer.text)
        reply = parse(answer.text, kind)
        if isinstance(reply, Rejected):
            return reply
        if (rejected := check(kind, caption, reply)) is not None:
            return rejected
        fault = self._find_contradiction(candidate, reply.caption)
        return reply if fault is None else Rejected("other-captions", fault)
