"""Findings of studies of one pair set: agreement of annotators, their errors, and the human row of a results table.

People who answered a unit vote; where as many chose the true option as another one, and where they chose both or
neither, the unit is a tie. A tie is not right; the tie-neutral value breaks it by a coin, of several options by a draw.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.annotate.study import read_earlier
from tellapart.annotate.surveys import VIEWS, Study, Survey, SurveyAnswer, SurveyUnit, find_survey, usable
from tellapart.data.arguments import PathGiven, as_path, as_paths
from tellapart.data.rows import read_object
from tellapart.data.scores import Scores, join_names
from tellapart.errors import DataError, ScoreError, quote
from tellapart.evaluation.verified import read_result
from tellapart.models.memory.external import write_scores
from tellapart.records.result import Record, Sample
from tellapart.records.samples import read_samples
from tellapart.report.terminal import print_template
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement
from tellapart.stats.interval import Interval
from tellapart.stats.intervals import interval_for
from tellapart.stats.prediction_powered import prediction_powered


class Estimate(Record):
    """A number with its interval; None if it is not defined, or the data give no interval, for the reason given."""

    value: float | None
    low: float | None
    high: float | None
    method: str
    reason: str = ""

    @classmethod
    def of(cls, value: float | None, interval: Interval) -> Estimate:
        """Join a value and its interval."""
        return cls(value=value, low=interval.low, high=interval.high, method=interval.method, reason=interval.reason)

    @classmethod
    def of_share(cls, hits: Sequence[bool | float], clusters: Sequence[str], seed: int) -> Estimate:
        """Estimate a share from whether it holds of every unit, and the units' clusters."""
        return cls.of(sum(hits) / len(hits), interval_for(hits, clusters, binary=True, seed=seed))


class PairAgreement(Record):
    """Two annotators on the units that both labelled."""

    a: str
    b: str
    units: int
    same: float
    kappa: Estimate


class LabelAgreement(Record):
    """How people agree in one view of their labels: Krippendorff's alpha, and the mean of the pairs' kappas."""

    field: str
    view: str
    units: int
    alpha: Estimate
    kappa: float | None
    pairs: list[PairAgreement]


class LabelShare(Record):
    """How many answers gave a label."""

    label: str
    answers: int
    share: Estimate


def agreement(survey: Survey, study: Study, answers: Sequence[SurveyAnswer]) -> list[LabelAgreement]:
    """Compare annotators' choices, whatever their letters were, in each view; none if no unit has two labels."""
    ask, labels = survey.choice, dict[str, dict[str, str]]()
    if ask is None:
        return []
    for answer in usable(answers):
        labels.setdefault(answer.unit, {})[answer.annotator] = answer.values[ask.name]
    if all(len(label) < 2 for label in labels.values()):
        return []
    return [_view_agreement(study, ask.name, view, labels) for view in survey.views]


def _view_agreement(study: Study, field: str, view: str, labels: dict[str, dict[str, str]]) -> LabelAgreement:
    units = [unit for unit in study.units if unit.id in labels]
    rows = [{who: VIEWS[view](label) for who, label in labels[unit.id].items()} for unit in units]
    table = [[row.get(who) for who in study.annotators] for row in rows]
    alpha = alpha_with_interval(table, [unit.cluster for unit in units])
    pairs = []
    for a, b in combinations(study.annotators, 2):
        both = [(row[a], row[b], unit.cluster) for row, unit in zip(rows, units, strict=True) if {a, b} <= row.keys()]
        if both:
            first, second, clusters = map(list, zip(*both, strict=True))
            kappa, same = kappa_with_interval(first, second, clusters), percent_agreement(first, second)
            estimate = Estimate.of(kappa.value, kappa.interval)
            pairs.append(PairAgreement(a=a, b=b, units=len(both), same=same, kappa=estimate))
    kappas = [pair.kappa.value for pair in pairs if pair.kappa.value is not None]
    estimate, mean = Estimate.of(alpha.value, alpha.interval), sum(kappas) / len(kappas) if kappas else None
    return LabelAgreement(field=field, view=view, units=alpha.items, alpha=estimate, kappa=mean, pairs=pairs)


