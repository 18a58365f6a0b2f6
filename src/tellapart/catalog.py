"""Names of benchmarks, models, model prefixes, losses and builders, each with the `"module:attribute"` that it imports.

Adding one is one file and one line here. Another package adds its entries through the entry points
`tellapart.benchmarks`, `tellapart.models`, `tellapart.prefixes`, `tellapart.losses`, `tellapart.builders`,
`tellapart.filters` and `tellapart.selections`, and the user by naming a plugin or a file; neither can replace one of
these. `tellapart_render`, which comes with tellapart, has entry points of this kind, too: they are in pyproject.toml.
"""

from __future__ import annotations

import difflib
import importlib
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tellapart.errors import PluginError, TellapartWarning, UnknownNameError, first_line

__all__ = [
    "BENCHMARKS",
    "BUILDERS",
    "DEFAULT_MODEL",
    "FILTERS",
    "LOSSES",
    "METRICS",
    "MODELS",
    "PREFIXES",
    "REFERENCES",
    "SELECTIONS",
    "TASKS",
    "add",
    "has",
    "import_target",
    "load",
    "load_all",
    "names",
    "nearest",
]


def shipped_targets(kind: str) -> dict[str, str]:
    """Return the names and `"module:attribute"` of a kind that the packages of tellapart's distribution add.

    >>> shipped_targets("builder")["scenes"]
    'tellapart_render.scenes_builder:Scenes'
    """
    group = f"tellapart.{plural_of(kind)}"
    return {entry_name(point): point.value for point in _shipped_points() if point.group == group}


@cache
def _shipped_points() -> list[EntryPoint]:
    """Return the entry points of tellapart's distribution, by name.

    In a checkout they are read from pyproject.toml: it may be newer than the metadata that an editable installation
    left, and PYTHONPATH alone leaves none.
    """
    file = Path(__file__).parents[2] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.is_file() else {}
    if project.get("name") == "tellapart":
        groups = project.get("entry-points", {})
        points = [EntryPoint(name, value, group) for group in groups for name, value in groups[group].items()]
    else:
        try:
            points = list(distribution("tellapart").entry_points)
        except PackageNotFoundError:  # the folder was copied
            points = []
    return sorted(points, key=lambda point: point.name)


def installed_points(kind: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a kind of all packages that are installed, by the catalogue's name."""
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"tellapart.{plural_of(kind)}"):
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


def _list_variants(file: str, *names: str) -> dict[str, str]:
    """Return the catalogue's lines of several sets that one file declares."""
    return {name: f"tellapart.benchmarks.shipped_sets:{file}/{name}" for name in names}


_HALF_TRUTHS = ("coco-qwen", "coco-mistral", "cc3m-qwen")

BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "demo": "tellapart.benchmarks.demo:DEMO",
        "winoground": "tellapart.benchmarks.winoground:WINOGROUND",
        "eqben": "tellapart.benchmarks.eqben:EQBEN",
        "valse": "tellapart.benchmarks.valse:VALSE",
        "sugarcrepe": "tellapart.benchmarks.sugarcrepe:SUGARCREPE",
        "bivlc": "tellapart.benchmarks.bivlc:BIVLC",
        "coco-counterfactuals": "tellapart.benchmarks.retrieval:COCO_COUNTERFACTUALS",
        "aro-relation": "tellapart.benchmarks.shipped_sets:aro/aro-relation",
        "aro-attribution": "tellapart.benchmarks.shipped_sets:aro/aro-attribution",
        "aro-coco-order": "tellapart.benchmarks.shipped_sets:aro/aro-coco-order",
        "aro-flickr-order": "tellapart.benchmarks.shipped_sets:aro/aro-flickr-order",
        "sugarcrepe-pp": "tellapart.benchmarks.shipped_sets:sugarcrepe-pp",
        "cola": "tellapart.benchmarks.shipped_sets:cola",
        "cola-objects-gqa": "tellapart.benchmarks.cola_objects:GQA",
        "cola-objects-clevr": "tellapart.benchmarks.cola_objects:CLEVR",
        "cola-objects-paco": "tellapart.benchmarks.cola_objects:PACO",
        "naturalbench": "tellapart.benchmarks.shipped_sets:naturalbench/naturalbench",
        "naturalbench-test": "tellapart.benchmarks.shipped_sets:naturalbench/naturalbench-test",
        "vsr-zeroshot": "tellapart.benchmarks.shipped_sets:vsr/vsr-zeroshot",
        "vsr-zeroshot-dev": "tellapart.benchmarks.shipped_sets:vsr/vsr-zeroshot-dev",
        "vsr-random": "tellapart.benchmarks.shipped_sets:vsr/vsr-random",
        "whatsup-a": "tellapart.benchmarks.whatsup:WHATSUP_A",
        "whatsup-b": "tellapart.benchmarks.whatsup:WHATSUP_B",
        **_list_variants("whatsup", *(f"whatsup-{side}" for side in ("coco-one", "coco-two", "vg-one", "vg-two"))),
        "mmvp-vlm": "tellapart.benchmarks.shipped_sets:mmvp-vlm",
        "mmvp": "tellapart.benchmarks.shipped_sets:mmvp",
        "naturalbench-retrieval": "tellapart.benchmarks.shipped_sets:naturalbench-retrieval",
        "colorswap": "tellapart.benchmarks.shipped_sets:colorswap",
        "vismin": "tellapart.benchmarks.shipped_sets:vismin/vismin",
        "vismin-vqa": "tellapart.benchmarks.shipped_sets:vismin/vismin-vqa",
        "negbench-coco": "tellapart.benchmarks.shipped_sets:negbench/negbench-coco",
        "negbench-voc": "tellapart.benchmarks.shipped_sets:negbench/negbench-voc",
        "negbench-retrieval": "tellapart.benchmarks.shipped_sets:negbench-retrieval/negbench-retrieval",
        "negbench-negated-retrieval": "tellapart.benchmarks.shipped_sets:negbench-retrieval/negbench-negated-retrieval",
        **{
            f"spec-{subset}-{way}": f"tellapart.benchmarks.shipped_sets:spec/spec-{subset}-{way}"
            for subset in (
                "absolute-size",
                "relative-size",
                "absolute-spatial",
                "relative-spatial",
                "existence",
                "count",
            )
            for way in ("i2t", "t2i")
        },
        "eqben-mini": "tellapart.benchmarks.shipped_sets:eqben-mini",
        "svo-probes": "tellapart.benchmarks.shipped_sets:svo-probes",
        "vinoground": "tellapart.benchmarks.shipped_sets:vinoground",
        "vinoground-text": "tellapart.benchmarks.shipped_sets:vinoground-questions/vinoground-text",
        "vinoground-video": "tellapart.benchmarks.shipped_sets:vinoground-questions/vinoground-video",
        "vinoground-group": "tellapart.benchmarks.shipped_sets:vinoground-questions/vinoground-group",
        "camerabench": "tellapart.benchmarks.shipped_sets:camerabench/camerabench",
        "camerabench-motions": "tellapart.benchmarks.shipped_sets:camerabench/camerabench-motions",
        "vitatecs": "tellapart.benchmarks.shipped_sets:vitatecs",
        **{
            f"vilma-{part}": f"tellapart.benchmarks.shipped_sets:vilma/vilma-{part}"
            for part in ("counting", "change-of-state", "rare-actions", "relations", "actors")
        },
        "velociti": "tellapart.benchmarks.shipped_sets:velociti",
        "timeblind": "tellapart.benchmarks.shipped_sets:timeblind",
        "hard-positives": "tellapart.benchmarks.shipped_sets:hard-positives",
        **_list_variants("tempcompass", "tempcompass", "tempcompass-captions"),
        **_list_variants("marvl", *(f"marvl-{language}" for language in ("id", "sw", "ta", "tr", "zh"))),
        **_list_variants("mvp", "mvp", "mvp-mini"),
        **_list_variants("bla", "bla-active-passive", "bla-coordination", "bla-relative-clause"),
        **_list_variants("half-truths", *(f"half-truths-{part}" for part in _HALF_TRUTHS)),
        **_list_variants("ordering", *(f"half-truths-order-{part}" for part in _HALF_TRUTHS)),
        **_list_variants("crepe", "crepe-atom", "crepe-swap", "crepe-negate"),
        "vl-checklist-attribute": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-attribute",
        "vl-checklist-relation": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-relation",
        "vl-checklist-relation-swig": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-relation-swig",
        "vl-checklist-object": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-object",
        "vl-checklist-object-swig": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-object-swig",
        "vl-checklist-object-hake": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-object-hake",
        "vl-checklist-relation-hake": "tellapart.benchmarks.shipped_sets:vl-checklist/vl-checklist-relation-hake",
        **_list_variants("pope", "pope-random", "pope-popular", "pope-adversarial"),
        "hallusionbench": "tellapart.benchmarks.shipped_sets:hallusionbench",
        **{name: f"tellapart.benchmarks.shipped_sets:{name}" for name in ("tifa", "genai-bench", "seetrue")},
        "sugarcrepe-choice": "tellapart.benchmarks.sugarcrepe:SUGARCREPE_CHOICE",
        "coco-counterfactuals-retrieval": "tellapart.benchmarks.retrieval:COCO_COUNTERFACTUALS_RETRIEVAL",
        "coco-counterfactuals-test": "tellapart.benchmarks.retrieval:COCO_COUNTERFACTUALS_TEST",
        "coco-retrieval": "tellapart.benchmarks.retrieval:COCO_RETRIEVAL",
        "flickr30k-retrieval": "tellapart.benchmarks.retrieval:FLICKR30K_RETRIEVAL",
        "vlue-retrieval": "tellapart.benchmarks.vlue_tasks:VLUE_RETRIEVAL",
        "vlue-nlvr2": "tellapart.benchmarks.vlue_tasks:VLUE_NLVR2",
        "nlvr2": "tellapart.benchmarks.nlvr2:NLVR2",
        "nlvr2-dev": "tellapart.benchmarks.nlvr2:NLVR2_DEV",
        "vlue-vqa": "tellapart.benchmarks.vlue_tasks:VLUE_VQA",
        "vqa2": "tellapart.benchmarks.vlue_tasks:VQA2",
        "vlue-grounding": "tellapart.benchmarks.vlue_tasks:VLUE_GROUNDING",
        "refcoco+-test": "tellapart.benchmarks.refcoco:REFCOCO_TEST",
        "refcoco+-testa": "tellapart.benchmarks.refcoco:REFCOCO_TEST_A",
        "refcoco+-testb": "tellapart.benchmarks.refcoco:REFCOCO_TEST_B",
        "refcoco+-val": "tellapart.benchmarks.refcoco:REFCOCO_VAL",
        "vlue-captions": "tellapart.benchmarks.vlue_tasks:VLUE_CAPTIONS",
        "coco-captions": "tellapart.benchmarks.coco_captions:COCO_CAPTIONS",
        "gebc-val": "tellapart.benchmarks.gebplus:GEBC_VAL",
        "gebc-test": "tellapart.benchmarks.gebplus:GEBC_TEST",
        "demo-objects": "tellapart.benchmarks.classification:DEMO_OBJECTS",
        "cifar10": "tellapart.benchmarks.cifar:CIFAR10",
        "cifar100": "tellapart.benchmarks.cifar:CIFAR100",
        "caltech101": "tellapart.benchmarks.classification:CALTECH101",
        "food101": "tellapart.benchmarks.classification:FOOD101",
        "imagenet": "tellapart.benchmarks.classification:IMAGENET",
    }
)

