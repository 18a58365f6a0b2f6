"""Names of benchmarks, models, model prefixes, losses and builders, each with the `"module:attribute"` that it imports.

Adding one is one file and one line here. Another package adds its entries through the entry points
`tellapart.benchmarks`, `tellapart.models`, `tellapart.prefixes`, `tellapart.losses`, `tellapart.builders`,
`tellapart.filters` and `tellapart.selections`, and the user by naming a plugin or a file; neither can replace one of
these. `tellapart_render`, which comes with tellapart, has entry points of this kind, too: they are in pyproject.toml.
"""

from __future__ import annotations

import importlib
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from tellapart.errors import PluginError, TellapartWarning, UnknownNameError, first_line, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "BENCHMARKS", "BUILDERS", "DEFAULT_MODEL", "FILTERS", "LOSSES", "METRICS", "MODELS", "PREFIXES", "REFERENCES",
    "SELECTIONS", "TASKS", "Entries", "Late", "add", "has", "import_target", "is_ranked", "load", "names", "nearest",
]  # fmt: skip


def is_ranked(model: str) -> bool:
    """Return whether a model is compared with others: no reference model, and no draw of another's answers."""
    return model not in REFERENCES and not model.startswith("sampled:")


def shipped_targets(kind: str) -> dict[str, str]:
    """Return the names and `"module:attribute"` of a kind that the packages of tellapart's distribution add."""
    group = f"tellapart.{plural_of(kind)}"
    return {entry_name(point): point.value for point in _shipped_points() if point.group == group}


@cache
def _shipped_points() -> list[EntryPoint]:
    """Return the entry points of tellapart's distribution, by name.

    In a checkout they are read from pyproject.toml: it may be newer than the metadata that an editable installation
    left, and PYTHONPATH alone leaves none.
    """
    from importlib import metadata  # it is a third of this module's import

    file = Path(__file__).parents[2] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.is_file() else {}
    if project.get("name") == "tellapart":
        groups = project.get("entry-points", {})
        points = [metadata.EntryPoint(name, value, group) for group in groups for name, value in groups[group].items()]
    else:
        try:
            points = list(metadata.distribution("tellapart").entry_points)
        except metadata.PackageNotFoundError:  # the folder was copied
            points = []
    return sorted(points, key=lambda point: point.name)


