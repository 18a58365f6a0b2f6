"""The prefix `api:`: models on servers that answer in words, in vectors or in scores."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from tellapart.data.images import pixel_hash
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, quote
from tellapart.models.api.connection import Completion, Connection, Form, fill_template, forms, picture_url
from tellapart.models.captions import refuse_known_marks
from tellapart.models.generative import prompts
from tellapart.models.generative.answers import ANSWER_TOKENS, Prompted, PromptedChooser
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import CHAT_TASKS
from tellapart.models.generative.sampling import Sampling
from tellapart.models.options import ModelOptions, ModelPrefix
from tellapart.models.protocols import Pixels, Vectors
from tellapart.models.purpose import match_name, reads_instruction
from tellapart.models.scoring.frames import list_frames
from tellapart.models.store.batches import prefetch
from tellapart.models.store.row_file import RowFile
from tellapart.models.torch.backend import positions_by_key
from tellapart.models.vectors import dot_products, normalise

_SPACE = "answers"


class Answers(RowFile):
    """Replies by key, the SHA-256 of the model and the full request. Threads and processes may share a file."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, synchronous="FULL", replaceable=False)

    def get(self, key: bytes) -> Completion | None:
        """Return the reply of a key; None if it is unknown or damaged, so that the caller asks the server."""
        data = self.read(_SPACE, [key]).get(key)
        try:
            return None if data is None else Completion.model_validate_json(data)
        except ValidationError:  # written by another version: the next answer takes its place
            self.delete([], {_SPACE: [key]})
            return None

    def put(self, key: bytes, reply: Completion) -> None:
        """Store a reply; it is on the disk when this returns."""
        self.write(_SPACE, {key: reply.model_dump_json().encode()})


#: Seconds that a server may take to answer.
_TIMEOUT = 300.0
#: With pauses that double up to a minute: about five minutes for a server to come back.
_TRIES = 12

#: The likeliest tokens that are asked for: the most that OpenAI gives, and vLLM unless it is started otherwise.
LISTED = 20

#: The facts that a server lists of a model and that tell apart models of one name; of vLLM, of llama.cpp.
_FACTS = ("id", "owned_by", "root", "max_model_len", "meta")
#: The paths of servers' versions, beside `/v1`; by `owned_by`.
_VERSIONS = {"vllm": ("/version", "version"), "llamacpp": ("/props", "build_info")}


class Question(NamedTuple):
    """Pictures and the prompt after them; `listed` asks for the likeliest first tokens with their probabilities."""

    pictures: Sequence[Pixels]
    prompt: str
    tokens: int
    listed: bool = False


