"""Declarations of families: how a file of the authors becomes a module, and the readings of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from tellapart.data.scores import join_names
from tellapart.errors import ModelError
from tellapart.models.fusion.family import Contrast, Halves, Tensors
from tellapart.models.huggingface.inputs import ImageInputs
from tellapart.models.torch.network import Network, describe_misfit

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@cache
def published_facts(family: str) -> Mapping[str, Any]:
    """Return what the published files of a family hold, by its `NativeFamily.name`: its table of `published.toml`."""
    with files("tellapart_native").joinpath("published.toml").open("rb") as file:
        return tomllib.load(file)[family]


#: Width of one attention head in every published file, unless a family names another.
HEAD_WIDTH = 64

#: Parts that not every layer has: those that read the other input are in the last layers, and those of `_FIRST` in the
#: first: T5's table of positions, a ResNet's shortcut.
_OFTEN = re.compile("crossattention|i2t|t2i|relative_attention_bias|downsample")
_FIRST = ("relative_attention_bias", "downsample")

#: The norm of a layer, or the matrix of one without norms, whose size is the layer's width.
_NORM = re.compile(r"((norm|LayerNorm|bn)\d?|ln_\d|attention\.out)\.weight$")

#: Bytes; torch's memory begins at a multiple of them.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """The facts of a file about its model: shapes of its tensors, and settings.

    Attributes:
        source: the file's name in errors.
        shapes: name of a tensor -> its shape.
        settings: fields of `config.json` beside the file, or of the configuration in the checkpoint.
        heads_found: setting -> the number of attention heads that `count_heads` returned for it.
        unpublished: pattern of layers -> their number, or name of a table -> its rows, if its width is not published.
    """

    source: str
    shapes: Mapping[str, tuple[int, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    heads_found: dict[str, int] = field(default_factory=dict)
    unpublished: dict[str, int] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.shapes

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape."""
        if name not in self.shapes:
            raise ModelError(f"{self.source} has no {name}; it is of another family, or incomplete")
        return tuple(self.shapes[name])

    def find_layers(self, pattern: str) -> dict[int, dict[str, tuple[int, ...]]]:
        """Return number in the place of `{}` -> the rest of each name that begins with the pattern -> its shape."""
        start = re.compile(re.escape(pattern).replace(r"\{\}", r"(\d+)"))
        layers: dict[int, dict[str, tuple[int, ...]]] = {}
        for name, shape in self.shapes.items():
            if match := start.match(name):
                layers.setdefault(int(match[1]), {})[name[match.end() :]] = tuple(shape)
        return layers

    def count_parts(self, pattern: str) -> int:
        """Return how many numbers stand in the place of `{}` in names that begin with the pattern: layers, blocks."""
        layers = self.find_layers(pattern)
        absent = [f"{pattern.format(number)}*" for number in range(max(layers, default=0) + 1) if number not in layers]
        if not any("blocks." in part for parts in layers.values() for part in parts):  # stages, whose parts differ
            absent += [f"{pattern.format(number)}{part}" for number, part in sorted(_find_gaps(layers))]
        if absent:
            raise ModelError(f"{self.source} is incomplete: it lacks {join_names(absent, 3)}")
        return len(layers)

    def expect_published(self, family: str) -> None:
        """Compare depths and rows with the settings, else with published sizes; note those of an unpublished width."""
        depths = self.settings.get("depths")  # in the `config.json` of a converted model
        facts = published_facts(family)
        for pattern, sizes in facts["depths"].items():
            if not self.has_prefix(pattern.partition("{}")[0]):
                continue  # another kind of tower, or another task's file
            numbers, candidates, width = self._measure_parts(pattern)
            count, wanted = len(numbers), sizes.get(str(width))
            if wanted is None:
                self.unpublished[pattern] = count
            stated = self.settings.get(facts.get("depth_settings", {}).get(pattern, ""))
            if stated is None and isinstance(depths, Mapping):
                stated = depths.get(pattern)
            if stated is not None and not isinstance(stated, int):
                raise ModelError(f"{self.source}: the settings state {stated!r} of {pattern}; a number is expected")
            wanted, evidence = (wanted, "published files have") if stated is None else ((stated,), "the settings state")
            if wanted is None or count in wanted:
                continue
            depth_there = min((depth for depth in wanted if depth > count), default=count)
            absent = sorted({*(candidates or range(depth_there))} - {*numbers})
            absent = absent[count - depth_there :] if count < depth_there else []
            lacks = f"it lacks {join_names([_name_part(pattern, number) for number in absent], 3)}: " if absent else ""
            raise ModelError(
                f"{self.source} is incomplete: {lacks}it has {count} of {_name_part(pattern, '*')} at width {width}, "
                f"and {evidence} {' or '.join(map(str, wanted))}; if it is whole, state it in a config.json beside it: "
                f'{{"model_type": "{family}", "depths": {{"{pattern}": {count}}}}}'
            )

    def _measure_parts(self, pattern: str) -> tuple[Collection[int], Collection[int], int]:
        """Return the numbers of a pattern's layers or rows, those of all layers if only some have it, and the width."""
        first, layered, part = pattern.partition("{}.")
        if not layered:
            rows, width = self.shape_of(pattern)
            return range(rows), (), width
        layers = self.find_layers(first + layered)
        norms = (shape[0] for name, shape in layers[min(layers)].items() if _NORM.search(name)) if layers else ()
        return self.find_layers(pattern), layers if part else (), min(norms, default=0)

    def has_prefix(self, prefix: str) -> bool:
        """Return whether a tensor's name begins so."""
        return any(name.startswith(prefix) for name in self.shapes)

    def count_heads(self, width: int, setting: str = "num_attention_heads", each: int = HEAD_WIDTH) -> int:
        """Return the number of attention heads, which is in no shape: as configured, or of the published width each."""
        heads = self.settings.get(setting)
        if heads is None and width % each == 0:
            heads = width // each
        if not isinstance(heads, int) or heads < 1 or width % heads:
            got = f"{setting} is {heads!r}" if setting in self.settings else f"nothing names its {setting}"
            raise ModelError(
                f"{self.source} has states of width {width}, and {got}; put a config.json with {setting}, a divisor of "
                f"{width}, beside it"
            )
        self.heads_found[setting] = heads
        return heads