def shares(survey: Survey, study: Study, answers: Sequence[SurveyAnswer], *, seed: int = 0) -> list[LabelShare]:
    """Return how often each label was given: right, wrong, or `an option` of a unit without a right answer."""
    ask, answers = survey.choice, usable(answers)
    if ask is None or not answers:
        return []
    labels = []
    for answer in answers:
        label, truth = answer.values[ask.name], study.unit_of[answer.unit].truth
        if label == truth:
            label = "right"
        elif label not in ask.choices or (truth and not ask.options):
            label = "wrong" if truth else "an option"
        labels.append(label)
    clusters = [study.unit_of[answer.unit].cluster for answer in answers]
    hits_of = {label: [label == other for other in labels] for label, _ in Counter(labels).most_common()}
    return [
        LabelShare(label=label, answers=sum(hits), share=Estimate.of_share(hits, clusters, seed))
        for label, hits in hits_of.items()
    ]


#: Which of the two directions a survey asks about.
_TEXT, _IMAGE = ("coco-cf", "i2t"), ("t2i", "ambiguity")

AnsweredStudy = tuple[Study, Sequence[SurveyAnswer]]
AnsweredStudies = Sequence[AnsweredStudy]


class JudgedRow(Record):
    """People's value over a full set, of which they answered a part and a model all (`prediction_powered`)."""

    judge: str
    others: int
    estimate: Estimate
    weight: float
    worth: float


class HumanRow(Record):
    """People's value of a metric over items whose units were all answered; `neutral` breaks ties by lot."""

    metric: str
    items: int
    ties: int
    strict: Estimate
    neutral: float
    alone: dict[str, float | None]
    judged: JudgedRow | None = None


def human_rows(answered: AnsweredStudies, judge: Path | None = None, *, seed: int = 0) -> list[HumanRow]:
    """Return people's scores: text score (captions for images), image score (images for captions), group score of both.

    Items of one image or text have a choice score. Source: BiVLC Table 2 and appendix H (a survey a direction).
    """
    _expect_together(answered)
    samples = None if judge is None else _read_judge(judge, answered)
    clusters = {unit.item: unit.cluster for study, _ in answered for unit in study.units}
    alone = {
        who: _collect_leads([(study, [of for of in answers if of.annotator == who]) for study, answers in answered])
        for who in sorted({answer.annotator for _, answers in answered for answer in answers})
    }
    rows = []
    for metric, leads in _collect_leads(answered).items():
        right = _mark_right(leads)
        strict = [*right.values()]
        drawn = [math.prod(vote.drawn for vote in votes) for votes in leads.values()]
        people = {who: [*_mark_right(of[metric]).values()] for who, of in alone.items() if metric in of}
        rows.append(
            HumanRow(
                metric=metric,
                items=len(leads),
                ties=sum(any(vote.lead == 0 for vote in votes) for votes in leads.values()),
                strict=Estimate.of_share(strict, [clusters[item] for item in leads], seed),
                neutral=sum(drawn) / len(drawn),
                alone={who: sum(own) / len(own) for who, own in people.items()},
                judged=None if samples is None else _judged_row(metric, right, samples),
            )
        )
    if judge is not None and not any(row.judged for row in rows):
        asked = ", ".join(row.metric for row in rows) or f"none, of a {answered[0][0].survey} study"
        raise ScoreError(f"judge={os.fspath(judge)!r}: the run has none of people's scores ({asked}); leave it out")
    return rows


class Vote(NamedTuple):
    """People's vote on a unit: the true option's lead over the best other one, and its chance if a tie is drawn."""

    lead: float
    drawn: float


