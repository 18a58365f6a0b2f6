"""Benchmarks as callers give them: by name, those of the catalogue and the user's files, or as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from tellapart.benchmarks.benchmark import Benchmark, own_benchmark
from tellapart.benchmarks.classification import CLASSES, class_folder_benchmark
from tellapart.benchmarks.locations import Locations, own_images
from tellapart.benchmarks.pair_table import TABLE, open_pair_images, pair_table_benchmark
from tellapart.benchmarks.probes import PREFIXES, PROBES, probe_benchmark
from tellapart.benchmarks.set_file import read_set_file, set_benchmark
from tellapart.catalog import BENCHMARKS, add, has
from tellapart.catalog import load as load_from_catalog
from tellapart.data.folder import LISTINGS, read_pair_set
from tellapart.data.images import IMAGE_SUFFIXES
from tellapart.data.pairset import PairSet
from tellapart.data.rows import AnnotationRow, read_jsonl
from tellapart.data.strict_json import plain_suffix
from tellapart.data.task_records import ChoiceSet, RankingSet, Record
from tellapart.data.validation import validate
from tellapart.errors import DataError, TellapartError, UnknownNameError, nearest, quote

# `ranking:FILE`: the user's rankings by people, one query a line.
#
# `{"id": "0", "query": "the house on the right side", "edited": "the house on the left side", "candidates": ["a.png",
# ...], "people": [1, 2, ...]}`: images beside the file, places from 1 for the closest, `edited` where there is an edit.

RANKING = "ranking:"


class _Query(AnnotationRow):
    id: Annotated[str, Field(min_length=1)]
    query: Annotated[str, Field(min_length=1)]
    candidates: list[Annotated[str, Field(min_length=1)]]
    people: list[Annotated[float, Field(allow_inf_nan=False)]]
    edited: str = ""


def read_rankings(path: Path) -> RankingSet:
    """Read rankings by people."""
    rows = [validate(_Query, row, f"{path}:{line}") for line, row in read_jsonl(path)]
    rankings = (Record(row.id, tuple(row.candidates), (row.query, row.edited), tuple(row.people)) for row in rows)
    return RankingSet(path.stem, tuple(rankings))


def ranking_benchmark(name: str, place: Locations | None = None) -> Benchmark:
    """Return the benchmark `ranking:FILE`."""
    path = Path(name.removeprefix(RANKING)).expanduser()
    place = place or Locations()
    return own_benchmark(
        f"{RANKING}{path.name}",
        path,
        read_rankings(path),
        task="ranking",
        title=f"rankings by people: {path.stem}",
        place=Locations(images=place.images or path.parent, outside=place.outside),
    )


def explain_path(name: str) -> str | None:
    """Describe the file or folder at a path and its name as a benchmark; None if nothing is there."""
    path = Path(name).expanduser()
    try:
        if name and path.is_dir():
            return _hint_for_folder(path, name)
        return _typed_file(path, name) if path.is_file() else None
    except OSError:  # too long for a path, or in a folder that may not be read
        return None


def _hint_for_folder(path: Path, name: str) -> str:
    if any((path / listing).is_file() for listing in LISTINGS):
        return f"{name} is a folder of pairs; write folder:{name}"
    inside = sorted({file.parent for listing in LISTINGS for file in path.glob(f"*/{listing}")})
    if inside:
        return f"{name} holds folders of pairs; write {' or '.join(f'folder:{entry}' for entry in inside[:4])}"
    tables = [file for suffix in (".toml", ".csv", ".tsv", ".parquet") for file in sorted(path.glob(f"*{suffix}"))]
    if tables:
        return f"{name} is a folder, and no benchmark; to measure a set's file in it, write {tables[0]}"
    inner = [folder for folder in path.glob("*/") if folder.is_dir()]
    if sum(any(file.suffix.lower() in IMAGE_SUFFIXES for file in folder.iterdir()) for folder in inner) > 1:
        return f"{name} holds folders of images, as of classes; write classes:{name}"
    return (
        f"{name} is a folder, and no benchmark; write folder:PATH of a folder with {' or '.join(LISTINGS)}, "
        "classes:PATH of one with a folder of images for each class, or a listed benchmark (`tellapart ls benchmarks`) "
        f"and where its files are: data={name}"
    )


def _typed_file(path: Path, name: str) -> str:
    if path.name in LISTINGS:
        return f"{name} lists the pairs of a folder; write folder:{path.parent}"
    with suppress(DataError):
        if path.suffix == ".jsonl" and "candidates" in next(iter(read_jsonl(path)), (0, {}))[1]:
            return f"{name} holds rankings by people; write ranking:{name}"
    if path.suffix == ".py":
        return f"{name} is a file of Python; name the PairSet or Benchmark in it, {name}:NAME"
    if plain_suffix(path) == ".jsonl":
        return f"{name} is a file; if it holds pairs, write table:{name}"
    return (
        f"{name} is a file, and no benchmark; write folder:PATH of a folder of pairs, table:FILE.csv, "
        "ranking:FILE.jsonl, or a listed benchmark (`tellapart ls benchmarks`); scores of one are measured by: "
        "tellapart score BENCHMARK --scores FILE"
    )


FOLDER = "folder:"
SET = "set:"

#: A benchmark as callers give it: its name or `folder:PATH`, a pair set, or a declaration.
BenchmarkGiven: TypeAlias = str | Path | PairSet | Benchmark

#: The part between the file and the object in the name of a benchmark in a file of Python.
CODE = ".py:"

#: The prefixes before a set of pairs that is asked in another way, or by a probe.
ASKED = ("choice:", "pairing:", "texts:", *PREFIXES)


def find_benchmark(name: str, place: Locations | None = None) -> Benchmark:
    """Return the benchmark of that name, or the user's files behind a prefix.

    `folder:PATH` is their pair set, `table:FILE` (or `FILE.csv`, `.tsv`, `.parquet`) pairs in one file, `FILE.toml` or
    `set:FILE.toml` a set that the file declares, `ranking:FILE` their rankings, `classes:DIR` their folders of classes.
    `pairing:NAME` is a set of 2x2 pairs asked in words, `choice:NAME` one of 1x2 pairs, `texts:NAME` the texts alone of
    a set with two true ones. `blank:NAME`, `foreign:NAME` and `shuffled:NAME` are probes: a set without its pictures,
    or without its word order.

    A set is its content and its name: `folder:../A/my_pairs` and `folder:my_pairs` are both named `folder:my_pairs`.

    Args:
        name: as `tellapart ls benchmarks` lists it.
        place: the folders of the user's files.

    Raises:
        UnknownNameError: no such name, or it is a path that needs one of these prefixes.
        DataError: the folder is not a pair set, or the object that another package installed under that name is not a
            benchmark.

    >>> find_benchmark("demo").shape
    (2, 2)
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"find_benchmark({quote(name)}): {type(name).__name__} is not a name; give a text")
    name = _with_prefix(name)
    for prefix, (open_own, lacking) in _OWN.items():
        if name == prefix:
            raise DataError(f"{prefix} names no {lacking}")
        if name.startswith(prefix):
            return open_own(name, place)
    if not has("benchmark", name) and (lies_there := explain_path(name)) is not None:
        raise UnknownNameError(lies_there)
    benchmark = load_from_catalog("benchmark", name)
    if not isinstance(benchmark, Benchmark):
        raise DataError(f"benchmark {name!r} is a {type(benchmark).__name__}; its entry point must name a Benchmark")
    return benchmark if place is None else replace(benchmark, place=place)


