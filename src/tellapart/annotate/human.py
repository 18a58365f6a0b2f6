"""Agreement of annotators, and the human row: people's scores, and their answers as scores for `tellapart score`.

People who answered a unit vote; where as many chose the true option as another one, and where they chose both or
neither, the unit is a tie. A tie is not right; the tie-neutral value breaks it by a coin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from tellapart.annotate.surveys import Study, Survey, SurveyAnswer
from tellapart.data.scores import Scores, join_names
from tellapart.errors import ScoreError
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement
from tellapart.stats.interval import Interval
from tellapart.stats.intervals import Column, interval_for, intervals_for


class Record(BaseModel):
    """A part of the report of `annotate agree`; its fields are those of the JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


def usable(answers: Sequence[SurveyAnswer]) -> list[SurveyAnswer]:
    """Return the answers that were not skipped and break no rule."""
    return [answer for answer in answers if not answer.skipped and not answer.problems]


def agreement(survey: Survey, study: Study, answers: Sequence[SurveyAnswer]) -> list[LabelAgreement]:
    """Compare annotators' choices, in each view of the survey; return nothing if no unit has two labels.

    A label is the option itself, whatever its letter was: two people who both chose `A` need not agree.
    """
    ask = survey.choice
    if ask is None:
        return []
    labels: dict[str, dict[str, str]] = {}
    for answer in usable(answers):
        labels.setdefault(answer.unit, {})[answer.annotator] = answer.values[ask.name]
    if all(len(label) < 2 for label in labels.values()):
        return []
    return [_view_agreement(study, ask.name, view, read, labels) for view, read in survey.views.items()]


def _view_agreement(
    study: Study, field: str, view: str, read: Callable[[str], str], labels: dict[str, dict[str, str]]
) -> LabelAgreement:
    units = [unit for unit in study.units if unit.id in labels]
    rows = [{who: read(label) for who, label in labels[unit.id].items()} for unit in units]
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
    return LabelAgreement(
        field=field,
        view=view,
        units=alpha.items,
        alpha=Estimate.of(alpha.value, alpha.interval),
        kappa=sum(kappas) / len(kappas) if kappas else None,
        pairs=pairs,
    )


def shares(survey: Survey, study: Study, answers: Sequence[SurveyAnswer], *, seed: int = 0) -> list[LabelShare]:
    """Return how often each label was given, the most frequent first; options count as right or wrong.

    If a unit has no right answer, its options count as `an option`. COCO-Counterfactuals' Table 7 is this, of its
    survey of error categories.
    """
    ask, answers = survey.choice, usable(answers)
    if ask is None or not answers:
        return []
    labels = []
    for answer in answers:
        label, unit = answer.values[ask.name], study.unit_of[answer.unit]
        if unit.truth:
            label = (
                "right" if label == unit.truth else "wrong" if label not in ask.choices or not ask.options else label
            )
        elif label not in ask.choices:
            label = "an option"
        labels.append(label)
    clusters = [study.unit_of[answer.unit].cluster for answer in answers]
    counts = Counter(labels).most_common()
    columns = [Column([float(label == each) for each in labels], binary=True) for label, _ in counts]
    intervals = intervals_for(columns, clusters, seed=seed)
    return [
        LabelShare(label=label, answers=count, share=Estimate.of(count / len(labels), interval))
        for (label, count), interval in zip(counts, intervals, strict=True)
    ]


#: Which of the two directions a survey asks about.
_TEXT, _IMAGE = ("coco-cf", "i2t"), ("t2i", "ambiguity")

AnsweredStudies = Sequence[tuple[Study, Sequence[SurveyAnswer]]]


class HumanRow(Record):
    """People's value of a metric over items whose units were all answered; `neutral` breaks ties by a coin."""

    metric: str
    items: int
    ties: int
    strict: Estimate
    neutral: float
    alone: dict[str, float | None]