#: The model that a run without a model measures.
DEFAULT_MODEL = "demo-encoder"

#: Models that bound what a number can mean; a run without a model measures them and the default.
REFERENCES = ("random", "constant", "blind", "bag-of-words", "oracle")

MODELS: Mapping[str, str] = MappingProxyType(
    {
        DEFAULT_MODEL: "tellapart.models.bundled:demo_encoder",
        "random": "tellapart.models.bundled:random",
        "constant": "tellapart.models.bundled:constant",
        "blind": "tellapart.models.bundled:blind",
        "bag-of-words": "tellapart.models.bundled:bag_of_words",
        "oracle": "tellapart.models.bundled:oracle",
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
        "vectors:": "tellapart.models.memory.vector_files:VECTORS",
    }
)

#: Declarations: `DualLoss` (it takes a `Batch`) or `FusionLoss` (it takes `Matches`).
LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "itc": "tellapart.training.losses.itc:ITC",
        "siglip": "tellapart.training.losses.siglip:SIGLIP",
        "negclip": "tellapart.training.losses.negclip:NEGCLIP",
        "trohn-img": "tellapart.training.losses.trohn_img:TROHN_IMG",
        "tripletclip": "tellapart.training.losses.tripletclip:TRIPLETCLIP",
        "ce-clip": "tellapart.training.losses.ce_clip:CE_CLIP",
        "cs-clip": "tellapart.training.losses.cs_clip:CS_CLIP",
        "fsc-clip": "tellapart.training.losses.fsc_clip:FSC_CLIP",
        "fsc-global": "tellapart.training.losses.fsc_global:FSC_GLOBAL",
        "negbench": "tellapart.training.losses.negbench:NEGBENCH",
        "clic": "tellapart.training.losses.clic:CLIC",
        "hardneg": "tellapart.training.losses.hardneg:HARDNEG",
        "cyclip": "tellapart.training.losses.cyclip:CYCLIP",
        "eqsim": "tellapart.training.losses.eqsim:EQSIM",
        "itm": "tellapart.training.losses.itm:ITM",
        "ranking": "tellapart.training.losses.ranking:RANKING",
        "eqsim-itm": "tellapart.training.losses.eqsim_itm:EQSIM_ITM",
        "eqsim-ranking": "tellapart.training.losses.eqsim_itm:EQSIM_RANKING",
    }
)