class Server(Connection):
    """A model on a server that speaks OpenAI's API; `facts` are the server's description, for the fingerprint."""

    def __init__(self, address: str, model: str, options: ModelOptions, form: Form | None = None) -> None:
        header = form.key_header if form else "Authorization"
        super().__init__(address, model, timeout=_TIMEOUT, tries=_TRIES, insecure=options.insecure, key_header=header)
        self._answers, self._calls = Answers(options.answers), options.calls
        self._usage, self._cost, self._versions = Counter[str](), 0.0, set[str]()
        if form and not form.lists_models and not model:
            raise ModelError(f"{address}: servers that take {form.path} list no models; name it: api:{address}#MODEL")
        entry = self._find_entry() if form is None or form.lists_models else {"id": model}
        self.model = str(entry["id"])
        self.facts = {name: entry[name] for name in _FACTS if name in entry} | {"address": self.base}
        path, field = _VERSIONS.get(str(entry.get("owned_by")), ("", ""))
        with suppress(ModelError):  # of a server that names no version
            if path and isinstance(answer := self.ask(path, tries=1), dict):
                self.facts["version"] = str(answer.get(field))

    def _find_entry(self) -> Mapping[str, Any]:
        """Return the entry of the model in the server's list."""
        model, listed = self.model, self.ask("models", tries=1)
        entries = listed.get("data") if isinstance(listed, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and "id" in entry for entry in entries):
            raise ModelError(f"{self.base}/models lists no models: {json.dumps(listed):.200}")
        fits = [entry for entry in entries if not model or model in (entry["id"], *(entry.get("aliases") or ()))]
        if len(fits) != 1:
            names = ", ".join(str(entry["id"]) for entry in entries[:20]) or "none"
            problem = f"no model {quote(model)}" if model else f"{len(entries)} models"
            raise ModelError(f"{self.base} has {problem}; name one as api:{self.base}#MODEL, of {names}")
        return dict(fits[0])

    def answer(self, questions: Sequence[Question], sampling: Sampling | None) -> list[Completion]:
        """Answer every question, several at once, as drawn if a draw is given; each answer is kept at once."""
        keys = []
        for question in questions:
            pictures = [pixel_hash(picture) for picture in question.pictures]
            facts = [self.facts, pictures, question.prompt, question.tokens, question.listed and LISTED]
            facts += sampling or ()
            keys.append(bytes.fromhex(hash_facts(*facts)))
        replies = {key: reply for key in dict.fromkeys(keys) if (reply := self._answers.get(key)) is not None}
        unanswered = {key: question for key, question in zip(keys, questions, strict=True) if key not in replies}
        self._usage["kept"] += sum(key in replies for key in keys)
        answers = prefetch(
            lambda entry: self._complete_question(*entry, sampling), [*unanswered.items()], workers=self._calls
        )
        for key, reply in zip(unanswered, answers, strict=True):
            replies[key] = reply
            self._usage.update(asked=1, read=reply.prompt_tokens, written=reply.completion_tokens)
            self._cost += reply.cost
        self._versions |= {reply.version for reply in replies.values()} - {""}
        free = (key for key, question in zip(keys, questions, strict=True) if not question.listed)
        self._usage["cut"] += sum(replies[key].cut for key in free)
        return [replies[key] for key in keys]

    def take_notes(self) -> tuple[str, ...]:
        """Return calls, tokens, cost, cut answers, and versions of the model if several, since it was asked last."""
        usage, cost, versions = self._usage, self._cost, self._versions
        self._usage, self._cost, self._versions = Counter(), 0.0, set()
        note = f"the server was asked {usage['asked']:,} times: {usage['read']:,} tokens read and "
        note += f"{usage['written']:,} written"
        note += f", at a cost of {cost:.4g} as the server counts it" if cost else ""
        note += f"; {usage['kept']:,} answers were kept from before (--no-cache asks again)" if usage["kept"] else ""
        cut = f"{usage['cut']:,} answer{'s' * (usage['cut'] > 1)} cut at the limit of tokens, which a thought may fill"
        several = f"the server named {len(versions)} versions of the model: {', '.join(sorted(versions))}"
        return (*([cut] if usage["cut"] else []), note, *([several] if len(versions) > 1 else []))

    def post(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
        """Return the JSON of the answer to each request, a path and a body; several at once, none is kept."""
        return list(prefetch(lambda request: self.ask(*request), requests, workers=self._calls, size=lambda _: 0))

    def _complete_question(self, key: bytes, question: Question, sampling: Sampling | None) -> Completion:
        content: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": picture_url(pixels)}} for pixels in question.pictures
        ]
        content.append({"type": "text", "text": question.prompt})
        body: dict[str, Any] = {"model": self.model, "messages": [{"role": "user", "content": content}]}
        body["seed"], body["temperature"] = sampling or (0, 0)
        body |= {"logprobs": True, "top_logprobs": LISTED} if question.listed else {}
        reply = self.complete(body, question.tokens)
        if question.listed and reply.first is None:
            raise ModelError(
                f"{self.base} gives no log-probabilities (`logprobs`) of {self.model!r}, and its scores are made of "
                "them; start the server with them, or read the model's words alone: reading=choice"
            )
        self._answers.put(key, reply)
        return reply


