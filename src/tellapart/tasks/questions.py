"""Questions about images, answered in words or from a list: against one gold answer (VLUE), or ten people's (VQA)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tellapart.data.task_records import Question, QuestionSet, linked_images
from tellapart.metrics.answers import clean_punctuation, clean_words, exact_match, group_accuracy, soft_accuracy
from tellapart.models.generative.readings import Answerer
from tellapart.models.protocols import AnswerChooser, Pixels
from tellapart.tasks.answering import ask, compute_batches, count_empty, read_answers
from tellapart.tasks.declared import facts_of
from tellapart.tasks.task import Hiding, Session, Task, Unit, Units, image_of, to_fill, units_of, value_of


def _read_file(path: Path, records: QuestionSet) -> list[str]:
    golds = [{answer.strip() for answer in row.answers} for row in records.questions]
    return read_answers(
        path, [row.id for row in records.questions], "question", lambda number, answer: answer.strip() in golds[number]
    )


def _answer_questions(model: Answerer, records: QuestionSet, session: Session) -> list[str]:
    prompt = model.task_prompt("vqa")
    prompts = [prompt.fill(question=row.question) for row in records.questions]
    return ask(model, [(row.image,) for row in records.questions], prompts, session)


def _choose_answers(model: AnswerChooser, records: QuestionSet, session: Session) -> list[str]:
    questions = [row.question for row in records.questions]

    def choose(part: slice, pictures: list[list[Pixels]]) -> list[str]:
        return model.choose_answers([picture for (picture,) in pictures], questions[part])

    return compute_batches([(row.image,) for row in records.questions], session, choose)


def measure_one_answer(records: QuestionSet, predictions: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers against one gold answer each: questions, and pairs of the same question on two images.

    Questions are resampled with their image, pairs with all pairs that share an image with them, also by way of others.
    """
    rows, gold = records.questions, records.gold
    right = exact_match(predictions, gold)
    cleaned = exact_match([_clean_answer(answer) for answer in predictions], [_clean_answer(answer) for answer in gold])
    per_question = (value_of("exact_match", right), value_of("exact_match_cleaned", cleaned))
    questions = Units("question", units_of(rows, predictions, gold), per_question)
    pairs = records.complementary_pairs()
    if not pairs:
        return (questions,)
    linked = linked_images([(rows[a].image, rows[b].image) for a, b in pairs])
    units = tuple(
        Unit(
            id=f"{rows[a].id}+{rows[b].id}",
            cluster=linked[rows[a].image],
            images=(rows[a].image, rows[b].image),
            texts=(rows[a].question,),
            output=[predictions[a], predictions[b]],
            gold=f"{gold[a]}, {gold[b]}",
        )
        for a, b in pairs
    )
    return questions, Units("pair of questions", units, (value_of("pair_accuracy", group_accuracy(right, pairs)),))


def measure_people(records: QuestionSet, predictions: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers against several people's."""
    people = [row.answers for row in records.questions]
    units = units_of(records.questions, predictions, [", ".join(dict.fromkeys(answers)) for answers in people])
    soft = value_of("soft_accuracy", soft_accuracy(predictions, people))
    return (
        Units("question", units, (soft, value_of("soft_accuracy_xvlm", soft_accuracy(predictions, people, "xvlm")))),
    )


def _clean_answer(answer: str) -> str:
    return clean_words(clean_punctuation(answer))


def _linked_images(rows: Sequence[Question]) -> list[str]:
    """Link the images of a question that is asked of two, whether their answers differ (a pair of VLUE's) or not.

    If only pairs were kept together, the split would show which they are.
    """
    by_question: dict[str, list[Question]] = defaultdict(list)
    for row in rows:
        by_question[row.question.lower().strip()].append(row)
    linked = linked_images(
        [(answers[0].image, answers[1].image) for answers in by_question.values() if len(answers) == 2]
    )
    return [linked.get(row.image, row.image) for row in rows]


def _declare_task(
    name: str,
    measure: Callable[[QuestionSet, list[str]], tuple[Units, ...]],
    clusters: Callable[[Sequence[Question]], list[str]],
) -> Task[QuestionSet, list[str]]:
    """Declare a task of questions; a board publishes the metrics of single ones."""
    facts = facts_of(name)
    return Task(
        **facts,
        template=to_fill(lambda row: {"question": row.question, "image": row.image}),
        read=_read_file,
        measure=measure,
        notes=lambda _records, answers: count_empty(answers, "answers"),
        runners=((AnswerChooser, _choose_answers), (Answerer, _answer_questions)),
        hiding=Hiding(
            records=QuestionSet,
            images=("image",),
            bare=lambda row: replace(row, answers=("",)),
            clusters=clusters,
            metrics=tuple(metric.name for metric in facts["metrics"][:2]),
            send="`prediction` is the answer, in a word or a few.",
            nothing=lambda size: [""] * size,
        ),
    )


VQA = _declare_task("vqa", measure_one_answer, _linked_images)
VQA2 = _declare_task("vqa2", measure_people, image_of)
