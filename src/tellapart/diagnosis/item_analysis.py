"""Item analysis of a benchmark: statistics of each item over many systems, of the set, and of each tag's items."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from tellapart.benchmarks.find import find_benchmark, set_name
from tellapart.benchmarks.locations import Locations
from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.rows import read_csv
from tellapart.data.scores import ScoreKind, join_names
from tellapart.data.strict_json import plain_stem, plain_suffix
from tellapart.errors import DataError, RunError, nearest, quote
from tellapart.evaluation.compare import ALPHA
from tellapart.evaluation.evaluate import prepare_listed, read_predictions, yield_samples
from tellapart.evaluation.systems import (
    KeyedSamples,
    System,
    check_items,
    is_testable,
    key_samples,
    label_runs,
    lay_out_outcomes,
    match_benchmarks,
    merge_tags,
    read_same_items,
    refuse_imported,
    share_items,
)
from tellapart.metrics.per_item import by_tag
from tellapart.metrics.tabulate import MOST_VALUES
from tellapart.records.result import Sample, is_imported
from tellapart.stats.clusters import is_binary
from tellapart.stats.item_analysis import (
    LEAST_SYSTEMS,
    MOST_PAIRED,
    ShortForm,
    fit_rasch,
    item_statistics,
    items_needed,
    order_items,
    reliability,
    shared_residuals,
    try_short_forms,
)
from tellapart.stats.multiple import holm
from tellapart.stats.paired import pair_tests
from tellapart.tasks.registry import headline, main_metric


@dataclass(frozen=True, slots=True, eq=False)
class ItemOutcomes:
    """The outcomes of one metric on the same items under several systems.

    Attributes:
        systems: their names.
        items: one of each, for ids, clusters, tags, images and texts; its scores are the first system's.
        values: float64 `(item, system)`, 1 is right.
        unmeasured: items left out because a system has no value of them.
        limited_from, limited_to: the benchmark's number of records and that of the part, if the runs measured a part.
        fields: of systems that come from files: the field that each was read from.
        retagged: an item for each tag of which two systems have different values.
    """

    benchmark: str
    metric: str
    systems: tuple[str, ...]
    items: tuple[Sample, ...]
    values: NDArray[np.float64]
    unmeasured: int = 0
    limited_from: int | None = None
    limited_to: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    retagged: Mapping[str, str] = field(default_factory=dict)

    @property
    def clusters(self) -> list[str] | None:
        """The items' clusters; None if each item is one."""
        names = [item.cluster for item in self.items]
        return names if len(set(names)) < len(names) else None


@dataclass(frozen=True, slots=True)
class SystemSamples:
    """The samples of a system, and the place that errors name."""

    name: str
    place: Path
    samples: KeyedSamples
    limited_from: int | None = None
    limited_to: int | None = None
    field: str = ""


def read_systems(
    runs: Sequence[System],
    files: Sequence[Path] = (),
    *,
    benchmark: str | None = None,
    without: Sequence[str] = (),
    kind: ScoreKind | None = None,
    place: Locations | None = None,
) -> tuple[str, list[SystemSamples]]:
    """Read a benchmark's samples of runs, and of systems that files of scores come from, all of the same items.

    Return its name, too, as runs hold it. A file's system is named as the file. The column `prediction` of `place` is
    the files' field of predictions.
    """
    names = [run.label for run in runs] + [*map(plain_stem, files)]
    if unknown := [name for name in without if name not in names]:
        hint = nearest(unknown[0], names) or ";"
        raise RunError(f"without={quote(unknown[0])}: no system has that name{hint} there are {join_names(names)}")
    runs = [run for run in runs if run.label not in without]
    files = [path for path in files if plain_stem(path) not in without]
    typed = benchmark or _shared_name(runs)
    name = set_name(typed)
    systems = _read_runs(runs, name) + _read_files(files, typed, kind, place)
    if not systems:
        raise RunError("no system is left: name run folders, or files with scores=")
    for other in systems[1:]:
        check_items(name, systems[0].place, systems[0].samples, other.place, other.samples)
    return name, systems


