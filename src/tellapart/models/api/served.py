"""Readings of a model on a server: P("Yes"), yes over no, EqBen's choice, and free answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.api.completion import Completion
from tellapart.models.api.server import LISTED, Question, Server
from tellapart.models.control_tokens import refuse_known_marks
from tellapart.models.generative import prompts
from tellapart.models.generative.choice import ANSWER_TOKENS, beside_each_other
from tellapart.models.generative.prompts import Prompt
from tellapart.models.generative.reader import CHAT_TASKS, Task
from tellapart.models.protocols import Pixels
from tellapart.models.scoring.frames import list_frames


class Served:
    """A reading of a model on a server: its identity and its free answers.

    Its scores are not kept in the store: they are made again of the answers, which are kept, so that every run knows
        which of them are bounds, and their cost.
    """

    kind: ClassVar[ScoreKind] = "probability"
    stored = False
    #: A video comes as its frames, `(frames, height, width, 3)`, and is asked about in one question.
    takes_frames = True

    def __init__(self, server: Server, prompt: Prompt, reading: str) -> None:
        self.prompt, self._server = prompt, server
        self.name = server.model
        facts = [server.facts, prompt.label, prompt.text, reading, LISTED]
        self.fingerprint = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def answer(
        self, images: Sequence[Sequence[Pixels]], prompts: Sequence[str], *, max_new_tokens: int = 32
    ) -> list[str]:
        """Answer prompt `k` about the images `k`, at temperature 0, without blanks at the ends."""
        if len(images) != len(prompts):
            raise ModelError(
                f"{self.name}: {len(prompts)} prompts and images for {len(images)}; give one list for each"
            )
        refuse_known_marks(self.name, prompts)
        frames = [[frame for image in own for frame in list_frames(image)] for own in images]
        questions = [Question(own, prompt, max_new_tokens) for own, prompt in zip(frames, prompts, strict=True)]
        return [reply.text.strip() for reply in self._server.ask(questions)]

    def task_prompt(self, task: Task) -> Prompt:
        """Return the prompt for a task; `prompt.fill(...)` makes the text for `answer`."""
        if task not in CHAT_TASKS:
            raise ModelError(
                f"{self.name}: a server does not say how its model names a box, so it has no task {task!r}; it has "
                f"{', '.join(CHAT_TASKS)}"
            )
        return CHAT_TASKS[task]

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the answers since it was asked last, a sentence each."""
        return self._server.take_usage().notes()


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
        refuse_known_marks(self.name, texts)
        questions = [
            Question(list_frames(image), self.prompt.fill(text=text), 1, listed=True)
            for image, text in zip(images, texts, strict=True)
        ]
        return np.array([self._read_probability(reply) for reply in self._server.ask(questions)], np.float32)

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the scores since it was asked last, a sentence each."""
        bounds, scores, self._bounds, self._scores = self._bounds, self._scores, 0, 0
        words = " or ".join(f'"{word}"' for word in self._words)
        note = (
            f"{bounds:,} of {scores:,} scores are bounds: {words} was not among the {LISTED} likeliest tokens, "
            "the server lists no others"
        )
        return (*((note,) if bounds else ()), *super().take_notes())

    def _read_probability(self, reply: Completion) -> float:
        known = [reply.probability(word) for word in self._words]
        self._scores += 1
        self._bounds += any(one.censored for one in known)
        total = sum(one.value for one in known)
        if len(known) == 1:
            return known[0].value
        return known[0].value / total if total else 0.5


class ServedChoice(Served):
    """A chat model that reads both images side by side in one picture, and answers EqBen's prompt in words.

    Source: EqBen (Wang et al. 2023), section 5.5 and Table 7.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(server, prompts.EQBEN_CHOICE, f"choice, {ANSWER_TOKENS} tokens")

    def choose(self, images: Sequence[tuple[Pixels, Pixels]], captions: Sequence[tuple[str, str]]) -> list[str]:
        """Answer for images `k` (left, right) and captions `k` (listed as 1 and 2): free text."""
        pictures = [beside_each_other(left, right) for left, right in images]
        asked = [self.prompt.fill(first=first, second=second) for first, second in captions]
        return self.answer(pictures, asked, max_new_tokens=ANSWER_TOKENS)