def declared_benchmark(name: str) -> Benchmark | None:
    """Return the catalogue's benchmark of that name; None for the user's files, and for a name it does not have."""
    if _with_prefix(name).startswith(tuple(_OWN)):
        return None
    try:
        return find_benchmark(name)
    except TellapartError:
        return None


def find_again(name: str, own: Path | None, place: Locations) -> Benchmark:
    """Return the benchmark that a record names, such as `folder:my_pairs`; `own` is the present path of a user's.

    A record, which a stranger may have written, never has code run: code must have been named in this process.
    """
    if own is None:
        return find_benchmark(name, place)
    if asked := next(filter(name.startswith, ASKED), ""):
        return _ask(find_again(name.removeprefix(asked), own, place), asked)
    if name.startswith(TABLE):
        return open_pair_images(own, place)
    typed = f"{_split_name(name)[0]}{own}"
    if CODE in name:
        typed = f"{own.resolve()}:{name.partition(CODE)[2].partition('#')[0]}"
        if not has("benchmark", typed):
            raise DataError(
                f"{name} is code, in {own}, and runs only if you name it: add plugin={own} if you trust that file"
            )
    return find_benchmark(typed, place)


def set_name(typed: str) -> str:
    """Return the name in results of a benchmark as it was typed, without reading it."""
    prefixes, path = _split_name(_with_prefix(typed))
    if CODE in path:
        return f"{prefixes}{path.rpartition('/')[2]}"
    is_path = "/" in path or path in {".", "..", "~"}  # anything else may be a name already, with its "#1f0c9a2e"
    return f"{prefixes}{Path(path).expanduser().resolve().name if prefixes and is_path else path}"


