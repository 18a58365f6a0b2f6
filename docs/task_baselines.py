"""Systems that answer without looking, and what they get on every benchmark of a task: `baselines.py` runs them.

Of each benchmark the first folder is taken, in order of names, that has all of its files. What a system knows stands
beside it: nothing, how the answers are distributed, or which captions are true.
"""

import hashlib
import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations, find_files
from tellapart.catalog import BENCHMARKS
from tellapart.data import task_records as sets
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.metrics.classification import rank_labels
from tellapart.metrics.per_item import PerItem
from tellapart.metrics.ptb import tokenize
from tellapart.metrics.retrieval import Ranks, Retrieval
from tellapart.metrics.yes_no import OPTIONS
from tellapart.models.reference import Blind
from tellapart.models.scoring.score import Scored
from tellapart.tasks.choice import Chosen
from tellapart.tasks.classification import Classified, named_classes
from tellapart.tasks.moments import FrameScores
from tellapart.tasks.registry import TASKS
from tellapart.tasks.retrieval import RankedTwice

#: Folders that repositories keep further down.
NESTED = ("camerabench/camerabench", "marvl/datasets/marvl/zero_shot")

Record = dict[str, Any]
Said = tuple[Any, str]  # predictions, and what they are in words


@dataclass(frozen=True, slots=True)
class System:
    """A system that does not look: its name, what it knows, and what it says of a task's records."""

    name: str
    knows: str
    says: Callable[[Any], Said]


def most_frequent(values: Iterable[str]) -> str:
    """Return the most frequent value; of equally frequent ones the first in the alphabet."""
    return min(Counter(values).items(), key=lambda found: (-found[1], found[0]))[0]


def more_frequent_label(records: sets.StatementSet) -> Said:
    """Say the label that more statements have."""
    label = most_frequent(map(str, records.gold))
    return [label == "True"] * len(records), f"`{label}`"


def most_frequent_answer(records: sets.QuestionSet) -> Said:
    """Say the answer that most questions have."""
    answer = most_frequent(given.strip() for row in records.rows for given in row.gold)
    return [answer] * len(records), f"`{answer}`"


def answer_by_first_words(records: sets.QuestionSet) -> Said:
    """Say the most frequent answer of the questions that begin with the same two words."""
    begins = [" ".join(row.texts[0].lower().split()[:2]) for row in records.rows]
    given: dict[str, list[str]] = defaultdict(list)
    for begin, row in zip(begins, records.rows, strict=True):
        given[begin] += [answer.strip() for answer in row.gold]
    answer = {begin: most_frequent(answers) for begin, answers in given.items()}
    alone = sum(count == 1 for count in Counter(begins).values())
    return [answer[begin] for begin in begins], f"{len(answer):,} beginnings, {alone:,} of them of a single question"


def whole_image(records: sets.BoxSet) -> Said:
    """Take the whole image for the box."""
    return [(0.0, 0.0, *map(float, row.facts["size"])) for row in records.rows], "the whole image"


def centre_box(records: sets.BoxSet) -> Said:
    """Take the box in the middle, of half the image's width and height."""
    sizes = [row.facts["size"] for row in records.rows]
    return [(w / 4, h / 4, w / 2, h / 2) for w, h in sizes], "the middle, half as wide and high as the image"


def most_frequent_caption(records: sets.CaptionSet) -> Said:
    """Say the reference that stands there most often of all images."""
    caption = most_frequent(reference for own in records.gold for reference in own)
    return [caption] * len(records), f"“{caption}”"


def nearest_caption(records: sets.CaptionSet) -> Said:
    """Say the reference that is nearest to all references, by the cosine of counts of words as CIDEr weighs them."""
    words = {caption: tokenize(caption).split() for own in records.gold for caption in own}
    images_with = Counter(word for own in records.gold for word in {w for caption in own for w in words[caption]})
    vectors: dict[str, dict[str, float]] = {}
    for caption, held in words.items():
        weight = {word: n * math.log(len(records) / images_with[word]) for word, n in Counter(held).items()}
        length = math.sqrt(sum(one * one for one in weight.values())) or 1.0
        vectors[caption] = {word: one / length for word, one in weight.items()}
    middle = Counter[str]()
    for own in records.gold:
        for caption in own:
            middle.update(vectors[caption])  # type: ignore[arg-type]  (it adds fractions, too)

    def distance(caption: str) -> tuple[float, str]:
        return -sum(one * middle[word] for word, one in vectors[caption].items()), caption

    caption = min(vectors, key=distance)
    return [caption] * len(records), f"“{caption}”"


def rank_tied(records: sets.RetrievalSet, tied: Iterable[Any]) -> Retrieval:
    """Rank a gallery both ways by how many entries each image and each caption has on top, the true ones included."""
    true = (np.bincount(column) for column in np.array(records.pairs).T)
    sides = zip(map(np.array, tied), true, strict=True)
    return Retrieval(*(Ranks(np.zeros_like(right), entries - right, right) for entries, right in sides))


def same_score(records: sets.RetrievalSet) -> Said:
    """Give every image and caption one score: all false entries tie with the true ones."""
    return rank_tied(records, (len(records.captions), len(records.images))), "one score for all"


def bag(caption: str) -> str:
    """Return the words of a caption in the order of the alphabet; two captions share all words if these are equal."""
    return " ".join(sorted(re.findall(r"\w+(?:['’]\w+)*", caption.lower())))


