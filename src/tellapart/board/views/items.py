"""Content of pages about items: their list, one with all models' scores, a retrieval gallery, a model; pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.board.records import Benchmark, Entry, Tables
from tellapart.board.views.leaderboard import Cell, Content, Link, choice_links, count_pages, make_cell, with_reasons
from tellapart.errors import RunError, TellapartError, UnknownNameError
from tellapart.records.result import IMPORTED
from tellapart.report.followed import draw_points, find_training, read_checkpoints, sort_points
from tellapart.report.image_sources import ImageSources, small_picture
from tellapart.report.items import margins, true_pairs, true_texts
from tellapart.report.plots.curves import Trace, plot
from tellapart.stats.item_analysis import LEAST_FAMILIES, discriminations, reliability

#: Queries on one page.
QUERIES = 20

#: Tasks whose records list, for each query, the entries ranked first.
_WITH_GALLERY = ("retrieval", "distinct-retrieval")

#: Direction -> its name, the unit of its queries, and the unit of the gallery's entries (which are queries elsewhere).
SIDES = {
    "t2i": ("captions to images", "caption query", "image query"),
    "i2t": ("images to captions", "image query", "caption query"),
}


def has_gallery(entry: Entry) -> bool:
    """Return whether a record lists the entries ranked first for each query; some have ranks alone."""
    return entry.record.task in _WITH_GALLERY and bool(entry.outputs and _first_entries(entry.outputs[0]))


def gallery_page(tables: Tables, slug: str, model: str, side: str = "t2i", page: int = 1) -> Content:
    """Show the entries that a model ranks first for each query of a retrieval gallery."""
    benchmark = tables.benchmark(slug)
    ranker = tables.model(model)
    if side not in SIDES:
        raise UnknownNameError(f"no direction {side[:200]!r}; there are {' and '.join(SIDES)}")
    entry = tables.entries.get((slug, model))
    if entry is None or not has_gallery(entry):
        raise UnknownNameError(
            f"the record of {ranker.label} on {benchmark.name} does not list the entries ranked first; "
            "measure it again if it is a retrieval benchmark"
        )
    noun, unit, entry_unit = SIDES[side]
    items = benchmark.items.rows
    asked = [k for k, item in enumerate(items) if item.unit == unit]
    positions = {item.name: k for k, item in enumerate(items) if item.unit == entry_unit}
    pages = count_pages(len(asked), QUERIES, page, benchmark.name, noun)

    def show(position: int) -> dict[str, Any]:
        return {"position": position, "images": items[position].images, "texts": items[position].texts}

    queries: list[dict[str, Any]] = [
        {
            "title": f"{unit.removesuffix(' query')} {items[k].name}",
            **show(k),
            "rank": entry.outputs[k]["rank"],  # of the best true entry, under the strict rule
            "first": [
                {"title": first["id"], **show(positions[first["id"]]), "score": first["score"], "true": first["true"]}
                for first in _first_entries(entry.outputs[k])
            ],
        }
        for k in asked[QUERIES * (page - 1) : QUERIES * page]
    ]

    def words(shown: dict[str, Any]) -> str:
        return " | ".join((*shown["images"], *shown["texts"]))

    rows: list[tuple[Any, ...]] = [("query", "asked", "rank", "place", "found", "score", "true")]
    for query in queries:
        asked_by = (query["title"], words(query), str(query["rank"]))
        rows += [
            (*asked_by, str(place), words(ranked), ranked["score"], "yes" if ranked["true"] else "no")
            for place, ranked in enumerate(query["first"], start=1)
        ]
    args: dict[str, str | int] = {"slug": slug, "model": model, "page": 1}
    return Content(
        title=f"{ranker.label} on {benchmark.set_title}: {noun}",
        table_rows=rows,
        benchmark=benchmark,
        model=ranker,
        side=side,
        what=noun,
        asked=len(asked),
        sides=choice_links("gallery_page", args, "side", {key: text for key, (text, _, _) in SIDES.items()}, side),
        page=page,
        pages=pages,
        queries=queries,
    )


def _first_entries(output: Any) -> list[dict[str, Any]]:
    return output.get("first", []) if isinstance(output, dict) else []


def training_of(tables: Tables, entry: Entry) -> dict[str, Any] | None:
    """Return the curve of the training of which an entry is a checkpoint; None without one, or if it is damaged."""
    root = find_training(entry.folder) if entry.folder else None
    if root is None:
        return None
    try:
        checkpoints = read_checkpoints(root)
    except RunError:  # the board's first page lists the record that cannot be read
        return None
    points = sort_points(checkpoints).get(entry.name, [])
    if not points:
        return None
    models = {other.folder: other.model for other in tables.entries_of(benchmark=entry.benchmark)}
    slugs = {checkpoint.name: models.get(root / checkpoint.folder) for checkpoint in checkpoints}
    chart = draw_points(tables.benchmarks[entry.benchmark].name, points)

    def cell(number: Any, n: int) -> Cell:
        return Cell(value=number.value, low=number.low, high=number.high, reason=number.reason or None, n=n)

    steps = [
        {
            "title": point.checkpoint,
            # no link until the board has read the checkpoint's record
            "link": slug and Link(text=point.checkpoint, page="model", args={"slug": slug}),
            "value": cell(point.value, point.value.n),
            "best": point.best,
            "forgotten": None if point.forgotten is None else cell(point.forgotten, point.value.n),
        }
        for point in points
        for slug in [slugs.get(point.checkpoint)]
    ]
    return {"title": chart.title, "metric": points[0].metric, "chart": chart, "steps": steps}


#: The number of worst items on a model's page.
WORST = 12


def model_page(tables: Tables, slug: str) -> Content:
    """Show a model: facts, costs, its numbers on every benchmark, and its worst items."""
    model = tables.model(slug)
    benchmarks = tables.benchmarks
    entries = sorted(tables.entries_of(model=slug), key=lambda entry: benchmarks[entry.benchmark].name)
    measured = {entry.benchmark for entry in entries} if any(entry.folder for entry in entries) else ()
    rivals = {e.model for e in tables.entries.values() if e.benchmark in measured and e.folder} - {slug}
    others = sorted((tables.models[rival] for rival in rivals), key=lambda other: other.label)
    fingerprint = "" if model.fingerprint.startswith(IMPORTED) else model.fingerprint
    about = {"kind": model.kind, "read as": model.note, "fingerprint": fingerprint, "costs from": model.cost_source}
    costs = {
        "latency of one pair": None if model.latency is None else f"{1000 * model.latency:.1f} ms",
        "parameters": None if model.parameters is None else f"{model.parameters:,}",
        "training images": None if model.training_images is None else f"{model.training_images:,}",
    }
    on = [_benchmark_section(tables, entry) for entry in entries]
    numbers = ("value", "low", "high", "chance", "n", "ties", "tier")
    cells = [(section["benchmark"].label, name, cell) for section in on for name, cell in section["metrics"].items()]
    rows = [(label, name, *(getattr(cell, number) for number in numbers)) for label, name, cell in cells]
    return Content(
        title=model.label,
        table_rows=with_reasons([("benchmark", "metric", *numbers), *rows], [cell.reason for _, _, cell in cells]),
        model=model,
        about={name: text for name, text in about.items() if text},
        cost={name: text for name, text in costs.items() if text},
        on=on,
        rivals=choice_links("compare", {"a": model.slug}, "b", {other.slug: other.label for other in others}),
    )


def _benchmark_section(tables: Tables, entry: Entry) -> dict[str, Any]:
    benchmark, metrics, run = tables.benchmarks[entry.benchmark], entry.record.metrics, entry.run
    deviations = {
        name: {key: getattr(value, key) for key in ("value", "sd", "mean_absolute")}
        for name, value in metrics.items()
        if value.mean_absolute is not None
    }
    worst_by, worst = _worst_items(entry, benchmark)
    values = {name: entry.values[name].astype(np.float64) for name in deviations if name in entry.values}
    drawn = {name: column for name, column in values.items() if len(column) and np.isfinite(column).all()}
    facts = run and {
        "started": run.started[:16].replace("T", " "),
        "command": run.command,
        "seed": str(run.seed),
        "device": run.device or "",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
    }
    return {
        "title": benchmark.title,
        "benchmark": benchmark,
        "metrics": {  # shares of right answers
            name: make_cell(tables, entry, name, value) for name, value in metrics.items() if name not in deviations
        },
        "deviations": deviations,  # in the unit of the scores
        "curves": tuple(plot(name, [Trace("", 0, "", drawn)], 300.0, 120.0) for name in drawn),
        "worst": worst,
        "worst_by": worst_by,
        **{name: getattr(entry, name) for name in ("tie_rule", "note", "on_trust")},
        "notes": entry.record.notes,
        "run": {name: text for name, text in (facts or {}).items() if text},
        "gallery": has_gallery(entry),
        "training": training_of(tables, entry),
    }


def _worst_items(entry: Entry, benchmark: Benchmark) -> tuple[str, list[dict[str, Any]]]:
    """Return what items are sorted by, and the worst of them: by margin if there are scores, else by the metric."""
    if entry.scores is not None and benchmark.shape is not None:
        by = "margin: the lowest true pair less the highest false one"
        values: Any = margins(entry.scores, true_texts(benchmark.headline, benchmark.shape[1]))
    elif (metric := benchmark.metric) in entry.values:
        by, values = metric, entry.values[metric]
    else:
        return "", []
    order = [int(k) for k in np.argsort(values, kind="stable")[:WORST] if not np.isnan(values[k])]
    items = benchmark.items.rows
    return by, [{"title": items[k].name, "position": k, "texts": items[k].texts, "by": float(values[k])} for k in order]


def picture(tables: Tables, slug: str, position: int, number: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of an item's picture: small, as PNG, JPEG or WebP.

    The reference comes from the records, never from the address.
    """
    benchmark = tables.benchmark(slug)
    item = benchmark.items.rows[position] if 0 <= position < len(benchmark.items.rows) else None
    if item is None or not 0 <= number < len(item.images):
        raise UnknownNameError(f"{benchmark.name} has no picture {number} of item {position}")
    # Its runs recorded where the images are.
    for entry in tables.entries_of(benchmark=slug):
        if entry.folder is None or entry.run is None:
            continue
        own, name = entry.record.own, benchmark.name
        name = name if own else name.partition("#")[0]
        sources = ImageSources(entry.folder, name, own, entry.run.data, entry.run.images)
        with suppress(TellapartError, OSError):
            if (read := _sources_reader(sources)) is not None:
                kind, small = small_picture(read(item.images[number]), item.images[number])
                return f"image/{kind}", small
    raise UnknownNameError(f"{benchmark.name}: the picture {item.images[number]!r} is not on this machine")