def takes_options(typed: str) -> frozenset[str] | None:
    """Return which of the options data, images and strict act on a benchmark as it was typed, without reading it.

    None if only reading it would show that.
    """
    prefixes, name = _split_name(_with_prefix(typed))
    if prefixes.endswith((FOLDER, TABLE, RANKING)):
        return frozenset({"images"})
    if prefixes.endswith(CLASSES):
        return frozenset()
    declared = None if CODE in name or prefixes.endswith(SET) else declared_benchmark(name)
    if declared is None:
        return None
    acts = {
        "data": declared.files,
        "images": declared.images,
        "strict": declared.files and (declared.items or declared.rows),
    }
    return frozenset(option for option, needed in acts.items() if needed)


def _with_prefix(name: str) -> str:
    """Return the name of a file of TOML or of a table with the prefix that it may be typed without."""
    if asked := next(filter(name.startswith, ASKED), ""):
        return f"{asked}{_with_prefix(name.removeprefix(asked))}"
    if name.startswith(tuple(_OWN)):
        return name
    if name.endswith((".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")):
        return f"{TABLE}{name}"
    return f"{SET}{name}" if name.endswith(".toml") else name


def _split_name(name: str) -> tuple[str, str]:
    """Split a name into its prefixes and the rest."""
    rest = name
    while prefix := next((candidate for candidate in _OWN if rest.startswith(candidate)), ""):
        rest = rest.removeprefix(prefix)
    return name.removesuffix(rest), rest


def tell_apart(benchmarks: Sequence[Benchmark], fingerprint: Callable[[Benchmark], str]) -> list[Benchmark]:
    """Add the start of its fingerprint to the name of each set that shares it with another: `folder:pairs#1f0c9a2e`."""
    names = [benchmark.name for benchmark in benchmarks]
    distinct = [
        replace(benchmark, name=f"{benchmark.name}#{fingerprint(benchmark)[:8]}")
        if names.count(benchmark.name) > 1
        else benchmark
        for benchmark in benchmarks
    ]
    for number, member in enumerate(distinct):
        for other in distinct[:number]:
            if other.name == member.name:
                raise DataError(f"-b {other.own} and -b {member.own} are one set; name it once")
    return distinct


def load_pairs(name: str, place: Locations | None = None, *, folders: bool = False) -> PairSet:
    """Load the minimal pairs of that name, if need be from the hub; with `folders` it may be a folder's path."""
    if folders and not has("benchmark", name) and Path(name).expanduser().is_dir():
        name = f"{FOLDER}{name}"
    benchmark = find_benchmark(name, place)
    if benchmark.shape is None:
        raise DataError(f"{name} is a task ({benchmark.task}), and no set of minimal pairs")
    pairs: PairSet = benchmark.records()
    return pairs


