"""The record of a run: every number with its n, interval, ties and chance, and the data it was measured on."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.dataclasses import dataclass

from tellapart.data.scores import ScoreKind

#: The form of the record; another one is refused.
SCHEMA = 1

#: The first letters of fingerprints: of ids alone, as scores made elsewhere cover no captions and pixels; of another
#: tool's result file, where no item is known and ties count by its rule; of labels that stay on a server.
IDS_ONLY, IMPORTED, HIDDEN = "ids-", "imported-", "hidden-"

#: A note of hidden labels begins so: "numbers are of 400 items, rounded to ..."
HIDDEN_NUMBERS = "numbers are of "


class Record(BaseModel):
    """A part of a record: its values cannot be set anew, and a field that the class does not have is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Value(Record):
    """One number: a fraction in the metric's bounds, its interval, and how many items it is a mean of.

    Attributes:
        value: the mean under the strict rule (a tie is never right).
        low, high, level, method: the interval; bounds are None if none is defined, for the `reason`.
        n, clusters: items, and the groups that are resampled together.
        effective: how many independent items would be as precise. None if each item is a cluster, if the values do
            not show it, or if the mean is not over items.
        ties: items in which a tie touched the metric.
        tie_neutral: the mean if ties were broken at random, exactly in expectation.
        official: the mean as the benchmark's authors count ties, if there are some and they count them otherwise.
        chance: the value of a constant model, ties broken at random; None if it is not defined.
        average: how the mean is taken, in words: "micro: items".
        sd, mean_absolute: the spread of per-item values, for metrics other than accuracies.
    """

    value: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    method: str
    reason: str | None = None
    n: int
    clusters: int
    effective: float | None = None
    ties: int = 0
    tie_neutral: float | None = None
    official: float | None = None
    chance: float | None = None
    average: str
    sd: float | None = None
    mean_absolute: float | None = None


class Curve(Record):
    """A histogram of per-item values: `counts[k]` items lie in `edges[k]` to `edges[k + 1]` (EqSim, Fig. 6 and 13)."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class Metrics(Record):
    """The metrics of one set of items."""

    metrics: dict[str, Value]


class Located(Record):
    """A file or folder of the user's, named in two ways, so that it is found again after a move.

    `path` is absolute, `relative` from the run folder or empty; `sha256` is empty if the bytes were not hashed.
    """

    path: str
    relative: str = ""
    sha256: str = ""


class SamplesFile(Record):
    """The size and digest of `samples/<benchmark>.jsonl` when it was written; a line is an item or a task's unit."""

    lines: int
    sha256: str


class Flips(Record):
    """The outcomes of one metric that differ between two precisions.

    `gained` are right in the lower precision alone, `lost` in float32 alone; the 95% interval is of the share of either
    (None if the items have too few clusters), and p of the paired test that both are right equally often.
    """

    n: int
    gained: int
    lost: int
    low: float | None
    high: float | None
    p: float

    @property
    def flipped(self) -> int:
        """How many outcomes differ: the gained and the lost."""
        return self.gained + self.lost


class Precision(Record):
    """The comparison of a lower precision with float32, on a sample of a run's items.

    Attributes:
        dtype: the lower precision; the run's, unless `dtype="auto"` refused it.
        flips: of each metric of right and wrong, on `items` drawn by `seed`.
        largest_difference: between a score in the lower precision and in float32.
        farthest_from_tie: the distance in float32 between a true pair's score and the nearest other one, the largest of
            all flipped items; None if none flipped.
        most: the largest share of outcomes that might flip, by `dtype="auto"`; None if the dtype was named.
    """

    dtype: str
    against: str
    items: int
    seed: int
    flips: dict[str, Flips]
    largest_difference: float
    farthest_from_tie: float | None = None
    most: float | None = None

    @property
    def share(self) -> float:
        """The largest share of a metric's outcomes that flip; 0 if no metric is of right and wrong."""
        return max((flip.flipped / flip.n for flip in self.flips.values()), default=0.0)