def _name_part(pattern: str, number: int | str) -> str:
    return f"{pattern.format(number)}*" if "{}" in pattern else f"{pattern}, row {number}"


def _find_gaps(layers: Mapping[int, Mapping[str, tuple[int, ...]]]) -> set[tuple[int, str]]:
    """Return number and part of what a layer lacks, although other layers of its kind have it."""
    kinds: dict[str, dict[int, set[str]]] = {}
    for number, parts in layers.items():
        for part in parts:
            kind = match[0] if (match := _OFTEN.search(part)) else ""
            kinds.setdefault(kind, {}).setdefault(number, set()).add(part)
    gaps = set()
    for kind, holders in kinds.items():
        names, first = set().union(*holders.values()), min(holders) if kind else 0
        last = max(holders if kind in _FIRST else layers)
        gaps |= {(n, part) for n in layers if first <= n <= last for part in names - holders.get(n, set())}
    return gaps


class NativeHalves(Halves):
    """The two encoders of a family of this package; a text is cut at the authors' number of tokens, the context.

    Attributes:
        head: the part of the module that reads the pooled states of a pair.
    """

    head: ClassVar[str] = ""
    match: int | None = 1

    def __init__(self, module: Network) -> None:
        self.module = module
        self.context: int = module.config.context

    def take_words(self, tokenizer: PreTrainedTokenizerBase, folder: Path = Path()) -> None:
        """Take further words that the halves need, from the tokenizer or from a list in the file's folder."""

    def pool_states(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the layers that join the halves: a state for each pair, `(batch, width)`."""
        raise NotImplementedError(f"{type(self).__name__} has no layers that join the halves of a pair")

    def match_head(self, pooled: Tensor) -> Tensor:
        """Take the output of `pool_states` to the head's numbers, `(batch, classes)`."""
        return self.module.get_submodule(self.head)(pooled)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the joint layers and the head: `(batch, classes)`."""
        return self.match_head(self.pool_states(images, texts))

    @property
    def facts(self) -> str:
        """The configuration, as part of the fingerprint."""
        return str(self.module.config)

    @property
    def notes(self) -> tuple[str, ...]:
        """Depths that only the file's tensors show."""
        depths: Mapping[str, int] = self.module.config.depths
        layers = [(pattern.format("*").removesuffix("."), n) for pattern, n in depths.items() if "{}" in pattern]
        counts = ", ".join(f"{count} of {pattern}" for pattern, count in layers)
        return (f"no published size of this model: its depth is counted from the file: {counts}",) if counts else ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One number that a model gives an image and a text.

    Attributes:
        halves: makes the halves from the module. Of a cosine, each half is one vector.
        read: meaning of the joint's output: `itm`, `itm_logit`, `cosine`, `likelihood`; or from another task's
            head: `answers`, `two_images`, `heat` or `box`.
        needs: the tensor that a file must have for it.
        lacks: a tensor that it must not have, as another task's file does; empty for none.
        prompt: a wording around a text, which replaces `{}`; None for the family's.
        clean: the authors' cleaner of captions for it; None for the family's.
    """

    halves: Callable[[Network], NativeHalves]
    read: str
    needs: str
    lacks: str = ""
    prompt: str | None = None
    clean: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class NativeFamily:
    """A family of models, and how its authors' files are read.

    Attributes:
        name: the prefix, and `model_type` in `config.json` of a converted model.
        title: the model's name in listings and errors.
        build: makes the module on torch's device `meta`, its `config` included; names of its parameters are the file's.
        readings: name -> reading; the default is the first that a file can be read by (`choose_reading`).
        vocabulary: the hub's name of the tokenizer.
        images: makes the preprocessing from the module; None of a family that reads a detector's regions.
        ends: whether a text is read with a token at its end, such as [SEP].
        rename: takes a name in the file to that in the module.
        resize: takes the tensors to another image size, by the authors' method; None if they have no method.
        clean: the authors' cleaner of captions; None if they have none, or none is known.
        prompt: a wording around a caption, which replaces `{}`.
        begin_training: adds parts to a module, for a reading, that training begins with and a file may lack;
            None if the family cannot be trained.
        holds_settings: whether a file without its authors' settings is refused: numbers depend on them.
        contrast: unimodal vectors of a trainable family; None if it has none.
    """

    name: str
    title: str
    build: Callable[[Layout], Network]
    readings: Mapping[str, Reading]
    vocabulary: str
    images: Callable[[Network], ImageInputs] | None = None
    ends: bool = True
    rename: Callable[[str], str] = str
    resize: Callable[[dict[str, Tensor], int], dict[str, Tensor]] | None = None
    clean: Callable[[str], str] | None = None
    prompt: str = "{}"
    begin_training: Callable[[Network, str], None] | None = None
    contrast: Contrast | None = None
    holds_settings: bool = False

    def keep_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors that a reading may need, under the module's names."""
        facts = published_facts(self.name)
        ignored = list(facts.get("ignored", ()))
        for beginning, patterns in facts.get("ignored_without", {}).items():
            if not any(name.startswith(beginning) for name in tensors):
                ignored += patterns
        return {
            self.rename(name): tensor
            for name, tensor in tensors.items()
            if not any(fnmatchcase(name, pattern) for pattern in ignored)
        }

    def build_module(self, layout: Layout) -> Network:
        """Build the module without numbers, whose tensors are the file's: each is there, in its shape, and no other."""
        layout.expect_published(self.name)
        with torch.device("meta"):
            module = self.build(layout).eval().requires_grad_(False)
        expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
        if misfit := describe_misfit(expected, layout.shapes):
            raise ModelError(f"{layout.source} does not fit {self.title}: {misfit}")
        return module

    def fit_module(self, source: str, module: Network, tensors: Mapping[str, Tensor]) -> None:
        """Put a layout's tensors into the module that was built from it."""
        module.load_state_dict({name: _align_memory(tensor.float()) for name, tensor in tensors.items()}, assign=True)
        bad = next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None)
        if bad is not None:
            raise ModelError(f"{source} holds NaN or infinity, first in {bad}")


def _align_memory(tensor: Tensor) -> Tensor:
    """Return a tensor at an address that torch would choose: kernels round otherwise on others, as a file may have."""
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor
