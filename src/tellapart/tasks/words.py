"""Tasks that are answered in words: captions of images, questions about them, and statements to judge."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tellapart.data.answer_text import read_confidence
from tellapart.data.task_records import BinaryQuestionSet, CaptionSet, QuestionSet, Record, StatementSet, linked_images
from tellapart.errors import ScoreError
from tellapart.metrics.answers import (
    clean_punctuation,
    clean_words,
    exact_match,
    group_accuracy,
    is_stated,
    label_accuracy,
    read_stated,
    soft_accuracy,
)
from tellapart.metrics.captions import bleu, caption_scores
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.yes_no import (
    OPTIONS,
    READERS,
    YES_SHARES,
    read_answer,
    read_as_pope,
    read_no,
    read_strictly,
    yes_table,
)
from tellapart.models.generative.answers import parse_verdict
from tellapart.models.generative.readings import Answerer
from tellapart.models.protocols import AnswerChooser, Pixels, TwoImageClassifier
from tellapart.tasks.declared import facts_of, hiding_of
from tellapart.tasks.predictions import parse_label, parse_text, read_for_records
from tellapart.tasks.running import ask, compute_batches, count_empty, describe_unread, read_answers
from tellapart.tasks.task import (
    Hiding,
    Session,
    Task,
    Unit,
    Units,
    all_images,
    image_of,
    join_units,
    to_fill,
    unit_of,
    units_of,
    value_of,
)


def _write_captions(model: Answerer, records: CaptionSet, session: Session) -> list[str]:
    prompt = model.task_prompt("caption").fill()
    return ask(model, [row.images for row in records.rows], [prompt] * len(records), session, longest=64)


def measure_captions(records: CaptionSet, predictions: Sequence[str]) -> tuple[Units, ...]:
    """Measure captions; equal images are resampled together."""
    references = {row.id: row.gold for row in records.rows}
    scores = caption_scores(dict(zip(references, predictions, strict=True)), references)
    units = units_of(records.rows, predictions, ["; ".join(captions) for captions in records.gold])
    values = (
        *(value_of(f"bleu_{n + 1}", scores.bleu_statistics, reduce=partial(_bleu_of, n, len(units))) for n in range(4)),
        value_of("rouge_l", scores.rouge_l),
        value_of("cider", scores.cider),
    )
    return (Units("image", units, values),)


def _bleu_of(order: int, items: int, means: NDArray[np.float64]) -> NDArray[np.float64]:
    # BLEU's small constants are meant for sums over the set; of means they would weigh more.
    return np.asarray(bleu(means * items)[..., order])


def _note_captions(_records: CaptionSet, predictions: Sequence[str]) -> tuple[str, ...]:
    same = len(predictions) - len(set(predictions))
    note = f"{same:,} of {len(predictions):,} captions repeat another image's word for word"
    return (*count_empty(predictions, "captions"), *((note,) if same else ()))


CAPTIONS = Task(
    **facts_of("captions"),
    # No key `caption`: a template that is not filled in must not be read as one that is.
    template=to_fill(lambda row: {"image": row.images[0]}),
    read=lambda path, records: read_answers(path, records, "image", lambda row, caption: caption in row.gold),
    measure=measure_captions,
    notes=_note_captions,
    runners=((Answerer, _write_captions),),
)


def _read_file(path: Path, records: QuestionSet) -> list[str]:
    return read_answers(path, records, "question", lambda row, answer: answer.strip() in map(str.strip, row.gold))


def _ask_questions(
    model: Answerer,
    records: QuestionSet | BinaryQuestionSet,
    session: Session,
    *,
    prompt: Literal["vqa"] | None = None,
    longest: int = 32,
) -> list[str]:
    """Ask every question by a prompt of this name, or as it is written."""
    asked = [row.texts[0] for row in records.rows]
    if prompt:
        asked = [model.task_prompt(prompt).fill(question=question) for question in asked]
    return ask(model, [row.images for row in records.rows], asked, session, longest=longest)


def _choose_answers(model: AnswerChooser, records: QuestionSet, session: Session) -> list[str]:
    questions = [row.texts[0] for row in records.rows]

    def choose(part: slice, pictures: list[list[Pixels]]) -> list[str]:
        return model.choose_answers([picture for (picture,) in pictures], questions[part])

    return compute_batches([row.images for row in records.rows], session, choose)


def measure_one_answer(records: QuestionSet, predictions: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers against one gold answer each: questions, and pairs of the same question on two images.

    Questions are resampled with their image, pairs with all pairs that share an image with them, also by way of others.
    """
    rows, gold = records.rows, records.gold
    right = exact_match(predictions, gold)
    cleaned = exact_match([_clean_answer(answer) for answer in predictions], [_clean_answer(answer) for answer in gold])
    per_question = (value_of("exact_match", right), value_of("exact_match_cleaned", cleaned))
    questions = Units("question", units_of(rows, predictions, gold), per_question)
    pairs = records.complementary_pairs()
    if not pairs:
        return (questions,)
    joined = zip(join_units(questions.units, pairs), pairs, strict=True)
    units = tuple(replace(unit, texts=rows[first].texts) for unit, (first, _) in joined)
    return questions, Units("pair of questions", units, (value_of("pair_accuracy", group_accuracy(right, pairs)),))


