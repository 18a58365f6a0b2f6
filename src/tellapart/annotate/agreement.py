"""Agreement of annotators: Cohen's kappa of every two, Krippendorff's alpha of all, and the share of each label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

from pydantic import BaseModel, ConfigDict

from tellapart.annotate.survey import Study, Survey, SurveyAnswer
from tellapart.stats.agreement import alpha_with_interval, kappa_with_interval, percent_agreement
from tellapart.stats.interval import Interval
from tellapart.stats.intervals import Column, intervals_for


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
    """How people agree in one view of their labels.

    Attributes:
        field: of the answers.
        view: how labels were merged first: as given, or one or none (BiVLC).
        units: labelled by two or more people.
        alpha: Krippendorff's, nominal, over all of them.
        kappa: the mean of the pairs' kappas that are defined.
        pairs: every two annotators with units in common.
    """

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

    >>> from tellapart.annotate.surveys import find_survey
    >>> from tellapart.annotate.survey import SurveyUnit
    >>> units = [SurveyUnit(id=f"{k}", item=f"{k}", cluster=f"{k}", images=["0"], options=["x", "y"]) for k in range(4)]
    >>> study = Study(survey="i2t", pairs="s", shape=[1, 2], seed=0, annotators=["a", "b"], units=units, tasks=[])
    >>> answers = [
    ...     SurveyAnswer(task="", annotator=name, unit=str(k), values={"caption": label})
    ...     for name, labels in (("a", "0101"), ("b", "0111"))
    ...     for k, label in enumerate(labels)
    ... ]
    >>> (view,) = agreement(find_survey("i2t"), study, answers)
    >>> view.kappa, round(view.alpha.value, 3)
    (0.5, 0.533)
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
    table = [
        [read(answers[who]) if who in answers else None for who in study.annotators]
        for answers in (labels[unit.id] for unit in units)
    ]
    clusters = [unit.cluster for unit in units]
    alpha = alpha_with_interval(table, clusters)
    pairs = []
    for (i, a), (j, b) in combinations(enumerate(study.annotators), 2):
        rows = [(row[i], row[j], cluster) for row, cluster in zip(table, clusters, strict=True)]
        both = [(one, two, cluster) for one, two, cluster in rows if one is not None and two is not None]
        if both:
            first, second, own = map(list, zip(*both, strict=True))
            kappa = kappa_with_interval(first, second, own)
            same = percent_agreement(first, second)
            pairs.append(
                PairAgreement(a=a, b=b, units=len(both), same=same, kappa=Estimate.of(kappa.value, kappa.interval))
            )
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