def outcomes_of(benchmark: str, systems: Sequence[SystemSamples], metric: str | None = None) -> ItemOutcomes:
    """Lay out the outcomes of one metric, by default the one that ranks models, of systems on the same items."""
    outcome = _choose_metric(systems, benchmark, metric)
    runs = share_items(system.samples.values() for system in systems)
    values = lay_out_outcomes(runs, [outcome])[outcome]
    missing = np.isnan(values)
    measured: NDArray[np.bool_] = np.asarray(~missing.any(axis=1))
    tags, retagged = merge_tags(runs)
    items = (
        item if item.tags is of_item else replace(item, tags=of_item)
        for item, of_item in zip(runs[0], tags, strict=True)
    )
    return ItemOutcomes(
        benchmark=benchmark,
        metric=outcome,
        systems=tuple(label_runs([system.name for system in systems])),
        items=tuple(item for item, complete in zip(items, measured, strict=True) if complete),
        values=values[measured],
        unmeasured=int((~measured & ~missing.all(axis=1)).sum()),
        limited_from=systems[0].limited_from,
        limited_to=systems[0].limited_to,
        fields={system.name: system.field for system in systems if system.field},
        retagged=retagged,
    )


def list_score_files(paths: Sequence[Path]) -> list[Path]:
    """Return files of scores: those named, and those of folders that are named, by name."""
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise RunError(f"scores={path}: no such file or folder")
        inside = sorted(file for file in path.iterdir() if plain_suffix(file) in _SUFFIXES) if path.is_dir() else [path]
        if not inside:
            raise RunError(f"scores={path}: the folder holds no file of {', '.join(_SUFFIXES)}")
        files += inside
    return files


#: Of files of scores and of predictions.
_SUFFIXES = (".npz", ".npy", ".csv", ".jsonl", ".json", ".parquet")


def name_family(system: str) -> str:
    """Return the family that a system's name begins with: its letters before the first other character.

    >>> name_family("clip_l14-336"), name_family("open_clip:ViT-B-32/openai"), name_family("blip")
    ('clip', 'open', 'blip')
    """
    return re.split(r"[^A-Za-z]", system, maxsplit=1)[0].lower() or system


#: A CSV file, each system's family, "name" for the letters that its name begins with, or None.
FamilyGiven: TypeAlias = PathGiven | Mapping[str, str] | None


def list_families(family: FamilyGiven, systems: Sequence[str]) -> list[str] | None:
    """List each system's family; None if each system is one."""
    if family is None or family == "name":
        return None if family is None else [name_family(system) for system in systems]
    families = family if isinstance(family, Mapping) else _read_families(as_path(family, "family"))
    if missing := [name for name in systems if not families.get(name)]:
        place = "family=" if isinstance(family, Mapping) else str(family)
        raise RunError(f"{place} has no family of {join_names(missing)}; name one for each system")
    return [str(families[name]) for name in systems]


def _read_families(path: Path) -> dict[str, str]:
    """Read families from a CSV file with the columns `system` and `family`; others may be there."""
    try:
        rows = list(read_csv(path))
    except DataError as error:
        raise RunError(f"family={str(path)!r}: cannot be read ({error}); give a CSV file, or 'name'") from error
    if not rows or not {"system", "family"} <= rows[0][1].keys():
        raise RunError(f"family={str(path)!r}: the first line must name the columns system and family")
    families: dict[str, str] = {}
    for line, row in rows:
        if row["system"] in families:
            raise RunError(f"{path}:{line}: system {quote(row['system'])} comes twice")
        families[row["system"]] = row["family"]
    return families