_sources_reader = lru_cache(maxsize=64)(ImageSources.reader)


#: Items on one page of the list.
PAGE = 50

#: Pictures of one item in the list.
THUMBNAILS = 2


def collect_outcomes(tables: Tables, benchmark: Benchmark) -> NDArray[np.float32]:
    """Return the outcomes of all ranked models, float32 `(item, model)`, by the metric that ranks them.

    A model fails an item if its outcome is below 1. NaN, for an item without this metric, is no failure.
    """
    entries, main = tables.entries_of(benchmark=benchmark.slug), benchmark.metric
    rows = [e.values[main] for e in entries if main in e.values and tables.models[e.model].kind == "model"]
    return np.array(rows, np.float32).reshape(len(rows), len(benchmark.items.rows)).T


def _analyse(outcomes: NDArray[np.float32]) -> tuple[NDArray[np.float64], float | None]:
    """Return each item's discrimination over models, NaN if it is unknown, and the reliability of all items."""
    discrimination = np.full(len(outcomes), np.nan)
    measured = ~np.isnan(outcomes).any(axis=1)
    if outcomes.shape[1] < LEAST_FAMILIES or measured.sum() < 2:
        return discrimination, None
    discrimination[measured] = discriminations(outcomes[measured])
    return discrimination, reliability(outcomes[measured]).alpha