def measure_people(records: QuestionSet, predictions: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers against several people's."""
    people = [row.gold for row in records.rows]
    units = units_of(records.rows, predictions, [", ".join(dict.fromkeys(answers)) for answers in people])
    soft = value_of("soft_accuracy", soft_accuracy(predictions, people))
    xvlm = value_of("soft_accuracy_xvlm", soft_accuracy(predictions, people, "xvlm"))
    return (Units("question", units, (soft, xvlm)),)


def _clean_answer(answer: str) -> str:
    return clean_words(clean_punctuation(answer))


def _linked_images(rows: Sequence[Record]) -> list[str]:
    """Link the images of a question that is asked of two, whether their answers differ (a pair of VLUE's) or not.

    If only pairs were kept together, the split would show which they are.
    """
    by_question: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_question[row.texts[0].lower().strip()].append(row.images[0])
    linked = linked_images([(images[0], images[1]) for images in by_question.values() if len(images) == 2])
    return [linked.get(row.images[0], row.images[0]) for row in rows]


def _declare_task(
    name: str,
    measure: Callable[[QuestionSet, list[str]], tuple[Units, ...]],
    clusters: Callable[[Sequence[Record]], list[str]],
) -> Task[QuestionSet, list[str]]:
    """Declare a task of questions; a board publishes the metrics of single ones."""
    return Task(
        **facts_of(name),
        template=to_fill(lambda row: {"question": row.texts[0], "image": row.images[0]}),
        read=_read_file,
        measure=measure,
        notes=lambda _records, answers: count_empty(answers, "answers"),
        runners=((AnswerChooser, _choose_answers), (Answerer, partial(_ask_questions, prompt="vqa"))),
        hiding=Hiding(
            records=QuestionSet,
            bare=lambda row: replace(row, gold=("",)),
            clusters=clusters,
            **hiding_of(name),
            nothing=lambda size: [""] * size,
        ),
    )


VQA = _declare_task("vqa", measure_one_answer, _linked_images)
VQA2 = _declare_task("vqa2", measure_people, image_of)


#: What an answer that leaves a question is worth, where a right answer is worth its confidence (VB's alpha).
_ABSTAIN_CREDIT = 0.25


def measure_open(records: QuestionSet, answers: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers in words: each, those with a known bias, and groups."""
    rows = records.rows
    read = [read_stated(answer) for answer in answers]
    right = np.array([*map(is_stated, answers, records.gold)], np.float64)
    units = units_of(rows, answers, records.gold)
    measured = [Units("question", units, (value_of("answer_match", right),))]
    if biased := [row for row, question in enumerate(rows) if question.facts.get("biased")]:
        fell = np.array([is_stated(answers[row], rows[row].facts["biased"]) for row in biased], np.float64)
        value = value_of("bias_rate", fell)
        measured.append(Units("question with a bias", tuple(units[row] for row in biased), (value,)))
    if groups := records.groups():
        value = value_of("group_match", group_accuracy(right, groups))
        measured.append(Units("group", join_units(units, groups), (value,)))
    again = [group for group in groups if _asks_again(rows, group)]
    same = {group: bool(read[group[0]]) and len({read[row] for row in group}) == 1 for group in again}
    if turned := [group for group in again if len({read_stated(rows[row].gold[0]) for row in group}) > 1]:
        value = value_of("same_answer", np.array([same[group] for group in turned], np.float64))
        measured.append(Units("turned question", join_units(units, turned), (value,)))
    if len(turned) < len(again):
        turns = [bool(right[group[-1]]) and not same[group] if group in turned else same[group] for group in again]
        value = value_of("turned_match", np.array(turns, np.float64))
        measured.append(Units("question asked again", join_units(units, again), (value,)))
    return (*measured, *_measure_abstention(rows, answers, right, units))


def _asks_again(rows: Sequence[Record], group: Sequence[int]) -> bool:
    """Return whether a group asks one question of different images."""
    asked = [rows[row] for row in group]
    return len({row.texts for row in asked}) == 1 and len({row.images for row in asked}) == len(asked) > 1


def _measure_abstention(
    rows: Sequence[Record], answers: Sequence[str], right: NDArray[np.float64], units: Sequence[Unit]
) -> list[Units]:
    """Measure the questions to which a model may abstain."""
    asked = [row for row, question in enumerate(rows) if question.facts.get("abstain")]
    left = {row for row in asked if is_stated(answers[row], rows[row].facts["abstain"])}
    confidence = {row: read_confidence(answers[row]) for row in asked if row not in left}
    credit = dict.fromkeys(left, _ABSTAIN_CREDIT) | {
        row: stated * right[row] for row, stated in confidence.items() if stated is not None
    }
    measured = (
        ("question that may be left", "answered", {row: float(row not in left) for row in asked}),
        ("answered question", "right_if_answered", {row: right[row] for row in confidence}),
        ("question with a confidence", "confident_match", dict(sorted(credit.items()))),
    )
    all_asked = tuple(units[row] for row in asked)
    return [
        Units(noun, tuple(units[row] for row in values), found, all_asked)
        for noun, name, values in (measured if asked else ())
        for found in [(value_of(name, np.array([*values.values()])),) if values else ()]
    ]


OPEN = Task(
    **facts_of("open"),
    template=to_fill(lambda row: {"question": row.texts[0], "image": row.images[0]}),
    read=_read_file,
    measure=measure_open,
    notes=lambda _records, answers: count_empty(answers, "answers"),
    # A question may ask for the thought before the answer.
    runners=((Answerer, partial(_ask_questions, longest=1024)),),
    images=all_images,
)


def _read_options(path: Path, records: BinaryQuestionSet) -> list[str]:
    def is_gold(row: Record, answer: str) -> bool:
        return bool(read_strictly(answer, OPTIONS[row.gold]) == row.gold)

    def read_said(value: object) -> str:  # a label of JSON (true, 1.0) is its letters
        return str(value) if isinstance(value, bool | float) else parse_text(value)

    return read_answers(path, records, "question", is_gold, read_said)


def measure_yes_no(records: BinaryQuestionSet, answers: Sequence[str]) -> tuple[Units, ...]:
    """Measure answers, questions, images and groups; a group without several images or questions has no such units."""
    gold = records.gold
    read = [read_answer(answer, OPTIONS[right]) for answer, right in zip(answers, gold, strict=True)]
    strictly = [read_strictly(answer, OPTIONS[right]) for answer, right in zip(answers, gold, strict=True)]
    right, right_strictly = _is_equal(read, gold), _is_equal(strictly, gold)
    unreadable = np.array([one is None for one in read], np.float64)
    units = units_of(records.rows, answers, gold)
    values = [("a_acc", right), ("a_acc_strict", right_strictly), ("unreadable", unreadable)]
    grouped = [("g_acc", right), ("g_acc_strict", right_strictly)]
    if records.reader:
        officially = _is_equal([READERS[records.reader](answer) for answer in answers], gold)
        values.append(("a_acc_official", officially))
        grouped.append(("g_acc_official", officially))
    pope = (*_as_pope(answers, gold), *_as_pope(answers, gold, "_official")) if _has_pope(records) else ()
    measured = [Units("answer", units, (*starmap(value_of, values), *pope))]
    for noun, field, of_group in (
        ("question of a group", "question", [("q_acc", right)]),
        ("image of a group", "images", [("i_acc", right)]),
        ("group", "group", grouped),
    ):
        if groups := records.groups_by(field):
            chances = np.array([0.5 ** len(group) for group in groups])
            of_groups = (value_of(name, group_accuracy(flags, groups), chances=chances) for name, flags in of_group)
            measured.append(Units(noun, join_units(units, groups), tuple(of_groups)))
    return tuple(measured)


def _has_pope(records: BinaryQuestionSet) -> bool:
    return all(row.gold in ("yes", "no") and not row.group for row in records.rows)


def _as_pope(answers: Sequence[str], gold: Sequence[str], official: str = "") -> tuple[PerItem, ...]:
    read = [(read_as_pope if official else read_no)(answer) for answer in answers]
    table = yes_table(read, gold)
    shares = {name: value_of(f"pope_{name}{official}", table, reduce=share) for name, share in YES_SHARES.items()}
    right = value_of(f"pope_accuracy{official}", _is_equal(read, gold))
    yes = value_of(f"pope_yes_rate{official}", table[:, 1])
    return shares["f1"], right, shares["precision"], shares["recall"], yes


def _is_equal(read: Sequence[str | None], gold: Sequence[str]) -> NDArray[np.float64]:
    return np.array([answer == right for answer, right in zip(read, gold, strict=True)], np.float64)


def _note_unread(records: BinaryQuestionSet, answers: Sequence[str]) -> tuple[str, ...]:
    rows = zip(answers, records.gold, strict=True)
    unread = [answer for answer, gold in rows if read_answer(answer, OPTIONS[gold]) is None]
    yes = sum(read_no(answer) == "yes" for answer in unread)
    by_pope = f" in `a_acc`; in `pope_*` {yes:,} of them count as yes, by POPE's rule" if _has_pope(records) else ""
    expected = ", ".join(dict.fromkeys(option for gold in records.gold for option in OPTIONS[gold]))
    return describe_unread(unread, len(answers), f"name neither option, and count as wrong{by_pope}", expected)


def _join_clusters(rows: Sequence[Record]) -> list[str]:
    """Join the clusters of questions that a group asks together."""
    joined = linked_images([(row.cluster, f"group {row.group}") for row in rows if row.group])
    return [joined.get(row.cluster, row.cluster) for row in rows]


YES_NO = Task(
    **facts_of("yes-no"),
    template=to_fill(
        lambda row: {**dict(zip(("image", "second_image"), row.images, strict=False)), "question": row.texts[0]}
    ),
    read=_read_options,
    measure=measure_yes_no,
    notes=_note_unread,
    # Every question is asked as it is written: its words already ask for yes or no.
    runners=((Answerer, _ask_questions),),
    hiding=Hiding(
        records=BinaryQuestionSet,
        # The answer is the first of the two, whichever is right.
        bare=lambda row: replace(row, gold=OPTIONS[row.gold][0], tags={}),
        clusters=_join_clusters,
        **hiding_of("yes-no"),
        nothing=lambda size: [""] * size,
    ),
    images=all_images,
)


# NLVR2: is a sentence true of two images? Accuracy, and consistency over the rows of one sentence of a set.

#: NLVR2's ids among those that no statement has.
_IDENTIFIERS = re.compile(r"unknown ids: \w+-\d+-\d+-\d+")


def _read_labels(path: Path, records: StatementSet) -> list[bool]:
    rows = records.rows
    try:
        return read_for_records(path, rows, parse_label, "statement", lambda row, value: value == row.gold)
    except ScoreError as error:
        if _IDENTIFIERS.search(str(error)) is None or "-" in rows[0].id:
            raise
        raise ScoreError(
            f"{error}; identifiers are those of the authors' own test1.json and dev.json: get them from "
            "https://github.com/lil-lab/nlvr/tree/master/nlvr2/data and name their folder with data="
        ) from error


def measure_statements(records: StatementSet, predictions: Sequence[bool | str | None]) -> tuple[Units, ...]:
    """Measure labels: accuracy of statements; consistency of sentences, and of those that both labels occur with."""
    rows, judged = records.rows, list(zip(records.rows, predictions, strict=True))
    # An answer that is neither counts as the wrong label.
    labels = [predicted if isinstance(predicted, bool) else not row.gold for row, predicted in judged]
    right = label_accuracy(labels, records.gold)
    statements = tuple(
        unit_of(row, cluster=row.texts[0], output=predicted, gold=str(row.gold).lower()) for row, predicted in judged
    )
    measured = [Units("statement", statements, (value_of("accuracy", right),))]
    for noun, metric, groups in (
        ("sentence", "consistency", records.sentence_groups()),
        ("sentence of both labels", "consistency_both_labels", records.sentence_groups(both_labels=True)),
    ):
        if groups:
            first = [rows[group[0]] for group in groups]
            units = tuple(Unit(id=row.group or row.texts[0], cluster=row.texts[0], texts=row.texts) for row in first)
            guessed = float(np.mean([0.5 ** len(group) for group in groups]))
            measured.append(Units(noun, units, (value_of(metric, group_accuracy(right, groups), chance=guessed),)))
    return tuple(measured)


def _ask_statements(model: Answerer, records: StatementSet, session: Session) -> list[bool | str]:
    """Ask whether every statement is true of its two images; the answer itself if it is neither true nor false."""
    prompt = model.task_prompt("nlvr2")
    prompts = [prompt.fill(sentence=row.texts[0]) for row in records.rows]
    answers = ask(model, [row.images for row in records.rows], prompts, session)
    verdicts = map(parse_verdict, answers)
    return [answer if verdict is None else verdict for answer, verdict in zip(answers, verdicts, strict=True)]


def _judge_statements(model: TwoImageClassifier, records: StatementSet, session: Session) -> list[bool]:
    """Judge every statement by a classifier of two images: true if P(true) is above one half."""
    sentences = [row.texts[0] for row in records.rows]

    def judge(part: slice, pictures: list[list[Pixels]]) -> list[bool]:
        left, right = ([pair[side] for pair in pictures] for side in (0, 1))
        return [bool(probability > 0.5) for probability in model.judge(left, right, sentences[part])]

    return compute_batches([row.images for row in records.rows], session, judge, "judgements")


NLVR2: Task[StatementSet, Any] = Task(
    **facts_of("nlvr2"),
    template=to_fill(lambda row: {"sentence": row.texts[0], **dict(zip(("left", "right"), row.images, strict=True))}),
    read=_read_labels,
    measure=measure_statements,
    notes=lambda _records, predictions: describe_unread(
        [answer or "" for answer in predictions if not isinstance(answer, bool)],
        len(predictions),
        "are neither true nor false, and count as wrong",
        "true or false",
    ),
    runners=((TwoImageClassifier, _judge_statements), (Answerer, _ask_statements)),
    hiding=Hiding(
        records=StatementSet,
        bare=lambda row: replace(row, gold=False, group=""),
        clusters=lambda rows: [row.texts[0] for row in rows],
        **hiding_of("nlvr2"),
        nothing=lambda size: [None] * size,
    ),
)
