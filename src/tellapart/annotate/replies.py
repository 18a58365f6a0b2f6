"""Decode annotators' replies into answers: letters become options, and every mistake is an error that names its place.

Nothing is lost or guessed: a reply to an unknown task, a second reply to the same task, an unreadable reply and a task
without a reply are errors. An answer that breaks a rule of the survey (a caption of five words) is kept with its
problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.annotate.surveys import AnnotatorTask, Ask, Study, Survey, SurveyAnswer, letters
from tellapart.data.rows import read_json
from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, plain_suffix, read_whole
from tellapart.errors import DataError, quote
from tellapart.tasks.predictions import box


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as a file has it.

    Attributes:
        where: file and row, for messages.
        study: the token of the study that the task belongs to; empty if the file has none.
        task: id of the task.
        values: field name -> the answer in the annotator's letters: `A`, `Both`, a text, a box. Empty fields are left
            out.
        skipped: whether the annotator skipped the task.
        worker: who answered, of a crowd; empty for the task's annotator.
    """

    where: str
    study: str
    task: str
    values: Mapping[str, Any]
    skipped: bool
    worker: str = ""


def field_names(survey: Survey, study: Study) -> tuple[str, ...]:
    """Return the names of all fields of a study's tasks."""
    options = len(study.units[0].options)
    return tuple(name for ask in survey.asks for name in ask.names(options))


def read_allowed(path: Path) -> frozenset[str]:
    """Read the answers that a question may have: a JSON list of texts (`.json`), or a line each."""
    if plain_suffix(path) == ".json":
        allowed = read_json(path)
    else:
        allowed = [line.strip() for line in decode_text(read_whole(path), path).splitlines() if line.strip()]
    if not isinstance(allowed, list) or not allowed or not all(isinstance(answer, str) for answer in allowed):
        raise DataError(f"{path}: expected a list of answers, as texts")
    return frozenset(allowed)


def decode_replies(
    survey: Survey,
    study: Study,
    replies: Iterable[Reply],
    *,
    allowed: frozenset[str] = frozenset(),
    partial: bool = False,
    earlier: Iterable[SurveyAnswer] = (),
) -> list[SurveyAnswer]:
    """Decode replies into answers, in the order of the study's tasks; workers take the annotators' places at a unit."""
    tasks = {task.id: task for task in study.tasks}
    answers: dict[str, tuple[SurveyAnswer, str]] = {}
    imported = {answer.task: answer for answer in earlier}
    places: dict[str, dict[str, str]] = {}
    for place in study.tasks:
        places.setdefault(place.unit, {})[place.id] = ""
    for reply in replies:
        task = tasks.get(reply.task)
        if reply.study != study.token or task is None:
            raise DataError(_explain_unknown(reply, study))
        answer = _decode_answer(survey, task, reply, allowed)
        if reply.worker:
            task = tasks[_place_worker(reply, task.unit, places[task.unit])]
            answer = answer.model_copy(update={"task": task.id, "annotator": task.annotator})
        if task.id in answers and answers[task.id][0] != answer:
            raise DataError(
                f"{reply.where}: a second answer to task {task.id} ({task.annotator} on {task.unit}), answered in "
                f"{answers[task.id][1]}; keep one of them"
            )
        before = imported.get(task.id, answer)
        if (before.values, before.skipped) != (answer.values, answer.skipped):
            raise DataError(
                f"{reply.where}: task {task.id} ({task.annotator} on {task.unit}) was imported before with another "
                f"answer ({_describe(before)}, now {_describe(answer)}); to take the new ones, remove the study's "
                "answers.jsonl and import all files together"
            )
        answers[task.id] = (answer, reply.where)
    answers = {name: (answer, "") for name, answer in imported.items()} | answers
    missing = [task.id for task in study.tasks if task.id not in answers]
    if missing and not partial:
        raise DataError(
            f"{len(missing)} of {len(tasks)} tasks have no answer: {join_names(missing)}; "
            "import all files, or pass partial=True to go on without them"
        )
    return [answers[task.id][0] for task in study.tasks if task.id in answers]


def _place_worker(reply: Reply, unit: str, workers: dict[str, str]) -> str:
    """Return the task of a worker's answer: the one that was shown if it is free, or else the unit's first free one."""
    if reply.worker in workers.values():
        raise DataError(f"{reply.where}: worker {quote(reply.worker)} answered {unit} before; keep one of the answers")
    free = [task for task, worker in workers.items() if not worker]
    if not free:
        raise DataError(f"{reply.where}: {unit} has {len(workers)} annotators and more workers; export it for more")
    task = reply.task if reply.task in free else free[0]
    workers[task] = reply.worker
    return task


def _describe(answer: SurveyAnswer) -> str:
    return "skipped" if answer.skipped else quote(answer.values, 80)