def items_page(tables: Tables, slug: str, page: int) -> Content:
    """List a benchmark's items, those that most models fail first."""
    benchmark = tables.benchmark(slug)
    items = benchmark.items.rows
    pages = count_pages(len(items), PAGE, page, benchmark.name, "items")
    outcomes = collect_outcomes(tables, benchmark)
    failed, models = (outcomes < 1).sum(axis=1), outcomes.shape[1]
    discrimination, alpha = _analyse(outcomes)
    order = np.argsort(-failed, kind="stable")[PAGE * (page - 1) : PAGE * page].tolist()
    first, thumbnails = next((k for k in order if items[k].images), -1), 0
    with suppress(UnknownNameError):  # if the first picture is on this machine, the others are taken to be, too
        picture(tables, slug, first, 0)
        thumbnails = THUMBNAILS
    listed: list[dict[str, Any]] = [
        {
            "title": items[k].name,
            "position": k,
            "images": min(thumbnails, len(items[k].images)),
            "texts": items[k].texts,
            "tags": items[k].tags,
            "failed": None if np.isnan(outcomes[k]).all() else int(failed[k]),
            "discrimination": None if np.isnan(discrimination[k]) else round(float(discrimination[k]), 3),
        }
        for k in order
    ]
    rows = [(row["title"], row["failed"], row["discrimination"], " | ".join(row["texts"])) for row in listed]
    return Content(
        title=f"{benchmark.title}: items",
        table_rows=[("item", "failed by", "discrimination", "texts"), *rows],
        benchmark=benchmark,
        total=len(items),
        items=listed,
        page=page,
        pages=pages,
        models=models,
        reliability=alpha,
    )