def human_rows(answered: AnsweredStudies, *, seed: int = 0) -> list[HumanRow]:
    """Return people's scores: text score (captions for images), image score (images for captions), group score of both.

    Items of one image or one text are asked one way, and have a choice score, as a model's.

    Source: BiVLC Table 2 and appendix H (two surveys, one a direction).
    """
    _expect_together(answered)
    rows = _rows_of(answered, seed)
    alone: dict[str, dict[str, float | None]] = {row.metric: {} for row in rows}
    for who in sorted({answer.annotator for _, answers in answered for answer in answers}):
        part = [(study, [each for each in answers if each.annotator == who]) for study, answers in answered]
        for row in _rows_of(part, seed):
            alone[row.metric][who] = row.strict.value
    return [row.model_copy(update={"alone": alone[row.metric]}) for row in rows]


def _rows_of(answered: AnsweredStudies, seed: int) -> list[HumanRow]:
    by_metric: dict[str, dict[str, list[float]]] = {}
    clusters: dict[str, str] = {}
    for metric, surveys in (("text_score", _TEXT), ("image_score", _IMAGE)):
        for study, answers in answered:
            if study.survey in surveys:
                by_metric["choice_score" if 1 in study.shape else metric] = _true_leads(study, answers)
                clusters |= {unit.item: unit.cluster for unit in study.units}
    if len(by_metric) == 2:
        text, image = by_metric.values()
        by_metric["group_score"] = {item: text[item] + image[item] for item in text if item in image}
    return [_metric_row(metric, leads, clusters, seed) for metric, leads in by_metric.items() if leads]


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
                f"{len(same)} studies ask for {asked} ({'; '.join(same)}), and people's row shows one: give it one of "
                "them at a time, or ask all people in one study (`annotate export --annotators`)"
            )


def _metric_row(metric: str, leads: Mapping[str, Sequence[float]], clusters: Mapping[str, str], seed: int) -> HumanRow:
    strict = [float(all(lead > 0 for lead in own)) for own in leads.values()]
    coins = [float(np.prod([0.5 * (np.sign(lead) + 1) for lead in own])) for own in leads.values()]
    interval = interval_for(strict, [clusters[item] for item in leads], binary=True, seed=seed)
    return HumanRow(
        metric=metric,
        items=len(leads),
        ties=sum(any(lead == 0 for lead in own) for own in leads.values()),
        strict=Estimate.of(sum(strict) / len(strict), interval),
        neutral=sum(coins) / len(coins),
        alone={},
    )


def _vote_shares(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, NDArray[np.float64]]:
    """Return for each unit the share of people for each option; `both` gives each a half, `neither` nothing."""
    votes: dict[str, list[NDArray[np.float64]]] = {}
    for answer in usable(answers):
        (label,) = answer.values.values()
        unit = study.unit_of[answer.unit]
        vote = np.full(len(unit.options), 1 / len(unit.options) if label == "both" else 0.0)
        if label.isdigit():
            vote[int(label)] = 1
        votes.setdefault(unit.id, []).append(vote)
    return {id_: np.mean(counts, axis=0) for id_, counts in votes.items()}


def _true_leads(study: Study, answers: Sequence[SurveyAnswer]) -> dict[str, list[float]]:
    """Return the lead of the true option over the best other one, by unit, of items whose units were all answered."""
    votes = _vote_shares(study, answers)
    leads: dict[str, list[float]] = {}
    partly: set[str] = set()
    for unit in study.units:
        if unit.id not in votes:
            partly.add(unit.item)
            continue
        counts = votes[unit.id]
        # In float32 as every score is: thirds that are equal stay equal.
        lead = np.float32(counts[int(unit.truth)]) - np.float32(np.delete(counts, int(unit.truth)).max())
        leads.setdefault(unit.item, []).append(float(lead))
    return {item: own for item, own in leads.items() if item not in partly}