def hash_facts(*facts: object) -> str:
    """Return the SHA-256 of facts that are JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class _Pooled:
    """A model that is asked by a form, with an instruction in place of the form's own where it has a place for one."""

    kind: ScoreKind = "similarity"

    def __init__(self, server: Server, reading: str, instruction: str | None = None) -> None:
        self.name, self._server, self._form, self._reading = server.model, server, forms()[reading], reading
        if instruction is not None and self._form.instruction is None:
            able = ", ".join(name for name, form in forms().items() if form.instruction is not None)
            raise ModelError(
                f"instruction={quote(instruction)}: a request of the form {reading} has no place for one; "
                f"leave it out, or take a reading that has: {able}"
            )
        self._instruction = self._form.instruction if instruction is None else instruction
        asked = [] if self._instruction is None else [self._instruction]
        self.fingerprint = hash_facts(server.facts, reading, *asked)

    def take_notes(self) -> tuple[str, ...]:
        """Return the instruction, if the form has one."""
        form = f"the server was asked by the form {self._reading}, with the instruction"
        return () if self._instruction is None else (f"{form} {self._instruction!r}",)

    def _ask(self, counts: Sequence[int], values: Sequence[Mapping[str, Any]]) -> list[list[NDArray[np.float64]]]:
        """Return the numbers of a request for each mapping of values, as many as its count."""
        asked = {} if self._instruction is None else {"instruction": self._instruction}
        requests = [self._form.request(self.name, **asked, **part) for part in values]
        rows = []
        for count, answer in zip(counts, self._server.post(requests), strict=True):
            if (numbers := self._form.read(answer, count)) is None:
                raise ModelError(
                    f"{self._server.base} answers no {self._form.answer} for each of {count}: "
                    f"{json.dumps(answer):.200}; does {self.name!r} run with `--runner pooling`, and does the server "
                    f"take requests of the form {self._reading}?"
                )
            rows.append(numbers)
        return rows