def item_page(tables: Tables, slug: str, position: int) -> Content:
    """Show an item, the models that fail it by the metric that ranks the benchmark, and those that do not."""
    benchmark = tables.benchmark(slug)
    items = benchmark.items.rows
    if not 0 <= position < len(items):
        raise UnknownNameError(f"{benchmark.name} has no item {position}; it has {len(items):,}, counted from 0")
    item, models = items[position], _models_on_item(tables, benchmark, position)
    main = benchmark.metric
    judged = [model for model in models if main in model["verdicts"]]
    return Content(
        title=item.name,
        benchmark=benchmark,
        position=position,
        **{name: getattr(item, name) for name in ("unit", "cluster", "gold", "tags", "images", "texts")},
        failed=[model["model"] for model in judged if model["verdicts"][main] != "won"],
        won=[model["model"] for model in judged if model["verdicts"][main] == "won"],
        made=models,
        before=position - 1 if position else None,
        after=position + 1 if position + 1 < len(items) else None,
    )


def _models_on_item(tables: Tables, benchmark: Benchmark, k: int) -> list[dict[str, Any]]:
    """Return models' scores and answers: contestants before others, and those that fail the item first."""
    models, main = [], benchmark.metric
    for entry in tables.entries_of(benchmark=benchmark.slug):
        model = tables.models[entry.model]
        verdicts: dict[str, str | float] = {}
        for name in benchmark.headline:
            if name in entry.values and not np.isnan(number := float(entry.values[name][k])):
                is_tied = name in entry.tied and bool(entry.tied[name][k])
                verdicts[name] = "won" if number == 1 else "even" if is_tied else number or "lost"
        matrix = () if entry.scores is None else _score_matrix(entry.scores[k], benchmark.headline)
        if verdicts or matrix or entry.outputs:
            output = entry.outputs[k] if entry.outputs else ""
            if isinstance(output, dict) and output.keys() == {"rank", "first"}:
                output = f"rank {output['rank']}"
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            card = {"title": model.label, "model": model, "matrix": matrix, "verdicts": verdicts, "said": text}
            models.append((model.kind, verdicts.get(main) == "won", model.label, card))
    return [card for *_, card in sorted(models, key=itemgetter(0, 1, 2))]


def _score_matrix(scores: NDArray[np.float32], headline: Sequence[str]) -> tuple[tuple[dict[str, Any], ...], ...]:
    """Return the cells `[image][text]` of a table of scores: number, text, shade (0 to 10), a true pair's outcome."""
    images, texts = scores.shape
    low, reach = float(scores.min()), float(np.ptp(scores))
    true = set(true_pairs((images, texts), true_texts(headline, texts)))
    # The fewest decimals that keep different scores different, within the precision of float32.
    largest, distinct = float(np.abs(scores).max()), len(np.unique(scores))
    fewest, most = (1, 4) if largest >= 100 else (2, 6) if largest >= 10 else (3, 9)
    exact = scores.astype(float)
    digits = next((k for k in range(fewest, most) if len(np.unique(np.round(exact, k))) == distinct), most)

    def cell(image: int, text: int) -> dict[str, Any]:
        score, state = float(scores[image, text]), ""
        if (image, text) in true:  # against every other cell of its row and column
            rivals = np.concatenate([np.delete(scores[image], text), np.delete(scores[:, text], image)])
            is_best, is_beaten = (score > rivals).all(), (score < rivals).any()
            state = "won" if is_best else "lost" if is_beaten else "even"
        return {
            "title": f"image {image}, text {text}",
            "score": float(str(scores[image, text])),  # the shortest number that is the same float32
            "text": f"{score:.{digits}f}",
            "shade": round(10 * (score - low) / reach) if reach and np.isfinite(reach) else 3,
            "state": state,
        }

    return tuple(tuple(cell(image, text) for text in range(texts)) for image in range(images))
