"""What can be got without looking: words alone, and other faults that an audit of the captions finds."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from examples.clip_zoo_board.build import COLUMNS, names_of
from examples.findings.checkpoints import RESULTS
from examples.findings.frame import PHONE, SOURCES, Page, draw_intervals, name_rows, read_fields
from tellapart.auditing.captions import (
    bag_of_words,
    find_context,
    length_gaps,
    lost_captions,
    mixed_scripts,
    torn_sides,
    truth_first,
)
from tellapart.auditing.origin import word_counts
from tellapart.auditing.pictures import caption_duplicates
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.data.item import Item
from tellapart.data.pairset import PairSet
from tellapart.report.plots.style import GREY, look, make_panels
from tellapart.stats.clusters import is_binary
from tellapart.stats.held_out import held_out, in_order
from tellapart.stats.intervals import interval_for

_BASELINES = Path(__file__).resolve().parents[2] / "docs" / "baselines.json"
_LANGUAGE_MODEL = "tinystories-15M"
#: Set -> its folder below the data, and the tag that separates its parts.
_CATALOGUE = {
    "sugarcrepe": ("sugarcrepe/data", "subset"),
    "valse": ("valse", "instrument"),
    "sugarcrepe-pp": ("sugarcrepe_pp", "subset"),
}
_SQUARES = {"bivlc": "bivlc", "coco-counterfactuals": "coco_counterfactuals", "cola": "cola"}
_SOURCES = ("sugarcrepe", "valse", "sugarcrepe-pp", "vitatecs-rows", "vilma", "bivlc", "coco-counterfactuals", "cola",
            "vlue", "vl_compo", "xvnli", "marvl", "camerabench-sides", "naturalbench")  # fmt: skip
_CLIP, _NEGCLIP = "ViT-B-32 openai", "NegCLIP coco-ft"


def without_looking(data: Path) -> Page:
    """Make the page."""
    sets = {name: _read_set(name, folder, data) for name, (folder, _) in _CATALOGUE.items()}
    sets |= {"vitatecs": _read_vitatecs(data), "vilma (five files)": _read_vilma(data)}
    zoo = RESULTS.rows(data)
    baselines = json.loads(_BASELINES.read_text(encoding="utf-8"))["benchmarks"]
    parts = {name: _measure_words(name, pairs, zoo, baselines) for name, pairs in sets.items()}
    wholes = [found[0] for found in parts.values()]
    squares = {name: find_benchmark(name, Locations(data / folder)).records() for name, folder in _SQUARES.items()}
    audited = sets | squares
    camera = find_benchmark("camerabench", Locations(data / "camerabench" / "camerabench")).records()
    sided = audited | {"camerabench": camera}
    sides = {name: torn_sides(pairs) for name, pairs in sided.items()}
    audits = [(name, len(pairs), caption_duplicates(pairs), bag_of_words(pairs), length_gaps(pairs)[0])
              for name, pairs in audited.items()]  # fmt: skip
    zooed = [one for found in parts.values() for one in found[1:] if one.below is not None]
    beaten = [one for one in zooed if one.interval.low > one.clip]
    told = [one for one in zooed if one in beaten or one.words > 0.6]
    values: dict[str, Any] = {"wholes": wholes, "zooed": zooed, "beaten": beaten, "told": told, "zoo": zoo}
    values |= {"explained": _explain_gain(parts["sugarcrepe"][1:]), "language_model": _LANGUAGE_MODEL}
    values |= {"lost": _count_lost(sided), "contexts": _CONTEXTS, "audits": audits, "signed": _signed}
    values |= {"mixed": [name for name, pairs in audited.items() if mixed_scripts(pairs).value]}
    values |= {"torn": [f"{name} ({found.says})" for name, found in sides.items() if found.value]}
    values |= {"vqa": _read_answers(data), "scripts": _count_scripts(data), "places": _find_places(data)}
    sources = [SOURCES[name] for name in _SOURCES]
    return Page("without-looking", partial(_draw_parts, [*wholes, *zooed]), sources, values, data)


def _read_set(name: str, folder: str, data: Path) -> PairSet:
    pairs: PairSet = find_benchmark(name, Locations(data / folder)).records()
    if pairs.shape == (1, 2):
        return pairs
    items = [
        Item(id=one.id, images=one.images, texts=(one.texts[0], one.texts[-1]), tags=one.tags, cluster=one.cluster)
        for one in pairs.items
    ]
    return PairSet(name, tuple(items), Path())


def _read_vitatecs(data: Path) -> PairSet:
    fields = ("video_name", "caption", "counterfactual", "aspect")
    return _make_pairs("vitatecs", ([row[field] for field in fields] for row in SOURCES["vitatecs-rows"].rows(data)))


def _read_vilma(data: Path) -> PairSet:
    films = ((f"{row.get('youtube_id')}/{row.get('video_file')}", row) for row in SOURCES["vilma"].rows(data))
    return _make_pairs("vilma", ((film, row["caption"], row["foils"][0], row["file"]) for film, row in films))


def _make_pairs(name: str, rows: Any) -> PairSet:
    items = []
    for k, (video, true, false, part) in enumerate(rows):
        film = video.replace("None/", "").replace("/None", "")  # a film that one of two fields names is not missing
        items.append(Item(id=f"{k}", images=(film,), texts=(true, false), tags={"part": part}, cluster=video))
    return PairSet(name, tuple(items), Path())


def _measure_words(
    name: str, pairs: PairSet, zoo: list[dict[str, str]], baselines: dict[str, Any]
) -> list[SimpleNamespace]:
    """Measure the set first, then its parts, by words of other items: as CLIP reads them, and with the file's form."""
    clusters = _join_clusters(pairs)
    heads = [in_order(held_out(found - found[:, ::-1], clusters)) for found in _count_words(pairs)]
    tag = _CATALOGUE[name][1] if name in _CATALOGUE else "part"
    part_of = np.array([item.tags[tag] for item in pairs.items])
    spoken = baselines[name]["models"].get(_LANGUAGE_MODEL, {}) if name in _CATALOGUE else {}
    spoken_parts = spoken.get("by", {}).get(tag, {}) if "choice_score" in spoken else {}
    language = {"": spoken.get("choice_score", {})} | spoken_parts
    found = []
    for part in ("", *np.unique(part_of).tolist()):
        at = np.flatnonzero((part_of == part) | (part == ""))
        words, form = (right[at] for right in heads)
        inside = [clusters[k] for k in at]
        interval, form_interval = (
            interval_for(right, inside, binary=is_binary(right), bounds=(0.0, 1.0)) for right in (words, form)
        )
        published = _zoo_values(name, part, zoo)
        found.append(
            SimpleNamespace(
                name=name,
                part=part,
                items=len(words),
                words=float(words.mean()),
                interval=interval,
                form=float(form.mean()),
                form_interval=form_interval,
                language=language.get(part, {}).get("value"),
                clip=published.get(_CLIP),
                negclip=published.get(_NEGCLIP),
                below=sum(value < words.mean() for value in published.values()) if published else None,
            )
        )
    return found