def _shared_name(runs: Sequence[System]) -> str:
    """Return the name of the benchmark that all runs share."""
    if not runs:
        raise RunError("files of scores do not name their benchmark; give benchmark=NAME")
    for run in runs:
        if all(is_imported(record) for record in run.result.benchmarks.values()):
            refuse_imported(run.place, run.result.benchmarks)
    matched = match_benchmarks([run.result for run in runs])
    shared = [name for name, listed in matched.items() if len(listed) == len(runs)]
    records = [{name: run.record(matched[name][number]) for name in shared} for number, run in enumerate(runs)]
    measured = [name for name in shared if not any(is_imported(each[name]) for each in records)]
    shared = measured or shared
    if len(shared) != 1:
        fault = "share" if shared else "share no benchmark, but hold"
        raise RunError(f"the runs {fault} {join_names(shared or list(matched))}; name one with benchmark=NAME")
    return shared[0]


def _read_runs(runs: Sequence[System], name: str) -> list[SystemSamples]:
    matches = match_benchmarks([run.result for run in runs])
    matched = matches.get(name, {})
    if lacking := [run.label for number, run in enumerate(runs) if number not in matched]:
        raise RunError(
            f"{join_names(lacking)} did not measure {quote(name)}; leave out those runs, or name another set with "
            f"benchmark=: the runs hold {join_names(list(matches))}"
        )
    keyed = read_same_items(name, runs, matched)
    records = [run.record(matched[number]) for number, run in enumerate(runs)]
    return [
        SystemSamples(run.label, run.folders[matched[number]], keyed[number], of.limited_from, of.limited_to)
        for number, (run, of) in enumerate(zip(runs, records, strict=True))
    ]


def _read_files(
    files: Sequence[Path], name: str, kind: ScoreKind | None, place: Locations | None
) -> list[SystemSamples]:
    if not files:
        return []
    ready = prepare_listed(find_benchmark(name, place))
    systems = []
    for path in files:
        predictions, reading = read_predictions(ready, path, kind, place)
        measured = ready.task.measure(ready.records, predictions)
        # Without scores and outputs, which take memory.
        bare = (tuple(replace(unit, scores=(), output=None) for unit in units.units) for units in measured)
        slim = (replace(units, units=some) for units, some in zip(measured, bare, strict=True))
        samples = key_samples(sample for units in slim for sample in yield_samples(units))
        systems.append(SystemSamples(plain_stem(path), path, samples, field=reading.fields_read))
    return systems


def _choose_metric(systems: Sequence[SystemSamples], benchmark: str, metric: str | None) -> str:
    """Return the metric by which items are right or wrong: one that each system has of some item."""
    by_system = [
        dict.fromkeys(name for sample in system.samples.values() for name in sample.outcomes) for system in systems
    ]
    names = [name for name in by_system[0] if is_testable(name) and all(name in other for other in by_system)]
    if not names:
        raise RunError(f"{benchmark}: no metric is right or wrong of an item in all of the systems")
    return pick_metric(metric, names, f"not one of an item's outcomes on {benchmark}")


def pick_metric(metric: str | None, names: Sequence[str], fault: str) -> str:
    """Return the metric that was asked for, or else the one that ranks models; refuse another one for the fault."""
    picked = metric or main_metric(headline(names)) or next(iter(names), "")
    if picked not in names:
        hint = nearest(picked, names) or ";"
        raise RunError(f"metric={quote(picked)}: {fault}{hint} there are {join_names(list(names))}")
    return picked


#: Sizes of short forms that are tried with the one that is asked for.
SIZES = (10, 20, 50, 100, 200)

#: Systems below which items cannot be analysed: three give a correlation one degree of freedom.
LEAST = 5

#: Differences of two systems for which the number of items is computed.
DIFFERENCES = (0.01, 0.02, 0.05, 0.1)

#: Columns of an item: of all its systems, and of the Rasch model.
_TESTED = ("discrimination", "low", "high", "p", "p_holm", "p_fdr")
_RASCH = ("difficulty", "difficulty_error", "infit")


