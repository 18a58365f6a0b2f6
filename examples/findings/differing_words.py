"""Published outcomes by the words in which two captions differ: how many, and from which word on."""

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from examples.findings.frame import PHONE, SOURCES, Page, bounds, percent, points, read_fields
from examples.findings.gains import BIVLC, read_clips
from examples.findings.order_and_ties import ANSWERS
from tellapart.builders.negatives.lexicon import words
from tellapart.diagnosis.curve import Curves, measure_curves, tag_captions
from tellapart.diagnosis.item_analysis import ItemOutcomes
from tellapart.records.result import Sample
from tellapart.report.diagnoses import write_threshold
from tellapart.report.plots.style import GREY, legend_below, look, new_figure
from tellapart.stats.bootstrap import expanded_percentiles, yield_times
from tellapart.stats.clusters import number_clusters
from tellapart.tasks.choice import read_given_choices

_VALSE = SOURCES["valse"]
EDITS, FIRST, GAP = "caption_edits", "first_difference", "difference_of_counts"
#: Of a tag: the largest value of the low group, the smallest of the high one, and both in words.
_GROUPS = {FIRST: (3, 7, "words 1 to 3, word 7 or later"), EDITS: (2, 4, "1 or 2 words, 4 or more")}
_KINDS = ("add", "replace", "swap")
_RESAMPLES = 2000


class Shift(NamedTuple):
    """The share right of the high group less that of the low one, with its 95% interval over clusters."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{points(self.value)} {bounds(self.low, self.high, points)}"


def measure_shift(
    right: NDArray[np.float64], high: NDArray[np.bool_], strata: Sequence[str], clusters: Sequence[str]
) -> Shift:
    """Compare items of two groups within strata: the Mantel-Haenszel difference of shares, clusters drawn for 95%.

    Source: Greenland & Robins (1985), Biometrics 41, 55-68.
    """
    _, place = np.unique(strata, return_inverse=True)
    codes, cells = number_clusters("measure_shift", clusters, len(right)), np.eye(place.max() + 1)[place]
    parts = [cells * mask[:, None] for mask in (high, ~high)]
    columns = np.concatenate([part * weight[:, None] for part in parts for weight in (np.ones(len(right)), right)], 1)
    table = np.zeros((codes.max() + 1, columns.shape[1]))
    np.add.at(table, codes, columns)

    def within(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        n1, r1, n0, r0 = np.split(sums, 4, axis=-1)
        both = np.maximum(n1 + n0, 1)
        return np.asarray(((r1 * n0 - r0 * n1) / both).sum(axis=-1) / (n1 * n0 / both).sum(axis=-1))

    draws = np.concatenate([within(times @ table) for times in yield_times(len(table), _RESAMPLES, 0)])
    low, top = expanded_percentiles(draws, len(table), 0.95)
    return Shift(float(within(table.sum(axis=0))), float(low), float(top))


def compare_groups(of: ItemOutcomes, over: str, kind: str = "", *, strata: bool = True) -> list[Shift]:
    """Compare the two groups of a tag, of items of one kind or of all, for each system."""
    low, high, _ = _GROUPS[over]
    value = np.array([float(item.tags.get(over, "nan")) for item in of.items])
    of_kind = np.array([kind in ("", item.tags["kind"]) for item in of.items])
    rows = np.flatnonzero(((value <= low) | (value >= high)) & of_kind)
    items = [of.items[row] for row in rows]
    names = [f"{item.tags['part']} {len(words(item.texts[0]))}" if strata else "" for item in items]
    clusters = [item.cluster for item in items]
    return [measure_shift(right, value[rows] >= high, names, clusters) for right in of.values[rows].T]


def differing_words(data: Path) -> Page:
    """Make the page."""
    sets = read_outcomes_by_words(data)
    pairs = [sets["SugarCrepe"], sets["BiVLC"]]
    chances = {"SugarCrepe": 1 / 2, "BiVLC": 1 / 6}
    fitted = {(name, over): measure_curves(sets[name], over, chances={None: chance}, by="part")
              for over in _GROUPS for name, chance in chances.items()}  # fmt: skip
    curves = [(over, row) for (_, over), found in fitted.items() for row in found.curves if row.subset and row.slope]
    late = compare_groups(pairs[0], FIRST, "replace")
    clip, _, tuned, _, gpt = (f"{percent(-one.value)} {bounds(-one.high, -one.low)}" for one in late)
    pooled, more = (compare_groups(pairs[1], EDITS, strata=strata)[0] for strata in (False, True))
    people = sets["VALSE"]
    counting = measure_curves(people, GAP, chances={None: 1 / 2})
    values: dict[str, Any] = {"FIRST": FIRST, "EDITS": EDITS, "groups": {over: row[2] for over, row in _GROUPS.items()}}
    values |= {"clip": clip, "tuned": tuned, "gpt": gpt, "more": more, "pooled": pooled, "curves": curves}
    values |= {"systems": pairs[0].systems, "shifts": {over: _shift_rows(over, pairs) for over in _GROUPS}}
    values |= {"threshold_rows": _threshold_rows(fitted), "counting": counting, "resamples": _RESAMPLES}
    values |= {"people": people, "people_first": compare_groups(people, FIRST)[0]}
    values |= {"people_edits": compare_groups(people, EDITS)[0]}
    return Page("differing-words", partial(_draw, fitted), (*BIVLC, ANSWERS, _VALSE), values, data)


def _shift_rows(over: str, pairs: Sequence[ItemOutcomes]) -> list[list[str]]:
    groups = (("all, as they are", "", False), ("all", "", True), *((kind, kind, True) for kind in _KINDS))
    return [[one.benchmark, title, *map(str, compare_groups(one, over, kind, strata=strata))]
            for one in pairs for title, kind, strata in groups]  # fmt: skip


def _threshold_rows(fitted: dict[tuple[str, str], Curves]) -> list[list[str]]:
    rows: dict[tuple[str, str], list[str]] = {}
    for (name, over), found in fitted.items():
        for row in (row for row in found.curves if row.subset and row.slope):
            part, misfit = f"{row.subset}, {over}", row.p_fit is not None and row.p_fit < 0.05
            threshold = write_threshold(row, found.smallest, found.largest)
            cells = rows.setdefault((name, part), [name, part])
            cells.append(f"{'↓' if row.slope < 0 else '↑'} {threshold}{'*' if misfit else ''}")
    return [*rows.values()]


def read_outcomes_by_words(data: Path) -> dict[str, ItemOutcomes]:
    """Return the outcomes that the files have of each item: of CLIPs and GPT-4V, and of VALSE's people."""
    bivlc, sugarcrepe = read_clips(data)
    answers = {
        (path.stem.removeprefix("gpt4v-"), given.filename, (given.caption, given.negative_caption)): given.choice == 1
        for path in ANSWERS.files(data) if path.parent.name == "positive-first"
        for given in read_given_choices(path).values()
    }  # fmt: skip
    rows = [_read_clip_rows(data / "bivlc" / f"{start}_ViT-B-32.csv") for start in ("SUGARCREPE_CORRECT", "BiVLC")]
    gpt = [float(answers[item.tags["part"], item.cluster, (item.texts[0], item.texts[1])]) for item in rows[0]]
    # All rows, also those that VALSE leaves out.
    read = _VALSE.rows(data)
    voted = [_tag_item(row["image_file"], (row["caption"], row["foil"]), row["file"]) for row in read]
    for row, item in zip(read, voted, strict=True):
        if row["file"].startswith("counting") and row["classes"] != row["classes_foil"]:
            item.tags[GAP] = f"{abs(row['classes'] - row['classes_foil'])}"
    votes = np.array([row["mturk"]["caption"] >= 2 for row in read], float)
    gathered = (
        ("SugarCrepe", sugarcrepe.systems | {"GPT-4V": np.array(gpt)}, rows[0]),
        ("BiVLC", bivlc.systems, rows[1]),
        ("VALSE", {"people": votes}, voted),
    )
    return {name: ItemOutcomes(name, "right", tuple(systems), tuple(items), np.stack([*systems.values()], 1))
            for name, systems, items in gathered}  # fmt: skip