def _open_folder(name: str, place: Locations | None) -> Benchmark:
    path = Path(name.removeprefix(FOLDER)).expanduser()
    name = f"{FOLDER}{path.resolve().name}"
    place = place or Locations()
    images = own_images(path, place)
    pairs = read_pair_set(path, name, images.find)
    items = images.relate_images(pairs.items)
    if place.images is not None or place.outside or items != pairs.items:  # its file alone does not find them
        pairs = replace(pairs, items=items, read=images)
    return pairs_benchmark(pairs, name=name, own=path.resolve(), source=str(path), place=place)


def _set_file(name: str, place: Locations | None) -> Benchmark:
    path = Path(name.removeprefix(SET)).expanduser()
    if not path.is_file():
        raise DataError(f"{name}: no file {str(path)!r}; write set:FILE.toml, a file that declares a set")
    path, place = path.resolve(), place or Locations()
    declared = read_set_file(path).model_copy(update={"name": f"{SET}{path.name}"})
    home = place if place.data is not None else replace(place, data=path.parent)
    benchmark = replace(set_benchmark(declared), own=path, place=home)
    if declared.items is not None and (declared.shape is not None or declared.task != "pairs"):
        return benchmark
    records = benchmark.records()
    benchmark = replace(benchmark, items=len(records))
    return replace(benchmark, shape=records.shape, true=records.true) if isinstance(records, PairSet) else benchmark


#: The prefix of pairs in words -> their shape, and the question.
_IN_WORDS = {
    "pairing:": ((2, 2), "which caption belongs to which image"),
    "choice:": ((1, 2), "which of two captions fits"),
}


def _open_asked(name: str, place: Locations | None) -> Benchmark:
    """Open a set of pairs that is asked in another way, or by a probe."""
    prefix = next(filter(name.startswith, ASKED))
    typed = name.removeprefix(prefix)
    try:
        pairs = find_benchmark(typed, place)
    except UnknownNameError as error:
        raise UnknownNameError(f"{error}, after {prefix!r}") from error
    if prefix == "texts:" and (pairs.shape != (1, 3) or pairs.true != 2):
        raise DataError(f"{name}: two true texts and a false one are compared; {typed} has items of another kind")
    if prefix in _IN_WORDS:
        shape, question = _IN_WORDS[prefix]
        if pairs.shape is None:
            raise DataError(f"{typed} is a task ({pairs.task}), and no set of minimal pairs")
        if pairs.shape != shape:
            reading = {"pairing:": " with --reading choice"}
            ways = (f"; write {w}{typed}{reading.get(w, '')}" for w in _IN_WORDS if _IN_WORDS[w][0] == pairs.shape)
            other = next(ways, "")
            raise DataError(
                f"{name}: {question} is asked of {shape[0]}x{shape[1]} items; {typed} has "
                f"{'x'.join(map(str, pairs.shape))}{other}"
            )
    return _ask(pairs, prefix)


def _ask(pairs: Benchmark, prefix: str) -> Benchmark:
    if prefix in PREFIXES:
        return probe_benchmark(pairs, prefix[:-1])
    if prefix == "texts:":
        return pairs.derived(prefix, "the texts alone", task="true-texts", shape=None, true=1)
    load = lru_cache(maxsize=1)(pairs.load)
    return pairs.derived(
        prefix,
        "in words",
        task=prefix[:-1],
        shape=None,
        load=load if prefix == "pairing:" else lambda at: ChoiceSet.of_pairs(load(at)),
        pictures=pairs.pictures or (lambda at: load(at).read_bytes),
    )


#: The prefixes of names, the functions that open the user's files behind them, and what a prefix alone lacks.
_OWN: Mapping[str, tuple[Callable[[str, Locations | None], Benchmark], str]] = MappingProxyType(
    {
        FOLDER: (_open_folder, "folder; write folder:PATH, for example -b folder:my_pairs"),
        SET: (_set_file, "file; write set:FILE.toml, a file that declares a set"),
        TABLE: (pair_table_benchmark, "file; write table:FILE, for example -b table:pairs.csv"),
        RANKING: (ranking_benchmark, "file; write ranking:FILE.jsonl"),
        CLASSES: (class_folder_benchmark, "folder; write classes:DIR, a folder with a folder for each class"),
        "pairing:": (_open_asked, "set of pairs; write pairing:NAME, for example -b pairing:demo"),
        "choice:": (_open_asked, "set of pairs; write choice:NAME, for example -b choice:sugarcrepe"),
        "texts:": (_open_asked, "set of pairs; write texts:NAME, for example -b texts:sugarcrepe-pp"),
        **{name: (_open_asked, f"set of pairs; write {name}NAME, for example -b {name}demo") for name in PREFIXES},
    }
)


