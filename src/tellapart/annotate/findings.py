"""Findings of studies of one pair set: agreement of annotators, their errors, and the human row of a results table.

The people who answered a unit vote on it. It is a tie if another option got as many votes as the true one, and is then
not right. The tie-neutral value counts the chance that a draw among the tied options gives the true one.
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
    """A number, None if it is not defined, with its interval; the bounds are None for the given `reason`."""

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
        """Estimate the share of hits, one for each unit, from hits and the units' clusters."""
        return cls.of(sum(hits) / len(hits), interval_for(hits, clusters, binary=True, seed=seed))


class PairAgreement(Record):
    """Two annotators on the units that both labelled."""

    a: str
    b: str
    units: int
    same: float
    kappa: Estimate


class LabelAgreement(Record):
    """How far people agree in one of `VIEWS` of their labels: Krippendorff's alpha, and the mean kappa of pairs."""

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
    """Compare annotators' choices of options in each view; no view if no unit has two labels."""
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
        common = [(row[a], row[b], unit.cluster) for row, unit in zip(rows, units, strict=True) if {a, b} <= row.keys()]
        if common:
            first, second, clusters = map(list, zip(*common, strict=True))
            kappa, same = kappa_with_interval(first, second, clusters), percent_agreement(first, second)
            estimate = Estimate.of(kappa.value, kappa.interval)
            pairs.append(PairAgreement(a=a, b=b, units=len(common), same=same, kappa=estimate))
    kappas = [pair.kappa.value for pair in pairs if pair.kappa.value is not None]
    estimate, mean = Estimate.of(alpha.value, alpha.interval), sum(kappas) / len(kappas) if kappas else None
    return LabelAgreement(field=field, view=view, units=alpha.items, alpha=estimate, kappa=mean, pairs=pairs)


def shares(survey: Survey, study: Study, answers: Sequence[SurveyAnswer], *, seed: int = 0) -> list[LabelShare]:
    """Return how often people gave each label; options count as `right`, `wrong` or, without a truth, `an option`."""
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


#: The surveys that ask for a caption of an image, and those that ask for an image of a caption.
_TEXT, _IMAGE = ("coco-cf", "i2t"), ("t2i", "ambiguity")

AnsweredStudy = tuple[Study, Sequence[SurveyAnswer]]
AnsweredStudies = Sequence[AnsweredStudy]


class JudgedRow(Record):
    """People's value over a full set, estimated from their answers to a part and a model's to all of it."""

    judge: str
    others: int
    estimate: Estimate
    weight: float
    worth: float


class HumanRow(Record):
    """People's value of a metric over items whose units were all answered: strict, tie-neutral, and of each alone."""

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
    votes_of = {}  # person -> metric -> item -> the votes of this person alone
    for who in sorted({answer.annotator for _, answers in answered for answer in answers}):
        own = [(study, [answer for answer in answers if answer.annotator == who]) for study, answers in answered]
        votes_of[who] = _collect_votes(own)
    rows = []
    for metric, items in _collect_votes(answered).items():
        right = _mark_right(items)
        neutral = [math.prod(vote.drawn for vote in votes) for votes in items.values()]
        alone = {who: [*_mark_right(of_one[metric]).values()] for who, of_one in votes_of.items() if metric in of_one}
        rows.append(
            HumanRow(
                metric=metric,
                items=len(items),
                ties=sum(any(vote.lead == 0 for vote in votes) for votes in items.values()),
                strict=Estimate.of_share([*right.values()], [clusters[item] for item in items], seed),
                neutral=sum(neutral) / len(neutral),
                alone={who: sum(hits) / len(hits) for who, hits in alone.items()},
                judged=None if samples is None else _judged_row(metric, right, samples),
            )
        )
    if judge is not None and not any(row.judged for row in rows):
        asked = ", ".join(row.metric for row in rows) or f"none, of a {answered[0][0].survey} study"
        raise ScoreError(f"judge={os.fspath(judge)!r}: the run has none of people's scores ({asked}); leave it out")
    return rows


class Vote(NamedTuple):
    """People's vote on a unit."""

    lead: float  # the share of people for the true option, less the largest share of another one
    drawn: float  # the probability that the true option wins if a tie is broken by a draw


def _mark_right(items: Mapping[str, Sequence[Vote]]) -> dict[str, float]:
    """Return 1 for each item of which people got all units right, else 0."""
    return {item: float(all(vote.lead > 0 for vote in votes)) for item, votes in items.items()}


