"""Do people agree: Cohen's kappa of every two annotators, Krippendorff's alpha of all, and what was answered how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

from pydantic import BaseModel, ConfigDict

from tellapart.annotate.survey import Answer, Study, Survey
from tellapart.stats.agreement import Reliability, alpha_with_interval, kappa_with_interval, percent_agreement
from tellapart.stats.intervals import Column, Interval, intervals_for

__all__ = ["Agreement", "Bounded", "PairAgreement", "Share", "agreement", "shares", "usable"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Bounded(_Record):
    """A number with its interval; None where it is not defined, or the data give no interval.

    >>> Bounded.of(0.5, Interval(0.4, 0.6, 0.95, "wilson")).low
    0.4
    """

    value: float | None
    low: float | None
    high: float | None
    method: str

    @classmethod
    def of(cls, value: float | None, interval: Interval) -> Bounded:
        """Put a value and its interval together.

        >>> Bounded.of(None, Interval(None, None, 0.95, "none: one label")).method
        'none: one label'
        """
        return cls(value=value, low=interval.low, high=interval.high, method=interval.method)


class PairAgreement(_Record):
    """Two annotators on the units that both labelled.

    >>> PairAgreement(a="ann", b="bob", units=2, same=1.0, kappa=Bounded(value=1.0, low=None, high=None, method="")).units
    2
    """

    a: str
    b: str
    units: int
    same: float
    kappa: Bounded


class Agreement(_Record):
    """How people agree in one view of their labels.

    Attributes:
        field: what was asked.
        view: how labels were put together first: as given, or one or none (BiVLC).
        units: labelled by two or more people.
        alpha: Krippendorff's, nominal, over all of them.
        kappa: the mean of the pairs' kappas that are defined.
        pairs: every two annotators with units in common.

    >>> alpha = Bounded(value=None, low=None, high=None, method="none: one label")
    >>> Agreement(field="image", view="as given", units=0, alpha=alpha, kappa=None, pairs=[]).kappa is None
    True
    """

    field: str
    view: str
    units: int
    alpha: Bounded
    kappa: float | None
    pairs: list[PairAgreement]


class Share(_Record):
    """How many answers gave a label.

    >>> Share(label="both", answers=3, share=Bounded(value=0.5, low=0.2, high=0.8, method="wilson")).answers
    3
    """

    label: str
    answers: int
    share: Bounded


def usable(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers that were not skipped and break no rule.

    >>> usable([Answer(task="ann-00001", annotator="ann", unit="a", skipped=True)])
    []
    """
    return [answer for answer in answers if not answer.skipped and not answer.problems]


def agreement(survey: Survey, study: Study, answers: Sequence[Answer], *, seed: int = 0) -> list[Agreement]:
    """Compare people in the survey's choice, in each of its views; nothing where no unit has two labels.

    A label is the option itself, wherever it stood: that two people both said `A` is no agreement.

    >>> from tellapart.annotate.surveys import find_survey
    >>> from tellapart.annotate.survey import Unit
    >>> units = [Unit(id=f"{k}", item=f"{k}", cluster=f"{k}", images=["0"], options=["x", "y"]) for k in range(4)]
    >>> study = Study(survey="i2t", pairs="s", shape=[1, 2], seed=0, annotators=["a", "b"], units=units, tasks=[])
    >>> said = {"a": "0101", "b": "0111"}
    >>> given = [
    ...     Answer(task="", annotator=who, unit=str(k), values={"caption": label})
    ...     for who, labels in said.items()
    ...     for k, label in enumerate(labels)
    ... ]
    >>> (found,) = agreement(find_survey("i2t"), study, given)
    >>> found.kappa, round(found.alpha.value, 3)
    (0.5, 0.533)
    """
    ask = survey.choice
    if ask is None:
        return []
    labels: dict[str, dict[str, str]] = {}
    for answer in usable(answers):
        labels.setdefault(answer.unit, {})[answer.annotator] = answer.values[ask.name]
    if all(len(own) < 2 for own in labels.values()):
        return []
    return [_view(study, ask.name, view, read, labels, seed) for view, read in survey.views.items()]


def _view(
    study: Study, field: str, view: str, read: Callable[[str], str], labels: dict[str, dict[str, str]], seed: int
) -> Agreement:
    units = [unit for unit in study.units if unit.id in labels]
    table = [
        [read(own[who]) if who in own else None for who in study.annotators]
        for own in (labels[unit.id] for unit in units)
    ]
    clusters = [unit.cluster for unit in units]
    alpha = alpha_with_interval(table, clusters, seed=seed)
    pairs = []
    for (i, a), (j, b) in combinations(enumerate(study.annotators), 2):
        rows = [(row[i], row[j], cluster) for row, cluster in zip(table, clusters, strict=True)]
        both = [(one, two, cluster) for one, two, cluster in rows if one is not None and two is not None]
        if both:
            first, second, own = map(list, zip(*both, strict=True))
            kappa = kappa_with_interval(first, second, own, seed=seed)
            same = percent_agreement(first, second)
            pairs.append(PairAgreement(a=a, b=b, units=len(both), same=same, kappa=_bounded(kappa)))
    known = [pair.kappa.value for pair in pairs if pair.kappa.value is not None]
    return Agreement(
        field=field,
        view=view,
        units=alpha.items,
        alpha=_bounded(alpha),
        kappa=sum(known) / len(known) if known else None,
        pairs=pairs,
    )


def _bounded(found: Reliability) -> Bounded:
    return Bounded.of(found.value, found.interval)


def shares(survey: Survey, study: Study, answers: Sequence[Answer], *, seed: int = 0) -> list[Share]:
    """Return how often each label was given, the most frequent first; an option of a unit counts as right or wrong.

    Where a unit has no right answer, its options count as `an option`. COCO-Counterfactuals' Table 7 is this, of its
    survey of error categories.

    >>> from tellapart.annotate.surveys import find_survey
    >>> from tellapart.annotate.survey import Unit
    >>> unit = Unit(id="a", item="a", cluster="a", images=["0.png"], options=["x", "y"], truth="0")
    >>> study = Study(survey="i2t", pairs="s", shape=[1, 2], seed=0, annotators=["ann"], units=[unit], tasks=[])
    >>> shares(find_survey("i2t"), study, [Answer(task="", annotator="ann", unit="a", values={"caption": "0"})])[0].label
    'right'
    """
    ask, given = survey.choice, usable(answers)
    if ask is None or not given:
        return []
    labels = []
    for answer in given:
        label, unit = answer.values[ask.name], study.unit_of[answer.unit]
        if unit.truth:
            label = (
                "right" if label == unit.truth else "wrong" if label not in ask.choices or not ask.options else label
            )
        elif label not in ask.choices:
            label = "an option"
        labels.append(label)
    clusters = [study.unit_of[answer.unit].cluster for answer in given]
    counts = Counter(labels).most_common()
    columns = [Column([float(label == each) for each in labels], binary=True) for label, _ in counts]
    found = intervals_for(columns, clusters, seed=seed)
    return [
        Share(label=label, answers=count, share=Bounded.of(count / len(labels), interval))
        for (label, count), interval in zip(counts, found, strict=True)
    ]