# Benchmarks that are objects: a declaration or a pair set that the user made, in Python or in a file.


def as_benchmark(
    thing: object, place: Locations | None = None, *, name: str = "", file: Path | None = None
) -> Benchmark:
    """Return a declaration or a pair set as a benchmark, which reports find again in this process."""
    if isinstance(thing, PairSet):
        benchmark = _of_pairs(thing)
        if benchmark.name in BENCHMARKS and file is None:
            return benchmark
    elif isinstance(thing, Benchmark):
        benchmark = thing
    else:
        raise DataError(
            f"{quote(thing)} ({type(thing).__name__}) is not a benchmark: give a name (`tellapart ls benchmarks`), "
            "folder:PATH, a pair set or a Benchmark"
        )
    if file is not None:
        benchmark = replace(benchmark, name=name or benchmark.name, own=file)
    if place is not None and place != Locations():  # else it keeps the present one
        benchmark = replace(benchmark, place=place)
    if benchmark.name not in BENCHMARKS:
        add("benchmark", benchmark.name, benchmark)
    elif benchmark.load is not load_from_catalog("benchmark", benchmark.name).load:
        raise DataError(f"{benchmark.name!r} is a benchmark of the catalogue; give yours another name")
    return benchmark


def pairs_benchmark(pairs: PairSet, *, name: str, source: str, own: Path | None, place: Locations) -> Benchmark:
    """Return a pair set in memory as a benchmark; its card has the title, the licence and the citation."""
    return Benchmark(
        name=name,
        own=own,
        title=str(pairs.card.get("title") or pairs.name.removeprefix("folder:")),
        items=len(pairs),
        shape=pairs.shape,
        true=pairs.true,
        source=source,
        licence=str(pairs.card.get("licence") or "not stated"),
        citation=str(pairs.card.get("citation") or "not stated"),
        load=lambda _place: pairs,
        place=place,
    )


def _of_pairs(pairs: PairSet) -> Benchmark:
    if pairs.name in BENCHMARKS:  # loaded from it, all or in part
        declared: Benchmark = load_from_catalog("benchmark", pairs.name)
        return replace(declared, load=lambda _place: pairs, files=(), hub=None, known=None)
    folder = f"folder:{pairs.root.resolve().name}"
    is_set = any((pairs.root / listing).is_file() for listing in LISTINGS)
    if is_set and pairs.read is None and folder in {pairs.name, f"folder:{pairs.name}"}:
        home = pairs.root.resolve()
        return pairs_benchmark(pairs, name=folder, own=home, source=str(pairs.root), place=Locations())
    # The table that they were read from, where reports find their images.
    table = pairs.root.resolve() / pairs.name.removeprefix(TABLE)
    own = table if pairs.name.startswith(TABLE) and table.is_file() else None
    return pairs_benchmark(pairs, name=pairs.name, own=own, source="an object of Python", place=Locations())


def with_probes(benchmarks: Sequence[Any], probes: Sequence[str]) -> tuple[Any, ...]:
    """Return benchmarks, given by name or as objects, each followed by its probes."""
    for probe in probes:
        if probe not in PROBES:
            raise UnknownNameError(f"probe={probe!r}{nearest(probe, PROBES)}; probes are {', '.join(PROBES)}")

    def make(benchmark: Any, probe: str) -> Any:
        return f"{probe}:{benchmark}" if isinstance(benchmark, str) else probe_benchmark(as_benchmark(benchmark), probe)

    return tuple(chain.from_iterable((of, *(make(of, probe) for probe in probes)) for of in benchmarks))
