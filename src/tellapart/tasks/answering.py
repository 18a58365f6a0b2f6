"""Answers in words: read from a file, or asked of a model, once for each record of a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tellapart.errors import ScoreError
from tellapart.models.generative.readings import Answerer
from tellapart.tasks.predictions import read_predictions, text
from tellapart.tasks.task import Session

__all__ = ["ask", "read_answers"]


def ask(
    model: Answerer, images: Sequence[Sequence[str]], prompts: Sequence[str], session: Session, *, longest: int = 32
) -> list[str]:
    """Return the answer to each prompt about its images.

    No answer depends on its neighbours, so the size of a batch changes none.

    Args:
        model: answers in words.
        images: references of the images of each prompt.
        prompts: one for each answer.
        session: the images, and the size of batches.
        longest: tokens after which an answer is cut off.

    Raises:
        DataError: an image is not there or cannot be decoded.
        ModelError: images or prompt do not fit the model.

    >>> from tellapart.models.store import EmbeddingStore
    >>> ask(None, [], [], Session(pictures=lambda reference: b"", store=EmbeddingStore(None)))
    []
    """
    answers: list[str] = []
    for start in range(0, len(prompts), session.batch):
        part = slice(start, start + session.batch)
        # Neighbouring records often share an image: each is decoded once for the batch.
        decoded = {reference: session.pixels(reference) for own in images[part] for reference in own}
        pictures = [[decoded[reference] for reference in own] for own in images[part]]
        answers += model.answer(pictures, prompts[part], max_new_tokens=longest)
        if session.progress:
            session.progress("answers", len(answers), len(prompts))
    return answers


def read_answers(path: Path, ids: Sequence[str], noun: str) -> list[str]:
    """Read one text for each id, as `read_predictions` does; a file without any text was not filled in.

    Raises:
        ScoreError: as `read_predictions`, or every answer is empty.
        DataError: as `read_predictions`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "answers.csv"
    ...     _ = path.write_text("id,prediction\\n7,two\\n8,\\n")
    ...     read_answers(path, ["7", "8"], "question")
    ['two', '']
    """
    answers = read_predictions(path, ids, text, noun)
    if not any(answer.strip() for answer in answers):
        raise ScoreError(f"{path}: every prediction is empty; fill in the template, then score it")
    return answers
