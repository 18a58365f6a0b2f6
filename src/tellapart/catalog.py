"""Names of benchmarks, models, losses and builders, and where each is made: `"module:attribute"` strings, imported when asked for.

Adding a benchmark, a model, a loss or a builder is one file and one line here. Another package adds its own through the entry
points `tellapart.benchmarks`, `tellapart.models`, `tellapart.losses` and `tellapart.builders`; it cannot replace one of these.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from tellapart.errors import UnknownNameError

__all__ = ["BENCHMARKS", "BUILDERS", "DEFAULT_MODEL", "LOSSES", "MODELS", "REFERENCES", "load", "names", "nearest"]

BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "demo": "tellapart.benchmarks.demo:DEMO",
        "winoground": "tellapart.benchmarks.winoground:WINOGROUND",
        "eqben": "tellapart.benchmarks.eqben:EQBEN",
        "valse": "tellapart.benchmarks.valse:VALSE",
        "sugarcrepe": "tellapart.benchmarks.sugarcrepe:SUGARCREPE",
        "bivlc": "tellapart.benchmarks.bivlc:BIVLC",
        "coco-counterfactuals": "tellapart.benchmarks.coco_cf:COCO_COUNTERFACTUALS",
        "aro-relation": "tellapart.benchmarks.aro:RELATION",
        "aro-attribution": "tellapart.benchmarks.aro:ATTRIBUTION",
        "aro-coco-order": "tellapart.benchmarks.aro:COCO_ORDER",
        "aro-flickr-order": "tellapart.benchmarks.aro:FLICKR_ORDER",
        "sugarcrepe-choice": "tellapart.benchmarks.sugarcrepe_choice:SUGARCREPE_CHOICE",
        "coco-counterfactuals-retrieval": "tellapart.benchmarks.retrieval:COCO_COUNTERFACTUALS_RETRIEVAL",
        "coco-counterfactuals-test": "tellapart.benchmarks.retrieval:COCO_COUNTERFACTUALS_TEST",
        "coco-retrieval": "tellapart.benchmarks.retrieval:COCO_RETRIEVAL",
        "flickr30k-retrieval": "tellapart.benchmarks.retrieval:FLICKR30K_RETRIEVAL",
        "vlue-retrieval": "tellapart.benchmarks.retrieval:VLUE_RETRIEVAL",
        "vlue-nlvr2": "tellapart.benchmarks.vlue_tasks:VLUE_NLVR2",
        "nlvr2": "tellapart.benchmarks.vlue_tasks:NLVR2_IN_DOMAIN",
        "vlue-vqa": "tellapart.benchmarks.vlue_tasks:VLUE_VQA",
        "vqa2": "tellapart.benchmarks.vqa2:VQA2",
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

#: Models that bound what a number can mean; a run without a model measures them beside the default.
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

#: Losses of a dual encoder take a `Batch`, those of a fusion encoder `Matches`; some take options after it.
LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "itc": "tellapart.train.losses.itc:itc",
        "siglip": "tellapart.train.losses.siglip:siglip",
        "negclip": "tellapart.train.losses.negclip:negclip",
        "trohn-img": "tellapart.train.losses.trohn_img:trohn_img",
        "hardneg": "tellapart.train.losses.hardneg:hardneg",
        "cyclip": "tellapart.train.losses.cyclip:cyclip",
        "eqsim": "tellapart.train.losses.eqsim:eqsim",
        "itm": "tellapart.train.losses.itm:itm",
        "ranking": "tellapart.train.losses.ranking:ranking",
        "eqsim-itm": "tellapart.train.losses.eqsim_itm:eqsim_itm",
        "eqsim-ranking": "tellapart.train.losses.eqsim_itm:eqsim_ranking",
    }
)

#: What `tellapart build` makes pair sets with.
BUILDERS: Mapping[str, str] = MappingProxyType(
    {
        "scenes": "tellapart.builders.rendered.scenes:Scenes",
        "negatives": "tellapart.builders.negatives.negatives:Negatives",
        "counterfactual-captions": "tellapart.builders.captions.counterfactuals:CounterfactualCaptions",
        "action-genome": "tellapart.builders.video.action_genome:ActionGenome",
        "geb-plus": "tellapart.builders.video.gebplus:GebPlus",
        "youcook2": "tellapart.builders.video.youcook2:YouCook2",
        "timestamped-captions": "tellapart.builders.video.timestamped:TimestampedCaptions",
        "language-negatives": "tellapart.builders.negatives.language_negatives:LanguageNegatives",
        "prompt-to-prompt": "tellapart.builders.diffusion.prompt_to_prompt:PromptToPrompt",
        "generated-images": "tellapart.builders.diffusion.candidates:GeneratedImages",
    }
)

_BUILT_IN = {"benchmark": BENCHMARKS, "model": MODELS, "loss": LOSSES, "builder": BUILDERS}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" for a name that begins a known one or is close to it, or nothing.

    >>> nearest("winogrund", ["demo", "winoground"]) == nearest("wino", ["demo", "winoground"])
    True
    >>> nearest("zebra", ["demo", "winoground"])
    ''
    """
    candidates = list(known)
    begun = [candidate for candidate in candidates if len(name) > 2 and candidate.startswith(name)]
    close = begun or difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def names(kind: str) -> list[str]:
    """List the catalogue's names of a kind, `benchmark`, `model`, `loss` or `builder`: built in first, then other packages'.

    >>> names("benchmark")[:2]
    ['demo', 'winoground']
    """
    return [*_BUILT_IN[kind], *sorted(set(_installed(kind)) - set(_BUILT_IN[kind]))]


def load(kind: str, name: str) -> Any:
    """Import what a name stands for.

    Args:
        kind: `benchmark`, `model`, `loss` or `builder`.
        name: as `names` lists it.

    Raises:
        UnknownNameError: no such name (the message names the nearest one), or two packages give it.
        Exception: whatever another package raises when it is imported, with a note that says which package that is.

    >>> load("model", "constant").__name__
    'constant'
    >>> load("model", "oracel")
    Traceback (most recent call last):
    tellapart.errors.UnknownNameError: no model 'oracel'; did you mean 'oracle'? `tellapart ls models` lists them all
    """
    target = _BUILT_IN[kind].get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module), attribute)
    found = _installed(kind).get(name, [])
    if not found:
        raise UnknownNameError(
            f"no {kind} {name!r}{nearest(name, names(kind)) or ';'} `tellapart ls {_plural(kind)}` lists them all"
        )
    if len(found) > 1:
        packages = " and ".join(sorted(_package(point) for point in found))
        raise UnknownNameError(f"{kind} {name!r} is given by {packages}; uninstall all but one")
    try:
        return found[0].load()
    except Exception as error:
        error.add_note(f"{kind} {name!r} ({found[0].value}) comes from the package {_package(found[0])}")
        raise


def _installed(kind: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"tellapart.{_plural(kind)}"):
        found.setdefault(point.name, []).append(point)
    return found


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unnamed package"