class BenchmarkResult(Record):
    """The measurement of one benchmark.

    Attributes:
        fingerprint: SHA-256 over ids, texts and pixels; over ids alone if scores came from elsewhere, over another
            tool's files if numbers did.
        output: `scores`, `label`, `text` or `box`.
        shape, kind: images and texts of an item, and the kind of the scores; None for tasks.
        true: how many texts of one image are true.
        official: the metrics that the benchmark's authors report, if these are not the usual ones.
        by: tag -> value -> metrics; `metrics` is over all items.
        macro: tag -> metrics, the unweighted means over that tag's values.
        tied_items, tied_comparisons: items in which a true pair's score equals another's in its row or column, whether
            that decides a metric or not, and such equalities; of tasks, `ties` of the metric that has most.
        rounded_ties: items in which two scores of a score file differ, but beyond float32 only.
        images_encoded, texts_encoded, pairs_scored: those that this process had to compute; the store had the rest.
        texts_shared: the texts encoded by a tower that computed common beginnings once; the others were encoded apart.
        limited_from, limited_to: the benchmark's full number of records if a limit cut it, and how many it left.
        read_as, field: how the columns of its table, and of a file of predictions or scores, were read.
        published_items: the published number of records, if the files held others: the numbers do not compare.
        origin: the folder of images or the score file, for people.
        own: the user's folder or file, if the benchmark is one.
        file: that of scores or predictions made elsewhere.
        precision: of a lower precision whose outcomes were checked (`check=`, `dtype="auto"`); None otherwise.
        thoughts, thoughts_cut: answers that held a thought, which no reader reads, and those that end inside it.
    """

    title: str
    fingerprint: str
    task: str = "pairs"
    output: str = "scores"
    shape: tuple[int, int] | None = None
    true: int = 1
    official: tuple[str, ...] = ()
    kind: ScoreKind | None = None
    metrics: dict[str, Value]
    by: dict[str, dict[str, Metrics]] = Field(default_factory=dict)
    macro: dict[str, Metrics] = Field(default_factory=dict)
    curves: dict[str, Curve] = Field(default_factory=dict)
    tied_items: int = 0
    tied_comparisons: int = 0
    rounded_ties: int = 0
    images: int = 0
    texts: int = 0
    images_encoded: int = 0
    texts_encoded: int = 0
    texts_shared: int = 0
    pairs_scored: int = 0
    seconds: float = 0.0
    limited_from: int | None = None
    limited_to: int | None = None
    read_as: str = ""
    field: str = ""
    published_items: int | None = None
    origin: str
    own: Located | None = None
    file: Located | None = None
    samples: SamplesFile | None = None
    precision: Precision | None = None
    thoughts: int = 0
    thoughts_cut: int = 0
    notes: tuple[str, ...] = ()


def is_imported(record: BenchmarkResult) -> bool:
    """Return whether another tool measured this: no outcomes of items, and a tie may count as right."""
    return record.fingerprint.startswith(IMPORTED)


class ModelRecord(Record):
    """The model that was measured: a name, and, if it was computed here, a fingerprint.

    Attributes:
        fingerprint: of its weights and code; empty if its scores came from elsewhere.
        kind: of its scores; None if they came from elsewhere, and each benchmark has one.
        dtype, reading: the precision of its computation and the reading that was scored, if they can be chosen.
        prompt: name and version of the prompt, if it is asked in words.
        texts: how captions were changed before its tokenizer read them, if a library and the authors differ.
        provenance: which weights of its checkpoint were read, if that holds others (their average), or where its text
            tower is read, if transformers would read it elsewhere.
        file: the user's file of Python that defines it, if it is in one.
    """

    name: str
    fingerprint: str = ""
    kind: ScoreKind | None = None
    dtype: str | None = None
    reading: str | None = None
    prompt: str | None = None
    texts: str | None = None
    provenance: str | None = None
    file: Located | None = None

    @property
    def system(self) -> tuple[str, ...]:
        """Equal for two records of one system: its name, and, if computed here, its weights and how it was read.

        Of a computed model's name the last part counts: `hf:clip` and `/models/clip` with one fingerprint are one. What
        another tool measured has that tool's fingerprint, which tells no two models apart.
        """
        is_computed = self.fingerprint and not self.fingerprint.startswith(IMPORTED)
        name = re.split(r"[/\\:@]", self.name)[-1] if is_computed else self.name
        return (name, self.fingerprint, self.dtype or "", self.reading or "", self.prompt or "")


class RunRecord(Record):
    """The circumstances: command, configuration, versions, time.

    `check` is how many items were to be scored in float32, too; `data` and `images` are the folders of benchmarks'
    files that the run was given, and `columns` those of its tables of pairs, by field.
    """

    started: str
    seed: int
    command: str
    versions: dict[str, str]
    batch_size: int | None = None
    device: str | None = None
    limit: str | None = None
    check: int | None = None
    data: Located | None = None
    images: Located | None = None
    columns: dict[str, str] = Field(default_factory=dict)


class Result(Record, populate_by_name=True):
    """The record of one model: the content of `results.json`.

    >>> run = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, versions={}, command="tellapart run")
    >>> Result(run=run, model=ModelRecord(name="constant"), benchmarks={}).schema_version
    1
    """

    schema_version: int = Field(default=SCHEMA, alias="schema")
    run: RunRecord
    model: ModelRecord
    benchmarks: dict[str, BenchmarkResult]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Sample:
    """One item of `samples/<benchmark>.jsonl`: its raw scores or output, and its value under every metric.

    A dataclass, while other records are of pydantic: a million items take half the memory.

    Attributes:
        images: references as the pair set has them; empty if scores came from elsewhere.
        unit: an item, or a task's query, statement, question, pair of questions.
        scores: `[image][text]`, float32; none for tasks.
        output: the model's answer to the unit; None if it is not a single value.
        gold: the right answer, in words; empty for pairs, whose true ones are known by their place.
        outcomes: metric -> the item's value under the strict rule; `tied` are the metrics that a tie touched.
        true: the places of true entries in the file, if they are not first: scores and texts have them first.
    """

    id: str
    cluster: str
    tags: dict[str, str] = Field(default_factory=dict)
    images: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    unit: str = "item"
    scores: tuple[tuple[float, ...], ...] = ()
    output: JsonValue = None
    gold: str = ""
    outcomes: dict[str, float]
    tied: tuple[str, ...] = ()
    true: tuple[int, ...] = ()