class ItemRow(BaseModel, frozen=True):
    """One item.

    Attributes:
        solved: how many systems get it; the sum of their values, if these are not 0 or 1.
        right: the mean over systems.
        discrimination, low, high: correlation with the mean of the other items over systems, with its 95% interval;
            None if the systems do not show one.
        p, p_holm, p_fdr: of the test that better systems get it at least as often, adjusted over the items.
        suspect: whether p_fdr is 5% at most.
        group: number of the group of items that are got together, from 1; None of an item in none.
        difficulty, difficulty_error, infit: of the Rasch model, in logits; None without one.
    """

    id: str
    tags: dict[str, str]
    solved: float
    right: float
    discrimination: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    p_fdr: float | None
    suspect: bool
    group: int | None
    difficulty: float | None
    difficulty_error: float | None
    infit: float | None


class TagRow(BaseModel, frozen=True):
    """The items of one value of a tag.

    Attributes:
        right: the systems' mean on them.
        discrimination: mean over the items that have one.
        alpha: of these items alone.
        with_rest: correlation of the systems' scores on them with those on all other items.
        share: of the variance of the systems' scores on all items; the values of a tag that every item has sum to 1.
    """

    tag: str
    value: str
    n: int
    right: float
    discrimination: float | None
    alpha: float | None
    with_rest: float | None
    share: float | None


class ItemAnalysis(BaseModel, frozen=True):
    """The items of a benchmark through many systems.

    Attributes:
        systems, scores, families: of each system: name, score, family.
        items: in the benchmark's order.
        nobody, everybody: how many items no system gets, and how many all do.
        suspects, suspects_holm: how many items better systems get wrong more often, by the false discovery rate and
            by Holm, at 5%.
        alpha, low, high, spread, measurement_error, sampling_error: as of `stats.item_analysis.Reliability`.
        pairs, differing, differing_holm: of systems: how many, and how many differ by a paired test at 5%, without a
            correction and with Holm's.
        needed: difference -> items that show it four times in five; empty if outcomes are not 0 or 1.
        groups: ids of items that are got together beyond their difficulty.
        unmeasured: items left out because a system has no value of them.
        limited_from, limited_to: the benchmark's number of records and that of the part, if the runs measured a part.
        notes: facts beyond the numbers.
        short: ids of the short form that was asked for, in the order in which they were chosen.
        short_forms: the cost of short forms of several sizes, that one's among them.
    """

    benchmark: str
    metric: str
    systems: tuple[str, ...]
    scores: tuple[float, ...]
    families: tuple[str, ...]
    items: tuple[ItemRow, ...]
    nobody: int
    everybody: int
    suspects: int
    suspects_holm: int
    alpha: float | None
    low: float | None
    high: float | None
    spread: float
    measurement_error: float | None
    sampling_error: float
    pairs: int
    differing: int
    differing_holm: int
    needed: dict[str, int | None]
    tags: tuple[TagRow, ...]
    groups: tuple[tuple[str, ...], ...]
    unmeasured: int
    notes: tuple[str, ...]
    short: tuple[str, ...] = ()
    short_forms: tuple[ShortForm, ...] = ()
    limited_from: int | None = None
    limited_to: int | None = None