def human_scores(answered: AnsweredStudies) -> Scores:
    """Return people's answers as scores of every item's image-text pairs, for `tellapart score`.

    - match: the share of people who found the caption true of the image; a probability.
    - captions for one image, or images for one caption: the share of people who chose each; both count a half each.
    - two images and two captions, asked both ways (i2t and t2i): scores whose four comparisons are people's choices.

    Source: Winoground section 4.1 (the share of people is the score).
    """
    _expect_together(answered)
    by_survey = {study.survey: (study, answers) for study, answers in answered}
    if "match" in by_survey and len(by_survey) > 1:
        raise ScoreError(
            f"scores are of a match study or of choices, not of {', '.join(by_survey)} together; give some"
        )
    if "match" in by_survey:
        return _match_scores(*by_survey["match"])
    text = next((by_survey[name] for name in _TEXT if name in by_survey), None)
    image = next((by_survey[name] for name in _IMAGE if name in by_survey), None)
    side = text or image
    if side is None:
        raise ScoreError(f"a {next(iter(by_survey))} study gives no scores; match, coco-cf, i2t and t2i studies do")
    study, answers = side
    if 1 in study.shape:
        votes = _require_all(study, _vote_shares(study, answers))
        values = np.array([votes[unit.id] for unit in study.units])
        return Scores([unit.item for unit in study.units], values.reshape(-1, *study.shape), "similarity")
    if text is None or image is None:
        direction, missing = ("captions for images", "t2i") if text else ("images for captions", "i2t")
        raise ScoreError(
            f"2x2 items were asked one way only ({direction}), and scores have both; give the {missing} study, too, or "
            "read the human row of `annotate agree`"
        )
    return _both_ways(text, image)


def _require_all(study: Study, votes: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    if absent := [unit.id for unit in study.units if unit.id not in votes]:
        units = f"{len(absent)} of {len(study.units)} units of the {study.survey} study"
        raise ScoreError(f"{units} have no answer: {join_names(absent)}")
    return votes


def _match_scores(study: Study, answers: Sequence[SurveyAnswer]) -> Scores:
    votes: dict[str, list[float]] = {}
    for answer in usable(answers):
        votes.setdefault(answer.unit, []).append(float(answer.values["match"] == "yes"))
    shares = _require_all(study, {id_: np.array(np.mean(yes)) for id_, yes in votes.items()})
    items = list(dict.fromkeys(unit.item for unit in study.units))
    # The units of an item are listed together, image by image, text by text.
    values = np.array([shares[unit.id] for unit in study.units]).reshape(len(items), *study.shape)
    return Scores(items, values, "probability")


def _both_ways(text: tuple[Study, Sequence[SurveyAnswer]], image: tuple[Study, Sequence[SurveyAnswer]]) -> Scores:
    if text[0].shape != [2, 2]:
        raise ScoreError(f"items of {text[0].shape[0]}x{text[0].shape[1]} asked both ways give no scores; 2x2 items do")
    for study, answers in (text, image):
        _require_all(study, _vote_shares(study, answers))
    captions, images = _true_leads(*text), _true_leads(*image)
    if captions.keys() != images.keys():
        raise ScoreError(f"the {text[0].survey} and {image[0].survey} studies asked of different items")
    matrices = {item: _sign_matrix(np.sign(captions[item]), np.sign(images[item])) for item in captions}
    if circles := [item for item, matrix in matrices.items() if matrix is None]:
        raise ScoreError(
            f"people's choices of {len(circles)} items go in a circle that no scores do (right one way, wrong or tied "
            f"the other): {join_names(circles)}; read the human row of `annotate agree`"
        )
    return Scores(list(matrices), np.array(list(matrices.values())), "similarity")


def _sign_matrix(captions: NDArray[np.float64], images: NDArray[np.float64]) -> list[list[float]] | None:
    """Return scores with the signs: s00 - s01 and s11 - s10 as in `captions`, s00 - s10 and s11 - s01 as in `images`.

    Both pairs of differences add up to s00 + s11 - s01 - s10, so that one sum must be reachable from either.
    """
    for total in (0.0, 2.0, -2.0):
        ours, theirs = _split_total(captions, total), _split_total(images, total)
        if ours and theirs:
            (a, b), (c, _) = ours, theirs
            # s00 = 0; s11 = b + s10.
            return [[0.0, -a], [-c, b - c]]
    return None


def _split_total(signs: NDArray[np.float64], total: float) -> tuple[float, float] | None:
    """Return two numbers with these signs and that sum, if there are any."""
    for first in (total / 2, total, 0.0, total + 1, total - 1, 1.0, -1.0):
        if np.sign(first) == signs[0] and np.sign(total - first) == signs[1]:
            return first, total - first
    return None