def _join_clusters(pairs: PairSet) -> list[str]:
    """Return each item's cluster, after clusters with a caption in common are joined: no head has met its captions."""
    named = [
        (k, name)
        for k, item in enumerate(pairs.items)
        for name in (("cluster", item.cluster), *(("text", " ".join(text.lower().split())) for text in item.texts))
    ]
    nodes = {name: len(pairs) + k for k, name in enumerate(dict.fromkeys(name for _, name in named))}
    ends = [k for k, _ in named], [nodes[name] for _, name in named]
    size = len(pairs) + len(nodes)
    graph = coo_array((np.ones(len(named)), ends), shape=(size, size))
    return [f"{label}" for label in connected_components(graph, directed=False)[1][: len(pairs)]]


def _count_words(pairs: PairSet) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return features `(item, text, dimensions)` of captions as CLIP's tokenizer reads them, and with their form."""
    single = [[" ".join(text.split()) for text in item.texts] for item in pairs.items]
    read = word_counts([[text.lower() for text in row] for row in single]).features
    form = [
        [(text[:1].isupper(), len(stands) - len(text)) for text, stands in zip(row, item.texts, strict=True)]
        for row, item in zip(single, pairs.items, strict=True)
    ]
    return read, np.concatenate([word_counts(single).features, np.array(form, np.float64)], axis=2)