def analyse_items(
    outcomes: ItemOutcomes, families: Sequence[str] | None = None, *, short: int | None = None, seed: int = 0
) -> ItemAnalysis:
    """Analyse a benchmark's items through many systems."""
    values, systems = outcomes.values, len(outcomes.systems)
    if systems < LEAST or len(values) < 2:
        raise RunError(
            f"items of {outcomes.benchmark}: {systems} systems and {len(values)} items; over systems a "
            f"correlation takes {LEAST} at least, and 2 items; add run folders, or files with scores="
        )
    statistics, of_set = item_statistics(values, families, seed=seed), reliability(values, families)
    binary = is_binary(values)
    p_pairs = pair_tests(values, outcomes.clusters, seed=seed).p
    groups, shorter, forms = shared_residuals(values, families, seed=seed), list[int](), list[ShortForm]()
    if short is not None:
        if not 1 <= short < len(values):
            raise RunError(f"short={short}: there are {len(values)} items; give a number from 1 to {len(values) - 1}")
        sizes = sorted({short, *(size for size in SIZES if size < len(values))})
        shorter, forms = order_items(values, short), try_short_forms(values, families, sizes, seed=seed)
    group_of = {item: number for number, group in enumerate(groups, start=1) for item in group}
    notes = []
    rasch = None
    if binary and systems >= LEAST_SYSTEMS:
        rasch = fit_rasch(values)
    else:
        needs = f"{LEAST_SYSTEMS} systems, and there are {systems}" if binary else "outcomes that are right or wrong"
        notes.append(f"no Rasch model: difficulties in logits take {needs}")
    if len(values) > MOST_PAIRED:
        notes.append(f"no groups of items: they are looked for among {MOST_PAIRED:,} items at most")
    if families is None:
        notes.append("each system counts as an independent draw; family= resamples families of them")
    if outcomes.clusters is not None:
        notes.append("items come in clusters, which the paired tests flip together; alpha counts each item as one")
    ids = [item.id for item in outcomes.items]
    rows = tuple(
        ItemRow(
            id=item.id,
            tags=item.tags,
            solved=float(values[k].sum()),
            right=float(statistics.right[k]),
            suspect=bool(statistics.p_fdr[k] <= ALPHA),
            group=group_of.get(k),
            **{name: _known(getattr(statistics, name)[k]) for name in _TESTED},
            **{name: None if rasch is None else _known(getattr(rasch, name)[k]) for name in _RASCH},
        )
        for k, item in enumerate(outcomes.items)
    )
    return ItemAnalysis(
        benchmark=outcomes.benchmark,
        metric=outcomes.metric,
        systems=outcomes.systems,
        scores=tuple(values.mean(axis=0).tolist()),
        families=tuple(families or outcomes.systems),
        items=rows,
        nobody=int((values == 0).all(axis=1).sum()),
        everybody=int((values == 1).all(axis=1).sum()),
        suspects=sum(row.suspect for row in rows),
        suspects_holm=int((statistics.p_holm <= ALPHA).sum()),
        **asdict(of_set),
        pairs=len(p_pairs),
        differing=int((p_pairs <= ALPHA).sum()),
        differing_holm=int((holm(p_pairs) <= ALPHA).sum()),
        needed={f"{difference:g}": items_needed(values, difference) for difference in DIFFERENCES} if binary else {},
        tags=tuple(_describe_tags(outcomes, statistics.discrimination)),
        groups=tuple(tuple(ids[k] for k in group) for group in groups),
        unmeasured=outcomes.unmeasured,
        limited_from=outcomes.limited_from,
        limited_to=outcomes.limited_to,
        notes=tuple(notes),
        short=tuple(ids[k] for k in shorter),
        short_forms=tuple(forms),
    )


def _describe_tags(outcomes: ItemOutcomes, discrimination: NDArray[np.float64]) -> list[TagRow]:
    values = outcomes.values
    total = values.sum(axis=0)
    rows = []
    # Tags of which two systems have different values would have numbers by the order of systems.
    tags = [{tag: of for tag, of in item.tags.items() if tag not in outcomes.retagged} for item in outcomes.items]
    for tag, masks in by_tag(tags, MOST_VALUES).items():
        for value, mask in masks.items():
            part, rest = values[mask].sum(axis=0), values[~mask].sum(axis=0)
            defined = discrimination[mask][~np.isnan(discrimination[mask])]
            rows.append(
                TagRow(
                    tag=tag,
                    value=value,
                    n=int(mask.sum()),
                    right=float(values[mask].mean()),
                    discrimination=float(defined.mean()) if len(defined) else None,
                    alpha=reliability(values[mask]).alpha if mask.sum() > 1 else None,
                    with_rest=float(np.corrcoef(part, rest)[0, 1]) if np.ptp(part) and np.ptp(rest) else None,
                    share=float(np.cov(part, total)[0, 1] / total.var(ddof=1)) if np.ptp(total) else None,
                )
            )
    return rows


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