def _read_judge(run: Path, answered: AnsweredStudies) -> tuple[str, list[Sample]]:
    """Return the model's name and its samples of the set that people answered a part of."""
    result, pairs, argument = read_result(run), answered[0][0].pairs, f"judge={os.fspath(run)!r}"
    items = {unit.item for study, _ in answered for unit in study.units}
    sets = {name: read_samples(run, name, record) for name, record in result.benchmarks.items() if record.samples}
    fitting = [samples for samples in sets.values() if items <= {sample.id for sample in samples}]
    if len(fitting) != 1:
        held = ", ".join(sets) or "nothing"
        raise ScoreError(f"{argument}: expected one set with all {len(items)} items of {pairs}; it holds {held}")
    texts = {sample.id: {*sample.texts} for sample in fitting[0] if sample.texts}  # scores from elsewhere have none
    units = (unit for study, _ in answered if study.survey in (*_TEXT, *_IMAGE) for unit in study.units)
    for unit in (unit for unit in units if unit.item in texts):
        shown = {*unit.texts, *(unit.options if unit.option_kind == "texts" else ())}
        if other := sorted(shown - texts[unit.item]):
            raise ScoreError(
                f"{argument}: its item {quote(unit.item)} has other texts than people saw ({quote(other[0])}); name "
                f"the run of a model on {pairs}"
            )
    if len(fitting[0]) < len(items) + 2:
        raise ScoreError(f"{argument}: it measured no other items than people did; run it on the full set")
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


def _collect_votes(answered: AnsweredStudies) -> dict[str, dict[str, list[Vote]]]:
    """Return metric -> item -> the votes on the item's units, for the metrics that people were asked for."""
    by_metric: dict[str, dict[str, list[Vote]]] = {}
    for metric, surveys in (("text_score", _TEXT), ("image_score", _IMAGE)):
        for study, answers in answered:
            if study.survey in surveys:
                by_metric["choice_score" if 1 in study.shape else metric] = _count_votes(study, answers)
    if len(by_metric) == 2:
        text, image = by_metric.values()
        by_metric["group_score"] = {item: text[item] + image[item] for item in text if item in image}
    return {metric: items for metric, items in by_metric.items() if items}


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
    """Return for each unit the share of people for each option, or for yes, `(option,)`; `both` is half of each."""
    votes: dict[str, list[NDArray[np.float64]]] = {}
    for answer in usable(answers):
        (label,) = answer.values.values()
        options = len(study.unit_of[answer.unit].options)
        vote = np.full(options, 1 / options) if label == "both" else np.zeros(max(options, 1))
        if label.isdigit() or label == "yes":
            vote[int(label) if options else 0] = 1
        votes.setdefault(answer.unit, []).append(vote)
    return {id_: np.mean(counts, axis=0) for id_, counts in votes.items()}


def _count_votes(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, list[Vote]]:
    """Return item -> the votes on its units, of items whose units were all answered."""
    votes = _vote_shares(study, answers)
    partly = {unit.item for unit in study.units if unit.id not in votes}
    items: dict[str, list[Vote]] = {}
    for unit in study.units:
        if unit.item not in partly:
            # In float32, as scores are: shares that differ by rounding alone, such as thirds, are equal.
            shares_of, true = votes[unit.id].astype(np.float32), int(unit.truth)
            lead, is_first = shares_of[true] - np.delete(shares_of, true).max(), shares_of == shares_of.max()
            items.setdefault(unit.item, []).append(Vote(float(lead), float(is_first[true] / is_first.sum())))
    return items


def human_scores(answered: AnsweredStudies) -> Scores:
    """Return people's answers as scores of every item's image-text pairs, for `tellapart score`.

    A score is the share of people (Winoground section 4.1); of items asked both ways, scores compare as people chose.
    """
    _expect_together(answered)
    names = [study.survey for study, _ in answered]
    if "match" in names and len(names) > 1:
        raise ScoreError(f"scores are of a match study or of choices, not of {', '.join(names)}; give some")
    ordered = [pair for surveys in (("match",), _TEXT, _IMAGE) for pair in answered if pair[0].survey in surveys]
    if not ordered:
        raise ScoreError(f"a {names[0]} study gives no scores; match, coco-cf, i2t and t2i studies do")
    if len(ordered) > 1:
        return _score_both_directions(*ordered)
    study, answers = ordered[0]
    if "match" not in names and 1 not in study.shape:
        asked, absent = ("captions for images", "t2i") if study.survey in _TEXT else ("images for captions", "i2t")
        raise ScoreError(
            f"2x2 items were asked one way only ({asked}), and scores have both; give the {absent} study, too, or "
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


def _score_both_directions(text: AnsweredStudy, image: AnsweredStudy) -> Scores:
    if text[0].shape != [2, 2]:
        raise ScoreError(f"items of {text[0].shape[0]}x{text[0].shape[1]} asked both ways give no scores; 2x2 items do")
    for study, answers in (text, image):
        _shares_of_all(study, answers)
    captions, images = _count_votes(*text), _count_votes(*image)
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
    """Return scores, or None, with the leads' signs: s00 - s01, s11 - s10 of `captions`; s00 - s10, s11 - s01."""
    signs = [[*np.sign([vote.lead for vote in votes])] for votes in (captions, images)]
    tried = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0)  # enough for every combination of signs that scores can have
    # The two differences of either kind have one total, s00 + s11 - s01 - s10; s00 is 0.
    for total, caption, image in product((0.0, 2.0, -2.0), tried, tried):
        if [[*np.sign(pair)] for pair in ((caption, total - caption), (image, total - image))] == signs:
            return [[0.0, -caption], [-image, total - caption - image]]
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
    # If items have one image, the altered word of the true caption comes first; these items have that caption second.
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
    return {name: [word.lower() for word in members] for name, members in groups.items()}


#: How many pairs of altered words are printed; the JSON has all.
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