def words_of_captions(records: sets.RetrievalSet) -> Said:
    """Know each image by its true captions, without the order of their words: what ties with them has their words."""
    bags = [bag(caption) for caption in records.captions]
    of_image: list[set[str]] = [set() for _ in records.images]
    for image, caption in records.pairs:
        of_image[image].add(bags[caption])
    captions_with, images_with = Counter(bags), Counter(found for held in of_image for found in held)
    tied = [[sum(captions_with[found] for found in held) for held in of_image], [images_with[found] for found in bags]]
    return rank_tied(records, tied), "the true captions without their order"


def ranked_twice(says: Callable[[sets.RetrievalSet], Said]) -> Callable[[sets.RetrievalSet], Said]:
    """Ask a system of a gallery with an entry a row, and of the same with an entry for each distinct caption."""

    def both(records: sets.RetrievalSet) -> Said:
        rows, words = says(records)
        return RankedTwice(rows, says(records.distinct_captions()[0])[0]), words

    return both


def middle_of_video(records: sets.MomentSet) -> Said:
    """Take the middle of the video, as far as its moments tell how long it is: the only candidate of two far frames."""
    none = np.zeros(2)
    videos = [records.duration(moment.cluster) for moment in records.rows]
    return [FrameScores(np.array([0.0, duration]), none, none) for duration in videos], "the middle of the video"


def first_place(records: sets.ChoiceSet) -> Said:
    """Choose the first place in both orders."""
    n = len(records)
    return Chosen((1,) * n, (-1,) * n), "`1`"


def shorter_caption(records: sets.ChoiceSet) -> Said:
    """Choose the shorter caption, as `blind` does; of equally long ones the first place."""
    scores = Blind().score_texts([text for choice in records.rows for text in choice.texts])
    signs = np.sign(scores.reshape(-1, 2) @ (1, -1)).astype(int).tolist()
    return Chosen(tuple(sign or 1 for sign in signs), tuple(sign or -1 for sign in signs)), "the shorter caption"


def shorter_texts(records: Any, words: str) -> Said:
    """Score texts of pairs or of rated images as `blind` does."""
    rows = records.items if isinstance(records, PairSet) else records.rows
    values = [[Blind().score_texts(row.texts)] for row in rows]
    return Scored(Scores([row.id for row in rows], values, "similarity")), words


def same_score_for_images(records: sets.RatingSet) -> Said:
    """Give every image one score."""
    ids = [row.id for row in records.rows]
    return Scored(Scores(ids, np.zeros((len(ids), 1, 1)), "similarity")), "one score for all"


def same_score_for_classes(records: sets.ClassificationSet) -> Said:
    """Score every class the same."""
    labels = records.gold
    scores = np.zeros((len(labels), len(records.classes)), np.float32)
    return Classified(rank_labels(scores, labels)), "one score for all"


def largest_class(records: sets.ClassificationSet) -> Said:
    """Name the class that most pictures are of."""
    labels = records.gold
    name = most_frequent(records.classes[label] for label in labels)
    return named_classes([records.classes.index(name)] * len(labels), labels), f"`{name}`"


def first_option(records: sets.BinaryQuestionSet) -> Said:
    """Say the first of the two options to every question."""
    return [OPTIONS[gold][0] for gold in records.gold], "`yes`, `a` or `first`"


def _make_system(name: str, knows: str, says: str, *, twice: bool = False, **options: Any) -> System:
    answer = partial(globals()[says], **options)
    return System(name, knows, ranked_twice(answer) if twice else answer)


#: Task -> its systems.
SYSTEMS: Mapping[str, Sequence[System]] = {
    task: [_make_system(**row) for row in rows]
    for task, rows in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def task_benchmarks(data: Path) -> Iterator[Benchmark]:
    """Yield the catalogue's benchmarks of tasks, each with the folder below `data` that has its files, if one has."""
    folders = sorted(folder for folder in (*data.iterdir(), *map(data.joinpath, NESTED)) if folder.is_dir())
    for one in map(find_benchmark, BENCHMARKS):
        if one.task != "pairs":
            here = (placed for folder in folders if not (placed := replace(one, place=Locations(folder))).missing())
            yield next(here, one)


def found_by(task: str, system: System, records: Any) -> tuple[list[PerItem], str]:
    """Return every metric of the task for one system, and what it says in words."""
    predictions, words = system.says(records)
    return [one for units in TASKS[task].measure(records, predictions) for one in units.values], words


def measured(task: str, system: System, records: Any) -> Record:
    """Measure one system; where ties touch a number, also what it is with ties broken at random."""
    found, words = found_by(task, system, records)
    numbers: dict[str, Record] = {}
    for one in found:
        numbers[one.name] = {"value": round(one.over(one.strict), 9)}
        if one.neutral is not None and (ties := int(one.ties.sum())):
            numbers[one.name] |= {"ties": ties, "tie_neutral": round(one.over(one.neutral), 9)}
    return {"says": words, "knows": system.knows, "metrics": numbers}


def baselines_of(one: Benchmark) -> Record:
    """Measure a benchmark, or say why not."""
    if missing := one.missing():
        return {"not_measured": f"missing: {', '.join(missing)}, from {one.source}"}
    folder, records = one.place.folder(one.name), one.records()
    assert folder is not None
    first, _ = found_by(one.task, SYSTEMS[one.task][0], records)
    files = [path for pattern in one.files for path in find_files(folder, pattern)]
    return {
        "n": TASKS[one.task].size(records),
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
        "chance": {value.name: round(value.chance, 9) for value in first if value.chance is not None},
        "systems": {system.name: measured(one.task, system, records) for system in SYSTEMS[one.task]},
    }