#: Metrics of scores: each a `Metric`, or a tuple of several from one module.
METRICS: Mapping[str, str] = MappingProxyType(
    {
        "pairs": "tellapart.metrics.pairs:PAIR_METRICS",
        "choice": "tellapart.metrics.choice:CHOICE_METRICS",
        "several-true": "tellapart.metrics.several_true:SEVERAL_TRUE_METRICS",
        "square": "tellapart.metrics.square:SQUARE_METRICS",
        "matching": "tellapart.metrics.matching:MATCHING_METRICS",
        "equivariance": "tellapart.metrics.equivariance:EQUIVARIANCE_METRICS",
    }
)

#: The tasks of a benchmark; minimal pairs come first.
TASKS: Mapping[str, str] = MappingProxyType(
    {
        "pairs": "tellapart.tasks.pairs:PAIRS",
        # Before `retrieval`, whose metrics it has, too: a first look is at the first task's that are all there.
        "distinct-retrieval": "tellapart.tasks.distinct_retrieval:DISTINCT_RETRIEVAL",
        "retrieval": "tellapart.tasks.retrieval:RETRIEVAL",
        "choice": "tellapart.tasks.choice:CHOICE",
        "pairing": "tellapart.tasks.pairing:PAIRING",
        "ranking": "tellapart.tasks.ranking:RANKING",
        "nlvr2": "tellapart.tasks.statements:NLVR2",
        "vqa": "tellapart.tasks.questions:VQA",
        "vqa2": "tellapart.tasks.questions:VQA2",
        "yes-no": "tellapart.tasks.yes_no:YES_NO",
        "true-texts": "tellapart.tasks.true_texts:TRUE_TEXTS",
        "ordered-texts": "tellapart.tasks.ordered_texts:ORDERED_TEXTS",
        "grounding": "tellapart.tasks.boxes:GROUNDING",
        "captions": "tellapart.tasks.captions:CAPTIONS",
        "moments": "tellapart.tasks.moments:MOMENTS",
        "classification": "tellapart.tasks.classification:CLASSIFICATION",
        "labels": "tellapart.tasks.labels:LABELS",
        "ratings": "tellapart.tasks.ratings:RATINGS",
    }
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
        "words": "tellapart.builders.item_filters:Words",
        "word_gap": "tellapart.builders.item_filters:WordGap",
        "same_pixels": "tellapart.builders.item_filters:SamePixels",
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


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for a name that begins a known one or is close to it, or nothing.

    >>> nearest("winogrund", ["demo", "winoground"]) == nearest("wino", ["demo", "winoground"])
    True
    >>> nearest("zebra", ["demo", "winoground"])
    ''
    """
    candidates = list(known)
    longer = [candidate for candidate in candidates if len(name) > 2 and candidate.startswith(name)]
    close = longer or difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def names(kind: str) -> list[str]:
    """List the catalogue's names of a kind (`benchmark`, `model`, `prefix`, ...): built in first, then others'.

    >>> names("benchmark")[:2]
    ['demo', 'winoground']
    """
    shipped = _shipped(kind)
    return [*shipped, *sorted({*installed_points(kind), *_ADDED[kind]} - set(shipped))]


def has(kind: str, name: str) -> bool:
    """Return whether the catalogue has a name of a kind; for a built-in one the installed packages are not searched.

    >>> has("benchmark", "demo"), has("benchmark", "dmeo")
    (True, False)
    """
    return name in _shipped(kind) or name in _ADDED[kind] or name in installed_points(kind)


def import_target(target: str) -> Any:
    """Import the attribute that `"module:attribute"` names.

    >>> import_target("tellapart.catalog:REFERENCES") is REFERENCES
    True
    """
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
        hint = nearest(name, names(kind)) or ";"
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


def load_all(kind: str, read: Callable[[str, Any], Entry]) -> dict[str, Entry]:
    """Import all entries of a kind: name -> what `read` makes of the name and the object.

    An entry of an installed package that fails is named in a warning, and left out; the others are there nevertheless.

    Raises:
        Exception: any error of a built-in entry, or of a plugin's that the user named.

    >>> load_all("task", lambda name, task: task.title)["choice"]
    'which of two captions fits the image, asked in both orders'
    """
    entries = {}
    for name in names(kind):
        try:
            entries[name] = read(name, load(kind, name))
        except Exception as error:
            if name in _shipped(kind) or name in _ADDED[kind]:
                raise
            packages = " and ".join(sorted(package_of(point) for point in installed_points(kind)[name]))
            warnings.warn(
                f"{kind} {name!r} of the package {packages} is left out, for it cannot be loaded: {first_line(error)}; "
                "mend the package or uninstall it",
                TellapartWarning,
                stacklevel=2,
            )
    return entries


@cache
def _shipped(kind: str) -> Mapping[str, str]:
    """Return the names and targets that come with tellapart: this file's, then those of its distribution's packages."""
    return {**_BUILT_IN[kind], **shipped_targets(kind)}