def _explain_unknown(reply: Reply, study: Study) -> str:
    if not reply.task:
        return f"{reply.where}: has no `task`; export with the task's data"
    if reply.study != study.token:
        origin = f"of study {reply.study!r}" if reply.study else "of no study"
        return (
            f"{reply.where}: task {reply.task} is {origin}, not of study {study.token!r}; name the folder of its study"
        )
    return f"{reply.where}: task {reply.task!r} is unknown to this study"


def check_answer(survey: Survey, task: AnnotatorTask, answer: SurveyAnswer, place: str) -> None:
    """Hold a stored answer to a task to the rules of replies; its options are indices of the unit, not letters."""
    place = f"{place}: task {task.id}"
    if (answer.annotator, answer.unit) != (task.annotator, task.unit):
        raise DataError(
            f"{place} is {task.annotator} on {task.unit}, not {answer.annotator} on {answer.unit}; import it again"
        )
    options = {str(index): str(index) for index in sorted(task.order)}
    values = {} if answer.skipped else _decode_values(survey, options, answer.values, place)
    if values != answer.values:
        raise DataError(
            f"{place}: field 'values': expected {quote(values)}, got {quote(answer.values)}; import it again"
        )
    problems = set(survey.problems(values, frozenset()) if values else ())
    # A list of answers, which a question may have, is not kept: what it refused is beyond the survey's own rules.
    if problems - set(answer.problems) or (survey.name != "question" and problems != set(answer.problems)):
        expected = quote(sorted(problems))
        raise DataError(
            f"{place}: field 'problems': expected {expected}, got {quote(answer.problems)}; import it again"
        )


def _decode_answer(survey: Survey, task: AnnotatorTask, reply: Reply, allowed: frozenset[str]) -> SurveyAnswer:
    identity: dict[str, Any] = {"task": task.id, "annotator": task.annotator, "unit": task.unit}
    if reply.skipped:
        return SurveyAnswer(**identity, skipped=True)
    options = {letter: str(index) for letter, index in zip(letters(len(task.order)), task.order, strict=True)}
    values = _decode_values(survey, options, reply.values, f"{reply.where}: task {task.id}")
    return SurveyAnswer(**identity, values=values, problems=survey.problems(values, allowed))


def _decode_values(survey: Survey, shown: Mapping[str, str], raws: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a reply's values by field; `shown` has each option's index by the name under which it is answered."""
    # One text per option: the key is the option's number, because its letter depends on the annotator's order.
    keys = {name: (key, ask) for ask in survey.asks for name, key in _keys(ask, shown).items()}
    if unknown := [name for name in raws if name not in keys]:
        raise DataError(f"{place}: field {unknown[0]!r} is not asked; this survey asks for {', '.join(keys)}")
    values: dict[str, Any] = {}
    for name, (key, ask) in keys.items():
        raw = raws.get(name)
        if raw is None or (isinstance(raw, str) and not raw.strip()):
            if ask.required:
                raise DataError(f"{place}: field {name!r} has no answer")
            continue
        if isinstance(raw, list) and ask.control != "box":
            raise DataError(f"{place}: field {name!r}: {len(raw)} answers {quote(raw)}; give one")
        try:
            values[key] = _read_value(raw, ask, shown)
        except ValueError as error:
            raise DataError(f"{place}: field {name!r}: {error}") from error
    return values


def _keys(ask: Ask, shown: Mapping[str, str]) -> dict[str, str]:
    if ask.control == "text" and ask.options:
        return {f"{ask.name}_{option.lower()}": f"{ask.name}_{index}" for option, index in shown.items()}
    return {ask.name: ask.name}


def _read_value(raw: object, ask: Ask, shown: Mapping[str, str]) -> str | list[float]:
    if ask.control == "choice":
        return _decode_choice(raw, ask, shown)
    if ask.control == "box":
        sides = list(box(list(raw) if isinstance(raw, tuple) else raw))
        if min(sides[2:]) <= 0:
            raise ValueError(f"the box {sides} has no area")
        return sides
    if not isinstance(raw, str):
        raise ValueError(f"expected a text, got {quote(raw)}")
    return raw.strip()


def _decode_choice(raw: object, ask: Ask, shown: Mapping[str, str]) -> str:
    choice = raw.strip().lower() if isinstance(raw, str) else raw
    options = {option.lower(): index for option, index in shown.items()} if ask.options else {}
    choices = {**options, **{choice.lower(): choice for choice in ask.choices}}
    if not isinstance(choice, str) or choice not in choices:
        listing = ", ".join([*(shown if ask.options else ()), *ask.choices])
        raise ValueError(f"{quote(raw)} is not one of the choices; they are {listing}")
    return choices[choice]