def _read_clip_rows(path: Path) -> list[Sample]:
    """Return the items of a file of BiVLC's authors; BiVLC's have no name of a picture, but a caption each."""
    return [_tag_item(row.get("filename", row["caption"]), (row["caption"], row["negative_caption"]),
                      f"{row['type']}_{row['subtype']}") for row in read_fields(path)]  # fmt: skip


def _tag_item(cluster: str, texts: tuple[str, str], part: str) -> Sample:
    tags = {"part": part, "kind": part.partition("_")[0]}
    item = Sample(id="", cluster=cluster, texts=texts, tags=tags, outcomes={})
    return tag_captions(tag_captions([item], EDITS), FIRST)[0]


def _draw(fitted: dict[tuple[str, str], Curves]) -> Any:
    figure = new_figure(PHONE, 4.8)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    shown = itertools.product(("SugarCrepe", "BiVLC"), ("replace_obj", "replace_rel"))
    for axes, (name, part) in zip(panels.ravel(), shown, strict=True):
        found = fitted[name, FIRST]
        for number, row in enumerate(row for row in found.curves if row.subset == part):
            style = look(number)
            line, levels = np.array(row.line).T, np.array([(level.value, level.right) for level in row.levels]).T
            axes.plot(line[0], 100 * line[1], color=style.colour, linestyle=style.dash, linewidth=1)
            axes.plot(levels[0], 100 * levels[1], style.marker, color=style.colour, markersize=3, label=row.model)
        axes.axhline(100 * found.chance, color=GREY, linestyle="--", linewidth=0.8, label="chance", zorder=1.9)
        axes.set_title(f"{name}, {part}", fontsize=7)
        axes.set(xlim=(0.5, 16), ylim=(0, 103), xlabel="first word that differs" if axes in panels[1] else "")
        axes.grid()
    figure.supylabel("right, percent: levels, and fitted curves", fontsize=7)
    legend_below(figure, panels[0, 0], 2)
    return figure