def _zoo_values(name: str, part: str, zoo: list[dict[str, str]]) -> dict[str, float]:
    """Return each checkpoint's share of right choices on a set (over items) or a part of it, if it has any."""
    columns = [one for one in COLUMNS if one.benchmark == name and (not part or one.part == part)]
    if not columns:
        return {}
    sizes = np.array([one.n or 0 for one in columns], float)
    return {
        checkpoint: float(np.array([float(row[one.name]) for one in columns]) @ sizes / sizes.sum() / 100)
        for checkpoint, row in zip(names_of(zoo), zoo, strict=True)
    }


def _explain_gain(parts: list[SimpleNamespace]) -> float:
    """Return the share of NegCLIP's gain over CLIP that lies below the level of words alone."""
    inside = total = 0.0
    for one in parts:
        gain = max(one.negclip - one.clip, 0)
        total += one.items * gain
        inside += one.items * min(gain, max(one.words - one.clip, 0))
    return inside / total


def _signed(value: float) -> str:
    return f"{value:+.2f}" if abs(value) >= 0.005 else "0.00"


def _read_answers(data: Path) -> dict[tuple[str, str], list[str]]:
    """Return the answers of VLUE's questions by picture and question."""
    answers: dict[tuple[str, str], list[str]] = {}
    for row in SOURCES["vlue"].rows(data):
        answers.setdefault((row["image"], row["question"]), []).append(row["answer"])
    return answers


def _draw_parts(parts: list[SimpleNamespace]) -> Any:
    figure, (axes,) = make_panels(PHONE, 5.0)
    names = [f"{one.name}: {one.part}" if one.part else one.name for one in parts]
    words, clip = look(0), look(1)
    draw_intervals(axes, range(len(parts)), [one.interval for one in parts], words.colour)
    axes.scatter([100 * one.words for one in parts], range(len(parts)), color=words.colour, s=18, label="words alone")
    known = [(100 * one.clip, row) for row, one in enumerate(parts) if one.clip is not None]
    axes.scatter(
        *zip(*known, strict=True), color=clip.colour, marker=clip.marker, s=18, label="CLIP ViT-B/32, published"
    )
    axes.axvline(50, color=GREY, linewidth=0.7)
    axes.set_xticks(range(50, 101, 10))
    name_rows(figure, axes, names, "right, percent; chance is 50")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


#: Tokens of a caption that CLIP reads, and those that models such as CLIPA read.
_CONTEXTS = ("77", "32")


def _count_lost(sets: Mapping[str, PairSet]) -> list[list[str]]:
    """Return name, items, and for each context the items with a longer caption, and those that are equal within it."""
    rows = []
    for name, pairs in sets.items():
        lost = [one for tokens in _CONTEXTS for one in lost_captions(find_context(tokens), tokens, pairs)]
        rows.append([name, f"{len(pairs):,}", *(f"{round(one.value * len(pairs)):,}" for one in lost)])
    return rows


def _count_scripts(data: Path) -> dict[str, list[tuple[int, int, str]]]:
    """Return for XVNLI and MaRVL how many rows have words of several scripts, of how many, by language."""
    scripts: dict[str, list[tuple[int, int, str]]] = {"XVNLI": [], "MaRVL": []}
    for name, fields in (("XVNLI", ("sentence1", "sentence2")), ("MaRVL", ("caption",))):
        for path in SOURCES[name.lower()].files(data):
            rows = read_fields(path)
            found = mixed_scripts(_pair_texts((tuple(row[field] for field in fields), 0) for row in rows))
            language = path.parent.name if name == "XVNLI" else path.stem.rpartition("-")[2]
            scripts[name].append((round(found.value * len(rows)), len(rows), language))
    return scripts


def _find_places(data: Path) -> list[Any]:
    """Return the findings on the place of the truth, in CameraBench's rows and among NaturalBench's options."""
    camera = SOURCES["camerabench-sides"].rows(data)
    natural: list[list[Any]] = json.loads(SOURCES["naturalbench"].files(data)[0].read_text("utf-8"))
    options = [(("A", "B"), "AB".index(answer.strip()[0])) for _, _, answer, _ in natural if answer.strip()[0] in "AB"]
    films = [(row["texts"], row["texts"].index(row["pos_text"])) for row in camera]
    return [truth_first(_pair_texts(rows)) for rows in (films, options)]


def _pair_texts(rows: Iterable[tuple[Any, int]]) -> PairSet:
    items = tuple(
        Item(id=str(k), images=("0.png",), texts=tuple(texts), true=(true,) if len(texts) > 1 else ())
        for k, (texts, true) in enumerate(rows)
    )
    return PairSet("rows", items, Path())