def _mark_right(leads: Mapping[str, Sequence[Vote]]) -> dict[str, float]:
    return {item: float(all(vote.lead > 0 for vote in votes)) for item, votes in leads.items()}


def _read_judge(run: Path, answered: AnsweredStudies) -> tuple[str, list[Sample]]:
    """Return the model's name and its samples of the set that people answered a part of."""
    result, pairs, given = read_result(run), answered[0][0].pairs, f"judge={os.fspath(run)!r}"
    items = {unit.item for study, _ in answered for unit in study.units}
    sets = {name: read_samples(run, name, record) for name, record in result.benchmarks.items() if record.samples}
    fitting = [samples for samples in sets.values() if items <= {sample.id for sample in samples}]
    if len(fitting) != 1:
        held = ", ".join(sets) or "nothing"
        raise ScoreError(f"{given}: expected one set with all {len(items)} items of {pairs}; it holds {held}")
    texts = {sample.id: {*sample.texts} for sample in fitting[0] if sample.texts}  # none of scores made elsewhere
    units = (unit for study, _ in answered if study.survey in (*_TEXT, *_IMAGE) for unit in study.units)
    for unit in (unit for unit in units if unit.item in texts):
        shown = {*unit.texts, *(unit.options if unit.option_kind == "texts" else ())}
        if other := sorted(shown - texts[unit.item]):
            raise ScoreError(
                f"{given}: its item {quote(unit.item)} has other texts than people saw ({quote(other[0])}); name the "
                f"run of a model on {pairs}"
            )
    if len(fitting[0]) < len(items) + 2:
        raise ScoreError(f"{given}: it measured no other items than people did; run it on the full set")
    return result.model.name, fitting[0]


def _judged_row(metric: str, right: Mapping[str, float], judge: tuple[str, list[Sample]]) -> JudgedRow | None:
    name, samples = judge
    if any(metric not in sample.outcomes for sample in samples):
        return None
    people, others = ([sample for sample in samples if (sample.id in right) == asked] for asked in (True, False))
    powered = prediction_powered(
        [right[sample.id] for sample in people],
        [sample.outcomes[metric] for sample in people],
        [sample.outcomes[metric] for sample in others],
        [sample.cluster for sample in people],
        [sample.cluster for sample in others],
    )
    estimate = Estimate.of(powered.mean, powered.interval)
    return JudgedRow(judge=name, others=len(others), estimate=estimate, weight=powered.weight, worth=powered.worth)


def _collect_leads(answered: AnsweredStudies) -> dict[str, dict[str, list[Vote]]]:
    """Return the votes on items by metric, of those that somebody was asked for."""
    by_metric: dict[str, dict[str, list[Vote]]] = {}
    for metric, surveys in (("text_score", _TEXT), ("image_score", _IMAGE)):
        for study, answers in answered:
            if study.survey in surveys:
                by_metric["choice_score" if 1 in study.shape else metric] = _true_leads(study, answers)
    if len(by_metric) == 2:
        text, image = by_metric.values()
        by_metric["group_score"] = {item: text[item] + image[item] for item in text if item in image}
    return {metric: leads for metric, leads in by_metric.items() if leads}


def _expect_together(answered: AnsweredStudies) -> None:
    """Refuse studies that one row cannot show: of several sets, or several that ask the same way."""
    names = {study.pairs for study, _ in answered}
    if len(names) > 1:
        raise ScoreError(f"the studies are of different pair sets: {', '.join(sorted(names))}; give those of one")
    if len({tuple(study.shape) for study, _ in answered}) > 1:
        raise ScoreError(f"the studies are of different versions of {names.pop()}: items of other shapes; give one's")
    for surveys, asked in ((_TEXT, "captions for images"), (_IMAGE, "images for captions"), (("match",), "matches")):
        same = [f"{study.survey} of {', '.join(study.annotators)}" for study, _ in answered if study.survey in surveys]
        if len(same) > 1:
            raise ScoreError(
                f"{len(same)} studies ask for {asked} ({'; '.join(same)}), and people's row shows one: give one at a "
                "time, or ask all people in one study (`annotate export --annotators`)"
            )