class ServedEncoder(_Pooled):
    """A dual encoder: a request for each image and each text alone, several at once; cosine similarity."""

    ranks_by_cosine = True

    def encode_images(self, images: Sequence[Pixels]) -> Vectors:
        """Encode RGB images, uint8 `(height, width, 3)`, to vectors of length one, float32 `(n, dimensions)`."""
        return self._embed_parts([self._form.image_part(image) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to vectors of length one, float32 `(n, dimensions)`; errors as of `encode_images`."""
        refuse_known_marks(self.name, texts)
        return self._embed_parts([fill_template(self._form.text, {"{text}": text}) for text in texts])

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors of length one: the cosines, float32 `(images, texts)`."""
        return dot_products(images, texts)

    similarities = similarity

    def _embed_parts(self, parts: Sequence[Any]) -> Vectors:
        rows = [row for (row,) in self._ask([1] * len(parts), [{"part": part} for part in parts])]
        if len(widths := {len(row) for row in rows}) > 1 or 0 in widths:
            raise ModelError(f"{self._server.base} answers vectors of {sorted(widths)} dimensions")
        return normalise(np.array(rows, np.float32), self.name)


class ServedReranker(_Pooled):
    """A reranker: a request for a text, the query, with all of its images, the documents."""

    is_reranker = True

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`. The images of one text go in one request."""
        refuse_known_marks(self.name, texts)
        rows_of = positions_by_key(texts)
        values = [
            {"text": text, "images": [self._form.image_part(images[row]) for row in rows]}
            for text, rows in rows_of.items()
        ]
        scores = np.empty(len(texts), np.float32)
        for rows, numbers in zip(rows_of.values(), self._ask([*map(len, rows_of.values())], values), strict=True):
            scores[rows] = [float(number) for number in numbers]
        return scores


class Served(Prompted):
    """A reading of a model on a server: its identity and its free answers.

    The store keeps the answers alone: scores are made of them again, so every run knows its bounds and their cost.
    """

    kind: ClassVar[ScoreKind] = "probability"
    stored = False
    #: A video comes as its frames, `(frames, height, width, 3)`, and is asked about in one question.
    takes_frames = True
    tasks = CHAT_TASKS
    lacks_task = ": a server does not say how its model names a box, so it"

    def __init__(self, server: Server, prompt: Prompt, reading: str) -> None:
        self.prompt, self._server = prompt, server
        self.name = server.model
        self.fingerprint = hash_facts(server.facts, prompt.label, prompt.text, reading, LISTED)

    def draw(self, sampling: Sampling) -> None:
        """Ask for answers at a temperature from now on; the draw's number is the seed."""
        self.sampling = sampling
        self.fingerprint = hash_facts(self.fingerprint, *sampling)

    def write_answers(self, requests: Sequence[tuple[list[Pixels], str]], most: int) -> list[str]:
        """Ask the server each prompt about its pictures, at temperature 0 or as drawn."""
        refuse_known_marks(self.name, [prompt for _, prompt in requests])
        questions = [Question(*request, most) for request in requests]
        return [reply.text.strip() for reply in self._server.answer(questions, self.sampling)]

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the answers since it was asked last, a sentence each."""
        return self._server.take_notes()


class ServedYes(Served):
    """A pair's score is P("Yes") as the first token, after the question whether the image shows the text.

    A server lists the likeliest tokens alone. Where "Yes" is not among them its score is the most that it can be, and
    counted: `take_notes` counts them. With `over_no` it is P("Yes") / (P("Yes") + P("No")).

    Source: VQAScore (Lin et al. 2024), section 3.
    """

    def __init__(self, server: Server, *, over_no: bool = False) -> None:
        super().__init__(server, prompts.VQASCORE, "yes over no" if over_no else "yes")
        self._words = ("Yes", "No") if over_no else ("Yes",)
        self._bounds = self._scores = 0

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)` in [0, 1]."""
        self.expect_likeliest()
        refuse_known_marks(self.name, texts)
        questions = [
            Question(list_frames(image), self.prompt.fill(text=text), 1, listed=True)
            for image, text in zip(images, texts, strict=True)
        ]
        scores = np.full(len(texts), 0.5, np.float32)
        for row, reply in enumerate(self._server.answer(questions, None)):
            values, censored = zip(*map(reply.probability, self._words), strict=True)
            self._scores += 1
            self._bounds += any(censored)
            if len(values) == 1:
                scores[row] = values[0]
            elif sum(values):
                scores[row] = values[0] / sum(values)
        return scores

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the scores since it was asked last, a sentence each."""
        bounds, scores, self._bounds, self._scores = self._bounds, self._scores, 0, 0
        words = " or ".join(f'"{word}"' for word in self._words)
        note = f"{bounds:,} of {scores:,} scores are bounds: {words} was not among the {LISTED} likeliest tokens, "
        return (*((f"{note}the server lists no others",) if bounds else ()), *super().take_notes())


class ServedChoice(PromptedChooser, Served):
    """EqBen's choice in words."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, prompts.EQBEN_CHOICE, f"choice, {ANSWER_TOKENS} tokens")


_READINGS = ("vqa", "yes_no", "choice")


def _load_served(name: str, options: ModelOptions) -> Served | ServedEncoder | ServedReranker:
    address, _, model = name.removeprefix("api:").partition("#")
    reading = options.reading or "vqa"
    if reading not in {*_READINGS, *forms()}:
        raise ModelError(
            f"{name} cannot be read by {quote(reading)}: a server gives likeliest first tokens, vectors or scores; "
            f"use one of {', '.join((*_READINGS, *forms()))}"
        )
    form = forms().get(reading)
    server = Server(address, model, options, form)
    _expect_kind(name, (server.model, str(server.facts.get("root", ""))), options.reading)
    if form is not None:
        return (ServedReranker if form.scores else ServedEncoder)(server, reading, options.instruction)
    if options.instruction is not None:
        options.expect_effect(name, {"reading", "calls", "insecure"})
    return ServedChoice(server) if reading == "choice" else ServedYes(server, over_no=reading == "yes_no")


def _expect_kind(name: str, served: Sequence[str], reading: str | None) -> None:
    """Refuse a model of an embedder's or reranker's name, which does not read the request that it would get.

    Source: QwenLM/Qwen3-VL-Embedding, issue 8, and vllm-project/vllm, issue 33167: the cosine of one pair.
    """
    if reading == "embeddings" and any(map(reads_instruction, served)):
        raise ModelError(
            f"{name} is an embedder that reads an instruction, and marks around image and text. A server gets one "
            "message of the user here, without them, and the vectors are others: a cosine of .776 becomes .277. "
            "Write reading=embeddings_qwen3_vl, whose request has both, st:PATH or st:ORG/REPO with its files, or give "
            "its vectors: vectors:DIR"
        )
    if reading is None and (part := next(filter(None, map(match_name, served)), "")):
        raise ModelError(
            f'{name} has {part!r} in its name: an embedder, a reranker or a reward model, and P("Yes") of one means '
            "nothing. Name the reading: reading=embeddings or reading=score, or reading=vqa if it is a chat model"
        )


API = ModelPrefix(
    {"api:URL#MODEL": "a model on a server with OpenAI's chat completions (vLLM, SGLang, llama.cpp, a provider)"},
    _load_served,
    takes=frozenset({"reading", "calls", "insecure", "instruction"}),
)