def installed_points(kind: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a kind of all packages that are installed, by the catalogue's name."""
    from importlib import metadata

    points: dict[str, list[EntryPoint]] = {}
    for point in metadata.entry_points(group=f"tellapart.{plural_of(kind)}"):
        points.setdefault(entry_name(point), []).append(point)
    return points


def entry_name(point: EntryPoint) -> str:
    """Return the catalogue's name: that of an entry point cannot end in a colon, and `mine` is the prefix `mine:`."""
    return f"{point.name}:" if point.group == "tellapart.prefixes" else point.name


def plural_of(kind: str) -> str:
    """Return the name of a kind's entry points and listing.

    >>> plural_of("prefix"), plural_of("loss"), plural_of("model")
    ('prefixes', 'losses', 'models')
    """
    return f"{kind}es" if kind.endswith(("s", "x")) else f"{kind}s"


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that gives an entry point."""
    return point.dist.name if point.dist else "an unnamed package"


Entry = TypeVar("Entry")


def _list_targets(room: str, places: str, *, capitals: bool = True) -> Mapping[str, str]:
    """Return name -> `"module:attribute"`, in the order of `places`, which are separated by blanks.

    A place is `module:name,name`; a `module` whose only name is its own; or a TOML file in the room's folder `sets`,
    which declares its names. The attribute is the name as an identifier: `ce-clip` is `CE_CLIP` (`ce_clip` without
    `capitals`).
    """
    targets: dict[str, str] = {}
    for place in places.split():
        module, _, listed = place.partition(":")
        if module.endswith(".toml"):
            file = Path(__file__).parents[1] / room.replace(".", "/") / "sets" / module
            # tomllib takes ten times as long.
            declared = re.findall(r'^[ {]*name = "(.+?)"', file.read_text(encoding="utf-8"), re.MULTILINE)
            sets = f"{room}.shipped_sets:{file.stem}"
            targets |= {name: sets if len(declared) == 1 else f"{sets}/{name}" for name in declared}
        else:
            for name in listed.split(",") if listed else [module.replace("_", "-")]:
                target = name.replace("+", "").replace("-", "_")
                targets[name] = f"{room}.{module}:{target.upper() if capitals else target}"
    return MappingProxyType(targets)


#: In the order of `tellapart ls benchmarks`.
BENCHMARKS = _list_targets(
    "tellapart.benchmarks",
    """
    demo.toml winoground.toml eqben.toml valse.toml sugarcrepe.toml bivlc.toml coco-counterfactuals.toml aro.toml
    sugarcrepe-pp.toml cola.toml cola-objects.toml naturalbench.toml vsr.toml whatsup-photographs.toml whatsup.toml
    mmvp-vlm.toml mmvp.toml naturalbench-retrieval.toml colorswap.toml vismin.toml negbench.toml
    negbench-retrieval.toml spec.toml eqben-mini.toml svo-probes.toml vinoground.toml
    vinoground-questions.toml camerabench.toml vitatecs.toml vilma.toml velociti.toml timeblind.toml
    hard-positives.toml tempcompass.toml marvl.toml mvp.toml bla.toml half-truths.toml ordering.toml crepe.toml
    vl-checklist.toml pope.toml hallusionbench.toml tifa.toml genai-bench.toml seetrue.toml
    urban1k.toml docci.toml dci.toml imageinwords.toml fg-ovd.toml auto-comp.toml vlms-are-biased.toml visualflip.toml
    counterbench.toml vb.toml geneval2.toml editreward-bench.toml
    sugarcrepe-choice.toml coco-counterfactuals-retrieval.toml caption-retrieval.toml
    vlue-retrieval.toml vlue-nlvr2.toml nlvr2.toml vlue-vqa.toml vqa2.toml vlue-grounding.toml refcoco.toml
    vlue-captions.toml coco-captions.toml gebc.toml demo-objects.toml cifar.toml class-trees.toml
    """,
)

#: The model that a run without a model measures.
DEFAULT_MODEL = "demo-encoder"

#: Models that bound what a number can mean; a run without a model measures them and the default.
REFERENCES = ("random", "constant", "blind", "bag-of-words", "oracle")

MODELS: Mapping[str, str] = MappingProxyType(
    {
        DEFAULT_MODEL: "tellapart.models.reference:demo_encoder",
        "random": "tellapart.models.reference:random",
        "constant": "tellapart.models.reference:constant",
        "blind": "tellapart.models.reference:blind",
        "bag-of-words": "tellapart.models.reference:bag_of_words",
        "oracle": "tellapart.models.reference:oracle",
    }
)

#: Models that are named by their parts: a prefix, and a name or a path after it.
PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "onnx:": "tellapart.models.onnx.dual_encoder:ONNX",
        "compact:": "tellapart.models.compact.dual_encoder:COMPACT",
        "open_clip:": "tellapart.models.openclip.dual_encoder:OPEN_CLIP",
        "hf-hub:": "tellapart.models.openclip.dual_encoder:HF_HUB",
        "local-dir:": "tellapart.models.openclip.dual_encoder:LOCAL_DIR",
        "hf:": "tellapart.models.huggingface.load:HF",
        "api:": "tellapart.models.api.load:API",
        "st:": "tellapart.models.sentence_transformers.load:ST",
        "sampled:": "tellapart.models.generative.sampling:SAMPLED",
        "vectors:": "tellapart.models.memory.external:VECTORS",
    }
)

#: Functions of a `Batch` (dual encoders) or of `Matches` (fusion encoders), declared by `@loss`.
LOSSES = _list_targets(
    "tellapart.training.losses",
    """
    contrast:itc,siglip,negclip,trohn-img,tripletclip,ce-clip,cs-clip,fsc-clip,fsc-global,negbench,clic,hardneg,cyclip
    eqsim:eqsim,itm,ranking,eqsim-itm,eqsim-ranking
    """,
    capitals=False,
)

#: Metrics of scores: each a `Metric`, or a tuple of several from one module.
METRICS: Mapping[str, str] = MappingProxyType(
    {
        "pairs": "tellapart.metrics.pairs:PAIR_METRICS",
        "choice": "tellapart.metrics.choice:CHOICE_METRICS",
        "square": "tellapart.metrics.square:SQUARE_METRICS",
        "matching": "tellapart.metrics.matching:MATCHING_METRICS",
        "equivariance": "tellapart.metrics.equivariance:EQUIVARIANCE_METRICS",
    }
)

#: The tasks of a benchmark; minimal pairs come first. `distinct-retrieval` is before `retrieval`, whose metrics it has,
#: too: a first look is at the first task's that are all there.
TASKS = _list_targets(
    "tellapart.tasks",
    """
    pairs retrieval:distinct-retrieval,retrieval choice:choice,pairing ratings:ranking words:nlvr2
    words:vqa,vqa2,yes-no pairs:true-texts,ordered-texts boxes:grounding words:captions moments classification
    retrieval:labels ratings:ratings,preference words:open
    """,
)

#: The builders of `tellapart build`.
BUILDERS: Mapping[str, str] = MappingProxyType(
    {
        "negatives": "tellapart.builders.negatives.negatives:Negatives",
        "counterfactual-captions": "tellapart.builders.captions.counterfactuals:CounterfactualCaptions",
        "action-genome": "tellapart.builders.video.action_genome:ActionGenome",
        "geb-plus": "tellapart.builders.video.gebplus:GebPlus",
        "youcook2": "tellapart.builders.video.youcook2:YouCook2",
        "timestamped-captions": "tellapart.builders.video.timestamped:TimestampedCaptions",
        "language-negatives": "tellapart.builders.negatives.language_negatives:LanguageNegatives",
    }
)

#: The filters of a recipe's `[[filters]]`: each looks at one item.
FILTERS: Mapping[str, str] = MappingProxyType(
    {
        "words": "tellapart.builders.selections:Words",
        "word_gap": "tellapart.builders.selections:WordGap",
        "same_pixels": "tellapart.builders.selections:SamePixels",
    }
)

#: The selections of a recipe's `[[selections]]`: each looks at the full set.
SELECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "distinct": "tellapart.builders.selections:Distinct",
        "per_cluster": "tellapart.builders.selections:PerCluster",
        "sample": "tellapart.builders.selections:Sample",
        "quantile": "tellapart.builders.negatives.thresholds:Quantile",
        "similarity": "tellapart.builders.negatives.thresholds:Similarity",
        "refine": "tellapart.builders.negatives.thresholds:Refine",
    }
)

_BUILT_IN = {
    "benchmark": BENCHMARKS,
    "model": MODELS,
    "prefix": PREFIXES,
    "loss": LOSSES,
    "metric": METRICS,
    "task": TASKS,
    "builder": BUILDERS,
    "filter": FILTERS,
    "selection": SELECTIONS,
}


#: The entries that the user has added in this process, by kind: a plugin, a file, an object. A recipe, a configuration
#: or a run folder can name an entry, and cannot add one.
_ADDED: dict[str, dict[str, Any]] = {kind: {} for kind in _BUILT_IN}


def add(kind: str, name: str, thing: Any) -> None:
    """Add an object under a name for the rest of this process, in place of one that was added under it before.

    Raises:
        UnknownNameError: no such kind, or the name is built in.

    >>> add("model", "mine", lambda options: "a model")
    >>> load("model", "mine")(None)
    'a model'
    """
    if kind not in _BUILT_IN:
        raise UnknownNameError(
            f"no kind {kind!r} to add {name!r} to{nearest(kind, _BUILT_IN) or ';'} use one of {', '.join(_BUILT_IN)}"
        )
    if name in _shipped(kind):
        raise UnknownNameError(f"{kind} {name!r} is built in; choose another name")
    _ADDED[kind][name] = thing


def names(kind: str) -> list[str]:
    """List the catalogue's names of a kind (`benchmark`, `model`, `prefix`, ...): built in first, then others'."""
    shipped = _shipped(kind)
    return [*shipped, *sorted({*installed_points(kind), *_ADDED[kind]} - set(shipped))]


def has(kind: str, name: str) -> bool:
    """Return whether the catalogue has a name of a kind; for a built-in one the installed packages are not searched."""
    return name in _shipped(kind) or name in _ADDED[kind] or name in installed_points(kind)


def import_target(target: str) -> Any:
    """Import the attribute that `"module:attribute"` names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load(kind: str, name: str) -> Any:
    """Import the object behind a name.

    Args:
        kind: `benchmark`, `model`, `prefix`, `loss` or `builder`.
        name: as `names` lists it.

    Raises:
        UnknownNameError: no such name (the message names the nearest one), or two packages give it.
        Exception: any error of another package when it is imported, with a note that names the package.

    >>> load("prefix", "onnx:").forms
    {'onnx:PATH': 'a folder with config.json, image.onnx, text.onnx and tokenizer.json'}
    """
    target = _shipped(kind).get(name)
    if target is not None:
        return import_target(target)
    if name in _ADDED[kind]:
        return _ADDED[kind][name]
    points = installed_points(kind).get(name, [])
    if not points:
        listing = "models" if kind == "prefix" else plural_of(kind)
        other = "; weights of the hub are hf:OWNER/NAME or open_clip:NAME/TAG;" if kind == "model" else ";"
        hint = nearest(name, names(kind)) or other
        raise UnknownNameError(f"no {kind} {name!r}{hint} `tellapart ls {listing}` lists them all")
    if len(points) > 1:
        packages = " and ".join(sorted(package_of(point) for point in points))
        raise UnknownNameError(f"{kind} {name!r} is given by {packages}; uninstall all but one")
    try:
        try:
            return points[0].load()
        except SystemExit as ended:
            raise PluginError(f"SystemExit: {ended.code}, where it is imported") from ended
    except Exception as error:
        error.add_note(f"{kind} {name!r} ({points[0].value}) comes from the package {package_of(points[0])}")
        raise


class Entries(Mapping[str, Entry]):
    """All entries of a kind: name -> the result of `read(name, object)`. A built-in entry is imported on first use.

    Entries of plugins are imported all together, when the first of them is asked for. If the import of an installed
    package's entry fails, a warning names the entry, and the entry is left out.

    Raises:
        Exception: any error of a built-in entry, or of a plugin's that the user named.
    """

    def __init__(self, kind: str, read: Callable[[str, Any], Entry]) -> None:
        self._kind, self._read = kind, read

    def __getitem__(self, name: str) -> Entry:
        if name in _shipped(self._kind):
            return self._read(name, load(self._kind, name))
        return self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*_shipped(self._kind), *self._others)

    def __len__(self) -> int:
        return sum(1 for _ in self)  # `len([*self])` would call this method again

    @cached_property
    def _others(self) -> dict[str, Entry]:
        entries = {}
        for name in names(self._kind)[len(_shipped(self._kind)) :]:
            try:
                entries[name] = self._read(name, load(self._kind, name))
            except Exception as error:
                if name in _ADDED[self._kind]:
                    raise
                packages = " and ".join(sorted(package_of(point) for point in installed_points(self._kind)[name]))
                warnings.warn(
                    f"{self._kind} {name!r} of the package {packages} is left out, for it cannot be loaded: "
                    f"{first_line(error)}; mend the package or uninstall it",
                    TellapartWarning,
                    stacklevel=2,
                )
        return entries


class Late(Mapping[str, Entry]):
    """Name -> object, for tables that are slow to import.

    Names in `first` are looked up there. Any other name, and a listing of all, calls `read` once, which has them all.
    """

    def __init__(self, read: Callable[[], Mapping[str, Entry]], first: Mapping[str, Entry]) -> None:
        self._read, self._first = cache(read), first

    def __getitem__(self, name: str) -> Entry:
        return self._first[name] if name in self._first else self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


@cache
def _shipped(kind: str) -> Mapping[str, str]:
    """Return the names and targets that come with tellapart: this file's, then those of its distribution's packages."""
    return {**_BUILT_IN[kind], **shipped_targets(kind)}