def _vote_shares(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, NDArray[np.float64]]:
    """Return for each unit the share of people for each option, or for yes; `both` is half of each, `neither` none."""
    votes: dict[str, list[NDArray[np.float64]]] = {}
    for answer in usable(answers):
        (label,) = answer.values.values()
        options = len(study.unit_of[answer.unit].options)
        vote = np.full(options, 1 / options) if label == "both" else np.zeros(max(options, 1))
        if label.isdigit() or label == "yes":
            vote[int(label) if options else 0] = 1
        votes.setdefault(answer.unit, []).append(vote)
    return {id_: np.mean(counts, axis=0) for id_, counts in votes.items()}


def _true_leads(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, list[Vote]]:
    """Return the vote on each unit, by item, of items whose units were all answered."""
    votes = _vote_shares(study, answers)
    partly = {unit.item for unit in study.units if unit.id not in votes}
    leads: dict[str, list[Vote]] = {}
    for unit in study.units:
        if unit.item not in partly:
            # In float32 as every score is: thirds that are equal stay equal.
            counts, true = votes[unit.id].astype(np.float32), int(unit.truth)
            lead, first = counts[true] - np.delete(counts, true).max(), counts == counts.max()
            leads.setdefault(unit.item, []).append(Vote(float(lead), float(first[true] / first.sum())))
    return leads


def human_scores(answered: AnsweredStudies) -> Scores:
    """Return people's answers as scores of every item's image-text pairs, for `tellapart score`.

    A score is the share of people (Winoground section 4.1); of items asked both ways its comparisons are their choices.
    """
    _expect_together(answered)
    names = [study.survey for study, _ in answered]
    if "match" in names and len(names) > 1:
        raise ScoreError(f"scores are of a match study or of choices, not of {', '.join(names)}; give some")
    sides = [pair for surveys in (("match",), _TEXT, _IMAGE) for pair in answered if pair[0].survey in surveys]
    if not sides:
        raise ScoreError(f"a {names[0]} study gives no scores; match, coco-cf, i2t and t2i studies do")
    (study, answers), *other_way = sides
    if other_way:
        return _both_ways(*sides)
    if "match" not in names and 1 not in study.shape:
        way = ("captions for images", "t2i") if study.survey in _TEXT else ("images for captions", "i2t")
        raise ScoreError(
            f"2x2 items were asked one way only ({way[0]}), and scores have both; give the {way[1]} study, too, or "
            "read the human row of `annotate agree`"
        )
    votes = _shares_of_all(study, answers)
    # The units of an item are listed together, image by image, text by text.
    values = np.array([votes[unit.id] for unit in study.units]).reshape(-1, *study.shape)
    items = [*dict.fromkeys(unit.item for unit in study.units)]
    return Scores(items, values, "probability" if "match" in names else "similarity")


def _shares_of_all(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, NDArray[np.float64]]:
    """Return the shares of people for each unit, of which none may lack an answer."""
    votes = _vote_shares(study, answers)
    if absent := [unit.id for unit in study.units if unit.id not in votes]:
        units = f"{len(absent)} of {len(study.units)} units of the {study.survey} study"
        raise ScoreError(f"{units} have no answer: {join_names(absent)}")
    return votes


def _both_ways(text: AnsweredStudy, image: AnsweredStudy) -> Scores:
    if text[0].shape != [2, 2]:
        raise ScoreError(f"items of {text[0].shape[0]}x{text[0].shape[1]} asked both ways give no scores; 2x2 items do")
    for study, answers in (text, image):
        _shares_of_all(study, answers)
    captions, images = _true_leads(*text), _true_leads(*image)
    if captions.keys() != images.keys():
        raise ScoreError(f"the {text[0].survey} and {image[0].survey} studies asked of different items")
    matrices = {item: _sign_matrix(captions[item], images[item]) for item in captions}
    if circles := [item for item, matrix in matrices.items() if matrix is None]:
        raise ScoreError(
            f"people's choices of {len(circles)} items go in a circle that no scores do (right one way, wrong or tied "
            f"the other): {join_names(circles)}; read the human row of `annotate agree`"
        )
    return Scores(list(matrices), np.array(list(matrices.values())), "similarity")


def _sign_matrix(captions: Sequence[Vote], images: Sequence[Vote]) -> list[list[float]] | None:
    """Return scores with the leads' signs: s00 - s01, s11 - s10 as in `captions`; s00 - s10, s11 - s01 in `images`."""
    signs = [[*np.sign([vote.lead for vote in votes])] for votes in (captions, images)]
    numbers = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0)
    # The total of either pair of differences is s00 + s11 - s01 - s10.
    for total, a, c in product((0.0, 2.0, -2.0), numbers, numbers):
        if [[*np.sign(pair)] for pair in ((a, total - a), (c, total - c))] == signs:
            return [[0.0, -a], [-c, total - a - c]]
    return None


#: The words by which COCO-Counterfactuals counts a caption as one about people (appendix A.3.2).
HUMAN = ("girl", "boy", "man", "men", "woman", "guy", "kid", "person", "people", "child", "children", "couple", "group",
         "lady")  # fmt: skip


class ErrorRate(Record):
    """Answers other than the image's or the caption's: the other one, both, or neither."""

    of: str
    errors: int
    answers: int
    rate: Estimate


class Errors(Record):
    """A survey's errors: of all answers, by tag, by altered words (most errors first, Table 10), by group of words."""

    all: ErrorRate
    by_tag: list[ErrorRate]
    by_alteration: list[ErrorRate]
    by_group: list[ErrorRate]


def errors_by(
    survey: Survey,
    study: Study,
    answers: Sequence[SurveyAnswer],
    groups: Mapping[str, Iterable[str]] | None = None,
    *,
    seed: int = 0,
) -> Errors | None:
    """Count errors (COCO-Counterfactuals appendix A.3.2); None if there are no right answers, or no answers."""
    ask = survey.choice
    rows = [] if ask is None else [(study.unit_of[answer.unit], answer.values[ask.name]) for answer in usable(answers)]
    judged = [(unit, label != unit.truth) for unit, label in rows if unit.truth]
    if not judged:
        return None
    members = {name: {*words} for name, words in (groups or {"human": HUMAN}).items()}
    # Of one image the true caption's word comes first, wherever that caption stands: as a choice, or as a match.
    turned = {
        unit.item
        for unit in study.units
        for truth, end in (("1", ""), ("yes", " text 1"))
        if study.shape[0] == 1 and unit.truth == truth and unit.id.endswith(end)
    }
    by_tag, by_words, by_group = (dict[str, list[tuple[SurveyUnit, bool]]]() for _ in range(3))
    for unit, wrong in judged:
        # The paper's "altered subject of its caption": the altered word of the unit's caption.
        word = unit.altered[int(unit.truth)] if unit.altered and unit.truth.isdigit() else ""
        change = [" -> ".join(unit.altered[:: -1 if unit.item in turned else 1])] if unit.altered else []
        tags = [f"{tag}: {value}" for tag, value in unit.tags.items()]
        in_groups = [name for name, words in members.items() if word in words]
        for rows_of, names in ((by_tag, tags), (by_words, change), (by_group, in_groups)):
            for name in names:
                rows_of.setdefault(name, []).append((unit, wrong))

    def rates(by_name: Mapping[str, Sequence[tuple[SurveyUnit, bool]]]) -> list[ErrorRate]:
        rows = []
        for name, units in by_name.items():
            errors = [wrong for _, wrong in units]
            rate = Estimate.of_share(errors, [unit.cluster for unit, _ in units], seed)
            rows.append(ErrorRate(of=name, errors=sum(errors), answers=len(units), rate=rate))
        return rows

    return Errors(
        all=rates({"all answers": judged})[0],
        by_tag=sorted(rates(by_tag), key=lambda row: row.of),
        by_alteration=sorted(rates(by_words), key=lambda row: (-row.errors, row.of)),
        by_group=rates(by_group),
    )


def read_groups(path: Path) -> dict[str, list[str]]:
    """Read groups of words in lower case: a JSON object of lists, such as `{"human": ["girl", "boy"]}`."""
    groups = read_object(path)
    for name, members in groups.items():
        if not isinstance(members, list) or not members or not all(isinstance(word, str) for word in members):
            raise DataError(f"{path}: group {name!r}: expected a list of words, got {quote(members)}")
    return {name: [word.lower() for word in own] for name, own in groups.items()}


#: Rows of altered word pairs that are printed; the JSON has them all.
_MOST_ROWS = 20


class StudyFindings(Record):
    """The findings of one study."""

    survey: str
    answers: int
    skipped: int
    broken: int
    labels: list[LabelShare]
    agreement: list[LabelAgreement]
    errors: Errors | None


class Findings(Record):
    """All studies, and the human row that they give together."""

    studies: list[StudyFindings]
    human: list[HumanRow]


def annotate_agree(
    studies: PathGiven | Sequence[PathGiven],
    *,
    groups: PathGiven | None = None,
    scores: PathGiven | None = None,
    judge: PathGiven | None = None,
    seed: int = 0,
) -> Findings:
    """Return how people agree, their errors, and the human row of a results table; `scores` writes their answers.

    Args:
        studies: folders of studies of one pair set, with answers.
        groups: JSON of groups of altered words.
        scores: a file for people's answers as scores.
        judge: the run of a model on the full set: people's score over all of it, by prediction-powered inference.
        seed: of the bootstrap.

    Raises:
        TellapartError: a folder is not a study with answers, or they are not of one pair set.

    >>> import tellapart as ta
    >>> study = ta.annotate_export("i2t", "demo", getfixture("tmp_path") / "study", annotators="ann", sample=2).to
    >>> sheet = study / "sheets" / "ann.csv"
    >>> _ = sheet.write_text(sheet.read_text().replace(",,\\n", ",a,\\n"))  # answers "a" to each
    >>> _ = ta.annotate_import(study, sheet)
    >>> ta.annotate_agree(study).studies[0].answers
    4
    """
    answered = [(earlier.study, earlier.answers) for earlier in map(read_earlier, as_paths(studies, "studies"))]
    words = read_groups(as_path(groups, "groups")) if groups else None
    record = findings(answered, words, None if judge is None else as_path(judge, "judge"), seed=seed)
    if scores:
        write_scores(human_scores(answered), as_path(scores, "scores"))
    return record


def findings(
    answered: AnsweredStudies,
    groups: Mapping[str, Iterable[str]] | None = None,
    judge: Path | None = None,
    *,
    seed: int = 0,
) -> Findings:
    """Measure agreement, errors and the human row of studies of one pair set."""
    by_study = [
        StudyFindings(
            survey=study.survey,
            answers=len(answers),
            skipped=sum(answer.skipped for answer in answers),
            broken=sum(bool(answer.problems) for answer in answers),
            labels=shares(survey, study, answers, seed=seed),
            agreement=agreement(survey, study, answers),
            errors=errors_by(survey, study, answers, groups, seed=seed),
        )
        for study, answers in answered
        for survey in [find_survey(study.survey)]
    ]
    return Findings(studies=by_study, human=human_rows(answered, judge, seed=seed))


def print_findings(record: Findings) -> None:
    """Print the findings of each study, and the human row."""

    def list_alone(row: HumanRow) -> str:
        return join_names([f"{who} {100 * (share or 0.0):.1f}" for who, share in row.alone.items()])

    print_template("agreement", record=record, most=_MOST_ROWS, list_alone=list_alone)
